//! The disk: its root, its size, and the plan of a simulated one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use entrepot_nouns::{Env, Timestamp};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::inode::{Content, Inode, InodeTimes, Node};
use super::plan::{Call, Plan};

/// What this disk takes from the permission bits of new files, in place of the process's umask.
pub(super) const UMASK: u32 = 0o022;

/// A disk in memory. Clones share it.
#[derive(Clone)]
pub(crate) struct RamDisk {
    pub(super) shared: Arc<Shared>,
    pub(super) root: Arc<Inode>,
}

pub(super) struct Shared {
    pub(super) env: Env,
    pub(super) limit: u64,
    pub(super) used: Arc<AtomicU64>,
    pub(super) next: AtomicU64,
    /// One change of names at a time.
    pub(super) names: Mutex<()>,
    /// Present on a simulated disk: its durable image is tracked and calls can fail.
    pub(super) plan: Option<Mutex<Plan>>,
}

impl RamDisk {
    /// An empty disk of `limit` bytes.
    pub(crate) fn new(limit: u64, env: &Env) -> Self {
        Self::build(limit, env, None)
    }

    /// An empty disk whose durable image is tracked.
    pub(crate) fn tracked(limit: u64, env: &Env) -> Self {
        Self::build(limit, env, Some(Mutex::new(Plan::default())))
    }

    /// The same disk seen from a directory of it.
    pub(crate) fn with_root(&self, root: Arc<Inode>) -> Self {
        RamDisk { shared: Arc::clone(&self.shared), root }
    }

    fn build(limit: u64, env: &Env, plan: Option<Mutex<Plan>>) -> Self {
        let shared = Arc::new(Shared {
            env: env.clone(),
            limit,
            used: Arc::default(),
            next: AtomicU64::new(1),
            names: Mutex::new(()),
            plan,
        });
        let root = shared.inode(Node::Directory(Mutex::default()));
        RamDisk { shared, root }
    }

    /// Notes a call. An error if it is to fail; `false` if it is to succeed without effect.
    pub(super) fn enter(&self, call: Call) -> Result<bool, Errno> {
        let Some(plan) = &self.shared.plan else { return Ok(true) };
        let others = plan.lock().take_before(call);
        if let Some(others) = others {
            others();
        }
        plan.lock().enter(call)
    }

    /// The answer to a call that was done.
    pub(super) fn answer(&self) -> Result<(), Errno> {
        let lost = self.shared.plan.as_ref().and_then(|plan| plan.lock().answer.take());
        lost.map_or(Ok(()), Err)
    }

    pub(super) fn tracks(&self) -> bool {
        self.shared.plan.is_some()
    }

    pub(super) fn walk(&self, dir: &Arc<Inode>, path: &str) -> Result<Arc<Inode>, Errno> {
        path.split('/')
            .filter(|part| !part.is_empty())
            .try_fold(Arc::clone(dir), |at, part| at.lookup(part))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.shared.env.now()
    }

    pub(super) fn resize(
        &self,
        inode: &Inode,
        content: &mut Content,
        size: usize,
    ) -> Result<(), Errno> {
        let before = content.live.len();
        if size > before {
            let more = (size - before) as u64;
            let used = inode.used.fetch_add(more, Ordering::Relaxed).saturating_add(more);
            if used > self.shared.limit || content.live.try_reserve(size - before).is_err() {
                inode.used.fetch_sub(more, Ordering::Relaxed);
                return Err(Errno::NOSPC);
            }
        } else {
            inode.used.fetch_sub((before - size) as u64, Ordering::Relaxed);
        }
        content.live.resize(size, 0);
        if self.tracks() {
            content.mark(before.min(size), before.max(size));
        }
        Ok(())
    }

    /// Reads or changes the plan, if the disk is simulated.
    pub(crate) fn with_plan<T>(&self, read: impl FnOnce(&mut Plan) -> T) -> Option<T> {
        self.shared.plan.as_ref().map(|plan| read(&mut plan.lock()))
    }
}

impl Shared {
    pub(super) fn inode(&self, node: Node) -> Arc<Inode> {
        let now = self.env.now();
        let mode = match &node {
            Node::File(_) => 0o666 & !UMASK,
            Node::Directory(_) => 0o777 & !UMASK,
            Node::Link(_) => 0o777,
        };
        Arc::new(Inode {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            born: now.micros(),
            links: AtomicU64::new(1),
            times: Mutex::new(InodeTimes { accessed: now, modified: now }),
            mode: AtomicU32::new(mode),
            durable_mode: AtomicU32::new(mode),
            node,
            used: Arc::clone(&self.used),
        })
    }
}
