//! Rules on the commands of a client: asked before a command runs, informed of it before its reply
//! leaves. All of this is the same for every protocol; what an adapter adds is a
//! [`CommandClient`].

use std::time::Duration;

use entrepot_journal::Scope;
use entrepot_nouns::{
    CommandFact, CommandOrigin, CommandProtocol, Fact, Name, SessionId, SiteId, VPath,
};

use crate::hooks::Hooks;
use crate::refusal::CommandRefusal;
use crate::uploaded::Uploaded;

/// The site of a command, and the account and session that sent it.
#[derive(Clone, Debug)]
pub struct CommandAuthor {
    pub(crate) site: SiteId,
    pub(crate) account: Option<Name>,
    pub(crate) session: Option<SessionId>,
}

impl CommandAuthor {
    /// A client that has not logged in, on a listener of this site.
    pub fn anonymous(site: SiteId) -> CommandAuthor {
        CommandAuthor { site, account: None, session: None }
    }

    /// An account, by one of its sessions if it has one: a share link acts for another account, and
    /// who goes on with an upload by its ticket has no session.
    pub fn account(site: SiteId, account: Name, session: Option<SessionId>) -> CommandAuthor {
        CommandAuthor { site, account: Some(account), session }
    }

    fn scope(self) -> Scope {
        Scope { account: self.account, session: self.session, ..Scope::site(self.site) }
    }
}

/// A client whose commands rules look at, as its adapter knows it.
pub trait CommandClient: Sync {
    /// Why a client is gone, in the adapter's terms.
    type Gone;

    /// The protocol, listener and address that its commands come by.
    fn origin(&self) -> CommandOrigin;

    /// The account and session that its commands are recorded under.
    fn author(&self) -> CommandAuthor;

    /// Keeps a server that stops waiting for this client until the answer is dropped.
    fn hold_drain(&self) -> impl Send;

    /// Completes when the client is gone: a command that has not run is then given up.
    fn gone(&self) -> impl Future<Output = Self::Gone> + Send;

    /// Completes when the session must end. After a command nothing else ends the wait for its
    /// rules, which run to their end all the same.
    fn session_ended(&self) -> impl Future<Output = Self::Gone> + Send;

    /// The number that this refusal has in the client's protocol.
    fn code(&self, refusal: &CommandRefusal) -> u16;
}

/// A command as its client sent it.
#[derive(Clone, Debug)]
pub struct IncomingCommand {
    /// In the words of the protocol: `DELE`.
    pub verb: &'static str,
    /// As sent; `***` of what is secret.
    pub argument: String,
    /// The virtual path it is about; of a rename the new one.
    pub path: Option<String>,
    /// More virtual paths that it names: the rules are asked about each.
    pub other_paths: Vec<String>,
    /// Whether it may change files or the server.
    pub writes: bool,
}

impl IncomingCommand {
    /// A command that changes nothing.
    pub fn reading(verb: &'static str, argument: &str, path: Option<&VPath>) -> IncomingCommand {
        let path = path.map(|path| path.as_str().to_owned());
        let argument = argument.to_owned();
        IncomingCommand { verb, argument, path, other_paths: Vec::new(), writes: false }
    }

    /// A command that may change files or names.
    pub fn writing(verb: &'static str, argument: &str, path: Option<&VPath>) -> IncomingCommand {
        IncomingCommand { writes: true, ..IncomingCommand::reading(verb, argument, path) }
    }

    /// The same command, which names one more path.
    pub fn and(mut self, other: Option<&VPath>) -> IncomingCommand {
        self.other_paths.extend(other.map(|path| path.as_str().to_owned()));
        self
    }
}

/// A command that the rules have let pass, until its reply.
#[derive(Debug)]
pub struct RunningCommand {
    fact: CommandFact,
    /// When it arrived: what its rules took before it ran counts too.
    started_at: Duration,
}

impl RunningCommand {
    /// The verb it was sent with.
    pub fn verb(&self) -> &str {
        &self.fact.verb
    }

    /// Notes the bytes that it moved over the network.
    pub fn moved(&mut self, bytes: u64) {
        self.fact.bytes = Some(bytes);
    }

    /// Notes that the file has this path in the end, for another one has the name that was asked
    /// about.
    pub fn stored_at(&mut self, path: &VPath) {
        self.fact.path = Some(path.as_str().to_owned());
    }

    /// Notes the file that it published; its size counts where no moved bytes were noted.
    pub fn published(&mut self, uploaded: &Uploaded) {
        self.fact.bytes.get_or_insert(uploaded.size);
        self.fact.transfer = Some(uploaded.transfer);
        self.fact.digests = uploaded.digests;
    }

    /// The whole fact, `now` that its reply is known.
    fn ended(self, code: u16, now: Duration) -> CommandFact {
        let taken = now.saturating_sub(self.started_at).as_millis();
        let duration_ms = Some(u64::try_from(taken).unwrap_or(u64::MAX));
        CommandFact { code: Some(code), duration_ms, ..self.fact }
    }
}

/// The reply to a command that has run.
#[derive(Clone, Copy, Debug)]
pub struct CommandReply {
    /// Its number in the client's protocol.
    pub code: u16,
    /// Whether a refusal may take its place: the command went well, and what the reply gives can
    /// be taken back.
    pub is_replaceable: bool,
}

/// Why a command does not run.
#[derive(Debug)]
pub enum CommandNotRun<G> {
    /// The rules refuse it; that is in the audit log.
    Refused(CommandRefusal),
    /// The client is gone, and nothing was recorded.
    ClientGone(G),
}

impl Hooks {
    /// Asks the rules before a command runs, about each path that it names, as long as its client
    /// is there.
    ///
    /// # Errors
    /// A rule refuses the command or cannot be asked, or the client is gone.
    pub async fn before<C: CommandClient>(
        &self,
        client: &C,
        command: IncomingCommand,
    ) -> Result<RunningCommand, CommandNotRun<C::Gone>> {
        let (running, other_paths) = self.begun(client, command);
        let fact = &running.fact;
        let scope = client.author().scope();
        let _held = client.hold_drain();
        let asking = async {
            self.ask_one(client, &scope, fact).await?;
            for other in other_paths {
                let about = CommandFact { path: Some(other), ..fact.clone() };
                self.ask_one(client, &scope, &about).await?;
            }
            Ok(())
        };
        tokio::select! {
            biased;
            answer = asking => answer.map_err(CommandNotRun::Refused)?,
            gone = client.gone() => return Err(CommandNotRun::ClientGone(gone)),
        }
        Ok(running)
    }

    /// A command that goes on with one that the rules let pass before, such as the last part of an
    /// upload of many requests: they are informed of it and not asked once more.
    pub fn asked_before<C: CommandClient>(
        &self,
        client: &C,
        command: IncomingCommand,
    ) -> RunningCommand {
        self.begun(client, command).0
    }

    /// The command as it begins, and the other paths that it names.
    fn begun<C: CommandClient>(
        &self,
        client: &C,
        command: IncomingCommand,
    ) -> (RunningCommand, Vec<String>) {
        let started_at = self.recorder().env().elapsed();
        let IncomingCommand { verb, argument, path, other_paths, writes } = command;
        let mut fact = CommandFact::new(client.origin(), verb, &argument);
        (fact.path, fact.writes) = (path, writes);
        (RunningCommand { fact, started_at }, other_paths)
    }

    /// Asks about one path of a command; a refusal is recorded as the client gets it.
    async fn ask_one<C: CommandClient>(
        &self,
        client: &C,
        scope: &Scope,
        command: &CommandFact,
    ) -> Result<(), CommandRefusal> {
        let answer = self.ask_before(scope, command).await;
        if let Err(refusal) = &answer {
            let command = CommandFact { code: Some(client.code(refusal)), ..command.clone() };
            let (rule, reason) = (refusal.rule.clone(), refusal.text.clone());
            let fact = Fact::CommandRefused { command, rule, reason };
            if let Err(error) = self.recorder().record(scope, fact) {
                tracing::error!(code = error.code(), %error, "a refusal was not recorded");
            }
        }
        answer
    }

    /// Informs the rules of a command that has run and whose reply has not left. Gives the
    /// refusal that takes the place of the reply, if any.
    ///
    /// The command is reported with the first poll, also if its client is gone by then; its rules
    /// run to their end even if this future is dropped.
    ///
    /// # Errors
    /// The session ended first.
    pub async fn after<C: CommandClient>(
        &self,
        client: &C,
        command: RunningCommand,
        reply: CommandReply,
    ) -> Result<Option<CommandRefusal>, C::Gone> {
        let fact = command.ended(reply.code, self.recorder().env().elapsed());
        let scope = client.author().scope();
        let _held = client.hold_drain();
        let answer = tokio::select! {
            biased;
            answer = self.inform(&scope, &fact) => answer,
            gone = client.session_ended() => return Err(gone),
        };
        Ok(answer.err().filter(|_| reply.is_replaceable))
    }
}

/// Whether rules look at the commands of one session, at the cost of one atomic load while no rule
/// has changed.
pub struct CommandRuleWatch {
    hooks: Hooks,
    protocol: CommandProtocol,
    site: SiteId,
    /// Of the rules that `are_any` is about; 0: none yet.
    generation: u64,
    are_any: bool,
}

impl CommandRuleWatch {
    /// For the commands of a protocol under the rules of this site.
    pub fn new(hooks: Hooks, protocol: CommandProtocol, site: SiteId) -> CommandRuleWatch {
        CommandRuleWatch { hooks, protocol, site, generation: 0, are_any: false }
    }

    /// From now on the rules of this site count.
    pub fn set_site(&mut self, site: SiteId) {
        if site != self.site {
            (self.site, self.generation) = (site, 0);
        }
    }

    /// Notices changed rules; gives [`CommandRuleWatch::are_any`].
    pub fn refresh(&mut self) -> bool {
        let generation = self.hooks.generation();
        if generation != self.generation {
            self.generation = generation;
            self.are_any = self.hooks.are_any(self.site, self.protocol);
        }
        self.are_any
    }

    /// Whether any rule looked at commands when that was last refreshed.
    pub fn are_any(&self) -> bool {
        self.are_any
    }
}
