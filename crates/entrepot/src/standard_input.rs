//! What commands read from standard input: passwords, which belong in no command line.

use crate::failure::Failure;

/// One line from standard input, without its end.
pub(crate) fn line_from_stdin() -> Result<String, Failure> {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|error| Failure::file(format!("cannot read standard input: {error}")))?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
