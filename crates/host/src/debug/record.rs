//! What is recorded of one session while it lasts.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use entrepot_nouns::{DebugLevel, Env, HostDebug, Timestamp};
use entrepot_tn3270_proto::{CodePage, Key, Lock, Sketch, Terminal};
use tokio::sync::mpsc;

use crate::limits::{DEBUG_BYTES, DEBUG_QUEUE, DEBUG_SECRETS};
use crate::model::Model;
use crate::view::{keyboard, protocol};

/// The records of all sessions of a model. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DebugRecords(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) model: Arc<Model>,
    level: AtomicU8,
    messages: AtomicU32,
    pub(super) files: AtomicU32,
    sessions: AtomicU64,
    finished: mpsc::Sender<Recorded>,
    env: Env,
}

impl DebugRecords {
    /// The records, and what is to be written of them. Nothing is recorded before it is asked for.
    pub(super) fn new(model: Arc<Model>, env: Env) -> (DebugRecords, mpsc::Receiver<Recorded>) {
        let (finished, queue) = mpsc::channel(DEBUG_QUEUE);
        let records = DebugRecords(Arc::new(Shared {
            model,
            level: AtomicU8::new(0),
            messages: AtomicU32::new(0),
            files: AtomicU32::new(0),
            sessions: AtomicU64::new(0),
            finished,
            env,
        }));
        (records, queue)
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.0)
    }

    /// Records this from now on, in sessions that are open as well.
    pub fn set(&self, debug: HostDebug) {
        let HostDebug { level, messages, files } = debug;
        self.0.messages.store(messages, Ordering::Relaxed);
        self.0.files.store(files, Ordering::Relaxed);
        self.0.level.store(level as u8, Ordering::Relaxed);
    }

    /// The record of a session that begins.
    pub(crate) fn begin(&self) -> DebugRecord {
        DebugRecord {
            number: self.0.sessions.fetch_add(1, Ordering::Relaxed) + 1,
            opened_at: self.0.env.now(),
            shared: Arc::clone(&self.0),
            kept: Kept::default(),
            page: None,
            lu: None,
            secrets: BTreeSet::new(),
            given: BTreeSet::new(),
            pending: None,
            part: 0,
            failures: 0,
        }
    }
}

impl Shared {
    fn level(&self) -> DebugLevel {
        let level = self.level.load(Ordering::Relaxed);
        let levels = [DebugLevel::Errors, DebugLevel::ErrorSessions, DebugLevel::Everything];
        levels.into_iter().find(|known| *known as u8 == level).unwrap_or_default()
    }
}

/// What is done in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It is opened, at this address.
    Open(String),
    /// A procedure is called; of what it is given the names alone.
    Call {
        procedure: String,
        parameters: Vec<String>,
    },
    GoHome,
    KeepAlive,
    LogOff,
    /// Somebody works at the screens.
    AtScreens(String),
}

impl Work {
    /// True if a refusal is no error of the session: the application refused as the model foresees,
    /// or the caller was wrong.
    fn foresees_refusals(&self) -> bool {
        matches!(self, Work::Call { .. } | Work::AtScreens(_))
    }
}

/// How something came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkEnd {
    Done,
    /// The application said no, as the model foresees, or the caller asked for what there is not.
    Refused(Trouble),
    /// The host, the connection, or a screen that nobody expected.
    Failed(Trouble),
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The error catalogue's code.
    pub(crate) code: &'static str,
    pub(crate) error: String,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Open(address) => write!(f, "connect to {address}"),
            Work::Call { procedure, parameters } if parameters.is_empty() => {
                write!(f, "call {procedure}")
            }
            Work::Call { procedure, parameters } => {
                write!(f, "call {procedure} with {}", parameters.join(", "))
            }
            Work::GoHome => f.write_str("go home"),
            Work::KeepAlive => f.write_str("keep alive"),
            Work::LogOff => f.write_str("log off"),
            Work::AtScreens(what) => f.write_str(what),
        }
    }
}

/// The record of one session. Dropping it ends the session.
#[derive(Debug)]
pub struct DebugRecord {
    shared: Arc<Shared>,
    number: u64,
    opened_at: Timestamp,
    kept: Kept,
    page: Option<Arc<CodePage>>,
    /// The logical unit that the last screen was shown to.
    lu: Option<Arc<str>>,
    /// What must stand in no file.
    secrets: BTreeSet<String>,
    /// Those of them that the session was given at its begin.
    given: BTreeSet<String>,
    /// What was begun and has not ended.
    pending: Option<Work>,
    part: u32,
    failures: u64,
}

/// Messages in memory. Screens have theirs in one piece: one for each of them, of many sessions,
/// would scatter all other memory of the server.
#[derive(Debug, Default)]
struct Kept {
    messages: VecDeque<RawMessage>,
    /// What the screens among them show, in their order.
    screens: VecDeque<u8>,
    /// The memory of all.
    bytes: usize,
    dropped: u64,
}

#[derive(Debug)]
pub(super) struct RawMessage {
    pub(super) at: Timestamp,
    pub(super) event: RawEvent,
}

/// As it is kept in memory: secrets are still in it.
#[derive(Debug)]
pub(super) enum RawEvent {
    Screen { sketch: Sketch, keyboard: &'static str, protocol: &'static str, lu: Option<Arc<str>> },
    Key { key: Key, cursor: usize, typed: Vec<RawTyped> },
    Begun(String),
    Ended { work: String, refused: Option<String> },
    Failed { work: String, code: Option<&'static str>, error: String },
}

/// A field that goes with a key, from its first position on.
#[derive(Debug)]
pub(super) struct RawTyped {
    pub(super) at: usize,
    pub(super) text: String,
    pub(super) display: FieldDisplay,
}

/// Whether a field shows what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldDisplay {
    Shown,
    Hidden,
}

/// What is to be written of a session.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) number: u64,
    pub(super) part: u32,
    pub(super) opened_at: Timestamp,
    pub(super) failures: u64,
    pub(super) dropped: u64,
    pub(super) messages: VecDeque<RawMessage>,
    pub(super) screens: VecDeque<u8>,
    pub(super) secrets: BTreeSet<String>,
    pub(super) page: Arc<CodePage>,
}

impl RawEvent {
    /// Its bytes among those of the screens.
    pub(super) fn shown_bytes(&self) -> usize {
        if let RawEvent::Screen { sketch, .. } = self { sketch.length() } else { 0 }
    }

    fn bytes(&self) -> usize {
        let rest = match self {
            RawEvent::Screen { sketch, .. } => sketch.length(),
            RawEvent::Key { typed, .. } => {
                typed.iter().map(|field| size_of::<RawTyped>() + field.text.len()).sum()
            }
            RawEvent::Begun(work) => work.len(),
            RawEvent::Ended { work, refused } => {
                work.len() + refused.as_ref().map_or(0, String::len)
            }
            RawEvent::Failed { work, error, .. } => work.len() + error.len(),
        };
        size_of::<RawMessage>() + rest
    }
}

impl DebugRecord {
    fn is_on(&mut self) -> bool {
        let is_on = self.shared.level() != DebugLevel::Nothing;
        if !is_on && !self.kept.messages.is_empty() {
            self.kept = Kept::default();
        }
        is_on
    }

    /// What codes of the screens mean.
    pub(crate) fn reads_by(&mut self, page: Arc<CodePage>) {
        self.page = Some(page);
    }

    /// What the session is given that must stand in no file.
    pub(crate) fn given(&mut self, secrets: &[&str]) {
        self.given.extend(secrets.iter().map(|text| text.trim().to_owned()));
        self.given.retain(|text| !text.is_empty());
        self.secrets.extend(self.given.iter().cloned());
    }

    /// Something that must stand in no file.
    pub(crate) fn secret(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() || self.secrets.contains(text) {
            return;
        }
        if self.secrets.len() >= DEBUG_SECRETS {
            // What is kept may show those that are forgotten here.
            let dropped = self.kept.dropped + self.kept.messages.len() as u64;
            self.kept = Kept { dropped, ..Kept::default() };
            self.secrets = self.given.clone();
        }
        self.secrets.insert(text.to_owned());
    }

    /// The host has shown something.
    pub(crate) fn shown(&mut self, terminal: &Terminal) {
        if self.is_on() && terminal.lock() != Some(Lock::NotReady) {
            self.push_screen(terminal);
        }
    }

    fn push_screen(&mut self, terminal: &Terminal) {
        if self.lu.as_deref() != terminal.device_name() {
            self.lu = terminal.device_name().map(Arc::from);
        }
        let event = RawEvent::Screen {
            sketch: Sketch::put(terminal.screen(), &mut self.kept.screens),
            keyboard: keyboard(terminal),
            protocol: protocol(terminal),
            lu: self.lu.clone(),
        };
        self.push(event);
    }

    /// A key is about to go to the host. What is in hidden fields is secret from now on, also
    /// where nothing is recorded yet.
    pub(crate) fn key(&mut self, terminal: &Terminal, key: Key) {
        let screen = terminal.screen();
        let mut typed = Vec::new();
        let is_on = self.is_on();
        for field in screen.modified_fields() {
            let Some(attribute) = screen.attribute(field) else { continue };
            if !is_on && !attribute.is_hidden() {
                continue;
            }
            let codes = screen.positions(field).map(|at| screen.code(at)).filter(|code| *code != 0);
            let text: String =
                codes.map(|code| terminal.page().character(code).unwrap_or(' ')).collect();
            let display =
                if attribute.is_hidden() { FieldDisplay::Hidden } else { FieldDisplay::Shown };
            if display == FieldDisplay::Hidden {
                self.secret(&text);
            }
            typed.push(RawTyped { at: screen.after(field), text, display });
        }
        if !is_on {
            return;
        }
        if self.kept.messages.is_empty() {
            self.push_screen(terminal);
        }
        self.push(RawEvent::Key { key, cursor: screen.cursor(), typed });
    }

    /// Something is begun. What was begun before and has not ended was broken off.
    pub(crate) fn begun(&mut self, work: impl FnOnce() -> Work) {
        self.broke_off();
        if self.is_on() {
            let work = work();
            self.push(RawEvent::Begun(work.to_string()));
            self.pending = Some(work);
        }
    }

    /// What was begun has ended.
    pub(crate) fn ended(&mut self, end: WorkEnd) {
        let Some(work) = self.pending.take() else { return };
        let (foreseen, work) = (work.foresees_refusals(), work.to_string());
        match end {
            WorkEnd::Done => self.push(RawEvent::Ended { work, refused: None }),
            WorkEnd::Refused(Trouble { error, .. }) if foreseen => {
                self.push(RawEvent::Ended { work, refused: Some(error) });
            }
            WorkEnd::Refused(trouble) | WorkEnd::Failed(trouble) => self.failed(work, trouble),
        }
    }

    /// Something failed, whether it was said to begin or not.
    pub(crate) fn failed(&mut self, work: String, Trouble { code, error }: Trouble) {
        self.push_failure(RawEvent::Failed { work, code: Some(code), error });
    }

    fn broke_off(&mut self) {
        if let Some(work) = self.pending.take() {
            let (work, error) = (work.to_string(), "it was broken off".to_owned());
            self.push_failure(RawEvent::Failed { work, code: None, error });
        }
    }

    fn push_failure(&mut self, event: RawEvent) {
        if !self.is_on() {
            return;
        }
        self.failures += 1;
        self.push(event);
        if self.shared.level() == DebugLevel::Errors {
            self.hand_over();
        }
    }

    /// Adds a message; the oldest go where there are too many. A record begins with a screen, if it
    /// has lost something: a key says nothing without the screen that it was pressed at.
    fn push(&mut self, event: RawEvent) {
        let most = self.shared.messages.load(Ordering::Relaxed) as usize;
        let kept = &mut self.kept;
        kept.bytes += event.bytes();
        kept.messages.push_back(RawMessage { at: self.shared.env.now(), event });
        while kept.messages.len() > most.max(1) || kept.bytes > DEBUG_BYTES {
            kept.drop_oldest();
            while kept.messages.front().is_some_and(|it| matches!(it.event, RawEvent::Key { .. })) {
                kept.drop_oldest();
            }
        }
    }

    /// Gives all that is kept to the task that writes it.
    fn hand_over(&mut self) {
        if self.kept.messages.is_empty() {
            return;
        }
        // Without one the session has not begun, and has no messages.
        let Some(page) = self.page.clone() else { return };
        let Kept { messages, screens, dropped, .. } = std::mem::take(&mut self.kept);
        self.part += 1;
        let recorded = Recorded {
            number: self.number,
            part: self.part,
            opened_at: self.opened_at,
            failures: self.failures,
            dropped,
            messages,
            screens,
            secrets: self.secrets.clone(),
            page,
        };
        if self.shared.finished.try_send(recorded).is_err() {
            let model = &self.shared.model.model;
            tracing::warn!(%model, session = self.number, "a record of a session was not written");
        }
    }
}

impl Kept {
    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.messages.pop_front() {
            self.bytes -= oldest.event.bytes();
            self.screens.drain(..oldest.event.shown_bytes());
            self.dropped += 1;
        }
    }
}

impl Drop for DebugRecord {
    fn drop(&mut self) {
        self.broke_off();
        match self.shared.level() {
            DebugLevel::Everything => self.hand_over(),
            DebugLevel::ErrorSessions if self.failures > 0 => self.hand_over(),
            _ => {}
        }
    }
}
