//! Tables for people, JSON for scripts.

use serde::Serialize;

use crate::failure::{Exit, Failure};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Tables and sentences.
    Human,
    /// JSON, one value.
    Json,
}

impl Output {
    /// Prints one value.
    pub(crate) fn value<T: Serialize>(
        self,
        value: &T,
        human: impl FnOnce(),
    ) -> Result<(), Failure> {
        match self {
            Output::Human => {
                human();
                Ok(())
            }
            Output::Json => print_json(value),
        }
    }

    /// Says that it is done.
    pub(crate) fn done(self) -> Result<(), Failure> {
        self.value(&serde_json::json!({"done": true}), || println!("done"))
    }

    /// Prints a list.
    pub(crate) fn rows<T: Serialize>(
        self,
        rows: &[T],
        human: impl FnOnce(&[T]),
    ) -> Result<(), Failure> {
        match self {
            Output::Human => {
                human(rows);
                Ok(())
            }
            Output::Json => print_json(&rows),
        }
    }
}

fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    use std::io::Write;
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new("EP0299", Exit::Failed, error.to_string()))?;
    // A closed pipe (`| head`) is no error of ours.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
    Ok(())
}

/// The server answered something that the request cannot have.
pub(crate) fn unexpected() -> Failure {
    Failure::ops("the server's answer does not fit the request; is its version ours?")
}
