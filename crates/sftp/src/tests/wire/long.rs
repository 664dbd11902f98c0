//! `check-file` and `copy-data`: what may take long.

use super::*;

fn check(name: &str, target: impl AsRef<[u8]>, algorithms: &str) -> Fields {
    fields().text(name).text(target).text(algorithms)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn files_are_hashed_by_name_and_by_handle() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"abc");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let whole = |fields: Fields| fields.u64(0).u64(0).u32(0);
    let named = whole(check("check-file-name", "/f", "md9,sha1,md5"));
    let answer = wire.ask(EXTENDED, named.clone()).await;
    assert_eq!((answer.kind, answer.string()), (EXTENDED_REPLY, &b"sha1"[..]));
    assert_eq!(hex(&answer.body[8..]), "a9993e364706816aba3e25717850c26c9cd0d89d");
    let handle = wire.open_file("/f", R).await.handle();
    // As paramiko asks, and wants the answer.
    let answer = wire.ask(EXTENDED, whole(check("check-file", &handle, "md5"))).await;
    assert_eq!(answer.string(), b"check-file");
    assert_eq!(hex(&answer.body[21..]), "900150983cd24fb0d6963f7d28e17f72");
    // One's own upload, before anybody sees it; in blocks.
    let upload = wire.open_file("/g", W | CREAT | TRUNC).await.handle();
    let bytes = pattern(1000);
    assert_eq!(wire.write(&upload, 0, &bytes).await, 0);
    let blocks = check("check-file-handle", &upload, "crc32").u64(0).u64(0).u32(256);
    let answer = wire.ask(EXTENDED, blocks).await;
    assert_eq!((answer.string(), answer.body.len()), (&b"crc32"[..], 9 + 4 * 4));
    for (fields, code) in [
        (whole(check("check-file-name", "/nope", "md5")), 2),
        (whole(check("check-file-name", "/small", "md5")), 4),
        (whole(check("check-file-name", "/f", "md9")), 4),
        (check("check-file-name", "/f", "md5").u64(0).u64(0).u32(255), 4),
        (whole(check("check-file-handle", b"12345678", "md5")), 4),
    ] {
        assert_eq!(wire.ask(EXTENDED, fields).await.code(), code);
    }
    // The channel has a task of its own now, and goes on as before.
    assert_eq!(wire.write(&upload, 1000, b"more").await, 0);
    assert_eq!(wire.close(&upload).await, 0);
    assert_eq!(fixture.read("/g").unwrap(), [&bytes[..], b"more"].concat());
    let read = wire.ask(READ, fields().text(&handle).u64(0).u32(10)).await;
    assert_eq!(read.string(), b"abc");
    fixture.stop().await;
}

#[tokio::test]
async fn a_long_hash_holds_up_nobody_and_ends_with_its_channel() {
    let fixture = Fixture::start().await;
    std::fs::File::create(fixture.path("/huge")).unwrap().set_len(1 << 40).unwrap();
    let client = login(&fixture).await;
    let busy = Wire::open(&client).await;
    let whole = check("check-file-name", "/huge", "sha512").u64(0).u64(0).u32(0);
    busy.request(EXTENDED, 1, whole.clone()).await;
    let many = check("check-file-name", "/huge", "md5").u64(0).u64(0).u32(256);
    let mut other = Wire::open(&client).await;
    assert_eq!(other.ask(EXTENDED, many).await.code(), 4, "too many for one answer");
    assert_eq!(other.stat("/huge").await.size(), 1 << 40);
    busy.channel.close().await.unwrap();
    drop(busy);
    // One at a time: this one begins only when the other has been given up.
    fixture.write("/f", b"abc");
    let one = check("check-file-name", "/f", "md5").u64(0).u64(0).u32(0);
    assert_eq!(other.ask(EXTENDED, one).await.string(), b"md5");
    fixture.stop().await;
}

/// A client on a wire whose way back can be held; says when it goes on.
async fn on_a_slow_wire(fixture: &Fixture) -> (SshClient, tokio::sync::watch::Sender<bool>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (open, mut opened) = tokio::sync::watch::channel(true);
    let address = fixture.address;
    tokio::spawn(async move {
        let server = TcpStream::connect(address).await.unwrap();
        server.set_nodelay(true).unwrap();
        let (mut from_server, mut to_server) = server.into_split();
        let (mut from_client, mut to_client) = tokio::io::split(far);
        let up = tokio::io::copy(&mut from_client, &mut to_server);
        let down = async {
            let mut piece = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = from_server.read(&mut piece).await {
                if opened.wait_for(|open| *open).await.is_err()
                    || to_client.write_all(&piece[..count]).await.is_err()
                {
                    return;
                }
            }
        };
        tokio::select! { _ = up => {} () = down => {} }
    });
    (SshClient::connect(near, &anna(HostKeyPins::Any)).await.unwrap(), open)
}

/// russh serves no task of a connection once its client has closed a channel with data that it
/// never took. A command on such a connection must not hang.
#[tokio::test]
async fn a_channel_closed_with_answers_unread_ends_the_connection_before_a_task_hangs() {
    let fixture = Fixture::start().await;
    fixture.write("/f", &pattern(40 << 20));
    let (client, open) = on_a_slow_wire(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R).await.handle();
    open.send_replace(false);
    for at in 0..100u64 {
        let read = fields().text(&handle).u64(at * 261_120).u32(261_120);
        wire.request(READ, 1, read).await;
    }
    // The server has answered as far as the window goes, and one answer waits.
    wire.request(STAT, 2, fields().text("/f")).await;
    wire.channel.close().await.unwrap();
    open.send_replace(true);
    let (sender, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    let receive = move |arrival: Arrival<'_>| {
        let _ = sender.send(matches!(arrival, Arrival::Data(_)));
    };
    let hang = async {
        match client.open_exec("pwd", Box::new(receive)).await {
            Ok(channel) => (arrived.recv().await, channel.end().await).0,
            Err(_) => None,
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), hang).await;
    assert!(ended.is_ok(), "the command hangs");
    fixture.stop().await;
}

#[tokio::test]
async fn reads_before_a_hash_are_answered_before_or_behind_it_but_all_of_them() {
    let fixture = Fixture::start().await;
    fixture.write("/f", &pattern(200_000));
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R).await.handle();
    for id in 0..200 {
        wire.request(READ, id, fields().text(&handle).u64(0).u32(200_000)).await;
    }
    wire.request(EXTENDED, 200, check("check-file", &handle, "md5").u64(0).u64(0).u32(0)).await;
    wire.request(CLOSE, 201, fields().text(&handle)).await;
    let mut seen = Vec::new();
    for _ in 0..=201 {
        seen.push(wire.answer().await.unwrap().id);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..=201).collect::<Vec<u32>>());
    fixture.stop().await;
}

#[tokio::test]
async fn data_is_copied_between_handles() {
    for fixture in [Fixture::start().await, Fixture::start_waiting().await] {
        let bytes = pattern(3_000_000);
        fixture.write("/f", &bytes);
        let client = login(&fixture).await;
        let mut wire = Wire::open(&client).await;
        let from = wire.open_file("/f", R).await.handle();
        let to = wire.open_file("/g", W | CREAT | TRUNC).await.handle();
        let copy = |from: &[u8], offset: u64, len: u64, to: &[u8], at: u64| {
            let head = fields().text("copy-data").text(from).u64(offset).u64(len);
            head.text(to).u64(at)
        };
        assert_eq!(wire.ask(EXTENDED, copy(&from, 0, 0, &to, 0)).await.code(), 0);
        assert_eq!(wire.close(&to).await, 0);
        assert_eq!(fixture.read("/g").unwrap(), bytes);
        let to = wire.open_file("/h", W | CREAT | TRUNC).await.handle();
        assert_eq!(wire.write(&to, 0, b"head").await, 0);
        assert_eq!(wire.ask(EXTENDED, copy(&from, 10, 1000, &to, 4)).await.code(), 0);
        assert_eq!(wire.write(&to, 1004, b"tail").await, 0);
        assert_eq!(wire.close(&to).await, 0);
        let wanted = [b"head", &bytes[10..1010], b"tail"].concat();
        assert_eq!(fixture.read("/h").unwrap(), wanted);
        let same = wire.open_file("/f", W).await.handle();
        for (a, b) in [(&from, &same), (&from, &from), (&from, &b"12345678".to_vec())] {
            assert_eq!(wire.ask(EXTENDED, copy(a, 0, 0, b, 0)).await.code(), 4);
        }
        fixture.stop().await;
    }
}

#[tokio::test]
async fn a_copy_keeps_to_the_quota() {
    let fixture = Fixture::start().await;
    fixture.write("/f", &pattern(2_000_000));
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let from = wire.open_file("/f", R).await.handle();
    let to = wire.open_file("/small/f", W | CREAT | TRUNC).await.handle();
    let copy = fields().text("copy-data").text(&from).u64(0).u64(0).text(&to).u64(0);
    assert_eq!(wire.ask(EXTENDED, copy).await.code(), 4);
    assert_eq!(wire.close(&to).await, 4);
    assert_eq!(fixture.read("/small/f"), None);
    fixture.stop().await;
}
