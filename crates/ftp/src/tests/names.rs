//! Names, times and digests, and the words of SITE.

use entrepot_nouns::ftp::{FtpOptions, FtpTls, SiteCommand};

use super::fixture::Node;

#[tokio::test]
async fn a_rename_needs_both_of_its_commands_in_a_row() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.upload("STOR a", b"1").await.code, 226);
    assert_eq!(client.upload("STOR b", b"2").await.code, 226);
    assert_eq!(client.code("MKD d").await, 257);
    assert_eq!(client.code("RNTO c").await, 503);
    assert_eq!(client.code("RNFR none").await, 550);
    assert_eq!(client.code("RNFR a").await, 350);
    assert_eq!(client.code("NOOP").await, 200);
    assert_eq!(client.code("RNTO c").await, 503, "another command came between");
    assert_eq!(client.code("RNFR a").await, 350);
    assert_eq!(client.code("RNTO d").await, 553, "a directory is never replaced");
    assert_eq!(client.code("RNFR a").await, 350);
    assert_eq!(client.code("RNTO b").await, 250, "a file is");
    assert_eq!(client.download("RETR b").await, b"1");
    assert_eq!(client.code("SIZE a").await, 550);
    let mut reader = node.logged_in("reader").await;
    assert_eq!(reader.code("RNFR b").await, 550);
}

#[tokio::test]
async fn directories_are_made_entered_and_removed() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.command("MKD d").await.text, "\"/d\" is made.");
    assert_eq!(client.code("MKD d").await, 550);
    assert_eq!(client.code("CWD d").await, 250);
    assert_eq!(client.upload("STOR f", b"x").await.code, 226);
    assert_eq!(client.code("CWD f").await, 550);
    assert_eq!(client.code("CDUP").await, 250);
    assert_eq!(client.command("PWD").await.text, "\"/\" is the current directory.");
    assert_eq!(client.code("RMD d").await, 550, "it is not empty");
    assert_eq!(client.command("DSIZ d").await.text, "1");
    assert_eq!(client.code("RMDA d").await, 250);
    assert_eq!(client.code("CWD d").await, 550);
}

#[tokio::test]
async fn times_and_digests_of_a_file() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.upload("STOR f", b"abc").await.code, 226);
    assert_eq!(client.code("MFMT 20260203040506 f").await, 213);
    assert_eq!(client.command("MDTM f").await.text, "20260203040506");
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(client.command("HASH f").await.text, format!("SHA-256 0-2 {sha256} f"));
    assert_eq!(client.command("XMD5 f").await.text, "900150983cd24fb0d6963f7d28e17f72");
    assert_eq!(client.command("XCRC f 1 2").await.code, 250);
    assert_eq!(client.code("XMD5 none").await, 550);
}

#[tokio::test]
async fn site_words_work_on_files() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.upload("STOR f", b"abc").await.code, 226);
    assert_eq!(client.code("SITE MKDIR x/y/z").await, 257);
    assert_eq!(client.code("CWD x/y/z").await, 250);
    assert_eq!(client.code("SITE COPY /f g").await, 250);
    assert_eq!(client.download("RETR g").await, b"abc");
    assert_eq!(client.code("SITE UTIME 20260203040506 g").await, 200);
    assert_eq!(client.command("MDTM g").await.text, "20260203040506");
    assert_eq!(client.command("SITE CHMOD 600 g").await.text, "The permissions are 0600.");
    assert_eq!(client.code("SITE NONE").await, 504);
    assert_eq!(client.code("SITE LIMIT 1000").await, 504, "this listener does not offer it");
    let copied: Vec<_> = node.stop().await.uploads().await.into_iter().map(|it| it.path).collect();
    assert_eq!(copied, ["/f", "/x/y/z/g"], "a copy is recorded as any file");
}

fn steered() -> FtpOptions {
    let site_commands = vec![SiteCommand::Limit, SiteCommand::Shutdown];
    FtpOptions { tls: FtpTls::Off, site_commands, ..FtpOptions::default() }
}

#[tokio::test]
async fn only_administrators_steer_the_node() {
    let node = Node::start_with(steered()).await;
    let mut client = node.anna().await;
    assert_eq!(client.code("SITE LIMIT 1000").await, 504);
    assert_eq!(client.code("SITE SHUTDOWN").await, 504);
    assert!(!client.command("SITE HELP").await.text.contains("SHUTDOWN"));
    let mut admin = node.logged_in("admin").await;
    assert!(admin.command("SITE HELP").await.text.contains("SHUTDOWN"));
    assert_eq!(admin.code("SITE LIMIT 5000000 7000000").await, 200);
    let rates = node.world.directory.node_rates();
    assert_eq!((rates.upload, rates.download), (Some(5_000_000), Some(7_000_000)));
    assert_eq!(admin.code("SITE LIMIT 0").await, 200);
    assert_eq!(node.world.directory.node_rates().upload, None);
}

#[tokio::test]
async fn a_shutdown_is_to_be_confirmed() {
    let node = Node::start_with(steered()).await;
    let mut admin = node.logged_in("admin").await;
    assert_eq!(admin.code("SITE SHUTDOWN CONFIRM").await, 503);
    assert_eq!(admin.code("SITE SHUTDOWN").await, 350);
    assert_eq!(admin.code("NOOP").await, 200);
    assert_eq!(admin.code("SITE SHUTDOWN CONFIRM").await, 503, "another command came between");
    assert!(!node.world.vfs.draining().is_cancelled());
    assert_eq!(admin.code("SITE SHUTDOWN").await, 350);
    assert_eq!(admin.code("SITE SHUTDOWN CONFIRM").await, 200);
    assert!(node.world.vfs.draining().is_cancelled());
}
