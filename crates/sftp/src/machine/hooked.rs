//! What rules see of each request, and what they make of its answer.

use bytes::Bytes;
use entrepot_nouns::VPath;
use entrepot_sftp_proto::request::CheckTarget;
use entrepot_sftp_proto::{Handle, OpenFlags, Request, Status, SymlinkOrder};
use entrepot_vfs::Begun;

use super::channel_state::ChannelState;
use super::open::Open;
use crate::hooks::Shown;
use crate::out::Out;
use crate::problem::Problem;

impl ChannelState {
    /// Takes over whether any rule looks at requests: one look when nothing changed.
    pub(super) fn follow_hooks(&mut self) {
        let generation = self.shared.session.hooks().generation();
        if generation != self.generation {
            self.generation = generation;
            self.hooked = self.shared.is_hooked();
        }
    }

    /// Asks about a request before it is carried out; `None`: rules do not look at it.
    pub(super) async fn ask(&self, request: &Request<'_>) -> Result<Option<Begun>, Problem> {
        let Some(shown) = self.shown(request) else { return Ok(None) };
        let asked = self.shared.ask(shown, &self.gone).await;
        asked.map(Some).map_err(Problem::Ruled)
    }

    /// Tells of a request that was carried out. What a rule says then takes the place of a good
    /// answer, but for a handle, which cannot be taken back.
    pub(super) async fn told<T>(
        &self,
        begun: Begun,
        answer: Result<T, Problem>,
    ) -> Result<T, Problem> {
        let opens = matches!(begun.command.verb.as_str(), "open" | "opendir");
        let code = answer.as_ref().map_or_else(Problem::status, |_| Status::Ok);
        match self.shared.tell(begun, code, &self.gone).await {
            Err(refused) if answer.is_ok() && !opens => Err(Problem::Ruled(refused)),
            _ => answer,
        }
    }

    /// Answers a request that rules were asked about, if they were.
    pub(super) async fn conclude(
        &mut self,
        id: u32,
        begun: Option<Begun>,
        answer: Result<Bytes, Problem>,
        out: &mut impl Out,
    ) {
        let answer = match begun {
            Some(begun) => Box::pin(self.told(begun, answer)).await,
            None => answer,
        };
        self.answer(id, answer, out);
    }

    /// CLOSE: whatever a rule says, the handle is dead. An upload that is refused for good is
    /// dropped; one that is refused for now, or whose client has gone meanwhile, is kept to resume.
    pub(super) async fn close_hooked(&mut self, open: Open) -> Result<(), Problem> {
        let shown = match &open {
            Open::Upload(_) => Shown::writes("close", "", Some(open.path())),
            Open::Download(_) | Open::Listing(_) | Open::Shared(_) | Open::Removed(_) => {
                Shown::reads("close", "", Some(open.path()))
            }
        };
        let mut begun = match self.shared.ask(shown, &self.gone).await {
            Ok(begun) => begun,
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
            begun.published(uploaded);
        }
        self.told(begun, closed.map(drop)).await
    }

    fn path_of(&self, sent: &str) -> Option<VPath> {
        self.shared.path(sent).ok()
    }

    fn opened(&self, handle: Handle) -> Option<&VPath> {
        self.handles.get(handle).map(Open::path)
    }

    /// `None`: what has its own way, or is about what was opened before.
    fn shown(&self, request: &Request<'_>) -> Option<Shown> {
        let verb = request.name();
        let reads = |sent: &str| Shown::reads(verb, sent, self.path_of(sent).as_ref());
        let writes = |sent: &str| Shown::writes(verb, sent, self.path_of(sent).as_ref());
        let opened = |handle: &Handle| Shown::reads(verb, "", self.opened(*handle));
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
            Request::HomeDirectory { user } => Shown::reads(verb, user, None),
            Request::Fstat { handle }
            | Request::Fstatvfs { handle }
            | Request::Fsync { handle }
            | Request::CheckFile { target: CheckTarget::Handle(handle), .. } => opened(handle),
            Request::Fsetstat { handle, .. } => Shown::writes(verb, "", self.opened(*handle)),
            Request::Setstat { path, .. }
            | Request::Lsetstat { path, .. }
            | Request::Remove { path }
            | Request::Mkdir { path, .. }
            | Request::Rmdir { path } => writes(path),
            Request::Rename { from, to }
            | Request::PosixRename { from, to }
            | Request::Hardlink { from, to } => self.shown_pair(verb, from, to),
            Request::Symlink { first, second } => self.shown_link(verb, first, second),
            Request::CopyData { from, to, .. } => {
                Shown::writes(verb, "", self.opened(*to)).and(self.opened(*from))
            }
            Request::Close { .. } | Request::Read { .. } | Request::Write { .. } => return None,
            Request::Readdir { .. } | Request::Limits | Request::UsersGroupsById { .. } => {
                return None;
            }
        })
    }

    fn shown_pair(&self, verb: &'static str, from: &str, to: &str) -> Shown {
        let shown = Shown::writes(verb, &format!("{from} {to}"), self.path_of(to).as_ref());
        shown.and(self.path_of(from).as_ref())
    }

    /// The link, and what it leads to.
    fn shown_link(&self, verb: &'static str, first: &str, second: &str) -> Shown {
        let (target, link) = match self.shared.software.symlinks {
            SymlinkOrder::TargetFirst => (first, second),
            SymlinkOrder::LinkFirst => (second, first),
        };
        let link = self.path_of(link);
        let from = link.as_ref().and_then(VPath::parent);
        let leads = from.and_then(|from| from.resolve(target.as_bytes()).ok());
        Shown::writes(verb, &format!("{first} {second}"), link.as_ref()).and(leads.as_ref())
    }
}
