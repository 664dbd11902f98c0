//! Where the password of a measurement comes from.

use std::path::Path;

use crate::failure::Failure;
use crate::standard_input::line_from_stdin;

/// The first line of a file, else a variable of the environment, else a line of standard input.
pub(super) fn read(file: Option<&Path>, variable: Option<&str>) -> Result<String, Failure> {
    match (file, variable) {
        (Some(file), _) => first_line(file),
        (None, Some(name)) => std::env::var(name)
            .map_err(|_| Failure::usage(format!("the variable '{name}' has no password"))),
        (None, None) => line_from_stdin(),
    }
}

fn first_line(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::file(format!("cannot read '{}': {error}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
