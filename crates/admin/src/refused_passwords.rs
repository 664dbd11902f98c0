//! Passwords that nobody may have, because attackers try them first.

use std::io::{BufRead, Read};
use std::sync::Arc;

use entrepot_crypto::limits::PASSWORD_BYTES;
use entrepot_nouns::Secret;

/// A list of passwords that nobody may have, one a line.
#[derive(Clone)]
pub struct RefusedPasswords {
    /// Where it is, for people.
    pub name: String,
    /// Opens it, each time that passwords are set: it may be long, and is changed while the server
    /// runs.
    pub open: OpenList,
}

/// Opens a list of lines at its beginning.
pub type OpenList = Arc<dyn Fn() -> std::io::Result<Box<dyn BufRead>> + Send + Sync>;

/// Which of `given` stand in a list, in which a password stands in lower case too.
///
/// # Errors
/// The list cannot be read.
pub(crate) fn listed<K: Clone>(
    list: &RefusedPasswords,
    given: impl Iterator<Item = (K, Secret)>,
) -> std::io::Result<Vec<K>> {
    let mut wanted: Vec<(Secret, K)> = Vec::new();
    for (key, password) in given {
        let lower = Secret::new(password.expose().to_ascii_lowercase());
        wanted.extend([(password, key.clone()), (lower, key)]);
    }
    wanted.sort_by(|(one, _), (other, _)| one.expose().cmp(other.expose()));
    let mut lines = (list.open)()?;
    let (mut line, mut found) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        // What is longer than any password is read in pieces, which are none either.
        let most = PASSWORD_BYTES as u64 + 2;
        if lines.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(found);
        }
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            line.pop();
        }
        let first = wanted.partition_point(|(password, _)| password.expose() < line.as_slice());
        let from_first = wanted.get(first..).unwrap_or_default().iter();
        let same = from_first.take_while(|(password, _)| password.expose() == line);
        found.extend(same.map(|(_, key)| key.clone()));
    }
}
