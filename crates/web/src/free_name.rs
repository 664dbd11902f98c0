//! Files that replace nothing: they get the name that was asked for, or the first like it that is
//! free.

use entrepot_nouns::VPath;
use entrepot_vfs::{Create, CreateIntent, Upload, Vfs, VfsError};

use crate::limits::FREE_NAMES;

/// Begins an upload under `name`, or under the first name like it that is free. `path_of` says
/// where a name lies, `refused` what a failure means to the client.
pub(crate) async fn create_under_free_name<E>(
    vfs: &Vfs,
    name: &str,
    expected_size: Option<u64>,
    path_of: impl Fn(&str) -> Result<VPath, E>,
    refused: impl Fn(VfsError) -> E,
) -> Result<Upload, E> {
    let how = Create { intent: CreateIntent::Exclusive, expected_size, append: false };
    for number in 0..FREE_NAMES {
        let path = path_of(&numbered(name, number))?;
        match vfs.create(&path, how).await {
            Err(VfsError::Exists | VfsError::IsDirectory) => {}
            created => return created.map_err(refused),
        }
    }
    Err(refused(VfsError::Exists))
}

/// `report.pdf` → `report (1).pdf`.
fn numbered(name: &str, number: u32) -> String {
    if number == 0 {
        return name.to_owned();
    }
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem} ({number}).{ending}"),
        _ => format!("{name} ({number})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_taken_get_a_number() {
        assert_eq!(numbered("a.tar.gz", 0), "a.tar.gz");
        assert_eq!(numbered("a.tar.gz", 2), "a.tar (2).gz");
        assert_eq!(numbered(".profile", 1), ".profile (1)");
    }
}
