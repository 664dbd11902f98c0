//! Commands that rules look at.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use entrepot_nouns::{Fact, SiteId};
use entrepot_vfs::{CommandRefusal, Hook, Hooks, Moment, RefusalClass, RuleQuestion};

use super::fixture::Node;

/// Rules that look at every command; they answer as `decide` says and keep what they were asked.
fn rule(
    hooks: &Hooks,
    decide: impl Fn(Moment, &str) -> Option<u16> + Send + 'static,
) -> Arc<Mutex<Vec<String>>> {
    let mut questions = hooks.attach().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            let RuleQuestion { moment, event, answer, .. } = question;
            let command = event.fact.command().unwrap();
            let refused = decide(moment, &command.verb);
            let path = command.path.as_deref().unwrap_or_default();
            let word = if moment == Moment::Before { "?" } else { "!" };
            kept.lock().unwrap().push(format!("{word}{} {path}", command.verb));
            let refused = refused.map(|code| CommandRefusal {
                class: RefusalClass::Denied,
                text: "No.".into(),
                rule: None,
                ftp_code: Some(code),
            });
            let _ = answer.send(refused.map_or(Ok(()), Err));
        }
    });
    let hook = |moment| Hook {
        site: SiteId::MAIN,
        moment,
        commands: vec!["ftp *".parse().unwrap()],
        limit: Duration::from_secs(60),
    };
    hooks.set(vec![hook(Moment::Before), hook(Moment::Reply)]);
    asked
}

#[tokio::test]
async fn a_rule_refuses_a_command_before_it_runs() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.upload("STOR keep", b"kept").await.code, 226);
    let asked = rule(node.world.vfs.hooks(), |moment, verb| {
        (moment == Moment::Before && matches!(verb, "DELE" | "STOR")).then_some(550)
    });
    let refused = client.command("DELE keep").await;
    assert_eq!((refused.code, refused.text.as_str()), (550, "No."));
    assert_eq!(client.upload("STOR new", b"x").await.code, 550);
    assert_eq!(client.code("MKD d").await, 257);
    assert_eq!(client.code("CWD d").await, 250);
    assert_eq!(client.code("RNFR ../keep").await, 350);
    assert_eq!(client.code("RNTO kept").await, 250);
    let wanted = [
        "?DELE /keep",
        "?EPSV ",
        "!EPSV ",
        "?STOR /new",
        "?MKD /d",
        "!MKD /d",
        "?CWD /d",
        "!CWD /d",
        "?RNFR /keep",
        "!RNFR /keep",
        "?RNTO /d/kept",
        "!RNTO /d/kept",
    ];
    assert_eq!(*asked.lock().unwrap(), wanted);
    let world = node.stop().await;
    let refused = world.events().await.into_iter().filter_map(|event| match event.fact {
        Fact::CommandRefused { command, .. } => Some((command.verb, command.code)),
        _ => None,
    });
    let recorded = |verb: &str| (verb.to_owned(), Some(550));
    assert_eq!(refused.collect::<Vec<_>>(), [recorded("DELE"), recorded("STOR")]);
    assert_eq!(world.uploads().await.len(), 1, "nothing was published by the refused STOR");
}

#[tokio::test]
async fn a_rule_after_a_command_changes_its_reply() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    let _asked = rule(node.world.vfs.hooks(), |moment, verb| {
        (moment == Moment::Reply && verb == "STOR").then_some(451)
    });
    let reply = client.upload("STOR f", b"abc").await;
    assert_eq!((reply.code, reply.text.as_str()), (451, "No."));
    assert_eq!(client.download("RETR f").await, b"abc", "the file was published before");
}

#[tokio::test]
async fn a_rule_that_nobody_answers_for_refuses() {
    let node = Node::start().await;
    let mut client = node.anna().await;
    drop(node.world.vfs.hooks().attach().unwrap());
    assert_eq!(client.code("NOOP").await, 451);
    assert_eq!(client.code("MKD d").await, 451);
    node.world.vfs.hooks().set(Vec::new());
    assert_eq!(client.listing("NLST").await, ["small"]);
}
