//! A channel that speaks SFTP or runs a command. On local stores the SFTP machine runs inside the
//! session task; once a store that waits for a network is used, or something long is asked (a hash,
//! a copy), it goes on in a task of its own behind a queue bounded by bytes, so that nothing else
//! of the connection is held up. Commands run so from the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use entrepot_net::meter::SessionMeter;
use entrepot_ssh::ChannelId;
use entrepot_ssh::server::{Link, Replies};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::connection::ConnectionShared;
use crate::exec::{self, Command};
use crate::limits::{OWED_BYTES, RESCUE_INTERVAL};
use crate::machine::{Driver, Machine};
use crate::out::Outbox;
use crate::queue::{Goes, Piece, Pieces, Queue};

/// A channel that runs SFTP or a command.
pub(crate) struct Channel {
    id: ChannelId,
    side: Side,
}

/// Where its work is done.
enum Side {
    Inline(Inline),
    OwnTask(Queue),
}

/// SFTP inside the session task.
struct Inline {
    link: Link,
    machine: Arc<Mutex<Machine>>,
    /// A task looks after what is parked.
    watched: Arc<AtomicBool>,
    /// The channel is gone.
    gone: CancellationToken,
    meter: Arc<SessionMeter>,
}

impl Channel {
    /// A channel that speaks SFTP.
    pub(crate) fn sftp(id: ChannelId, link: Link, shared: Arc<ConnectionShared>) -> Self {
        let gone = CancellationToken::new();
        let meter = Arc::clone(&shared.meter);
        let machine = Arc::new(Mutex::new(Machine::new(shared, gone.clone())));
        let inline = Inline { link, machine, watched: Arc::default(), gone, meter };
        Channel { id, side: Side::Inline(inline) }
    }

    /// A channel that runs a command, from the start in a task of its own.
    pub(crate) fn exec(
        id: ChannelId,
        link: Link,
        shared: Arc<ConnectionShared>,
        command: Command,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let gone = CancellationToken::new();
        let (queue, pieces) = Queue::new(gone.clone(), Arc::clone(&shared.meter));
        let outbox = Outbox::default();
        tasks.spawn(outbox.clone().deliver(link, id));
        tasks.spawn(exec::run(command, shared, exec::Ends { pieces, outbox, gone }));
        Channel { id, side: Side::OwnTask(queue) }
    }

    pub(crate) fn id(&self) -> ChannelId {
        self.id
    }

    /// True if its own task has ended the channel.
    pub(crate) fn is_over(&self) -> bool {
        match &self.side {
            Side::Inline(_) => false,
            Side::OwnTask(queue) => queue.is_closed(),
        }
    }

    /// Bytes of the client.
    pub(crate) async fn data(
        &mut self,
        mut data: &[u8],
        out: &mut Replies<'_>,
        tasks: &mut JoinSet<()>,
    ) -> Goes {
        let inline = match &self.side {
            Side::Inline(inline) => inline,
            Side::OwnTask(queue) => return queue.put(data).await,
        };
        let mut machine = inline.machine.lock().await;
        if let Err(broken) = machine.receive(&mut data, Driver::SessionTask, out).await {
            tracing::info!(reason = broken, "an SFTP channel was ended");
            machine.end(&broken).await;
            out.finish(1);
            return Goes::Over;
        }
        let (parked, moves) = (machine.parked().is_some(), machine.wants_own_task());
        drop(machine);
        if moves {
            let queue = inline.move_to_own_task(self.id, tasks);
            if !data.is_empty() && queue.put(data).await == Goes::Over {
                return Goes::Over;
            }
            self.side = Side::OwnTask(queue);
        } else if parked {
            inline.watch(self.id, tasks);
        }
        Goes::On
    }

    /// The client's window has grown.
    pub(crate) async fn writable(&mut self, out: &mut Replies<'_>) {
        if let Side::Inline(inline) = &self.side {
            inline.machine.lock().await.resume(out).await;
        }
    }

    /// The client sends no more.
    pub(crate) async fn eof(&mut self, out: &mut Replies<'_>) -> Goes {
        let inline = match &self.side {
            Side::Inline(inline) => inline,
            Side::OwnTask(queue) => return queue.end().await,
        };
        let mut machine = inline.machine.lock().await;
        machine.finish(out).await;
        machine.end("the client ended the channel").await;
        out.finish(0);
        Goes::Over
    }

    /// The channel is gone: what is open becomes a partial.
    pub(crate) async fn end(self, reason: &str) {
        match self.side {
            Side::Inline(inline) => inline.machine.lock().await.end(reason).await,
            // It is dropped: the task ends what is open.
            Side::OwnTask(_) => {}
        }
    }
}

impl Inline {
    /// Starts the task that looks after what is parked, unless there is one.
    fn watch(&self, id: ChannelId, tasks: &mut JoinSet<()>) {
        if !self.watched.swap(true, Ordering::SeqCst) {
            while tasks.try_join_next().is_some() {}
            let (machine, watched) = (Arc::clone(&self.machine), Arc::clone(&self.watched));
            let link = self.link.clone();
            tasks.spawn(async move {
                rescue(&machine, &watched, &link, id).await;
            });
        }
    }

    fn move_to_own_task(&self, id: ChannelId, tasks: &mut JoinSet<()>) -> Queue {
        let (queue, pieces) = Queue::new(self.gone.clone(), Arc::clone(&self.meter));
        let outbox = Outbox::default();
        tasks.spawn(outbox.clone().deliver(self.link.clone(), id));
        tasks.spawn(work(Arc::clone(&self.machine), pieces, outbox));
        queue
    }
}

/// An SFTP channel's own task.
async fn work(machine: Arc<Mutex<Machine>>, mut pieces: Pieces, mut outbox: Outbox) {
    let mut machine = machine.lock().await;
    // Who answers what is parked is this task from now on.
    machine.end_rescue();
    let mut first =
        Some(machine.receive(&mut [].as_slice(), Driver::ChannelTask, &mut outbox).await);
    loop {
        let received = match first.take() {
            Some(received) => received,
            None => {
                let piece = tokio::select! {
                    piece = pieces.recv() => piece,
                    () = outbox.room(), if machine.parked().is_some() => {
                        machine.resume(&mut outbox).await;
                        continue;
                    }
                };
                match piece {
                    Some(Piece::Data(data, _room)) => {
                        machine.receive(&mut data.as_ref(), Driver::ChannelTask, &mut outbox).await
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
                }
            }
        };
        let reason = match received {
            Ok(()) if outbox.bytes() <= OWED_BYTES => continue,
            Ok(()) => "the client asks and takes no answers".to_owned(),
            Err(broken) => broken,
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
        locked.begin_rescue();
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
            locked.end_rescue();
            return Goes::On;
        };
        drop(locked);
        if link.send(id, answer).await.is_err() {
            return Goes::Over;
        }
    }
}
