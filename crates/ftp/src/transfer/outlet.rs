//! The data connection of a download or a list; in MODE Z what goes into it is compressed.

use entrepot_ftp_proto::zlib::Deflate;
use entrepot_ftp_proto::{End, Refusal, Why};
use entrepot_net::data::{DataStream, Lingerer};
use entrepot_vfs::VfsError;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::limits::{DEFLATE_BYTES, STALL_TIME};
use crate::status::refusal;

/// Why a download or a listing did not go to the end.
pub(crate) enum SendFault {
    /// The data connection broke, or the client takes nothing any more.
    Peer,
    /// The file or directory cannot be read any more.
    File(VfsError),
    /// REST lay beyond the end of the wire form.
    Offset,
}

impl From<VfsError> for SendFault {
    fn from(error: VfsError) -> Self {
        SendFault::File(error)
    }
}

/// The sending end of the data connection of a download or a listing.
pub(crate) struct Outlet {
    pub(super) stream: DataStream,
    deflate: Option<(Deflate, Vec<u8>)>,
}

impl Outlet {
    /// In MODE Z with its level.
    pub(super) fn new(stream: DataStream, compression: Option<u8>) -> Outlet {
        Outlet { stream, deflate: compression.map(|level| (Deflate::new(level), Vec::new())) }
    }

    /// Whether a file may go from disk to socket inside the kernel.
    pub(super) fn can_send_file(&self) -> bool {
        self.deflate.is_none() && self.stream.can_send_file()
    }

    /// Writes all; each piece that the peer takes gives it time for the next.
    pub(crate) async fn write(&mut self, data: &[u8]) -> Result<(), SendFault> {
        let Some((deflate, wire)) = &mut self.deflate else {
            return write(&mut self.stream, data).await;
        };
        for piece in data.chunks(DEFLATE_BYTES) {
            wire.clear();
            deflate.push(piece, wire);
            write(&mut self.stream, wire).await?;
            // Compressing costs no budget of the runtime: other tasks run between pieces.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Ends the connection.
    pub(crate) async fn conclude(
        mut self,
        sent: Result<(), SendFault>,
        lingerer: &Lingerer,
    ) -> End {
        let sent = match (sent, self.deflate.take()) {
            (Ok(()), Some((deflate, mut wire))) => {
                wire.clear();
                deflate.finish(&mut wire);
                write(&mut self.stream, &wire).await
            }
            (sent, _) => sent,
        };
        conclude(sent, self.stream, lingerer).await
    }
}

/// Writes all; each piece that the peer takes gives it time for the next.
async fn write(stream: &mut DataStream, mut data: &[u8]) -> Result<(), SendFault> {
    while !data.is_empty() {
        match timeout(STALL_TIME, stream.write(data)).await {
            Ok(Ok(count @ 1..)) => data = data.get(count..).unwrap_or_default(),
            Ok(Ok(0) | Err(_)) | Err(_) => return Err(SendFault::Peer),
        }
    }
    Ok(())
}

/// Ends the data connection of a download or listing.
async fn conclude(sent: Result<(), SendFault>, stream: DataStream, lingerer: &Lingerer) -> End {
    match sent {
        Ok(()) => match timeout(STALL_TIME, stream.finish_download(lingerer)).await {
            Ok(Ok(())) => End::Complete,
            Ok(Err(_)) | Err(_) => End::Cut,
        },
        Err(SendFault::Peer) => {
            stream.reset();
            End::Cut
        }
        Err(SendFault::File(error)) => {
            stream.reset();
            End::Refused(refusal(&error))
        }
        Err(SendFault::Offset) => End::Refused(Refusal::new(Why::Offset)),
    }
}
