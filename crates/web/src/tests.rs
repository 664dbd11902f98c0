//! The adapter on the wire: requests on loopback, with a gate, a journal and files behind it.

mod api;
mod archives;
mod as2;
mod browsers;
mod challenges;
mod client;
mod connections;
mod dav;
mod files;
mod fixture;
mod hooks;
mod links;
mod oidc;
mod passkeys;
mod sign_in;
mod tokens;
mod trash;
mod uploads;
mod versions;
mod walk;
mod web_hooks;

use std::time::Duration;

/// What is not there by then does not come any more.
const SOON: Duration = Duration::from_secs(60);

/// Waits for what must happen.
///
/// # Panics
/// If it does not.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("nothing happened for a minute")
}
