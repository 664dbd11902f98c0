//! Rules before and after commands of FTP: which command they are asked about, and what the client
//! is answered.

use entrepot_ftp_proto::{Answer, Command, End};
use entrepot_nouns::{CommandOrigin, CommandProtocol, Name, SiteId};
use entrepot_vfs::{
    CommandAuthor, CommandClient, CommandNotRun, CommandRefusal, CommandReply, CommandRuleWatch,
    Hooks, IncomingCommand, RunningCommand, Uploaded,
};

use crate::control::{ControlConnection, Over};
use crate::status::{code_of_rule, refusal_of_rule};
use crate::transfer::Outcome;

/// Commands that rules look at, from their arrival to their reply.
pub(crate) struct Commands {
    hooks: Hooks,
    watch: CommandRuleWatch,
    listener: Name,
    current: Option<RunningCommand>,
    /// The command of the transfer that runs: others come and go beside it.
    transfer: Option<RunningCommand>,
}

/// The client of one control connection, as rules on its commands see it.
struct FtpCommandClient<'a> {
    connection: &'a ControlConnection,
    author: &'a CommandAuthor,
    listener: &'a Name,
}

impl CommandClient for FtpCommandClient<'_> {
    type Gone = Over;

    fn origin(&self) -> CommandOrigin {
        let address = self.connection.stream.peer().ip().to_canonical().to_string();
        let (protocol, listener) = (CommandProtocol::Ftp, self.listener.clone());
        CommandOrigin { protocol, listener, address }
    }

    fn author(&self) -> CommandAuthor {
        self.author.clone()
    }

    fn hold_drain(&self) -> impl Send {
        self.connection.meter.waited_for()
    }

    /// Nothing is written meanwhile: a rule may yet replace the reply that is in the output.
    async fn gone(&self) -> Over {
        self.connection.gone().await
    }

    async fn session_ended(&self) -> Over {
        self.connection.session_ended().await
    }

    fn code(&self, refusal: &CommandRefusal) -> u16 {
        code_of_rule(refusal)
    }
}

impl Commands {
    /// For the commands that come by a listener of this site.
    pub(crate) fn new(hooks: Hooks, site: SiteId, listener: Name) -> Commands {
        let watch = CommandRuleWatch::new(hooks.clone(), CommandProtocol::Ftp, site);
        Commands { hooks, watch, listener, current: None, transfer: None }
    }

    /// Tells the machine whether any rule of this site looks at commands; cheap when nothing
    /// changed.
    pub(crate) fn follow(&mut self, connection: &mut ControlConnection, site: SiteId) {
        self.watch.set_site(site);
        connection.machine.settings_mut().hooked = self.watch.refresh();
    }

    /// True if rules look at the transfer that runs.
    pub(crate) fn include_transfer(&self) -> bool {
        self.transfer.is_some()
    }

    /// The current command is a transfer: other commands may come and go beside it.
    pub(crate) fn transfer_begins(&mut self) {
        if let Some(command) = self.current.take() {
            self.transfer = Some(command);
        }
    }

    /// The transfer moved so many bytes.
    pub(crate) fn moved(&mut self, bytes: u64) {
        if let Some(command) = &mut self.transfer {
            command.moved(bytes);
        }
    }

    /// The transfer published a file.
    pub(crate) fn published(&mut self, uploaded: &Uploaded) {
        if let Some(command) = &mut self.transfer {
            command.published(uploaded);
        }
    }

    /// Asks before a command runs.
    pub(crate) async fn before(
        &mut self,
        connection: &ControlConnection,
        author: &CommandAuthor,
        command: Command,
    ) -> Result<Answer, Over> {
        let Command { verb, argument, path, others, writes } = command;
        let command = IncomingCommand { verb, argument, path, other_paths: others, writes };
        let client = FtpCommandClient { connection, author, listener: &self.listener };
        match self.hooks.before(&client, command).await {
            Ok(command) => {
                self.current = Some(command);
                Ok(Answer::Proceed)
            }
            Err(CommandNotRun::Refused(refusal)) => Ok(Answer::Refused(refusal_of_rule(&refusal))),
            Err(CommandNotRun::ClientGone(over)) => Err(over),
        }
    }

    /// The command of this verb that was begun beside a transfer, if rules look at it.
    pub(crate) fn take_command(&mut self, verb: &str) -> Option<RunningCommand> {
        self.current.take_if(|command| command.verb() == verb)
    }

    /// The command of this verb, after the transfer has ended: that of the transfer first.
    pub(crate) fn take_any(&mut self, verb: &str) -> Option<RunningCommand> {
        let of_transfer = self.transfer.take_if(|command| command.verb() == verb);
        of_transfer.or_else(|| self.take_command(verb))
    }

    /// Informs rules of a command whose reply is in the output and has not left; they may replace
    /// the reply of one that went well.
    pub(crate) async fn after(
        &self,
        connection: &mut ControlConnection,
        author: &CommandAuthor,
        command: RunningCommand,
        code: u16,
    ) -> Result<(), Over> {
        let client = FtpCommandClient { connection, author, listener: &self.listener };
        let reply = CommandReply { code, is_replaceable: code < 400 };
        if let Some(refusal) = self.hooks.after(&client, command, reply).await? {
            connection.machine.instead(code_of_rule(&refusal), &refusal.text);
        }
        Ok(())
    }

    /// Informs rules of a transfer that ended with the session.
    pub(crate) async fn after_the_end(
        &mut self,
        connection: &ControlConnection,
        author: &CommandAuthor,
        outcome: Option<Outcome>,
    ) {
        let code = self.code_of_ended(outcome);
        if let Some(command) = self.transfer.take() {
            let client = FtpCommandClient { connection, author, listener: &self.listener };
            let reply = CommandReply { code, is_replaceable: false };
            // No client is left that could get the answer.
            let _ = self.hooks.after(&client, command, reply).await;
        }
    }

    /// The code of a transfer that ended with its session: what it came to, if that is known.
    fn code_of_ended(&mut self, outcome: Option<Outcome>) -> u16 {
        let verb = self.transfer.as_ref().map_or("", RunningCommand::verb);
        match outcome {
            Some(Outcome::Published(uploaded)) => {
                self.published(&uploaded);
                226
            }
            Some(Outcome::Ended(End::Refused(refusal))) => refusal.code(verb),
            _ => 426,
        }
    }
}
