//! Keys, endpoints and accounts that say who may use them.

use entrepot_nouns::Role;

use super::*;

const NOUNS: &str = "account: {name: treasury, type: group}
---
account: {name: tina, type: admin, groups: [treasury]}
---
account: {name: eve, type: admin}
---
key:
  {name: hook-key, type: web-hook, users: [treasury],
   private: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
---
key: {name: free-key, type: web-hook, private: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
";

fn rule(key: &str, note: &str) -> Value {
    json!({"rule": {"name": "r", "note": note, "when": {"hook": {"keys": [key]}},
        "do": [{"exec": {"argv": ["/bin/true"]}}]}})
}

impl Bench {
    /// What an administrator with all rights is answered.
    async fn ask_as(&self, who: &str, request: Request) -> Result<Response> {
        let rights = Role::Administrator.rights();
        let actor = Actor::with_rights(who.to_owned(), SiteId::MAIN, rights);
        self.admin.handle(&actor, request).await
    }
}

#[tokio::test]
async fn a_key_that_names_its_users_is_used_by_nobody_else() {
    let bench = bench().await;
    bench.apply(NOUNS).await.unwrap();
    let create =
        |noun: Value| Request::Create { noun: Box::new(serde_json::from_value(noun).unwrap()) };
    let change = |kind: Kind, of: &str, patch: Value| Request::Change {
        kind,
        name: name(of),
        patch,
        if_match: Vec::new(),
    };
    let refused = |answer: Result<Response>| {
        let error = answer.unwrap_err();
        assert_eq!((error.code(), error.class()), ("EP0885", ProblemClass::Denied), "{error}");
        assert!(error.to_string().contains("is not for 'eve', but for treasury"), "{error}");
    };
    // Nor is it shown what such a change would do.
    let tried = || create(rule("hook-key", ""));
    refused(bench.ask_as("eve", Request::DryRun { of: Box::new(tried()) }).await);
    refused(bench.ask_as("eve", tried()).await);
    bench.ask_as("tina", tried()).await.unwrap();
    refused(bench.ask_as("eve", change(Kind::Rule, "r", json!({"note": "mine"}))).await);
    let text = crate::document::write(&[serde_json::from_value(rule("hook-key", "mine")).unwrap()]);
    let documents = document(&text.unwrap());
    refused(bench.ask_as("eve", Request::Apply { documents, prune: false }).await);
    for patch in [json!({"users": []}), json!({"users": ["eve"]}), json!({"enabled": false})] {
        refused(bench.ask_as("eve", change(Kind::Key, "hook-key", patch)).await);
    }
    bench.ask_as("tina", change(Kind::Rule, "r", json!({"note": "ours"}))).await.unwrap();
    // What no longer names it is everybody's.
    let other = json!({"when": {"hook": {"keys": ["free-key"]}}});
    bench.ask_as("eve", change(Kind::Rule, "r", other)).await.unwrap();
    bench.ask_as("eve", change(Kind::Rule, "r", json!({"note": "mine"}))).await.unwrap();
    bench.change(Kind::Key, "hook-key", json!({"users": ["eve"]})).await.unwrap();
    bench.ask_as("eve", change(Kind::Key, "hook-key", json!({"users": []}))).await.unwrap();
    let partner = json!({"account": {"name": "pat", "type": "partner"}});
    bench.create(partner).await.unwrap();
    let wrong = bench.change(Kind::Key, "hook-key", json!({"users": ["pat"]})).await.unwrap_err();
    assert!(wrong.to_string().contains("neither of type admin nor a group"), "{wrong}");
}

const OTHERS: &str = "account: {name: treasury, type: group}
---
account: {name: tina, type: admin, groups: [treasury]}
---
account: {name: eve, type: admin}
---
account: {name: payroll, type: service, managers: [treasury]}
---
account: {name: bank, type: group, managers: [treasury, tina]}
---
endpoint: {name: vault, target: {memory: {}}, users: [treasury]}
---
endpoint: {name: inbox, target: {memory: {}}}
---
mount: {name: payroll, account: payroll, path: /, endpoint: inbox}
";

/// What gives rights of `payroll`, `bank` or `vault` to whoever writes it.
fn uses() -> Vec<Value> {
    let rule = |run_as: Option<&str>, endpoint: &str| {
        json!({"rule": {"name": "r", "when": {"event": "file.uploaded"}, "as": run_as,
            "do": [{"deliver": {"endpoint": endpoint, "path": "{name}"}}]}})
    };
    let mount = |account: &str, endpoint: &str| {
        json!({"mount":
            {"name": "m", "account": account, "path": "/m", "endpoint": endpoint}})
    };
    vec![
        rule(Some("payroll"), "inbox"),
        rule(None, "vault"),
        mount("eve", "vault"),
        mount("payroll", "inbox"),
        json!({"account": {"name": "mallory", "groups": ["bank"]}}),
        json!({"key": {"name": "k", "type": "ssh-user", "account": "payroll", "public":
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE3yo9AGk6vX+TgbY9+8y5yxLvbXtoNqtj7Zgn6ooYVL"}}),
    ]
}

#[tokio::test]
async fn endpoints_and_accounts_that_name_their_users_are_used_by_nobody_else() {
    let bench = bench().await;
    bench.apply(OTHERS).await.unwrap();
    let refused = |answer: Result<Response>, what: &Value| {
        let error = answer.expect_err(&what.to_string());
        assert_eq!(error.code(), "EP0885", "{what}: {error}");
        assert!(error.to_string().contains("is not for 'eve', but for treasury"), "{error}");
    };
    for noun in uses() {
        let noun: AnyNoun = serde_json::from_value(noun).unwrap();
        let shown = serde_json::to_value(&noun).unwrap();
        let create = || Request::Create { noun: Box::new(noun.clone()) };
        refused(bench.ask_as("eve", create()).await, &shown);
        bench.ask_as("tina", create()).await.unwrap();
        let (kind, name) = (noun.kind(), noun.name().clone());
        let patch = json!({"note": "mine"});
        let change = Request::Change { kind, name: name.clone(), patch, if_match: Vec::new() };
        if kind != Kind::Mount {
            refused(bench.ask_as("eve", change).await, &shown);
        }
        // What is deleted uses nothing.
        bench.ask_as("eve", Request::Delete { kind, name, if_match: Vec::new() }).await.unwrap();
    }
    for (kind, of, patch) in [
        (Kind::Account, "payroll", json!({"password": "a long enough password"})),
        (Kind::Account, "payroll", json!({"managers": []})),
        (Kind::Endpoint, "vault", json!({"users": ["eve"]})),
    ] {
        let shown = patch.clone();
        let change = Request::Change { kind, name: name(of), patch, if_match: Vec::new() };
        refused(bench.ask_as("eve", change).await, &shown);
    }
    // To be asked is no use, and whoever keeps the service running may pause what others wrote.
    let asks = json!({"rule": {"name": "asks", "when": {"event": "file.uploaded"},
        "do": [{"approve": {"by": ["bank"], "text": "ok?"}}]}});
    let asks = Box::new(serde_json::from_value(asks).unwrap());
    bench.ask_as("eve", Request::Create { noun: asks }).await.unwrap();
    let noun = Box::new(serde_json::from_value(uses().remove(1)).unwrap());
    bench.ask_as("tina", Request::Create { noun }).await.unwrap();
    bench
        .ask_as("eve", Request::PauseRule { name: name("r"), to: RulePause::Paused })
        .await
        .unwrap();
    let wrong = bench.change(Kind::Endpoint, "vault", json!({"users": ["payroll"]})).await;
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains("neither of type admin nor a group"), "{wrong}");
}
