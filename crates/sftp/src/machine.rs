//! One SFTP channel: the protocol machine of `sftp-proto`, the open handles, and what waits.

mod channel_state;
mod files;
mod hooked;
mod long;
mod long_request;
mod names;
mod open;
mod shared;

use std::sync::Arc;

use bytes::Bytes;
use entrepot_nouns::VPath;
use entrepot_sftp_proto::reply;
use entrepot_sftp_proto::{Handle, Incoming, Request, Server};
use entrepot_vfs::{Existing, VfsError};
use tokio_util::sync::CancellationToken;

use crate::connection::ConnectionShared;
use crate::limits::OWED_BYTES;
use crate::machine::channel_state::ChannelState;
use crate::machine::long_request::Long;
use crate::out::Out;
use crate::parked::{Read, Waiting};
use crate::problem::Problem;

/// Extensions that are served and announced.
const EXTENSIONS: &[&str] = &[
    "posix-rename@openssh.com",
    "limits@openssh.com",
    "statvfs@openssh.com",
    "fstatvfs@openssh.com",
    "fsync@openssh.com",
    "lsetstat@openssh.com",
    "expand-path@openssh.com",
    "home-directory",
    "users-groups-by-id@openssh.com",
    "copy-data",
    "hardlink@openssh.com",
    "check-file-name",
    "check-file-handle",
    "check-file",
];

/// The channel cannot go on; the sentence is for the log.
pub(crate) type Broken = String;

/// The task that drives a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The session's, which all channels wait for: it leaves alone what takes long.
    SessionTask,
    /// One of the channel's own: it carries out everything.
    ChannelTask,
}

/// The machine of one channel.
pub(crate) struct Machine {
    server: Server,
    state: ChannelState,
}

impl Machine {
    pub(crate) fn new(shared: Arc<ConnectionShared>, gone: CancellationToken) -> Self {
        Machine { server: Server::new(), state: ChannelState::new(shared, gone) }
    }

    /// Takes bytes of the client and answers. What the session's task leaves of `input` is for the
    /// channel's own task, see [`Machine::wants_own_task`].
    pub(crate) async fn receive(
        &mut self,
        input: &mut &[u8],
        driver: Driver,
        out: &mut impl Out,
    ) -> Result<(), Broken> {
        self.state.rules.refresh();
        // What is parked is asked about as well, by the channel's own task.
        if driver == Driver::ChannelTask || !self.state.rules.are_any() {
            self.resume(out).await;
        }
        while self.goes_on(driver) {
            if let Some(long) = self.state.long.take() {
                self.state.long(*long, out).await;
                if let Some(broken) = self.state.broken {
                    return Err(broken.to_owned());
                }
            }
            let incoming = match self.server.next(input) {
                Ok(Some(incoming)) => incoming,
                Ok(None) => break,
                Err(fatal) => {
                    if let Some(answer) = fatal.last_reply() {
                        out.send(answer);
                    }
                    return Err(fatal.to_string());
                }
            };
            match incoming {
                Incoming::Init { version } => {
                    tracing::debug!(version, "the client begins SFTP");
                    self.state.send(reply::version(|name| EXTENSIONS.contains(&name)), out);
                }
                Incoming::Refused { id, refusal } => {
                    self.state.send(reply::refused(id, refusal), out)
                }
                Incoming::Request { id, request } => self.state.request(id, request, out).await,
            }
            if let Some(broken) = self.state.broken {
                return Err(broken.to_owned());
            }
        }
        if self.state.handles.is_empty() {
            self.server.shrink();
        }
        Ok(())
    }

    /// Goes on with what is parked, as far as the client takes it.
    pub(crate) async fn resume(&mut self, out: &mut impl Out) {
        self.state.budget = self.state.shared.budget();
        while self.state.budget > 0 && !out.is_full() {
            let Some(answer) = self.next_parked().await else { break };
            self.state.send(answer, out);
        }
    }

    /// The answer to the oldest of what is parked.
    async fn next_parked(&mut self) -> Option<Bytes> {
        let waiting = self.state.parked.pop()?;
        self.state.rules.refresh();
        Some(match waiting {
            Waiting::Read(read) => self.state.read(read).await,
            Waiting::Close { id, handle } => self.state.close(id, handle).await,
        })
    }

    /// True if requests wait until the client takes more; [`Machine::resume`] goes on with them.
    pub(crate) fn has_parked(&self) -> bool {
        !self.state.parked.is_empty()
    }

    /// True if the channel should go on in a task of its own: its store waits for a network, and
    /// nothing is half done; or something was asked that takes long; or rules look at requests.
    pub(crate) fn wants_own_task(&self) -> bool {
        let long = self.state.long.is_some() || self.state.rules.are_any();
        long || (self.state.waits && !self.has_parked())
    }

    /// Whether the next request is taken here. Rules may have changed since the last.
    fn goes_on(&mut self, driver: Driver) -> bool {
        self.state.rules.refresh();
        driver == Driver::ChannelTask || !self.wants_own_task()
    }

    /// The client sends no more: what is parked is answered, up to a limit.
    pub(crate) async fn finish(&mut self, out: &mut impl Out) {
        self.state.budget = self.state.shared.budget();
        while self.state.budget > 0 {
            let Some(answer) = self.next_parked().await else { break };
            self.state.send(answer, out);
        }
    }

    /// Ends everything that is open: uploads become partials.
    pub(crate) async fn end(&mut self, reason: &str) {
        self.state.parked.clear();
        for open in self.state.handles.drain() {
            open.interrupt(reason).await;
        }
        self.state.buffer.shrink();
    }
}

impl ChannelState {
    /// Sends an answer and keeps account of what the client does not take.
    fn send(&mut self, answer: Bytes, out: &mut impl Out) {
        let len = u64::try_from(answer.len()).unwrap_or(u64::MAX);
        self.budget = self.budget.saturating_sub(len);
        // Nothing of earlier answers waits: the client has taken them all. Where each answer fills
        // the window to the brim, or keys change all the time, this is the only moment to see it.
        if !out.is_full() {
            self.owed = 0;
        }
        out.send(answer);
        self.owed = if out.is_full() { self.owed.saturating_add(len) } else { 0 };
        // The usual answer does not come to the second look, which costs more.
        if self.owed > OWED_BYTES && self.owed > OWED_BYTES + self.shared.budget() {
            self.broken = Some("the client asks and takes no answers");
        }
    }

    async fn request(&mut self, id: u32, request: Request<'_>, out: &mut impl Out) {
        let command = if !self.rules.are_any() {
            None
        } else {
            match Box::pin(self.before(&request)).await {
                Ok(command) => command,
                Err(problem) => return self.answer(id, Err(problem), out),
            }
        };
        match request {
            Request::CheckFile { .. } | Request::CopyData { .. } => {
                self.long = Long::of(id, command, &request).map(Box::new);
            }
            Request::Read { handle, offset, len } => {
                self.read_or_park(Read { id, handle, offset, len }, out).await;
            }
            Request::Write { handle, offset, data } => {
                self.settle(handle, out).await;
                let answer = self.write(handle, offset, data).await;
                self.answer(id, answer.map(|()| reply::ok(id)), out);
            }
            Request::Close { handle } if self.parked.has(handle) => {
                if self.parked.push_close(id, handle).is_err() {
                    self.broken = Some(TOO_MANY_PARKED);
                }
            }
            Request::Close { handle } => {
                let answer = self.close_told(id, handle, out).await;
                self.send(answer, out);
            }
            Request::Fsetstat { handle, attrs } => {
                self.settle(handle, out).await;
                let answer = self.set_open(handle, &attrs).await;
                self.conclude(id, command, answer.map(|()| reply::ok(id)), out).await;
            }
            other => {
                // Apart from what runs for each READ and WRITE, which is small.
                let answer = Box::pin(self.carry_out(id, other)).await;
                self.conclude(id, command, answer, out).await;
            }
        }
    }

    fn answer(&mut self, id: u32, answer: Result<Bytes, Problem>, out: &mut impl Out) {
        match answer {
            Ok(answer) => self.send(answer, out),
            Err(problem) => {
                let answer = self.refuse(id, &problem, out);
                self.send(answer, out);
            }
        }
    }

    /// Logs and tells a problem; gives the answer.
    fn refuse(&self, id: u32, problem: &Problem, out: &mut impl Out) -> Bytes {
        if let Problem::Vfs(VfsError::Io { problem }) = problem {
            tracing::warn!(%problem, "a request failed");
        }
        if let (true, Some(sentence)) = (self.shared.is_openssh, problem.sentence()) {
            out.tell(Bytes::from(format!("{sentence}\r\n")));
        }
        problem.answer(id)
    }

    async fn read_or_park(&mut self, read: Read, out: &mut impl Out) {
        let waits = !self.parked.is_empty() || self.budget == 0 || out.is_full();
        if waits {
            if self.parked.push_read(read).is_err() {
                self.broken = Some(TOO_MANY_PARKED);
            }
            return;
        }
        let answer = self.read(read).await;
        self.send(answer, out);
    }

    /// Before a handle's file is changed, the READs of it that came earlier are answered.
    async fn settle(&mut self, handle: Handle, out: &mut impl Out) {
        while self.parked.has(handle) {
            if self.budget == 0 {
                self.broken = Some("the client writes to a file and leaves its READs untaken");
                return;
            }
            let answer = match self.parked.pop() {
                Some(Waiting::Read(read)) => self.read(read).await,
                Some(Waiting::Close { id, handle }) => self.close(id, handle).await,
                None => return,
            };
            self.send(answer, out);
        }
    }

    /// Requests that are neither READ, WRITE nor CLOSE.
    async fn carry_out(&mut self, id: u32, request: Request<'_>) -> Result<Bytes, Problem> {
        let done = |()| reply::ok(id);
        match request {
            Request::Open { path, flags, attrs } => self.open(id, path, flags, &attrs).await,
            Request::Opendir { path } => self.open_listing(id, path).await,
            Request::Readdir { handle } => self.list(id, handle).await,
            Request::Stat { path } => self.stat(id, path).await,
            Request::Lstat { path } => self.lstat(id, path).await,
            Request::Fstat { handle } => self.stat_open(id, handle).await,
            Request::Setstat { path, attrs } => self.set(path, &attrs).await.map(done),
            Request::Lsetstat { path, attrs } => self.set_itself(path, &attrs).await.map(done),
            Request::Remove { path } => self.remove(path).await.map(done),
            Request::Mkdir { path, attrs } => self.make_directory(path, &attrs).await.map(done),
            Request::Rmdir { path } => self.remove_directory(path).await.map(done),
            Request::Rename { from, to } => self.rename(from, to, Existing::Refuse).await.map(done),
            Request::PosixRename { from, to } => {
                self.rename(from, to, Existing::Replace).await.map(done)
            }
            Request::Hardlink { from, to } => self.link(from, to).await.map(done),
            Request::Readlink { path } => self.read_link(id, path).await,
            Request::Symlink { first, second } => self.make_link(first, second).await.map(done),
            Request::Realpath { path } => Ok(reply::one_name(id, self.shared.path(path)?.as_str())),
            Request::ExpandPath { path } => self.expand(id, path),
            Request::HomeDirectory { user } => self.home_of(id, user),
            Request::Fsync { handle } => self.sync(handle).await.map(done),
            Request::Limits => Ok(reply::limits(id)),
            Request::Statvfs { path } => {
                let path = self.shared.path(path)?;
                self.space(id, &path).await
            }
            Request::Fstatvfs { handle } => {
                let path = self.handles.get(handle).ok_or(Problem::Handle)?.path().clone();
                self.space(id, &path).await
            }
            Request::UsersGroupsById { uids, gids } => {
                let owner = &self.shared.owner;
                let users = uids.iter().map(|number| owner.user(number));
                let groups = gids.iter().map(|number| owner.group(number));
                Ok(reply::users_groups(id, users, groups))
            }
            _ => Err(Problem::NotServed),
        }
    }

    /// Notes whether the store behind a path waits for a network.
    fn notice(&mut self, path: &VPath) {
        self.waits = self.waits || !self.shared.session.vfs().is_local(path);
    }
}

const TOO_MANY_PARKED: &str = "the client has too many unanswered READs of different places";
