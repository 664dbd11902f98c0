//! What is probably not meant of a rule is said in the answer to the change of that rule alone.

use entrepot_nouns::rule_report::{LintFinding, RuleFlaw};
use entrepot_nouns::{Mount, Rule};

use super::*;

/// As whoever runs rules: a flaw for each two rules that have the same note.
fn lint(rules: &[Rule], _: &[Mount]) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for (at, one) in rules.iter().enumerate() {
        let same =
            rules[at + 1..].iter().find(|other| !one.note.is_empty() && other.note == one.note);
        found.extend(same.map(|other| LintFinding {
            rule: one.name.clone(),
            flaw: RuleFlaw::SameFile,
            field: "do.0".to_owned(),
            text: format!("rule '{}' takes the file too", other.name),
        }));
    }
    found
}

async fn judged() -> Bench {
    let mut bench = bench().await;
    bench.admin = bench.admin.clone().with_rule_critics(RuleCritics {
        test: |_| Vec::new(),
        lint,
        replayed: |_, _, _, _| unreachable!("nothing is replayed"),
    });
    bench
}

fn rule(name: &str, note: &str) -> Value {
    json!({"rule": {"name": name, "note": note, "when": {"event": "file.uploaded"},
        "do": [{"set": {"a": "1"}}]}})
}

fn warnings(answer: Result<Response>) -> Vec<String> {
    match answer.unwrap() {
        Response::Noun { warnings, .. } => warnings,
        other => panic!("{other:?}"),
    }
}

const FLAW: &str = "rule 'a', do.0: rule 'b' takes the file too";

#[tokio::test]
async fn the_change_of_one_rule_says_what_is_probably_not_meant_of_it() {
    let bench = judged().await;
    assert_eq!(warnings(bench.create(rule("a", "same")).await), [""; 0]);
    assert_eq!(warnings(bench.create(rule("b", "same")).await), [FLAW]);
    let noted =
        async |note: &str| warnings(bench.change(Kind::Rule, "b", json!({ "note": note })).await);
    // What is stored already was said when it was stored.
    assert_eq!(noted("same").await, [""; 0]);
    assert_eq!(noted("other").await, [""; 0]);
    let replace = |note: &str| {
        let noun = Box::new(serde_json::from_value(rule("b", note)).unwrap());
        Request::Replace { noun, if_match: Vec::new() }
    };
    assert_eq!(warnings(bench.ask(replace("same")).await), [FLAW]);
    let show = Request::Show { kind: Kind::Rule, name: name("b") };
    assert_eq!(warnings(bench.ask(show).await), [""; 0]);
    // Neither is anything said of a rule that is gone, nor of other nouns.
    assert!(matches!(bench.delete(Kind::Rule, "a").await.unwrap(), Response::Done));
    assert_eq!(noted("").await, [""; 0]);
    let account = json!({"account": {"name": "acme", "note": "same"}});
    assert_eq!(warnings(bench.create(account).await), [""; 0]);
}

#[tokio::test]
async fn a_repeated_change_of_a_rule_says_the_same_again() {
    let bench = judged().await;
    bench.create(rule("a", "same")).await.unwrap();
    let once = Once { key: "k".to_owned(), request: b"the same".to_vec() };
    for _ in 0..2 {
        let noun = Box::new(serde_json::from_value(rule("b", "same")).unwrap());
        let request = Request::Create { noun };
        let answer = bench.admin.handle_once(&actor(), request, &once).await;
        assert_eq!(warnings(answer), [FLAW]);
    }
}
