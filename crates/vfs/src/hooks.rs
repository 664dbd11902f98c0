//! The rules on commands that are in force, and the queue of questions that the engine answers.
//!
//! Sessions know which commands rules look at ([`Hooks::are_any`]: one atomic load if none does),
//! and put a question into a bounded queue for those. Before a command no answer is a refusal: a
//! rule that cannot be asked lets nothing pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::{CommandFact, CommandPattern, CommandProtocol, Event, Fact, SiteId};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::limits::HOOK_QUEUE;
use crate::refusal::CommandRefusal;

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

impl Hook {
    fn is_of(&self, protocol: CommandProtocol) -> bool {
        self.commands.iter().any(|it| it.may_be_of(protocol))
    }
}

/// A question about one command. Dropped without an answer it counts as a refusal.
#[derive(Debug)]
pub struct RuleQuestion {
    /// Before it runs, or before its reply leaves.
    pub moment: Moment,
    /// The command, as the event it would be.
    pub event: Box<Event>,
    /// The answer takes at most so long. Before a command it is no longer needed when the receiver
    /// of `answer` is dropped; after one its rules run to their end all the same, for the command
    /// has run.
    pub limit: Duration,
    /// To be answered once.
    pub answer: oneshot::Sender<Result<(), CommandRefusal>>,
}

/// The commands that rules look at, and the way to ask the rules. Cheap to clone.
#[derive(Clone)]
pub struct Hooks(Arc<HooksShared>);

struct HooksShared {
    recorder: Recorder,
    /// `None`: the engine will answer, but has not read the rules yet.
    table: RwLock<Option<Arc<Vec<Hook>>>>,
    /// A bit for each protocol of whose commands any rule of `table` may be, whatever its site.
    protocols: AtomicU8,
    generation: AtomicU64,
    questions: mpsc::Sender<RuleQuestion>,
    /// `None`: the engine has taken it.
    unclaimed: Mutex<Option<mpsc::Receiver<RuleQuestion>>>,
}

impl Hooks {
    /// No rules; refusals are recorded there.
    pub fn new(recorder: Recorder) -> Hooks {
        let (questions, unclaimed) = mpsc::channel(HOOK_QUEUE);
        Hooks(Arc::new(HooksShared {
            recorder,
            table: RwLock::new(Some(Arc::default())),
            protocols: AtomicU8::new(0),
            generation: AtomicU64::new(1),
            questions,
            unclaimed: Mutex::new(Some(unclaimed)),
        }))
    }

    /// The queue of questions; from now on until the first [`Hooks::set`] every command is
    /// refused. `None`: it was taken before.
    pub fn attach(&self) -> Option<mpsc::Receiver<RuleQuestion>> {
        let questions = self.0.unclaimed.lock().take()?;
        self.replace(None);
        Some(questions)
    }

    /// The rules there are now.
    pub fn set(&self, hooks: Vec<Hook>) {
        let same = self.0.table.read().as_ref().is_some_and(|table| **table == hooks);
        if !same {
            self.replace(Some(Arc::new(hooks)));
        }
    }

    fn replace(&self, table: Option<Arc<Vec<Hook>>>) {
        let looks_at = |protocol: &CommandProtocol| match &table {
            Some(hooks) => hooks.iter().any(|hook| hook.is_of(*protocol)),
            None => true,
        };
        let protocols = CommandProtocol::ALL.into_iter().filter(looks_at);
        let bits = protocols.fold(0, |bits, protocol| bits | bit(protocol));
        let mut known = self.0.table.write();
        *known = table;
        self.0.protocols.store(bits, Ordering::Release);
        drop(known);
        self.0.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// One more whenever [`Hooks::are_any`] may have changed; costs one atomic load.
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Whether any command of this protocol is looked at; costs one atomic load if none is.
    pub fn are_any(&self, site: SiteId, protocol: CommandProtocol) -> bool {
        if self.0.protocols.load(Ordering::Acquire) & bit(protocol) == 0 {
            return false;
        }
        match self.0.table.read().as_ref() {
            Some(table) => table.iter().any(|hook| hook.site == site && hook.is_of(protocol)),
            None => true,
        }
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// The time within which the rules on this command must answer; `None`: no rule looks at it.
    fn limit(&self, site: SiteId, moment: Moment, command: &CommandFact) -> Option<Duration> {
        let table = self.0.table.read().clone();
        // The rules are not known yet: the answer will be that they cannot be asked.
        let Some(table) = table else { return Some(Duration::ZERO) };
        let looks = |hook: &&Hook| {
            let is =
                |it: &CommandPattern| it.is_for(command.protocol, &command.verb, &command.argument);
            hook.site == site && hook.moment == moment && hook.commands.iter().any(is)
        };
        let limits = table.iter().filter(looks).map(|hook| hook.limit);
        limits.reduce(Duration::saturating_add)
    }

    /// Asks before `command` runs; it is about the one path that it has.
    ///
    /// # Errors
    /// A rule refuses, or cannot be asked.
    pub(crate) async fn ask_before(
        &self,
        scope: &Scope,
        command: &CommandFact,
    ) -> Result<(), CommandRefusal> {
        match self.limit(scope.site, Moment::Before, command) {
            Some(limit) => self.ask(Moment::Before, limit, scope, command).await,
            None => Ok(()),
        }
    }

    /// Informs of `command`, which has run and whose reply has not left. An error is what the
    /// client gets instead. The event is recorded and the question put with the first poll;
    /// dropping the future afterwards changes nothing of what follows.
    ///
    /// # Errors
    /// What the reply waits for failed.
    pub(crate) async fn inform(
        &self,
        scope: &Scope,
        command: &CommandFact,
    ) -> Result<(), CommandRefusal> {
        if self.0.table.read().is_none() {
            // Nothing has run: each command was refused before.
            return Ok(());
        }
        let recording = async {
            if self.limit(scope.site, Moment::Done, command).is_none() {
                return Ok(());
            }
            let fact = Fact::CommandDone { command: command.clone() };
            let recorded = self.0.recorder.record_durable(scope, fact).await;
            recorded.map(drop).map_err(|error| unanswered(&error.to_string()))
        };
        let asking = async {
            match self.limit(scope.site, Moment::Reply, command) {
                Some(limit) => self.ask(Moment::Reply, limit, scope, command).await,
                None => Ok(()),
            }
        };
        let (recorded, answered) = tokio::join!(recording, asking);
        recorded.and(answered)
    }

    async fn ask(
        &self,
        moment: Moment,
        limit: Duration,
        scope: &Scope,
        command: &CommandFact,
    ) -> Result<(), CommandRefusal> {
        let fact = Fact::CommandDone { command: command.clone() };
        let event = Box::new(self.0.recorder.event(scope, fact));
        let (answer, answered) = oneshot::channel();
        let question = RuleQuestion { moment, event, limit, answer };
        if let Err(error) = self.0.questions.try_send(question) {
            return Err(unanswered(&error.to_string()));
        }
        match timeout(limit, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(unanswered("the engine dropped the question")),
            Err(_) => Err(unanswered("the answer took too long")),
        }
    }
}

/// The bit that stands for a protocol.
fn bit(protocol: CommandProtocol) -> u8 {
    match protocol {
        CommandProtocol::Ftp => 1,
        CommandProtocol::Sftp => 2,
        CommandProtocol::Http => 4,
        CommandProtocol::As2 => 8,
    }
}

/// The refusal of a command whose rules gave no answer; the log says why.
fn unanswered(why: &str) -> CommandRefusal {
    tracing::error!(code = "EP0826", why, "a rule could not be asked about a command");
    CommandRefusal::unanswered("A rule of this server could not be asked: try again later.")
}
