//! A change loads what it touches, and refuses what it would refuse with the whole site in view.

use super::*;
use crate::cursor::Position;

/// Asks for a change that must be refused, and gives the error.
async fn refused(bench: &Bench, request: Request) -> AdminError {
    let revision = bench.revision().await;
    let error = bench.ask(request).await.unwrap_err();
    assert_eq!(bench.revision().await, revision, "nothing was changed");
    error
}

fn change(kind: Kind, name: &str, patch: Value) -> Request {
    Request::Change { kind, name: name.parse().unwrap(), patch, if_match: Vec::new() }
}

fn delete(kind: Kind, name: &str) -> Request {
    Request::Delete { kind, name: name.parse().unwrap(), if_match: Vec::new() }
}

fn page(after: Option<Cursor>, limit: u32) -> Request {
    let (filter, sort) = (Vec::new(), None);
    Request::List { kind: Kind::Account, filter, sort, after, limit: Some(limit) }
}

fn create(noun: Value) -> Request {
    Request::Create { noun: serde_json::from_value(noun).unwrap() }
}

#[tokio::test]
async fn what_others_need_of_a_noun_is_seen() {
    let bench = bench().await;
    bench.apply(PARTNER).await.unwrap();
    let cases = [
        (change(Kind::Account, "partners", json!({"type": "partner"})), "groups[0]"),
        (change(Kind::Account, "acme", json!({"type": "group", "password": null})), "as"),
        (change(Kind::Account, "partners", json!({"groups": ["acme"]})), "groups"),
        (create(json!({"account": {"name": "x", "groups": ["partner"]}})), "did you mean"),
        (
            create(json!({"mount": {"name": "m", "account": "acme", "endpoint": "files",
                "path": "/"}})),
            "mount 'acme-root' gives 'acme' the same path",
        ),
        (
            create(json!({"listener": {"name": "m", "protocol": "sftp",
                "address": "127.0.0.1:2022"}})),
            "listener 'sftp' has this address already",
        ),
        (delete(Kind::Account, "acme"), "in use by mount 'acme-root', rule 'forward'"),
        (delete(Kind::Account, "partners"), "in use by account 'acme'"),
        (delete(Kind::Policy, "slow"), "in use by account 'partners'"),
        (delete(Kind::Endpoint, "bucket"), "in use by rule 'forward'"),
        (delete(Kind::Account, "acmee"), "acme"),
        (change(Kind::Account, "acmee", json!({})), "acme"),
    ];
    for (request, says) in cases {
        let asked = format!("{request:?}");
        let error = refused(&bench, request).await;
        assert!(error.to_string().contains(says), "{asked}: {error}");
    }
}

#[tokio::test]
async fn a_rule_that_others_call_stays_what_they_take_it_for() {
    let bench = bench().await;
    let called = "rule: {name: called, when: {call: {parameters: {n: {type: int}}}}, \
                  do: [{exec: {argv: [/bin/true]}}]}\n---\n\
                  rule: {name: calls, when: {event: file.uploaded}, \
                  do: [{call: {rule: called, with: {n: '1'}}}]}\n";
    bench.apply(called).await.unwrap();
    let rule = |name: &str, call: Value| {
        create(json!({"rule": {"name": name, "when": {"event": "file.uploaded"},
            "do": [{"call": call}]}}))
    };
    let cases = [
        (delete(Kind::Rule, "called"), "in use by rule 'calls'"),
        (
            change(Kind::Rule, "called", json!({"when": {"event": "file.uploaded", "call": null}})),
            "start by",
        ),
        (rule("x", json!({"rule": "calls"})), "'calls' does not start by 'when: {call: {}}'"),
        (rule("x", json!({"rule": "cald"})), "did you mean"),
        (rule("x", json!({"rule": "called"})), "'n'"),
        (rule("x", json!({"rule": "called", "with": {"n": "1", "m": "2"}})), "'m'"),
        (rule("x", json!({"rule": "called", "with": {"n": "'text'"}})), "int"),
    ];
    for (request, says) in cases {
        let asked = format!("{request:?}");
        let error = refused(&bench, request).await;
        assert!(error.to_string().contains(says), "{asked}: {error}");
    }
    bench.delete(Kind::Rule, "calls").await.unwrap();
    bench.delete(Kind::Rule, "called").await.unwrap();
}

#[tokio::test]
async fn a_policy_that_rules_take_their_days_from_keeps_its_calendar() {
    let bench = bench().await;
    let text = "policy: {name: bank, calendar: {days: mon-fri}}\n---\n\
                policy: {name: plain}\n---\n\
                rule: {name: nightly, when: {cron: {expression: '0 3 * * *', calendar: bank}}, \
                do: [{exec: {argv: [/bin/true]}}]}\n";
    bench.apply(text).await.unwrap();
    let rule = |when: Value| {
        create(json!({"rule": {"name": "x", "when": when, "do": [{"exec": {"argv": ["/a"]}}]}}))
    };
    let cron = |calendar: &str| json!({"cron": {"expression": "0 3 * * *", "calendar": calendar}});
    let expect = json!({"expect": {"match": ["*"], "by": "18:00", "calendar": "plain"}});
    let none = "policy 'plain' has no calendar";
    for (request, says) in [
        (delete(Kind::Policy, "bank"), "in use by rule 'nightly'"),
        (change(Kind::Policy, "bank", json!({"calendar": null})), "'bank' has no calendar"),
        (rule(cron("plain")), none),
        (rule(expect), none),
        (rule(cron("bonk")), "did you mean 'bank'"),
        (change(Kind::Policy, "plain", json!({"calendar": {"days": []}})), "calendar.days"),
    ] {
        let asked = format!("{request:?}");
        let error = refused(&bench, request).await;
        assert!(error.to_string().contains(says), "{asked}: {error}");
    }
    bench.change(Kind::Policy, "bank", json!({"calendar": {"except": ["12-25"]}})).await.unwrap();
}

#[tokio::test]
async fn a_noun_that_nothing_names_any_more_can_go() {
    let bench = bench().await;
    bench.apply(PARTNER).await.unwrap();
    bench.change(Kind::Account, "acme", json!({"groups": []})).await.unwrap();
    bench.delete(Kind::Account, "partners").await.unwrap();
    bench.delete(Kind::Policy, "slow").await.unwrap();
    bench.delete(Kind::Mount, "acme-root").await.unwrap();
    bench.delete(Kind::Rule, "forward").await.unwrap();
    bench.delete(Kind::Account, "acme").await.unwrap();
    // A new account of the name does not inherit what named the old one.
    bench.create(json!({"account": {"name": "acme", "type": "group"}})).await.unwrap();
}

#[tokio::test]
async fn more_users_than_are_looked_at_are_all_named() {
    let bench = bench().await;
    let mut text = "account: {name: staff, type: group}\n".to_owned();
    let members = limits::TOUCHED_USERS as usize + 10;
    for at in 0..members {
        text += &format!("---\naccount: {{name: a{at}, groups: [staff]}}\n");
    }
    bench.apply(&text).await.unwrap();
    let error = refused(&bench, delete(Kind::Account, "staff")).await.to_string();
    assert_eq!(error.matches("account 'a").count(), members, "{error}");
    let patch = json!({"type": "person"});
    let error = refused(&bench, change(Kind::Account, "staff", patch)).await;
    assert!(error.to_string().contains("not of type group"), "{error}");
    // A change of the group itself is free.
    bench.change(Kind::Account, "staff", json!({"note": "all of us"})).await.unwrap();
}

#[tokio::test]
async fn lists_come_in_pages_that_miss_nothing() {
    let bench = bench().await;
    let names: Vec<String> = (0..25).map(|at| format!("a{at:02}")).collect();
    let text: Vec<String> =
        names.iter().map(|name| format!("account: {{name: {name}}}\n")).collect();
    bench.apply(&text.join("---\n")).await.unwrap();
    for limit in [1, 5, 24, 25, 26] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let request = page(after, limit);
            let Response::Nouns { nouns, next } = bench.ask(request).await.unwrap() else {
                panic!("a list answers with nouns");
            };
            assert!(nouns.len() <= limit as usize);
            seen.extend(nouns.into_iter().map(|stored| stored.noun.name().to_string()));
            if next.is_none() {
                break;
            }
            after = next;
        }
        assert_eq!(seen, names, "{limit} a page");
    }
}

/// Times single changes among 100,000 accounts; run it with
/// `cargo test --release -p entrepot-admin -- --ignored --nocapture among_100_000`. A change of a
/// site reads the whole site, as every change did before `touched.rs`, and is printed to compare.
#[tokio::test]
#[ignore = "a measurement, not a promise"]
async fn a_change_among_100_000_accounts() {
    let bench = bench().await;
    fill(&bench).await;
    let account = |at: u32| format!("account-{}", at * 97 % 100_000);
    time(&bench, "whole site", 3, |at| change(Kind::Site, "main", json!({"note": at.to_string()})))
        .await;
    time(&bench, "change an account", 500, |at| {
        change(Kind::Account, &account(at), json!({"note": at.to_string()}))
    })
    .await;
    time(&bench, "change the group of all", 500, |at| {
        change(Kind::Account, "staff", json!({"note": at.to_string()}))
    })
    .await;
    time(&bench, "change a mount", 500, |at| {
        change(Kind::Mount, &format!("account-{}", at * 10), json!({"prefix": at.to_string()}))
    })
    .await;
    time(&bench, "create an account", 500, |at| {
        create(json!({"account": {"name": format!("new-{at}"), "groups": ["staff"]}}))
    })
    .await;
    time(&bench, "delete an account", 500, |at| delete(Kind::Account, &format!("new-{at}"))).await;
    let behind = |at| Position::Name(account(at).parse().unwrap()).cursor().unwrap();
    time(&bench, "list a page of 100", 100, |at| page(Some(behind(at)), 100)).await;
}

/// 100,000 accounts of one group, and a mount for each tenth of them.
async fn fill(bench: &Bench) {
    let env = Env::simulated(9);
    let mut tx = bench.db.begin().await.unwrap();
    let mut put = async |noun: Value| {
        let noun: AnyNoun = serde_json::from_value(noun).unwrap();
        let id: SiteId = env.new_id();
        tx.put_any(SiteId::MAIN, id.0, &noun, env.now()).await.unwrap();
    };
    put(json!({"account": {"name": "staff", "type": "group"}})).await;
    put(json!({"endpoint": {"name": "files", "target": {"directory": {"path": "/srv"}}}})).await;
    for at in 0..100_000 {
        let name = format!("account-{at}");
        put(json!({"account": {"name": name, "groups": ["staff"]}})).await;
        if at % 10 == 0 {
            put(json!({"mount": {"name": name, "account": name, "endpoint": "files",
                "path": "/"}}))
            .await;
        }
    }
    tx.commit().await.unwrap();
}

/// Makes each request and prints how long one takes, and the CPU time of the whole process.
async fn time(bench: &Bench, what: &str, count: u32, request: impl Fn(u32) -> Request) {
    let clock = Env::real();
    let (mut took, cpu_before) = (Vec::new(), cpu());
    for at in 0..count {
        let (request, began) = (request(at), clock.elapsed());
        bench.ask(request).await.unwrap();
        took.push(clock.elapsed() - began);
    }
    let cpu = (cpu() - cpu_before).as_secs_f64() * 1000.0 / f64::from(count);
    took.sort();
    let at = |share: usize| took[(took.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    let (least, median, high, most) = (at(0), at(50), at(95), at(100));
    println!(
        "{what}: median {median:.2} ms [{least:.2}-{most:.2}, 95 % below {high:.2}], \
         CPU {cpu:.2} ms, of {count}"
    );
}

fn cpu() -> std::time::Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    std::time::Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
