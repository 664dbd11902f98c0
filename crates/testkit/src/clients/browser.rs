//! Chromium, driven by playwright-core.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{installed, libraries};
use crate::server::run;

/// Runs `node/browser.js` with these words; gives what it has seen.
///
/// # Errors
/// Chromium or the library is missing, or a page was not as the program expects it.
pub fn chromium(words: &[&str]) -> Result<Value> {
    let mut command = Command::new("node");
    command.env("NODE_MODULES", installed("clients/node/node_modules")?);
    command.arg(libraries::source("node/browser.js")).args(words);
    let output = run(&mut command)?;
    serde_json::from_slice(&output.stdout).context("what the browser has seen")
}
