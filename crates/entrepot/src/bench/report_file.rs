//! Reports of measurements as files.

use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// Writes a report as JSON.
pub(super) fn write(report: &impl Serialize, file: &Path) -> Result<(), Failure> {
    let written = serde_json::to_vec_pretty(report)
        .map_err(std::io::Error::other)
        .and_then(|text| std::fs::write(file, text));
    written.map_err(|error| Failure::file(format!("cannot write '{}': {error}", file.display())))
}
