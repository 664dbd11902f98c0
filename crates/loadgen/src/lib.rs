//! The load generator: workloads over the client machines, what the server spent on them, reports.
//! It measures any server that speaks the protocol, ours or another.

pub mod as2;
mod bare;
pub mod ftp;
pub mod histogram;
pub mod https;
pub mod limits;
pub mod page;
pub mod procedures;
pub mod process;
pub mod report;
pub mod sftp;
mod tally;
pub mod wan;
mod watch;

pub use bare::BareServer;
pub use report::{Counts, Latency, Measure, Report, Scenario};
pub use watch::WatchError;
