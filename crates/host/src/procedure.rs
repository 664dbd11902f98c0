//! Procedures of a model, called on one session with the application.

mod application;
mod called;
mod gathered;
mod records;
mod values;

pub use application::{Application, LoggedOff, ScreenWait, TypeTo};
pub use called::CallError;
