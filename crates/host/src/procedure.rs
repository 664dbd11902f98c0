//! Procedures of a model, called on one session with the application.

mod called;
mod values;

pub use called::{Application, CallError};
