//! Who may answer what a step of a job asks.

use std::time::Duration;

use entrepot_nouns::approval::{Approval, ApprovalVerdict};
use entrepot_nouns::{Job, JobId, Role, StepAddress};

use super::*;

const PEOPLE: &str = "account: {name: treasury, type: group}
---
account: {name: tina, type: admin, groups: [treasury]}
---
account: {name: tom, type: admin, groups: [treasury]}
---
account: {name: boss, type: admin}
---
account: {name: eve, type: admin}
---
account: {name: pat, type: partner, groups: [treasury]}
";

/// A job that `tom` caused, and that asks the treasury.
async fn asking(bench: &Bench) -> JobId {
    bench.apply(PEOPLE).await.unwrap();
    let now = bench.env.now();
    let event = json!({
        "id": bench.env.new_id::<entrepot_nouns::EventId>(), "at": now, "site": SiteId::MAIN,
        "node": "n1", "account": "tom", "depth": 0, "kind": "directory.created", "path": "/a",
    });
    let id: JobId = bench.env.new_id();
    let step = StepAddress("do.0".to_owned());
    let job: Job = serde_json::from_value(json!({
        "id": id, "site": SiteId::MAIN, "rule": "r", "event_id": event["id"], "event": event,
        "state": "ready", "at": step, "attempts": 0, "epoch": 0, "due_at": now,
        "created_at": now, "changed_at": now, "lane": entrepot_nouns::JobLane::default(), "step": 0,
    }))
    .unwrap();
    let mut tx = bench.db.begin().await.unwrap();
    tx.insert_jobs(std::slice::from_ref(&job), &[], now).await.unwrap();
    tx.commit().await.unwrap();
    let asked = Approval {
        job: id,
        step,
        life: job.life(),
        rule: name("r"),
        text: "may it?".to_owned(),
        by: vec![name("treasury"), name("boss")],
        need: 2,
        yes: 0,
        asked_at: now,
        until: now.plus(Duration::from_secs(60)),
        decided_at: None,
        answers: Vec::new(),
    };
    bench.db.ask_approval(SiteId::MAIN, &asked).await.unwrap();
    id
}

async fn say(bench: &Bench, who: &str, id: JobId, verdict: ApprovalVerdict) -> Result<Response> {
    let rights = Role::Viewer.rights();
    let actor = Actor::with_rights(who.to_owned(), SiteId::MAIN, rights);
    let why = Some("so".to_owned());
    bench.admin.handle(&actor, Request::AnswerApproval { id, step: None, verdict, why }).await
}

#[tokio::test]
async fn only_those_who_are_asked_answer_and_each_once() {
    let bench = bench().await;
    let id = asking(&bench).await;
    let yes = ApprovalVerdict::Approved;
    for (who, said) in [
        ("cli:root", "is no account of type admin"),
        ("pat", "is no account of type admin"),
        ("eve", "'eve' is not asked, but treasury or boss"),
        ("tom", "'tom' caused what is to be approved"),
    ] {
        let error = say(&bench, who, id, yes).await.unwrap_err();
        assert_eq!((error.code(), error.class()), ("EP0834", ProblemClass::Denied), "{who}");
        assert!(error.to_string().contains(said), "{error}");
    }
    say(&bench, "tina", id, yes).await.unwrap();
    let error = say(&bench, "tina", id, ApprovalVerdict::Refused).await.unwrap_err();
    assert!(error.to_string().contains("'tina' has answered before"), "{error}");
    let Response::Approvals { approvals } = bench.ask(Request::Approvals).await.unwrap() else {
        panic!()
    };
    assert_eq!((approvals.len(), approvals[0].yes), (1, 1));
    say(&bench, "boss", id, yes).await.unwrap();
    assert_eq!(say(&bench, "eve", id, yes).await.unwrap_err().code(), "EP0109");
    let events = bench.events().await;
    let said = events.iter().filter(|event| matches!(event.fact, Fact::JobApproved { .. }));
    assert_eq!(said.filter_map(|event| event.account.clone()).count(), 2);
}
