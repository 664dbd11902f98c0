//! Staged files without a writer: found for recovery, and dropped.

use entrepot_nouns::TransferId;
use rustix::io::Errno;

use super::disk::{Disk, StatKind};
use super::staging::{KEPT, PROBE};
use super::tree::Tree;
use crate::error::Result;
use crate::limits::KEPT_FOR;
use crate::store::Staged;

/// All staged files; drops what a crash left of replaced ones. Blocks.
pub(super) fn all<D: Disk>(tree: &Tree<D>) -> Result<Vec<Staged>> {
    let mut found = Vec::new();
    for dir in tree.stagings.each() {
        let mut names = tree.disk.names(&dir)?;
        while let Some(name) = names.next() {
            let name = name?;
            if let Some(id) = name.strip_prefix(KEPT).or_else(|| name.strip_prefix(PROBE)) {
                if is_old(tree, id) {
                    tree.drop_staged_name(&dir, &name);
                }
                continue;
            }
            let Ok(id) = name.parse::<TransferId>() else { continue };
            let Ok(stat) = tree.disk.stat(&dir, &name) else { continue };
            if stat.kind == StatKind::File {
                let (size, modified) = (stat.size, stat.modified);
                found.push(Staged { id, size, modified, identity: Some(stat.identity()) });
            }
        }
    }
    Ok(found)
}

/// True if a name made with this id is too old to belong to a rename at work.
fn is_old<D: Disk>(tree: &Tree<D>, id: &str) -> bool {
    let Some(made) = id.parse::<TransferId>().ok().and_then(|id| id.0.get_timestamp()) else {
        return false;
    };
    let made = entrepot_nouns::Timestamp::from_seconds(
        i64::try_from(made.to_unix().0).unwrap_or(i64::MAX),
    );
    tree.env.now().since(made) > KEPT_FOR
}

/// Drops a staged file wherever it lies. Blocks.
pub(super) fn discard<D: Disk>(tree: &Tree<D>, id: TransferId) -> Result<()> {
    let name = id.to_string();
    for dir in tree.stagings.each() {
        match tree.disk.unlink(&dir, &name) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
