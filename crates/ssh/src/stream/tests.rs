use std::time::Duration;

use entrepot_net::meter::{EndClass, Lane, Throttle, Throttles};
use entrepot_nouns::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::clear_text::tests::{opening, packet};
use crate::limits::CLEAR_PACKET_BYTES;

fn pair() -> (DuplexStream, Guarded<DuplexStream>, Arc<SessionMeter>) {
    let (peer, ours) = duplex(1 << 20);
    let meter = Arc::new(SessionMeter::new(Env::real()));
    let guarded = Guarded::server(ours, Arc::clone(&meter));
    (peer, guarded, meter)
}

#[tokio::test]
async fn bytes_pass_unchanged_and_are_counted() {
    let (mut peer, mut guarded, meter) = pair();
    let sent = opening();
    peer.write_all(&sent).await.unwrap();
    let mut got = vec![0; sent.len()];
    guarded.read_exact(&mut got).await.unwrap();
    assert_eq!(got, sent);
    guarded.write_all(b"answer").await.unwrap();
    assert_eq!((meter.bytes_in(), meter.bytes_out()), (sent.len() as u64, 6));
    assert_eq!(meter.stage(), Stage::Encrypted);
}

#[tokio::test]
async fn a_long_clear_packet_is_refused_from_its_length_alone() {
    for length in [0, CLEAR_PACKET_BYTES + 1, u32::MAX] {
        let (mut peer, mut guarded, _) = pair();
        peer.write_all(b"SSH-2.0-test\r\n").await.unwrap();
        peer.write_all(&length.to_be_bytes()).await.unwrap();
        let error = guarded.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{length}");
    }
}

#[tokio::test]
async fn an_endless_identification_line_is_refused() {
    let (mut peer, mut guarded, _) = pair();
    peer.write_all(&[b'x'; 256]).await.unwrap();
    let error = guarded.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn an_unauthenticated_connection_sends_so_much_and_no_more() {
    let (mut peer, mut guarded, meter) = pair();
    peer.write_all(&opening()).await.unwrap();
    peer.write_all(&vec![7; 500 * 1024]).await.unwrap();
    let error = guarded.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(meter.bytes_in() <= UNAUTHENTICATED_BYTES + READ_BUFFER_BYTES as u64);

    let (mut peer, mut guarded, friend) = pair();
    friend.advance(Stage::LoggedIn);
    peer.write_all(&opening()).await.unwrap();
    peer.write_all(&vec![7; 500 * 1024]).await.unwrap();
    drop(peer);
    guarded.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(friend.bytes_in() > 500 * 1024);
}

#[tokio::test]
async fn a_cut_wakes_who_waits() {
    let (_peer, mut guarded, meter) = pair();
    let reading = tokio::spawn(async move {
        let mut byte = [0];
        guarded.read_exact(&mut byte).await.unwrap_err().kind()
    });
    tokio::task::yield_now().await;
    meter.end(EndClass::Decision, "test");
    meter.cut();
    assert_eq!(reading.await.unwrap(), io::ErrorKind::ConnectionAborted);

    let (_peer, mut guarded, meter) = pair();
    let writing = tokio::spawn(async move {
        let endless = vec![0; 4 << 20];
        guarded.write_all(&endless).await.unwrap_err().kind()
    });
    tokio::task::yield_now().await;
    meter.cut();
    assert_eq!(writing.await.unwrap(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn an_idle_stream_holds_no_buffer() {
    let (mut peer, mut guarded, _) = pair();
    peer.write_all(b"SSH-2.0-test\r\n").await.unwrap();
    let mut line = [0; 14];
    guarded.read_exact(&mut line).await.unwrap();
    let mut byte = [0];
    let waits = futures_util::poll!(Box::pin(guarded.read(&mut byte)));
    assert!(waits.is_pending());
    assert!(guarded.buffer.is_none());
}

#[tokio::test]
async fn a_throttled_stream_takes_its_time_and_a_new_rate_frees_it() {
    let (mut peer, mut guarded, meter) = pair();
    let env = Env::simulated(1);
    let throttle = Throttle::new(env.clone(), Some(64 * 1024));
    let upload = Lane::new(env.clone(), vec![throttle.clone()]);
    meter.bind(Throttles { upload, download: Lane::new(env, Vec::new()) });
    peer.write_all(b"SSH-2.0-test\r\n").await.unwrap();
    peer.write_all(&packet(2, 30_000)).await.unwrap();
    let mut piece = vec![0; 30_000];
    let first = guarded.read(&mut piece).await.unwrap();
    assert_eq!(first, 8192, "no more than an eighth of a second at once");
    let waits = futures_util::poll!(Box::pin(guarded.read(&mut piece)));
    assert!(waits.is_pending(), "the simulated clock stands still, so the debt stays");
    throttle.set(None);
    let rest = tokio::time::timeout(Duration::from_secs(5), guarded.read(&mut piece)).await;
    assert!(rest.unwrap().unwrap() > 8192);
}
