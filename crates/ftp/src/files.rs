//! Commands about names and files that move no data, and what they leave for those that follow.

use entrepot_ftp_proto::{Answer, Request};
use entrepot_nouns::VPath;
use entrepot_vfs::{Room, Vfs};

use crate::control::{ControlConnection, Over};
use crate::paths::path;
use crate::requests;
use crate::stats::View;
use crate::status::refusal;

/// What commands about files leave for those that follow.
pub(crate) struct FileCommands {
    view: View,
    /// The current directory, from the login on: ALLO reserves room there.
    directory: VPath,
    /// The name whose size or time was last answered, if that was of the client's own cut upload:
    /// REST and STOR may continue that one.
    unfinished: Option<VPath>,
    /// What ALLO has reserved for the next transfer.
    reserved: Option<Room>,
}

impl FileCommands {
    pub(crate) fn new(view: View) -> FileCommands {
        FileCommands { view, directory: VPath::root(), unfinished: None, reserved: None }
    }

    /// An account has logged in, whose first directory this is.
    pub(crate) fn begin(&mut self, home: VPath) {
        self.directory = home;
    }

    /// Nobody is logged in any more.
    pub(crate) fn end(&mut self) {
        self.reserved = None;
        self.unfinished = None;
    }

    /// Gives back what ALLO has reserved: a transfer reserves for itself.
    pub(crate) fn release_room(&mut self) {
        self.reserved = None;
    }

    /// The unfinished upload that the next STOR or APPE may continue.
    pub(crate) fn take_unfinished(&mut self) -> Option<VPath> {
        self.unfinished.take()
    }

    pub(crate) async fn answer(
        &mut self,
        connection: &mut ControlConnection,
        vfs: Vfs,
        request: Request,
    ) -> Result<Answer, Over> {
        if let Request::Size { path: at, .. } | Request::Modified(at) | Request::Entry(at) =
            &request
            && let Ok(at) = path(at)
        {
            self.unfinished = vfs.unfinished(&at).await.map(|_| at);
        }
        let entered = match &request {
            Request::ChangeDir(to) => path(to).ok(),
            Request::Allocate(bytes) => return self.allocate(connection, vfs, *bytes).await,
            _ => None,
        };
        let answering = requests::answer(vfs, self.view.clone(), request);
        let answer = connection.patiently(answering).await?;
        if let (Answer::Done, Some(directory)) = (&answer, entered) {
            self.directory = directory;
        }
        Ok(answer)
    }

    /// ALLO: the room is held until the next transfer begins, or another ALLO comes.
    async fn allocate(
        &mut self,
        connection: &mut ControlConnection,
        vfs: Vfs,
        bytes: u64,
    ) -> Result<Answer, Over> {
        self.reserved = None;
        let directory = self.directory.clone();
        let reserving = async move { vfs.reserve(&directory, bytes).await };
        match connection.patiently(reserving).await? {
            Ok(room) => {
                self.reserved = Some(room);
                Ok(Answer::Done)
            }
            Err(error) => Ok(Answer::Refused(refusal(&error))),
        }
    }
}
