//! A channel that speaks SFTP. On local stores its machine runs inside the session task; once a
//! store that waits for a network is used, it goes on in a task of its own behind a queue bounded
//! by bytes, so that one slow partner holds up nothing else of the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use entrepot_net::ssh::ChannelId;
use entrepot_net::ssh::server::{Link, Replies};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::limits::{OWED_BYTES, QUEUE_BYTES, QUEUE_PIECES, RESCUE_INTERVAL};
use crate::machine::{Account, Machine};
use crate::out::Outbox;

/// What a channel's own task is given.
enum Piece {
    Data(Bytes, OwnedSemaphorePermit),
    Eof,
}

/// The way to a channel's own task.
struct Queue {
    pieces: mpsc::Sender<Piece>,
    room: Arc<Semaphore>,
}

/// A channel that runs SFTP.
pub(crate) struct Channel {
    id: ChannelId,
    link: Link,
    machine: Arc<Mutex<Machine>>,
    /// A task looks after what is parked.
    watched: Arc<AtomicBool>,
    own_task: Option<Queue>,
}

/// Whether a channel goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    On,
    Over,
}

impl Channel {
    pub(crate) fn new(id: ChannelId, link: Link, account: Arc<Account>) -> Self {
        let machine = Arc::new(Mutex::new(Machine::new(account)));
        Channel { id, link, machine, watched: Arc::default(), own_task: None }
    }

    pub(crate) fn id(&self) -> ChannelId {
        self.id
    }

    /// Bytes of the client.
    pub(crate) async fn data(
        &mut self,
        mut data: &[u8],
        out: &mut Replies<'_>,
        tasks: &mut JoinSet<()>,
    ) -> Goes {
        if let Some(queue) = &self.own_task {
            return queue.put(data).await;
        }
        let mut machine = self.machine.lock().await;
        if let Err(broken) = machine.receive(&mut data, false, out).await {
            tracing::info!(reason = broken, "an SFTP channel was ended");
            machine.end(&broken).await;
            out.finish(1);
            return Goes::Over;
        }
        let (parked, moves) = (machine.parked().is_some(), machine.wants_own_task());
        drop(machine);
        if parked {
            self.watch(tasks);
        }
        if moves {
            let queue = self.move_to_own_task(tasks);
            if !data.is_empty() && queue.put(data).await == Goes::Over {
                return Goes::Over;
            }
            self.own_task = Some(queue);
        }
        Goes::On
    }

    /// The client's window has grown.
    pub(crate) async fn writable(&mut self, out: &mut Replies<'_>) {
        if self.own_task.is_none() {
            self.machine.lock().await.resume(out).await;
        }
    }

    /// The client sends no more.
    pub(crate) async fn eof(&mut self, out: &mut Replies<'_>) -> Goes {
        if let Some(queue) = &self.own_task {
            return queue.end().await;
        }
        let mut machine = self.machine.lock().await;
        machine.finish(out).await;
        machine.end("the client ended the channel").await;
        out.finish(0);
        Goes::Over
    }

    /// The channel is gone: what is open becomes a partial.
    pub(crate) async fn end(self, reason: &str) {
        if self.own_task.is_none() {
            self.machine.lock().await.end(reason).await;
        }
        // The queue is dropped: the task ends what is open.
    }

    /// Starts the task that looks after what is parked, unless there is one.
    fn watch(&self, tasks: &mut JoinSet<()>) {
        if !self.watched.swap(true, Ordering::SeqCst) {
            while tasks.try_join_next().is_some() {}
            let (machine, watched) = (Arc::clone(&self.machine), Arc::clone(&self.watched));
            let (link, id) = (self.link.clone(), self.id);
            tasks.spawn(async move {
                rescue(&machine, &watched, &link, id).await;
            });
        }
    }

    fn move_to_own_task(&self, tasks: &mut JoinSet<()>) -> Queue {
        let (pieces, taken) = mpsc::channel(QUEUE_PIECES);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        let outbox = Outbox::default();
        tasks.spawn(outbox.clone().deliver(self.link.clone(), self.id));
        tasks.spawn(work(Arc::clone(&self.machine), taken, outbox));
        Queue { pieces, room }
    }
}

impl Queue {
    /// Waits for room. The task makes room without ever waiting for the session task.
    async fn put(&self, data: &[u8]) -> Goes {
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
    }

    async fn end(&self) -> Goes {
        match self.pieces.send(Piece::Eof).await {
            Ok(()) => Goes::On,
            Err(_) => Goes::Over,
        }
    }
}

/// A channel's own task.
async fn work(machine: Arc<Mutex<Machine>>, mut pieces: mpsc::Receiver<Piece>, mut outbox: Outbox) {
    let mut machine = machine.lock().await;
    loop {
        let piece = tokio::select! {
            piece = pieces.recv() => piece,
            () = outbox.room(), if machine.parked().is_some() => {
                machine.resume(&mut outbox).await;
                continue;
            }
        };
        let reason = match piece {
            Some(Piece::Data(data, _room)) => {
                let mut input: &[u8] = &data;
                match machine.receive(&mut input, true, &mut outbox).await {
                    Ok(()) if outbox.bytes() <= OWED_BYTES => continue,
                    Ok(()) => "the client asks and takes no answers".to_owned(),
                    Err(broken) => broken,
                }
            }
            Some(Piece::Eof) => {
                machine.finish(&mut outbox).await;
                machine.end("the client ended the channel").await;
                return outbox.finish(0);
            }
            None => {
                machine.end("the connection ended").await;
                return outbox.finish(1);
            }
        };
        tracing::info!(reason, "an SFTP channel was ended");
        machine.end(&reason).await;
        return outbox.finish(1);
    }
}

/// Looks after what is parked: russh calls no handler when a key exchange that it began ends, and
/// that parks READs too; a client with a large window then sends nothing that would move them.
/// Without progress this takes over and answers through the bounded queue of the session, never
/// holding the machine while it waits there.
async fn rescue(machine: &Mutex<Machine>, watched: &AtomicBool, link: &Link, id: ChannelId) {
    let mut seen = None;
    loop {
        tokio::time::sleep(RESCUE_INTERVAL).await;
        let mut locked = machine.lock().await;
        let parked = locked.parked();
        if parked.is_none() {
            // Under the lock: whoever parks next starts a new watch.
            watched.store(false, Ordering::SeqCst);
            return;
        }
        if std::mem::replace(&mut seen, parked) != parked {
            continue;
        }
        locked.set_rescued(true);
        drop(locked);
        if answer_parked(machine, link, id).await == Goes::Over {
            return;
        }
    }
}

async fn answer_parked(machine: &Mutex<Machine>, link: &Link, id: ChannelId) -> Goes {
    loop {
        let mut locked = machine.lock().await;
        let Some(answer) = locked.next_parked().await else {
            locked.set_rescued(false);
            return Goes::On;
        };
        drop(locked);
        if link.send(id, answer).await.is_err() {
            return Goes::Over;
        }
    }
}
