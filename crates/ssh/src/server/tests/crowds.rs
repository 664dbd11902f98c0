//! Many connections that have not logged in: who is let in, what those hear who are not, and whose
//! time runs.

use entrepot_net::guard::TOO_MANY;
use entrepot_net::limits::{STALLED_TIME, UNAUTHENTICATED_PER_ADDRESS};
use russh::client::connect_stream;

use super::rounds::Trusting;
use super::*;

/// Connects, says who it is, and hears our identification line: the server counts it then.
async fn begin(shop: &Toyshop) -> tokio::net::TcpStream {
    let mut stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
    let mut line = [0; IDENTIFICATION_LINE.len()];
    stream.read_exact(&mut line).await.unwrap();
    assert_eq!(line, IDENTIFICATION_LINE);
    stream
}

/// What a disconnect in clear text says behind the identification line.
fn farewell(packet: &[u8]) -> (u32, String) {
    // packet_length, padding_length, SSH_MSG_DISCONNECT, reason, sentence.
    assert_eq!(packet[5], 1, "{packet:?}");
    let reason = u32::from_be_bytes(packet[6..10].try_into().unwrap());
    let sentence = crate::wire::take(&mut &packet[10..]).unwrap();
    (reason, String::from_utf8(sentence.to_vec()).unwrap())
}

#[tokio::test]
async fn a_crowd_of_silent_clients_shuts_no_other_out() {
    let (env, room) = (Env::simulated(1), UNAUTHENTICATED_PER_ADDRESS);
    let shop = Toyshop::with(Script::default(), UnauthenticatedConnections::default(), env.clone());
    let mut crowd = Vec::new();
    for _ in 0..room {
        crowd.push(begin(&shop).await);
    }
    env.advance(STALLED_TIME);
    for _ in 0..3 {
        let stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
        SshClient::connect(stream, &shop.options()).await.unwrap().close().await;
    }
    let ended = shop.script.meters.lock().iter().filter(|it| it.ended().is_some()).count();
    assert!(ended >= 1, "{ended} had to give way");
    shop.close().await;
}

#[tokio::test]
async fn who_gives_way_is_told_in_clear_text() {
    let env = Env::simulated(1);
    let shop = Toyshop::with(Script::default(), UnauthenticatedConnections::new(8, 1), env.clone());
    let mut silent = begin(&shop).await;
    env.advance(STALLED_TIME);
    let stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
    SshClient::connect(stream, &shop.options()).await.unwrap();
    let mut told = Vec::new();
    silent.read_to_end(&mut told).await.unwrap();
    assert_eq!(farewell(&told), (12, TOO_MANY.to_owned()));
    shop.close().await;
}

#[tokio::test]
async fn the_newest_without_room_is_told_and_openssh_shows_it() {
    let unauthenticated = UnauthenticatedConnections::new(8, 1);
    let shop = Toyshop::with(Script::default(), unauthenticated.clone(), Env::simulated(1));
    let waiting = begin(&shop).await;
    let mut refused = begin(&shop).await;
    refused.write_all(b"SSH-2.0-refused\r\n").await.unwrap();
    let mut told = Vec::new();
    refused.read_to_end(&mut told).await.unwrap();
    assert_eq!(farewell(&told), (12, TOO_MANY.to_owned()));
    let home = tempfile::tempdir().unwrap();
    let output = shop.ssh(home.path()).args(["anna@127.0.0.1", "x"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(255));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(TOO_MANY), "{told}");
    assert_eq!(unauthenticated.counts().refused, 2);
    drop(waiting);
    shop.close().await;
}

#[tokio::test]
async fn a_client_whose_password_is_being_compared_leaves_room_for_others() {
    let script = Script { hashing: Some(Duration::MAX), ..Script::default() };
    let unauthenticated = UnauthenticatedConnections::new(8, 1);
    let shop = Toyshop::with(script, unauthenticated.clone(), Env::simulated(1));
    let mut hashing = JoinSet::new();
    for count in 1..=3 {
        let stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
        let options = shop.options();
        hashing.spawn(async move { SshClient::connect(stream, &options).await.map(drop) });
        let checking = async {
            while unauthenticated.counts().checking < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), checking).await.expect("it found no room");
    }
    assert_eq!(unauthenticated.counts().refused, 0);
    assert!(shop.script.meters.lock().iter().all(|meter| meter.ended().is_none()));
    shop.server.abort();
}

#[tokio::test(start_paused = true)]
async fn the_time_to_log_in_does_not_run_while_a_password_waits_to_be_compared() {
    let script = Script { hashing: Some(limits::LOGIN_TIME * 3 / 2), ..Script::default() };
    let (pair, stream) = Pair::start(script);
    let mut handle = connect_stream(Arc::default(), stream, Trusting).await.unwrap();
    assert!(!handle.authenticate_password("anna", "wrong").await.unwrap().success());
    assert!(handle.authenticate_password("anna", PASSWORD).await.unwrap().success());
    drop(handle);
    pair.finished().await;

    let (pair, stream) =
        Pair::start(Script { hashing: Some(limits::LOGIN_TIME), ..Script::default() });
    let mut handle = connect_stream(Arc::default(), stream, Trusting).await.unwrap();
    handle.authenticate_password("anna", "wrong").await.unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(pair.finished().await.reason, "nobody logged in in time");
    let took = start.elapsed();
    let most = limits::LOGIN_TIME + Duration::from_secs(2);
    assert!(took > limits::LOGIN_TIME / 2 && took < most, "its own time runs: {took:?}");
}
