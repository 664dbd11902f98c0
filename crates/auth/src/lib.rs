//! Who may act: [`Directory`] resolves accounts, [`Gate`] admits, and only it makes a [`Grant`].

mod account_key;
mod api_token;
pub mod as2;
mod authority;
mod certificate;
mod clients;
mod codes;
mod credential;
mod digests;
mod directory;
mod error;
mod gate;
mod hash_queue;
mod hashing_thread;
mod identity;
mod ledger;
pub mod limits;
mod link;
mod link_secret;
mod login_hook;
mod login_key;
mod minute_rates;
mod oidc;
mod outdated;
mod passkey;
mod passwords;
mod peer;
mod penalties;
mod policy;
mod principal;
mod rates;
mod resolve;
mod signed_in;
mod ssh_key;
#[cfg(test)]
mod tests;
mod token_uses;
mod web_hooks;
mod webauthn;

pub use api_token::ApiToken;
pub use as2::{As2OwnKey, As2Partner};
pub use directory::{Directory, LiveSession, ReachedSite, TransferPlace};
pub use entrepot_db::{LinkUse, LinkUses};
pub use entrepot_net::meter::Throttles;
pub use error::{AuthError, Result};
pub use gate::{
    As2NotTold, Attempt, Challenge, ChallengePurpose, Gate, GateOptions, Grant, HookMessage,
    HookReceipt, HookRefusal, LimitState, LinkEnd, LinkPassword, LinkVerdict, LoginLimit, Meters,
    OidcError, OidcLeading, OidcLogin, OidcPurpose, OidcRefusal, OidcReturn, OidcStart,
    PasskeyError, PasskeyLogin, PenaltySharing, RuleHook, Verdict,
};
pub use hashing_thread::hash_aside;
pub use login_key::{UnusableKey, check_login_key};
pub use oidc::SiteOidc;
pub use outdated::OutdatedPassword;
pub use passkey::Passkey;
pub use peer::Peer;
pub use policy::EffectivePolicy;
pub use principal::{EffectiveMount, Principal};
pub use rates::{TimedRate, TimedRates};
pub use resolve::groups_of;
pub use signed_in::{OpenedSignIn, SignIn, SignInInfo};
pub use ssh_key::UserKey;
pub use webauthn::{Encryption, NewPasskey, PageOrigin, PasskeyAnswer};
