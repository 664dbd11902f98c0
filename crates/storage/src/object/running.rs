//! The renames of directories that are at work. What is below the new name of one belongs to it:
//! a copy could replace, or an undo remove, what another put there. So nobody else does.

use object_store::path::Path;
use parking_lot::Mutex;

use crate::error::{Result, StoreError};

/// The old and the new prefix of each, both with a slash at the end.
#[derive(Default)]
pub(super) struct Running(Mutex<Vec<(String, String)>>);

/// One that is at work until this goes.
pub(super) struct Claim<'a> {
    running: &'a Running,
    to: String,
}

fn busy() -> StoreError {
    StoreError::Unavailable("the directory is being renamed: try again".to_owned())
}

impl Running {
    /// Begins one, unless it would meet another. Who asked [`Running::check`] before and still
    /// changes something must be waited for.
    pub(super) fn begin(&self, from: &str, to: &str) -> Result<Claim<'_>> {
        let meet = |one: &str, other: &str| one.starts_with(other) || other.starts_with(one);
        let mut running = self.0.lock();
        let met = running
            .iter()
            .any(|(old, new)| [old, new].iter().any(|taken| meet(taken, from) || meet(taken, to)));
        if met {
            return Err(busy());
        }
        running.push((from.to_owned(), to.to_owned()));
        Ok(Claim { running: self, to: to.to_owned() })
    }

    /// Fails if `key` is the new name of a directory or below it. To be asked with `moves` held
    /// for reading until the change is done.
    pub(super) fn check(&self, key: &Path) -> Result<()> {
        let below = |to: &str| match key.as_ref().strip_prefix(to.trim_end_matches('/')) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        };
        if self.0.lock().iter().any(|(_, to)| below(to)) { Err(busy()) } else { Ok(()) }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.running.0.lock().retain(|(_, to)| *to != self.to);
    }
}
