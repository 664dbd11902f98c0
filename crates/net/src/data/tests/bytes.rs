//! Moving bytes, and the ends of connections.

use std::io::{ErrorKind, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use futures_util::FutureExt as _;
use rustix::net::RecvFlags;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::data::acceptor::DataAcceptor;
use crate::limits::{LEAST_RATE, LINGERING_UNSEEN, POOLED_BUFFER_BYTES};
use crate::meter::{Lane, Throttle, Throttles};

/// A data connection in clear text, as a kept port accepts it, and the client's end of it.
async fn pair(env: &Env) -> (DataStream, TcpStream, Arc<SessionMeter>) {
    let acceptor = DataAcceptor::bind((ip("127.0.0.1"), 0).into()).unwrap();
    let client = TcpStream::connect(acceptor.local_address()).await.unwrap();
    let (server, peer) = acceptor.accept().await;
    let meter = Arc::new(SessionMeter::new(env.clone()));
    (DataStream::over(server, peer, &meter), client, meter)
}

/// As [`pair`], of a connection that we have dialled.
async fn dialled_pair(env: &Env) -> (DataStream, TcpStream, Arc<SessionMeter>) {
    let acceptor = listen::bind((ip("127.0.0.1"), 0).into()).unwrap();
    let server = TcpStream::connect(acceptor.local_address()).await.unwrap();
    let (client, _) = acceptor.accept().await;
    let meter = Arc::new(SessionMeter::new(env.clone()));
    (DataStream::clear(server, acceptor.local_address(), &meter), client, meter)
}

fn throttled(env: &Env, meter: &SessionMeter, rate: u64) -> Throttle {
    let throttle = Throttle::new(env.clone(), Some(rate));
    let lane = || Lane::new(env.clone(), vec![throttle.clone()]);
    meter.bind(Throttles { upload: lane(), download: lane() });
    throttle
}

fn file(bytes: &[u8]) -> Arc<OwnedFd> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Arc::new(file.into())
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Env::simulated(7).fill_random(&mut bytes);
    bytes
}

async fn send_all(stream: &mut DataStream, range: &mut FileRange) -> std::io::Result<u64> {
    let mut sent = 0;
    loop {
        match stream.send_file(range).await? {
            0 => return Ok(sent),
            count => sent += count as u64,
        }
    }
}

#[tokio::test]
async fn a_range_of_a_file_is_sent_byte_for_byte() {
    let content = noise(5_000_000);
    let env = Env::real();
    for (mut stream, mut client, meter) in [pair(&env).await, dialled_pair(&env).await] {
        let mut range = FileRange::new(file(&content), 1_000, 4_500_000);
        let lingerer = Lingerer::default();
        let sending = async {
            assert_eq!(send_all(&mut stream, &mut range).await.unwrap(), 4_500_000);
            stream.finish_download(&lingerer).await.unwrap();
        };
        let mut read = Vec::new();
        let (_, count) = tokio::join!(sending, client.read_to_end(&mut read));
        assert_eq!(count.unwrap(), 4_500_000);
        assert!(read == content[1_000..4_501_000]);
        assert_eq!(meter.bytes_out(), 4_500_000);
        drop(client);
        tokio::time::timeout(SOON, lingerer.ended()).await.unwrap();
        assert!(lingerer.is_empty());
    }
}

#[tokio::test]
async fn the_runtime_learns_of_a_connection_when_it_must_wait() {
    let lingerer = Lingerer::default();
    let (mut stream, mut client, _meter) = pair(&Env::real()).await;
    let mut range = FileRange::new(file(&[7; 1_000]), 0, 1_000);
    range.note_in_memory();
    assert_eq!(send_all(&mut stream, &mut range).await.unwrap(), 1_000);
    assert!(!stream.socket().is_watched());
    stream.finish_download(&lingerer).await.unwrap();
    let mut read = Vec::new();
    assert_eq!(client.read_to_end(&mut read).await.unwrap(), 1_000);
    assert_eq!(lingerer.len(), 1, "until the client closes");

    let (mut stream, mut late, _meter) = pair(&Env::real()).await;
    let mut buffer = UploadBuffer::default();
    assert!(stream.receive(&mut buffer).now_or_never().is_none());
    assert!(stream.socket().is_watched());
    assert!(!buffer.is_held(), "an upload that waits holds memory");
    late.write_all(b"late").await.unwrap();
    assert_eq!(stream.receive(&mut buffer).await.unwrap(), 4);
    drop(client);
    tokio::time::timeout(SOON, lingerer.ended()).await.unwrap();
}

#[tokio::test]
async fn a_client_that_closes_late_is_waited_for_and_not_reset() {
    let lingerer = Lingerer::default();
    let (mut stream, mut client, _meter) = pair(&Env::real()).await;
    stream.write_all(b"file").await.unwrap();
    stream.finish_download(&lingerer).await.unwrap();
    let looked_at = async {
        while lingerer.unseen() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, looked_at).await.unwrap();
    assert_eq!(lingerer.len(), 1, "it is still open");
    client.write_all(b"nobody reads this").await.unwrap();
    let mut read = Vec::new();
    client.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"file");
    drop(client);
    tokio::time::timeout(SOON, lingerer.ended()).await.unwrap();
}

#[tokio::test]
async fn those_who_linger_are_looked_at_when_others_follow() {
    let lingerer = Lingerer::default();
    let mut clients = Vec::new();
    for _ in 0..LINGERING_UNSEEN {
        let (stream, client, _meter) = pair(&Env::real()).await;
        stream.finish_download(&lingerer).await.unwrap();
        clients.push(client);
    }
    clients.clear();
    for followers in 1..=2 {
        let (stream, _client, _meter) = pair(&Env::real()).await;
        stream.finish_download(&lingerer).await.unwrap();
        // Where the time of a look has passed meanwhile, those found open then are waited for.
        assert!(lingerer.unseen() <= LINGERING_UNSEEN, "{followers}");
    }
    tokio::time::timeout(SOON, lingerer.ended()).await.unwrap();
}

#[tokio::test]
async fn a_file_that_became_shorter_is_an_error() {
    let (mut stream, mut client, _meter) = pair(&Env::real()).await;
    let mut range = FileRange::new(file(&[7; 1_000]), 0, 2_000);
    let error = send_all(&mut stream, &mut range).await.unwrap_err();
    assert_eq!((error.kind(), range.left()), (ErrorKind::UnexpectedEof, 1_000));
    stream.reset();
    let read = client.read_to_end(&mut Vec::new()).await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_download_waits_for_its_throttle_and_hears_of_a_change() {
    let env = Env::simulated(1);
    let (mut stream, client, meter) = pair(&env).await;
    let throttle = throttled(&env, &meter, LEAST_RATE);
    let mut range = FileRange::new(file(&noise(100_000)), 0, 100_000);
    let first = stream.send_file(&mut range).await.unwrap();
    assert!((1..=LEAST_RATE as usize).contains(&first), "{first}");
    assert!(stream.send_file(&mut range).now_or_never().is_none(), "not paid for yet");
    env.advance(Duration::from_secs(1));
    let next = tokio::time::timeout(SOON, stream.send_file(&mut range)).await.unwrap().unwrap();
    assert!(next <= LEAST_RATE as usize, "{next}");
    throttle.set(None);
    let rest = tokio::time::timeout(SOON, send_all(&mut stream, &mut range)).await.unwrap();
    assert_eq!(rest.unwrap() as usize, 100_000 - first - next);
    drop(client);
}

#[tokio::test]
async fn an_upload_waits_for_its_throttle() {
    let env = Env::simulated(1);
    let (mut stream, mut client, meter) = pair(&env).await;
    throttled(&env, &meter, LEAST_RATE);
    client.write_all(&noise(10_000)).await.unwrap();
    let mut buffer = UploadBuffer::default();
    let first = stream.receive(&mut buffer).await.unwrap();
    assert!(first <= LEAST_RATE as usize, "{first}");
    assert!(stream.receive(&mut buffer).now_or_never().is_none());
    env.advance(Duration::from_secs(1));
    let next = tokio::time::timeout(SOON, stream.receive(&mut buffer)).await.unwrap().unwrap();
    assert!((1..=LEAST_RATE as usize).contains(&next), "{next}");
    assert_eq!(meter.bytes_in(), (first + next) as u64);
}

#[tokio::test]
async fn an_upload_is_taken_in_large_pieces_to_its_end() {
    let content = noise(3_000_000);
    let (mut stream, mut client, meter) = pair(&Env::real()).await;
    let sending = async {
        client.write_all(&content).await.unwrap();
        client.shutdown().await.unwrap();
    };
    let receiving = async {
        let (mut buffer, mut read) = (UploadBuffer::default(), Vec::new());
        while stream.receive(&mut buffer).await.unwrap() > 0 {
            assert!(buffer.bytes().len() <= POOLED_BUFFER_BYTES);
            read.extend_from_slice(buffer.bytes());
        }
        read
    };
    let ((), read) = tokio::join!(sending, receiving);
    assert!(read == content);
    assert_eq!(meter.bytes_in(), 3_000_000);
    stream.finish_upload().await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_reset_is_no_end_and_a_cut_wakes_who_waits() {
    let (mut stream, client, _meter) = pair(&Env::real()).await;
    client.set_zero_linger().unwrap();
    drop(client);
    let mut buffer = UploadBuffer::default();
    let reset = stream.receive(&mut buffer).await.unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);

    let (mut stream, _client, meter) = pair(&Env::real()).await;
    let cutting = async {
        tokio::task::yield_now().await;
        meter.cut();
    };
    let (cut, ()) = tokio::join!(stream.receive(&mut buffer), cutting);
    assert_eq!(cut.unwrap_err().kind(), ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn a_reset_behind_bytes_is_told_after_them_and_again() {
    let (mut stream, mut client, _meter) = pair(&Env::real()).await;
    client.write_all(&[7; 1_000]).await.unwrap();
    let arrived = stream.as_fd();
    let mut space = [0; 1_000];
    while rustix::net::recv(arrived, &mut space, RecvFlags::PEEK).map_or(0, |(_, all)| all) < 1_000
    {
        tokio::task::yield_now().await;
    }
    client.set_zero_linger().unwrap();
    drop(client);
    while crate::socket::peer_state(&stream) != crate::socket::PeerState::Reset {
        tokio::task::yield_now().await;
    }
    let mut buffer = UploadBuffer::default();
    assert_eq!(stream.receive(&mut buffer).await.unwrap(), 1_000);
    for _ in 0..3 {
        let error = stream.receive(&mut buffer).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn a_client_that_sends_during_its_download_still_gets_all_of_it() {
    let content = noise(2_000_000);
    let (mut stream, mut client, _meter) = pair(&Env::real()).await;
    client.write_all(b"nobody reads this").await.unwrap();
    let lingerer = Lingerer::default();
    let sending = async {
        stream.write_all(&content).await.unwrap();
        stream.finish_download(&lingerer).await.unwrap();
    };
    let reading = async {
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.map(|_| read)
    };
    let ((), read) = tokio::join!(sending, reading);
    assert!(read.unwrap() == content);
    assert_eq!(lingerer.len(), 1, "until the client closes");
}

#[tokio::test]
async fn active_connections_come_from_the_control_connections_address() {
    let acceptor = listen::bind((ip("127.0.0.1"), 0).into()).unwrap();
    let to = acceptor.local_address();
    for local in ["127.0.0.3:21", "[::ffff:127.0.0.3]:21"] {
        let from = ActiveFrom { local: local.parse().unwrap(), port: None };
        let stream = connect(from, to, SOON).await.unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), ip("127.0.0.3"));
        let (_, peer) = acceptor.accept().await;
        assert_eq!(peer, stream.local_addr().unwrap());
    }
    let free = listen::free_address((ip("127.0.0.3"), 0).into()).unwrap();
    let from = ActiveFrom { local: free, port: Some(free.port()) };
    assert_eq!(connect(from, to, SOON).await.unwrap().local_addr().unwrap(), free);
    let from = ActiveFrom { local: "[::1]:21".parse().unwrap(), port: None };
    assert_eq!(connect(from, to, SOON).await.unwrap_err().code(), "EP0255");
    drop(acceptor);
    let from = ActiveFrom { local: "127.0.0.1:21".parse().unwrap(), port: None };
    assert_eq!(connect(from, to, SOON).await.unwrap_err().code(), "EP0255");
}

#[tokio::test]
async fn bind_leaves_the_choice_of_the_port_to_connect() {
    let to = "127.0.0.1:50000".parse().unwrap();
    let from = ActiveFrom { local: "127.0.0.4:21".parse().unwrap(), port: None };
    let socket = super::super::active::bound(from, to).unwrap();
    assert_eq!(socket.local_addr().unwrap(), "127.0.0.4:0".parse().unwrap());
    let (from, to) = ("[::1]:21".parse().unwrap(), "[::1]:50000".parse().unwrap());
    match super::super::active::bound(ActiveFrom { local: from, port: None }, to) {
        Ok(socket) => assert_eq!(socket.local_addr().unwrap().port(), 0),
        // A machine without IPv6.
        Err(error) => assert_eq!(error.kind(), ErrorKind::AddrNotAvailable),
    }
}
