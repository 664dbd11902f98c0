//! Power cuts and failing calls on a disk in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use entrepot_model::Env;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::{Content, Entries, Folder, Inode, Node, PAGE, RamDisk, Shared};

/// Kinds of calls a simulated disk counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// Opening a file or directory, also making a file.
    Open,
    /// Asking what a name is.
    Stat,
    /// Reading bytes.
    Read,
    /// Writing bytes or setting a length.
    Write,
    /// `fdatasync` of a file.
    SyncFile,
    /// `fsync` of a directory.
    SyncDir,
    /// Renaming or linking.
    Rename,
    /// Removing a name.
    Unlink,
    /// Making a directory.
    MakeDir,
    /// Setting times.
    SetTimes,
    /// Setting permission bits.
    SetMode,
}

/// What a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing that was not synced: a durable name without durable bytes is an empty file.
    Strict,
    /// Besides, any subset of the unsynced 4 KiB pages and, in each directory, any prefix of its
    /// unsynced name changes.
    Mixed,
}

/// Which calls fail or lie.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) calls: u64,
    pub(crate) by_kind: BTreeMap<Call, u64>,
    pub(crate) log: Option<Vec<Call>>,
    /// From this call on nothing works any more.
    pub(crate) off_at: Option<u64>,
    /// This call (of this kind, or of any) fails once.
    pub(crate) fail: Vec<(Option<Call>, u64, Errno)>,
    /// These calls succeed without effect.
    pub(crate) lies: Vec<Call>,
    /// The file system knows no flags of `renameat2`.
    pub(crate) lacks_flags: bool,
}

impl Plan {
    /// Counts a call. `Ok(false)`: it must have no effect.
    pub(crate) fn enter(&mut self, call: Call) -> Result<bool, Errno> {
        self.calls += 1;
        let of_kind = self.by_kind.entry(call).or_default();
        *of_kind += 1;
        let (all, of_kind) = (self.calls, *of_kind);
        if let Some(log) = &mut self.log {
            log.push(call);
        }
        if self.off_at.is_some_and(|at| all >= at) {
            return Err(Errno::IO);
        }
        let due = self.fail.iter().position(|(kind, at, _)| match kind {
            None => *at == all,
            Some(kind) => *kind == call && *at == of_kind,
        });
        if let Some(due) = due {
            return Err(self.fail.swap_remove(due).2);
        }
        Ok(!self.lies.contains(&call))
    }
}

impl Content {
    /// Makes bytes and size durable.
    pub(super) fn harden(&mut self) {
        let len = self.live.len();
        self.durable.resize(len, 0);
        for page in std::mem::take(&mut self.dirty) {
            copy_page(&self.live, &mut self.durable, page);
        }
    }

    /// What a cut leaves of the bytes.
    fn after(&self, cut: Cut, coin: &mut Coin) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        if cut == Cut::Mixed {
            if coin.flip() {
                bytes.resize(self.live.len(), 0);
            }
            for page in &self.dirty {
                if coin.flip() {
                    copy_page(&self.live, &mut bytes, *page);
                }
            }
        }
        bytes
    }
}

fn copy_page(from: &[u8], to: &mut [u8], page: usize) {
    let start = page * PAGE;
    let end = (start + PAGE).min(from.len()).min(to.len());
    if let (Some(from), Some(to)) = (from.get(start..end), to.get_mut(start..end)) {
        to.copy_from_slice(from);
    }
}

impl Folder {
    /// Makes the names durable.
    pub(super) fn harden(&mut self) {
        let count = self.pending.len();
        self.durable = self.after(count);
        self.pending.clear();
    }

    /// The names after the first `count` of the changes that are not durable.
    fn after(&self, count: usize) -> Entries {
        let mut names = self.durable.clone();
        for (name, inode) in self.pending.iter().take(count).flatten() {
            match inode {
                Some(inode) => names.insert(name.clone(), Arc::clone(inode)),
                None => names.remove(name),
            };
        }
        names
    }
}

/// Decisions that repeat for a seed.
struct Coin(Env);

impl Coin {
    fn below(&mut self, end: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill_random(&mut bytes);
        u64::from_le_bytes(bytes) % end.max(1)
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 1
    }
}

impl RamDisk {
    /// The disk as a power cut leaves it, restarted: a new one. This one works no more.
    pub(crate) fn cut(&self, seed: u64, cut: Cut) -> RamDisk {
        let _names = self.shared.names.lock();
        if let Some(plan) = &self.shared.plan {
            plan.lock().off_at = Some(0);
        }
        let shared = Arc::new(Shared {
            env: self.shared.env.clone(),
            limit: self.shared.limit,
            used: Arc::default(),
            next: AtomicU64::new(self.shared.next.load(Ordering::Relaxed)),
            names: Mutex::new(()),
            plan: Some(Mutex::new(Plan {
                lacks_flags: self.with_plan(|plan| plan.lacks_flags).unwrap_or_default(),
                ..Plan::default()
            })),
        });
        let mut restart = Restart {
            shared: &shared,
            cut,
            coin: Coin(Env::simulated(seed)),
            done: HashMap::new(),
        };
        let root = restart.inode(&self.root);
        RamDisk { shared, root }
    }

    pub(crate) fn with_plan<T>(&self, read: impl FnOnce(&mut Plan) -> T) -> Option<T> {
        self.shared.plan.as_ref().map(|plan| read(&mut plan.lock()))
    }
}

/// Builds the restarted disk from the durable image.
struct Restart<'a> {
    shared: &'a Arc<Shared>,
    cut: Cut,
    coin: Coin,
    done: HashMap<u64, Arc<Inode>>,
}

impl Restart<'_> {
    fn inode(&mut self, old: &Inode) -> Arc<Inode> {
        if let Some(done) = self.done.get(&old.number) {
            done.links.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(done);
        }
        let node = match &old.node {
            Node::File(content) => {
                let bytes = content.lock().after(self.cut, &mut self.coin);
                self.shared.used.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                let content = Content { live: bytes.clone(), durable: bytes, ..Content::default() };
                Node::File(Mutex::new(content))
            }
            Node::Directory(folder) => {
                let folder = folder.lock();
                let kept = match self.cut {
                    Cut::Strict => 0,
                    Cut::Mixed => self.coin.below(folder.pending.len() as u64 + 1),
                };
                let names = folder.after(usize::try_from(kept).unwrap_or_default());
                drop(folder);
                let names: Entries =
                    names.iter().map(|(name, old)| (name.clone(), self.inode(old))).collect();
                let (live, durable) = (names.clone(), names);
                Node::Directory(Mutex::new(Folder { live, durable, ..Folder::default() }))
            }
            Node::Link(target) => Node::Link(target.clone()),
        };
        let inode = Arc::new(Inode {
            number: old.number,
            born: old.born,
            links: AtomicU64::new(1),
            times: Mutex::new(*old.times.lock()),
            mode: AtomicU32::new(old.durable_mode.load(Ordering::Relaxed)),
            durable_mode: AtomicU32::new(old.durable_mode.load(Ordering::Relaxed)),
            node,
            used: Arc::clone(&self.shared.used),
        });
        self.done.insert(old.number, Arc::clone(&inode));
        inode
    }
}
