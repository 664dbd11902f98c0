//! Both ends of the channel that a command runs on.

use bytes::Bytes;
use entrepot_nouns::VPath;
use entrepot_sftp_proto::shell::Word;
use entrepot_vfs::VfsError;
use tokio_util::sync::CancellationToken;

use crate::connection::ConnectionShared;
use crate::limits::OWED_BYTES;
use crate::out::Outbox;
use crate::queue::{Piece, Pieces};

/// Both ends of a channel.
pub(crate) struct Ends {
    /// From the client.
    pub(crate) pieces: Pieces,
    /// To the client.
    pub(crate) outbox: Outbox,
    /// The channel is gone.
    pub(crate) gone: CancellationToken,
}

/// Why a command ends early.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The channel is gone, or the client sends no more while an answer is needed.
    Gone,
    /// A sentence for the log.
    Broken(String),
}

impl Ends {
    /// The next bytes of the client; their place in the queue is free when they are dropped.
    pub(super) async fn next(&mut self) -> Next {
        match self.pieces.recv().await {
            Some(Piece::Data(data, room)) => Next::Data(data, room),
            Some(Piece::Eof) => Next::Eof,
            None => Next::Gone,
        }
    }

    /// Fails if the client asks and takes no answers.
    pub(super) fn check_owed(&self) -> Result<(), Ended> {
        if self.outbox.bytes() <= OWED_BYTES {
            return Ok(());
        }
        Err(Ended::Broken("the client asks and takes no answers".to_owned()))
    }
}

pub(super) enum Next {
    Data(Bytes, tokio::sync::OwnedSemaphorePermit),
    Eof,
    Gone,
}

/// The virtual path of a word.
pub(super) fn resolve(shared: &ConnectionShared, word: &Word) -> Result<VPath, VfsError> {
    Ok(shared.session.vfs().home().resolve(word.path().as_bytes())?)
}
