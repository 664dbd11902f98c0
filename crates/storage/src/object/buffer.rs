//! The part at hand of an upload to an object store. It grows piece by piece, so that it takes
//! memory only as it fills and nothing is copied when it grows or is sent.

use bytes::{Bytes, BytesMut};
use object_store::PutPayload;

use crate::budget::{Permit, Share};
use crate::error::{Result, StoreError};

/// The first piece, and the least step by which a part takes memory.
const PIECE_LEAST: usize = 16 * 1024;
/// The largest piece.
const PIECE_MOST: usize = 256 * 1024;

/// Bytes in the order in which they came.
#[derive(Default)]
pub(super) struct PartBuffer {
    pieces: Vec<Bytes>,
    /// The piece that is being filled, behind the others.
    filling: BytesMut,
    len: usize,
    /// Bytes of parts that were taken from here and are still on their way.
    sending: usize,
    /// Whose memory it is, that of parts on their way too; `None`: nobody counts it.
    memory: Option<Share>,
    permit: Option<Permit>,
}

impl PartBuffer {
    pub(super) fn new(memory: Option<Share>) -> PartBuffer {
        PartBuffer { memory, ..PartBuffer::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of parts that are on their way.
    pub(super) fn sending(&self) -> usize {
        self.sending
    }

    /// A part of so many bytes is no longer on its way. Its memory is for what comes next, until
    /// [`PartBuffer::settle`].
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sending = self.sending.saturating_sub(bytes);
    }

    /// Sees to it that it may hold `len` bytes, also after it was emptied meanwhile.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`].
    pub(super) fn reserve(&mut self, len: usize) -> Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let wanted = self.sending.saturating_add(len).next_multiple_of(PIECE_LEAST) as u64;
        let granted = match &mut self.permit {
            Some(permit) => {
                let more = wanted.saturating_sub(permit.amount());
                more == 0 || permit.grow(more)
            }
            None => {
                self.permit = memory.take(wanted);
                self.permit.is_some()
            }
        };
        if granted { Ok(()) } else { Err(StoreError::NoMemory) }
    }

    /// Gives back what was reserved and is not used.
    pub(super) fn settle(&mut self) {
        let used = (self.sending + self.len).next_multiple_of(PIECE_LEAST) as u64;
        match &mut self.permit {
            Some(_) if used == 0 => self.permit = None,
            Some(permit) => permit.shrink_to(used),
            None => {}
        }
    }

    /// Takes bytes for which there is room.
    pub(super) fn extend(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let mut room = self.filling.capacity() - self.filling.len();
            if room == 0 {
                self.seal();
                room = self.len.clamp(PIECE_LEAST, PIECE_MOST);
                self.filling.reserve(room);
            }
            let (now, later) = data.split_at(room.min(data.len()));
            self.filling.extend_from_slice(now);
            self.len += now.len();
            data = later;
        }
    }

    fn seal(&mut self) {
        if !self.filling.is_empty() {
            self.pieces.push(std::mem::take(&mut self.filling).freeze());
        }
    }

    /// All of it, to be sent; it stays here too.
    pub(super) fn payload(&mut self) -> PutPayload {
        self.seal();
        self.pieces.iter().cloned().collect()
    }

    /// All of it, to be sent; its memory counts until [`PartBuffer::sent`].
    pub(super) fn take_payload(&mut self) -> PutPayload {
        let payload = self.payload();
        self.pieces = Vec::new();
        self.sending += std::mem::take(&mut self.len);
        payload
    }

    /// Drops it all, also what is on its way.
    pub(super) fn clear(&mut self) {
        self.sending = 0;
        self.truncate(0);
    }

    /// Keeps the first `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        self.seal();
        let mut left = len.min(self.len);
        self.len = left;
        self.pieces.retain_mut(|piece| {
            piece.truncate(left);
            left -= piece.len();
            !piece.is_empty()
        });
        self.settle();
    }

    /// Appends at most `len` bytes from `from` on to `buf`.
    pub(super) fn read(&self, from: usize, len: usize, buf: &mut BytesMut) {
        let (mut skip, mut missing) = (from, len);
        for piece in self.pieces.iter().map(|piece| &**piece).chain([&*self.filling]) {
            let behind = piece.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(piece.len());
            let part = behind.get(..missing.min(behind.len())).unwrap_or_default();
            buf.extend_from_slice(part);
            missing -= part.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Holder, Standing};

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    fn read(buffer: &PartBuffer, from: usize, len: usize) -> Vec<u8> {
        let mut read = BytesMut::new();
        buffer.read(from, len, &mut read);
        read.to_vec()
    }

    #[test]
    fn pieces_are_one_row_of_bytes() {
        let content = bytes(1_000_000);
        let mut buffer = PartBuffer::default();
        content.chunks(30_001).for_each(|chunk| buffer.extend(chunk));
        for (from, len) in [(0, 1_000_000), (16_383, 2), (999_999, 5), (500_000, 300_000), (0, 0)] {
            let end = (from + len).min(content.len());
            assert!(read(&buffer, from, len) == content[from..end], "{from} {len}");
        }
        for len in [700_001, 16_384, 5] {
            buffer.truncate(len);
            assert!(read(&buffer, 0, usize::MAX) == content[..len]);
            buffer.extend(b"behind");
            assert!(read(&buffer, len, usize::MAX) == b"behind");
        }
        assert_eq!(buffer.payload().content_length(), buffer.len());
        assert_eq!(buffer.take_payload().content_length(), 11);
        assert!(buffer.is_empty() && read(&buffer, 0, 9).is_empty());
    }

    #[test]
    fn memory_is_taken_as_it_fills_and_given_back() {
        let budget = Budget::new(4 << 20, 0);
        let mut buffer = PartBuffer::new(Some(budget.share(Holder::Rules, Standing::Ordinary)));
        buffer.reserve(10).unwrap();
        assert_eq!(budget.used(), PIECE_LEAST as u64);
        buffer.reserve(2 << 20).unwrap();
        assert_eq!(buffer.reserve((2 << 20) + 1), Err(StoreError::NoMemory));
        buffer.extend(&bytes(100_000));
        buffer.settle();
        assert_eq!(budget.used(), 114_688);
        buffer.truncate(1);
        assert_eq!(budget.used(), PIECE_LEAST as u64);
        buffer.reserve(60_000).unwrap();
        buffer.take_payload();
        buffer.reserve(60_000).unwrap();
        assert_eq!(budget.used(), 65_536, "a part on its way is counted");
        buffer.sent(1);
        buffer.settle();
        assert_eq!(budget.used(), 0);
        buffer.reserve(1).unwrap();
        buffer.clear();
        assert_eq!(budget.used(), 0);
    }
}
