//! Rules before and after commands: what sessions ask, and the engine answers.
//!
//! Sessions know which commands rules look at ([`Hooks::are_any`]: one atomic load if none does),
//! and put a question into a bounded queue for those. Before a command no answer is a refusal: a
//! rule that cannot be asked lets nothing pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::{CommandFact, CommandPattern, Event, Fact, Name, Protocol, SessionId, SiteId};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::limits::HOOK_QUEUE;
use crate::refusal::CommandRefusal;
use crate::uploaded::Uploaded;

/// When a rule looks at a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before it runs.
    Before,
    /// Before its reply leaves.
    Reply,
    /// After it, as a durable job.
    Done,
}

/// What one rule looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The site whose rule it is.
    pub site: SiteId,
    /// When the rule is asked.
    pub moment: Moment,
    /// The commands that it looks at.
    pub commands: Vec<CommandPattern>,
    /// An answer takes at most so long.
    pub limit: Duration,
}

/// Who gives a command.
#[derive(Clone, Debug)]
pub struct Who {
    pub(crate) site: SiteId,
    pub(crate) account: Option<Name>,
    pub(crate) session: Option<SessionId>,
}

impl Who {
    fn scope(&self) -> Scope {
        let account = self.account.clone();
        Scope { account, session: self.session, ..Scope::site(self.site) }
    }
}

/// A command that may run, from its arrival to its reply.
#[derive(Debug)]
pub struct Begun {
    /// The request as it came, completed with its result.
    pub command: CommandFact,
    at: Duration,
}

impl Begun {
    /// It began when [`entrepot_nouns::Env::elapsed`] was `at`.
    pub fn new(command: CommandFact, at: Duration) -> Begun {
        Begun { command, at }
    }

    /// It published a file, whose size counts where nobody counted what came by the wire.
    pub fn published(&mut self, uploaded: &Uploaded) {
        self.command.bytes.get_or_insert(uploaded.size);
        self.command.transfer = Some(uploaded.transfer);
        self.command.digests = uploaded.digests;
    }

    /// The whole fact: how it was answered, and when.
    pub fn ended(self, code: u16, now: Duration) -> CommandFact {
        let taken = now.saturating_sub(self.at).as_millis();
        let duration_ms = Some(u64::try_from(taken).unwrap_or(u64::MAX));
        CommandFact { code: Some(code), duration_ms, ..self.command }
    }
}

/// A question about one command. Dropped without an answer it counts as a refusal.
#[derive(Debug)]
pub struct Ask {
    /// Before it runs, or before its reply leaves.
    pub moment: Moment,
    /// The command, as the event it would be.
    pub event: Box<Event>,
    /// The answer takes at most so long. Before a command it is wanted no more when whoever asked
    /// is gone; after one its rules run to their end all the same, for the command has run.
    pub limit: Duration,
    /// To be answered once.
    pub answer: oneshot::Sender<Result<(), CommandRefusal>>,
}

/// Which commands rules look at, and where to ask. Cheap to clone.
#[derive(Clone)]
pub struct Hooks(Arc<Inner>);

struct Inner {
    recorder: Recorder,
    /// `None`: somebody will answer, but what to ask about is not known yet.
    table: RwLock<Option<Arc<Vec<Hook>>>>,
    generation: AtomicU64,
    asks: mpsc::Sender<Ask>,
    answering: Mutex<Option<mpsc::Receiver<Ask>>>,
}

impl Hooks {
    /// No rules; refusals are recorded there.
    pub fn new(recorder: Recorder) -> Hooks {
        let (asks, answering) = mpsc::channel(HOOK_QUEUE);
        Hooks(Arc::new(Inner {
            recorder,
            table: RwLock::new(Some(Arc::default())),
            generation: AtomicU64::new(1),
            asks,
            answering: Mutex::new(Some(answering)),
        }))
    }

    /// Questions come here from now on; until the first [`Hooks::set`] every command is refused.
    /// `None`: somebody else has them.
    pub fn attach(&self) -> Option<mpsc::Receiver<Ask>> {
        let answering = self.0.answering.lock().take()?;
        self.replace(None);
        Some(answering)
    }

    /// The rules there are now.
    pub fn set(&self, hooks: Vec<Hook>) {
        let same = self.0.table.read().as_ref().is_some_and(|table| **table == hooks);
        if !same {
            self.replace(Some(Arc::new(hooks)));
        }
    }

    fn replace(&self, table: Option<Arc<Vec<Hook>>>) {
        *self.0.table.write() = table;
        self.0.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// One more whenever [`Hooks::are_any`] may have changed: a cheap look.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Whether any command of this protocol is looked at.
    pub fn are_any(&self, site: SiteId, protocol: Protocol) -> bool {
        let of_protocol = |it: &Hook| it.commands.iter().any(|it| it.may_be_of(protocol));
        match self.0.table.read().as_ref() {
            Some(table) => table.iter().any(|hook| hook.site == site && of_protocol(hook)),
            None => true,
        }
    }

    /// How long the answer about this command may take; `None`: nobody asks.
    fn limit(&self, who: &Who, moment: Moment, command: &CommandFact) -> Option<Duration> {
        let table = self.0.table.read().clone();
        // Nothing is known yet: the answer will be that nobody can be asked.
        let Some(table) = table else { return Some(Duration::ZERO) };
        let looks = |hook: &&Hook| {
            let is =
                |it: &CommandPattern| it.is_for(command.protocol, &command.verb, &command.argument);
            hook.site == who.site && hook.moment == moment && hook.commands.iter().any(is)
        };
        let limits = table.iter().filter(looks).map(|hook| hook.limit);
        limits.reduce(Duration::saturating_add)
    }

    /// Asks before `command` runs. An error is what the client is told; it is in the audit log,
    /// with the number that `code_of` gives it in the client's protocol.
    ///
    /// # Errors
    /// A rule refuses, or cannot be asked.
    pub async fn before(
        &self,
        who: &Who,
        command: &CommandFact,
        code_of: fn(&CommandRefusal) -> u16,
    ) -> Result<(), CommandRefusal> {
        let Some(limit) = self.limit(who, Moment::Before, command) else { return Ok(()) };
        let answer = self.ask(Moment::Before, limit, who, command).await;
        if let Err(refused) = &answer {
            let mut command = command.clone();
            command.code = Some(code_of(refused));
            let (rule, reason) = (refused.rule.clone(), refused.text.clone());
            let fact = Fact::CommandRefused { command, rule, reason };
            if let Err(error) = self.0.recorder.record(&who.scope(), fact) {
                tracing::error!(code = error.code(), %error, "a refusal was not recorded");
            }
        }
        answer
    }

    /// As [`Hooks::before`], about each of the paths that a command names.
    ///
    /// # Errors
    /// As [`Hooks::before`].
    pub async fn before_each(
        &self,
        who: &Who,
        command: &mut CommandFact,
        others: Vec<String>,
        code_of: fn(&CommandRefusal) -> u16,
    ) -> Result<(), CommandRefusal> {
        self.before(who, command, code_of).await?;
        for other in others {
            let path = command.path.replace(other);
            let answer = self.before(who, command, code_of).await;
            command.path = path;
            answer?;
        }
        Ok(())
    }

    /// Tells of `command`, which has run and whose reply has not left. An error is what the client
    /// is told instead. With the first poll it is told and asked; whoever waits no longer changes
    /// nothing of what follows.
    ///
    /// # Errors
    /// What the reply waits for failed.
    pub async fn after(&self, who: &Who, command: &CommandFact) -> Result<(), CommandRefusal> {
        if self.0.table.read().is_none() {
            // Nothing has run: each command was refused before.
            return Ok(());
        }
        let telling = async {
            if self.limit(who, Moment::Done, command).is_none() {
                return Ok(());
            }
            let fact = Fact::CommandDone { command: command.clone() };
            let told = self.0.recorder.record_durable(&who.scope(), fact).await;
            told.map(drop).map_err(|error| unanswered(&error.to_string()))
        };
        let asking = async {
            match self.limit(who, Moment::Reply, command) {
                Some(limit) => self.ask(Moment::Reply, limit, who, command).await,
                None => Ok(()),
            }
        };
        let (told, answered) = tokio::join!(telling, asking);
        told.and(answered)
    }

    async fn ask(
        &self,
        moment: Moment,
        limit: Duration,
        who: &Who,
        command: &CommandFact,
    ) -> Result<(), CommandRefusal> {
        let fact = Fact::CommandDone { command: command.clone() };
        let event = Box::new(self.0.recorder.event(&who.scope(), fact));
        let (answer, answered) = oneshot::channel();
        if let Err(error) = self.0.asks.try_send(Ask { moment, event, limit, answer }) {
            return Err(unanswered(&error.to_string()));
        }
        match timeout(limit, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(unanswered("whoever answers is gone")),
            Err(_) => Err(unanswered("the answer took too long")),
        }
    }
}

/// The refusal of a command whose rules gave no answer; the log says why.
fn unanswered(why: &str) -> CommandRefusal {
    tracing::error!(code = "EP0826", why, "a rule could not be asked about a command");
    CommandRefusal::unanswered("A rule of this server could not be asked: try again later.")
}
