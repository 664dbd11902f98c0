//! Uploads and downloads: what is published, what is refused, and what a cut leaves.

use entrepot_nouns::Protocol;
use entrepot_nouns::ftp::{AsciiTransfers, FtpOptions, FtpTls};
use tokio::net::TcpStream;

use super::client::{Client, Stream, port_argument};
use super::fixture::{Node, SMALL_BYTES};
use super::soon;

#[tokio::test]
async fn what_was_stored_is_recorded_and_read_back() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(client.upload("STOR a.bin", &bytes).await.code, 226);
    assert_eq!(client.command("SIZE a.bin").await.text, bytes.len().to_string());
    assert!(client.download("RETR a.bin").await == bytes);
    let world = node.stop().await;
    let files = world.uploads().await;
    assert_eq!(files.len(), 1);
    assert_eq!((files[0].path.as_str(), files[0].size), ("/a.bin", bytes.len() as u64));
    assert_eq!((files[0].protocol, &files[0].displaced), (Protocol::Ftp, &None));
}

#[tokio::test]
async fn append_and_restart_continue_where_the_client_says() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.upload("APPE f", b"0123456789").await.code, 226);
    assert_eq!(client.upload("APPE f", b"abc").await.code, 226);
    assert_eq!(client.download("RETR f").await, b"0123456789abc");
    assert_eq!(client.code("REST 10").await, 350);
    assert_eq!(client.download("RETR f").await, b"abc");
    assert_eq!(client.download("RETR f").await, b"0123456789abc", "REST is for one transfer");
    assert_eq!(client.code("REST 4").await, 350);
    assert_eq!(client.upload("STOR f", b"x").await.code, 226);
    assert_eq!(client.download("RETR f").await, b"0123x", "the file ends where the data ends");
    assert_eq!(client.code("REST 6").await, 350);
    assert_eq!(client.upload("STOR f", b"x").await.code, 554, "that offset is behind the end");
    assert_eq!(client.download("RETR f").await, b"0123x");
}

#[tokio::test]
async fn stou_chooses_names_that_nobody_has() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let mut names = Vec::new();
    for bytes in [b"one", b"two"] {
        let mut stream = client.passive().await;
        let begun = client.command("STOU in").await;
        assert_eq!(begun.code, 150);
        tokio::io::AsyncWriteExt::write_all(&mut stream, bytes).await.unwrap();
        drop(stream);
        let end = client.reply().await;
        assert_eq!((end.code, &end.text), (226, &begun.text));
        names.push(end.text.strip_prefix("FILE: ").unwrap().to_owned());
    }
    assert_ne!(names[0], names[1]);
    assert_eq!(client.download(&format!("RETR {}", names[0])).await, b"one");
    assert_eq!(client.download(&format!("RETR {}", names[1])).await, b"two");
}

#[tokio::test]
async fn text_is_converted_in_type_a_only() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.code("TYPE A").await, 200);
    assert_eq!(client.upload("STOR f", b"one\r\ntwo\r\n").await.code, 226);
    assert_eq!(client.command("SIZE f").await.text, "10");
    assert_eq!(client.download("RETR f").await, b"one\r\ntwo\r\n");
    assert_eq!(client.code("REST 5").await, 350);
    assert_eq!(client.download("RETR f").await, b"two\r\n");
    assert_eq!(client.code("TYPE I").await, 200);
    assert_eq!(client.command("SIZE f").await.text, "8");
    assert_eq!(client.download("RETR f").await, b"one\ntwo\n");
}

#[tokio::test]
async fn a_listener_may_leave_text_alone_or_refuse_it() {
    let options = |ascii| FtpOptions { tls: FtpTls::Off, ascii, ..FtpOptions::default() };
    let node = Node::start_with(options(AsciiTransfers::Binary)).await;
    let mut client = node.anna().await;
    assert_eq!(client.code("TYPE A").await, 200);
    assert_eq!(client.upload("STOR f", b"one\r\ntwo\n").await.code, 226);
    assert_eq!(client.command("SIZE f").await.text, "9");
    assert_eq!(client.download("RETR f").await, b"one\r\ntwo\n");
    let node = Node::start_with(options(AsciiTransfers::Refuse)).await;
    let mut client = node.anna().await;
    assert_eq!(client.code("TYPE A").await, 200);
    let _data = client.passive().await;
    assert_eq!(client.code("STOR f").await, 504);
    assert_eq!(client.download("NLST").await, b"small\r\n", "lists are text all the same");
    assert_eq!(client.code("TYPE I").await, 200);
    assert_eq!(client.upload("STOR f", b"one\r\n").await.code, 226);
    assert_eq!(client.download("RETR f").await, b"one\r\n");
}

/// Waits until the upload that runs has so many bytes.
async fn arrived(client: &mut Client, bytes: usize) {
    let wanted = format!("{bytes} bytes so far");
    soon(async { while !client.command("STAT").await.text.contains(&wanted) {} }).await;
}

#[tokio::test]
async fn an_aborted_upload_publishes_nothing() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let mut stream = client.begin("STOR f").await;
    stream.write(b"half of it").await;
    arrived(&mut client, 10).await;
    assert_eq!(client.code("ABOR").await, 426);
    assert_eq!(client.reply().await.code, 226);
    assert_eq!(client.code("ABOR").await, 225, "no transfer runs any more");
    assert_eq!(client.listing("NLST").await, ["small"]);
    assert_eq!(client.code("RETR f").await, 425, "the data connection was for one transfer");
    assert!(node.stop().await.uploads().await.is_empty());
}

#[tokio::test]
async fn an_aborted_download_leaves_the_session_as_it_was() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let bytes = vec![7; 32 << 20];
    assert_eq!(client.upload("STOR large", &bytes).await.code, 226);
    // Nobody reads, so it cannot be over.
    let stream = client.begin("RETR large").await;
    assert_eq!(client.code("ABOR").await, 426);
    assert_eq!(client.reply().await.code, 226);
    drop(stream);
    assert_eq!(client.code("REST 33554430").await, 350);
    assert_eq!(client.download("RETR large").await, [7, 7]);
}

#[tokio::test]
async fn a_cut_data_connection_publishes_nothing_and_its_owner_resumes() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.upload("STOR f", b"the old one").await.code, 226);
    let mut stream = client.begin("STOR f").await;
    stream.write(b"the new").await;
    arrived(&mut client, 7).await;
    let stream = stream.into_tcp();
    stream.set_zero_linger().unwrap();
    drop(stream);
    let cut = client.reply().await;
    assert_eq!((cut.code, cut.text.contains("nothing is published")), (426, true), "{cut:?}");
    let mut other = node.logged_in("reader").await;
    assert_eq!(other.download("RETR f").await, b"the old one");

    let mut again = node.anna().await;
    assert_eq!(again.command("SIZE f").await.text, "7", "its owner sees how much came");
    assert_eq!(again.code("REST 7").await, 350);
    assert_eq!(again.upload("STOR f", b" one, whole").await.code, 226);
    assert_eq!(other.download("RETR f").await, b"the new one, whole");
    let sizes: Vec<_> = node.stop().await.uploads().await.iter().map(|file| file.size).collect();
    assert_eq!(sizes, [11, 18]);
}

#[tokio::test]
async fn a_client_that_is_gone_at_the_end_of_its_upload_publishes_nothing() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let mut stream = client.begin("STOR f").await;
    stream.write(b"all of it").await;
    arrived(&mut client, 9).await;
    // As when the kernel cleans up behind a killed program: the control connection ends first.
    drop(client);
    stream.finish().await;
    node.ended().await;
    assert!(node.stop().await.uploads().await.is_empty());
}

#[tokio::test]
async fn both_replies_of_a_small_download_leave_together_and_150_waits_for_nothing() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.upload("STOR f", b"small").await.code, 226);
    let mut stream = Stream::Clear(client.passive().await);
    client.send("RETR f").await;
    let replies = client.read_once().await;
    assert!(replies.starts_with("150 ") && replies.contains("\r\n226 "), "{replies}");
    assert_eq!(stream.read_all().await, b"small");
    let address = client.passive_address().await;
    assert_eq!(client.code("RETR f").await, 150, "before its client has connected");
    let mut stream = Stream::Clear(soon(TcpStream::connect(address)).await.unwrap());
    assert_eq!(stream.read_all().await, b"small");
    assert_eq!(client.reply().await.code, 226);
}

#[tokio::test]
async fn quit_in_a_transfer_waits_for_its_end() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let mut stream = client.begin("STOR f").await;
    assert_eq!(client.code("NOOP").await, 200, "the control connection is heard meanwhile");
    client.send("SIZE f").await;
    client.send("QUIT").await;
    stream.write(b"whole").await;
    stream.finish().await;
    assert_eq!(client.reply().await.code, 226);
    assert_eq!(client.reply().await.text, "5", "what was kept runs behind the transfer");
    assert_eq!(client.reply().await.code, 221);
    assert!(client.is_ended().await);
    assert_eq!(node.stop().await.uploads().await.len(), 1);
}

#[tokio::test]
async fn an_upload_over_the_quota_is_refused_and_what_was_there_stays() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let limit = usize::try_from(SMALL_BYTES).unwrap();
    assert_eq!(client.upload("STOR small/f", &vec![1; limit]).await.code, 226);
    assert_eq!(client.upload("STOR small/g", &[2; 100]).await.code, 552);
    assert_eq!(client.code("CWD small").await, 250);
    assert_eq!(client.listing("NLST").await, ["f"]);
    assert_eq!(client.code("ALLO 100").await, 552);
    assert_eq!(client.code("DELE f").await, 250);
    assert_eq!(client.code("ALLO 100").await, 200);
    assert_eq!(client.upload("STOR g", &[2; 100]).await.code, 226);
    let paths: Vec<_> = node.stop().await.uploads().await.into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["/small/f", "/small/g"]);
}

#[tokio::test]
async fn active_mode_reaches_the_client_and_nobody_else() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.code("PORT 192,0,2,1,200,1").await, 504);
    assert_eq!(client.code("EPRT |1|192.0.2.1|51201|").await, 504);
    assert_eq!(client.code("PORT 127,0,0,1,0,25").await, 504);
    assert_eq!(client.code("LIST").await, 425, "no data connection was agreed");
    let port = Client::port().await;
    let argument = port_argument(port.local_addr().unwrap().port());
    assert_eq!(client.code(&format!("PORT {argument}")).await, 200);
    client.send("STOR f").await;
    let (mut stream, _) = soon(port.accept()).await.unwrap();
    assert_eq!(client.reply().await.code, 150);
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"active").await.unwrap();
    drop(stream);
    assert_eq!(client.reply().await.code, 226);
    assert_eq!(client.download("RETR f").await, b"active");
}

#[tokio::test]
async fn a_refusal_comes_before_the_data_connection_is_used() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.code("MKD d").await, 257);
    assert_eq!(client.upload("STOR d", b"x").await.code, 553);
    assert_eq!(client.upload("STOR no/such/f", b"x").await.code, 550);
    let _unused = client.passive().await;
    assert_eq!(client.code("RETR none").await, 550);
    let mut reader = node.logged_in("reader").await;
    assert_eq!(reader.upload("STOR f", b"x").await.code, 550);
    assert!(node.stop().await.uploads().await.is_empty());
}

#[tokio::test]
async fn a_draining_listener_ends_what_is_idle() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let stopping = tokio::spawn(node.stop());
    assert_eq!(client.reply().await.code, 421);
    assert!(client.is_ended().await);
    soon(stopping).await.unwrap();
}
