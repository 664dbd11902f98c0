//! Requests that rules look at.

use std::sync::Arc;

use entrepot_nouns::SiteId;
use entrepot_vfs::{CommandRefusal, Hook, Hooks, Moment, RefusalClass, RuleQuestion};
use parking_lot::Mutex;

use super::*;

/// Rules that look at every request; answers as `decide` says, and keeps what was asked.
fn rule(
    hooks: &Hooks,
    decide: impl Fn(&RuleQuestion) -> Option<RefusalClass> + Send + 'static,
) -> Arc<Mutex<Vec<String>>> {
    let mut questions = hooks.attach().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            let refused = decide(&question).map(|class| CommandRefusal {
                class,
                text: "No.".into(),
                rule: None,
                ftp_code: Some(553),
            });
            let command = question.event.fact.command().unwrap();
            let (verb, path) = (&command.verb, command.path.as_deref().unwrap_or_default());
            let word = if question.moment == Moment::Before { "?" } else { "!" };
            kept.lock().push(format!("{word}{verb} {path}"));
            let _ = question.answer.send(refused.map_or(Ok(()), Err));
        }
    });
    let hook = |moment| Hook {
        site: SiteId::MAIN,
        moment,
        commands: vec!["sftp *".parse().unwrap()],
        limit: Duration::from_secs(60),
    };
    hooks.set(vec![hook(Moment::Before), hook(Moment::Reply)]);
    asked
}

fn is(question: &RuleQuestion, moment: Moment, verb: &str) -> bool {
    question.moment == moment && question.event.fact.command().is_some_and(|it| it.verb == verb)
}

#[tokio::test]
async fn pipelined_requests_are_asked_about_and_answered_in_their_order() {
    let fixture = Fixture::start().await;
    fixture.write("/keep", b"kept");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    // It began before there was a rule.
    let handle = wire.open_file("/keep", R).await.handle();
    let asked = rule(&fixture.hooks, |question| {
        let refused = is(question, Moment::Before, "remove").then_some(RefusalClass::Denied);
        refused.or(is(question, Moment::Reply, "stat").then_some(RefusalClass::RuleFailed))
    });
    let two = |from: &str, to: &str| fields().u32(2).text(from).text(to);
    let all = [
        frame(MKDIR, &fields().u32(1).text("/d").u32(0)),
        frame(RENAME, &two("keep", "d/keep")),
        frame(READ, &fields().u32(3).text(&handle).u64(0).u32(10)),
        frame(REMOVE, &fields().u32(4).text("/d/../d/keep")),
        frame(STAT, &fields().u32(5).text("/d/keep")),
        frame(CLOSE, &fields().u32(6).text(&handle)),
        frame(RMDIR, &fields().u32(7).text("/d")),
    ];
    wire.send_bytes(all.concat()).await;
    let mut answers = Vec::new();
    for _ in &all {
        let answer = wire.answer().await.unwrap();
        answers.push((answer.id, if answer.kind == DATA { 100 } else { answer.code() }));
    }
    assert_eq!(answers, [(1, 0), (2, 0), (3, 100), (4, 3), (5, 4), (6, 0), (7, 4)]);
    let wanted = [
        "?mkdir /d",
        "!mkdir /d",
        "?rename /d/keep",
        "?rename /keep",
        "!rename /d/keep",
        "?remove /d/keep",
        "?stat /d/keep",
        "!stat /d/keep",
        "?close /keep",
        "!close /keep",
        "?rmdir /d",
        "!rmdir /d",
    ];
    assert_eq!(*asked.lock(), wanted);
    assert_eq!(fixture.read("/d/keep").unwrap(), b"kept");
    fixture.stop().await;
}

#[tokio::test]
async fn a_refused_close_publishes_nothing_and_a_done_one_is_told_with_its_digest() {
    let fixture = Fixture::start().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    rule(&fixture.hooks, move |question| {
        let command = question.event.fact.command().unwrap();
        if is(question, Moment::Reply, "close") {
            kept.lock().push((command.code, command.bytes, command.digests.blake3.is_some()));
        }
        match command.path.as_deref().filter(|_| is(question, Moment::Before, "close")) {
            Some("/no") => Some(RefusalClass::Denied),
            Some("/later") => Some(RefusalClass::NotNow),
            _ => None,
        }
    });
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    for (path, code) in [("/no", 3), ("/later", 4), ("/yes", 0)] {
        let handle = wire.open_file(path, W | CREAT | TRUNC).await.handle();
        assert_eq!(wire.write(&handle, 0, b"words").await, 0);
        assert_eq!(wire.close(&handle).await, code, "{path}");
        assert_eq!(wire.close(&handle).await, 4, "{path}: the handle lives");
    }
    assert_eq!((fixture.read("/no"), fixture.read("/yes")), (None, Some(b"words".to_vec())));
    assert_eq!((fixture.read("/later"), wire.stat("/no").await.code()), (None, 2));
    assert_eq!(wire.stat("/later").await.size(), 5, "it is kept, to go on with");
    assert_eq!(*told.lock(), [(Some(0), Some(5), true)]);
    let refused = |code| ("close".to_owned(), Some(code));
    assert_eq!(fixture.refusals().await, [refused(3), refused(4)], "as the client was answered");
    fixture.stop().await;
}

#[tokio::test]
async fn a_rename_of_what_is_being_written_asks_about_its_close_first() {
    let fixture = Fixture::start().await;
    let asked = rule(&fixture.hooks, |question| {
        let no = question.event.fact.command().is_some_and(|it| it.path.as_deref() == Some("/no"));
        (no && is(question, Moment::Before, "close")).then_some(RefusalClass::Denied)
    });
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    for (path, code) in [("/no", 3), ("/yes", 0)] {
        let handle = wire.open_file(path, W | CREAT | TRUNC).await.handle();
        assert_eq!(wire.write(&handle, 0, b"words").await, 0);
        asked.lock().clear();
        let renamed = wire.ask(RENAME, fields().text(path).text("/renamed")).await;
        assert_eq!(renamed.code(), code, "{path}");
        assert!(asked.lock().contains(&format!("?close {path}")), "{:?}", asked.lock());
        assert_eq!(fixture.read("/renamed").is_some(), code == 0, "{path}");
        // There is nothing left to publish, but the rule is asked about every CLOSE.
        assert_eq!(wire.close(&handle).await, code, "{path}");
        assert_eq!(fixture.read(path), None);
    }
    fixture.stop().await;
}

#[tokio::test]
async fn nothing_passes_while_nobody_can_be_asked() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let nobody = fixture.hooks.attach().unwrap();
    assert_eq!(wire.ask(MKDIR, fields().text("/d").u32(0)).await.code(), 4);
    drop(nobody);
    assert_eq!(wire.ask(MKDIR, fields().text("/d").u32(0)).await.code(), 4);
    fixture.hooks.set(Vec::new());
    assert_eq!(wire.ask(MKDIR, fields().text("/d").u32(0)).await.code(), 0);
    fixture.stop().await;
}
