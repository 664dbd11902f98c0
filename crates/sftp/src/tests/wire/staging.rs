//! OPEN over staging, row by row, and who sees what of an upload that is not yet published.

use super::*;

/// Leaves `abc`, a hole, `xyz` of a cut upload behind.
async fn cut(fixture: &Fixture, path: &str) {
    let client = login(fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file(path, W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&handle, 0, b"abc").await, 0);
    assert_eq!(wire.write(&handle, 6, b"xyz").await, 0);
    wire.channel.end().await.unwrap();
    assert_eq!(wire.frame().await, None);
}

#[tokio::test]
async fn a_partial_is_continued_or_dropped_as_the_flags_say() {
    let fixture = Fixture::start().await;
    for (flags, at, wanted) in [
        (W, 3, &b"abcdef"[..]),
        (W | CREAT, 3, b"abcdef"),
        (R | W, 3, b"abcdef"),
        (W | APPEND, 0, b"abcdef"),
        (W | CREAT | APPEND, 77, b"abcdef"),
        (W | CREAT | TRUNC, 0, b"def"),
        (W | TRUNC, 0, b"def"),
        (W | CREAT | EXCL, 0, b"def"),
    ] {
        cut(&fixture, "/f").await;
        let client = login(&fixture).await;
        let mut wire = Wire::open(&client).await;
        assert_eq!(wire.stat("/f").await.size(), 3, "up to the first hole");
        for reads in [R, 0] {
            assert_eq!(wire.open_file("/f", reads).await.code(), 2, "nothing is published");
        }
        let handle = wire.open_file("/f", flags).await.handle();
        assert_eq!(wire.write(&handle, at, b"def").await, 0);
        assert_eq!(wire.close(&handle).await, 0, "{flags:#x}");
        assert_eq!(fixture.read("/f").unwrap(), wanted, "{flags:#x}");
        std::fs::remove_file(fixture.path("/f")).unwrap();
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_file_is_replaced_or_laid_over_as_the_flags_say() {
    let fixture = Fixture::start().await;
    for (flags, at, wanted) in [
        (W, 1, &b"0X23456789"[..]),
        (W | CREAT, 1, b"0X23456789"),
        (R | W | CREAT, 12, b"0123456789\0\0X"),
        (W | APPEND, 1, b"0123456789X"),
        (W | CREAT | APPEND, 99, b"0123456789X"),
        (W | TRUNC, 0, b"X"),
        (W | CREAT | TRUNC, 2, b"\0\0X"),
    ] {
        fixture.write("/f", b"0123456789");
        let client = login(&fixture).await;
        let mut wire = Wire::open(&client).await;
        let handle = wire.open_file("/f", flags).await.handle();
        assert_eq!(wire.write(&handle, at, b"X").await, 0);
        assert_eq!(fixture.read("/f").unwrap(), b"0123456789", "the old one until CLOSE");
        assert_eq!(wire.close(&handle).await, 0, "{flags:#x}");
        assert_eq!(fixture.read("/f").unwrap(), wanted, "{flags:#x}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_handle_reads_its_own_bytes_over_those_below() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"0123456789");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R | W).await.handle();
    let read = |offset: u64, len: u32| fields().text(&handle).u64(offset).u32(len);
    assert_eq!(wire.write(&handle, 2, b"AB").await, 0);
    assert_eq!(wire.write(&handle, 12, b"C").await, 0);
    assert_eq!(wire.ask(READ, read(0, 100)).await.string(), b"01AB456789\0\0C");
    assert_eq!(wire.ask(READ, read(3, 2)).await.string(), b"B4");
    assert_eq!(wire.ask(READ, read(13, 1)).await.code(), 1, "EOF");
    let shorter = fields().text(&handle).u32(1).u64(3);
    assert_eq!(wire.ask(FSETSTAT, shorter).await.code(), 0);
    assert_eq!(wire.ask(READ, read(0, 100)).await.string(), b"01A");
    assert_eq!(wire.ask(FSTAT, fields().text(&handle)).await.size(), 3);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"01A");
    fixture.stop().await;
}

#[tokio::test]
async fn what_was_opened_stays_what_it_was() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"old version");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let reader = wire.open_file("/f", R).await.handle();
    let overlay = wire.open_file("/f", W).await.handle();
    let first = wire.open_file("/g", W | CREAT | EXCL).await.handle();
    for path in ["/f", "/g"] {
        let handle = wire.open_file(path, W | CREAT | TRUNC).await.handle();
        assert_eq!(wire.write(&handle, 0, b"new").await, 0);
        assert_eq!(wire.close(&handle).await, 0);
    }
    let read = wire.ask(READ, fields().text(&reader).u64(0).u32(100)).await;
    assert_eq!(read.string(), b"old version");
    assert_eq!(wire.write(&overlay, 0, b"late").await, 0);
    assert_eq!(wire.close(&overlay).await, 4, "its base was replaced meanwhile");
    assert_eq!(fixture.read("/f").unwrap(), b"new");
    assert_eq!(wire.write(&first, 0, b"first").await, 0);
    assert_eq!(wire.close(&first).await, 4, "the name was free and is taken now");
    assert_eq!(fixture.read("/g").unwrap(), b"new");
    fixture.stop().await;
}

#[tokio::test]
async fn nobody_else_sees_an_upload_and_listings_show_what_is_published() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", W | CREAT).await.handle();
    assert_eq!(wire.write(&handle, 0, b"abc").await, 0);
    let other_client = login(&fixture).await;
    let mut other = Wire::open(&other_client).await;
    assert_eq!(wire.stat("/f").await.size(), 3);
    const LSTAT: u8 = 7;
    assert_eq!(wire.ask(LSTAT, fields().text("/f")).await.size(), 3);
    assert_eq!(other.stat("/f").await.code(), 2);
    for wire in [&mut wire, &mut other] {
        let listing = wire.ask(OPENDIR, fields().text("/")).await.handle();
        let names = wire.ask(READDIR, fields().text(&listing)).await;
        assert_eq!((names.kind, names.number()), (NAME, 1), "only /small");
        for _ in 0..2 {
            assert_eq!(wire.ask(READDIR, fields().text(&listing)).await.code(), 1);
        }
    }
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(other.stat("/f").await.size(), 3);
    fixture.stop().await;
}

#[tokio::test]
async fn attributes_of_open_are_kept_for_the_publish_and_give_no_rights() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    // Mode 0 as sshfs sends it, then the mode with a type and times as `put -p` does.
    let none = fields().text("/none").u32(W | CREAT).u32(4).u32(0);
    let handle = wire.ask(OPEN, none).await.handle();
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/none").unwrap(), b"", "it can be read");
    let dated = fields().text("/dated").u32(W | CREAT | TRUNC).u32(4 | 8).u32(0o100_600);
    let dated = dated.u32(1_111_111_111).u32(1_222_222_222);
    let handle = wire.ask(OPEN, dated).await.handle();
    assert_eq!(wire.write(&handle, 0, b"x").await, 0);
    assert_eq!(wire.close(&handle).await, 0);
    let after = wire.stat("/dated").await;
    assert_eq!(after.body[after.body.len() - 4..], 1_222_222_222u32.to_be_bytes());
    // By path while it is open: on the channel's own upload.
    let handle = wire.open_file("/open", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&handle, 0, b"0123").await, 0);
    const SETSTAT: u8 = 9;
    let both = fields().text("/open").u32(1 | 8).u64(2).u32(1_111_111_111).u32(1_333_333_333);
    assert_eq!(wire.ask(SETSTAT, both).await.code(), 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/open").unwrap(), b"01");
    let after = wire.stat("/open").await;
    assert_eq!(after.body[after.body.len() - 4..], 1_333_333_333u32.to_be_bytes());
    let link = fields().text("hardlink@openssh.com").text("/open").text("/second");
    assert_eq!(wire.ask(EXTENDED, link).await.code(), 8, "the mount does not offer it");
    fixture.stop().await;
}
