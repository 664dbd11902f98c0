//! A service that holds back what it sends is called when it may go on, whatever the client does.

use super::*;

pub(super) const PIECES_PLEASE: &[u8] = b"pieces, please";
pub(super) const PIECES: usize = 40;
const PIECE_BYTES: usize = 100_000;

/// Sends one of the pieces that are left, and asks when the next may follow.
pub(super) fn send_a_piece(left: &mut usize, out: &mut Replies<'_>) {
    if *left > 0 && !out.has_pending() {
        *left -= 1;
        out.send(Bytes::from(vec![7; PIECE_BYTES]));
    }
    if *left > 0 {
        out.notify_when_drained();
    }
}

/// Asks once and takes what comes. The client's window is so large that it sends nothing meanwhile.
async fn all_pieces_arrive(rekey_bytes: Option<usize>) {
    let (pair, stream) = Pair::start(Script { rekey_bytes, ..Script::default() });
    let client = SshClient::connect(stream, &pair.options(password(PASSWORD))).await.unwrap();
    let (receiver, mut arrived) = collector();
    let channel = client.open_sftp(receiver).await.unwrap();
    channel.send(Bytes::from_static(PIECES_PLEASE)).await.unwrap();
    let mut bytes = 0;
    while bytes < PIECES * PIECE_BYTES {
        let more = tokio::time::timeout(Duration::from_secs(20), arrived.recv()).await;
        let more = more.unwrap_or_else(|_| panic!("nothing more came after {bytes} bytes"));
        bytes += more.flatten().unwrap().len();
    }
    channel.end().await.unwrap();
    drop(client);
    pair.finished().await;
}

#[tokio::test]
async fn it_is_called_when_what_was_sent_has_left() {
    all_pieces_arrive(None).await;
}

#[tokio::test]
async fn it_is_called_after_a_key_exchange_of_ours() {
    all_pieces_arrive(Some(150_000)).await;
}

#[tokio::test]
async fn a_channel_that_is_closed_meanwhile_disturbs_no_other() {
    let (pair, client) = logged_in().await;
    let (receiver, _arrived) = collector();
    let gone = client.open_sftp(receiver).await.unwrap();
    gone.send(Bytes::from_static(PIECES_PLEASE)).await.unwrap();
    gone.close().await.unwrap();
    let (receiver, mut arrived) = collector();
    let channel = client.open_sftp(receiver).await.unwrap();
    channel.send(Bytes::from_static(b"still here")).await.unwrap();
    let echoed = async {
        loop {
            match arrived.recv().await.flatten() {
                Some(bytes) if bytes == b"still here" => break,
                other => assert!(other.is_some(), "the channel ended"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), echoed).await.unwrap();
    drop(client);
    pair.finished().await;
}
