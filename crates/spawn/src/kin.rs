//! The processes of programs, wherever they went: into sessions of their own, or away from a
//! parent that has ended (`setsid`, a double fork).
//!
//! The helper is a subreaper (prctl(2)): what a program leaves behind becomes its child, so every
//! process of a program stays below it. Which run such an orphan is of says its *mark*: a number of
//! the run that processes inherit and none of them can raise, the hard limit on file locks
//! (`RLIMIT_LOCKS`), which Linux counts nothing against. It is looked at once, when the orphan is
//! found. An orphan whose mark is not that of a run that goes on is killed, with all below it: its
//! run has ended, or it had lowered its mark.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::Env;
use parking_lot::Mutex;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getpid, getrlimit, kill_process,
    pidfd_open, pidfd_send_signal, set_child_subreaper, setrlimit, waitpid,
};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::apart::Apart;
use crate::limits::{
    KILL_PAUSE, KILL_TIME, LOOK_PAUSE, LOOK_PAUSE_MOST, LOOK_SHARE, MARK_STEP, SWEEPS,
};
use crate::proc::{self, Families};

/// The processes of all programs of this helper.
pub(crate) struct Kin {
    own: Pid,
    env: Env,
    families: Families,
    state: Mutex<State>,
    /// A run began, or ended without a look.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// That of the last run that began.
    mark: u64,
    /// Those that go on, by their marks.
    runs: HashMap<u64, Going>,
    /// Children of the helper that are no first process of a run. Nobody else waits for them, so
    /// that none of these numbers becomes that of another process.
    orphans: HashMap<Pid, Orphan>,
    /// Has the rights of the programs.
    apart: Option<Arc<Apart>>,
}

/// A run that goes on.
struct Going {
    first: Pid,
    most: u64,
    crowded: CancellationToken,
}

struct Orphan {
    of: Origin,
    /// Since when, if it is a stray.
    killed: Option<Duration>,
}

/// Which run a process is of.
enum Origin {
    Mark(u64),
    /// It may not be seen: of one of these, which went on when it was found.
    OneOf(Vec<u64>),
}

/// A process that is to be killed.
struct Stray {
    pid: Pid,
    /// `None` for a child of the helper.
    parent: Option<Pid>,
}

impl Kin {
    /// Has all that programs leave behind become children of this process, which must have no
    /// children that were not started as programs.
    ///
    /// # Errors
    /// The kernel does not say what there is.
    pub(crate) fn new(env: Env) -> io::Result<Kin> {
        let own = getpid();
        let families = Families::new()?;
        let mut number = [0; 8];
        env.fill_random(&mut number);
        // Two bits less, so that it is far from both ends; programs of another helper have others.
        let random = u64::from_le_bytes(number) >> 2 | 1 << 60;
        let mark = getrlimit(Resource::Locks).maximum.map_or(random, |most| most.min(random));
        set_child_subreaper(Some(own))?;
        let state = Mutex::new(State { mark, ..State::default() });
        Ok(Kin { own, env, families, state, changed: Notify::new() })
    }

    /// From now on programs are started by `apart`.
    pub(crate) fn start_by(&self, apart: Arc<Apart>) {
        self.state.lock().apart = Some(apart);
    }

    /// Gives this process, and so the program that it starts next, the mark of another run.
    ///
    /// # Errors
    /// There are no more.
    pub(crate) fn mark(&self) -> io::Result<u64> {
        let mut state = self.state.lock();
        let mut random = [0; 4];
        self.env.fill_random(&mut random);
        // A program may not guess which mark the next run will have.
        let step = u64::from(u32::from_le_bytes(random)) % MARK_STEP + 1;
        let mark = state.mark.checked_sub(step);
        let mark = mark.ok_or_else(|| io::Error::other("there are no more marks for programs"))?;
        setrlimit(Resource::Locks, Rlimit { current: Some(mark), maximum: Some(mark) })?;
        state.mark = mark;
        Ok(mark)
    }

    /// The program that was started with `mark` goes on, until the value is dropped.
    pub(crate) fn began(self: &Arc<Self>, mark: u64, first: Pid, most: u64) -> KinOfRun {
        let crowded = CancellationToken::new();
        let going = Going { first, most, crowded: crowded.clone() };
        self.state.lock().runs.insert(mark, going);
        self.changed.notify_one();
        KinOfRun { kin: self.clone(), mark, crowded }
    }

    /// Looks after what is of no run that goes on, and after runs with too many processes, again
    /// and again while programs run.
    pub(crate) async fn keep_looking(&self) {
        loop {
            self.changed.notified().await;
            let mut pause = LOOK_PAUSE;
            loop {
                sleep(pause).await;
                let began = self.env.elapsed();
                self.look();
                if self.is_idle() {
                    break;
                }
                // With very many processes a look takes long: most of the time is for programs.
                let took = self.env.elapsed().saturating_sub(began);
                pause = took.saturating_mul(LOOK_SHARE).clamp(LOOK_PAUSE, LOOK_PAUSE_MOST);
            }
        }
    }

    fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.runs.is_empty() && state.orphans.is_empty()
    }

    fn look(&self) {
        self.sweep();
        self.crowds();
    }

    /// Kills what is of no run that goes on, and waits for what has ended. Returns how many of
    /// those are left that can be expected to end soon.
    fn sweep(&self) -> usize {
        let mut state = self.state.lock();
        for _ in 0..SWEEPS {
            // Without a view of the processes there is nothing that could be killed.
            let Ok(families) = self.families.again() else { break };
            let strays = state.new_strays(families.children(self.own), self.env.elapsed());
            if strays.is_empty() {
                break;
            }
            kill_with_descendants(&families, strays);
        }
        state.strays_left(self.env.elapsed())
    }

    /// Has runs end that have more processes than they may.
    fn crowds(&self) {
        let state = self.state.lock();
        let Some(least) = state.runs.values().map(|run| run.most).min() else { return };
        if proc::threads().is_some_and(|threads| threads <= least) {
            return;
        }
        let Ok(families) = self.families.again() else { return };
        for (mark, run) in &state.runs {
            let is_kin = |orphan: &Orphan| matches!(orphan.of, Origin::Mark(of) if of == *mark);
            let orphans = state.orphans.iter().filter(|(_, orphan)| is_kin(orphan));
            let mut found: Vec<Pid> = orphans.map(|(pid, _)| *pid).collect();
            found.push(run.first);
            let mut count = 0;
            while let Some(pid) = found.pop() {
                count += 1;
                if count > run.most {
                    run.crowded.cancel();
                    break;
                }
                found.extend(families.children(pid));
            }
        }
    }

    /// Kills all that is of no run that goes on, until it has ended or does not end.
    pub(crate) async fn kill_strays(&self) {
        let give_up = self.env.elapsed() + KILL_TIME;
        let mut pause = KILL_PAUSE;
        while self.sweep() > 0 && self.env.elapsed() < give_up {
            sleep(pause).await;
            pause = (2 * pause).min(LOOK_PAUSE);
        }
    }
}

impl State {
    /// Those of the children of the helper that are of no run that goes on and have not been
    /// killed. They are as good as killed now.
    fn new_strays(&mut self, children: Vec<Pid>, now: Duration) -> Vec<Stray> {
        let State { runs, orphans, apart, .. } = self;
        let firsts: HashSet<Pid> = runs.values().map(|run| run.first).collect();
        let is_orphan = |pid: &Pid| !firsts.contains(pid) && !has_ended(*pid);
        let children: HashSet<Pid> = children.into_iter().filter(is_orphan).collect();
        orphans.retain(|pid, _| children.contains(pid));
        let mut strays = Vec::new();
        for pid in children {
            let found = || Orphan { of: whose(pid, runs, apart.as_deref()), killed: None };
            let orphan = orphans.entry(pid).or_insert_with(found);
            if orphan.killed.is_none() && orphan.is_stray(runs) {
                orphan.killed = Some(now);
                strays.push(Stray { pid, parent: None });
            }
        }
        strays
    }

    /// How many of them are left that were killed not long ago. What the kernel does not let end,
    /// such as a process that waits for a disk, holds up nobody.
    fn strays_left(&self, now: Duration) -> usize {
        let killed = self.orphans.values().filter_map(|orphan| orphan.killed);
        killed.filter(|at| now.saturating_sub(*at) < KILL_TIME).count()
    }
}

impl Orphan {
    fn is_stray(&self, runs: &HashMap<u64, Going>) -> bool {
        match &self.of {
            Origin::Mark(mark) => !runs.contains_key(mark),
            Origin::OneOf(marks) => !marks.iter().any(|mark| runs.contains_key(mark)),
        }
    }
}

impl Stray {
    fn kill(&self) {
        // It may have ended by itself meanwhile.
        let _ = match self.parent {
            None => kill_process(self.pid, Signal::KILL),
            // Its parent may have waited for it, and its number be that of another process: what
            // was opened is the one that is looked at, or has ended.
            Some(parent) => pidfd_open(self.pid, PidfdFlags::empty()).and_then(|process| {
                if proc::parent(self.pid) == Some(parent) {
                    return pidfd_send_signal(process, Signal::KILL);
                }
                Ok(())
            }),
        };
    }
}

/// Waits for a child if it has ended.
fn has_ended(child: Pid) -> bool {
    matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(Some(_)))
}

/// Which run an orphan is of.
fn whose(orphan: Pid, runs: &HashMap<u64, Going>, apart: Option<&Apart>) -> Origin {
    // Where `/proc` hides the processes of others (`hidepid`, `ProtectProc=` of systemd), those of
    // the programs' user are seen by that user.
    let as_programs =
        |error| apart.map_or(Err(error), |apart| apart.as_programs(|| proc::lock_limit(orphan)));
    match proc::lock_limit(orphan).or_else(as_programs) {
        // Without a limit, it was raised.
        Ok(mark) => Origin::Mark(mark.unwrap_or(u64::MAX)),
        Err(_) => Origin::OneOf(runs.keys().copied().collect()),
    }
}

/// Kills processes and all below them. What has been killed starts nothing any more, even in the
/// midst of `fork`: its children are all those that it has then, or they are orphans already, which
/// the next look finds. So it is enough to come to each process once.
fn kill_with_descendants(families: &Families, roots: Vec<Stray>) {
    let mut found = roots;
    while let Some(stray) = found.pop() {
        stray.kill();
        let parent = Some(stray.pid);
        let children = families.children(stray.pid).into_iter();
        found.extend(children.map(|pid| Stray { pid, parent }));
    }
}

/// The processes of one run, while it goes on.
pub(crate) struct KinOfRun {
    kin: Arc<Kin>,
    mark: u64,
    crowded: CancellationToken,
}

impl KinOfRun {
    /// Waits until the run has more processes than it may.
    pub(crate) async fn crowded(&self) {
        self.crowded.cancelled().await;
    }

    /// Kills what is left of the run, whose first process has ended and was waited for.
    pub(crate) async fn end(self) {
        let kin = self.kin.clone();
        drop(self);
        kin.kill_strays().await;
    }
}

impl Drop for KinOfRun {
    fn drop(&mut self) {
        self.kin.state.lock().runs.remove(&self.mark);
        self.kin.changed.notify_one();
    }
}
