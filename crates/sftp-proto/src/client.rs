//! The client machine (being written).
/// The machine.
pub struct Client;
