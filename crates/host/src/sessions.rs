//! Sessions with an application that clients hold over many requests, each known by its id to the
//! account that opened it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::event::{HostSessionEnd, HostSessionEnding, HostSessionFact};
use entrepot_nouns::{Fact, Name, SessionId, Timestamp};
use entrepot_tn3270_proto::Key;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::error::HostError;
use crate::pool::{
    Caller, HeldSession, Holding, Pool, PoolError, PooledSession, Retaken, WhyRetaken,
};
use crate::procedure::{CallError, ScreenWait, TypeTo};
use crate::procedure_error::ProcedureError;
use crate::view::ScreenView;

/// Which session somebody wants to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// One of the pool, which rests at home.
    Pooled,
    /// One that nobody else has had, where the host begins, with values of variables of the
    /// client's own; without any it has those of sessions of the pool.
    Own(BTreeMap<String, String>),
}

/// What a client does in a session that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionWork {
    /// Looks at the screen.
    Screen,
    /// Types a text.
    Type {
        /// What is typed.
        text: String,
        /// Where; unset: at the cursor.
        to: Option<TypeTo>,
    },
    /// Presses a key.
    Press(Key),
    /// Waits for what the screen shows.
    Wait(ScreenWait),
    /// Goes to an entity of the model.
    Go(String),
}

impl SessionWork {
    /// True if it does what the model does not say.
    fn is_free_hand(&self) -> bool {
        matches!(self, SessionWork::Type { .. } | SessionWork::Press(_))
    }
}

/// A session that a client holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostSessionView {
    /// By which its client names it.
    pub id: SessionId,
    /// The model of the application.
    pub model: Name,
    /// True if it is one of the pool, and false if it was opened for this client alone.
    pub pooled: bool,
    /// What its client does with it.
    pub state: HostSessionState,
    /// Since when it is held.
    pub opened_at: Timestamp,
    /// When it is taken from its client, if nothing comes; absent while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Timestamp>,
    /// Keys that were pressed at its screens.
    pub keys: u64,
}

/// What a client does with a session that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostSessionState {
    /// It works in it.
    Active,
    /// It goes on later.
    Suspended,
}

/// What the screen of a session shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostScreen {
    /// The entity of the model that stands; absent where it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The screen, with stars for what is secret.
    #[serde(flatten)]
    pub screen: ScreenView,
}

/// The sessions of a model that clients hold.
pub(crate) struct HeldSessions {
    model: Name,
    recorder: Recorder,
    entries: Mutex<HashMap<SessionId, Arc<Held>>>,
    /// How many sessions are being opened for an account.
    opening: Mutex<HashMap<Caller, usize>>,
}

/// One of them.
struct Held {
    id: SessionId,
    holder: Caller,
    scope: Scope,
    kind: PoolOrOwn,
    opened_at: Timestamp,
    /// The same by the clock that nobody sets.
    begun: Duration,
    state: Mutex<HeldState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PoolOrOwn {
    Pool,
    Own,
}

struct HeldState {
    /// Unset while a request works in it.
    here: Option<HeldSession>,
    how: Holding,
    /// When it came back from the last request.
    since: Timestamp,
    keys: u64,
}

/// A session that is being opened counts among those that its account holds.
struct Opening {
    sessions: Arc<HeldSessions>,
    holder: Caller,
}

/// A request in a session. Dropping it leaves the session with its client, or ends it.
pub(crate) struct InSession {
    sessions: Arc<HeldSessions>,
    entry: Arc<Held>,
    session: Option<PooledSession>,
    how: Holding,
    /// Why it ends, if it is not there any more.
    why: HostSessionEnding,
}

impl HeldSessions {
    pub(crate) fn new(model: Name, recorder: Recorder) -> Arc<HeldSessions> {
        let (entries, opening) = (Mutex::default(), Mutex::default());
        Arc::new(HeldSessions { model, recorder, entries, opening })
    }

    /// Has a client hold a session.
    ///
    /// # Errors
    /// It holds as many as it may, there is none for it, or it cannot be recorded.
    pub(crate) async fn open(
        self: Arc<Self>,
        scope: Scope,
        holder: Caller,
        pool: &Pool,
        kind: SessionKind,
    ) -> Result<HostSessionView, ProcedureError> {
        let opening = self.opening(holder, pool.settings().limits.max_held)?;
        let (session, kind) = match kind {
            SessionKind::Pooled => (pool.session(holder).await?, PoolOrOwn::Pool),
            SessionKind::Own(variables) => (pool.own_session(variables).await?, PoolOrOwn::Own),
        };
        let env = self.recorder.env();
        let (id, opened_at, begun) = (env.new_id(), env.now(), env.elapsed());
        let how = Holding::Active;
        let fact = HostSessionFact { model: self.model.clone(), host_session: id };
        self.recorder.record(&scope, Fact::HostSessionOpened { session: fact })?;
        // What ends it later is no part of this session of HTTP.
        let scope = Scope { session: None, ..scope };
        let state = Mutex::new(HeldState { here: None, how, since: opened_at, keys: 0 });
        let entry = Arc::new(Held { id, holder, scope, kind, opened_at, begun, state });
        self.entries.lock().insert(id, Arc::clone(&entry));
        drop(opening);
        let why = HostSessionEnding::Broken;
        let session = Some(session);
        let sessions = Arc::clone(&self);
        drop(InSession { sessions, entry: Arc::clone(&entry), session, how, why });
        Ok(self.view(&entry, pool))
    }

    /// One more session for an account, if it may hold that.
    fn opening(
        self: &Arc<Self>,
        holder: Caller,
        most: Option<u32>,
    ) -> Result<Opening, ProcedureError> {
        let entries = self.entries.lock();
        let mut opening = self.opening.lock();
        let of_holder = opening.entry(holder).or_default();
        let held = entries.values().filter(|entry| entry.holder == holder).count() + *of_holder;
        *of_holder += 1;
        drop(opening);
        drop(entries);
        let one_more = Opening { sessions: Arc::clone(self), holder };
        match most.filter(|most| usize::try_from(*most).is_ok_and(|most| held >= most)) {
            Some(most) => Err(ProcedureError::HoldsEnough { most }),
            None => Ok(one_more),
        }
    }

    /// The sessions that an account holds, the oldest first.
    pub(crate) fn list(&self, holder: Caller, pool: &Pool) -> Vec<HostSessionView> {
        let entries = self.entries.lock();
        let own = entries.values().filter(|entry| entry.holder == holder);
        let mut views: Vec<HostSessionView> = own.map(|entry| self.view(entry, pool)).collect();
        views.sort_by_key(|view| (view.opened_at, view.id));
        views
    }

    /// A session as its holder sees it.
    ///
    /// # Errors
    /// The account does not hold it.
    pub(crate) fn show(
        &self,
        id: SessionId,
        holder: Caller,
        pool: &Pool,
    ) -> Result<HostSessionView, ProcedureError> {
        Ok(self.view(&*self.entry(id, holder)?, pool))
    }

    fn view(&self, entry: &Held, pool: &Pool) -> HostSessionView {
        let state = entry.state.lock();
        let limits = &pool.settings().limits;
        let (shown, time) = match state.how {
            Holding::Active => (HostSessionState::Active, limits.hold),
            Holding::Suspended => (HostSessionState::Suspended, limits.suspend),
        };
        HostSessionView {
            id: entry.id,
            model: self.model.clone(),
            pooled: entry.kind == PoolOrOwn::Pool,
            state: shown,
            opened_at: entry.opened_at,
            held_until: state.here.map(|_| state.since.plus(time.duration())),
            keys: state.keys,
        }
    }

    /// The session, if the account holds it: of others it hears as of none.
    fn entry(&self, id: SessionId, holder: Caller) -> Result<Arc<Held>, ProcedureError> {
        let found = self.entries.lock().get(&id).filter(|entry| entry.holder == holder).cloned();
        found.ok_or(ProcedureError::Pool(PoolError::NotHeld))
    }

    /// Begins a request in a session, which nobody else works in until its end.
    ///
    /// # Errors
    /// The account does not hold it, or works in it with another request.
    async fn take(
        self: &Arc<Self>,
        id: SessionId,
        holder: Caller,
        pool: &Pool,
    ) -> Result<InSession, ProcedureError> {
        let entry = self.entry(id, holder)?;
        let (held, how) = {
            let mut state = entry.state.lock();
            (state.here.take().ok_or(ProcedureError::Busy(id))?, state.how)
        };
        // Where the pool has taken it back meanwhile.
        let why = HostSessionEnding::Left;
        let mut request = InSession { sessions: Arc::clone(self), entry, session: None, how, why };
        request.session = Some(pool.resume(held).await?);
        request.why = HostSessionEnding::Broken;
        Ok(request)
    }

    /// The same, for work: its client must not have suspended it.
    ///
    /// # Errors
    /// As for [`HeldSessions::take`], or it is suspended.
    pub(crate) async fn work(
        self: &Arc<Self>,
        id: SessionId,
        holder: Caller,
        pool: &Pool,
    ) -> Result<InSession, ProcedureError> {
        if self.entry(id, holder)?.state.lock().how == Holding::Suspended {
            return Err(ProcedureError::Suspended(id));
        }
        self.take(id, holder, pool).await
    }

    /// Suspends a session, or goes on with it.
    ///
    /// # Errors
    /// As for [`HeldSessions::take`].
    pub(crate) async fn hold(
        self: &Arc<Self>,
        id: SessionId,
        holder: Caller,
        pool: &Pool,
        how: Holding,
    ) -> Result<HostSessionView, ProcedureError> {
        let mut request = self.take(id, holder, pool).await?;
        request.how = how;
        let entry = Arc::clone(&request.entry);
        drop(request);
        Ok(self.view(&entry, pool))
    }

    /// Gives a session back.
    ///
    /// # Errors
    /// As for [`HeldSessions::take`].
    pub(crate) async fn end(
        self: &Arc<Self>,
        id: SessionId,
        holder: Caller,
        pool: &Pool,
    ) -> Result<(), ProcedureError> {
        let mut request = self.take(id, holder, pool).await?;
        if let Some(session) = request.session.take() {
            session.release();
        }
        request.why = HostSessionEnding::Ended;
        Ok(())
    }

    /// Forgets sessions that the pool takes from their clients, and all when the pool ends.
    pub(crate) async fn watch(self: Arc<Self>, mut retaken: mpsc::Receiver<Retaken>) {
        while let Some(Retaken { held, why }) = retaken.recv().await {
            let entries = self.entries.lock();
            let left = entries.values().find(|entry| entry.state.lock().here == Some(held));
            let left = left.map(|entry| entry.id);
            drop(entries);
            if let Some(id) = left {
                self.forget(
                    id,
                    match why {
                        WhyRetaken::Left => HostSessionEnding::Left,
                        WhyRetaken::Broken => HostSessionEnding::Broken,
                    },
                );
            }
        }
        let all: Vec<SessionId> = self.entries.lock().keys().copied().collect();
        for id in all {
            self.forget(id, HostSessionEnding::Stopped);
        }
    }

    fn forget(&self, id: SessionId, why: HostSessionEnding) {
        let Some(entry) = self.entries.lock().remove(&id) else { return };
        let held = self.recorder.env().elapsed().saturating_sub(entry.begun);
        let end = HostSessionEnd {
            model: self.model.clone(),
            host_session: id,
            milliseconds: u64::try_from(held.as_millis()).unwrap_or(u64::MAX),
            keys: entry.state.lock().keys,
            why,
        };
        if let Err(error) = self.recorder.record(&entry.scope, Fact::HostSessionEnded { end }) {
            tracing::error!(code = error.code(), %error, "the end of a session was not recorded");
        }
    }
}

impl InSession {
    /// The session of the pool. It is there until the end of the request.
    pub(crate) fn session(&mut self) -> Result<&mut PooledSession, ProcedureError> {
        self.session.as_mut().ok_or(ProcedureError::Pool(PoolError::NotHeld))
    }

    /// Does something at the screens; answers what stands then.
    pub(crate) async fn at_screens(&mut self, work: SessionWork) -> Result<HostScreen, CallError> {
        let Some(session) = &mut self.session else {
            return Err(CallError::Host(HostError::Closed));
        };
        if work.is_free_hand() {
            session.set_apart();
        }
        let keys = u64::from(matches!(work, SessionWork::Press(_)));
        self.entry.state.lock().keys += keys;
        session
            .work(async |application| {
                application.refresh().await?;
                match work {
                    SessionWork::Screen => {}
                    SessionWork::Type { text, to } => {
                        application.type_text(&text, to.as_ref()).await?;
                    }
                    SessionWork::Press(key) => application.press(key).await?,
                    SessionWork::Wait(wait) => application.wait(&wait).await?,
                    SessionWork::Go(to) => application.go(&to).await?,
                }
                let entity = application.standing().map(str::to_owned);
                Ok(HostScreen { entity, screen: application.screen() })
            })
            .await
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut opening = self.sessions.opening.lock();
        if let Entry::Occupied(mut of_holder) = opening.entry(self.holder) {
            *of_holder.get_mut() -= 1;
            if *of_holder.get() == 0 {
                of_holder.remove();
            }
        }
    }
}

impl Drop for InSession {
    fn drop(&mut self) {
        match self.session.take().and_then(|session| session.hold(self.how)) {
            Some(held) => {
                let since = self.sessions.recorder.env().now();
                let mut state = self.entry.state.lock();
                (state.here, state.how, state.since) = (Some(held), self.how, since);
            }
            None => self.sessions.forget(self.entry.id, self.why),
        }
    }
}
