//! Replays of more events than one part looks at.

use entrepot_db::JobFilter;
use entrepot_journal::Scope;
use entrepot_nouns::explanation::{EventExplanation, RuleExplanation, RuleOutcome};
use entrepot_nouns::limits::CAUSE_DEPTH;
use entrepot_nouns::rule_report::RuleReplay;
use entrepot_nouns::{Job, JobId, ReplayId, Rule, Stored, Timestamp};
use uuid::Uuid;

use super::*;

/// As whoever runs rules: every rule starts on every event.
fn starts(rules: Vec<Stored<Rule>>, events: Vec<Event>) -> Vec<EventExplanation> {
    let of = |event: &Event| {
        let explained = rules.iter().map(|rule| RuleExplanation {
            rule: rule.noun.name.clone(),
            outcome: RuleOutcome::Starts,
            why: String::new(),
            trigger: String::new(),
            trigger_fits: true,
            enabled: true,
            condition: None,
            depth: event.depth,
            depth_limit: CAUSE_DEPTH,
            changed_at: None,
            job: None,
        });
        explained.collect()
    };
    let explained = events.into_iter().map(|event| EventExplanation {
        path: None,
        counts_as: Vec::new(),
        rules: of(&event),
        event,
    });
    explained.collect()
}

fn job(event: &Event, rule: &Stored<Rule>, replay: ReplayId, now: Timestamp) -> Job {
    let id = JobId(Uuid::from_u128(event.id.0.as_u128() ^ replay.0.as_u128()));
    let lane = rule.noun.first_lane(None);
    Job { lane, ..Job::new(id, rule.noun.name.clone(), event.clone(), now) }
}

async fn part(bench: &Bench, order: Value) -> Result<RuleReplay> {
    let order = serde_json::from_value(order).unwrap();
    match bench.ask(Request::ReplayRule { order }).await? {
        Response::RuleReplay { replay } => Ok(*replay),
        other => panic!("{other:?}"),
    }
}

/// All parts, as the command line asks for them.
async fn parts(bench: &Bench, id: Option<ReplayId>) -> (RuleReplay, usize) {
    let of = |until: Option<Timestamp>| {
        json!({"time": {"since": "2020-01-01T00:00:00Z",
        "until": until}})
    };
    let mut whole = part(bench, json!({"rule": "r", "of": of(None), "replay": id})).await.unwrap();
    let mut count = 1;
    while let Some(next) = whole.next {
        let order = json!({"rule": "r", "of": of(whole.until), "replay": id, "after": next,
            "planned": whole.replay, "rule_version": whole.rule_version});
        whole.go_on(part(bench, order).await.unwrap());
        count += 1;
    }
    (whole, count)
}

/// `REPLAYED=100000` is the full length.
#[tokio::test]
async fn any_number_of_events_is_replayed_part_by_part_and_what_broke_off_goes_on() {
    let mut bench = bench().await;
    let critics = RuleCritics { test: |_| Vec::new(), lint: |_, _| Vec::new(), replayed: job };
    let admin = bench.admin.clone().with_rule_explainer(|_, rules, events| starts(rules, events));
    bench.admin = admin.with_rule_critics(critics);
    let rule = json!({"name": "r", "when": {"event": "directory.created"},
        "do": [{"set": {"a": "1"}}]});
    bench.create(json!({ "rule": rule })).await.unwrap();
    let recorder = Recorder::new(bench.journal.clone(), bench.env.clone(), name("n1"));
    let few = 2 * limits::REPLAYED_EVENTS + 300;
    let events = std::env::var("REPLAYED").map_or(few, |count| count.parse().unwrap());
    let mut tx = bench.db.begin().await.unwrap();
    for number in 0..events {
        let fact = Fact::DirectoryCreated { path: format!("/{number}") };
        let event = recorder.event(&Scope::site(SiteId::MAIN), fact);
        tx.insert_event(&event).await.unwrap();
    }
    tx.commit().await.unwrap();
    bench.env.advance(std::time::Duration::from_secs(1));
    let (planned, count) = parts(&bench, None).await;
    assert!(count > 1 && planned.events as usize == events, "{count}: {}", planned.events);
    assert_eq!((planned.jobs_made(), planned.made), (events, false));
    assert!(bench.db.jobs(SiteId::MAIN, &JobFilter::default()).await.unwrap().is_empty());
    // The first part alone, as where the line broke; then all of them.
    let order = json!({"rule": "r", "replay": planned.replay,
        "of": {"time": {"since": "2020-01-01T00:00:00Z", "until": planned.until}}});
    let first = part(&bench, order).await.unwrap();
    assert!(first.jobs_made() >= limits::REPLAYED_EVENTS && first.next.is_some());
    let (whole, _) = parts(&bench, Some(planned.replay)).await;
    assert_eq!(whole.jobs.len(), events);
    assert_eq!(whole.jobs_made(), events - first.jobs_made());
    let ids = |replay: &RuleReplay| -> Vec<Option<JobId>> {
        replay.jobs.iter().map(|event| event.job).collect()
    };
    assert_eq!(ids(&planned)[first.jobs.len()..], ids(&whole)[first.jobs.len()..]);
    let made = bench.db.job_counts().await.unwrap();
    assert_eq!(made.ready as usize, events);
    // A rule that is another one meanwhile makes no more of them.
    let order = json!({"rule": "r", "replay": planned.replay, "after": first.next,
        "rule_version": planned.rule_version,
        "of": {"time": {"since": "2020-01-01T00:00:00Z", "until": planned.until}}});
    bench.change(Kind::Rule, "r", json!({"note": "changed"})).await.unwrap();
    let refused = part(&bench, order).await.unwrap_err().to_string();
    assert!(refused.contains("changed since this replay began"), "{refused}");
}
