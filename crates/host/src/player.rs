//! The Trace Player: it stands for a host, from recordings, to any number of clients. Each client
//! has a negotiation of its own; what is shown and which key is awaited is read from one recording
//! that all share.

mod client;
mod matching;
mod recording;
mod server;

pub(crate) use client::fuzz_client;
pub use matching::{Match, NoMatch};
pub use recording::{Recording, RecordingError};
pub use server::{Lag, Player, PlayerOptions, PlayerReport, PlayerTls, Speak};
