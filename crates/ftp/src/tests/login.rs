//! Who may come in, and what ends a session.

use entrepot_nouns::{Account, Fact};

use super::client::Client;
use super::fixture::Node;

#[tokio::test]
async fn a_login_opens_a_session_and_quit_closes_it() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.code("SYST").await, 215);
    assert_eq!(client.command("PWD").await.text, "\"/\" is the current directory.");
    assert_eq!(client.code("QUIT").await, 221);
    assert!(client.is_ended().await);
    let world = node.stop().await;
    let facts: Vec<_> = world.events().await.into_iter().map(|event| event.fact).collect();
    let opened = facts.iter().filter(|fact| matches!(fact, Fact::SessionOpened { .. })).count();
    let closed = facts.iter().filter(|fact| matches!(fact, Fact::SessionClosed { .. })).count();
    assert_eq!((opened, closed), (1, 1), "{facts:?}");
}

#[tokio::test]
async fn nothing_but_the_login_runs_before_it() {
    let node = Node::start().await;
    let mut client = Client::connect(node.address).await;
    for line in ["PWD", "LIST", "EPSV", "RETR f", "STOR f", "SITE HELP", "SIZE f"] {
        assert_eq!(client.code(line).await, 530, "{line}");
    }
    assert_eq!(client.code("PASS x").await, 503);
    assert_eq!(client.code("FEAT").await, 211);
    client.log_in("anna").await;
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_name_are_refused_alike() {
    let node = Node::start().await;
    node.world.account("gone", |account| account.enabled = false).await;
    let mut refusals = Vec::new();
    for user in ["anna", "nobody", "gone"] {
        let mut client = Client::connect(node.address).await;
        assert_eq!(client.code(&format!("USER {user}")).await, 331, "{user}");
        refusals.push(client.command("PASS wrong").await);
        assert_eq!(client.code("PWD").await, 530, "{user}");
    }
    assert_eq!(refusals[0].code, 530);
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:?}");
    assert!(node.world.vfs.sessions().is_empty());
}

#[tokio::test]
async fn the_session_of_an_account_that_is_disabled_ends() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let account = node.world.account("anna", |_| {}).await;
    node.world.put(&Account { enabled: false, ..account }).await;
    assert_eq!(client.reply().await.code, 421);
    assert!(client.is_ended().await);
    node.ended().await;
}

#[tokio::test]
async fn rein_logs_out_and_another_account_may_log_in() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.upload("STOR f", b"of anna").await.code, 226);
    assert_eq!(client.code("REIN").await, 220);
    assert_eq!(client.code("PWD").await, 530);
    client.log_in("reader").await;
    assert_eq!(client.download("RETR f").await, b"of anna");
    assert_eq!(client.code("DELE f").await, 550);
}
