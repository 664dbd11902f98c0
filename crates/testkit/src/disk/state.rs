//! What the disk holds: as processes see it, and as it would be after a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use fuser::Errno;

/// Bytes that a disk writes as a whole.
const PAGE: usize = 4096;
/// Number of the top folder.
pub(super) const ROOT: u64 = 1;

pub(super) type Result<T> = std::result::Result<T, Errno>;
type Page = Arc<[u8; PAGE]>;
/// Names of a folder.
type Names = BTreeMap<OsString, u64>;
/// Changes of names that a log writes together: the folder, the name, what it means from then on.
type Change = Vec<(u64, OsString, Option<u64>)>;

/// The bytes of a file; pages that are not there are zeros.
#[derive(Clone, Default)]
struct Content {
    pages: BTreeMap<u64, Page>,
    size: u64,
}

/// What a number stands for.
pub(super) enum Body {
    File,
    Folder,
    Socket,
    Link(PathBuf),
}

/// A file, folder or link.
pub(super) struct Inode {
    pub(super) body: Body,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) changed: SystemTime,
    pub(super) links: u32,
    open: u64,
    /// The name it was made under.
    name: OsString,
    live: Content,
    safe: Content,
    /// Pages that are not on the disk as they are.
    unsynced: BTreeSet<u64>,
}

/// The whole disk.
pub(super) struct State {
    inodes: BTreeMap<u64, Inode>,
    live: BTreeMap<u64, Names>,
    safe: BTreeMap<u64, Names>,
    /// Changes of names since the last sync of a folder, in their order.
    pending: Vec<Change>,
    next: u64,
    powered: bool,
    /// Pages that fit.
    room: Option<u64>,
    failing: Option<String>,
    lies: bool,
}

/// What a new file, folder or link is made of.
pub(super) struct Made {
    pub(super) body: Body,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
}

impl State {
    pub(super) fn new() -> State {
        let mut state = State {
            inodes: BTreeMap::new(),
            live: BTreeMap::new(),
            safe: BTreeMap::new(),
            pending: Vec::new(),
            next: ROOT + 1,
            powered: true,
            room: None,
            failing: None,
            lies: false,
        };
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let root = Made { body: Body::Folder, mode: 0o755, owner };
        state.inodes.insert(ROOT, Inode::new(root, OsString::new()));
        state.live.insert(ROOT, Names::new());
        state.safe.insert(ROOT, Names::new());
        state
    }

    /// # Errors
    /// `EIO` while the power is off.
    pub(super) fn has_power(&self) -> Result<()> {
        if self.powered { Ok(()) } else { Err(Errno::EIO) }
    }

    pub(super) fn inode(&self, number: u64) -> Result<&Inode> {
        self.inodes.get(&number).ok_or(Errno::ENOENT)
    }

    pub(super) fn inode_mut(&mut self, number: u64) -> Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or(Errno::ENOENT)
    }

    pub(super) fn names(&self, folder: u64) -> Result<&Names> {
        self.live.get(&folder).ok_or(Errno::ENOTDIR)
    }

    pub(super) fn lookup(&self, folder: u64, name: &OsStr) -> Result<u64> {
        self.names(folder)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// Makes something new under a free name.
    pub(super) fn make(&mut self, folder: u64, name: &OsStr, made: Made) -> Result<u64> {
        if self.names(folder)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let number = self.next;
        self.next += 1;
        if matches!(made.body, Body::Folder) {
            self.live.insert(number, Names::new());
            self.safe.insert(number, Names::new());
        }
        self.inodes.insert(number, Inode::new(made, name.to_owned()));
        self.record(vec![(folder, name.to_owned(), Some(number))]);
        Ok(number)
    }

    /// Gives a file one more name.
    pub(super) fn link(&mut self, number: u64, folder: u64, name: &OsStr) -> Result<()> {
        if self.names(folder)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.record(vec![(folder, name.to_owned(), Some(number))]);
        Ok(())
    }

    /// Removes a name; what has no name and is not open is gone.
    pub(super) fn remove(&mut self, folder: u64, name: &OsStr) -> Result<()> {
        let number = self.lookup(folder, name)?;
        if self.live.get(&number).is_some_and(|names| !names.is_empty()) {
            return Err(Errno::ENOTEMPTY);
        }
        self.record(vec![(folder, name.to_owned(), None)]);
        self.drop_content_of(number);
        Ok(())
    }

    /// `rename(2)`.
    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> Result<()> {
        let moved = self.lookup(from.0, from.1)?;
        let replaced = self.lookup(to.0, to.1).ok();
        if replaced == Some(moved) {
            return Ok(());
        }
        if let Some(number) = replaced
            && self.live.get(&number).is_some_and(|names| !names.is_empty())
        {
            return Err(Errno::ENOTEMPTY);
        }
        self.record(vec![(from.0, from.1.to_owned(), None), (to.0, to.1.to_owned(), Some(moved))]);
        if let Some(number) = replaced {
            self.drop_content_of(number);
        }
        Ok(())
    }

    /// `renameat2(2)` with `RENAME_EXCHANGE`.
    pub(super) fn exchange(&mut self, one: (u64, &OsStr), other: (u64, &OsStr)) -> Result<()> {
        let (first, second) = (self.lookup(one.0, one.1)?, self.lookup(other.0, other.1)?);
        self.record(vec![
            (one.0, one.1.to_owned(), Some(second)),
            (other.0, other.1.to_owned(), Some(first)),
        ]);
        Ok(())
    }

    /// Makes a change visible, and notes that the disk does not have it yet.
    fn record(&mut self, change: Change) {
        for (folder, name, means) in &change {
            let before = self.live.get(folder).and_then(|names| names.get(name)).copied();
            if let Some(inode) = before.and_then(|number| self.inodes.get_mut(&number)) {
                inode.links = inode.links.saturating_sub(1);
            }
            if let Some(inode) = means.and_then(|number| self.inodes.get_mut(&number)) {
                inode.links += 1;
            }
            set(&mut self.live, folder, name, *means);
        }
        self.pending.push(change);
    }

    fn drop_content_of(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number)
            && inode.links == 0
            && inode.open == 0
        {
            // What the disk has stays: the removal may not survive.
            inode.live = Content::default();
            inode.unsynced.clear();
        }
    }

    pub(super) fn open(&mut self, number: u64) -> Result<()> {
        self.inode_mut(number)?.open += 1;
        Ok(())
    }

    pub(super) fn close(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.open = inode.open.saturating_sub(1);
        }
        self.drop_content_of(number);
    }

    pub(super) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        let (room, pages) = (self.free_pages(), offset / PAGE as u64..end.div_ceil(PAGE as u64));
        let inode = self.inode_mut(number)?;
        let new = pages.filter(|page| !inode.live.pages.contains_key(page)).count() as u64;
        if room.is_some_and(|room| new > room) {
            return Err(Errno::ENOSPC);
        }
        inode.write(offset, bytes);
        Ok(())
    }

    pub(super) fn resize(&mut self, number: u64, size: u64) -> Result<()> {
        self.inode_mut(number)?.resize(size);
        Ok(())
    }

    /// `fallocate(2)`, which takes the room at once.
    pub(super) fn reserve(&mut self, number: u64, end: u64) -> Result<()> {
        let have = self.inode(number)?.live.size;
        let missing = end.saturating_sub(have) / PAGE as u64;
        if self.free_pages().is_some_and(|room| missing > room) {
            return Err(Errno::ENOSPC);
        }
        if end > have {
            self.resize(number, end)?;
        }
        Ok(())
    }

    /// `fsync` of a file.
    pub(super) fn sync_file(&mut self, number: u64) -> Result<()> {
        if self.lies {
            return Ok(());
        }
        let failing = self.failing.clone();
        let inode = self.inode_mut(number)?;
        let fails = |prefix: &String| inode.name.to_string_lossy().starts_with(prefix);
        if failing.as_ref().is_some_and(fails) {
            inode.unsynced.clear();
            self.failing = None;
            return Err(Errno::EIO);
        }
        inode.sync();
        Ok(())
    }

    /// `fsync` of a folder: the log is written up to the last change in it.
    pub(super) fn sync_folder(&mut self, folder: u64) -> Result<()> {
        if self.lies {
            return Ok(());
        }
        let touches = |change: &Change| change.iter().any(|(at, _, _)| *at == folder);
        let count = self.pending.iter().rposition(touches).map_or(0, |last| last + 1);
        self.keep(count);
        Ok(())
    }

    fn keep(&mut self, count: usize) {
        for (folder, name, means) in self.pending.drain(..count).flatten() {
            set(&mut self.safe, &folder, &name, means);
        }
    }

    pub(super) fn settle(&mut self) {
        self.keep(self.pending.len());
        self.inodes.values_mut().for_each(Inode::sync);
    }

    pub(super) fn limit(&mut self, bytes: u64) {
        self.room = Some(bytes / PAGE as u64);
    }

    pub(super) fn fail_sync_of(&mut self, prefix: &str) {
        self.failing = Some(prefix.to_owned());
    }

    pub(super) fn lie(&mut self) {
        self.lies = true;
    }

    /// All pages and those that are free, where there is a limit.
    pub(super) fn room(&self) -> Option<(u64, u64)> {
        Some((self.room?, self.free_pages()?))
    }

    fn free_pages(&self) -> Option<u64> {
        let used: usize = self.inodes.values().map(|inode| inode.live.pages.len()).sum();
        Some(self.room?.saturating_sub(used as u64))
    }

    pub(super) fn power_off(&mut self) {
        self.powered = false;
    }

    /// Goes on with what survived.
    pub(super) fn power_on(&mut self, seed: u64) {
        let mut random = Random(seed);
        let kept = random.below(self.pending.len() as u64 + 1);
        self.keep(usize::try_from(kept).unwrap_or(usize::MAX));
        self.pending.clear();
        // None, half or all of the pages that were on their way.
        let luck = random.below(3);
        self.live.clone_from(&self.safe);
        let mut links = BTreeMap::new();
        for number in self.safe.values().flat_map(Names::values) {
            *links.entry(*number).or_insert(0) += 1;
        }
        for (number, inode) in &mut self.inodes {
            inode.forget(|| random.below(2) < luck);
            inode.links = links.get(number).copied().unwrap_or_default();
        }
        self.inodes.retain(|number, inode| *number == ROOT || inode.links > 0);
        self.powered = true;
    }
}

impl Inode {
    fn new(made: Made, name: OsString) -> Inode {
        Inode {
            body: made.body,
            mode: made.mode & 0o7777,
            owner: made.owner,
            changed: SystemTime::now(),
            links: 0,
            open: 0,
            name,
            live: Content::default(),
            safe: Content::default(),
            unsynced: BTreeSet::new(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.live.size
    }

    pub(super) fn pages(&self) -> u64 {
        self.live.pages.len() as u64
    }

    pub(super) fn target(&self) -> Option<&Path> {
        if let Body::Link(target) = &self.body { Some(target) } else { None }
    }

    pub(super) fn read(&self, offset: u64, size: u32) -> Vec<u8> {
        let end = self.live.size.min(offset + u64::from(size));
        let mut bytes = Vec::with_capacity(size as usize);
        let mut at = offset;
        while at < end {
            let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let count = (PAGE - within).min((end - at) as usize);
            match self.live.pages.get(&page) {
                Some(page) => bytes.extend(page.iter().skip(within).take(count)),
                None => bytes.resize(bytes.len() + count, 0),
            }
            at += count as u64;
        }
        bytes
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (number, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let count = (PAGE - within).min(rest.len());
            let (now, after) = rest.split_at(count);
            let page = self.live.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE]));
            for (to, from) in Arc::make_mut(page).iter_mut().skip(within).zip(now) {
                *to = *from;
            }
            self.unsynced.insert(number);
            (at, rest) = (at + count as u64, after);
        }
        self.live.size = self.live.size.max(at);
        self.changed = SystemTime::now();
    }

    fn resize(&mut self, size: u64) {
        if size < self.live.size {
            let gone = self.live.pages.split_off(&size.div_ceil(PAGE as u64));
            self.unsynced.extend(gone.keys());
            let last = size / PAGE as u64;
            if let Some(page) = self.live.pages.get_mut(&last) {
                Arc::make_mut(page)
                    .iter_mut()
                    .skip((size % PAGE as u64) as usize)
                    .for_each(|b| *b = 0);
                self.unsynced.insert(last);
            }
        }
        self.live.size = size;
        self.changed = SystemTime::now();
    }

    fn sync(&mut self) {
        for number in std::mem::take(&mut self.unsynced) {
            self.put_on_disk(number);
        }
        self.safe.size = self.live.size;
    }

    fn put_on_disk(&mut self, number: u64) {
        match self.live.pages.get(&number) {
            Some(page) => self.safe.pages.insert(number, Arc::clone(page)),
            None => self.safe.pages.remove(&number),
        };
    }

    /// Loses what is not on the disk, but for the pages that `lucky` says were written.
    fn forget(&mut self, mut lucky: impl FnMut() -> bool) {
        for number in std::mem::take(&mut self.unsynced) {
            if lucky() {
                self.put_on_disk(number);
            }
        }
        if lucky() {
            self.safe.size = self.live.size;
        }
        let end = self.safe.size.div_ceil(PAGE as u64);
        self.safe.pages.retain(|number, _| *number < end);
        self.live = self.safe.clone();
        self.open = 0;
    }
}

fn set(tree: &mut BTreeMap<u64, Names>, folder: &u64, name: &OsStr, means: Option<u64>) {
    let names = tree.entry(*folder).or_default();
    match means {
        Some(number) => names.insert(name.to_owned(), number),
        None => names.remove(name),
    };
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
