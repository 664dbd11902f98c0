//! A file opened to read: pipelined reads ahead of a reader that goes straight on.

use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use entrepot_sftp_proto::client::RemoteHandle;
use tokio::sync::oneshot;

use super::errors::Failed;
use super::lookup::meta_of;
use super::pool::Lease;
use crate::budget::{Permit, Share};
use crate::error::{Result, StoreError};
use crate::limits::SFTP_READ_AHEAD;
use crate::store::{Meta, ReadFile, is_past_all};

/// One READ asked ahead.
enum Piece {
    Asked { len: u64, answer: oneshot::Receiver<Result<Bytes, Failed>> },
    Here(Bytes),
}

/// What was asked ahead of the reader.
#[derive(Default)]
struct Ahead {
    /// Where the reader goes on if it goes straight on.
    next: u64,
    /// Where the next piece is asked.
    asked: u64,
    /// How many bytes may be asked ahead; doubles while the reader goes straight on.
    window: u64,
    /// The memory of the window; `None`: only what the reader waits for is asked.
    permit: Option<Permit>,
    pieces: VecDeque<Piece>,
    /// The file ends where the last piece ended.
    ended: bool,
    /// The file was found unchanged at its end.
    checked: bool,
}

/// A file of the server opened to read.
pub(super) struct SftpRead {
    lease: Lease,
    handle: RemoteHandle,
    meta: Meta,
    /// `None`: nobody counts it.
    memory: Option<Share>,
    ahead: tokio::sync::Mutex<Ahead>,
}

impl SftpRead {
    pub(super) fn new(
        lease: Lease,
        handle: RemoteHandle,
        meta: Meta,
        memory: Option<Share>,
    ) -> Self {
        SftpRead { lease, handle, meta, memory, ahead: tokio::sync::Mutex::default() }
    }

    /// Widens the window of a reader that goes straight on, as far as there is memory for it.
    fn widen(&self, ahead: &mut Ahead, wanted: u64) {
        let target = (ahead.window * 2).clamp(wanted, SFTP_READ_AHEAD.max(wanted));
        let granted = match (&mut ahead.permit, &self.memory) {
            (_, None) => true,
            (Some(permit), _) => {
                let more = target.saturating_sub(permit.amount());
                more == 0 || permit.grow(more)
            }
            (None, Some(memory)) => {
                ahead.permit = memory.take(target);
                ahead.permit.is_some()
            }
        };
        let kept = ahead.permit.as_ref().map_or(0, Permit::amount);
        ahead.window = if granted { target } else { kept.max(wanted) };
    }

    /// Asks pieces until `window` bytes are ahead.
    fn ask(&self, ahead: &mut Ahead) -> Result<()> {
        let piece = self.lease.remote.read_bytes();
        while !ahead.ended && ahead.asked < ahead.next.saturating_add(ahead.window) {
            // Up to the size known at opening, then one piece more, which finds the end.
            if ahead.asked > self.meta.size && ahead.pieces.len() > 1 {
                break;
            }
            let answer = self.lease.remote.read(&self.handle, ahead.asked, piece)?;
            ahead.pieces.push_back(Piece::Asked { len: piece, answer });
            ahead.asked = ahead.asked.saturating_add(piece);
        }
        Ok(())
    }

    /// The bytes of the front piece, waited for.
    async fn front(&self, ahead: &mut Ahead) -> Result<Option<Bytes>> {
        match ahead.pieces.pop_front() {
            None => Ok(None),
            Some(Piece::Here(bytes)) => Ok(Some(bytes)),
            Some(Piece::Asked { len, answer }) => {
                let bytes = self.lease.remote.answer(answer).await?;
                if u64::try_from(bytes.len()).unwrap_or(u64::MAX) < len {
                    ahead.ended = true;
                    ahead.pieces.clear();
                }
                Ok(Some(bytes))
            }
        }
    }

    /// At the end the file must be what it was at the beginning.
    async fn check_unchanged(&self, ahead: &mut Ahead) -> Result<()> {
        if ahead.checked {
            return Ok(());
        }
        let now = meta_of(&self.lease.remote.fstat(&self.handle).await?);
        if now.is_none_or(|now| (now.size, now.modified) != (self.meta.size, self.meta.modified)) {
            return Err(StoreError::Io("the file changed while it was read".to_owned()));
        }
        ahead.checked = true;
        Ok(())
    }
}

#[async_trait]
impl ReadFile for SftpRead {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn try_read_at(&self, _offset: u64, _buf: &mut [u8]) -> Result<Option<usize>> {
        Ok(None)
    }

    async fn read_at(&self, offset: u64, mut buf: BytesMut, len: usize) -> Result<BytesMut> {
        if is_past_all(offset) {
            return Ok(buf);
        }
        let mut ahead = self.ahead.lock().await;
        let wanted = u64::try_from(len).unwrap_or(u64::MAX);
        if offset == ahead.next && ahead.window > 0 {
            self.widen(&mut ahead, wanted);
        } else {
            let checked = ahead.checked;
            *ahead =
                Ahead { next: offset, asked: offset, window: wanted, checked, ..Ahead::default() };
        }
        let mut missing = len;
        while missing > 0 {
            self.ask(&mut ahead)?;
            let Some(mut bytes) = self.front(&mut ahead).await? else { break };
            let taken = bytes.len().min(missing);
            buf.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            missing -= taken;
            ahead.next = ahead.next.saturating_add(u64::try_from(taken).unwrap_or(0));
            bytes.advance(taken);
            if !bytes.is_empty() {
                ahead.pieces.push_front(Piece::Here(bytes));
            }
        }
        if missing > 0 {
            self.check_unchanged(&mut ahead).await?;
        }
        Ok(buf)
    }
}

impl Drop for SftpRead {
    fn drop(&mut self) {
        self.lease.remote.close_later(self.handle.clone(), Box::new(()));
    }
}
