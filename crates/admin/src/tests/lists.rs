//! Lists of nouns: filtered, sorted, a page at a time; and what stands in the way of a change.

use entrepot_nouns::{Kind, NounVersion};
use serde_json::{Value, json};

use super::{Bench, actor, bench, name};
use crate::*;

struct Listed {
    names: Vec<String>,
    pages: usize,
}

impl Bench {
    /// All pages of a list of accounts.
    async fn accounts(&self, filter: &[&str], sort: Option<&str>, limit: u32) -> Listed {
        let (mut names, mut pages, mut after) = (Vec::new(), 0, None);
        loop {
            let filter = filter.iter().map(|text| text.parse().unwrap()).collect();
            let sort = sort.map(|text| SortOrder(text.to_owned()));
            let kind = Kind::Account;
            let request = Request::List { kind, filter, sort, after, limit: Some(limit) };
            let Response::Nouns { nouns, next } = self.ask(request).await.unwrap() else {
                panic!("a list answers with nouns");
            };
            assert!(nouns.len() <= limit as usize);
            names.extend(nouns.iter().map(|stored| stored.noun.name().to_string()));
            pages += 1;
            after = next;
            if after.is_none() {
                return Listed { names, pages };
            }
        }
    }

    async fn made(&self, noun: Value) -> NounVersion {
        self.version(self.create(noun).await)
    }

    fn version(&self, answer: Result<Response>) -> NounVersion {
        match answer.unwrap() {
            Response::Noun { noun, .. } => noun.version(),
            other => panic!("{other:?}"),
        }
    }

    fn patch(&self, patch: Value, if_match: &[NounVersion]) -> Request {
        let if_match = if_match.to_vec();
        Request::Change { kind: Kind::Account, name: name("acme"), patch, if_match }
    }
}

#[tokio::test]
async fn lists_are_filtered_and_sorted_over_pages() {
    let bench = bench().await;
    let text: Vec<String> = (0..20)
        .map(|at| {
            let (kind, note) = (["person", "partner"][at % 2], (20 - at) / 3);
            format!("account: {{name: a{at:02}, type: {kind}, note: 'n{note}'}}\n")
        })
        .collect();
    bench.apply(&text.join("---\n")).await.unwrap();
    for limit in [1, 3, 10, 100] {
        let odd = bench.accounts(&["type:partner"], None, limit).await;
        let expected: Vec<String> = (0..10).map(|at| format!("a{:02}", at * 2 + 1)).collect();
        assert_eq!(odd.names, expected);
        let some = bench.accounts(&["type:partner", "name:a1*"], None, limit).await;
        assert_eq!(some.names, ["a11", "a13", "a15", "a17", "a19"]);
        let down = bench.accounts(&["name:a0*"], Some("-name"), limit).await;
        let expected: Vec<String> = (0..10).rev().map(|at| format!("a{at:02}")).collect();
        assert_eq!(down.names, expected);
        let notes = bench.accounts(&["name:a0*"], Some("note"), limit).await.names;
        assert_eq!(notes, ["a09", "a06", "a07", "a08", "a03", "a04", "a05", "a00", "a01", "a02"]);
    }
    assert_eq!(bench.accounts(&["enabled:true"], None, 7).await.names.len(), 20);
    assert_eq!(bench.accounts(&["enabled:false"], None, 7).await.names.len(), 0);
    assert_eq!(bench.accounts(&[], None, 7).await.pages, 3);
    assert_eq!(bench.accounts(&[], None, 20).await.pages, 1);
}

#[tokio::test]
async fn a_cursor_is_of_its_list() {
    let bench = bench().await;
    bench.apply("account: {name: a}\n---\naccount: {name: b}\n").await.unwrap();
    let list = |sort: Option<&str>, after: Option<Cursor>| Request::List {
        kind: Kind::Account,
        filter: Vec::new(),
        sort: sort.map(|text| SortOrder(text.to_owned())),
        after,
        limit: Some(1),
    };
    let Response::Nouns { next, .. } = bench.ask(list(None, None)).await.unwrap() else {
        panic!("a list answers with nouns");
    };
    for (sort, after) in [
        (Some("note"), next.clone()),
        (None, Some(Cursor::new("x"))),
        (None, Some(Cursor::new("?"))),
        (None, Some(Cursor::new("A".repeat(5_000)))),
    ] {
        let error = bench.ask(list(sort, after)).await.unwrap_err();
        assert_eq!((error.code(), error.class()), ("EP1110", ProblemClass::Invalid));
    }
    let filter = JobQuery { after: next, ..JobQuery::default() };
    assert_eq!(bench.ask(Request::Jobs { filter }).await.unwrap_err().code(), "EP1110");
}

#[tokio::test]
async fn a_change_for_an_older_version_is_refused_and_changes_nothing() {
    let bench = bench().await;
    let first = bench.made(json!({"account": {"name": "acme"}})).await;
    let second = bench.version(bench.ask(bench.patch(json!({"note": "1"}), &[first])).await);
    assert_ne!(first, second);
    let revision = bench.revision().await;
    let late = [
        bench.patch(json!({"note": "2"}), &[first]),
        Request::Delete { kind: Kind::Account, name: name("acme"), if_match: vec![first] },
        Request::Replace {
            noun: Box::new(serde_json::from_value(json!({"account": {"name": "acme"}})).unwrap()),
            if_match: vec![first],
        },
    ];
    for request in late {
        let error = bench.ask(request).await.unwrap_err();
        assert_eq!((error.code(), error.class()), ("EP1111", ProblemClass::Changed), "{error}");
    }
    assert_eq!(bench.revision().await, revision);
    // A noun that is created anew has none of the versions of the old one.
    bench.delete(Kind::Account, "acme").await.unwrap();
    let again = bench.made(json!({"account": {"name": "acme"}})).await;
    assert!(again != first && again.revision == first.revision);
    assert!(bench.ask(bench.patch(json!({"note": "3"}), &[second])).await.is_err());
    bench.ask(bench.patch(json!({"note": "3"}), &[second, again])).await.unwrap();
}

#[tokio::test]
async fn a_replaced_noun_keeps_only_what_is_given() {
    let bench = bench().await;
    bench.made(json!({"account": {"name": "acme", "note": "old", "password": "hunter22"}})).await;
    let replace = |noun: Value| Request::Replace {
        noun: Box::new(serde_json::from_value(noun).unwrap()),
        if_match: Vec::new(),
    };
    let stays = json!({"account": {"name": "acme", "password_hash": "***"}});
    bench.ask(replace(stays)).await.unwrap();
    let stored = bench.stored(Kind::Account, "acme").await;
    assert_eq!(stored["noun"]["note"], Value::Null);
    assert!(stored["noun"]["password_hash"].as_str().unwrap().starts_with("$argon2id$"));
    bench.ask(replace(json!({"account": {"name": "acme"}}))).await.unwrap();
    assert_eq!(bench.stored(Kind::Account, "acme").await["noun"]["password_hash"], Value::Null);
    let missing = bench.ask(replace(json!({"account": {"name": "acne"}}))).await.unwrap_err();
    assert_eq!(missing.code(), "EP0105");
    assert!(missing.to_string().contains("did you mean 'acme'"), "{missing}");
}

#[tokio::test]
async fn a_dry_run_shows_the_change_and_makes_none() {
    let bench = bench().await;
    bench.made(json!({"account": {"name": "acme", "note": "old"}})).await;
    let (revision, events) = (bench.revision().await, bench.events().await.len());
    let create = json!({"account": {"name": "berta", "password": "hunter22"}});
    let requests = [
        (Request::Create { noun: serde_json::from_value(create).unwrap() }, Action::Create),
        (bench.patch(json!({"note": "new", "password": "hunter22"}), &[]), Action::Change),
        (bench.patch(json!({"note": "old"}), &[]), Action::Unchanged),
        (
            Request::Delete { kind: Kind::Account, name: name("acme"), if_match: Vec::new() },
            Action::Delete,
        ),
    ];
    for (request, action) in requests {
        let answer = bench.ask(Request::DryRun { of: Box::new(request) }).await.unwrap();
        let Response::Plan { changes, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].action, action, "{changes:?}");
        assert!(!format!("{changes:?}").contains("hunter22"));
    }
    assert_eq!(bench.admin.passwords().computed(), 0, "a dry run hashes nothing");
    let bad = bench.patch(json!({"groups": ["nobody"]}), &[]);
    let bad = bench.ask(Request::DryRun { of: Box::new(bad) }).await.unwrap_err();
    assert_eq!(bad.code(), "EP0103");
    let other = bench.ask(Request::DryRun { of: Box::new(Request::Nodes) }).await.unwrap_err();
    assert_eq!(other.code(), "EP0112");
    assert_eq!(bench.revision().await, revision);
    assert_eq!(bench.events().await.len(), events);
}

#[tokio::test]
async fn a_repeated_request_is_answered_again_and_changes_nothing() {
    let bench = bench().await;
    let create = || Request::Create {
        noun: serde_json::from_value(json!({"account": {"name": "acme"}})).unwrap(),
    };
    let once = |key: &str, request: &str| Once {
        key: key.to_owned(),
        request: request.as_bytes().to_vec(),
    };
    let make =
        async |actor: &Actor, once: Once| bench.admin.handle_once(actor, create(), &once).await;
    let first = make(&actor(), once("k1", "create acme")).await.unwrap();
    let revision = bench.revision().await;
    // Another process of the installation answers the same.
    let again = bench.again();
    for admin in [&bench.admin, &again.admin] {
        let answer =
            admin.handle_once(&actor(), create(), &once("k1", "create acme")).await.unwrap();
        assert_eq!(json!(answer), json!(first));
    }
    assert_eq!(bench.revision().await, revision);
    let error = make(&actor(), once("k1", "create berta")).await.unwrap_err();
    assert_eq!((error.code(), error.class()), ("EP1112", ProblemClass::Invalid));
    // Keys of others, and other keys, are of other requests.
    let other = Actor::of_machine("other".to_owned(), actor().site);
    assert_eq!(make(&other, once("k1", "create acme")).await.unwrap_err().code(), "EP0106");
    assert_eq!(make(&actor(), once("k2", "create acme")).await.unwrap_err().code(), "EP0106");
    for key in ["", "ä", &"k".repeat(256), "a\nb"] {
        assert_eq!(make(&actor(), once(key, "x")).await.unwrap_err().code(), "EP0112", "{key:?}");
    }
    // A deletion that is repeated is not a second one; after a day the key is new.
    let delete =
        || Request::Delete { kind: Kind::Account, name: name("acme"), if_match: Vec::new() };
    let deleted = once("k3", "delete acme");
    for _ in 0..2 {
        let answer = bench.admin.handle_once(&actor(), delete(), &deleted).await.unwrap();
        assert!(matches!(answer, Response::Done));
    }
    bench.env.advance(limits::ANSWERS_FOR + std::time::Duration::from_secs(1));
    let late = bench.admin.handle_once(&actor(), delete(), &deleted).await.unwrap_err();
    assert_eq!(late.code(), "EP0105");
}
