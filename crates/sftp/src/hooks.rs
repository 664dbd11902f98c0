//! Rules before and after requests of SFTP, and of what `scp` and the hash commands do: what is
//! asked, and what comes of it. Whoever asks does so in a task of his own, never in the session's.

use entrepot_nouns::{Protocol, VPath};
use entrepot_sftp_proto::Status;
use entrepot_vfs::{Begun, CommandRefusal, Uploaded, VfsError, Who};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::connection::ConnectionShared;
use crate::status::{code_of_rule, event_code, status};

/// What rules see of a request.
pub(crate) struct Shown {
    verb: &'static str,
    argument: String,
    /// Of a rename the new one.
    path: Option<String>,
    /// More paths that it names: the rule is asked about each.
    others: Vec<String>,
    writes: bool,
}

impl Shown {
    /// A request that reads, or one that names nothing.
    pub(crate) fn reads(verb: &'static str, argument: &str, path: Option<&VPath>) -> Shown {
        let path = path.map(|path| path.as_str().to_owned());
        Shown { verb, argument: argument.to_owned(), path, others: Vec::new(), writes: false }
    }

    /// A request that changes files or names.
    pub(crate) fn writes(verb: &'static str, argument: &str, path: Option<&VPath>) -> Shown {
        Shown { writes: true, ..Shown::reads(verb, argument, path) }
    }

    /// It names one more.
    pub(crate) fn and(mut self, other: Option<&VPath>) -> Shown {
        self.others.extend(other.map(|path| path.as_str().to_owned()));
        self
    }
}

/// Why something was not done, or is not said to be.
#[derive(Debug, Error)]
pub(crate) enum Undone {
    #[error(transparent)]
    Vfs(#[from] VfsError),
    #[error("{}", .0.text)]
    Ruled(CommandRefusal),
}

impl ConnectionShared {
    /// Whether any rule looks at requests of SFTP.
    pub(crate) fn is_hooked(&self) -> bool {
        self.session.hooks().are_any(self.session.principal().site, Protocol::Sftp)
    }

    fn who(&self) -> Who {
        Who::new(self.session.principal().site, Some(&self.session))
    }

    /// Asks before a request is carried out, as long as the channel is there.
    pub(crate) async fn ask(
        &self,
        shown: Shown,
        gone: &CancellationToken,
    ) -> Result<Begun, CommandRefusal> {
        let Shown { verb, argument, path, others, writes } = shown;
        let mut command = self.session.command(verb, &argument);
        (command.path, command.writes) = (path, writes);
        let (who, hooks) = (self.who(), self.session.hooks());
        let _waited_for = self.meter.waited_for();
        let asking = hooks.before_each(&who, &mut command, others, code_of_rule);
        tokio::select! {
            biased;
            answer = asking => answer?,
            () = gone.cancelled() => {
                return Err(CommandRefusal::unanswered("The channel is closed."));
            }
        }
        Ok(Begun::new(command, self.env.elapsed()))
    }

    /// Tells of a request that was carried out, also if the channel is gone. A drain waits for
    /// what its answer waits for.
    pub(crate) async fn tell(
        &self,
        begun: Begun,
        code: Status,
        gone: &CancellationToken,
    ) -> Result<(), CommandRefusal> {
        let command = begun.ended(event_code(code), self.env.elapsed());
        let who = self.who();
        let _waited_for = self.meter.waited_for();
        tokio::select! {
            biased;
            answer = self.session.hooks().after(&who, &command) => answer,
            // The rules go on without us.
            () = gone.cancelled() => Ok(()),
        }
    }

    /// Carries out what a command on a channel does, as the request that it is like.
    pub(crate) async fn around<T>(
        &self,
        shown: impl FnOnce() -> Shown,
        gone: &CancellationToken,
        work: impl Future<Output = Result<T, VfsError>>,
    ) -> Result<T, Undone> {
        if !self.is_hooked() {
            return Ok(work.await?);
        }
        let begun = self.ask(shown(), gone).await.map_err(Undone::Ruled)?;
        self.conclude(begun, work.await, gone).await
    }

    /// As [`ConnectionShared::around`] for the end of an upload.
    pub(crate) async fn publish(
        &self,
        begun: Option<Begun>,
        work: impl Future<Output = Result<Uploaded, VfsError>>,
        gone: &CancellationToken,
    ) -> Result<(), Undone> {
        let done = work.await;
        let Some(mut begun) = begun else { return Ok(done.map(drop)?) };
        if let Ok(uploaded) = &done {
            begun.published(uploaded);
        }
        self.conclude(begun, done, gone).await.map(drop)
    }

    async fn conclude<T>(
        &self,
        begun: Begun,
        done: Result<T, VfsError>,
        gone: &CancellationToken,
    ) -> Result<T, Undone> {
        let code = done.as_ref().map_or_else(status, |_| Status::Ok);
        let told = self.tell(begun, code, gone).await;
        let done = done?;
        told.map_err(Undone::Ruled)?;
        Ok(done)
    }
}
