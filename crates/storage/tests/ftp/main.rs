//! What an FTP endpoint adds to the conformance suite: real servers under TLS and in active mode,
//! and a server that breaks one rule at a time.

mod broken;

use std::sync::Arc;

use broken::{Broken, Faults, start};
use bytes::{Bytes, BytesMut};
use entrepot_nouns::endpoint::{FtpMode, FtpTarget, FtpTls, PublishBy};
use entrepot_nouns::{EndpointTarget, Env, StorePath, TransferId};
use entrepot_storage::*;
use entrepot_testkit::ftpd::Ftpd;

fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

fn id(number: u128) -> TransferId {
    TransferId(uuid::Uuid::from_u128(number))
}

fn target(port: u16) -> FtpTarget {
    FtpTarget {
        port: Some(port),
        tls: FtpTls::Off,
        allow_private: true,
        ..FtpTarget::new("127.0.0.1", "anonymous")
    }
}

async fn open_target(target: FtpTarget) -> AnyStore {
    let secrets = ResolvedSecrets { secret: Some("pa ss".to_owned().into()), private_key: None };
    open(&EndpointTarget::Ftp(target), &secrets, &Env::real()).await.unwrap()
}

async fn broken_store(faults: Faults) -> (AnyStore, Broken) {
    let server = start(faults);
    (open_target(target(server.port)).await, server)
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Env::simulated(seed).fill_random(&mut bytes);
    bytes
}

fn how(existing: Existing, size: usize) -> Publish {
    Publish { existing, accessed: None, modified: None, mode: None, size: size as u64 }
}

async fn put(store: &AnyStore, name: &str, data: &[u8], existing: Existing) -> Result<Published> {
    let file = store.stage(Env::real().new_id(), &path(name)).await?;
    let sent = async {
        for (number, piece) in data.chunks(100_000).enumerate() {
            let offset = number as u64 * 100_000;
            file.write_at(offset, Bytes::copy_from_slice(piece)).await?;
        }
        file.sync().await?;
        file.publish(&how(existing, data.len())).await
    };
    let published = sent.await;
    if published.is_err() {
        file.discard().await?;
    }
    published
}

async fn get(store: &AnyStore, name: &str, step: usize) -> Result<Vec<u8>> {
    let file = store.open(&path(name)).await?;
    let mut all = BytesMut::new();
    loop {
        let before = all.len();
        all = file.read_at(before as u64, all, step).await?;
        if all.len() < before + step {
            return Ok(all.to_vec());
        }
    }
}

async fn names(store: &AnyStore) -> Result<Vec<String>> {
    let mut listing = store.list(&path("")).await?;
    Ok(listing.next_page(100).await?.into_iter().map(|entry| entry.name).collect())
}

/// More uploads than a control connection has tickets, by a server that wants each data
/// connection to resume: in TLS 1.3 each ticket counts once.
#[tokio::test]
async fn data_resumes_the_session_of_the_control_connection_for_ever() {
    for tls in [FtpTls::Explicit, FtpTls::Implicit] {
        let server = Ftpd::vsftpd(tls).unwrap();
        let store = open_target(server.target()).await;
        for round in 0..6 {
            let data = pattern(round, 700_000);
            put(&store, "f", &data, Existing::Replace).await.unwrap();
            assert!(std::fs::read(server.folder().join("f")).unwrap() == data);
            assert!(get(&store, "f", 100_000).await.unwrap() == data);
        }
        assert_eq!(names(&store).await.unwrap(), ["f"]);
    }
}

#[tokio::test]
async fn a_server_is_known_by_its_certificate_or_its_authorities_and_not_otherwise() {
    let server = Ftpd::pyftpdlib(FtpTls::Explicit).unwrap();
    let other = Ftpd::pyftpdlib(FtpTls::Explicit).unwrap();
    let certificate = server.certificate().unwrap().to_owned();
    let right = server.target();
    let wrong =
        FtpTarget { certificates: vec![other.certificate().unwrap().to_owned()], ..right.clone() };
    let store = open_target(wrong).await;
    let Err(StoreError::Denied(why)) = store.stat(&path("")).await else { panic!("accepted") };
    let shown = why.split('\'').find(|word| word.starts_with("SHA256:")).unwrap().to_owned();
    for certificates in [vec![shown.clone()], vec![shown.replace("SHA256:", "").to_uppercase()]] {
        let store = open_target(FtpTarget { certificates, ..right.clone() }).await;
        assert!(store.stat(&path("")).await.is_ok());
    }
    let signed =
        FtpTarget { certificates: Vec::new(), authorities: Some(certificate), ..right.clone() };
    assert!(open_target(signed.clone()).await.stat(&path("")).await.is_ok());
    let other_name = FtpTarget { host: "localhost.localdomain".to_owned(), ..signed };
    assert!(open_target(other_name).await.stat(&path("")).await.is_err());
    let system = FtpTarget { certificates: Vec::new(), ..right.clone() };
    assert!(open_target(system).await.stat(&path("")).await.is_err());
    // It takes no login in clear.
    let clear = FtpTarget { tls: FtpTls::Off, certificates: Vec::new(), ..right };
    let refused = open_target(clear).await.stat(&path("")).await;
    assert!(matches!(refused, Err(StoreError::Denied(_))), "{refused:?}");
}

#[tokio::test]
async fn servers_connect_to_us_in_active_mode() {
    let server = Ftpd::vsftpd(FtpTls::Off).unwrap();
    let active = FtpTarget { mode: FtpMode::Active, ..server.target() };
    let store = open_target(active).await;
    let data = pattern(3, 900_000);
    for _ in 0..3 {
        put(&store, "f", &data, Existing::Replace).await.unwrap();
        assert!(get(&store, "f", 300_000).await.unwrap() == data);
    }
    assert_eq!(names(&store).await.unwrap(), ["f"]);
}

/// Sessions that rest in the pool die with their server and are not believed.
#[tokio::test]
async fn dead_connections_are_found_before_they_are_used() {
    let server = Ftpd::vsftpd(FtpTls::Off).unwrap();
    let store = open_target(server.target()).await;
    put(&store, "f", b"content", Existing::Refuse).await.unwrap();
    server.kill_sessions();
    assert_eq!(store.stat(&path("f")).await.unwrap().size, 7);
    let mut server = server;
    server.kill().unwrap();
    let gone = store.stat(&path("f")).await;
    assert!(matches!(gone, Err(StoreError::Unavailable(_))), "{gone:?}");
}

#[tokio::test]
async fn a_wrong_password_is_told() {
    let server = Ftpd::pyftpdlib(FtpTls::Off).unwrap();
    let wrong = FtpTarget { user: "nobody".to_owned(), ..server.target() };
    let refused = open_target(wrong).await.stat(&path("")).await;
    let Err(StoreError::Denied(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("the login failed") && why.contains("530"), "{why}");
}

#[tokio::test]
async fn a_download_that_is_cut_goes_on_where_it_was() {
    let (store, server) =
        broken_store(Faults { cut_downloads: (3, 100_000), ..Faults::default() }).await;
    let data = pattern(5, 1_000_000);
    server.shared.files.lock().unwrap().insert("/f".to_owned(), data.clone());
    assert!(get(&store, "f", 64_000).await.unwrap() == data);
    let said = server.shared.said.lock().unwrap();
    let offsets: Vec<_> = said.iter().filter(|line| line.starts_with("REST")).collect();
    assert_eq!(offsets, ["REST 100000", "REST 200000", "REST 300000"]);
}

#[tokio::test]
async fn a_download_that_never_ends_fails_in_the_end() {
    let (store, server) =
        broken_store(Faults { cut_downloads: (99, 0), ..Faults::default() }).await;
    server.shared.files.lock().unwrap().insert("/f".to_owned(), pattern(5, 1000));
    let failed = get(&store, "f", 64_000).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(server.shared.count("RETR"), 9);
}

#[tokio::test]
async fn a_download_counts_only_when_its_size_is_right_and_226_came() {
    let short = Faults { short: Some(10), ..Faults::default() };
    let long = Faults { size_error: 5, ..Faults::default() };
    for faults in [short, long] {
        let (store, server) = broken_store(faults).await;
        server.shared.files.lock().unwrap().insert("/f".to_owned(), pattern(6, 5000));
        let failed = get(&store, "f", 5005).await;
        assert!(matches!(failed, Err(StoreError::Io(_))), "{failed:?}");
    }
    let (store, server) =
        broken_store(Faults { end: Some("451 the disk failed"), ..Faults::default() }).await;
    server.shared.files.lock().unwrap().insert("/f".to_owned(), pattern(6, 5000));
    let failed = get(&store, "f", 5000).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    // More than was announced.
    let (store, server) = broken_store(Faults::default()).await;
    server.shared.files.lock().unwrap().insert("/f".to_owned(), pattern(6, 5000));
    let file = store.open(&path("f")).await.unwrap();
    server.shared.files.lock().unwrap().insert("/f".to_owned(), pattern(6, 6000));
    let failed = file.read_at(0, BytesMut::new(), 5000).await;
    assert!(matches!(failed, Err(StoreError::Io(_))), "{failed:?}");
}

#[tokio::test]
async fn an_upload_that_is_cut_publishes_nothing_and_is_resumed() {
    let (store, server) =
        broken_store(Faults { cut_upload: Some(300_000), ..Faults::default() }).await;
    let data = pattern(7, 900_000);
    let file = store.stage(id(1), &path("f")).await.unwrap();
    let mut failed = Ok(());
    for (number, piece) in data.chunks(50_000).enumerate() {
        let piece = Bytes::copy_from_slice(piece);
        failed = failed.and(file.write_at(number as u64 * 50_000, piece).await);
    }
    let failed = failed.and(file.sync().await);
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert!(file.publish(&how(Existing::Replace, data.len())).await.is_err());
    assert_eq!(store.stat(&path("f")).await, Err(StoreError::NotFound));
    drop(file);
    let file = store.resume(id(1), &path("f")).await.unwrap();
    assert_eq!(file.size(), 300_000);
    file.write_at(300_000, Bytes::copy_from_slice(&data[300_000..])).await.unwrap();
    file.sync().await.unwrap();
    file.publish(&how(Existing::Replace, data.len())).await.unwrap();
    let files = server.shared.files.lock().unwrap();
    assert!(files.len() == 1 && files["/f"] == data);
}

/// Another process may stage after this one has looked through the server.
#[tokio::test]
async fn what_another_process_staged_later_is_found_when_it_is_asked_for() {
    let (first, server) = broken_store(Faults::default()).await;
    let second = open_target(target(server.port)).await;
    assert!(second.staged().await.unwrap().is_empty());
    let file = first.stage(id(7), &path("f")).await.unwrap();
    file.write_at(0, Bytes::from_static(b"half of it")).await.unwrap();
    file.sync().await.unwrap();
    assert!(second.staged().await.unwrap().is_empty(), "it looks again");
    for number in [6, 7] {
        second.may_be_staged(id(number), &path("f"));
    }
    let staged = second.staged().await.unwrap();
    assert_eq!(staged.iter().map(|file| file.id).collect::<Vec<_>>(), [id(7)]);
    second.discard_staged(id(7)).await.unwrap();
    assert!(server.shared.files.lock().unwrap().is_empty());
}

/// What went out in several uploads is read back whole, also between them and from the middle.
#[tokio::test]
async fn what_was_sent_is_read_back_before_it_is_published() {
    let servers = [Ftpd::vsftpd(FtpTls::Off).unwrap(), Ftpd::pyftpdlib(FtpTls::Off).unwrap()];
    for server in servers {
        // With one session there is none to spare.
        let one = FtpTarget { connections: Some(1), ..server.target() };
        let secret = Some(server.password().to_owned().into());
        let secrets = ResolvedSecrets { secret, private_key: None };
        let store = open(&EndpointTarget::Ftp(one), &secrets, &Env::real()).await.unwrap();
        let data = pattern(21, 900_000);
        let piece = |from: usize, to: usize| Bytes::copy_from_slice(&data[from..to]);
        let file = store.stage(id(8), &path("f")).await.unwrap();
        file.write_at(0, piece(0, 500_000)).await.unwrap();
        drop(file);
        let file = store.resume(id(8), &path("f")).await.unwrap();
        let back = file.read_at(499_990, BytesMut::new(), 100).await.unwrap();
        assert_eq!(back[..], data[499_990..500_000]);
        file.set_len(400_000).await.unwrap();
        file.write_at(400_000, piece(400_000, 600_000)).await.unwrap();
        let back = file.read_at(300_000, BytesMut::new(), 200_000).await.unwrap();
        assert!(back[..] == data[300_000..500_000]);
        file.write_at(600_000, piece(600_000, 900_000)).await.unwrap();
        let mut back = BytesMut::new();
        while back.len() < data.len() {
            back = file.read_at(back.len() as u64, back, 70_000).await.unwrap();
        }
        assert!(back == data);
        let end = file.read_at(900_000, BytesMut::new(), 10).await.unwrap();
        assert!(end.is_empty());
        file.sync().await.unwrap();
        file.publish(&how(Existing::Replace, data.len())).await.unwrap();
        assert!(std::fs::read(server.folder().join("f")).unwrap() == data);
    }
}

/// A server for deliveries only: what was cut is sent again, and nothing of it stays behind.
#[tokio::test]
async fn a_part_that_the_server_does_not_give_back_is_sent_again() {
    let server = Ftpd::vsftpd_with(FtpTls::Off, &["download_enable=NO"]).unwrap();
    let target = EndpointTarget::Ftp(server.target());
    let secret = Some(server.password().to_owned().into());
    let secrets = ResolvedSecrets { secret, private_key: None };
    let store = open(&target, &secrets, &Env::real()).await.unwrap();
    let data = pattern(22, 300_000);
    let file = store.stage(id(9), &path("f")).await.unwrap();
    file.write_at(0, Bytes::copy_from_slice(&data[..100_000])).await.unwrap();
    drop(file);
    assert!(matches!(store.resume(id(9), &path("f")).await, Err(StoreError::NotFound)));
    assert_eq!(std::fs::read_dir(server.folder()).unwrap().count(), 0);
    let file = store.stage(id(9), &path("f")).await.unwrap();
    file.write_at(0, Bytes::copy_from_slice(&data)).await.unwrap();
    file.sync().await.unwrap();
    file.publish(&how(Existing::Replace, data.len())).await.unwrap();
    assert!(std::fs::read(server.folder().join("f")).unwrap() == data);
}

/// RFC 3659 knows more types than file and directory, and servers do not agree on their names.
#[tokio::test]
async fn what_is_no_file_and_no_directory_has_its_name_all_the_same() {
    let links = &["/to-file", "/to-nothing", "/"];
    let (store, server) = broken_store(Faults { links, ..Faults::default() }).await;
    server.shared.files.lock().unwrap().insert("/to-file".to_owned(), b"content".to_vec());
    // A link is what it leads to.
    assert_eq!(store.stat(&path("to-file")).await.unwrap().size, 7);
    assert_eq!(store.stat(&path("")).await.unwrap().kind, EntryKind::Directory);
    assert_eq!(store.stat(&path("to-nothing")).await, Err(StoreError::NotFound));
    for name in ["to-file", "to-nothing"] {
        let taken = put(&store, name, b"x", Existing::Refuse).await;
        assert_eq!(taken, Err(StoreError::Exists), "{name}");
        assert_eq!(server.shared.count("RNTO"), 0);
    }
    put(&store, "free", b"x", Existing::Refuse).await.unwrap();
    let onto = store.rename(&path("free"), &path("to-nothing"), Existing::Refuse).await;
    assert_eq!(onto, Err(StoreError::Exists));
    assert_eq!(store.make_directory(&path("to-nothing")).await, Err(StoreError::Exists));
    assert!(put(&store, "to-nothing", b"x", Existing::Replace).await.unwrap().replaced());
}

#[tokio::test]
async fn refusals_in_the_middle_keep_their_meaning() {
    for (reply, full) in [("552 full", true), ("452 full", true), ("451 later", false)] {
        let (store, server) =
            broken_store(Faults { refuse_upload: Some(reply), ..Faults::default() }).await;
        // More than sockets hold: it must hear the reply while it writes.
        let failed = put(&store, "f", &pattern(8, 20_000_000), Existing::Replace).await;
        match (full, failed) {
            (true, Err(StoreError::NoSpace)) => {}
            (false, Err(StoreError::Unavailable(why))) if why.contains("451 later") => {}
            (_, other) => panic!("{reply}: {other:?}"),
        }
        assert!(server.shared.files.lock().unwrap().is_empty(), "a part is left");
    }
}

#[tokio::test]
async fn a_server_that_tells_another_size_gets_nothing_published() {
    let (store, server) = broken_store(Faults { size_error: 1, ..Faults::default() }).await;
    let failed = put(&store, "f", b"content", Existing::Replace).await;
    assert_eq!(failed, Err(StoreError::Io("the server has 8 bytes of 7".to_owned())));
    assert!(server.shared.files.lock().unwrap().is_empty());
    assert_eq!(server.shared.count("RNTO"), 0);
}

#[tokio::test]
async fn a_227_to_another_address_is_not_followed() {
    let (store, server) =
        broken_store(Faults { host: Some("192.0.2.1"), ..Faults::default() }).await;
    put(&store, "f", b"content", Existing::Replace).await.unwrap();
    assert_eq!(get(&store, "f", 100).await.unwrap(), b"content");
    assert!(server.shared.count("PASV") >= 2);
}

#[tokio::test]
async fn odd_listings_are_read_without_harm_or_refused() {
    let facts = [
        "type=cdir; .",
        "type=pdir; ..",
        "type=file;size=1; ../up",
        "type=file;size=2; a/b",
        "type=file;size=3;  blank",
        "type=file;size=4; \u{fc}",
        "type=OS.unix=slink:/etc; l",
        "size=5;type=file; ok",
        "nonsense",
        "type=dir; d",
    ];
    let facts = Some(&*facts.join("\r\n").leak());
    let (store, _server) = broken_store(Faults { facts, ..Faults::default() }).await;
    assert_eq!(names(&store).await.unwrap(), [" blank", "\u{fc}", "ok", "d"]);
    let long = "total 3\r\ndrwxr-xr-x 2 o g 1 Jan  1  2020 .\r\n\
                -rw-r--r-- 1 o g 5 Jan  1  2020 na me\r\n\
                lrwxrwxrwx 1 o g 1 Jan  1  2020 l -> /x\r\n";
    let (store, server) = broken_store(Faults { list: Some(long), ..Faults::default() }).await;
    assert_eq!(names(&store).await.unwrap(), ["na me"]);
    assert_eq!(server.shared.count("LIST -a"), 1);
    // An unknown form is not an empty directory.
    let (store, _server) =
        broken_store(Faults { list: Some("VMS.TXT;1 2/3 1-JAN-2026\r\n"), ..Faults::default() })
            .await;
    assert!(matches!(names(&store).await, Err(StoreError::Unsupported(_))));
}

#[tokio::test]
async fn a_rename_whose_answer_was_lost_is_looked_at() {
    let (store, server) = broken_store(Faults { forget_rename: true, ..Faults::default() }).await;
    put(&store, "f", b"content", Existing::Replace).await.unwrap();
    assert_eq!(server.shared.count("RNTO"), 1, "it was done once");
    assert_eq!(server.shared.files.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_replaces_nothing_replaces_nothing_unless_the_endpoint_says_so() {
    let faults = Faults { replies: vec![("RNTO", "553 it exists")], ..Faults::default() };
    let (store, server) = broken_store(faults).await;
    let refused = put(&store, "f", b"x", Existing::Replace).await;
    assert!(matches!(refused, Err(StoreError::Denied(_))), "{refused:?}");
    server.shared.files.lock().unwrap().insert("/f".to_owned(), b"old".to_vec());
    let refused = put(&store, "f", b"x", Existing::Replace).await;
    assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{refused:?}");
    assert_eq!(server.shared.files.lock().unwrap()["/f"], b"old");
    // By steps: the old one is moved away first, which this server refuses too.
    let two = FtpTarget { publish: PublishBy::RemoveAndRename, ..target(server.port) };
    let refused = put(&open_target(two).await, "f", b"x", Existing::Replace).await;
    assert!(refused.is_err());
    assert_eq!(server.shared.count("DELE /f"), 0);
    assert_eq!(server.shared.files.lock().unwrap()["/f"], b"old");
    let direct = FtpTarget { publish: PublishBy::Direct, ..target(server.port) };
    put(&open_target(direct).await, "g", b"new", Existing::Replace).await.unwrap();
    assert_eq!(server.shared.files.lock().unwrap()["/g"], b"new");
    let direct = FtpTarget { publish: PublishBy::Direct, ..target(server.port) };
    let direct = open_target(direct).await;
    direct.stage(id(3), &path("g")).await.unwrap().discard().await.unwrap();
    drop(direct.stage(id(4), &path("g")).await.unwrap());
    direct.discard_staged(id(4)).await.unwrap();
    assert_eq!(server.shared.files.lock().unwrap()["/g"], b"new", "it was never touched");
}

#[tokio::test]
async fn a_session_that_must_be_resumed_and_is_not_is_told() {
    let faults = Faults { replies: vec![("STOR", "522 resume it")], ..Faults::default() };
    let (store, _server) = broken_store(faults).await;
    let file = store.stage(id(2), &path("f")).await.unwrap();
    let Err(StoreError::Denied(why)) = file.write_at(0, Bytes::from_static(b"x")).await else {
        panic!("taken");
    };
    assert!(why.contains("resume") && why.contains("522"), "{why}");
}

#[tokio::test]
async fn no_more_sessions_are_opened_than_the_endpoint_allows() {
    let (store, server) = broken_store(Faults::default()).await;
    drop(store);
    let few = FtpTarget { connections: Some(2), ..target(server.port) };
    let store = open_target(few).await;
    let puts = (0..8).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(
            async move { put(&store, &format!("f{number}"), b"x", Existing::Refuse).await },
        )
    });
    for put in puts.collect::<Vec<_>>() {
        put.await.unwrap().unwrap();
    }
    assert_eq!(server.shared.count("USER"), 2);
}
