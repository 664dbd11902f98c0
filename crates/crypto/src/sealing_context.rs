//! What a secret is sealed for, spelt in this one place.

use std::fmt;

use entrepot_nouns::endpoint::TargetSecret;
use entrepot_nouns::{Kind, Name};

/// One field of one noun of one site. It is authenticated with the secret: what was sealed for one
/// context opens in no other, so a row or document that was copied to another noun, or to a noun of
/// the same name in another site, does not take the secret along.
///
/// The site counts by its name and not by its id: names never change, and an export that is applied
/// to a new installation, where the sites have new ids, still opens under the same master key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealingContext {
    site: Name,
    kind: Kind,
    name: Name,
    field: &'static str,
}

impl SealingContext {
    /// For the private half of a key.
    pub fn private_key(site: &Name, key: &Name) -> Self {
        Self::new(site, Kind::Key, key, "private")
    }

    /// For the secret of an account's code generator.
    pub fn code_generator(site: &Name, account: &Name) -> Self {
        Self::new(site, Kind::Account, account, "totp")
    }

    /// For the one secret that the target of an endpoint has.
    pub fn endpoint(site: &Name, endpoint: &Name, secret: &TargetSecret<'_>) -> Self {
        Self::new(site, Kind::Endpoint, endpoint, secret.word())
    }

    /// For the values that the sessions of a model have.
    pub fn model_users(site: &Name, model: &Name) -> Self {
        Self::new(site, Kind::Model, model, "users")
    }

    /// For the private half of the key by which a node signs its journal. `site` is `main`, `node`
    /// the node's name.
    pub fn node_key(site: &Name, node: &Name) -> Self {
        Self::new(site, Kind::Key, node, "node")
    }

    /// For the account of a listener at an authority that signs its certificate.
    pub fn acme_account(site: &Name, listener: &Name) -> Self {
        Self::new(site, Kind::Listener, listener, "acme")
    }

    /// For the secret by which a site proves itself to a provider of OpenID Connect. No noun has
    /// the name: it is that of the provider, and of kind site.
    pub fn oidc_client(site: &Name, provider: &Name) -> Self {
        Self::new(site, Kind::Site, provider, "oidc-client")
    }

    /// For what a browser keeps while it signs in at a site, of this kind. No noun has the name:
    /// it is that of the site, and of kind site.
    pub fn browser(site: &Name, what: &'static str) -> Self {
        Self::new(site, Kind::Site, site, what)
    }

    fn new(site: &Name, kind: Kind, name: &Name, field: &'static str) -> Self {
        SealingContext { site: site.clone(), kind, name: name.clone(), field }
    }

    /// What is authenticated. No two contexts have the same text, for no part holds a slash.
    pub(crate) fn text(&self) -> String {
        let SealingContext { site, kind, name, field } = self;
        format!("{site}/{kind}/{name}/{field}")
    }
}

impl fmt::Display for SealingContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SealingContext { site, kind, name, field } = self;
        write!(f, "'{field}' of the {kind} '{name}' of the site '{site}'")
    }
}
