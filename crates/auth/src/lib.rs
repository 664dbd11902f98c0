//! Who may act: [`Directory`] resolves accounts, [`Gate`] admits, and only it makes a [`Grant`].

mod account_key;
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
mod identity;
mod ledger;
pub mod limits;
mod login_hook;
mod login_key;
mod outdated;
mod passwords;
mod peer;
mod penalties;
mod policy;
mod principal;
mod rates;
mod resolve;
mod ssh_key;
#[cfg(test)]
mod tests;

pub use directory::{Directory, LiveSession, ReachedSite, TransferPlace};
pub use entrepot_net::meter::Throttles;
pub use error::{AuthError, Result};
pub use gate::{
    Attempt, Gate, GateOptions, Grant, LimitState, LoginLimit, Meters, PenaltySharing, Verdict,
};
pub use login_key::{UnusableKey, check_login_key};
pub use outdated::OutdatedPassword;
pub use peer::Peer;
pub use policy::EffectivePolicy;
pub use principal::{EffectiveMount, Principal};
pub use rates::{TimedRate, TimedRates};
pub use ssh_key::UserKey;
