//! The settings of an open listener that may speak TLS, and how they change while it is open.

use entrepot_net::tls::{TlsConfig, TlsOptions};
use entrepot_nouns::{Env, Listener};
use tokio::sync::watch;

use super::served_tls::ServedTls;
use crate::failure::Failure;

/// Makes the configuration of a protocol from the listener and its TLS.
type MakeConfig<C> = fn(&Listener, Option<TlsConfig>) -> C;

/// The settings that new connections to an open listener get. A connection keeps those it began
/// with.
pub(super) struct ServedSettings<C> {
    make: MakeConfig<C>,
    config: watch::Sender<C>,
    tls: ServedTls,
}

impl<C> ServedSettings<C> {
    /// Settings of a listener that is about to open; `tls` is absent where it speaks clear text.
    pub(super) fn new(
        make: MakeConfig<C>,
        listener: &Listener,
        tls: Option<&TlsOptions>,
        env: &Env,
    ) -> Result<ServedSettings<C>, Failure> {
        let mut served = ServedTls::default();
        let first = make(listener, served.change(listener, tls, env)?);
        Ok(ServedSettings { make, config: watch::Sender::new(first), tls: served })
    }

    /// What the listener reads its settings from.
    pub(super) fn subscribe(&self) -> watch::Receiver<C> {
        self.config.subscribe()
    }

    /// Gives other settings to connections from now on. After an error the old ones stay.
    pub(super) fn change(
        &mut self,
        listener: &Listener,
        tls: Option<&TlsOptions>,
        env: &Env,
    ) -> Result<(), Failure> {
        let tls = self.tls.change(listener, tls, env)?;
        self.config.send_replace((self.make)(listener, tls));
        Ok(())
    }
}
