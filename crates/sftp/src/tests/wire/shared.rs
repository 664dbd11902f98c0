//! Requests on a file that the channel is writing, in orders that sshfs sends on a busy machine:
//! there `close` is answered before CLOSE is sent, and threads overtake one another.

use super::*;

async fn wire(fixture: &Fixture) -> (SshClient, Wire) {
    let client = login(fixture).await;
    let wire = Wire::open(&client).await;
    (client, wire)
}

async fn posix_rename(wire: &mut Wire, from: &str, to: &str) -> u32 {
    let fields = fields().text("posix-rename@openssh.com").text(from).text(to);
    wire.ask(EXTENDED, fields).await.code()
}

async fn read(wire: &mut Wire, handle: &[u8], offset: u64) -> Vec<u8> {
    let answer = wire.ask(READ, fields().text(handle).u64(offset).u32(1000)).await;
    if answer.kind == STATUS {
        format!("{}", answer.code()).into_bytes()
    } else {
        answer.string().to_vec()
    }
}

#[tokio::test]
async fn a_rename_publishes_what_is_being_written_and_the_handle_goes_on() {
    let fixture = Fixture::start().await;
    fixture.write("/doc", b"the old one");
    let (_client, mut wire) = wire(&fixture).await;
    let handle = wire.open_file("/new", W | CREAT | EXCL).await.handle();
    assert_eq!(wire.write(&handle, 0, b"first").await, 0);
    assert_eq!(wire.ask(RENAME, fields().text("/new").text("/doc")).await.code(), 4, "taken");
    assert_eq!(fixture.read("/new"), None, "nothing is published for a rename that is refused");
    assert_eq!(posix_rename(&mut wire, "/new", "/doc").await, 0);
    assert_eq!(fixture.read("/doc").unwrap(), b"first");
    assert_eq!(wire.stat("/new").await.code(), 2);
    assert_eq!(wire.ask(FSTAT, fields().text(&handle)).await.size(), 5);
    // The handle has followed the file.
    assert_eq!(wire.write(&handle, 5, b" and more").await, 0);
    assert_eq!(wire.stat("/doc").await.size(), 14);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/doc").unwrap(), b"first and more");
    assert_eq!(fixture.read("/new"), None);
    assert_eq!(wire.close(&handle).await, 4, "the handle is dead");
    fixture.stop().await;
}

#[tokio::test]
async fn a_rename_moves_what_is_being_written_over_an_older_file_not_that_file() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"old");
    let (_client, mut wire) = wire(&fixture).await;
    let handle = wire.open_file("/f", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&handle, 0, b"new").await, 0);
    assert_eq!(posix_rename(&mut wire, "/f", "/g").await, 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/g").unwrap(), b"new");
    assert_eq!(fixture.read("/f"), None, "it came back");
    // As libfuse hides a file that is removed while it is open.
    let handle = wire.open_file("/h", W | CREAT).await.handle();
    assert_eq!(posix_rename(&mut wire, "/h", "/.fuse_hidden1").await, 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(wire.ask(REMOVE, fields().text("/.fuse_hidden1")).await.code(), 0);
    assert_eq!((fixture.read("/h"), fixture.read("/.fuse_hidden1")), (None, None));
    fixture.stop().await;
}

#[tokio::test]
async fn what_is_removed_while_it_is_written_stays_away() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"old");
    let (_client, mut wire) = wire(&fixture).await;
    for name in ["/f", "/new"] {
        let handle = wire.open_file(name, W | CREAT | TRUNC).await.handle();
        assert_eq!(wire.write(&handle, 0, b"bytes").await, 0);
        assert_eq!(wire.ask(REMOVE, fields().text(name)).await.code(), 0, "{name}");
        assert_eq!(wire.stat(name).await.code(), 2, "{name}");
        assert_eq!(wire.write(&handle, 5, b"more").await, 2, "{name}");
        assert_eq!(wire.close(&handle).await, 0, "{name}");
        assert_eq!(fixture.read(name), None, "{name} came back");
    }
    assert_eq!(wire.ask(REMOVE, fields().text("/new")).await.code(), 2);
    fixture.stop().await;
}

#[tokio::test]
async fn a_second_handle_reads_what_the_first_has_written() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"the old one");
    let (_client, mut wire) = wire(&fixture).await;
    for name in ["/f", "/new"] {
        let writer = wire.open_file(name, W | CREAT | TRUNC).await.handle();
        assert_eq!(wire.write(&writer, 0, b"one").await, 0);
        let reader = wire.open_file(name, R).await.handle();
        assert_eq!(read(&mut wire, &reader, 0).await, b"one");
        assert_eq!(read(&mut wire, &reader, 3).await, b"1", "EOF");
        assert_eq!(wire.write(&writer, 3, b" two").await, 0);
        assert_eq!(read(&mut wire, &reader, 2).await, b"e two");
        assert_eq!(wire.ask(FSTAT, fields().text(&reader)).await.size(), 7);
        assert_eq!(wire.write(&reader, 0, b"x").await, 4, "it was opened to read");
        assert_ne!(fixture.read(name).unwrap_or_default(), b"one two", "not before CLOSE");
        assert_eq!(wire.close(&writer).await, 0);
        assert_eq!(read(&mut wire, &reader, 0).await, b"one two", "it reads on");
        assert_eq!(wire.close(&reader).await, 0);
        assert_eq!(fixture.read(name).unwrap(), b"one two");
    }
    // Others see what is published.
    let writer = wire.open_file("/f", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&writer, 0, b"unseen").await, 0);
    let (_other, mut apart) = super::shared::wire(&fixture).await;
    let reader = apart.open_file("/f", R).await.handle();
    assert_eq!(read(&mut apart, &reader, 0).await, b"one two");
    fixture.stop().await;
}

#[tokio::test]
async fn a_second_handle_writes_where_the_first_does() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"0123456789");
    let (_client, mut wire) = wire(&fixture).await;
    for flags in [W, W | APPEND] {
        let first = wire.open_file("/f", W | CREAT | TRUNC).await.handle();
        assert_eq!(wire.write(&first, 0, b"a\n").await, 0);
        let second = wire.open_file("/f", flags).await.handle();
        assert_eq!(wire.write(&second, 2, b"b\n").await, 0);
        assert_eq!(wire.close(&first).await, 0);
        assert_eq!(fixture.read("/f").unwrap(), b"a\nb\n", "{flags:#x}");
        assert_eq!(wire.write(&second, 4, b"c\n").await, 0);
        assert_eq!(fixture.read("/f").unwrap(), b"a\nb\n", "{flags:#x}: not before CLOSE");
        assert_eq!(wire.close(&second).await, 0);
        assert_eq!(fixture.read("/f").unwrap(), b"a\nb\nc\n", "{flags:#x}");
    }
    // What was written through the second is there when its CLOSE is answered.
    let first = wire.open_file("/g", W | CREAT).await.handle();
    let second = wire.open_file("/g", W).await.handle();
    assert_eq!(wire.write(&second, 0, b"second").await, 0);
    assert_eq!(wire.close(&second).await, 0);
    assert_eq!(fixture.read("/g").unwrap(), b"second");
    assert_eq!(wire.write(&first, 0, b"FIRS").await, 0);
    assert_eq!(wire.close(&first).await, 0);
    assert_eq!(fixture.read("/g").unwrap(), b"FIRSnd");
    fixture.stop().await;
}

#[tokio::test]
async fn a_close_that_is_late_brings_no_older_file_back() {
    let fixture = Fixture::start().await;
    let (_client, mut wire) = wire(&fixture).await;
    let older = wire.open_file("/f", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&older, 0, b"the older one").await, 0);
    let newer = wire.open_file("/f", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&newer, 0, b"newer").await, 0);
    assert_eq!(wire.stat("/f").await.size(), 5);
    assert_eq!(wire.close(&newer).await, 0);
    assert_eq!(wire.close(&older).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"newer");
    fixture.stop().await;
}

#[tokio::test]
async fn what_was_refused_to_one_handle_is_refused_to_the_other() {
    let fixture = Fixture::start().await;
    let (_client, mut wire) = wire(&fixture).await;
    let first = wire.open_file("/small/f", W | CREAT).await.handle();
    let second = wire.open_file("/small/f", W).await.handle();
    assert_eq!(wire.write(&first, 2 << 20, b"x").await, 4, "over the quota");
    assert_eq!(wire.write(&second, 0, b"x").await, 4);
    assert_eq!(wire.close(&second).await, 4);
    assert_eq!(wire.close(&first).await, 0, "nothing is left to refuse");
    assert_eq!(fixture.read("/small/f"), None);
    fixture.stop().await;
}

#[tokio::test]
async fn what_cannot_be_written_behind_a_rename_fails_the_close() {
    let fixture = Fixture::start().await;
    fixture.allow_transfers(1).await;
    let (_client, mut wire) = wire(&fixture).await;
    let handle = wire.open_file("/f", W | CREAT).await.handle();
    assert_eq!(wire.write(&handle, 0, b"first").await, 0);
    assert_eq!(posix_rename(&mut wire, "/f", "/g").await, 0);
    let other = wire.open_file("/other", W | CREAT).await.handle();
    assert_eq!(wire.write(&handle, 5, b"more").await, 4, "another transfer is open");
    assert_eq!(wire.close(&other).await, 0);
    assert_eq!(wire.write(&handle, 9, b"still more").await, 4, "not behind a hole");
    assert_eq!(wire.close(&handle).await, 4);
    assert_eq!(fixture.read("/g").unwrap(), b"first");
    fixture.stop().await;
}
