//! How often what fails is tried again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often and how long a failing job is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// Attempts in all; 1 = no second try.
    pub attempts: u32,
    /// Seconds before the second attempt; doubles each time, with ± 20 % spread.
    pub first_delay_seconds: u32,
    /// Longest delay in seconds.
    pub longest_delay_seconds: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: 10, first_delay_seconds: 5, longest_delay_seconds: 3600 }
    }
}
