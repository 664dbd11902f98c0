//! Names on the server: ours for what is staged, theirs for all else.

use entrepot_nouns::{StorePath, TransferId};

use crate::error::{Result, StoreError};
use crate::reserved;

const SUFFIX: &str = ".part";
/// Bytes of a transfer id as text.
const ID_BYTES: usize = 36;
/// Longest component that servers take.
const COMPONENT_BYTES: usize = 255;

/// `.<name>.<transfer id>.part` beside the target; a long name is cut so that it fits.
pub(crate) fn part_of(target: &StorePath, id: TransferId) -> Result<StorePath> {
    beside(target, &format!(".{id}{SUFFIX}"))
}

/// `.<name>.replaced` beside the target: where its old file is kept while it is replaced in several
/// steps. A long name is cut so that it fits.
pub(crate) fn replaced_name_of(target: &StorePath) -> Result<StorePath> {
    beside(target, ".replaced")
}

/// `.<name><suffix>` in the directory of `target`.
fn beside(target: &StorePath, suffix: &str) -> Result<StorePath> {
    let (Some(name), Some(parent)) = (target.file_name(), target.parent()) else {
        return Err(StoreError::IsDirectory);
    };
    let most = COMPONENT_BYTES - suffix.len() - 1;
    let stem = name.get(..name.floor_char_boundary(most)).unwrap_or(name);
    let beside = format!(".{stem}{suffix}");
    parent.join(&beside).map_err(|error| StoreError::Denied(error.to_string()))
}

/// The transfer a staged file belongs to; `None` for any other name.
pub(crate) fn transfer_of(name: &str) -> Option<TransferId> {
    let (stem, id) = name.strip_prefix('.')?.strip_suffix(SUFFIX)?.rsplit_once('.')?;
    if stem.is_empty() || id.len() != ID_BYTES {
        return None;
    }
    id.parse().ok()
}

fn is_hidden(name: &str) -> bool {
    reserved::is_reserved(name) || transfer_of(name).is_some()
}

/// True for a name that a listing shows.
pub(crate) fn is_shown(name: &str) -> bool {
    let plain = !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    plain && !is_hidden(name)
}

/// Fails for a path that names something staged: nothing is there.
pub(crate) fn check_visible(path: &StorePath) -> Result<()> {
    if path.components().any(is_hidden) { Err(StoreError::NotFound) } else { Ok(()) }
}

/// Fails for the root, which is neither removed nor renamed.
pub(crate) fn check_below_root(path: &StorePath) -> Result<()> {
    if path.is_root() {
        return Err(StoreError::Denied("the root of the endpoint stays".to_owned()));
    }
    Ok(())
}

/// As [`check_visible`], for a name that would be made.
pub(crate) fn check_makeable(path: &StorePath) -> Result<()> {
    match path.components().find(|part| is_hidden(part)) {
        Some(name) => Err(StoreError::Denied(format!("the name '{name}' is reserved"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    #[test]
    fn parts_lie_beside_their_target_and_are_hidden() {
        let id: TransferId = "0192f1c4-7d7a-7abc-8def-0123456789ab".parse().unwrap();
        let part = part_of(&path("a/b.txt"), id).unwrap();
        assert_eq!(part.as_str(), format!("a/.b.txt.{id}.part"));
        assert_eq!(transfer_of(part.file_name().unwrap()), Some(id));
        assert_eq!(check_visible(&part), Err(StoreError::NotFound));
        assert!(check_makeable(&part).is_err());
        for long in ["n".repeat(255), "ü".repeat(127)] {
            let part = part_of(&path(&long), id).unwrap();
            assert!(part.as_str().len() <= 255);
            assert_eq!(transfer_of(part.as_str()), Some(id));
        }
        assert!(part_of(&StorePath::root(), id).is_err());
    }

    #[test]
    fn the_name_of_a_replaced_file_fits_beside_its_target() {
        assert_eq!(replaced_name_of(&path("a/b.txt")).unwrap().as_str(), "a/.b.txt.replaced");
        let long = replaced_name_of(&path(&"n".repeat(255))).unwrap();
        assert_eq!(long.as_str().len(), 255);
    }

    #[test]
    fn other_names_are_shown() {
        for name in [".part", ".a.part", "x.part", ".a.0192.part", ".hidden", "..."] {
            assert!(is_shown(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", ".entrepot-staging"] {
            assert!(!is_shown(name), "{name}");
        }
    }
}
