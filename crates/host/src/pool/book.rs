//! What a pool knows of its sessions and of those who wait for one, and what is to be done next.
//! No IO and no clock: the time comes with each call, as time since some beginning.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use entrepot_nouns::SessionPool;

use super::queue::{CallQueue, Caller, Ticket, Waiting};
use crate::limits::{FIRST_BACKOFF, LONGEST_BACKOFF};

/// A session of the pool, from before it is opened until it is over.
pub(crate) type SlotId = u64;

/// The number of a user among those that sessions are given.
pub(crate) type UserNumber = usize;

/// What a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// It is being opened.
    Pending,
    /// It rests at home and waits for a caller.
    Idle,
    /// A caller has it, or a client works with it, or it goes home behind one, or is logged off.
    Active,
    /// Its client goes on with it later.
    Suspended,
    /// A client left it, or it did not find home.
    Rogue,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Connect, and go home.
    Open { slot: SlotId, user: Option<UserNumber> },
    /// Connect for the caller with the ticket, and go nowhere.
    OpenOwn { slot: SlotId, user: Option<UserNumber>, ticket: Ticket },
    /// The session belongs to the caller with the ticket.
    Give { slot: SlotId, ticket: Ticket },
    /// See whether it is there and at home.
    Check { slot: SlotId },
    /// The same, and press the key that keeps it alive.
    KeepAlive { slot: SlotId },
    /// Bring it home.
    BringHome { slot: SlotId },
    /// End it in order.
    LogOff { slot: SlotId },
    /// Press the key that keeps it alive where its client has left it.
    KeepHeld { slot: SlotId },
    /// Its client has held it for too long.
    Retake { slot: SlotId },
    /// The caller has waited for too long.
    Refuse { ticket: Ticket },
}

/// How a session comes back from a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CameBack {
    /// It rests at home.
    AtHome,
    /// It stands where the model knows the way.
    Elsewhere,
    /// It was left in the midst of something, or where nobody knows.
    Left,
    /// The connection has ended.
    Broken,
}

/// How a client holds a session between its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// The next request comes soon.
    Active,
    /// The client goes on with it later.
    Suspended,
}

/// Whose user a session has that is opened for one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserSource {
    /// It has one of the pool, where sessions of that have users.
    Pool,
    /// The caller gives what the session needs.
    Caller,
}

/// How an attempt to open a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It rests at home.
    AtHome,
    /// The host was not reached.
    Unreached,
    /// The host was reached; a user may be signed on there.
    Failed,
}

/// Where the time of something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Slot(SlotId),
    Ticket(Ticket),
    User(UserNumber),
}

#[derive(Clone, Debug)]
struct Slot {
    state: SessionState,
    user: Option<UserNumber>,
    opened_at: Duration,
    rests_since: Duration,
    /// When a key was pressed last, as far as the pool knows.
    pressed_at: Duration,
    uses: u32,
    /// A client holds it, without a request now.
    hold: Option<Hold>,
    /// The caller that it was opened for alone.
    own: Option<Waiting>,
    /// Nobody else is given it: it is logged off when it comes back.
    is_apart: bool,
    /// Its entry in the deadlines.
    due: Option<Duration>,
}

/// How a client holds a session between its requests.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// Then it is taken from its client.
    until: Duration,
    /// Where it stands, a key is pressed after so long without another one.
    keepalive: Option<Duration>,
}

/// How often a session was opened, broke and so on, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) opened: u64,
    pub(crate) not_opened: u64,
    pub(crate) broken: u64,
    pub(crate) given: u64,
    pub(crate) refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct WaitingForOwn {
    waiting: Waiting,
    users: UserSource,
}

/// The book of a pool.
pub(crate) struct Book {
    limits: SessionPool,
    keepalive: Option<Duration>,
    slots: HashMap<SlotId, Slot>,
    next_slot: SlotId,
    /// Sessions that can be given, the one that rested last at the end.
    idle: VecDeque<SlotId>,
    queue: CallQueue,
    /// Callers that wait for sessions of their own.
    own: VecDeque<WaitingForOwn>,
    /// A session that is logged off to make place for one of those.
    making_place: Option<SlotId>,
    due: BTreeSet<(Duration, Item)>,
    /// Unset: sessions have no users.
    users: Option<VecDeque<UserNumber>>,
    /// Done before anything else.
    deeds: VecDeque<Deed>,
    now: [usize; 5],
    peaks: [usize; 5],
    counts: Counts,
    /// `initial` is a floor until so many stood.
    floor: usize,
    /// Attempts in a row that failed.
    failures: u32,
    not_before: Duration,
    /// Most attempts at a time behind failures.
    ramp: usize,
}

impl Book {
    /// Of a pool without sessions; each has one of `users`, if there are any.
    pub(crate) fn new(limits: SessionPool, users: usize, keepalive: Option<Duration>) -> Book {
        let floor = size(limits.initial.max(limits.min_idle));
        let ramp = size(limits.max_pending);
        let queue = CallQueue::new(size(limits.max_waiting));
        Book {
            limits,
            keepalive,
            slots: HashMap::new(),
            next_slot: 0,
            idle: VecDeque::new(),
            queue,
            own: VecDeque::new(),
            making_place: None,
            due: BTreeSet::new(),
            users: (users > 0).then(|| (0..users).collect()),
            deeds: VecDeque::new(),
            now: [0; 5],
            peaks: [0; 5],
            counts: Counts::default(),
            floor,
            failures: 0,
            not_before: Duration::ZERO,
            ramp,
        }
    }

    /// Sessions in a state, now and at most since the start.
    pub(crate) fn sessions(&self, state: SessionState) -> (usize, usize) {
        let at = state as usize;
        let of = |counts: &[usize; 5]| counts.get(at).copied().unwrap_or_default();
        (of(&self.now), of(&self.peaks))
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn waiting(&self) -> (usize, usize) {
        self.queue.counts()
    }

    pub(crate) fn total(&self) -> usize {
        self.slots.len()
    }

    /// A caller waits until a time. `None`: too many wait already.
    pub(crate) fn ask(&mut self, caller: Caller, until: Duration) -> Option<Ticket> {
        let ticket = self.queue.ask(caller, until);
        self.asked(ticket, until)
    }

    /// The same for a session that nobody else has had or will have.
    pub(crate) fn ask_own(&mut self, users: UserSource, until: Duration) -> Option<Ticket> {
        let is_full = self.queue.len() + self.own.len() >= size(self.limits.max_waiting);
        let ticket = (!is_full).then(|| self.queue.new_ticket());
        self.own.extend(
            ticket.map(|ticket| WaitingForOwn { waiting: Waiting { ticket, until }, users }),
        );
        self.asked(ticket, until)
    }

    fn asked(&mut self, ticket: Option<Ticket>, until: Duration) -> Option<Ticket> {
        match ticket {
            Some(ticket) => drop(self.due.insert((until, Item::Ticket(ticket)))),
            None => self.counts.refused += 1,
        }
        ticket
    }

    /// Forgets callers that do not wait any more.
    pub(crate) fn forget(&mut self, gone: impl Fn(Ticket) -> bool) {
        self.queue.retain(|ticket| !gone(ticket));
        self.own.retain(|own| !gone(own.waiting.ticket));
        self.due.retain(|(_, item)| !matches!(item, Item::Ticket(ticket) if gone(*ticket)));
    }

    /// An attempt to open a session has ended. `jitter` lies between 0 and 1.
    pub(crate) fn opened(&mut self, now: Duration, slot: SlotId, how: Opened, jitter: f64) {
        match how {
            Opened::AtHome => {
                self.reached(now, slot);
                self.rest(now, slot);
            }
            Opened::Unreached | Opened::Failed => {
                self.counts.not_opened += 1;
                self.failures = self.failures.saturating_add(1);
                let doubled =
                    FIRST_BACKOFF.saturating_mul(1 << self.failures.min(16).saturating_sub(1));
                let pause = doubled.min(LONGEST_BACKOFF);
                // Between half and whole, so that pools do not come at the same moments.
                self.not_before = now + pause.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
                let signed_on = if how == Opened::Failed { User::Rests } else { User::IsFree };
                self.remove(now, slot, signed_on);
            }
        }
    }

    /// A session is open that a caller wanted for itself, and has now.
    pub(crate) fn opened_own(&mut self, now: Duration, slot: SlotId) {
        self.reached(now, slot);
        self.counts.given += 1;
        self.turn(slot, SessionState::Active);
        // The caller waits no more.
        if let Some(Waiting { ticket, until }) = self.slots.get(&slot).and_then(|slot| slot.own) {
            self.due.remove(&(until, Item::Ticket(ticket)));
        }
    }

    fn reached(&mut self, now: Duration, slot: SlotId) {
        self.counts.opened += 1;
        if self.failures > 0 {
            self.ramp = 1;
        }
        self.failures = 0;
        self.ramp = (self.ramp * 2).min(size(self.limits.max_pending));
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.opened_at = now;
        }
    }

    /// A caller gives a session back.
    pub(crate) fn came_back(&mut self, now: Duration, slot: SlotId, how: CameBack) {
        let is_apart = self.slots.get(&slot).is_some_and(|slot| slot.is_apart);
        match how {
            CameBack::AtHome | CameBack::Elsewhere | CameBack::Left if is_apart => {
                let is_left = how == CameBack::Left;
                self.turn(slot, if is_left { SessionState::Rogue } else { SessionState::Active });
                let deed = self.log_off(slot);
                self.deeds.push_back(deed);
            }
            CameBack::AtHome => self.rest(now, slot),
            CameBack::Elsewhere => {
                self.turn(slot, SessionState::Active);
                self.deeds.push_back(Deed::BringHome { slot });
            }
            CameBack::Left => {
                self.turn(slot, SessionState::Rogue);
                self.deeds.push_back(Deed::BringHome { slot });
            }
            CameBack::Broken => self.broke(now, slot),
        }
    }

    /// A session is home again, or cannot be brought there.
    pub(crate) fn came_home(&mut self, now: Duration, slot: SlotId, how: CameBack) {
        match how {
            CameBack::AtHome => self.rest(now, slot),
            CameBack::Elsewhere | CameBack::Left => {
                self.turn(slot, SessionState::Rogue);
                let deed = self.log_off(slot);
                self.deeds.push_back(deed);
            }
            CameBack::Broken => self.broke(now, slot),
        }
    }

    /// A session was logged off, or at least its connection is closed.
    pub(crate) fn ended(&mut self, now: Duration, slot: SlotId, user: User) {
        self.remove(now, slot, user);
    }

    /// The connection of a session has ended by itself.
    pub(crate) fn broke(&mut self, now: Duration, slot: SlotId) {
        self.counts.broken += 1;
        self.remove(now, slot, User::Rests);
    }

    /// Somebody has worked at the screens of a session: who is signed on there now, nobody knows.
    pub(crate) fn set_apart(&mut self, slot: SlotId) {
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.is_apart = true;
        }
    }

    /// A client holds a session between its requests; where it stands, it is kept alive so often.
    pub(crate) fn held(
        &mut self,
        now: Duration,
        slot: SlotId,
        how: Holding,
        keepalive: Option<Duration>,
    ) {
        let (state, time) = match how {
            Holding::Active => (SessionState::Active, self.limits.hold),
            Holding::Suspended => (SessionState::Suspended, self.limits.suspend),
        };
        self.turn(slot, state);
        self.set_hold(slot, Some(Hold { until: now + time.duration(), keepalive }));
    }

    /// A session that a client holds was kept alive; from now on that is done so often.
    pub(crate) fn kept_held(&mut self, slot: SlotId, keepalive: Option<Duration>) {
        let hold = self.slots.get(&slot).and_then(|slot| slot.hold);
        self.set_hold(slot, hold.map(|hold| Hold { keepalive, ..hold }));
    }

    /// Somebody has pressed a key in a session.
    pub(crate) fn pressed(&mut self, now: Duration, slot: SlotId) {
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.pressed_at = now;
        }
    }

    /// The client that holds a session goes on with it.
    pub(crate) fn resumed(&mut self, slot: SlotId) {
        self.set_hold(slot, None);
        self.turn(slot, SessionState::Active);
    }

    fn set_hold(&mut self, slot: SlotId, hold: Option<Hold>) {
        let Some(found) = self.slots.get_mut(&slot) else { return };
        found.hold = hold;
        let pressed_at = found.pressed_at;
        let due = hold.map(|hold| {
            let pressed = hold.keepalive.map(|every| pressed_at + every);
            pressed.map_or(hold.until, |at| at.min(hold.until))
        });
        self.set_due(slot, due);
    }

    /// True if a client holds it, and has no request now.
    pub(crate) fn is_held(&self, slot: SlotId) -> bool {
        self.slots.get(&slot).is_some_and(|slot| slot.hold.is_some())
    }

    /// What is to be done next; `None`: nothing for now.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Deed> {
        if let Some(deed) = self.deeds.pop_front() {
            return Some(deed);
        }
        while let Some((due, item)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, item));
            if let Some(deed) = self.deed_of(now, item) {
                return Some(deed);
            }
        }
        self.give(now).or_else(|| self.open_own(now)).or_else(|| self.open(now))
    }

    /// When there is something to be done although nothing happens.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        let first = self.due.first().map(|(due, _)| *due);
        let wants = self.wants_session() || !self.own.is_empty();
        let attempt = (self.failures > 0 && wants).then_some(self.not_before);
        first.into_iter().chain(attempt).min()
    }

    fn deed_of(&mut self, now: Duration, item: Item) -> Option<Deed> {
        match item {
            Item::Ticket(ticket) => {
                self.counts.refused += 1;
                self.queue.retain(|waiting| waiting != ticket);
                self.own.retain(|own| own.waiting.ticket != ticket);
                Some(Deed::Refuse { ticket })
            }
            Item::User(user) => {
                self.users.as_mut()?.push_back(user);
                None
            }
            Item::Slot(slot) => {
                let found = self.slots.get_mut(&slot)?;
                found.due = None;
                if let Some(hold) = found.hold {
                    if now < hold.until {
                        found.pressed_at = now;
                        return Some(Deed::KeepHeld { slot });
                    }
                    self.set_hold(slot, None);
                    self.turn(slot, SessionState::Rogue);
                    return Some(Deed::Retake { slot });
                }
                let is_surplus = self.idle.len() > size(self.limits.min_idle);
                self.idle.retain(|idle| *idle != slot);
                let since = self.slots.get(&slot)?.rests_since;
                let bored = self.limits.idle_time.map(|time| since + time.duration());
                if self.is_worn(now, slot) || is_surplus && bored.is_some_and(|at| at <= now) {
                    return Some(self.log_off(slot));
                }
                let found = self.slots.get_mut(&slot)?;
                if self.keepalive.is_some_and(|every| found.pressed_at + every <= now) {
                    found.pressed_at = now;
                    return Some(Deed::KeepAlive { slot });
                }
                Some(Deed::Check { slot })
            }
        }
    }

    fn give(&mut self, now: Duration) -> Option<Deed> {
        if self.queue.is_empty() {
            return None;
        }
        let slot = self.idle.pop_back()?;
        self.set_due(slot, None);
        if self.is_worn(now, slot) {
            return Some(self.log_off(slot));
        }
        let Waiting { ticket, until } = self.queue.next()?;
        self.due.remove(&(until, Item::Ticket(ticket)));
        self.counts.given += 1;
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.uses += 1;
        }
        self.turn(slot, SessionState::Active);
        Some(Deed::Give { slot, ticket })
    }

    fn open(&mut self, now: Duration) -> Option<Deed> {
        let is_early = self.failures > 0 && now < self.not_before;
        if is_early || !self.wants_session() {
            return None;
        }
        let user = match &mut self.users {
            Some(users) => Some(users.pop_front()?),
            None => None,
        };
        let slot = self.new_slot(now, user, None);
        Some(Deed::Open { slot, user })
    }

    /// Opens a session for a caller that wants one of its own; where there is no place for it, one
    /// that rests is logged off.
    fn open_own(&mut self, now: Duration) -> Option<Deed> {
        let WaitingForOwn { waiting, users } = self.own.front().copied()?;
        let is_early = self.failures > 0 && now < self.not_before;
        let most = if self.failures > 0 { 1 } else { self.ramp };
        if is_early || self.of(SessionState::Pending) >= most {
            return None;
        }
        let list = self.users.as_mut().filter(|_| users == UserSource::Pool);
        let has_user = list.as_ref().is_none_or(|users| !users.is_empty());
        if self.slots.len() >= size(self.limits.max) || !has_user {
            if self.making_place.is_some() || !self.queue.is_empty() {
                return None;
            }
            let slot = self.idle.pop_front()?;
            self.set_due(slot, None);
            self.making_place = Some(slot);
            return Some(self.log_off(slot));
        }
        let user = list.and_then(VecDeque::pop_front);
        self.own.pop_front();
        let slot = self.new_slot(now, user, Some(waiting));
        Some(Deed::OpenOwn { slot, user, ticket: waiting.ticket })
    }

    fn new_slot(
        &mut self,
        now: Duration,
        user: Option<UserNumber>,
        own: Option<Waiting>,
    ) -> SlotId {
        let slot = self.next_slot;
        self.next_slot += 1;
        let state = SessionState::Pending;
        let fresh = Slot {
            state,
            user,
            opened_at: now,
            rests_since: now,
            pressed_at: now,
            uses: 0,
            hold: None,
            own,
            is_apart: own.is_some(),
            due: None,
        };
        self.slots.insert(slot, fresh);
        self.count(state, |count| count + 1);
        slot
    }

    /// True if one more session should be opened, but for the pause behind a failure.
    fn wants_session(&self) -> bool {
        let (pending, idle) = (self.of(SessionState::Pending), self.of(SessionState::Idle));
        let most = if self.failures > 0 { 1 } else { self.ramp };
        let has_user = self.users.as_ref().is_none_or(|users| !users.is_empty());
        let floor = self.floor.max(size(self.limits.min_idle));
        pending < most
            && has_user
            && self.slots.len() < size(self.limits.max)
            && self.queue.len() + floor > idle + pending
    }

    fn rest(&mut self, now: Duration, slot: SlotId) {
        let Some(found) = self.slots.get_mut(&slot) else { return };
        if found.state != SessionState::Idle {
            found.rests_since = now;
            found.pressed_at = now;
        }
        let most = self.limits.max_idle.unwrap_or(self.limits.max);
        let is_full = self.idle.len() >= size(most) && self.queue.is_empty();
        if is_full || self.is_worn(now, slot) {
            let deed = self.log_off(slot);
            self.deeds.push_back(deed);
            return;
        }
        self.turn(slot, SessionState::Idle);
        self.idle.push_back(slot);
        if self.idle.len() + self.of(SessionState::Active) >= self.floor {
            // `initial` is a matter of the start.
            self.floor = 0;
        }
        let Some(found) = self.slots.get(&slot) else { return };
        let times = [
            Some(now + self.limits.idle_check.duration()),
            self.keepalive.map(|every| found.pressed_at + every),
            self.limits.max_age.map(|age| found.opened_at + age.duration()),
            // Once more than that it is looked at by the check.
            self.limits
                .idle_time
                .map(|time| found.rests_since + time.duration())
                .filter(|at| *at > now),
        ];
        let due = times.into_iter().flatten().min();
        self.set_due(slot, due);
    }

    /// The end of a session. It is idle no more, so that another one takes its place.
    fn log_off(&mut self, slot: SlotId) -> Deed {
        if self.is(slot, SessionState::Idle) || self.is(slot, SessionState::Pending) {
            self.turn(slot, SessionState::Active);
        }
        Deed::LogOff { slot }
    }

    fn is_worn(&self, now: Duration, slot: SlotId) -> bool {
        self.slots.get(&slot).is_some_and(|slot| {
            let age = self.limits.max_age.map(|age| slot.opened_at + age.duration());
            age.is_some_and(|end| end <= now)
                || self.limits.max_uses.is_some_and(|most| slot.uses >= most)
        })
    }

    fn remove(&mut self, now: Duration, slot: SlotId, how: User) {
        self.set_due(slot, None);
        let Some(gone) = self.slots.remove(&slot) else { return };
        self.idle.retain(|idle| *idle != slot);
        self.count(gone.state, |count| count.saturating_sub(1));
        self.making_place.take_if(|place| *place == slot);
        let Some((user, users)) = gone.user.zip(self.users.as_mut()) else { return };
        match how {
            User::IsFree => users.push_back(user),
            User::Rests => {
                let until = now + self.limits.user_rest.duration();
                self.due.insert((until, Item::User(user)));
            }
        }
    }

    pub(crate) fn is(&self, slot: SlotId, state: SessionState) -> bool {
        self.slots.get(&slot).is_some_and(|slot| slot.state == state)
    }

    fn of(&self, state: SessionState) -> usize {
        self.sessions(state).0
    }

    fn turn(&mut self, slot: SlotId, to: SessionState) {
        let Some(slot) = self.slots.get_mut(&slot) else { return };
        let from = std::mem::replace(&mut slot.state, to);
        self.count(from, |count| count.saturating_sub(1));
        self.count(to, |count| count + 1);
    }

    fn count(&mut self, state: SessionState, change: impl Fn(usize) -> usize) {
        let at = state as usize;
        if let Some((now, peak)) = self.now.get_mut(at).zip(self.peaks.get_mut(at)) {
            *now = change(*now);
            *peak = (*peak).max(*now);
        }
    }

    fn set_due(&mut self, slot: SlotId, due: Option<Duration>) {
        let Some(found) = self.slots.get_mut(&slot) else { return };
        if let Some(old) = std::mem::replace(&mut found.due, due) {
            self.due.remove(&(old, Item::Slot(slot)));
        }
        if let Some(due) = due {
            self.due.insert((due, Item::Slot(slot)));
        }
    }
}

/// Whether the user of a session that is over can be given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The host knows that the session is over.
    IsFree,
    /// It may not know.
    Rests,
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
