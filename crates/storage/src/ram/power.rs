//! Power cuts and failing calls on a disk in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use entrepot_nouns::Env;
use parking_lot::Mutex;

use super::disk::{RamDisk, Shared};
use super::inode::{Content, Entries, Folder, Inode, Node, copy_page};
use super::plan::Plan;

/// What a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing that was not synced: a durable name without durable bytes is an empty file.
    Strict,
    /// Besides, any subset of the unsynced 4 KiB pages and, in each directory, any prefix of its
    /// unsynced name changes.
    Mixed,
}

impl Content {
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
