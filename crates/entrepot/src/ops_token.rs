//! The proof that a request on the ops socket comes from who may read the data folder. Whether a
//! process may connect to a socket is decided by the user it runs as alone, and programs under
//! Landlock run as the server's; what they cannot do is read a file of the data folder.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use entrepot_nouns::Env;

use crate::failure::Failure;

/// The field of a request that carries the token.
pub(crate) const FIELD: HeaderName = HeaderName::from_static("entrepot-token");

/// Random text that a server makes at its start and writes into its data folder.
#[derive(Clone)]
pub(crate) struct OpsToken(Arc<str>);

impl OpsToken {
    /// Makes a new one; the one of an earlier start counts no more.
    pub(crate) fn make(data: &Path, env: &Env) -> Result<OpsToken, Failure> {
        let mut random = [0; 32];
        env.fill_random(&mut random);
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (path, new) = (file(data), data.join("ops.token.new"));
        let written = || {
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.open(&new)?.write_all(text.as_bytes())?;
            std::fs::rename(&new, &path)
        };
        written().map_err(|error: std::io::Error| {
            Failure::start(format!("cannot write '{}': {error}", path.display()))
        })?;
        Ok(OpsToken(text.into()))
    }

    /// Whether a request carries it. How long that takes does not depend on where they differ.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(given) = headers.get(FIELD).map(HeaderValue::as_bytes) else { return false };
        let differing = self.0.bytes().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        given.len() == self.0.len() && differing == 0
    }
}

/// What a command sends; `None` if this user may not read it, or no server has run.
pub(crate) fn read(data: &Path) -> Option<HeaderValue> {
    let text = std::fs::read_to_string(file(data)).ok()?;
    HeaderValue::try_from(text).ok()
}

fn file(data: &Path) -> PathBuf {
    data.join("ops.token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_of_this_start_counts() {
        let data = tempfile::tempdir().unwrap();
        let env = Env::simulated(1);
        let first = OpsToken::make(data.path(), &env).unwrap();
        let old = read(data.path()).unwrap();
        let second = OpsToken::make(data.path(), &env).unwrap();
        let headers = |value| HeaderMap::from_iter([(FIELD, value)]);
        assert!(first.is_in(&headers(old.clone())) && !second.is_in(&headers(old)));
        let now = read(data.path()).unwrap();
        assert!(second.is_in(&headers(now.clone())));
        let cut = HeaderValue::from_bytes(&now.as_bytes()[1..]).unwrap();
        assert!(!second.is_in(&headers(cut)) && !second.is_in(&HeaderMap::new()));
        let left: Vec<_> = std::fs::read_dir(data.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }
}
