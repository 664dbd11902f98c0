//! Control connections on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use entrepot_nouns::Env;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::guard::UnauthenticatedConnections;
use crate::listen::{self, TcpAcceptor};
use crate::server::{self, Admission, Drain, Listening, ServerShared};
use crate::tls::tests::{Client, options};
use crate::tls::{TlsConfig, TlsVersion};

const SOON: Duration = Duration::from_secs(20);

fn acceptor() -> TcpAcceptor {
    let acceptor = listen::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket::keep_urgent_inline(&acceptor).unwrap();
    acceptor
}

async fn pair() -> (Control, TcpStream) {
    let acceptor = acceptor();
    let client = TcpStream::connect(acceptor.local_address()).await.unwrap();
    let (server, peer) = acceptor.accept().await;
    let meter = Arc::new(SessionMeter::new(Env::simulated(1)));
    let local = server.local_addr().unwrap();
    (Control::new(server, ControlEnds { peer, local }, meter), client)
}

async fn read(stream: &mut (impl AsyncRead + Unpin), length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    timeout(SOON, stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    bytes
}

#[tokio::test]
async fn tls_begins_and_ends_in_place() {
    let options = options();
    let config = TlsConfig::new(&options, &Env::real()).unwrap();
    let (mut control, mut client) = pair().await;
    client.write_all(b"AUTH TLS\r\n").await.unwrap();
    assert_eq!(read(&mut control, 10).await, b"AUTH TLS\r\n");
    control.write_all(b"234").await.unwrap();
    read(&mut client, 3).await;
    let session = config.session();
    let program = Client::new(&options, TlsVersion::Tls13);
    let (server, client) = tokio::join!(control.start_tls(&session), program.connect(client));
    server.unwrap();
    let mut client = client.unwrap();
    assert_eq!(control.meter().stage(), Stage::Encrypted);
    assert_eq!(control.tls_info().unwrap().server_name.as_deref(), Some("ftp.example.org"));
    client.write_all(b"CCC\r\n").await.unwrap();
    assert_eq!(read(&mut control, 5).await, b"CCC\r\n");
    let (mut io, mut connection) = client.into_inner();
    connection.send_close_notify();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    io.write_all(&[&bytes[..], b"PWD\r\n"].concat()).await.unwrap();
    control.stop_tls().await.unwrap();
    assert!(control.tls_info().is_none());
    assert_eq!(read(&mut control, 5).await, b"PWD\r\n");
    io.write_all(b"NOOP\r\n").await.unwrap();
    assert_eq!(read(&mut control, 6).await, b"NOOP\r\n");
}

#[tokio::test]
async fn what_came_in_clear_is_never_read_under_tls() {
    let options = options();
    let config = TlsConfig::new(&options, &Env::real()).unwrap();
    let (mut control, mut client) = pair().await;
    client.write_all(b"AUTH TLS\r\nUSER injected\r\n").await.unwrap();
    assert_eq!(read(&mut control, 10).await, b"AUTH TLS\r\n");
    let failed = timeout(SOON, control.start_tls(&config.session())).await.unwrap();
    assert_eq!(failed.unwrap_err().code(), "EP0247");
    let error = control.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    assert!(control.start_tls(&config.session()).await.is_err());
    // What was left over behind an end of TLS is dropped too.
    let (mut control, client) = pair().await;
    control.ahead = Bytes::from_static(b"USER injected\r\n");
    let program = Client::new(&options, TlsVersion::Tls12);
    let session = config.session();
    let (server, client) = tokio::join!(control.start_tls(&session), program.connect(client));
    server.unwrap();
    let mut client = client.unwrap();
    client.write_all(b"USER a\r\n").await.unwrap();
    assert_eq!(read(&mut control, 8).await, b"USER a\r\n");
}

/// Waits until the client's state is seen; loopback needs no more than a moment.
async fn seen(control: &Control, state: PeerState) {
    let looking = async {
        while control.peer_state() != state {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, looking).await.unwrap_or_else(|_| panic!("{:?}", control.peer_state()));
}

#[tokio::test]
async fn a_client_that_has_gone_is_seen_without_reading() {
    let (mut control, mut client) = pair().await;
    assert_eq!(control.peer_state(), PeerState::Open);
    client.write_all(b"NOOP").await.unwrap();
    seen(&control, PeerState::Open).await;
    client.shutdown().await.unwrap();
    seen(&control, PeerState::ClosedBehindBytes).await;
    assert_eq!(read(&mut control, 4).await, b"NOOP", "nothing was consumed");
    seen(&control, PeerState::Closed).await;
    let (control, client) = pair().await;
    client.set_zero_linger().unwrap();
    drop(client);
    seen(&control, PeerState::Reset).await;
}

#[tokio::test]
async fn urgent_bytes_are_read_in_line() {
    let (mut control, client) = pair().await;
    let flags = rustix::net::SendFlags::OOB;
    rustix::net::send(&client, &[0xff, 0xf4, 0xff, 0xf2], flags).unwrap();
    rustix::net::send(&client, b"ABOR\r\n", rustix::net::SendFlags::empty()).unwrap();
    assert_eq!(read(&mut control, 10).await, b"\xff\xf4\xff\xf2ABOR\r\n");
    // Python's ftplib sends the whole line urgent: its last byte comes with a read of its own.
    rustix::net::send(&client, b"ABOR\r\n", flags).unwrap();
    assert_eq!(read(&mut control, 6).await, b"ABOR\r\n");
}

#[tokio::test]
async fn an_unauthenticated_connection_sends_only_so_much_and_a_cut_wakes_its_reader() {
    let (mut control, mut client) = pair().await;
    let many = vec![b'x'; usize::try_from(UNAUTHENTICATED_BYTES).unwrap() + 1];
    let reading = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Err(error) = control.read(&mut buffer).await {
                return error.kind();
            }
        }
    };
    let (kind, _) = tokio::join!(reading, client.write_all(&many));
    assert_eq!(kind, io::ErrorKind::InvalidData);

    let (mut control, _client) = pair().await;
    let meter = Arc::clone(control.meter());
    let cutting = async {
        tokio::task::yield_now().await;
        meter.cut();
    };
    let mut byte = [0];
    let (cut, ()) = tokio::join!(control.read(&mut byte), cutting);
    assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
}

/// Greets, logs in whoever says L, is busy for whoever says B, and waits for the end.
#[derive(Default)]
struct Greeter {
    served: Arc<AtomicUsize>,
    finish: CancellationToken,
}

impl ControlSessions for Greeter {
    fn admits(&self, peer: SocketAddr) -> bool {
        peer.ip() != std::net::IpAddr::from([127, 0, 0, 66])
    }

    fn serve(&self, guest: ControlGuest) -> impl Future<Output = ()> + Send + 'static {
        let (served, finish) = (Arc::clone(&self.served), self.finish.clone());
        async move {
            let ControlGuest { mut control, unauthenticated, .. } = guest;
            served.fetch_add(1, Ordering::Relaxed);
            let meter = Arc::clone(control.meter());
            let hello = format!("220 {}\r\n", control.peer().ip());
            control.write_all(hello.as_bytes()).await.unwrap();
            control.flush().await.unwrap();
            let mut unauthenticated = Some(unauthenticated);
            let mut running = None;
            loop {
                let mut word = [0];
                tokio::select! {
                    end = meter.ending() => {
                        let line = format!("421 {}\r\n", end.reason);
                        let _ = control.write_all(line.as_bytes()).await;
                        let _ = control.flush().await;
                        return;
                    }
                    () = finish.cancelled(), if running.is_some() => running = None,
                    read = control.read(&mut word) => match (read.unwrap_or(0), &word) {
                        (1, b"L") => {
                            meter.advance(Stage::LoggedIn);
                            unauthenticated.take().unwrap().logged_in();
                        }
                        (1, b"B") => running = Some(meter.running()),
                        // It does not hear that it is to end.
                        (1, b"D") => std::future::pending().await,
                        _ => return,
                    }
                }
            }
        }
    }
}

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    finish: CancellationToken,
    served: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

fn serve(options: ControlOptions) -> Server {
    serve_in(options, UnauthenticatedConnections::default(), Env::real())
}

fn serve_in(
    options: ControlOptions,
    unauthenticated: UnauthenticatedConnections,
    env: Env,
) -> Server {
    let acceptor = acceptor();
    let (address, stop, sessions) =
        (acceptor.local_address(), CancellationToken::new(), Greeter::default());
    let (finish, served) = (sessions.finish.clone(), Arc::clone(&sessions.served));
    let shared =
        ServerShared { unauthenticated, env, drain: SOON, stopping: CancellationToken::new() };
    let listening = Listening { acceptor, config: watch::channel(options).1, shared };
    let server = server::Server { listening, protocol: ControlProtocol(sessions) };
    let task = tokio::spawn(server.run(stop.clone()));
    Server { address, stop, finish, served, task }
}

fn plain() -> ControlOptions {
    ControlOptions { admission: Arc::default(), tls: ControlTls::Off, login_time: SOON }
}

async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut text)).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn who_does_not_log_in_is_told_and_who_does_not_listen_is_cut() {
    let login_time = Duration::from_millis(50);
    let server = serve(ControlOptions { login_time, ..plain() });
    let mut known = TcpStream::connect(server.address).await.unwrap();
    known.write_all(b"L").await.unwrap();
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let mut deaf = TcpStream::connect(server.address).await.unwrap();
    deaf.write_all(b"D").await.unwrap();
    let told = "220 127.0.0.1\r\n421 nobody logged in in time\r\n";
    assert_eq!(rest(&mut slow).await, told);
    assert_eq!(rest(&mut deaf).await, "220 127.0.0.1\r\n");
    server.stop.cancel();
    assert_eq!(rest(&mut known).await, "220 127.0.0.1\r\n421 the server is stopping\r\n");
    timeout(SOON, server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stopping_server_waits_for_transfers() {
    let server = serve(plain());
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    busy.write_all(b"LB").await.unwrap();
    assert_eq!(read(&mut busy, 15).await, b"220 127.0.0.1\r\n");
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(b"L").await.unwrap();
    read(&mut idle, 15).await;
    server.stop.cancel();
    assert_eq!(rest(&mut idle).await, "421 the server is stopping\r\n");
    assert!(!server.task.is_finished());
    server.finish.cancel();
    assert_eq!(rest(&mut busy).await, "421 the server is stopping\r\n");
    timeout(SOON, server.task).await.unwrap().unwrap();
    assert_eq!(server.served.load(Ordering::Relaxed), 2);
}

/// Virtual time: minutes pass while the transfer of both stands still.
#[tokio::test(start_paused = true)]
async fn a_transfer_slower_than_the_least_rate_ends_its_session() {
    let env = Env::simulated(1);
    let drain = Drain { stop: CancellationToken::new(), limit: SOON };
    let watched = |least| {
        let meter = Arc::new(SessionMeter::new(env.clone()));
        meter.advance(Stage::LoggedIn);
        meter.set_least_rate(least);
        meter
    };
    let (slow, free, idle) = (watched(Some(1024)), watched(None), watched(Some(1024)));
    let _running = [slow.running(), free.running()];
    let _waited_for = idle.waited_for();
    assert!(idle.is_busy());
    let watching = async {
        let watch = |meter| drain.cut_when_over(meter, SOON);
        tokio::join!(watch(&slow), watch(&free), watch(&idle))
    };
    let told = async {
        tokio::select! {
            end = slow.ending() => end.reason.clone(),
            end = free.ending() => format!("free: {}", end.reason),
            end = idle.ending() => format!("idle: {}", end.reason),
        }
    };
    tokio::select! {
        _ = watching => panic!("all of them are over"),
        reason = told => assert_eq!(reason, "the transfer was slower than the least rate"),
    }
}

#[tokio::test]
async fn implicit_tls_shakes_hands_before_the_first_word() {
    let options = options();
    let tls = ControlTls::Implicit(TlsConfig::new(&options, &Env::real()).unwrap());
    let server = serve(ControlOptions { tls, ..plain() });
    let mut clear = TcpStream::connect(server.address).await.unwrap();
    clear.write_all(b"USER a\r\n").await.unwrap();
    let mut nothing = Vec::new();
    let _ = timeout(SOON, clear.read_to_end(&mut nothing)).await.unwrap();
    assert!(!nothing.starts_with(b"220"));
    let client = Client::new(&options, TlsVersion::Tls13);
    let stream = TcpStream::connect(server.address).await.unwrap();
    let mut stream = client.connect(stream).await.unwrap();
    assert_eq!(read(&mut stream, 15).await, b"220 127.0.0.1\r\n");
    assert_eq!(server.served.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_client_behind_a_balancer_is_the_client() {
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let admission = Arc::new(Admission { proxies, ..Admission::default() });
    let server = serve(ControlOptions { admission, ..plain() });
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let addresses = [198, 51, 100, 7, 10, 0, 0, 1, 0x30, 0x39, 0, 21];
    let header = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &addresses].concat();
    stream.write_all(&header).await.unwrap();
    assert_eq!(read(&mut stream, 18).await, b"220 198.51.100.7\r\n");
    let mut unwanted = TcpStream::connect(server.address).await.unwrap();
    let addresses = [127, 0, 0, 66, 10, 0, 0, 1, 0x30, 0x39, 0, 21];
    let header = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &addresses].concat();
    unwanted.write_all(&header).await.unwrap();
    assert_eq!(rest(&mut unwanted).await, "");
}

/// Virtual time: a password waits to be compared for longer than a login may take.
#[tokio::test(start_paused = true)]
async fn the_time_to_log_in_does_not_run_while_credentials_are_checked() {
    let (env, login_time) = (Env::simulated(1), Duration::from_secs(60));
    let drain = Drain { stop: CancellationToken::new(), limit: SOON };
    let meter = Arc::new(SessionMeter::new(env));
    let address = std::net::IpAddr::from([192, 0, 2, 1]);
    let unauthenticated =
        UnauthenticatedConnections::default().admit(address, &[], &meter).unwrap();
    let checking = unauthenticated.checking();
    let checks = async {
        let _ = timeout(login_time * 3, std::future::pending::<()>()).await;
        assert!(meter.ended().is_none(), "it was ended while its password was compared");
        drop(checking);
        let began = tokio::time::Instant::now();
        let reason = meter.ending().await.reason.clone();
        (reason, began.elapsed())
    };
    let (reason, took) = tokio::select! {
        () = drain.cut_when_over(&meter, login_time) => panic!("it is over"),
        ended = checks => ended,
    };
    assert_eq!(reason, "nobody logged in in time");
    assert!(took > login_time - Duration::from_secs(2) && took <= login_time, "{took:?}");
}

/// Until so many connections without a login are there.
async fn waiting(room: &UnauthenticatedConnections, count: usize) {
    let counted = async {
        while room.counts().waiting != count {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, counted).await.unwrap();
}

#[tokio::test]
async fn the_newest_without_room_is_told_421_and_under_implicit_tls_nothing() {
    let (env, room) = (Env::simulated(1), UnauthenticatedConnections::new(8, 1));
    let implicit = ControlTls::Implicit(TlsConfig::new(&options(), &Env::real()).unwrap());
    for (tls, told) in [(ControlTls::Off, NO_ROOM), (implicit, "")] {
        let server = serve_in(ControlOptions { tls, ..plain() }, room.clone(), env.clone());
        let before = room.counts();
        let first = TcpStream::connect(server.address).await.unwrap();
        waiting(&room, 1).await;
        let mut refused = TcpStream::connect(server.address).await.unwrap();
        assert_eq!(rest(&mut refused).await, told);
        assert_eq!(room.counts().refused, before.refused + 1);
        drop(first);
        waiting(&room, 0).await;
    }
}

const NO_ROOM: &str = "421 Too many connections have not logged in yet: try again in a moment.\r\n";

#[tokio::test]
async fn who_makes_no_progress_is_told_421_when_another_comes() {
    let (env, room) = (Env::simulated(1), UnauthenticatedConnections::new(8, 1));
    let server = serve_in(plain(), room, env.clone());
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(read(&mut silent, 15).await, b"220 127.0.0.1\r\n");
    env.advance(crate::limits::STALLED_TIME);
    let mut newcomer = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(read(&mut newcomer, 15).await, b"220 127.0.0.1\r\n");
    let told = format!("421 {}\r\n", crate::guard::TOO_MANY);
    assert_eq!(rest(&mut silent).await, told);
}
