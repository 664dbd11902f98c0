//! TLS: off, by AUTH TLS, required, and on data connections.

use entrepot_nouns::ftp::{FtpOptions, FtpTls, TlsReuse};

use super::client::Client;
use super::fixture::Node;

fn options(tls: FtpTls) -> FtpOptions {
    FtpOptions { tls, ..FtpOptions::default() }
}

#[tokio::test]
async fn without_a_certificate_tls_is_not_offered() {
    let node = Node::start().await;
    let mut client = Client::connect(node.address).await;
    assert_eq!(client.code("AUTH TLS").await, 502);
    assert!(!client.command("FEAT").await.text.contains("AUTH"));
    client.log_in("anna").await;
}

#[tokio::test]
async fn control_and_data_are_encrypted_on_request() {
    let node = Node::start_with(options(FtpTls::Explicit)).await;
    let mut client = Client::connect(node.address).await;
    client.begin_tls(node.tls_client()).await;
    client.log_in("anna").await;
    assert_eq!(client.upload("STOR clear", b"in clear").await.code, 226, "PROT C is the default");
    client.protect_data().await;
    assert_eq!(client.upload("STOR f", b"secret").await.code, 226);
    assert_eq!(client.download("RETR f").await, b"secret");
    assert_eq!(client.listing("NLST").await, ["clear", "f", "small"]);
}

#[tokio::test]
async fn where_tls_is_required_nothing_goes_in_clear() {
    let node = Node::start_with(options(FtpTls::Required)).await;
    let mut client = Client::connect(node.address).await;
    assert_eq!(client.code("USER anna").await, 530);
    client.begin_tls(node.tls_client()).await;
    client.log_in("anna").await;
    let unprotected = client.upload("STOR f", b"x").await;
    assert_eq!(unprotected.code, 521);
    assert_eq!(client.code("PROT C").await, 534);
    client.protect_data().await;
    assert_eq!(client.upload("STOR f", b"x").await.code, 226);
}

#[tokio::test]
async fn a_data_connection_that_resumes_nothing_is_refused_where_that_is_required() {
    let reuse = FtpOptions { tls_reuse: TlsReuse::Required, ..options(FtpTls::Explicit) };
    let node = Node::start_with(reuse).await;
    let mut client = Client::connect(node.address).await;
    client.begin_tls(node.tls_client()).await;
    client.log_in("anna").await;
    client.protect_data().await;
    assert_eq!(client.upload("STOR f", b"resumed").await.code, 226);
    client.resume_nothing(node.tls_client());
    let stream = client.passive().await;
    assert_eq!(client.code("STOR f").await, 150);
    // Whether the handshake fails for the client too depends on the version of TLS.
    let _stream = client.secured(stream).await;
    let refused = client.reply().await;
    assert_eq!(refused.code, 522, "{refused:?}");
    assert!(refused.text.contains("resume"), "{refused:?}");
    assert_eq!(node.stop().await.uploads().await.len(), 1);
}

#[tokio::test]
async fn an_upload_under_tls_without_its_close_notify_is_a_cut() {
    let node = Node::start_with(options(FtpTls::Explicit)).await;
    let mut client = Client::connect(node.address).await;
    client.begin_tls(node.tls_client()).await;
    client.log_in("anna").await;
    client.protect_data().await;
    let mut stream = client.begin("STOR f").await;
    stream.write(b"all that there is").await;
    // The end of TCP alone may be anybody's doing.
    drop(stream.into_tcp());
    assert_eq!(client.reply().await.code, 426);
    assert!(node.stop().await.uploads().await.is_empty());
}
