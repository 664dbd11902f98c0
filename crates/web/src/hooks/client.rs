//! A client of HTTP, or a partner of AS2, as rules on its requests see it.

use std::future::pending;

use entrepot_nouns::{CommandOrigin, CommandProtocol};
use entrepot_vfs::{
    CommandAuthor, CommandClient, CommandRefusal, CommandReply, Hooks, RunningCommand,
};

use crate::context::RequestContext;
use crate::sessions::UsedSession;
use crate::status::status_of_rule;

/// A client, as rules on its requests see it.
pub(super) struct WebClient {
    pub(super) context: RequestContext,
    pub(super) protocol: CommandProtocol,
    pub(super) author: CommandAuthor,
    /// It stays open while rules are asked. `None`: it is not open yet, or there is none.
    pub(super) session: Option<UsedSession>,
}

impl CommandClient for WebClient {
    type Gone = ();

    fn origin(&self) -> CommandOrigin {
        let address = self.context.peer().ip().to_canonical().to_string();
        let listener = self.context.shared().listener().clone();
        CommandOrigin { protocol: self.protocol, listener, address }
    }

    fn author(&self) -> CommandAuthor {
        self.author.clone()
    }

    fn hold_drain(&self) -> impl Send {
        self.context.connection.meter.waited_for()
    }

    /// Whoever closes the connection is noticed elsewhere: the request is dropped, and the question
    /// with it.
    async fn gone(&self) {
        self.session_ended().await;
    }

    async fn session_ended(&self) {
        match &self.session {
            Some(session) => session.ended().await,
            None => pending().await,
        }
    }

    fn code(&self, refusal: &CommandRefusal) -> u16 {
        status_of_rule(refusal).as_u16()
    }
}

impl WebClient {
    pub(super) fn hooks(&self) -> &Hooks {
        self.context.shared().vfs().hooks()
    }

    /// Informs of a command; gives what takes the place of its answer, if anything does.
    pub(super) async fn inform(
        &self,
        command: RunningCommand,
        reply: CommandReply,
    ) -> Option<CommandRefusal> {
        // Who may not go on gets the answer that there is.
        self.hooks().after(self, command, reply).await.unwrap_or_default()
    }
}
