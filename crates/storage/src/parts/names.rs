//! Names on the server: ours for what is staged, theirs for all else.

use entrepot_model::{StorePath, TransferId};

use crate::error::{Result, StoreError};
use crate::reserved;

const SUFFIX: &str = ".part";
/// Bytes of a transfer id as text.
const ID_BYTES: usize = 36;
/// Longest component that servers take.
const COMPONENT_BYTES: usize = 255;

/// `.<name>.<transfer id>.part` beside the target; a long name is cut so that it fits.
pub(crate) fn part_of(target: &StorePath, id: TransferId) -> Result<StorePath> {
    let (Some(name), Some(parent)) = (target.file_name(), target.parent()) else {
        return Err(StoreError::IsDirectory);
    };
    let room = COMPONENT_BYTES - ID_BYTES - SUFFIX.len() - 2;
    let stem = name.get(..name.floor_char_boundary(room)).unwrap_or(name);
    let part = format!(".{stem}.{id}{SUFFIX}");
    parent.join(&part).map_err(|error| StoreError::Denied(error.to_string()))
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
    match path.is_root() {
        true => Err(StoreError::Denied("the root of the endpoint stays".to_owned())),
        false => Ok(()),
    }
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
    fn other_names_are_shown() {
        for name in [".part", ".a.part", "x.part", ".a.0192.part", ".hidden", "..."] {
            assert!(is_shown(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", ".entrepot-staging"] {
            assert!(!is_shown(name), "{name}");
        }
    }
}
