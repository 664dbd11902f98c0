//! Names for files that are to be kept beside what has their name.

use entrepot_nouns::VPath;

use crate::error::{Result, VfsError};
use crate::limits;
use crate::vfs::Vfs;

impl Vfs {
    /// The path itself if nothing has it, else the first like it that is free.
    ///
    /// # Errors
    /// All names that are tried are taken, or the store failed.
    pub(crate) async fn free_name(&self, path: &VPath) -> Result<VPath> {
        for path in names_like(path) {
            let path = path?;
            if self.is_free(&path).await? {
                return Ok(path);
            }
        }
        Err(VfsError::Exists)
    }

    async fn is_free(&self, path: &VPath) -> Result<bool> {
        match self.lstat(path).await {
            Ok(attributes) => Ok(attributes.partial),
            Err(VfsError::NotFound) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// The path itself, then names like it beside it, as many as are tried.
pub(crate) fn names_like(path: &VPath) -> impl Iterator<Item = Result<VPath>> {
    let beside = path.parent().zip(path.file_name());
    let others = beside.into_iter().flat_map(|(directory, name)| {
        numbered_names(name).map(move |name| Ok(directory.join(&name)?))
    });
    std::iter::once(Ok(path.clone())).chain(others)
}

/// Names like this one, as many as are tried.
pub(crate) fn numbered_names(name: &str) -> impl Iterator<Item = String> {
    (1..=limits::KEEP_BOTH_NAMES).map(move |number| numbered(name, number))
}

/// `report.pdf` → `report (1).pdf`.
fn numbered(name: &str, number: u32) -> String {
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem} ({number}).{ending}"),
        _ => format!("{name} ({number})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_goes_before_the_ending() {
        for (name, wanted) in [
            ("report.pdf", "report (1).pdf"),
            ("a.tar.gz", "a.tar (1).gz"),
            ("report", "report (1)"),
            (".profile", ".profile (1)"),
        ] {
            assert_eq!(numbered(name, 1), wanted);
        }
    }
}
