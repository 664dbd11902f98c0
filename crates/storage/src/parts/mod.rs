//! Files staged on a server as `.<name>.<transfer id>.part` beside their targets: their names, and
//! which of them this process knows.

pub(crate) mod names;
pub(crate) mod registry;
