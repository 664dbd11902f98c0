//! The adapter on the wire: control and data connections on loopback, with a gate, a journal and
//! files behind it.

mod client;
mod fixture;
mod listings;
mod login;
mod names;
mod rules;
mod tls;
mod transfers;

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
