//! A disk in memory: what the memory endpoint keeps its files on, and, with its durable image
//! tracked, the simulated disk of the power-cut tests.

mod calls;
mod disk;
mod inode;
mod names;
mod plan;
mod power;

pub(crate) use disk::RamDisk;
pub(crate) use inode::Inode;
pub use plan::Call;
pub(crate) use plan::Plan;
pub use power::Cut;
