//! The load generator: workloads over the client machines, what the server spent on them, reports.
//! It measures any server that speaks the protocol, ours or another.

pub mod ftp;
pub mod histogram;
pub mod limits;
pub mod page;
pub mod process;
pub mod report;
pub mod sftp;
pub mod wan;

pub use report::{Counts, Measure, Report};
