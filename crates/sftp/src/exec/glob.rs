//! `*`, `?` and `[…]` in the paths of `scp -f`.

use entrepot_nouns::VPath;
use entrepot_sftp_proto::shell::{Component, Pattern, Word};
use entrepot_vfs::EntryKind;

use crate::connection::ConnectionShared;
use crate::limits::{GLOB_NAMES, LISTING_PAGE};

/// More names than [`GLOB_NAMES`].
#[derive(Debug)]
pub(super) struct TooMany;

/// The names that a word stands for, in the order of their letters; none: nothing looks so.
pub(super) async fn expand(account: &ConnectionShared, word: &Word) -> Result<Vec<VPath>, TooMany> {
    let absolute = word.path().starts_with('/');
    let home = account.session.vfs().home();
    let mut found = vec![if absolute { VPath::root() } else { home }];
    let mut by_pattern = false;
    for component in word.components() {
        let mut next = Vec::new();
        for path in found {
            match &component {
                Component::Name(name) => {
                    let Ok(path) = path.resolve(name.as_bytes()) else { continue };
                    // What a pattern led to must be there; a plain path is looked at by its user.
                    if !by_pattern || account.session.vfs().stat(&path).await.is_ok() {
                        next.push(path);
                    }
                }
                Component::Pattern(pattern) => matching(account, &path, pattern, &mut next).await?,
            }
        }
        by_pattern |= matches!(component, Component::Pattern(_));
        found = next;
    }
    found.sort();
    Ok(found)
}

/// Adds what looks so in a directory.
async fn matching(
    account: &ConnectionShared,
    directory: &VPath,
    pattern: &Pattern,
    found: &mut Vec<VPath>,
) -> Result<(), TooMany> {
    let vfs = account.session.vfs();
    let is_directory =
        vfs.stat(directory).await.is_ok_and(|found| found.kind == EntryKind::Directory);
    if !is_directory {
        return Ok(());
    }
    let Ok(mut listing) = vfs.list(directory).await else { return Ok(()) };
    loop {
        let Ok(page) = listing.next_page(LISTING_PAGE).await else { return Ok(()) };
        if page.is_empty() {
            return Ok(());
        }
        for entry in page.iter().filter(|entry| pattern.matches(&entry.name)) {
            if found.len() >= GLOB_NAMES {
                return Err(TooMany);
            }
            found.extend(directory.join(&entry.name));
        }
    }
}
