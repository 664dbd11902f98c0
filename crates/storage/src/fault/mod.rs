//! Breaking stores on purpose: [`FaultStore`] fails chosen calls of any store, [`SimDisk`] is a
//! disk with a durable image and power cuts, [`SimStore`] the directory store on it.

mod sim;
mod wrap;

pub use crate::ram::{Call as DiskCall, Cut};
pub use sim::{SimDisk, SimError, SimFile, SimFolder, SimStore};
pub use wrap::{Fault, FaultStore, StoreCall};
