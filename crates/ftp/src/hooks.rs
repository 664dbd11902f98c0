//! Rules before and after commands: what is asked, and what the client hears of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use entrepot_ftp_proto::{Answer, Command, Refusal};
use entrepot_model::limits::COMMAND_ARGUMENT;
use entrepot_model::{CommandFact, Digests, Protocol, SiteId};
use entrepot_net::control::PeerState;
use entrepot_vfs::{Uploaded, Who};
use tokio::time::sleep;

use crate::limits::PATIENCE_INTERVAL;
use crate::session::{Conversation, Over};

/// Commands that rules look at, from their arrival to their reply.
#[derive(Default)]
pub(crate) struct Commands {
    /// Of the rules that the machine knows of.
    generation: u64,
    current: Option<Begun>,
    transfer: Option<Begun>,
}

struct Begun {
    fact: CommandFact,
    at: Duration,
}

impl Commands {
    /// The rules are others from here on.
    pub(crate) fn look_again(&mut self) {
        self.generation = 0;
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
            begun.fact.bytes = Some(bytes);
        }
    }

    /// The transfer published a file.
    pub(crate) fn published(&mut self, uploaded: &Uploaded) {
        if let Some(begun) = &mut self.transfer {
            begun.fact.transfer = Some(uploaded.transfer);
            begun.fact.digests = uploaded.digests;
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
        let mut fact = CommandFact {
            protocol: Protocol::Ftp,
            verb: command.verb.to_owned(),
            argument: command.argument.chars().take(COMMAND_ARGUMENT).collect(),
            path: command.path,
            writes: command.writes,
            address: self.control.peer().ip().to_canonical().to_string(),
            listener: self.house.context.listener.clone(),
            code: None,
            bytes: None,
            transfer: None,
            digests: Digests::default(),
            duration_ms: None,
        };
        let (hooks, who) = (self.house.context.vfs.hooks().clone(), self.who());
        let mut answer = self.attend(hooks.before(&who, &fact)).await?;
        for other in command.others {
            if answer.is_err() {
                break;
            }
            let path = fact.path.replace(other);
            answer = self.attend(hooks.before(&who, &fact)).await?;
            fact.path = path;
        }
        if let Err(refused) = answer {
            return Ok(Answer::Refused(Refusal::told(refused.code, refused.text)));
        }
        self.commands.current = Some(Begun { fact, at: self.now() });
        Ok(Answer::Proceed)
    }

    /// Tells of a command whose reply is in the output and has not left.
    pub(crate) async fn after(&mut self, verb: &str, code: u16) -> Result<(), Over> {
        let is_it = |begun: &Option<Begun>| begun.as_ref().is_some_and(|it| it.fact.verb == verb);
        let ended = self.transfer.is_none() && is_it(&self.commands.transfer);
        let begun = match ended {
            true => self.commands.transfer.take(),
            false => self.commands.current.take_if(|it| it.fact.verb == verb),
        };
        // A command that came before the first rule did.
        let Some(Begun { mut fact, at }) = begun else { return Ok(()) };
        fact.code = Some(code);
        let taken = self.now().saturating_sub(at);
        fact.duration_ms = Some(u64::try_from(taken.as_millis()).unwrap_or(u64::MAX));
        let (hooks, who) = (self.house.context.vfs.hooks().clone(), self.who());
        if let Err(refused) = self.attend(hooks.after(&who, &fact)).await?
            && code < 400
        {
            self.machine.instead(refused.code, &refused.text);
        }
        Ok(())
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
