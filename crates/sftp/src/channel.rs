//! A channel that speaks SFTP or runs a command. On local stores the SFTP machine runs inside the
//! session task; once a store that waits for a network is used, or something long is asked (a hash,
//! a copy), it goes on in a task of its own behind a queue bounded by bytes, so that nothing else
//! of the connection is held up. Commands run so from the start.

use std::sync::Arc;

use entrepot_net::meter::SessionMeter;
use entrepot_ssh::ChannelId;
use entrepot_ssh::server::{Link, Replies};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::connection::ConnectionShared;
use crate::exec::{self, Command};
use crate::limits::OWED_BYTES;
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
    Inline(Box<Inline>),
    OwnTask(Queue),
}

/// SFTP inside the session task.
struct Inline {
    link: Link,
    machine: Machine,
    /// The channel is gone.
    gone: CancellationToken,
    meter: Arc<SessionMeter>,
}

impl Channel {
    /// A channel that speaks SFTP.
    pub(crate) fn sftp(id: ChannelId, link: Link, shared: Arc<ConnectionShared>) -> Self {
        let gone = CancellationToken::new();
        let meter = Arc::clone(&shared.meter);
        let machine = Machine::new(shared, gone.clone());
        Channel { id, side: Side::Inline(Box::new(Inline { link, machine, gone, meter })) }
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
        let running = exec::run(command, shared, exec::Ends { pieces, outbox, gone });
        tasks.spawn(running.in_current_span());
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
        let machine = match &mut self.side {
            Side::Inline(inline) => &mut inline.machine,
            Side::OwnTask(queue) => return queue.put(data).await,
        };
        if let Err(broken) = machine.receive(&mut data, Driver::SessionTask, out).await {
            tracing::info!(reason = broken, "an SFTP channel was ended");
            machine.end(&broken).await;
            out.finish(1);
            return Goes::Over;
        }
        if machine.wants_own_task() {
            return self.move_to_own_task(data, tasks).await;
        }
        if machine.has_parked() {
            out.notify_when_drained();
        }
        Goes::On
    }

    /// The client takes more answers: those that are parked are made. Where the client has so large
    /// a window that it says nothing, only the end of what was sent before tells that.
    pub(crate) async fn writable(&mut self, out: &mut Replies<'_>) {
        if let Side::Inline(inline) = &mut self.side {
            inline.machine.resume(out).await;
            if inline.machine.has_parked() {
                out.notify_when_drained();
            }
        }
    }

    /// The client sends no more.
    pub(crate) async fn eof(&mut self, out: &mut Replies<'_>) -> Goes {
        let machine = match &mut self.side {
            Side::Inline(inline) => &mut inline.machine,
            Side::OwnTask(queue) => return queue.end().await,
        };
        machine.finish(out).await;
        machine.end("the client ended the channel").await;
        out.finish(0);
        Goes::Over
    }

    /// The channel is gone: what is open becomes a partial.
    pub(crate) async fn end(self, reason: &str) {
        match self.side {
            Side::Inline(mut inline) => inline.machine.end(reason).await,
            // It is dropped: the task ends what is open.
            Side::OwnTask(_) => {}
        }
    }

    /// Goes on in a task of the channel's own, with `rest` of what came.
    async fn move_to_own_task(&mut self, rest: &[u8], tasks: &mut JoinSet<()>) -> Goes {
        let Side::Inline(inline) = &self.side else { return Goes::On };
        let (queue, pieces) = Queue::new(inline.gone.clone(), Arc::clone(&inline.meter));
        if let Side::Inline(inline) = std::mem::replace(&mut self.side, Side::OwnTask(queue)) {
            let outbox = Outbox::default();
            tasks.spawn(outbox.clone().deliver(inline.link, self.id));
            tasks.spawn(work(inline.machine, pieces, outbox).in_current_span());
        }
        match &self.side {
            Side::OwnTask(queue) if !rest.is_empty() => queue.put(rest).await,
            _ => Goes::On,
        }
    }
}

/// An SFTP channel's own task.
async fn work(mut machine: Machine, mut pieces: Pieces, mut outbox: Outbox) {
    let mut first =
        Some(machine.receive(&mut [].as_slice(), Driver::ChannelTask, &mut outbox).await);
    loop {
        let received = match first.take() {
            Some(received) => received,
            None => {
                let piece = tokio::select! {
                    piece = pieces.recv() => piece,
                    () = outbox.room(), if machine.has_parked() => {
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
