use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;

/// A peer, and our side of its connection.
async fn pair() -> (TcpStream, Gathering) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (peer, ours) = tokio::join!(TcpStream::connect(address), listener.accept());
    (peer.unwrap(), Gathering::new(ours.unwrap().0))
}

/// Sends and receives so much.
async fn bulk(peer: &mut TcpStream, ours: &mut Gathering, bytes: u64) {
    let (data, mut left) = (vec![7; 1 << 20], usize::try_from(bytes).unwrap());
    let mut got = vec![0; 1 << 20];
    while left > 0 {
        let piece = left.min(data.len());
        let sending = peer.write_all(&data[..piece]);
        let receiving = ours.read_exact(&mut got[..piece]);
        let (sent, received) = tokio::join!(sending, receiving);
        sent.unwrap();
        assert_eq!(received.unwrap(), piece);
        left -= piece;
    }
}

async fn next(ours: &mut Gathering) -> io::Result<Vec<u8>> {
    let mut got = vec![0; 64];
    let count = timeout(Duration::from_secs(20), ours.read(&mut got)).await??;
    got.truncate(count);
    Ok(got)
}

#[tokio::test]
async fn after_bulk_a_single_byte_is_still_given_out() {
    let (mut peer, mut ours) = pair().await;
    assert!(ours.lull.is_none());
    bulk(&mut peer, &mut ours, BULK_BYTES).await;
    assert!(ours.lull.is_some(), "the kernel gathers");
    let (got, sent) = tokio::join!(next(&mut ours), peer.write_all(b"a"));
    sent.unwrap();
    assert_eq!(got.unwrap(), b"a");
    // Whether the byte came before the timer or with it, the next wait ends the gathering.
    let waiting = timeout(GATHER_TIME * 20, next(&mut ours)).await;
    assert!(waiting.is_err(), "nothing was sent");
    assert!(ours.lull.is_none());
    let (got, sent) = tokio::join!(next(&mut ours), peer.write_all(b"b"));
    sent.unwrap();
    assert_eq!(got.unwrap(), b"b");
}

/// True if the kernel says within `patience` that something may be read.
fn wakes(ours: &Gathering, patience: Duration) -> bool {
    let mut polled = [PollFd::new(&ours.inner, PollFlags::IN)];
    let patience = patience.try_into().unwrap();
    rustix::event::poll(&mut polled, Some(&patience)).unwrap() == 1
}

#[tokio::test]
async fn while_it_gathers_only_a_pile_wakes_and_the_end_does() {
    let (mut peer, mut ours) = pair().await;
    socket::wake_at(&ours.inner, GATHER_BYTES).unwrap();
    peer.write_all(&[7; 100]).await.unwrap();
    assert!(!wakes(&ours, Duration::from_millis(50)));
    drop(peer);
    assert!(wakes(&ours, Duration::from_secs(20)));
    let mut got = Vec::new();
    ours.read_to_end(&mut got).await.unwrap();
    assert_eq!(got.len(), 100);
}

#[test]
fn who_waits_for_answers_is_believed_less_easily() {
    let mut bulk = Bulk { received: 0, wanted: BULK_BYTES };
    for _ in 0..20 {
        bulk.cease();
    }
    assert_eq!(bulk.wanted, BULK_MOST_BYTES);
    bulk.received = BULK_BYTES;
    bulk.cease();
    assert_eq!((bulk.wanted, bulk.received), (BULK_AGAIN_BYTES, 0));
    bulk.received = BULK_BYTES - 1;
    bulk.cease();
    assert_eq!(bulk.wanted, 2 * BULK_AGAIN_BYTES);
}

#[tokio::test]
async fn a_file_on_a_connection_of_its_own_is_bulk_soon_and_its_end_is_told() {
    let (mut peer, ours) = pair().await;
    let mut ours = Gathering::one_way(ours.into_inner());
    bulk(&mut peer, &mut ours, BULK_ONE_WAY_BYTES).await;
    assert!(ours.lull.is_some(), "the kernel gathers");
    peer.write_all(b"the rest").await.unwrap();
    drop(peer);
    assert_eq!(next(&mut ours).await.unwrap(), b"the rest");
    assert_eq!(next(&mut ours).await.unwrap(), b"");
}
