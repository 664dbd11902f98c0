//! Rules before and after what is asked for over HTTP, and before and after messages of AS2. A door
//! to the files of accounts asks here, in the words of [`CommandProtocol::operations`], whatever
//! the request is like.
//!
//! | a door | where it asks |
//! | --- | --- |
//! | `/files` | `files/commands.rs`; archives in `files/zip.rs`, forms part by part |
//! | `/dav` | `dav/commands.rs`; a LOCK that makes a file in `dav/locking.rs` |
//! | `/uploads` | when an upload begins; its end is told of, whichever request brings it |
//! | `/s` | `links/download.rs`, `links/upload.rs`, as the owner of the link |
//! | `/as2` | when the message is whole, right and new |
//! | any sign-in | when the session is opened |

mod client;
mod told;

use std::panic::resume_unwind;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_auth::Grant;
use entrepot_nouns::{CommandProtocol, Name, VPath};
use entrepot_vfs::{
    CommandAuthor, CommandNotRun, CommandRefusal, CommandReply, IncomingCommand, RunningCommand,
    Session, Uploaded,
};
use futures_util::future::BoxFuture;

use crate::context::RequestContext;
use crate::problem::Problem;
use crate::sessions::UsedSession;
use client::WebClient;

/// The file that a request has published, beside its answer, for rules on it.
#[derive(Clone, Copy)]
pub(crate) struct Published(pub(crate) Uploaded);

/// The rules on the requests of one client. Cheap to make and to clone: where no rule looks at its
/// protocol, it is nothing.
#[derive(Clone)]
pub(crate) struct CommandRules(Option<Arc<WebClient>>);

impl CommandRules {
    /// On what an account asks for that has signed in.
    pub(crate) fn of(context: &RequestContext, session: &UsedSession) -> CommandRules {
        let author = || session.vfs_session().author();
        CommandRules::with(context, CommandProtocol::Http, Some(session), author)
    }

    /// On what is asked for by a link of this account.
    pub(crate) fn of_link(
        context: &RequestContext,
        session: &UsedSession,
        owner: &Name,
    ) -> CommandRules {
        let id = session.id();
        let author = || CommandAuthor::account(context.site, owner.clone(), Some(id));
        CommandRules::with(context, CommandProtocol::Http, Some(session), author)
    }

    /// On what somebody asks for who has no session, or not yet, and acts for this account.
    pub(crate) fn of_account(context: &RequestContext, account: &Name) -> CommandRules {
        let author = || CommandAuthor::account(context.site, account.clone(), None);
        CommandRules::with(context, CommandProtocol::Http, None, author)
    }

    /// On messages of AS2 that become files of an account.
    pub(crate) fn of_messages(context: &RequestContext, session: &UsedSession) -> CommandRules {
        let author = || session.vfs_session().author();
        CommandRules::with(context, CommandProtocol::As2, Some(session), author)
    }

    fn with(
        context: &RequestContext,
        protocol: CommandProtocol,
        session: Option<&UsedSession>,
        author: impl FnOnce() -> CommandAuthor,
    ) -> CommandRules {
        if !are_any(context, protocol) {
            return CommandRules(None);
        }
        let (context, session) = (context.clone(), session.cloned());
        CommandRules(Some(Arc::new(WebClient { context, protocol, author: author(), session })))
    }

    /// Whether any rule may look at these requests.
    pub(crate) fn look(&self) -> bool {
        self.0.is_some()
    }

    /// Asks before a command is carried out. `None`: no rule may look at it.
    ///
    /// # Errors
    /// A rule refuses, or cannot be asked.
    pub(crate) async fn ask(
        &self,
        command: impl FnOnce() -> IncomingCommand,
    ) -> Result<Option<RunningCommand>, CommandRefusal> {
        let Some(client) = &self.0 else { return Ok(None) };
        let command = command();
        match client.hooks().before(&**client, command).await {
            Ok(command) => Ok(Some(command)),
            Err(CommandNotRun::Refused(refusal)) => Err(refusal),
            Err(CommandNotRun::ClientGone(())) => {
                Err(CommandRefusal::unanswered("The account may not go on."))
            }
        }
    }

    /// As [`CommandRules::ask`], for a door.
    ///
    /// # Errors
    /// What the client is told.
    pub(crate) async fn before(
        &self,
        command: impl FnOnce() -> IncomingCommand,
    ) -> Result<Option<RunningCommand>, Problem> {
        Ok(self.ask(command).await?)
    }

    /// A command whose rules were asked by an earlier request.
    pub(crate) fn asked_before(
        &self,
        command: impl FnOnce() -> IncomingCommand,
    ) -> Option<RunningCommand> {
        let client = self.0.as_ref()?;
        Some(client.hooks().asked_before(&**client, command()))
    }

    /// Informs of a command that was carried out; `good` is what is answered if that went well.
    /// Gives what came of it.
    ///
    /// # Errors
    /// Those of the command, and the refusal that takes the place of a good answer.
    pub(crate) async fn after<T>(
        &self,
        command: Option<RunningCommand>,
        done: Result<T, Problem>,
        good: StatusCode,
    ) -> Result<T, Problem> {
        let (Some(client), Some(command)) = (&self.0, command) else { return done };
        let status = done.as_ref().map_or_else(|problem| problem.status, |_| good);
        let is_replaceable = done.is_ok() && good.as_u16() < 400;
        let reply = CommandReply { code: status.as_u16(), is_replaceable };
        match client.inform(command, reply).await {
            Some(refusal) => Err(refusal.into()),
            None => done,
        }
    }

    /// As [`CommandRules::after`], of a file that was published.
    ///
    /// # Errors
    /// As [`CommandRules::after`].
    pub(crate) async fn after_upload(
        &self,
        command: Option<RunningCommand>,
        uploaded: Result<Uploaded, Problem>,
        good: StatusCode,
    ) -> Result<Uploaded, Problem> {
        let mut command = command;
        if let (Some(command), Ok(uploaded)) = (&mut command, &uploaded) {
            command.published(uploaded);
        }
        self.after(command, uploaded, good).await
    }

    /// Informs of a message whose receipt is made: no rule changes that any more.
    pub(crate) async fn after_message(&self, command: Option<RunningCommand>, uploaded: &Uploaded) {
        let (Some(client), Some(mut command)) = (&self.0, command) else { return };
        command.published(uploaded);
        let reply = CommandReply { code: StatusCode::OK.as_u16(), is_replaceable: false };
        // Nothing takes the place of such a reply.
        let _ = client.inform(command, reply).await;
    }

    /// Does something between the rules before and after it.
    ///
    /// # Errors
    /// Those of what is done, and what the rules refuse.
    pub(crate) async fn between<T>(
        &self,
        command: impl FnOnce() -> IncomingCommand,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let command = self.before(command).await?;
        self.after(command, work.await, StatusCode::OK).await
    }

    /// Asks before a request is carried out. `None`: no rule may look at it.
    ///
    /// # Errors
    /// A rule refuses, or cannot be asked.
    pub(crate) async fn begin(
        &self,
        command: Option<IncomingCommand>,
    ) -> Result<Option<BegunRequest>, Problem> {
        let Some(command) = command else { return Ok(None) };
        let command = self.before(|| command).await?;
        Ok(command.map(|command| BegunRequest { rules: self.clone(), command }))
    }

    async fn answered(
        &self,
        mut command: RunningCommand,
        answered: Result<Response, Problem>,
    ) -> Result<Response, Problem> {
        let Some(client) = &self.0 else { return answered };
        let mut response = match answered {
            Ok(response) => response,
            failed => return self.after(Some(command), failed, StatusCode::OK).await,
        };
        if let Some(Published(uploaded)) = response.extensions_mut().remove() {
            command.published(&uploaded);
        }
        if command.verb() == "read" && response.status().is_success() {
            return Ok(told::of_body(Arc::clone(client), command, response));
        }
        let status = response.status();
        self.after(Some(command), Ok(response), status).await
    }
}

/// A request that rules have let pass.
pub(crate) struct BegunRequest {
    rules: CommandRules,
    command: RunningCommand,
}

impl BegunRequest {
    /// Answers it, then informs rules of it; what was begun is done to its end, and told of, also
    /// if the client leaves.
    ///
    /// # Errors
    /// Those of the request, and the refusal that takes the place of a good answer.
    pub(crate) async fn carry_out(
        self,
        work: BoxFuture<'static, Result<Response, Problem>>,
    ) -> Result<Response, Problem> {
        let BegunRequest { rules, command } = self;
        to_its_end(Box::pin(async move {
            let answered = work.await;
            rules.answered(command, answered).await
        }))
        .await
    }
}

/// Whether any rule looks at what is asked for by this protocol: an atomic load if none does.
fn are_any(context: &RequestContext, protocol: CommandProtocol) -> bool {
    context.shared().vfs().hooks().are_any(context.site, protocol)
}

/// Whether any rule looks at messages of AS2.
pub(crate) fn look_at_messages(context: &RequestContext) -> bool {
    are_any(context, CommandProtocol::As2)
}

/// Does what rules are told of to its end, in a task of its own: when a client closes its
/// connection its request is dropped wherever it stands, and nobody would hear of what was done.
///
/// # Errors
/// Those of what is done.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: BoxFuture<'static, Result<T, Problem>>,
) -> Result<T, Problem> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => {
                let why = "the server stops; try again later";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1003", why))
            }
        },
    }
}

/// Opens the session of an account that the gate has let in, between the rules on logins.
///
/// # Errors
/// A rule refuses, or the session cannot be opened.
pub(crate) async fn open_session(
    context: &RequestContext,
    grant: Grant,
) -> Result<Session, Problem> {
    let account = grant.principal().account.name.clone();
    let rules = CommandRules::of_account(context, &account);
    let login = || IncomingCommand::reading("login", account.as_str(), None);
    let command = rules.before(login).await?;
    let opened = Session::open(context.shared().vfs(), grant).await.map_err(Problem::from);
    rules.after(command, opened, StatusCode::OK).await
}

/// What a request is that changes nothing. `method` is that of HTTP, or of WebDAV where an address
/// says what WebDAV says by a method.
pub(crate) fn reading(verb: &'static str, method: &str, path: &VPath) -> IncomingCommand {
    IncomingCommand::reading(verb, &format!("{method} {path}"), Some(path))
}

/// What a request is that may change files or names.
pub(crate) fn writing(verb: &'static str, method: &str, path: &VPath) -> IncomingCommand {
    IncomingCommand::writing(verb, &format!("{method} {path}"), Some(path))
}

/// A move or a copy: rules are asked about both names. Of a new one that cannot be read the request
/// is refused anyhow.
pub(crate) fn renaming(method: &str, from: &VPath, to: Option<&VPath>) -> IncomingCommand {
    let shown = to.map(VPath::as_str).unwrap_or_default();
    let argument = format!("{method} {from} {shown}");
    IncomingCommand::writing("rename", &argument, to).and(Some(from))
}
