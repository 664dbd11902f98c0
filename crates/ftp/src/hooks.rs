//! Rules before and after commands: what they are asked, and what the client is answered.

use entrepot_ftp_proto::{Answer, Command, End};
use entrepot_nouns::{CommandFact, CommandOrigin, Name, Protocol, SiteId};
use entrepot_vfs::{Begun, CommandRefusal, Hooks, Uploaded, Who};

use crate::control::{ControlConnection, Over};
use crate::status::{code_of_rule, refusal_of_rule};
use crate::transfer::Outcome;

/// Commands that rules look at, from their arrival to their reply.
pub(crate) struct Commands {
    hooks: Hooks,
    listener: Name,
    /// Of the rules that the machine knows of.
    generation: u64,
    current: Option<Begun>,
    /// The command of the transfer that runs: others come and go beside it.
    transfer: Option<Begun>,
}

impl Commands {
    pub(crate) fn new(hooks: Hooks, listener: Name) -> Commands {
        Commands { hooks, listener, generation: 0, current: None, transfer: None }
    }

    /// The rules of another site may count from here on.
    pub(crate) fn forget_generation(&mut self) {
        self.generation = 0;
    }

    /// Tells the machine whether any rule looks at commands; cheap when nothing changed.
    pub(crate) fn follow(&mut self, connection: &mut ControlConnection, site: SiteId) {
        let generation = self.hooks.generation();
        if generation != self.generation {
            self.generation = generation;
            let any = self.hooks.are_any(site, Protocol::Ftp);
            connection.machine.settings_mut().hooked = any;
        }
    }

    /// True if rules look at the transfer that runs.
    pub(crate) fn include_transfer(&self) -> bool {
        self.transfer.is_some()
    }

    /// The current command is a transfer: other commands may come and go beside it.
    pub(crate) fn transfer_begins(&mut self) {
        if let Some(begun) = self.current.take() {
            self.transfer = Some(begun);
        }
    }

    /// The transfer moved so many bytes.
    pub(crate) fn moved(&mut self, bytes: u64) {
        if let Some(begun) = &mut self.transfer {
            begun.command.bytes = Some(bytes);
        }
    }

    /// The transfer published a file.
    pub(crate) fn published(&mut self, uploaded: &Uploaded) {
        if let Some(begun) = &mut self.transfer {
            begun.published(uploaded);
        }
    }

    /// Asks before a command runs.
    pub(crate) async fn before(
        &mut self,
        connection: &mut ControlConnection,
        author: &Who,
        command: Command,
    ) -> Result<Answer, Over> {
        let peer = connection.stream.peer().ip().to_canonical().to_string();
        let (protocol, listener) = (Protocol::Ftp, self.listener.clone());
        let origin = CommandOrigin { protocol, listener, address: peer };
        let mut fact = CommandFact::new(origin, command.verb, &command.argument);
        (fact.path, fact.writes) = (command.path, command.writes);
        let asking = self.hooks.before_each(author, &mut fact, command.others, code_of_rule);
        if let Err(refused) = connection.silently(asking).await? {
            return Ok(Answer::Refused(refusal_of_rule(&refused)));
        }
        self.current = Some(Begun::new(fact, connection.now()));
        Ok(Answer::Proceed)
    }

    /// The command of this verb that was begun beside a transfer, if rules look at it.
    pub(crate) fn take_command(&mut self, verb: &str) -> Option<Begun> {
        self.current.take_if(|begun| begun.command.verb == verb)
    }

    /// The command of this verb, after the transfer has ended: that of the transfer first.
    pub(crate) fn take_any(&mut self, verb: &str) -> Option<Begun> {
        let of_transfer = self.transfer.take_if(|begun| begun.command.verb == verb);
        of_transfer.or_else(|| self.take_command(verb))
    }

    /// Informs rules of a command whose reply is in the output and has not left; they may replace
    /// the reply of one that went well.
    pub(crate) async fn after(
        &self,
        connection: &mut ControlConnection,
        author: &Who,
        begun: Begun,
        code: u16,
    ) -> Result<(), Over> {
        if let Err(refused) = self.report(connection, author, begun, code).await?
            && code < 400
        {
            connection.machine.instead(code_of_rule(&refused), &refused.text);
        }
        Ok(())
    }

    /// Informs rules of a transfer that ended with the session.
    pub(crate) async fn after_the_end(
        &mut self,
        connection: &ControlConnection,
        author: &Who,
        outcome: Option<Outcome>,
    ) {
        let code = self.code_of_ended(outcome);
        if let Some(begun) = self.transfer.take() {
            // Nobody is left who could get the answer.
            let _ = self.report(connection, author, begun, code).await;
        }
    }

    /// The code of a transfer that ended with its session: what it came to, if that is known.
    fn code_of_ended(&mut self, outcome: Option<Outcome>) -> u16 {
        let verb = self.transfer.as_ref().map_or("", |begun| &begun.command.verb);
        match outcome {
            Some(Outcome::Published(uploaded)) => {
                self.published(&uploaded);
                226
            }
            Some(Outcome::Ended(End::Refused(refusal))) => refusal.code(verb),
            _ => 426,
        }
    }

    /// A command that has run is reported also when its client is gone; a drain waits for what
    /// follows.
    async fn report(
        &self,
        connection: &ControlConnection,
        author: &Who,
        begun: Begun,
        code: u16,
    ) -> Result<Result<(), CommandRefusal>, Over> {
        let fact = begun.ended(code, connection.now());
        let _waited_for = connection.meter.waited_for();
        tokio::select! {
            biased;
            answer = self.hooks.after(author, &fact) => Ok(answer),
            // The rules go on without this session.
            end = connection.meter.ending() => Err(Over::Ended(end.reason.clone())),
        }
    }
}
