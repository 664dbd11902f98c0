//! Entry points of the fuzzer: the adapter with everything real behind it but the network.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::meter::SessionMeter;
use entrepot_net::server::Drain;
use entrepot_nouns::{AccountId, Env};
use entrepot_ssh::server::{Guest, SshConfig, converse};
use entrepot_vfs::{ListenerContext, Session};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::attributes::Ownership;
use crate::connection::ConnectionShared;
use crate::exec::{self, Command, Ends};
use crate::limits::{QUEUE_BYTES, QUEUE_PIECES};
use crate::machine::{Driver, Machine};
use crate::out::{Out, Outbox};
use crate::queue::Piece;
use crate::service::SftpService;
use entrepot_sftp_proto::ClientSoftware;

/// Feeds one channel of a client that has logged in. The first byte chooses SFTP (even) or a
/// command (odd), and how full the client's window is; the second the size of the pieces. Of a
/// command the third is the length of its line; the rest is what the client sends.
///
/// # Panics
/// If something stays open, or an answer is no frame: what the fuzzer looks for.
pub async fn channel(session: Session, env: &Env, bytes: &[u8]) {
    let Some(([how, piece], stream)) = bytes.split_first_chunk::<2>() else { return };
    let account = Arc::new(ConnectionShared {
        session,
        meter: Arc::new(SessionMeter::new(env.clone())),
        env: env.clone(),
        owner: Ownership::new("anna", None, env.new_id::<AccountId>()),
        is_openssh: how & 2 != 0,
        software: ClientSoftware::of(if how & 4 == 0 { "" } else { "SSH-2.0-libssh_0.10.6" }),
        open: Arc::default(),
        hashing: tokio::sync::Mutex::default(),
    });
    let piece = usize::from(*piece) + 1;
    match how & 1 {
        0 => sftp(&account, *how, piece, stream).await,
        _ => command(&account, piece, stream).await,
    }
    let open = account.open.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(open, 0, "handles stay open");
    assert_eq!(Arc::strong_count(&account), 1, "the channel is still in use");
}

/// A client's side that is full now and then.
#[derive(Default)]
struct Window {
    answers: Vec<u8>,
    pattern: u8,
    asked: std::cell::Cell<u32>,
}

impl Out for Window {
    fn send(&mut self, answer: Bytes) {
        self.answers.extend_from_slice(&answer);
    }

    fn tell(&mut self, _: Bytes) {}

    fn is_full(&self) -> bool {
        self.asked.set(self.asked.get().wrapping_add(1));
        self.pattern.rotate_right(self.asked.get() % 8) & 1 != 0
    }
}

async fn sftp(account: &Arc<ConnectionShared>, how: u8, piece: usize, stream: &[u8]) {
    let mut machine = Machine::new(Arc::clone(account), CancellationToken::new());
    let mut window = Window { pattern: how >> 2, ..Window::default() };
    let mut driver = if how & 4 == 0 { Driver::SessionTask } else { Driver::ChannelTask };
    'channel: for mut input in stream.chunks(piece) {
        while !input.is_empty() || (machine.wants_own_task() && driver == Driver::SessionTask) {
            if machine.wants_own_task() {
                driver = Driver::ChannelTask;
            }
            if machine.receive(&mut input, driver, &mut window).await.is_err() {
                break 'channel;
            }
        }
        machine.resume(&mut window).await;
        check_frames(&mut window.answers);
    }
    machine.finish(&mut window).await;
    check_frames(&mut window.answers);
    machine.end("the input has ended").await;
}

/// Each answer is a whole frame.
fn check_frames(answers: &mut Vec<u8>) {
    let mut rest = answers.as_slice();
    while let Some((head, behind)) = rest.split_first_chunk::<4>() {
        let len = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
        assert!(len <= behind.len(), "an answer is cut off");
        rest = behind.get(len..).unwrap_or_default();
    }
    assert!(rest.is_empty(), "something follows the answers");
    answers.clear();
}

async fn command(account: &Arc<ConnectionShared>, piece: usize, stream: &[u8]) {
    let Some((len, rest)) = stream.split_first() else { return };
    let (line, input) = rest.split_at(usize::from(*len).min(rest.len()));
    let Some(command) = exec::parse(line).filter(|command| *command != Command::Sftp) else {
        return;
    };
    let (sender, pieces) = mpsc::channel(QUEUE_PIECES);
    let (outbox, gone) = (Outbox::default(), CancellationToken::new());
    let ends = Ends { pieces, outbox: outbox.clone(), gone };
    let room = Arc::new(Semaphore::new(QUEUE_BYTES));
    let feed = async move {
        for piece in input.chunks(piece) {
            let bytes = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let Ok(permit) = Arc::clone(&room).acquire_many_owned(bytes).await else { return };
            let data = Bytes::copy_from_slice(piece);
            if sender.send(Piece::Data(data, permit)).await.is_err() {
                return;
            }
        }
        // Whoever is gone by now needs no end.
        let _ = sender.send(Piece::Eof).await;
    };
    let run = exec::run(command, Arc::clone(account), ends);
    let ((), (), status) = tokio::join!(feed, run, outbox.discard());
    assert!(status <= 1, "an exit status of {status}");
}

/// Feeds the bytes of an unauthenticated client to a whole connection, then cuts it.
///
/// # Panics
/// As the fuzzer looks for.
pub async fn connection(context: Arc<ListenerContext>, config: SshConfig, bytes: &[u8]) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 2222));
    let meter = Arc::new(SessionMeter::new(context.env.clone()));
    let Ok(unauthenticated) = UnauthenticatedConnections::default().admit(peer.ip(), &[], &meter)
    else {
        return;
    };
    let service = SftpService::new(Arc::clone(&context), peer, Arc::clone(&meter));
    let guest = Guest { peer, meter, unauthenticated };
    let drain = Drain { stop: CancellationToken::new(), limit: Duration::ZERO };
    let talk = async move {
        // The server may hang up first.
        let _ = theirs.write_all(bytes).await;
        let _ = theirs.shutdown().await;
        let mut answer = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut answer).await;
        assert!(answer.starts_with(b"SSH-2.0-") || answer.is_empty(), "no identification");
    };
    tokio::join!(converse(config, ours, guest, service, drain), talk);
}
