//! The settings of an open FTP listener, and how they change while it is open.

use entrepot_ftp::FtpConfig;
use entrepot_net::tls::{TlsConfig, TlsConfigError, TlsOptions};
use entrepot_nouns::{Env, Listener};
use tokio::sync::watch;

use crate::failure::{Exit, Failure};

/// The settings that new connections to an open FTP listener get. A connection keeps those it
/// began with.
pub(super) struct FtpSettings {
    config: watch::Sender<FtpConfig>,
    /// A changed listener gets the successor of this, so that clients can resume TLS sessions
    /// across the change where that is allowed.
    tls: Option<TlsConfig>,
}

impl FtpSettings {
    /// Settings of a listener that is about to open; `tls` is absent where it speaks clear text.
    pub(super) fn new(
        listener: &Listener,
        tls: Option<&TlsOptions>,
        env: &Env,
    ) -> Result<FtpSettings, Failure> {
        let tls = tls.map(|options| TlsConfig::new(options, env)).transpose().map_err(unusable)?;
        warn(listener, tls.as_ref());
        let config = watch::Sender::new(FtpConfig::new(listener, tls.clone()));
        Ok(FtpSettings { config, tls })
    }

    /// What the listener reads its settings from.
    pub(super) fn subscribe(&self) -> watch::Receiver<FtpConfig> {
        self.config.subscribe()
    }

    /// Gives other settings to connections from now on. After an error the old ones stay.
    pub(super) fn change(
        &mut self,
        listener: &Listener,
        tls: Option<&TlsOptions>,
        env: &Env,
    ) -> Result<(), Failure> {
        let successor = |options: &TlsOptions| match &self.tls {
            Some(old) => old.renewed(options),
            None => TlsConfig::new(options, env),
        };
        self.tls = tls.map(successor).transpose().map_err(unusable)?;
        warn(listener, self.tls.as_ref());
        self.config.send_replace(FtpConfig::new(listener, self.tls.clone()));
        Ok(())
    }
}

fn unusable(error: TlsConfigError) -> Failure {
    Failure::new(error.code(), Exit::Failed, error.to_string())
}

fn warn(listener: &Listener, tls: Option<&TlsConfig>) {
    if let Some(warning) = tls.and_then(TlsConfig::warning) {
        tracing::warn!(listener = %listener.name, "{warning}");
    }
}
