use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::listen;
use entrepot_net::server::{Listening, Server, ServerShared};
use entrepot_nouns::{AuthMethod, Env, Secret};
use parking_lot::Mutex;
use russh::ChannelId;
use russh::keys::PublicKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::process::Command;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Certificate;
use crate::algorithms::Preset;
use crate::client::{Arrival, ClientOptions, Credential, HostKeyPins, SshClient};
use crate::keys;

mod crowds;
mod drained;
mod hostile;
mod rounds;

const PASSWORD: &str = "correct horse";

/// What the toys were told, and how they behave.
#[derive(Debug, Default)]
struct Script {
    /// Lines of keys that may log in.
    keys: Vec<String>,
    /// A password must follow a key.
    both: bool,
    seen: Mutex<Vec<String>>,
    /// Who came, and with which algorithms.
    came: Mutex<Vec<String>>,
    meters: Mutex<Vec<Arc<SessionMeter>>>,
    ended: Mutex<Vec<Summary>>,
    /// What an unauthenticated connection is turned away with.
    unwelcome: Option<&'static str>,
    /// How long a password waits to be compared, if not at once.
    hashing: Option<Duration>,
    /// Bytes between two key exchanges, if few.
    rekey_bytes: Option<usize>,
}

/// Echoes what it gets on a channel.
struct Toy {
    script: Arc<Script>,
    meter: Arc<SessionMeter>,
    key_done: bool,
    /// Pieces that it has not sent yet.
    pieces: usize,
}

impl Toy {
    fn refused(&mut self) -> Verdict {
        Verdict::Refused { next: self.methods(), end: false }
    }

    fn note(&self, what: impl Into<String>) {
        self.script.seen.lock().push(what.into());
    }
}

impl Service for Toy {
    fn methods(&mut self) -> Vec<AuthMethod> {
        vec![AuthMethod::PublicKey, AuthMethod::Password]
    }

    async fn greeted(&mut self) -> Result<(), String> {
        self.script.came.lock().push(self.meter.algorithms().to_owned());
        self.script.unwelcome.map_or(Ok(()), |sentence| Err(sentence.to_owned()))
    }

    async fn offered(&mut self, _user: &str, key: &PublicKey) -> bool {
        let keys = self.script.keys.iter().map(|line| keys::public(line).unwrap());
        keys.into_iter().any(|known| known.key_data() == key.key_data())
    }

    async fn public_key(&mut self, user: &str, key: &PublicKey, algorithm: &str) -> Verdict {
        self.note(format!("{user} signed with {algorithm}"));
        match (self.offered(user, key).await, self.script.both) {
            (true, true) => {
                self.key_done = true;
                Verdict::Partial { next: vec![AuthMethod::Password] }
            }
            (true, false) => Verdict::Granted,
            _ => self.refused(),
        }
    }

    async fn certificate(&mut self, user: &str, certificate: &Certificate) -> Verdict {
        self.note(format!("{user} has {} of {:?}", certificate.key_id, certificate.principals));
        if certificate.principals.iter().any(|principal| principal == user) {
            Verdict::Granted
        } else {
            self.refused()
        }
    }

    async fn asked(&mut self, _user: &str) -> Vec<AuthMethod> {
        vec![AuthMethod::Password]
    }

    async fn answers(&mut self, user: &str, given: &[(AuthMethod, Secret)]) -> Verdict {
        match given {
            [(AuthMethod::Password, password)] => self.password(user, password).await,
            _ => self.refused(),
        }
    }

    async fn password(&mut self, user: &str, password: &Secret) -> Verdict {
        // In virtual time, or for ever.
        if let Some(time) = self.script.hashing {
            let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
        }
        let right = user == "anna" && password.expose() == PASSWORD.as_bytes();
        if right && (self.key_done || !self.script.both) {
            Verdict::Granted
        } else {
            self.refused()
        }
    }

    async fn logged_in(&mut self, _link: Link) -> Result<(), String> {
        self.note(format!("logged in with {}", self.meter.client()));
        Ok(())
    }

    async fn start(&mut self, _channel: ChannelId, program: Program<'_>) -> Started {
        match program {
            Program::Subsystem("sftp") => Started::Running,
            Program::Subsystem(_) => Started::Failed,
            _ => Started::Declined("a toy only echoes"),
        }
    }

    async fn data(&mut self, data: &[u8], out: &mut Replies<'_>) {
        assert_ne!(data, b"boom", "a bug of the toy");
        if data == drained::PIECES_PLEASE {
            self.pieces = drained::PIECES;
            return drained::send_a_piece(&mut self.pieces, out);
        }
        out.send(Bytes::copy_from_slice(data));
    }

    async fn writable(&mut self, out: &mut Replies<'_>) {
        drained::send_a_piece(&mut self.pieces, out);
    }

    async fn eof(&mut self, out: &mut Replies<'_>) {
        self.note("eof");
        out.finish(0);
    }

    async fn closed(&mut self, _channel: ChannelId) {
        self.note("closed");
    }

    fn forwarding_refused(&mut self, what: &'static str) {
        self.note(what);
    }

    async fn ended(self, summary: &Summary) {
        self.script.ended.lock().push(summary.clone());
    }
}

struct Toys(Arc<Script>);

impl Services for Toys {
    type Service = Toy;

    fn admits(&self, _: SocketAddr) -> bool {
        true
    }

    fn connect(&self, peer: SocketAddr, meter: &Arc<SessionMeter>) -> Toy {
        self.0.came.lock().push(peer.ip().to_string());
        self.0.meters.lock().push(Arc::clone(meter));
        Toy { script: Arc::clone(&self.0), meter: Arc::clone(meter), key_done: false, pieces: 0 }
    }
}

fn config() -> (SshConfig, String) {
    let pair = keys::generate(&Env::real(), "host").unwrap();
    let options = SshOptions {
        banner: "Private.\nGo away.\n".to_owned(),
        admission: Admission {
            proxies: vec!["127.0.0.2/32".parse().unwrap()],
            ..Admission::default()
        },
        ..SshOptions::new(vec![pair.private])
    };
    (SshConfig::new(&options).unwrap(), pair.public)
}

/// A toy on an in-memory stream.
struct Pair {
    script: Arc<Script>,
    host_key: String,
    meter: Arc<SessionMeter>,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Pair {
    fn start(script: Script) -> (Pair, DuplexStream) {
        let (mut config, host_key) = config();
        if let Some(bytes) = script.rekey_bytes {
            config = config.with_rekey_bytes(bytes);
        }
        let (client, server) = duplex(1 << 20);
        let script = Arc::new(script);
        let meter = Arc::new(SessionMeter::new(Env::real()));
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let toy = Toys(Arc::clone(&script)).connect(peer, &meter);
        let unauthenticated =
            UnauthenticatedConnections::default().admit(peer.ip(), &[], &meter).unwrap();
        let guest = Guest { peer, meter: Arc::clone(&meter), unauthenticated };
        let stop = CancellationToken::new();
        let drain = Drain { stop: stop.clone(), limit: Duration::from_secs(600) };
        let server = tokio::spawn(converse(config, server, guest, toy, drain));
        (Pair { script, host_key, meter, stop, server }, client)
    }

    fn options(&self, credential: Credential) -> ClientOptions {
        ClientOptions {
            user: "anna".to_owned(),
            credential,
            pins: HostKeyPins::Pinned(vec![self.host_key.clone()]),
            preset: Preset::Modern,
            cipher: None,
            software: None,
            env: Env::real(),
        }
    }

    async fn finished(self) -> Summary {
        self.server.await.unwrap();
        self.script.ended.lock().pop().unwrap()
    }
}

fn password(text: &str) -> Credential {
    Credential::Password(Secret::new(text))
}

async fn logged_in() -> (Pair, SshClient) {
    let (pair, stream) = Pair::start(Script::default());
    let client = SshClient::connect(stream, &pair.options(password(PASSWORD))).await.unwrap();
    (pair, client)
}

/// A receiver that passes everything on.
fn collector() -> (crate::client::Receiver, mpsc::UnboundedReceiver<Option<Vec<u8>>>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let receive = move |arrival: Arrival<'_>| {
        let message = match arrival {
            Arrival::Data(data) => Some(data.to_vec()),
            Arrival::ErrorText(_) => return,
            Arrival::End => None,
        };
        let _ = sender.send(message);
    };
    (Box::new(receive), receiver)
}

#[tokio::test]
async fn bytes_come_back_through_every_layer() {
    let (pair, client) = logged_in().await;
    let (receiver, mut arrived) = collector();
    let channel = client.open_sftp(receiver).await.unwrap();
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    let sending = {
        let sent = Bytes::from(sent.clone());
        tokio::spawn(async move {
            channel.send(sent).await.unwrap();
            channel.end().await.unwrap();
        })
    };
    let mut back = Vec::new();
    while let Some(Some(piece)) = arrived.recv().await {
        back.extend(piece);
    }
    assert!(back == sent);
    sending.await.unwrap();
    assert!(pair.meter.bytes_in() > 3_000_000 && pair.meter.bytes_out() > 3_000_000);
    assert_eq!(keys::fingerprint(client.host_key()), {
        let pinned = keys::public(&pair.host_key).unwrap();
        keys::fingerprint(&pinned)
    });
    client.close().await;
    let seen = pair.script.seen.lock().clone();
    assert_eq!(seen, ["logged in with SSH-2.0-Entrepot", "eof"]);
    assert_eq!(pair.finished().await.reason, "the client ended the connection");
}

#[tokio::test]
async fn a_key_that_is_not_pinned_is_refused_before_anything_is_told() {
    let (pair, stream) = Pair::start(Script::default());
    let mut options = pair.options(password(PASSWORD));
    let other = keys::generate(&Env::real(), "other").unwrap();
    options.pins = HostKeyPins::Pinned(vec![other.public, other.fingerprint]);
    let error = SshClient::connect(stream, &options).await.unwrap_err();
    let shown = keys::fingerprint(&keys::public(&pair.host_key).unwrap());
    assert_eq!(error.code(), "EP0230");
    assert!(error.to_string().contains(&shown), "{error}");
    assert!(pair.script.seen.lock().is_empty());

    let (pair, stream) = Pair::start(Script::default());
    let mut options = pair.options(password(PASSWORD));
    let fingerprint = keys::fingerprint(&keys::public(&pair.host_key).unwrap());
    options.pins = HostKeyPins::Pinned(vec![fingerprint]);
    SshClient::connect(stream, &options).await.unwrap();
}

#[tokio::test]
async fn three_wrong_passwords_end_the_connection() {
    let (pair, stream) = Pair::start(Script::default());
    let pins = pair.options(password("wrong"));
    let error = SshClient::connect(stream, &pins).await.unwrap_err();
    assert_eq!(error.code(), "EP0231");
    assert_eq!(pair.finished().await.reason, "the connection was cut");

    let (pair, stream) = Pair::start(Script::default());
    let config = russh::client::Config::default();
    let mut handle =
        russh::client::connect_stream(Arc::new(config), stream, Trusting).await.unwrap();
    for _ in 0..2 {
        let answer = handle.authenticate_password("anna", "wrong").await.unwrap();
        assert!(!answer.success());
    }
    let _third = handle.authenticate_password("anna", "wrong").await;
    let after = handle.authenticate_password("anna", PASSWORD).await;
    assert!(!after.is_ok_and(|answer| answer.success()), "the right one comes too late");
    assert_eq!(pair.finished().await.reason, "too many attempts to log in");
}

/// A raw client that believes any server.
struct Trusting;

impl russh::client::Handler for Trusting {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        _key: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        Ok(true)
    }
}

#[tokio::test]
async fn keys_log_in_and_may_need_a_password_behind() {
    let pair = keys::generate(&Env::real(), "anna").unwrap();
    let script = || Script { keys: vec![pair.public.clone()], ..Script::default() };
    let key = || Credential::Key(pair.private.clone());
    let (server, stream) = Pair::start(script());
    SshClient::connect(stream, &server.options(key())).await.unwrap();
    assert_eq!(server.script.seen.lock()[0], "anna signed with ssh-ed25519");

    let (server, stream) = Pair::start(Script { both: true, ..script() });
    let error = SshClient::connect(stream, &server.options(key())).await.unwrap_err();
    assert_eq!(error.code(), "EP0231", "a key alone is half");

    let (server, stream) = Pair::start(Script { both: true, ..script() });
    let both =
        Credential::KeyAndPassword { key: pair.private.clone(), password: Secret::new(PASSWORD) };
    SshClient::connect(stream, &server.options(both)).await.unwrap();
    assert_eq!(server.script.seen.lock().len(), 2);

    let (server, stream) = Pair::start(Script::default());
    let error = SshClient::connect(stream, &server.options(key())).await.unwrap_err();
    assert_eq!(error.code(), "EP0231");
}

#[tokio::test]
async fn keyboard_interactive_is_a_password_too() {
    let (_pair, stream) = Pair::start(Script::default());
    let config = Arc::new(russh::client::Config::default());
    let mut handle = russh::client::connect_stream(config, stream, Trusting).await.unwrap();
    let mut answer =
        handle.authenticate_keyboard_interactive_start("anna", None::<String>).await.unwrap();
    for _ in 0..3 {
        answer = match answer {
            russh::client::KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                let answers = prompts.iter().map(|_| PASSWORD.to_owned()).collect();
                handle.authenticate_keyboard_interactive_respond(answers).await.unwrap()
            }
            russh::client::KeyboardInteractiveAuthResponse::Success => return,
            russh::client::KeyboardInteractiveAuthResponse::Failure { .. } => break,
        };
    }
    panic!("keyboard-interactive was refused");
}

#[tokio::test]
async fn requests_are_answered_channels_are_counted_forwarding_is_refused() {
    let (pair, stream) = Pair::start(Script::default());
    let config = Arc::new(russh::client::Config::default());
    let mut handle = russh::client::connect_stream(config, stream, Trusting).await.unwrap();
    assert!(handle.authenticate_password("anna", PASSWORD).await.unwrap().success());
    let mut first = handle.channel_open_session().await.unwrap();
    first.request_pty(true, "xterm", 80, 24, 0, 0, &[]).await.unwrap();
    assert!(matches!(first.wait().await, Some(russh::ChannelMsg::Failure)));
    first.set_env(true, "LANG", "C").await.unwrap();
    assert!(matches!(first.wait().await, Some(russh::ChannelMsg::Failure)));
    first.request_subsystem(true, "other").await.unwrap();
    assert!(matches!(first.wait().await, Some(russh::ChannelMsg::Failure)));
    first.request_subsystem(true, "sftp").await.unwrap();
    assert!(matches!(first.wait().await, Some(russh::ChannelMsg::Failure)), "once a channel");

    let mut second = handle.channel_open_session().await.unwrap();
    second.exec(true, "ls").await.unwrap();
    let mut answers = Vec::new();
    while let Some(answer) = second.wait().await {
        answers.push(format!("{answer:?}"));
    }
    assert_eq!(answers[0], "Success");
    assert!(answers[1].contains("a toy only echoes"), "{answers:?}");
    assert_eq!(answers[2], "ExitStatus { exit_status: 1 }");
    assert_eq!(answers[3..], ["Eof", "Close"]);

    let mut open = Vec::new();
    for _ in 1..limits::CHANNELS {
        open.push(handle.channel_open_session().await.unwrap());
    }
    handle.channel_open_session().await.unwrap_err();
    open.pop().unwrap().close().await.unwrap();
    handle.send_ping().await.unwrap();
    handle.channel_open_session().await.unwrap();

    let forward = handle.channel_open_direct_tcpip("10.0.0.1", 80, "127.0.0.1", 1).await;
    assert!(forward.is_err());
    assert!(handle.tcpip_forward("0.0.0.0", 0).await.is_err());
    let seen = pair.script.seen.lock().clone();
    assert_eq!(seen[1..], ["closed", "direct-tcpip", "tcpip-forward"]);
}

#[tokio::test]
async fn an_ended_session_is_told_why_and_is_closed() {
    let (pair, client) = logged_in().await;
    let (receiver, mut arrived) = collector();
    let _channel = client.open_sftp(receiver).await.unwrap();
    pair.meter.end(EndClass::Decision, "the account was disabled");
    let gone = tokio::time::timeout(Duration::from_secs(1), arrived.recv()).await;
    assert_eq!(gone.unwrap(), Some(None));
    assert_eq!(pair.finished().await.reason, "the account was disabled");
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_all_the_same() {
    let (pair, stream) = Pair::start(Script::default());
    let stuck = Arc::new(AtomicBool::new(false));
    let stream = Stuck(stream, Arc::clone(&stuck));
    let client = SshClient::connect(stream, &pair.options(password(PASSWORD))).await.unwrap();
    let (receiver, _arrived) = collector();
    let channel = client.open_sftp(receiver).await.unwrap();
    stuck.store(true, Ordering::SeqCst);
    // The echo fills the in-memory stream, so that the server waits in a write.
    let sending = tokio::spawn(async move { channel.send(Bytes::from(vec![1; 8 << 20])).await });
    while pair.meter.bytes_out() < 1 << 20 {
        tokio::task::yield_now().await;
    }
    pair.meter.end(EndClass::Decision, "enough");
    let summary = tokio::time::timeout(Duration::from_secs(2), pair.finished()).await;
    assert_eq!(summary.unwrap().reason, "enough");
    sending.abort();
}

/// Stops reading on command.
struct Stuck(DuplexStream, Arc<AtomicBool>);

impl AsyncRead for Stuck {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.1.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stuck {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_has_ten_seconds_and_a_slow_one_thirty() {
    let start = tokio::time::Instant::now();
    let (pair, silent) = Pair::start(Script::default());
    assert_eq!(pair.finished().await.reason, "no identification line came in time");
    assert_eq!(start.elapsed(), limits::IDENTIFICATION_TIME);
    drop(silent);

    let start = tokio::time::Instant::now();
    let (pair, mut slow) = Pair::start(Script::default());
    slow.write_all(b"SSH-2.0-slow\r\n").await.unwrap();
    assert_eq!(pair.finished().await.reason, "nobody logged in in time");
    let took = start.elapsed();
    assert!(took >= limits::LOGIN_TIME && took < limits::LOGIN_TIME + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_our_key_exchange_gets_it() {
    let (_pair, mut waiting) = Pair::start(Script::default());
    waiting.write_all(b"SSH-2.0-waiting\r\n").await.unwrap();
    let start = tokio::time::Instant::now();
    let mut line = [0; 18];
    waiting.read_exact(&mut line).await.unwrap();
    assert_eq!(&line, b"SSH-2.0-Entrepot\r\n");
    let mut head = [0; 6];
    waiting.read_exact(&mut head).await.unwrap();
    assert_eq!(head[5], 20, "KEXINIT, and no second identification line");
    assert!(start.elapsed() <= Duration::from_millis(201));
}

#[tokio::test]
async fn a_client_without_gcm_gets_what_it_has() {
    for cipher in ["chacha20-poly1305@openssh.com", "aes256-ctr"] {
        let (pair, stream) = Pair::start(Script::default());
        let options =
            ClientOptions { cipher: Some(cipher.to_owned()), ..pair.options(password(PASSWORD)) };
        SshClient::connect(stream, &options).await.unwrap();
    }
}

#[tokio::test]
async fn a_packet_too_long_for_clear_text_ends_the_connection_unread() {
    let (pair, mut stream) = Pair::start(Script::default());
    stream.write_all(b"SSH-2.0-bad\r\n").await.unwrap();
    stream.write_all(&200_000u32.to_be_bytes()).await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.starts_with(b"SSH-2.0-Entrepot\r\n"));
    let reason = pair.finished().await.reason;
    assert!(reason.contains("a packet before the key exchange is too long"), "{reason}");
}

#[tokio::test]
async fn stopping_ends_the_idle_at_once_and_waits_for_the_busy() {
    let (pair, client) = logged_in().await;
    pair.stop.cancel();
    assert_eq!(pair.finished().await.reason, "the server is stopping");
    drop(client);

    let (pair, client) = logged_in().await;
    let (receiver, mut arrived) = collector();
    let channel = client.open_sftp(receiver).await.unwrap();
    let running = pair.meter.running();
    pair.stop.cancel();
    channel.send(Bytes::from_static(b"still served")).await.unwrap();
    assert_eq!(arrived.recv().await.unwrap().unwrap(), b"still served");
    assert!(pair.meter.ended().is_none());
    drop(running);
    assert_eq!(pair.finished().await.reason, "the server is stopping");
}

/// A toy on a real socket, for real clients.
struct Toyshop {
    script: Arc<Script>,
    address: SocketAddr,
    host_key: String,
    config: watch::Sender<SshConfig>,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Toyshop {
    fn open(script: Script) -> Toyshop {
        Toyshop::with(script, UnauthenticatedConnections::default(), Env::real())
    }

    fn with(script: Script, unauthenticated: UnauthenticatedConnections, env: Env) -> Toyshop {
        let (config, host_key) = config();
        let (config, shown) = watch::channel(config);
        let acceptor = listen::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = acceptor.local_address();
        let script = Arc::new(script);
        let stop = CancellationToken::new();
        let drain = Duration::from_secs(1);
        let shared =
            ServerShared { unauthenticated, env, drain, stopping: CancellationToken::new() };
        let listening = Listening { acceptor, config: shown, shared };
        let server = Server { listening, protocol: Ssh(Toys(Arc::clone(&script))) };
        let server = tokio::spawn(server.run(stop.clone()));
        Toyshop { script, address, host_key, config, stop, server }
    }

    /// OpenSSH's client with nothing of the machine's own configuration.
    fn ssh(&self, home: &Path) -> Command {
        let known = home.join("known_hosts");
        let port = self.address.port();
        let line = keys::known_hosts_line("127.0.0.1", port, &self.host_key).unwrap();
        std::fs::write(&known, line + "\n").unwrap();
        let mut command = Command::new("ssh");
        command
            .args(["-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", known.display()))
            .args(["-o", "StrictHostKeyChecking=yes", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn close(self) {
        self.stop.cancel();
        self.server.await.unwrap();
    }
}

#[tokio::test]
async fn openssh_logs_in_with_each_kind_of_key_and_strict_key_exchange() {
    let home = tempfile::tempdir().unwrap();
    let kinds = [
        ("ed25519", "256", "ssh-ed25519"),
        ("ecdsa", "256", "ecdsa-sha2-nistp256"),
        ("rsa", "2048", "rsa-sha2-512"),
    ];
    let mut lines = Vec::new();
    for (kind, bits, _) in kinds {
        let file = home.path().join(kind);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", kind, "-b", bits, "-N", "", "-f"])
            .arg(&file)
            .status();
        assert!(made.await.unwrap().success());
        lines.push(std::fs::read_to_string(file.with_extension("pub")).unwrap());
    }
    let shop = Toyshop::open(Script { keys: lines, ..Script::default() });
    for (kind, _, algorithm) in kinds {
        let output = shop
            .ssh(home.path())
            .arg("-vv")
            .arg("-i")
            .arg(home.path().join(kind))
            .args(["anna@127.0.0.1", "ls"])
            .output();
        let output = output.await.unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("a toy only echoes"), "{told}");
        assert!(told.contains("Private.") && told.contains("Go away."), "{told}");
        assert!(told.contains("kex-strict-s-v00@openssh.com"), "{told}");
        assert!(told.contains("server-sig-algs=<ssh-ed25519,"), "{told}");
        let gcm = "cipher: aes128-gcm@openssh.com MAC: <implicit> compression: none";
        assert!(told.contains(gcm), "also where the client would like chacha20 better: {told}");
        let seen = shop.script.seen.lock().clone();
        assert!(seen.contains(&format!("anna signed with {algorithm}")), "{seen:?}");
    }
    shop.close().await;
}

#[tokio::test]
async fn openssh_is_told_when_a_ssh_rsa_signature_or_nothing_common_is_offered() {
    let home = tempfile::tempdir().unwrap();
    let shop = Toyshop::open(Script::default());
    let weak =
        ["KexAlgorithms=diffie-hellman-group14-sha1", "Ciphers=aes128-cbc", "Compression=yes"];
    for (option, refused) in weak.into_iter().zip([true, true, false]) {
        let mut ssh = shop.ssh(home.path());
        let output = ssh.args(["-v", "-o", option, "anna@127.0.0.1", "ls"]).output().await.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(told.contains("Unable to negotiate"), refused, "{option}: {told}");
        assert!(!told.contains("compression: zlib"), "{told}");
    }
    shop.close().await;
}

impl Toyshop {
    fn options(&self) -> ClientOptions {
        ClientOptions {
            user: "anna".to_owned(),
            credential: password(PASSWORD),
            pins: HostKeyPins::Pinned(vec![self.host_key.clone()]),
            preset: Preset::Modern,
            cipher: Some("aes128-gcm@openssh.com".to_owned()),
            software: None,
            env: Env::real(),
        }
    }

    fn came(&self, what: &str) -> bool {
        self.script.came.lock().iter().any(|came| came == what)
    }
}

#[tokio::test]
async fn the_algorithms_of_a_connection_are_known_before_login() {
    let shop = Toyshop::open(Script::default());
    let stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
    SshClient::connect(stream, &shop.options()).await.unwrap();
    assert!(
        shop.came("mlkem768x25519-sha256 ssh-ed25519 aes128-gcm@openssh.com"),
        "{:?}",
        shop.script.came
    );
    shop.close().await;
}

#[tokio::test]
async fn an_unwelcome_client_is_told_why_and_tries_nothing() {
    let sentence = "this server takes toys of version 2 and newer";
    let shop = Toyshop::open(Script { unwelcome: Some(sentence), ..Script::default() });
    let home = tempfile::tempdir().unwrap();
    let output = shop.ssh(home.path()).args(["anna@127.0.0.1", "x"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(255));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(sentence), "{told}");
    assert!(!shop.script.seen.lock().iter().any(|seen| seen.contains("signed")));
    shop.close().await;
}

#[tokio::test]
async fn a_listed_proxy_says_for_whom_it_connects_and_others_cannot() {
    let shop = Toyshop::open(Script::default());
    let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc6\x33\x64\x07\x7f\0\0\x01\x30\x39\0\x16";
    let proxied = |first: &'static [u8]| async move {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut stream = socket.connect(shop.address).await.unwrap();
        stream.write_all(first).await.unwrap();
        stream
    };
    let stream = proxied(header).await;
    let client = SshClient::connect(stream, &shop.options()).await.unwrap();
    assert!(shop.came("198.51.100.7"));
    client.close().await;
    // A listed proxy that says nothing of a client is refused without our identification line.
    let mut answer = Vec::new();
    let mut stream = proxied(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n").await;
    assert_eq!(stream.read_to_end(&mut answer).await.unwrap_or(0), 0);
    // From elsewhere a header is no SSH.
    let mut stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
    stream.write_all(header).await.unwrap();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!shop.came("127.0.0.2"));
    assert_eq!(shop.script.ended.lock().len(), 2, "the header alone is no session");
    shop.close().await;
}

#[tokio::test]
async fn a_new_configuration_holds_for_new_connections_and_cuts_none() {
    let shop = Toyshop::open(Script::default());
    let stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
    let client = SshClient::connect(stream, &shop.options()).await.unwrap();
    let (other, host_key) = config();
    shop.config.send_replace(other);
    let stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
    let options = ClientOptions { pins: HostKeyPins::Pinned(vec![host_key]), ..shop.options() };
    SshClient::connect(stream, &options).await.unwrap();
    assert!(!client.is_closed());
    shop.close().await;
}
