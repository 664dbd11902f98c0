//! Downloads: from the file to the data connection, inside the kernel where that is possible.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use entrepot_ftp_proto::ascii::ToNetwork;
use entrepot_ftp_proto::{End, Refusal, Why};
use entrepot_net::data::{FileRange, Lingerer};
use entrepot_vfs::{Download, Vfs, VfsError};
use tokio::time::timeout;

use super::outlet::{Outlet, SendFault};
use crate::limits::{BLOCK_BYTES, STALL_TIME};
use crate::paths::path;
use crate::status::refusal;

/// A file on its way to the client.
pub(crate) struct FileSender {
    file: Download,
    /// Of the file, or of its wire form.
    offset: u64,
    length: u64,
    ascii: bool,
}

/// A download as it was asked for.
pub(super) struct RetrieveRequest<'a> {
    pub(super) path: &'a str,
    /// Of the file in TYPE I, of its wire form in TYPE A.
    pub(super) offset: u64,
    /// At most so many bytes; `None`: up to the end.
    pub(super) length: Option<u64>,
    pub(super) ascii: bool,
}

impl FileSender {
    pub(super) async fn open(
        vfs: &Vfs,
        RetrieveRequest { path: at, offset, length, ascii }: RetrieveRequest<'_>,
    ) -> Result<FileSender, Refusal> {
        let file = vfs.open(&path(at)?).await.map_err(|error| refusal(&error))?;
        let size = file.attributes().size;
        if !ascii && offset > size {
            return Err(Refusal::new(Why::Offset));
        }
        let rest = if ascii { u64::MAX } else { size - offset };
        let length = length.map_or(rest, |length| length.min(rest));
        Ok(FileSender { file, offset, length, ascii })
    }

    /// Bytes that will be sent, if known.
    pub(super) fn wire_size(&self) -> Option<u64> {
        (!self.ascii).then_some(self.length)
    }

    pub(super) async fn run(
        self,
        mut stream: Outlet,
        lingerer: &Lingerer,
        bytes: &AtomicU64,
    ) -> End {
        let sent = if self.ascii {
            self.convert(&mut stream, bytes).await
        } else if stream.can_send_file() {
            self.by_kernel(&mut stream, bytes).await
        } else {
            self.copy(&mut stream, bytes).await
        };
        self.file.finish().await;
        stream.conclude(sent, lingerer).await
    }

    /// From file to socket inside the kernel, where the store has a file.
    async fn by_kernel(&self, stream: &mut Outlet, bytes: &AtomicU64) -> Result<(), SendFault> {
        let Some(file) = self.file.kernel_file() else {
            return self.copy(stream, bytes).await;
        };
        let mut range = FileRange::new(file.descriptor, self.offset, self.length);
        if file.in_memory {
            range.note_in_memory();
        }
        while range.left() > 0 {
            match timeout(STALL_TIME, stream.stream.send_file(&mut range)).await {
                Ok(Ok(count)) => {
                    self.file.passed(count as u64)?;
                    bytes.fetch_add(count as u64, Ordering::Relaxed);
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(SendFault::File(VfsError::Conflict));
                }
                Ok(Err(_)) | Err(_) => return Err(SendFault::Peer),
            }
        }
        Ok(())
    }

    async fn copy(&self, stream: &mut Outlet, bytes: &AtomicU64) -> Result<(), SendFault> {
        let (mut at, mut left) = (self.offset, self.length);
        let mut block = BytesMut::new();
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK_BYTES);
            block = self.read(at, block, want).await?;
            if block.is_empty() {
                return Err(SendFault::File(VfsError::Conflict));
            }
            stream.write(&block).await?;
            let count = block.len() as u64;
            (at, left) = (at + count, left.saturating_sub(count));
            bytes.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn read(&self, at: u64, mut block: BytesMut, want: usize) -> Result<BytesMut, VfsError> {
        block.resize(want, 0);
        if let Some(filled) = self.file.try_read_at(at, &mut block)? {
            block.truncate(filled);
            return Ok(block);
        }
        block.clear();
        self.file.read_at(at, block, want).await
    }

    /// TYPE A: the whole file is read, for REST counts bytes of the wire.
    async fn convert(&self, stream: &mut Outlet, bytes: &AtomicU64) -> Result<(), SendFault> {
        let mut converter = ToNetwork::skipping(self.offset);
        let (mut block, mut wire) = (BytesMut::new(), Vec::new());
        let (mut at, mut left) = (0, self.length);
        while left > 0 {
            block = self.read(at, block, BLOCK_BYTES).await?;
            if block.is_empty() {
                break;
            }
            at += block.len() as u64;
            wire.clear();
            converter.convert(&block, &mut wire);
            wire.truncate(usize::try_from(left).unwrap_or(usize::MAX).min(wire.len()));
            stream.write(&wire).await?;
            left -= wire.len() as u64;
            bytes.fetch_add(wire.len() as u64, Ordering::Relaxed);
        }
        if converter.to_skip() > 0 { Err(SendFault::Offset) } else { Ok(()) }
    }
}
