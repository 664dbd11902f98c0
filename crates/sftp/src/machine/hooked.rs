//! What rules see of each request, and what they make of its answer.

use bytes::Bytes;
use entrepot_nouns::VPath;
use entrepot_sftp_proto::request::CheckTarget;
use entrepot_sftp_proto::{Handle, OpenFlags, Request, SymlinkOrder};
use entrepot_vfs::{IncomingCommand, RunningCommand};

use super::channel_state::ChannelState;
use super::open::Open;
use crate::hooks::GoodAnswer;
use crate::out::Out;
use crate::problem::Problem;

impl ChannelState {
    /// Asks about a request before it is carried out; `None`: rules do not look at it.
    pub(super) async fn before(
        &self,
        request: &Request<'_>,
    ) -> Result<Option<RunningCommand>, Problem> {
        let Some(command) = self.command_of(request) else { return Ok(None) };
        Ok(Some(self.shared.before(command, &self.gone).await?))
    }

    /// Informs rules of a request that was carried out. A refusal then takes the place of a good
    /// answer, but for a handle, which cannot be taken back.
    async fn after<T>(
        &self,
        command: RunningCommand,
        answer: Result<T, Problem>,
    ) -> Result<T, Problem> {
        let good = match command.verb() {
            "open" | "opendir" => GoodAnswer::Final,
            _ => GoodAnswer::Replaceable,
        };
        self.shared.after(command, answer, good, &self.gone).await
    }

    /// Answers a request, after its rules if any look at it.
    pub(super) async fn conclude(
        &mut self,
        id: u32,
        command: Option<RunningCommand>,
        answer: Result<Bytes, Problem>,
        out: &mut impl Out,
    ) {
        let answer = match command {
            Some(command) => Box::pin(self.after(command, answer)).await,
            None => answer,
        };
        self.answer(id, answer, out);
    }

    /// CLOSE: whatever a rule says, the handle is dead. An upload that is refused for good is
    /// dropped; one that is refused for now, or whose client has gone meanwhile, is kept to resume.
    pub(super) async fn close_hooked(&mut self, open: Open) -> Result<(), Problem> {
        let command = match &open {
            Open::Upload(_) => IncomingCommand::writing("close", "", Some(open.path())),
            Open::Download(_) | Open::Listing(_) | Open::Shared(_) | Open::Removed(_) => {
                IncomingCommand::reading("close", "", Some(open.path()))
            }
        };
        let mut command = match self.shared.before(command, &self.gone).await {
            Ok(command) => command,
            Err(refused) => {
                if refused.is_permanent() {
                    open.discard().await
                } else {
                    open.interrupt(&refused.text).await
                }
                return Err(Problem::Ruled(refused));
            }
        };
        let closed = self.close_open(open).await;
        if let Ok(Some(uploaded)) = &closed {
            command.published(uploaded);
        }
        self.after(command, closed.map(drop)).await
    }

    fn path_of(&self, sent: &str) -> Option<VPath> {
        self.shared.path(sent).ok()
    }

    fn opened(&self, handle: Handle) -> Option<&VPath> {
        self.handles.get(handle).map(Open::path)
    }

    /// A request as rules see it. `None`: rules are asked elsewhere (CLOSE), or were asked when the
    /// handle was opened.
    fn command_of(&self, request: &Request<'_>) -> Option<IncomingCommand> {
        let verb = request.name();
        let reads = |sent: &str| IncomingCommand::reading(verb, sent, self.path_of(sent).as_ref());
        let writes = |sent: &str| IncomingCommand::writing(verb, sent, self.path_of(sent).as_ref());
        let opened = |handle: &Handle| IncomingCommand::reading(verb, "", self.opened(*handle));
        Some(match request {
            Request::Open { path, flags, .. } if flags.has(OpenFlags::WRITE) => writes(path),
            Request::Open { path, .. }
            | Request::Opendir { path }
            | Request::Stat { path }
            | Request::Lstat { path }
            | Request::Readlink { path }
            | Request::Realpath { path }
            | Request::ExpandPath { path }
            | Request::Statvfs { path }
            | Request::CheckFile { target: CheckTarget::Path(path), .. } => reads(path),
            Request::HomeDirectory { user } => IncomingCommand::reading(verb, user, None),
            Request::Fstat { handle }
            | Request::Fstatvfs { handle }
            | Request::Fsync { handle }
            | Request::CheckFile { target: CheckTarget::Handle(handle), .. } => opened(handle),
            Request::Fsetstat { handle, .. } => {
                IncomingCommand::writing(verb, "", self.opened(*handle))
            }
            Request::Setstat { path, .. }
            | Request::Lsetstat { path, .. }
            | Request::Remove { path }
            | Request::Mkdir { path, .. }
            | Request::Rmdir { path } => writes(path),
            Request::Rename { from, to }
            | Request::PosixRename { from, to }
            | Request::Hardlink { from, to } => self.command_of_two(verb, from, to),
            Request::Symlink { first, second } => self.command_of_link(verb, first, second),
            Request::CopyData { from, to, .. } => {
                IncomingCommand::writing(verb, "", self.opened(*to)).and(self.opened(*from))
            }
            Request::Close { .. } | Request::Read { .. } | Request::Write { .. } => return None,
            Request::Readdir { .. } | Request::Limits | Request::UsersGroupsById { .. } => {
                return None;
            }
        })
    }

    fn command_of_two(&self, verb: &'static str, from: &str, to: &str) -> IncomingCommand {
        let both = format!("{from} {to}");
        let command = IncomingCommand::writing(verb, &both, self.path_of(to).as_ref());
        command.and(self.path_of(from).as_ref())
    }

    /// The link, and what it leads to.
    fn command_of_link(&self, verb: &'static str, first: &str, second: &str) -> IncomingCommand {
        let (target, link) = match self.shared.software.symlinks {
            SymlinkOrder::TargetFirst => (first, second),
            SymlinkOrder::LinkFirst => (second, first),
        };
        let link = self.path_of(link);
        let from = link.as_ref().and_then(VPath::parent);
        let leads = from.and_then(|from| from.resolve(target.as_bytes()).ok());
        IncomingCommand::writing(verb, &format!("{first} {second}"), link.as_ref())
            .and(leads.as_ref())
    }
}
