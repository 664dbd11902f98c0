//! Rules before and after requests of SFTP, and before and after what `scp` and the hash commands
//! do. They are asked in the task of a channel or command, never in the session's.

use entrepot_nouns::{CommandOrigin, CommandProtocol};
use entrepot_sftp_proto::Status;
use entrepot_vfs::{
    CommandAuthor, CommandClient, CommandNotRun, CommandRefusal, CommandReply, CommandRuleWatch,
    IncomingCommand, RunningCommand, Uploaded, VfsError,
};
use tokio_util::sync::CancellationToken;

use crate::connection::ConnectionShared;
use crate::problem::Problem;
use crate::status::{code_of_rule, event_code};

/// The client behind one channel, as rules on its requests see it.
struct ChannelClient<'a> {
    shared: &'a ConnectionShared,
    /// The channel is closed, or the session has ended.
    closed: &'a CancellationToken,
}

impl CommandClient for ChannelClient<'_> {
    type Gone = ();

    fn origin(&self) -> CommandOrigin {
        self.shared.session.command_origin(CommandProtocol::Sftp)
    }

    fn author(&self) -> CommandAuthor {
        self.shared.session.author()
    }

    fn hold_drain(&self) -> impl Send {
        self.shared.meter.waited_for()
    }

    async fn gone(&self) {
        self.closed.cancelled().await;
    }

    async fn session_ended(&self) {
        self.closed.cancelled().await;
    }

    fn code(&self, refusal: &CommandRefusal) -> u16 {
        code_of_rule(refusal)
    }
}

/// Whether rules may turn a good answer into a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoodAnswer {
    Replaceable,
    /// It gives a handle, which cannot be taken back.
    Final,
}

impl ConnectionShared {
    /// Whether any rule looks at requests of SFTP.
    pub(crate) fn has_rules(&self) -> bool {
        self.session.hooks().are_any(self.session.principal().site, CommandProtocol::Sftp)
    }

    /// As [`ConnectionShared::has_rules`], for what asks before each request.
    pub(crate) fn watch_rules(&self) -> CommandRuleWatch {
        let site = self.session.principal().site;
        CommandRuleWatch::new(self.session.hooks().clone(), CommandProtocol::Sftp, site)
    }

    /// Asks before a request is carried out, as long as the channel is there.
    pub(crate) async fn before(
        &self,
        command: IncomingCommand,
        closed: &CancellationToken,
    ) -> Result<RunningCommand, CommandRefusal> {
        let client = ChannelClient { shared: self, closed };
        match self.session.hooks().before(&client, command).await {
            Ok(command) => Ok(command),
            Err(CommandNotRun::Refused(refusal)) => Err(refusal),
            Err(CommandNotRun::ClientGone(())) => {
                Err(CommandRefusal::unanswered("The channel is closed."))
            }
        }
    }

    /// Informs rules of a request that was carried out, also if the channel is closed. Gives its
    /// answer, or the refusal that takes the place of a good one.
    pub(crate) async fn after<T>(
        &self,
        command: RunningCommand,
        answer: Result<T, Problem>,
        good: GoodAnswer,
        closed: &CancellationToken,
    ) -> Result<T, Problem> {
        let status = answer.as_ref().map_or_else(Problem::status, |_| Status::Ok);
        let is_replaceable = answer.is_ok() && good == GoodAnswer::Replaceable;
        let reply = CommandReply { code: event_code(status), is_replaceable };
        let client = ChannelClient { shared: self, closed };
        match self.session.hooks().after(&client, command, reply).await {
            Ok(Some(refusal)) => Err(Problem::Ruled(refusal)),
            Ok(None) | Err(()) => answer,
        }
    }

    /// Does what a command on a channel asks for, between the rules before and after the request
    /// that it is like.
    pub(crate) async fn with_rules<T>(
        &self,
        command: impl FnOnce() -> IncomingCommand,
        closed: &CancellationToken,
        work: impl Future<Output = Result<T, VfsError>>,
    ) -> Result<T, Problem> {
        if !self.has_rules() {
            return Ok(work.await?);
        }
        let command = self.before(command(), closed).await?;
        let done = work.await.map_err(Problem::Vfs);
        self.after(command, done, GoodAnswer::Replaceable, closed).await
    }

    /// Publishes what a command on a channel uploaded, and informs rules if they were asked.
    pub(crate) async fn publish(
        &self,
        command: Option<RunningCommand>,
        work: impl Future<Output = Result<Uploaded, VfsError>>,
        closed: &CancellationToken,
    ) -> Result<(), Problem> {
        let done = work.await.map_err(Problem::Vfs);
        let Some(mut command) = command else { return done.map(drop) };
        if let Ok(uploaded) = &done {
            command.published(uploaded);
        }
        self.after(command, done, GoodAnswer::Replaceable, closed).await.map(drop)
    }
}
