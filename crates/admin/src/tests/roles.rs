//! The table of rights: every request, asked for by every role.

use std::collections::BTreeMap;

use entrepot_auth::{Directory, Gate, GateOptions, Peer};
use entrepot_crypto::{BearerKind, bearer_token};
use entrepot_nouns::{AdminRight, Protocol, Role, SessionId};
use uuid::Uuid;

use super::*;

/// Who may do what. A request that is not here fails the test: decide what its least role is.
const LEAST: &[(&str, Role)] = &[
    ("list", Role::Viewer),
    ("show", Role::Viewer),
    ("transfers", Role::Viewer),
    ("transfer", Role::Viewer),
    ("jobs", Role::Viewer),
    ("job", Role::Viewer),
    ("approvals", Role::Viewer),
    ("answer-approval", Role::Viewer),
    ("sessions", Role::Viewer),
    ("log-levels", Role::Viewer),
    ("nodes", Role::Viewer),
    ("node", Role::Viewer),
    ("journal-heads", Role::Viewer),
    ("login-limits", Role::Viewer),
    ("certificates", Role::Viewer),
    ("tokens", Role::Viewer),
    ("passkeys", Role::Viewer),
    ("sign-ins", Role::Viewer),
    ("links", Role::Viewer),
    ("link", Role::Viewer),
    ("events", Role::Auditor),
    ("test-rules", Role::Viewer),
    ("lint-rules", Role::Viewer),
    ("explain-rules", Role::Auditor),
    ("run-rule", Role::Operator),
    ("seen-files", Role::Auditor),
    ("forget", Role::Operator),
    ("pause-rule", Role::Operator),
    ("dry-run-rule", Role::Auditor),
    ("diff-rules", Role::Auditor),
    ("trace", Role::Auditor),
    ("as2", Role::Auditor),
    ("replay-rule", Role::Operator),
    ("retry-job", Role::Operator),
    ("cancel-job", Role::Operator),
    ("decide-held", Role::Operator),
    ("end-session", Role::Operator),
    ("limit-session", Role::Operator),
    ("limit-node", Role::Operator),
    ("set-log-levels", Role::Operator),
    ("reset-log-levels", Role::Operator),
    ("drain-node", Role::Operator),
    ("undrain-node", Role::Operator),
    ("set-node-pools", Role::Operator),
    ("renew-certificate", Role::Operator),
    ("revoke-token", Role::Operator),
    ("remove-passkey", Role::Operator),
    ("revoke-link", Role::Operator),
    ("unlock", Role::Operator),
    ("end-sign-in", Role::Operator),
    ("create", Role::SiteAdministrator),
    ("replace", Role::SiteAdministrator),
    ("change", Role::SiteAdministrator),
    ("dry-run", Role::SiteAdministrator),
    ("delete", Role::SiteAdministrator),
    ("plan", Role::SiteAdministrator),
    ("apply", Role::SiteAdministrator),
    ("export", Role::SiteAdministrator),
    ("create-token", Role::SiteAdministrator),
    ("create-link", Role::SiteAdministrator),
    ("delete-link", Role::SiteAdministrator),
    ("make-recovery-codes", Role::SiteAdministrator),
    ("stop-node", Role::Administrator),
    ("remove-node", Role::Administrator),
    ("note-backup", Role::Administrator),
    ("make-set-up-token", Role::Administrator),
];

/// The words of all requests, as serde knows them.
fn words() -> Vec<String> {
    let Err(error) = serde_json::from_value::<Request>(json!({"request": "?"})) else {
        panic!("'?' is no request");
    };
    let text = error.to_string();
    let (_, listed) = text.split_once("expected one of").unwrap();
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A request of each kind; none finds anything.
fn sample(word: &str) -> Request {
    let id = SessionId(Uuid::from_u128(7));
    let rest = match word {
        "list" => json!({"kind": "account"}),
        "show" | "delete" => json!({"kind": "account", "name": "nobody"}),
        "create" | "replace" => {
            json!({"noun": {"account": {"name": "nobody", "groups": ["none"]}}})
        }
        "dry-run" => {
            json!({"of": {"request": "delete", "kind": "account", "name": "nobody"}})
        }
        "change" => json!({"kind": "account", "name": "nobody", "patch": {}}),
        "plan" | "apply" => json!({"documents": [], "prune": false}),
        "export" => json!({"kinds": []}),
        "transfers" | "events" | "jobs" => json!({"filter": {}}),
        "explain-rules" => json!({"question": {"about": {"path": "/none"}}}),
        "dry-run-rule" => json!({"order": {"rule": "none"}}),
        "test-rules" | "lint-rules" | "diff-rules" => json!({"source": {}}),
        "seen-files" => json!({"rule": "nobody"}),
        "pause-rule" => json!({"name": "nobody", "to": "paused"}),
        "forget" => json!({"rule": "nobody", "path": "a"}),
        "replay-rule" => json!({"order": {"rule": "none", "of": {"event": "1"}}}),
        "trace" => json!({"subject": "/none"}),
        "as2" => json!({"ask": {"messages": {}}}),
        "transfer" | "job" | "retry-job" | "cancel-job" | "end-session" | "end-sign-in" => {
            json!({"id": id})
        }
        "answer-approval" => json!({"id": id, "verdict": "approved"}),
        "decide-held" => json!({"id": id, "decision": "release"}),
        "limit-session" => json!({"id": id, "rates": "reset"}),
        "limit-node" => json!({"rates": "reset"}),
        "set-log-levels" => json!({"levels": {}}),
        "set-node-pools" => json!({"name": "n", "places": {"target": 9}}),
        "node" | "drain-node" | "undrain-node" | "remove-node" | "revoke-token" | "link"
        | "remove-passkey" | "revoke-link" | "delete-link" | "run-rule" => {
            json!({"name": "nobody"})
        }
        "create-link" => json!({"link": {
            "owner": "nobody", "folder": "/", "allows": ["download"],
        }}),
        "note-backup" => json!({"backup": {
            "folder": "/b", "manifest": "", "records": 0, "files": 0, "with_master_key": false,
        }}),
        "create-token" => json!({"token": {"account": "nobody", "scopes": []}}),
        "make-recovery-codes" => json!({"account": "nobody"}),
        "renew-certificate" => json!({"listener": "none"}),
        "unlock" => json!({"target": {"account": "nobody"}}),
        "journal-heads" | "approvals" | "sessions" | "log-levels" | "reset-log-levels"
        | "nodes" | "login-limits" | "passkeys" | "tokens" | "certificates" | "links"
        | "sign-ins" | "stop-node" | "make-set-up-token" => json!({}),
        other => panic!("write a sample of the request '{other}'"),
    };
    let Value::Object(mut fields) = rest else { panic!("fields") };
    fields.insert("request".to_owned(), word.into());
    serde_json::from_value(Value::Object(fields)).unwrap()
}

#[tokio::test]
async fn somebody_answers_each_request() {
    let bench = bench().await;
    for word in words() {
        let answer = bench.ask(sample(&word)).await;
        let is_nobodys =
            matches!(&answer, Err(AdminError::Internal { what: "asking about rules", .. }));
        assert!(!is_nobodys, "{word}: {answer:?}");
    }
}

/// A bench with a gate, by which accounts become actors.
struct Roles {
    bench: Bench,
    directory: Directory,
    gate: Gate,
    north: SiteId,
}

async fn roles() -> Roles {
    let bench = bench().await;
    bench.apply("site: {name: north}").await.unwrap();
    let sites = bench.db.sites().await.unwrap();
    let north = SiteId(sites.iter().find(|site| site.noun.name.as_str() == "north").unwrap().id);
    let directory = Directory::new(bench.db.clone(), bench.env.clone(), bench.master.clone());
    let recorder = Recorder::new(bench.journal.clone(), bench.env.clone(), name("n1"));
    let gate = Gate::new(directory.clone(), recorder, GateOptions::default());
    Roles { bench, directory, gate, north }
}

impl Roles {
    async fn account(&self, site: SiteId, name: &str, fields: &str) -> Result<Response> {
        let text = format!("account: {{name: {name}, type: admin{fields}}}");
        let request = Request::Apply { documents: document(&text), prune: false };
        let root = Actor::of_machine("cli:root".to_owned(), site);
        let answer = self.bench.admin.handle(&root, request).await;
        self.directory.refresh().await.unwrap();
        answer
    }

    async fn actor(&self, site: SiteId, name: &str) -> Actor {
        let grant = self.gate.internal(site, &name.parse().unwrap(), "a test").await.unwrap();
        Actor::of_grant(&grant).unwrap()
    }

    /// The same account, which logged in with a token of these scopes.
    async fn by_token(&self, account: &str, scopes: Value) -> Actor {
        let order = json!({"request": "create-token", "token": {
            "account": account, "scopes": scopes,
        }});
        let answer = self.bench.ask(serde_json::from_value(order).unwrap()).await.unwrap();
        let Response::Token { token, .. } = answer else { panic!("{answer:?}") };
        let secret = Secret::new(token.expose());
        bearer_token::hash(BearerKind::Api, &secret).unwrap();
        self.directory.refresh().await.unwrap();
        let mut attempt = self.gate.attempt(Peer {
            site: SiteId::MAIN,
            home: SiteId::MAIN,
            protocol: Protocol::Sftp,
            encrypted: true,
            listener: name("x"),
            address: "192.0.2.1:9".parse().unwrap(),
            client: String::new(),
            algorithms: String::new(),
        });
        match attempt.api_token(&secret).await {
            entrepot_auth::Verdict::Granted(grant) => Actor::of_grant(&grant).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn is_forbidden(&self, actor: &Actor, request: Request) -> bool {
        match self.bench.admin.handle(actor, request).await {
            Err(error @ AdminError::Forbidden { .. }) => {
                assert_eq!((error.code(), error.class()), ("EP1040", ProblemClass::Denied));
                true
            }
            _ => false,
        }
    }
}

fn word_of(role: Role) -> String {
    serde_json::to_value(role).unwrap().as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_request_is_held_to_the_table_for_every_role() {
    let world = roles().await;
    let table: BTreeMap<&str, Role> = LEAST.iter().copied().collect();
    let words = words();
    assert!(words.len() >= LEAST.len(), "{words:?}");
    for word in &words {
        assert!(table.contains_key(word.as_str()), "no least role of the request '{word}'");
    }
    assert_eq!(table.len(), words.len(), "the table has requests that there are not");
    for role in Role::ALL {
        let site = if role == Role::SiteAdministrator { world.north } else { SiteId::MAIN };
        let (called, role_word) = (word_of(role), word_of(role));
        world.account(site, &called, &format!(", role: {role_word}")).await.unwrap();
        let actor = world.actor(site, &called).await;
        for word in &words {
            let allowed = role >= table[word.as_str()];
            let request = sample(word);
            assert_eq!(actor.may(needed(&request)), allowed, "{word} by {role:?}");
            assert_eq!(!world.is_forbidden(&actor, request).await, allowed, "{word} by {role:?}");
        }
    }
}

#[tokio::test]
async fn a_rule_of_ones_own_is_tried_only_by_who_may_store_it() {
    let world = roles().await;
    world.account(SiteId::MAIN, "op", ", role: operator").await.unwrap();
    let operator = world.actor(SiteId::MAIN, "op").await;
    let order = |order: Value| -> Request {
        serde_json::from_value(json!({"request": "dry-run-rule", "order": order})).unwrap()
    };
    let text = "rule: {name: r, when: {event: file.uploaded}, do: [delete: {}]}";
    let own = || order(json!({"documents": [{"file": "r.yaml", "text": text}]}));
    assert!(world.is_forbidden(&operator, own()).await);
    assert!(!world.is_forbidden(&operator, order(json!({"rule": "r"}))).await);
    world.account(SiteId::MAIN, "boss", ", role: administrator").await.unwrap();
    assert!(!world.is_forbidden(&world.actor(SiteId::MAIN, "boss").await, own()).await);
}

#[tokio::test]
async fn who_reads_the_audit_log_tests_no_partner() {
    let world = roles().await;
    let ask = |ask: Value| -> Request {
        serde_json::from_value(json!({"request": "as2", "ask": ask})).unwrap()
    };
    world.account(SiteId::MAIN, "reader", ", role: auditor").await.unwrap();
    let reader = world.actor(SiteId::MAIN, "reader").await;
    assert!(!world.is_forbidden(&reader, ask(json!({"message": "<a@b>"}))).await);
    assert!(world.is_forbidden(&reader, ask(json!({"test": "globex"}))).await);
    world.account(SiteId::MAIN, "op", ", role: operator").await.unwrap();
    let operator = world.actor(SiteId::MAIN, "op").await;
    assert!(!world.is_forbidden(&operator, ask(json!({"test": "globex"}))).await);
    let send =
        ask(json!({"send": {"partner": "globex", "order": {"endpoint": "e", "path": "/a"}}}));
    assert!(world.is_forbidden(&operator, send).await, "it does what only a rule may say");
}

#[tokio::test]
async fn what_is_forbidden_changes_nothing() {
    let world = roles().await;
    world.account(SiteId::MAIN, "op", ", role: operator").await.unwrap();
    let operator = world.actor(SiteId::MAIN, "op").await;
    let before = world.bench.db.config_revision().await.unwrap();
    for patch in [json!({"role": null}), json!({"type": "admin"}), json!({"password": "longer!!"})]
    {
        let (kind, name) = (Kind::Account, name("op"));
        let request = Request::Change { kind, name, patch, if_match: Vec::new() };
        assert!(world.is_forbidden(&operator, request).await);
    }
    assert_eq!(world.bench.db.config_revision().await.unwrap(), before);
    let new = MasterKey::generate(&world.bench.env);
    let rotated = world.bench.admin.rotate_secrets(&operator, &new).await;
    assert!(matches!(rotated, Err(AdminError::Forbidden { .. })), "{rotated:?}");
}

#[tokio::test]
async fn an_account_of_another_site_administers_that_site_and_no_node() {
    let world = roles().await;
    for (called, fields) in
        [("a", ""), ("b", ", role: administrator"), ("c", ", role: site-administrator")]
    {
        world.account(world.north, called, fields).await.unwrap();
        let actor = world.actor(world.north, called).await;
        assert!(actor.may(AdminRight::Configure) && !actor.may(AdminRight::Steer), "{called}");
        let main = world.bench.admin.at_site(actor.clone(), Some(&name("main"))).await;
        assert_eq!(main.unwrap_err().code(), "EP0105", "{called} sees its site only");
        assert!(world.is_forbidden(&actor, Request::StopNode).await);
        let (filter, sort) = (Vec::new(), None);
        let request = Request::List { kind: Kind::Account, filter, sort, after: None, limit: None };
        let Response::Nouns { nouns, .. } =
            world.bench.admin.handle(&actor, request).await.unwrap()
        else {
            panic!("a list answers with nouns");
        };
        assert!(nouns.iter().all(|stored| stored.site == world.north), "{nouns:?}");
    }
    let at_main = world.account(SiteId::MAIN, "d", ", role: site-administrator").await;
    let error = at_main.unwrap_err();
    assert_eq!(error.code(), "EP0102");
    assert!(error.to_string().contains("role"), "{error}");
    world.account(SiteId::MAIN, "e", "").await.unwrap();
    assert!(world.actor(SiteId::MAIN, "e").await.may(AdminRight::Steer), "as ever without a role");
}

#[tokio::test]
async fn a_token_leaves_what_its_scopes_name_of_what_the_role_allows() {
    let world = roles().await;
    world.account(SiteId::MAIN, "root", "").await.unwrap();
    world.account(SiteId::MAIN, "view", ", role: viewer").await.unwrap();
    let rights = |actor: &Actor| -> Vec<AdminRight> {
        AdminRight::ALL.into_iter().filter(|right| actor.may(*right)).collect()
    };
    use AdminRight::{Approve, Audit, Configure, Operate, Run, See, Steer};
    for (account, scopes, expected) in [
        ("root", json!(["admin:read"]), vec![See]),
        ("root", json!(["admin:read", "audit:read"]), vec![See, Audit]),
        ("root", json!(["admin:write"]), vec![Operate, Configure, Run, Approve, Steer]),
        ("root", json!(["files:read", "files:write"]), vec![]),
        ("root", json!([]), vec![]),
        ("view", json!(["admin:read", "admin:write", "audit:read"]), vec![See, Approve]),
    ] {
        let actor = world.by_token(account, scopes.clone()).await;
        assert_eq!(rights(&actor), expected, "{account} {scopes}");
    }
}
