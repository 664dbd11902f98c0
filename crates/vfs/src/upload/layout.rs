//! How the bytes of an upload get to its store, and what is known of them on the way. Which of the
//! three it is follows from the store, and from the order in which the client writes.

use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_storage::StagedFile;

use super::order::Order;
use super::ranges::Ranges;
use super::spool::Spool;

/// Where the bytes of an upload go when they arrive.
pub(super) enum Layout {
    /// The store takes bytes anywhere: each write goes to it at once.
    RandomAccess(RandomAccess),
    /// The store takes bytes only in order: a write that comes early waits in memory.
    InOrder(InOrder),
    /// As [`Layout::InOrder`], but the client writes in an order that memory does not hold: what
    /// comes after the bytes sent so far goes to the local disk, and is sent at the finish.
    Spooled(Spooled),
}

/// An upload to a store that takes bytes anywhere.
pub(super) struct RandomAccess {
    /// The digest of the bytes from the start on; `None` once one of those was overwritten: then
    /// the whole file is hashed at the finish.
    digest: Option<StreamDigest>,
}

/// An upload to a store that takes bytes only in order.
pub(super) struct InOrder {
    pub(super) order: Order,
    pub(super) digest: ResumableDigest,
}

/// An upload to such a store whose end lies on the local disk.
pub(super) struct Spooled {
    pub(super) spool: Spool,
    pub(super) digest: ResumableDigest,
}

impl Layout {
    pub(super) fn random_access(digest: StreamDigest) -> Layout {
        Layout::RandomAccess(RandomAccess { digest: Some(digest) })
    }

    /// In order, after the first `sent` bytes, which the store has.
    pub(super) fn in_order(digest: ResumableDigest, sent: u64) -> Layout {
        Layout::InOrder(InOrder { order: Order::behind(sent), digest })
    }

    /// The digest to read the rest of the file into, at the finish.
    pub(super) fn digest_to_finish(&mut self, sha256: Sha256) -> &mut StreamDigest {
        match self {
            Layout::RandomAccess(layout) => {
                layout.digest.get_or_insert_with(|| StreamDigest::new(sha256))
            }
            Layout::InOrder(layout) => &mut layout.digest.running,
            Layout::Spooled(layout) => &mut layout.digest.running,
        }
    }

    /// The digest at the point up to which the store keeps bytes that cannot be read back.
    pub(super) fn checkpoint(&self) -> Option<&StreamDigest> {
        match self {
            Layout::RandomAccess(_) => None,
            Layout::InOrder(layout) => layout.digest.checkpoint.as_deref(),
            Layout::Spooled(layout) => layout.digest.checkpoint.as_deref(),
        }
    }

    /// Takes [`Layout::checkpoint`] out, for an upload that is kept.
    pub(super) fn take_checkpoint(&mut self) -> Option<Box<StreamDigest>> {
        match self {
            Layout::RandomAccess(_) => None,
            Layout::InOrder(layout) => layout.digest.checkpoint.take(),
            Layout::Spooled(layout) => layout.digest.checkpoint.take(),
        }
    }

    /// Takes the digest of what a store has that takes bytes anywhere.
    pub(super) fn take_running(&mut self) -> Option<Box<StreamDigest>> {
        match self {
            Layout::RandomAccess(layout) => layout.digest.take().map(Box::new),
            Layout::InOrder(_) | Layout::Spooled(_) => None,
        }
    }

    /// The file was cut to `size` bytes.
    pub(super) fn cut(&mut self, size: u64) {
        // What was sent in order cannot be cut, so its digest is never longer than the file.
        if let Layout::RandomAccess(layout) = self {
            layout.overwritten_from(size);
        }
    }
}

impl RandomAccess {
    /// Bytes lie in the store: hashes them if they continue those hashed so far.
    pub(super) fn wrote(&mut self, offset: u64, data: &[u8]) {
        match &mut self.digest {
            Some(digest) if offset == digest.length() => digest.update(data),
            _ => self.overwritten_from(offset),
        }
    }

    /// Bytes from `offset` on are no longer those that were hashed.
    pub(super) fn overwritten_from(&mut self, offset: u64) {
        if self.digest.as_ref().is_some_and(|digest| offset < digest.length()) {
            self.digest = None;
        }
    }

    /// The digest, if it ends before the first hole: a gap was closed, and what lies behind it is
    /// there and not hashed yet.
    pub(super) fn digest_behind(&mut self, ranges: &Ranges) -> Option<&mut StreamDigest> {
        self.digest.as_mut().filter(|digest| digest.length() < ranges.contiguous())
    }
}

/// A running digest, and its state at the last point from which the store could go on with bytes
/// that it does not give back (whole parts of an object).
#[derive(Clone)]
pub(super) struct ResumableDigest {
    pub(super) running: StreamDigest,
    checkpoint: Option<Box<StreamDigest>>,
}

impl ResumableDigest {
    /// Of nothing yet.
    pub(super) fn new(sha256: Sha256) -> ResumableDigest {
        ResumableDigest { running: StreamDigest::new(sha256), checkpoint: None }
    }

    /// Goes on at a checkpoint.
    pub(super) fn resumed(checkpoint: Box<StreamDigest>) -> ResumableDigest {
        ResumableDigest { running: (*checkpoint).clone(), checkpoint: Some(checkpoint) }
    }

    /// Bytes before the checkpoint.
    pub(super) fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |digest| digest.length())
    }

    /// Hashes the bytes at `offset`, and remembers the digest at the point up to which the store
    /// would keep them. After a gap nothing is hashed: the bytes before it were sent by an earlier
    /// process, and the finish reads all back.
    pub(super) fn wrote(&mut self, offset: u64, mut data: &[u8], staged: &dyn StagedFile) {
        let hashed = self.running.length();
        if offset != hashed {
            return;
        }
        if let Some(kept) = staged.kept()
            && kept > self.checkpoint_bytes()
            && let Some(ahead) = kept.checked_sub(hashed)
            && let Some((before, behind)) =
                usize::try_from(ahead).ok().and_then(|ahead| data.split_at_checked(ahead))
        {
            self.running.update(before);
            self.checkpoint = Some(Box::new(self.running.clone()));
            data = behind;
        }
        self.running.update(data);
    }

    /// Goes back to the checkpoint: what came after it is going to be hashed again.
    pub(super) fn back_to_checkpoint(&mut self, sha256: Sha256) {
        self.running = match &self.checkpoint {
            Some(digest) => (**digest).clone(),
            None => StreamDigest::new(sha256),
        };
    }
}
