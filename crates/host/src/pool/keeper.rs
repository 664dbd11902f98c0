//! The task that keeps a pool: it has all sessions that no caller has, and does what the book says.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::Env;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::book::{
    Book, CameBack, Deed, Opened, SessionState, SlotId, User, UserNumber, UserSource,
};
use super::figures::PoolFigures;
use super::leased::{
    HeldSession, Lease, PooledSession, Retaken, Return, ReturnKind, WhyRetaken, Worked,
};
use super::queue::{Caller, Ticket};
use super::settings::{PoolError, PoolSettings};
use crate::debug::DebugRecords;
use crate::limits::{OPENING_WAITS, STOP_TIME};
use crate::procedure::{Application, CallError, LoggedOff};

/// What a caller gets.
pub(super) type Given = Result<PooledSession, PoolError>;

/// What callers ask for.
#[derive(Debug)]
pub(super) enum Order {
    /// A session at home, within a time.
    Ask { caller: Caller, until: Duration, reply: oneshot::Sender<Given> },
    /// A session that nobody else has, where the host begins, with variables of the caller's or,
    /// without any, with those of the pool.
    Own { variables: BTreeMap<String, String>, until: Duration, reply: oneshot::Sender<Given> },
    /// The session that the client holds.
    Resume { held: HeldSession, reply: oneshot::Sender<Given> },
}

/// What a task of the keeper has done.
enum Done {
    Opened {
        slot: SlotId,
        opened: Result<Box<Application>, OpenError>,
        own: Option<Ticket>,
    },
    Home {
        slot: SlotId,
        application: Box<Application>,
        how: CameBack,
    },
    /// It was kept alive where its client has left it.
    KeptHeld {
        slot: SlotId,
        application: Box<Application>,
        how: CameBack,
    },
    Ended {
        slot: SlotId,
        user: User,
    },
}

/// A session was not opened.
struct OpenError {
    how: Opened,
    why: String,
}

/// Keeps the sessions of a pool.
pub struct PoolKeeper {
    settings: Arc<PoolSettings>,
    book: Book,
    orders: mpsc::Receiver<Order>,
    back: mpsc::Receiver<Return>,
    /// Which callers get to give their session back.
    back_sender: mpsc::Sender<Return>,
    /// Sessions that rest, are held, or wait for what is to be done with them.
    kept: HashMap<SlotId, Box<Application>>,
    /// By which lease a client holds a session.
    held: HashMap<SlotId, Lease>,
    next_lease: Lease,
    /// Clients that go on with a session which is being kept alive.
    resuming: HashMap<SlotId, oneshot::Sender<Given>>,
    waiting: HashMap<Ticket, oneshot::Sender<Given>>,
    /// What callers gave for sessions of their own that are not opened yet.
    variables: HashMap<Ticket, BTreeMap<String, String>>,
    /// Who is told of sessions that are taken from their clients.
    retaken: mpsc::Sender<Retaken>,
    tasks: JoinSet<Done>,
    /// Which session a task works on.
    working: HashMap<Id, SlotId>,
    failure: Option<String>,
    figures: Arc<Mutex<PoolFigures>>,
    env: Env,
}

impl PoolKeeper {
    pub(super) fn new(
        settings: Arc<PoolSettings>,
        orders: mpsc::Receiver<Order>,
        figures: Arc<Mutex<PoolFigures>>,
        env: Env,
    ) -> PoolKeeper {
        let limits = &settings.limits;
        let places = places(&settings);
        let (back_sender, back) = mpsc::channel(places);
        // Nobody wants to know.
        let (retaken, _) = mpsc::channel(1);
        let keepalive = settings.model.keepalive().map(|keepalive| keepalive.every.duration());
        let book = Book::new(limits.clone(), settings.users.len(), keepalive);
        PoolKeeper {
            book,
            orders,
            back,
            back_sender,
            kept: HashMap::new(),
            held: HashMap::new(),
            next_lease: 0,
            resuming: HashMap::new(),
            waiting: HashMap::new(),
            variables: HashMap::new(),
            retaken,
            tasks: JoinSet::new(),
            working: HashMap::new(),
            failure: None,
            figures,
            settings,
            env,
        }
    }

    /// Tells of sessions that clients hold and that are taken from them, until the pool ends.
    pub fn retaken(&mut self) -> mpsc::Receiver<Retaken> {
        let (sender, receiver) = mpsc::channel(places(&self.settings));
        self.retaken = sender;
        receiver
    }

    /// Keeps the pool until `stop`, or until nobody can ask any more; then logs off all sessions.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            while let Some(deed) = self.book.next(self.env.elapsed()) {
                self.carry_out(deed);
            }
            self.publish();
            let next = self.book.next_time();
            let pause = next.map(|due| due.saturating_sub(self.env.elapsed()));
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(back) = self.back.recv() => self.take_back(back),
                Some(done) = self.tasks.join_next_with_id() => self.done(done),
                order = self.orders.recv() => match order {
                    Some(order) => self.order(order),
                    None => break,
                },
                () = pause_for(pause) => {}
            }
        }
        self.wind_up().await;
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Ask { caller, until, reply } => {
                let ticket = self.ticket(|book| book.ask(caller, until));
                self.wait(ticket, reply);
            }
            Order::Own { variables, until, reply } => {
                let users =
                    if variables.is_empty() { UserSource::Pool } else { UserSource::Caller };
                let ticket = self.ticket(|book| book.ask_own(users, until));
                self.variables.extend(ticket.map(|ticket| (ticket, variables)));
                self.wait(ticket, reply);
            }
            Order::Resume { held: HeldSession { slot, lease }, reply } => {
                if !self.book.is_held(slot) || self.held.get(&slot) != Some(&lease) {
                    let _ = reply.send(Err(PoolError::NotHeld));
                    return;
                }
                match self.kept.remove(&slot) {
                    Some(application) => self.resume(slot, application, reply),
                    // It is being kept alive, and its client waits for the end of that.
                    None => drop(self.resuming.insert(slot, reply)),
                }
            }
        }
    }

    fn resume(
        &mut self,
        slot: SlotId,
        application: Box<Application>,
        reply: oneshot::Sender<Given>,
    ) {
        self.held.remove(&slot);
        self.book.resumed(slot);
        self.hand_over(slot, application, reply, CameBack::Left);
    }

    /// Takes a session from the client that holds it.
    fn retake(&mut self, slot: SlotId, why: WhyRetaken) {
        if let Some(reply) = self.resuming.remove(&slot) {
            let _ = reply.send(Err(PoolError::NotHeld));
        }
        if let Some(lease) = self.held.remove(&slot) {
            // There is a place for each session.
            let _ = self.retaken.try_send(Retaken { held: HeldSession { slot, lease }, why });
        }
    }

    /// The ticket of one that asks, unless too many wait.
    fn ticket(&mut self, ask: impl Fn(&mut Book) -> Option<Ticket>) -> Option<Ticket> {
        ask(&mut self.book).or_else(|| {
            // Some of those that wait may have gone.
            let waiting = &mut self.waiting;
            waiting.retain(|_, reply| !reply.is_closed());
            self.variables.retain(|ticket, _| waiting.contains_key(ticket));
            self.book.forget(|ticket| !waiting.contains_key(&ticket));
            ask(&mut self.book)
        })
    }

    fn wait(&mut self, ticket: Option<Ticket>, reply: oneshot::Sender<Given>) {
        match ticket {
            Some(ticket) => drop(self.waiting.insert(ticket, reply)),
            None => {
                let waiting = self.settings.limits.max_waiting;
                // Who has gone needs no answer.
                let _ = reply.send(Err(PoolError::Crowded { waiting }));
            }
        }
    }

    fn take_back(&mut self, back: Return) {
        let Return { held: HeldSession { slot, lease }, mut application, kind, worked } = back;
        let now = self.env.elapsed();
        if worked == Worked::AtScreens {
            self.book.set_apart(slot);
        }
        match kind {
            ReturnKind::Back(CameBack::Broken) => self.book.came_back(now, slot, CameBack::Broken),
            ReturnKind::Back(how) => {
                self.kept.insert(slot, application);
                self.book.came_back(now, slot, how);
            }
            ReturnKind::Held(how) => {
                if application.take_pressed() {
                    self.book.pressed(now, slot);
                }
                self.book.held(now, slot, how, application.keepalive_here());
                self.held.insert(slot, lease);
                self.kept.insert(slot, application);
            }
        }
    }

    fn carry_out(&mut self, deed: Deed) {
        let rogue_time = self.settings.limits.rogue_time.duration();
        match deed {
            Deed::Open { slot, user } => self.open(slot, user, None),
            Deed::OpenOwn { slot, user, ticket } => self.open(slot, user, Some(ticket)),
            Deed::Give { slot, ticket } => self.give(slot, ticket),
            Deed::Check { slot } => self.work(slot, move |mut application| async move {
                let how = timeout(rogue_time, checked(&mut application)).await;
                Done::Home { slot, application, how: how.unwrap_or(CameBack::Left) }
            }),
            Deed::KeepAlive { slot } => self.work(slot, move |mut application| async move {
                let how = timeout(rogue_time, kept_alive(&mut application)).await;
                Done::Home { slot, application, how: how.unwrap_or(CameBack::Left) }
            }),
            Deed::KeepHeld { slot } => self.work(slot, move |mut application| async move {
                let how = timeout(rogue_time, kept_held(&mut application)).await;
                Done::KeptHeld { slot, application, how: how.unwrap_or(CameBack::Left) }
            }),
            Deed::Retake { slot } => {
                self.retake(slot, WhyRetaken::Left);
                self.book.came_back(self.env.elapsed(), slot, CameBack::Left);
            }
            Deed::BringHome { slot } => {
                self.work(slot, move |mut application| async move {
                    let how = timeout(rogue_time, brought_home(&mut application)).await;
                    Done::Home { slot, application, how: how.unwrap_or(CameBack::Left) }
                });
            }
            Deed::LogOff { slot } => self.work(slot, move |application| async move {
                let ended = timeout(rogue_time, application.log_off()).await;
                let surely = matches!(ended, Ok(LoggedOff::Surely));
                Done::Ended { slot, user: if surely { User::IsFree } else { User::Rests } }
            }),
            Deed::Refuse { ticket } => {
                self.variables.remove(&ticket);
                let Some(reply) = self.waiting.remove(&ticket) else { return };
                let seconds = self.settings.limits.wait.duration().as_secs();
                let failure = self.failure.clone();
                let _ = reply.send(Err(PoolError::Late { seconds, failure }));
            }
        }
    }

    fn open(&mut self, slot: SlotId, user: Option<UserNumber>, own: Option<Ticket>) {
        let settings = Arc::clone(&self.settings);
        let mut variables = settings.variables.clone();
        let user = user.and_then(|user| settings.users.get(user));
        variables
            .extend(user.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        variables.extend(own.and_then(|ticket| self.variables.remove(&ticket)).unwrap_or_default());
        let task = self.tasks.spawn(async move {
            let most = settings.host.patience.saturating_mul(OPENING_WAITS);
            let opening = async {
                let model = Arc::clone(&settings.model);
                let (host, record) = (settings.host.clone(), settings.debug.as_ref());
                let record = record.map(DebugRecords::begin);
                let opened = Application::open_recorded(model, host, variables, record).await;
                let mut application = Box::new(opened.map_err(|error| not_opened(&error))?);
                if own.is_some() {
                    return Ok(application);
                }
                let home = application.go_home().await;
                home.map_err(|error| OpenError { how: Opened::Failed, why: error.to_string() })?;
                Ok(application)
            };
            let late = || {
                let why = format!("it did not come home within {} s", most.as_secs());
                Err(OpenError { how: Opened::Failed, why })
            };
            let opened = timeout(most, opening).await.unwrap_or_else(|_| late());
            Done::Opened { slot, opened, own }
        });
        self.working.insert(task.id(), slot);
    }

    fn give(&mut self, slot: SlotId, ticket: Ticket) {
        let (Some(mut application), Some(reply)) =
            (self.kept.remove(&slot), self.waiting.remove(&ticket))
        else {
            return;
        };
        // Keys from before are in the book.
        application.take_pressed();
        self.hand_over(slot, application, reply, CameBack::AtHome);
    }

    /// Gives a session to who waits for it; `how` is how it comes back if nothing is done with it.
    fn hand_over(
        &mut self,
        slot: SlotId,
        application: Box<Application>,
        reply: oneshot::Sender<Given>,
        how: CameBack,
    ) {
        let held = HeldSession { slot, lease: self.next_lease };
        self.next_lease += 1;
        let session = PooledSession::new(held, application, how, self.back_sender.clone());
        // Who has gone gives it back by the drop.
        let _ = reply.send(Ok(session));
    }

    /// Has a task do something with a session that is kept.
    fn work<F: Future<Output = Done> + Send + 'static>(
        &mut self,
        slot: SlotId,
        job: impl FnOnce(Box<Application>) -> F,
    ) {
        let Some(application) = self.kept.remove(&slot) else { return };
        let task = self.tasks.spawn(job(application));
        self.working.insert(task.id(), slot);
    }

    fn done(&mut self, done: Result<(Id, Done), JoinError>) {
        let now = self.env.elapsed();
        let done = match done {
            Ok((id, done)) => {
                self.working.remove(&id);
                done
            }
            Err(error) => {
                tracing::error!(%error, "a task of a pool failed");
                if let Some(slot) = self.working.remove(&error.id()) {
                    self.retake(slot, WhyRetaken::Broken);
                    self.book.broke(now, slot);
                }
                return;
            }
        };
        match done {
            Done::Opened { slot, opened: Ok(application), own: Some(ticket) } => {
                self.failure = None;
                self.book.opened_own(now, slot);
                match self.waiting.remove(&ticket) {
                    Some(reply) => self.hand_over(slot, application, reply, CameBack::Left),
                    None => {
                        self.kept.insert(slot, application);
                        self.book.came_back(now, slot, CameBack::AtHome);
                    }
                }
            }
            Done::Opened { slot, opened: Ok(application), own: None } => {
                self.failure = None;
                self.kept.insert(slot, application);
                self.book.opened(now, slot, Opened::AtHome, 0.0);
            }
            Done::Opened { slot, opened: Err(OpenError { how, why }), own } => {
                if let Some(reply) = own.and_then(|ticket| self.waiting.remove(&ticket)) {
                    let _ = reply.send(Err(PoolError::NotOpened { failure: why.clone() }));
                }
                tracing::warn!(model = %self.settings.model.model, %why, "no session was opened");
                self.failure = Some(why);
                let mut random = [0; 4];
                self.env.fill_random(&mut random);
                let jitter = f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX);
                self.book.opened(now, slot, how, jitter);
            }
            Done::Home { slot, how: CameBack::Broken, .. } => {
                self.book.came_home(now, slot, CameBack::Broken);
            }
            Done::Home { slot, application, how } => {
                self.kept.insert(slot, application);
                self.book.came_home(now, slot, how);
            }
            Done::KeptHeld { slot, application, how } => self.kept_held(slot, application, how),
            Done::Ended { slot, user } => self.book.ended(now, slot, user),
        }
    }

    fn kept_held(&mut self, slot: SlotId, application: Box<Application>, how: CameBack) {
        if how == CameBack::Broken || !application.is_whole() {
            self.retake(slot, WhyRetaken::Broken);
            self.book.broke(self.env.elapsed(), slot);
            return;
        }
        if let Some(reply) = self.resuming.remove(&slot) {
            self.resume(slot, application, reply);
            return;
        }
        self.book.kept_held(slot, application.keepalive_here());
        self.kept.insert(slot, application);
    }

    fn publish(&self) {
        let at = self.env.now();
        let mut figures = self.figures.lock();
        let shown = &mut *figures;
        for (gauge, state) in [
            (&mut shown.pending, SessionState::Pending),
            (&mut shown.idle, SessionState::Idle),
            (&mut shown.active, SessionState::Active),
            (&mut shown.suspended, SessionState::Suspended),
            (&mut shown.rogue, SessionState::Rogue),
        ] {
            let (now, peak) = self.book.sessions(state);
            gauge.set(now, peak, at);
        }
        let (now, peak) = self.book.waiting();
        shown.waiting.set(now, peak, at);
        let counts = self.book.counts();
        shown.opened = counts.opened;
        shown.not_opened = counts.not_opened;
        shown.broken = counts.broken;
        shown.given = counts.given;
        shown.refused = counts.refused;
        if shown.failure != self.failure {
            shown.failure.clone_from(&self.failure);
        }
    }

    /// Nobody is given a session any more; all that there are are logged off.
    async fn wind_up(mut self) {
        self.orders.close();
        let resuming = self.resuming.drain().map(|(_, reply)| reply);
        for reply in self.waiting.drain().map(|(_, reply)| reply).chain(resuming) {
            let _ = reply.send(Err(PoolError::Stopped));
        }
        let ending = async {
            loop {
                let kept: Vec<SlotId> = self.kept.keys().copied().collect();
                for slot in kept {
                    self.carry_out(Deed::LogOff { slot });
                }
                if self.book.total() == 0 {
                    break;
                }
                tokio::select! {
                    Some(back) = self.back.recv() => self.take_back(back),
                    Some(done) = self.tasks.join_next_with_id() => self.done(done),
                    else => break,
                }
            }
        };
        if timeout(STOP_TIME, ending).await.is_err() {
            tracing::warn!(model = %self.settings.model.model, "sessions were not logged off");
        }
        self.publish();
    }
}

/// Most sessions that there are: a session comes back once, and is taken back once, so that there
/// is always a place to say so.
fn places(settings: &PoolSettings) -> usize {
    usize::try_from(settings.limits.max).unwrap_or(usize::MAX).max(1)
}

async fn pause_for(pause: Option<Duration>) {
    match pause {
        Some(pause) => sleep(pause).await,
        None => std::future::pending().await,
    }
}

async fn checked(application: &mut Application) -> CameBack {
    match application.is_at_home().await {
        Ok(true) => CameBack::AtHome,
        Ok(false) => brought_home(application).await,
        Err(_) => CameBack::Broken,
    }
}

async fn kept_alive(application: &mut Application) -> CameBack {
    match checked(application).await {
        CameBack::AtHome => how_it_is(application.keep_alive().await),
        other => other,
    }
}

async fn kept_held(application: &mut Application) -> CameBack {
    match application.keep_alive_here().await {
        Ok(()) => CameBack::Elsewhere,
        Err(CallError::Host(error)) if error.has_ended() => CameBack::Broken,
        Err(_) => CameBack::Left,
    }
}

async fn brought_home(application: &mut Application) -> CameBack {
    how_it_is(application.go_home().await)
}

fn how_it_is(home: Result<(), CallError>) -> CameBack {
    match home {
        Ok(()) => CameBack::AtHome,
        Err(CallError::Host(error)) if error.has_ended() => CameBack::Broken,
        Err(_) => CameBack::Left,
    }
}

fn not_opened(error: &CallError) -> OpenError {
    let unreached = matches!(error, CallError::Host(error) if error.was_not_reached());
    let how = if unreached { Opened::Unreached } else { Opened::Failed };
    OpenError { how, why: error.to_string() }
}
