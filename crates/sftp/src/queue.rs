//! The queue, bounded in bytes, between the session task and a channel's own task.

use std::sync::Arc;

use bytes::Bytes;
use entrepot_net::meter::SessionMeter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::{QUEUE_BYTES, QUEUE_PIECES};

/// What a channel's own task is given.
pub(crate) enum Piece {
    Data(Bytes, OwnedSemaphorePermit),
    Eof,
}

/// The pieces of a channel, for its own task; `None`: the channel is gone.
pub(crate) type Pieces = mpsc::Receiver<Piece>;

/// The session's end of the queue to a channel's own task.
pub(crate) struct Queue {
    pieces: mpsc::Sender<Piece>,
    room: Arc<Semaphore>,
    meter: Arc<SessionMeter>,
    /// Tells the task that the channel is gone while it does something long.
    _gone: DropGuard,
}

/// Whether a channel goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    On,
    Over,
}

impl Queue {
    pub(crate) fn new(gone: CancellationToken, meter: Arc<SessionMeter>) -> (Queue, Pieces) {
        let (pieces, taken) = mpsc::channel(QUEUE_PIECES);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        (Queue { pieces, room, meter, _gone: gone.drop_guard() }, taken)
    }

    /// Waits for room. The task makes room without ever waiting for the session task, but it may
    /// wait long, for a rule: a session that is ended waits no longer.
    pub(crate) async fn put(&self, data: &[u8]) -> Goes {
        let putting = async {
            for piece in data.chunks(QUEUE_BYTES) {
                let bytes = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                let Ok(permit) = Arc::clone(&self.room).acquire_many_owned(bytes).await else {
                    return Goes::Over;
                };
                let piece = Piece::Data(Bytes::copy_from_slice(piece), permit);
                if self.pieces.send(piece).await.is_err() {
                    return Goes::Over;
                }
            }
            Goes::On
        };
        tokio::select! {
            biased;
            put = putting => put,
            _ = self.meter.ending() => Goes::Over,
        }
    }

    pub(crate) async fn end(&self) -> Goes {
        match self.pieces.send(Piece::Eof).await {
            Ok(()) => Goes::On,
            Err(_) => Goes::Over,
        }
    }

    /// True if the task has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.pieces.is_closed()
    }
}
