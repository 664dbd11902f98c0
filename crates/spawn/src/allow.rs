//! Which programs may be started at all: those that the operator of the machine lists in the
//! process file. Rules cannot add to them.

use std::path::{Component, Path, PathBuf};

use crate::error::SpawnError;

/// The list of the process file; empty: nothing may be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(Vec<PathBuf>);

/// An entry that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no absolute path without '..'")]
pub struct NotAbsolute(String);

impl Allowed {
    /// Programs, and directories whose programs (also in directories below) are allowed.
    ///
    /// # Errors
    /// An entry is not an absolute path.
    pub fn new(entries: impl IntoIterator<Item = PathBuf>) -> Result<Allowed, NotAbsolute> {
        let entries = entries.into_iter().map(|entry| {
            if is_plain(&entry) { Ok(entry) } else { Err(NotAbsolute(entry.display().to_string())) }
        });
        Ok(Allowed(entries.collect::<Result<_, _>>()?))
    }

    /// The entries of the list.
    pub fn entries(&self) -> &[PathBuf] {
        &self.0
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the operator allows this program.
    ///
    /// # Errors
    /// [`SpawnError::NotAllowed`].
    pub fn check(&self, program: &str) -> Result<(), SpawnError> {
        if self.permits(program) {
            return Ok(());
        }
        Err(SpawnError::NotAllowed(program.to_owned()))
    }

    /// Whether `program` is one of them or lies in one of them.
    pub fn permits(&self, program: &str) -> bool {
        let program = Path::new(program);
        is_plain(program) && self.0.iter().any(|entry| program.starts_with(entry))
    }
}

/// True for an absolute path without `..`.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && !path.as_os_str().as_encoded_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_programs() {
        let list = ["/usr/local/lib/entrepot", "/usr/bin/clamdscan"].map(PathBuf::from);
        let allowed = Allowed::new(list).unwrap();
        for good in [
            "/usr/local/lib/entrepot/scan",
            "/usr/local/lib/entrepot/a/b",
            "/usr/local/lib/entrepot//scan",
            "/usr/bin/clamdscan",
        ] {
            assert!(allowed.permits(good), "{good}");
        }
        for bad in [
            "/usr/local/lib/entrepot/../../../../bin/sh",
            "/usr/local/lib/entrepot-other/scan",
            "/usr/bin/clamdscan2",
            "/bin/sh",
            "scan",
            "./scan",
            "usr/bin/clamdscan",
            "",
            "/usr/bin/clamdscan\0",
        ] {
            assert!(!allowed.permits(bad), "{bad}");
        }
        assert!(!Allowed::default().permits("/usr/bin/clamdscan"));
        assert!(Allowed::new(["bin".into()]).is_err());
        assert!(Allowed::new(["/a/../bin".into()]).is_err());
    }
}
