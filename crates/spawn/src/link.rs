//! The server's end of one helper: frames out, answers in.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::frame::{Frame, Settings, Start};
use crate::limits::{FRAMES, READ_BYTES};
use crate::program::{Descriptors, Ended};

/// What a helper said about a run: how it ended, or why it was not started.
pub(crate) type Answer = Result<Ended, String>;

/// The helper is gone; whether the program ran is not known.
#[derive(Debug)]
pub(crate) struct Gone;

struct Outgoing {
    frame: Frame,
    /// At most two.
    descriptors: Vec<OwnedFd>,
}

impl From<Frame> for Outgoing {
    fn from(frame: Frame) -> Outgoing {
        Outgoing { frame, descriptors: Vec::new() }
    }
}

/// The server's end of the connection to one helper.
pub(crate) struct Link {
    outgoing: mpsc::Sender<Outgoing>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    next: AtomicU64,
    gone: AtomicBool,
    /// It has carried a run to its end.
    proven: AtomicBool,
}

/// What carries a link: lives until the helper or the link is gone.
pub(crate) struct Carrier {
    link: Arc<Link>,
    frames: mpsc::Receiver<Outgoing>,
}

impl Link {
    /// A link whose helper is given these settings before anything else.
    pub(crate) fn new(settings: Settings) -> (Arc<Link>, Carrier) {
        let (outgoing, frames) = mpsc::channel(FRAMES);
        // The queue is new, so there is space for the frame.
        let _ = outgoing.try_send(Frame::Settings(settings).into());
        let link = Arc::new(Link {
            outgoing,
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            gone: AtomicBool::new(false),
            proven: AtomicBool::new(false),
        });
        (link.clone(), Carrier { link, frames })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Its helper worked once, so another one is likely to.
    pub(crate) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Acquire)
    }

    /// Runs a program. Dropped, the program is killed.
    pub(crate) async fn run(
        self: Arc<Self>,
        mut start: Start,
        descriptors: Descriptors,
    ) -> Result<Answer, Gone> {
        start.id = self.next.fetch_add(1, Ordering::Relaxed);
        let Descriptors { stdin, stdout } = descriptors;
        (start.stdin, start.stdout) = (stdin.is_some(), stdout.is_some());
        let (sender, answer) = oneshot::channel();
        let waits = Waits { id: start.id, link: self.clone() };
        self.waiting.lock().insert(start.id, sender);
        // Looked at after the insertion: the one that ends the link takes all that wait.
        if self.is_gone() {
            return Err(Gone);
        }
        let descriptors = stdin.into_iter().chain(stdout).collect();
        let outgoing = Outgoing { frame: Frame::Start(start), descriptors };
        self.outgoing.send(outgoing).await.map_err(|_| Gone)?;
        let answer = answer.await.map_err(|_| Gone);
        drop(waits);
        answer
    }
}

/// A run that is waited for; dropped without an answer it is cancelled.
struct Waits {
    id: u64,
    link: Arc<Link>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        if self.link.waiting.lock().remove(&self.id).is_some() {
            // With so many frames waiting it is its own time limit that ends it.
            let _ = self.link.outgoing.try_send(Frame::Cancel(self.id).into());
        }
    }
}

impl Carrier {
    /// Carries frames both ways until the helper closes its end or says what is no frame, or until
    /// `stop`.
    pub(crate) async fn carry(self, stream: UnixStream, stop: &CancellationToken) {
        let Carrier { link, frames } = self;
        let (read, write) = stream.into_split();
        tokio::select! {
            () = take(&link, read) => {}
            () = send(frames, write) => {}
            () = stop.cancelled() => {}
        }
        link.gone.store(true, Ordering::Release);
        link.waiting.lock().clear();
    }
}

async fn take(link: &Link, mut stream: OwnedReadHalf) {
    let mut input = Vec::with_capacity(READ_BYTES);
    loop {
        input.reserve(READ_BYTES);
        match stream.read_buf(&mut input).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut at = 0;
        loop {
            let (id, answer) = match Frame::read(input.get(at..).unwrap_or_default()) {
                Ok(None) => break,
                Ok(Some((Frame::Ended(id, ended), length))) => {
                    at += length;
                    (id, Ok(ended))
                }
                Ok(Some((Frame::NotStarted(id, why), length))) => {
                    at += length;
                    (id, Err(why))
                }
                Ok(Some(_)) | Err(_) => {
                    tracing::error!("the helper that starts programs talks nonsense");
                    return;
                }
            };
            link.proven.store(true, Ordering::Release);
            if let Some(waits) = link.waiting.lock().remove(&id) {
                // The waiting caller may have gone just now.
                let _ = waits.send(answer);
            }
        }
        input.drain(..at);
    }
}

/// Writes frames, as many at once as there are; one with descriptors begins a write of its own.
async fn send(mut frames: mpsc::Receiver<Outgoing>, mut stream: OwnedWriteHalf) {
    let mut output = Vec::new();
    while let Some(mut next) = frames.recv().await {
        loop {
            if !next.descriptors.is_empty() {
                let descriptors = std::mem::take(&mut next.descriptors);
                let mut bytes = Vec::new();
                next.frame.write(&mut bytes);
                let sent = async {
                    stream.write_all(&output).await?;
                    let count = send_with(&stream, &bytes, &descriptors).await?;
                    stream.write_all(bytes.get(count..).unwrap_or_default()).await
                };
                if sent.await.is_err() {
                    return;
                }
                output.clear();
            } else {
                next.frame.write(&mut output);
            }
            match frames.try_recv() {
                Ok(more) if output.len() < READ_BYTES => next = more,
                Ok(more) => {
                    if stream.write_all(&output).await.is_err() {
                        return;
                    }
                    output.clear();
                    next = more;
                }
                Err(_) => break,
            }
        }
        if stream.write_all(&output).await.is_err() {
            return;
        }
        output.clear();
    }
}

async fn send_with(
    stream: &OwnedWriteHalf,
    bytes: &[u8],
    descriptors: &[OwnedFd],
) -> io::Result<usize> {
    let stream: &UnixStream = stream.as_ref();
    let rights: Vec<BorrowedFd<'_>> = descriptors.iter().map(OwnedFd::as_fd).collect();
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&rights));
            let slices = [IoSlice::new(bytes)];
            Ok(rustix::net::sendmsg(stream, &slices, &mut control, SendFlags::NOSIGNAL)?)
        })
        .await
}
