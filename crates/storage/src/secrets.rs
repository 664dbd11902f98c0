//! What a store needs to log in at its endpoint.

use entrepot_nouns::Secret;

/// The secrets of an endpoint, already opened with the master key.
#[derive(Clone, Default)]
pub struct ResolvedSecrets {
    /// Secret key of an object store, or password of a server.
    pub secret: Option<Secret>,
    /// Private key to log in to a server, OpenSSH form.
    pub private_key: Option<Secret>,
}
