//! Every configuration change: role check, row and event in one transaction.
//! Used by REST, the command line and `apply`.

mod request;

pub use request::*;
