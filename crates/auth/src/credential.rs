//! What proved a login. A session lives only as long as each of its proofs would still count.

use std::net::IpAddr;
use std::sync::Arc;

use entrepot_crypto::{TokenHash, password};
use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::{AccountType, OidcIdentity, Rights, Sealed, Timestamp};
use entrepot_ssh::Certificate;

use crate::api_token::ApiToken;
use crate::certificate;
use crate::identity;
use crate::principal::Principal;

/// A step of a login that succeeded.
#[derive(Clone)]
pub(crate) struct Proof {
    /// As the audit log names it, such as `public-key SHA256:…`.
    pub(crate) text: String,
    pub(crate) credential: Credential,
}

/// What was shown in a step of a login, kept so that it can be asked again whether it counts.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// A signature of this public key (its blob, RFC 4253 §6.6).
    Key(Vec<u8>),
    /// A signature of the key of this certificate.
    Certificate(Arc<Certificate>),
    /// The password behind this hash.
    Password(String),
    /// A code of the generator with this secret.
    Code(Sealed),
    /// A certificate of TLS.
    Tls(Arc<ClientCertificate>),
    /// The API token of this hash.
    Token(TokenHash),
    /// The passkey that its authenticator knows by this.
    Passkey(String),
    /// What a provider said of this person, once, at the login.
    Oidc(OidcIdentity),
    /// The secret of a share link, by its hash.
    Link(TokenHash),
    /// The decision of a login hook, which was asked once, at the login.
    Hook,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credential::Key(_) => "Key",
            Credential::Certificate(_) => "Certificate",
            Credential::Password(_) => "Password",
            Credential::Code(_) => "Code",
            Credential::Tls(_) => "Tls",
            Credential::Token(_) => "Token",
            Credential::Passkey(_) => "Passkey",
            Credential::Oidc(_) => "Oidc",
            Credential::Link(_) => "Link",
            Credential::Hook => "Hook",
        })
    }
}

impl Credential {
    /// Why it counts no longer; `None` while it does.
    pub(crate) fn why_gone(
        &self,
        principal: &Principal,
        address: IpAddr,
        now: Timestamp,
    ) -> Option<&'static str> {
        let (counts, gone) = match self {
            Credential::Hook => (
                principal.account.account_type != AccountType::Admin,
                "a login hook lets no administrator in",
            ),
            Credential::Key(blob) => (
                principal.counting_keys(blob, address, now).next().is_some(),
                "the key that it logged in with was taken away",
            ),
            Credential::Certificate(shown) => {
                return certificate::check(principal, shown, address, now).err();
            }
            Credential::Tls(shown) => {
                return identity::check(&principal.account, shown, now).err();
            }
            Credential::Token(hash) => match principal.api_token(*hash) {
                Some(token) => return token.why_not(address, now),
                None => (false, "the API token that it logged in with was deleted"),
            },
            Credential::Passkey(id) => match principal.passkey(id) {
                Some(passkey) => return passkey.why_not(address, now),
                None => (false, "the passkey that it logged in with was removed"),
            },
            Credential::Oidc(identity) => return principal.why_not_oidc(identity),
            Credential::Link(hash) => match principal.link_secret(*hash) {
                Some(secret) => return secret.why_not(now),
                None => (false, "the secret of the link was deleted"),
            },
            Credential::Password(hash) => (
                principal.account.password_hash.as_deref().is_some_and(|now| {
                    // A hash of the same password may have been made anew since.
                    password::is_same_made_anew(hash, now)
                }),
                "the password that it logged in with was changed",
            ),
            Credential::Code(sealed) => (
                principal.account.totp_sealed.as_ref() == Some(sealed),
                "the code generator that it logged in with was changed",
            ),
        };
        (!counts).then_some(gone)
    }

    /// The rights on files that a login with it has at most.
    pub(crate) fn rights(&self, principal: &Principal, address: IpAddr, now: Timestamp) -> Rights {
        let read_only = match self {
            Credential::Key(blob) => {
                // Of several nouns of one key the strictest counts.
                principal.counting_keys(blob, address, now).any(|key| key.read_only)
            }
            Credential::Certificate(shown) => {
                let certified = certificate::check(principal, shown, address, now);
                certified.is_ok_and(|certified| certified.read_only)
            }
            Credential::Token(hash) => {
                let token = principal.api_token(*hash);
                return token.map_or(Rights::none(), ApiToken::rights);
            }
            Credential::Passkey(id) => principal.passkey(id).is_none_or(|key| key.read_only),
            Credential::Password(_)
            | Credential::Link(_)
            | Credential::Oidc(_)
            | Credential::Code(_)
            | Credential::Tls(_)
            | Credential::Hook => false,
        };
        if read_only { Rights::read_only() } else { Rights::all() }
    }
}
