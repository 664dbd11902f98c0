//! Rules before and after commands: what is asked, and what the client hears of it.

use std::pin::pin;
use std::sync::Arc;

use entrepot_ftp_proto::{Answer, Command, End, Refusal};
use entrepot_model::{CommandFact, Protocol, SiteId};
use entrepot_net::control::PeerState;
use entrepot_vfs::{Begun, Refused, Uploaded, Who};
use tokio::time::sleep;

use crate::limits::PATIENCE_INTERVAL;
use crate::session::{Conversation, Over};
use crate::transfer::Outcome;

/// Commands that rules look at, from their arrival to their reply.
#[derive(Default)]
pub(crate) struct Commands {
    /// Of the rules that the machine knows of.
    generation: u64,
    current: Option<Begun>,
    transfer: Option<Begun>,
}

impl Commands {
    /// The rules are others from here on.
    pub(crate) fn look_again(&mut self) {
        self.generation = 0;
    }

    /// Rules look at the transfer that runs.
    pub(crate) fn tells_of_transfer(&self) -> bool {
        self.transfer.is_some()
    }

    /// What runs now is the transfer: other commands may come and go beside it.
    pub(crate) fn transfers(&mut self) {
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

    /// The code of a transfer that ended with its session: what it came to, if that is known.
    fn ended(&mut self, outcome: Option<Outcome>) -> u16 {
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
}

impl Conversation {
    /// Takes over whether any rule looks at commands: one look when nothing changed.
    pub(crate) fn follow_hooks(&mut self) {
        let hooks = self.house.context.vfs.hooks();
        let generation = hooks.generation();
        if generation != self.commands.generation {
            self.commands.generation = generation;
            let any = hooks.are_any(self.rules_of(), Protocol::Ftp);
            self.machine.settings_mut().hooked = any;
        }
    }

    /// The site whose rules count: before a login that of the listener.
    fn rules_of(&self) -> SiteId {
        let site = self.live.as_ref().map(|live| live.session.principal().site);
        site.unwrap_or(self.house.context.site)
    }

    fn who(&self) -> Who {
        Who::new(self.rules_of(), self.live.as_ref().map(|live| &live.session))
    }

    /// Asks before a command runs.
    pub(crate) async fn before(&mut self, command: Command) -> Result<Answer, Over> {
        let peer = self.control.peer().ip().to_canonical().to_string();
        let from = (self.house.context.listener.clone(), peer);
        let named = (Protocol::Ftp, command.verb);
        let mut fact = CommandFact::new(named, &command.argument, from);
        (fact.path, fact.writes) = (command.path, command.writes);
        let (hooks, who) = (self.house.context.vfs.hooks().clone(), self.who());
        let asking = hooks.before_each(&who, &mut fact, command.others);
        let answer = self.attend(asking).await?;
        if let Err(refused) = answer {
            return Ok(Answer::Refused(Refusal::told(refused.code, refused.text)));
        }
        self.commands.current = Some(Begun::new(fact, self.now()));
        Ok(Answer::Proceed)
    }

    /// Tells of a command whose reply is in the output and has not left.
    pub(crate) async fn after(&mut self, verb: &str, code: u16) -> Result<(), Over> {
        let is_it =
            |begun: &Option<Begun>| begun.as_ref().is_some_and(|it| it.command.verb == verb);
        let ended = self.transfer.is_none() && is_it(&self.commands.transfer);
        let begun = match ended {
            true => self.commands.transfer.take(),
            false => self.commands.current.take_if(|it| it.command.verb == verb),
        };
        // A command that came before the first rule did.
        let Some(begun) = begun else { return Ok(()) };
        if let Err(refused) = self.tell(begun, code).await?
            && code < 400
        {
            self.machine.instead(refused.code, &refused.text);
        }
        Ok(())
    }

    /// Tells of a transfer that ended with the session: the rules after it run all the same.
    pub(crate) async fn after_the_end(&mut self, outcome: Option<Outcome>) {
        let code = self.commands.ended(outcome);
        if let Some(begun) = self.commands.transfer.take() {
            // There is nobody to hear the answer.
            let _ = self.tell(begun, code).await;
        }
    }

    /// A command that has run is told also when its client is gone; a drain waits for what follows.
    async fn tell(&mut self, begun: Begun, code: u16) -> Result<Result<(), Refused>, Over> {
        let fact = begun.ended(code, self.now());
        let (hooks, who) = (self.house.context.vfs.hooks().clone(), self.who());
        let _waited_for = self.meter.waited_for();
        tokio::select! {
            biased;
            answer = hooks.after(&who, &fact) => Ok(answer),
            // The rules go on without us.
            end = self.meter.ending() => Err(Over::Ended(end.reason.clone())),
        }
    }

    /// Waits for an answer as long as the client does; no reply leaves meanwhile.
    async fn attend<T>(&mut self, answer: impl Future<Output = T>) -> Result<T, Over> {
        let mut answer = pin!(answer);
        loop {
            let meter = Arc::clone(&self.meter);
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer),
                end = meter.ending() => return Err(Over::Ended(end.reason.clone())),
                () = sleep(PATIENCE_INTERVAL) => {}
            }
            if matches!(self.control.peer_state(), PeerState::Closed | PeerState::Reset) {
                return Err(Over::Gone("the client hung up".to_owned()));
            }
        }
    }
}
