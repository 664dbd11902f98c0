//! What can be wrong with a condition.

use crate::limits::{CONDITION_BYTES, CONDITION_DEPTH, ERROR_CHARACTERS};

/// Why a condition gives no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConditionError {
    /// Longer than the limit.
    #[error("the condition is longer than {CONDITION_BYTES} bytes, shorten it")]
    TooLong,
    /// Nested deeper than the limit.
    #[error("the condition is nested deeper than {CONDITION_DEPTH} levels, flatten it")]
    TooDeep,
    /// Could cost more than the limit.
    #[error("the condition could take too long, use fewer macros and shorter lists")]
    TooDear,
    /// Not valid CEL; the message of its parser.
    #[error("the condition is not valid CEL: {0}")]
    Syntax(String),
    /// Would fail on every event.
    #[error("column {column}: {problem}")]
    Wrong {
        /// Where in the condition, in characters from 1 on.
        column: usize,
        /// What is wrong, in words.
        problem: String,
    },
    /// Fails on this event.
    #[error("the condition fails on this event: {0}")]
    Fails(String),
    /// Neither true nor false.
    #[error("the condition gives a {0}, make it a comparison")]
    NotBool(String),
    /// No point in time.
    #[error("it gives a {0}, make it a point in time, such as timestamp(event.at)")]
    NotInstant(String),
    /// It gives no list, where an `each` needs one.
    #[error("it gives a {0}, make it a list, such as [1, 2]")]
    NotList(String),
}

/// The first characters, on one line.
pub(super) fn short(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(ERROR_CHARACTERS).collect()
}
