//! Every limit of this crate.

use std::time::Duration;

/// An order must be done by then: the authority looks at each name from several places.
pub(crate) const ORDER_TIME: Duration = Duration::from_secs(5 * 60);
/// How often an order is begun in a row, each but the last ended by a stale nonce.
pub(crate) const FRESH_ORDERS: u32 = 4;
/// For so long a node that asks keeps the others from asking; longer than an order takes.
pub(crate) const LEASE: Duration = Duration::from_secs(10 * 60);
/// Answers to challenges are kept for so long at most.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(60 * 60);
/// First and longest pause between two looks at an order, where the authority names none.
pub(crate) const POLL_FIRST: Duration = Duration::from_millis(250);
pub(crate) const POLL_LONGEST: Duration = Duration::from_secs(10);
/// The pause after the first failure, which doubles with each further one. Public authorities let
/// a name fail five times an hour.
pub(crate) const RETRY_FIRST: Duration = Duration::from_secs(15 * 60);
/// Longest pause between two tries, unless the authority names a longer one.
pub(crate) const RETRY_LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// Longest pause that an authority may name.
pub(crate) const RETRY_AUTHORITY: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Longest answer of an authority.
pub(crate) const ANSWER_BYTES: usize = 256 * 1024;
/// Longest text of an authority that is kept of a failure, in characters.
pub(crate) const PROBLEM_LETTERS: usize = 500;
