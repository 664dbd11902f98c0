//! Rules that are paused and resumed by hand.

use super::*;

/// What was told of rules, by kind and rule.
fn told(bench: &Bench) -> Vec<(String, String)> {
    let told = |event: Event| match event.fact {
        Fact::RulePaused { paused } => Some(("paused".to_owned(), paused.rule.to_string())),
        Fact::RuleResumed { resumed } => Some(("resumed".to_owned(), resumed.rule.to_string())),
        _ => None,
    };
    let records = bench.journal.reader(0).read_now(1_000).unwrap();
    let events = records.iter().filter(|it| it.kind == entrepot_journal::RecordKind::Event);
    let events = events.map(|record| serde_json::from_slice(&record.payload).unwrap());
    events.filter_map(told).collect()
}

#[tokio::test]
async fn a_rule_is_paused_and_resumed_once_and_a_waited_one_is_not() {
    let bench = bench().await;
    let rule = json!({"name": "r", "when": {"event": "file.uploaded"}, "do": [{"delete": {}}]});
    bench.create(json!({ "rule": rule })).await.unwrap();
    let waited = json!({"name": "w", "when": {"before": ["ftp DELE"]},
        "do": [{"refuse": {"text": "no"}}]});
    bench.create(json!({ "rule": waited })).await.unwrap();
    let pause = |of: &str| Request::PauseRule { name: name(of), to: RulePause::Paused };
    let resume = |of: &str| Request::PauseRule { name: name(of), to: RulePause::Resumed };
    for request in [pause("r"), pause("r"), resume("r"), resume("r"), pause("r")] {
        assert!(matches!(bench.ask(request).await.unwrap(), Response::Done));
    }
    let wanted = ["paused", "resumed", "paused"].map(|kind| (kind.to_owned(), "r".to_owned()));
    assert_eq!(told(&bench), wanted);
    let shown = bench.db.find::<entrepot_nouns::Rule>(SiteId::MAIN, &name("r")).await.unwrap();
    assert!(shown.unwrap().noun.paused);
    let error = bench.ask(pause("w")).await.unwrap_err().to_string();
    assert!(error.contains("disable it instead"), "{error}");
    let error = bench.ask(pause("none")).await.unwrap_err();
    assert_eq!(error.class(), ProblemClass::NotFound, "{error}");
    // A document that does not say so resumes it, and the plan shows that.
    let documents = document(&format!("rule: {rule}"));
    let Response::Plan { changes, .. } =
        bench.ask(Request::Plan { documents, prune: false }).await.unwrap()
    else {
        panic!("no plan");
    };
    assert!(serde_json::to_string(&changes).unwrap().contains("paused"), "{changes:?}");
}
