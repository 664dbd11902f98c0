//! TLS: off, by AUTH TLS, required, and on data connections.

use entrepot_nouns::ftp::{FtpOptions, FtpTls, TlsRequired, TlsReuse};
use entrepot_nouns::{Account, LoginProtocol};
use entrepot_world::PASSWORD;

use super::client::Client;
use super::fixture::Node;

/// A listener with this TLS, whose clients choose what they encrypt.
fn choice(tls: FtpTls) -> FtpOptions {
    FtpOptions { tls, tls_required: Some(TlsRequired::None), ..FtpOptions::default() }
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
    let node = Node::start_with(choice(FtpTls::Explicit)).await;
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
async fn a_listener_that_says_nothing_of_tls_lets_nothing_go_in_clear() {
    let node = Node::start_with(FtpOptions::default()).await;
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
async fn where_tls_is_required_for_logins_data_may_go_in_clear() {
    let options = FtpOptions { tls_required: Some(TlsRequired::Login), ..FtpOptions::default() };
    let node = Node::start_with(options).await;
    let mut client = Client::connect(node.address).await;
    assert_eq!(client.code("USER anna").await, 530);
    client.begin_tls(node.tls_client()).await;
    client.log_in("anna").await;
    assert_eq!(client.upload("STOR f", b"x").await.code, 226);
}

#[tokio::test]
async fn implicit_tls_encrypts_data_unless_somebody_has_said_otherwise() {
    let implicit = FtpOptions { tls: FtpTls::Implicit, ..FtpOptions::default() };
    let node = Node::start_with(implicit).await;
    let mut client = Client::connect_secure(node.address, node.tls_client()).await;
    client.log_in("anna").await;
    assert_eq!(client.code("PBSZ 0").await, 200);
    assert_eq!(client.code("PROT C").await, 534);
    assert_eq!(client.upload("STOR f", b"x").await.code, 226);

    let node = Node::start_with(choice(FtpTls::Implicit)).await;
    let mut client = Client::connect_secure(node.address, node.tls_client()).await;
    client.log_in("anna").await;
    assert_eq!(client.code("PBSZ 0").await, 200);
    assert_eq!(client.code("PROT C").await, 200);
}

#[tokio::test]
async fn an_account_that_may_use_ftps_only_sends_nothing_in_clear() {
    let node = Node::start_with(choice(FtpTls::Explicit)).await;
    let ftps = |account: &mut Account| account.protocols = vec![LoginProtocol::Ftps];
    node.world.account("anna", ftps).await;
    let mut client = Client::connect(node.address).await;
    assert_eq!(client.code("USER anna").await, 331);
    assert_eq!(client.code(&format!("PASS {PASSWORD}")).await, 530);
    let mut client = Client::connect(node.address).await;
    client.begin_tls(node.tls_client()).await;
    client.log_in("anna").await;
    assert_eq!(client.upload("STOR f", b"x").await.code, 521);
    assert_eq!(client.code("PROT C").await, 534);
    client.protect_data().await;
    assert_eq!(client.upload("STOR f", b"x").await.code, 226);
}

#[tokio::test]
async fn a_data_connection_that_resumes_nothing_is_refused_where_that_is_required() {
    let reuse = FtpOptions { tls_reuse: TlsReuse::Required, ..choice(FtpTls::Explicit) };
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
    let node = Node::start_with(choice(FtpTls::Explicit)).await;
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
