//! The TLS of an open listener, and how it changes while the listener is open.

use entrepot_net::tls::{TlsConfig, TlsConfigError, TlsOptions};
use entrepot_nouns::{Env, Listener};

use crate::failure::{Exit, Failure};

/// The TLS of an open listener; none where it speaks clear text. A changed listener gets the
/// successor of what it had, so that clients can resume TLS sessions across the change where that
/// is allowed.
#[derive(Default)]
pub(super) struct ServedTls(Option<TlsConfig>);

impl ServedTls {
    /// What new connections are given from now on. After an error the old one stays.
    pub(super) fn change(
        &mut self,
        listener: &Listener,
        options: Option<&TlsOptions>,
        env: &Env,
    ) -> Result<Option<TlsConfig>, Failure> {
        let successor = |options: &TlsOptions| match &self.0 {
            Some(old) => old.renewed(options),
            None => TlsConfig::new(options, env),
        };
        self.0 = options.map(successor).transpose().map_err(unusable)?;
        if let Some(warning) = self.0.as_ref().and_then(TlsConfig::warning) {
            tracing::warn!(listener = %listener.name, "{warning}");
        }
        Ok(self.0.clone())
    }
}

fn unusable(error: TlsConfigError) -> Failure {
    Failure::new(error.code(), Exit::Failed, error.to_string())
}
