//! Share links: what of its owner's files a link shows.

use entrepot_nouns::{Account, LinkTerms, Quota};

use crate::principal::{EffectiveMount, Principal};

/// The mounts of a link: the part of its owner's mounts that lies in its folder, at the same paths,
/// with the rights that both have.
pub(crate) fn mounts(account: &Account, owner: Option<&Principal>) -> Vec<EffectiveMount> {
    let (Some(terms), Some(owner)) = (&account.link, owner) else { return Vec::new() };
    let rights = terms.rights().and(account.rights);
    let folder = &terms.folder;
    let mut mounts = Vec::new();
    let mut is_covered = false;
    // They are sorted by depth, so that the first above the folder is the one that holds it.
    for mount in &owner.mounts {
        let mut mount = mount.clone();
        mount.rights = mount.rights.and(rights);
        limit_files(&mut mount, terms);
        if mount.path == *folder || mount.path.below(folder).is_some() {
            is_covered |= mount.path == *folder;
            mounts.push(mount);
        } else if !is_covered
            && let Some(below) = folder.below(&mount.path)
            && let Ok(prefix) = mount.prefix.append(&below)
        {
            is_covered = true;
            mount.prefix = prefix;
            mount.path = folder.clone();
            mounts.push(mount);
        }
    }
    mounts
}

/// A file may not be larger than the link takes, either.
fn limit_files(mount: &mut EffectiveMount, terms: &LinkTerms) {
    let Some(largest) = terms.largest_upload() else { return };
    let quota = mount.mount.quota.unwrap_or_default();
    let largest = quota.file_size_bytes.map_or(largest, |most| most.min(largest));
    mount.mount.quota = Some(Quota { file_size_bytes: Some(largest), ..quota });
}
