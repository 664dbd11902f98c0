//! Requests against a real SQLite database and a real journal.

use std::sync::Arc;

use entrepot_crypto::{HashCost, MasterKey, SealingContext, password};
use entrepot_db::{Db, DbOptions};
use entrepot_journal::{Journal, Options, Recorder};
use entrepot_nouns::{AnyNoun, Endpoint, Env, Event, Fact, Kind, Name, Secret, SiteId};
use serde_json::{Value, json};

use crate::*;

mod approvals;
mod lists;
mod noun_users;
mod passkeys;
mod password_rules;
mod recovery_codes;
mod renewal;
mod replay;
mod roles;
mod rotation;
mod rule_flaws;
mod rule_pauses;
mod sealed;
mod serving;
mod set_up;
mod sign_ins;
mod tokens;
mod touched;

struct Bench {
    /// Removed with the last of those that use it.
    dir: Arc<tempfile::TempDir>,
    admin: Admin,
    db: Db,
    journal: Journal,
    master: MasterKey,
    env: Env,
}

async fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let node: Name = "n1".parse().unwrap();
    let (journal, _) =
        Journal::open(&dir.path().join("journal"), &node, env.clone(), Options::default()).unwrap();
    let url = format!("sqlite://{}", dir.path().join("state.db").display());
    let options = DbOptions { env: env.clone(), ..DbOptions::default() };
    let db = Db::open(&url, options).await.unwrap();
    let master = MasterKey::generate(&env);
    let admin = Admin::new(AdminParts {
        db: db.clone(),
        master: master.clone(),
        recorder: Recorder::new(journal.clone(), env.clone(), node),
        directory: None,
        env: env.clone(),
    })
    .with_hash_cost(HashCost::for_tests());
    Bench { dir: Arc::new(dir), admin, db, journal, master, env }
}

fn actor() -> Actor {
    Actor::of_machine("cli:root".to_owned(), SiteId::MAIN)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn list(kind: Kind) -> Request {
    Request::List { kind, filter: Vec::new(), sort: None, after: None, limit: None }
}

fn document(text: &str) -> Vec<Document> {
    vec![Document { file: "a.yaml".to_owned(), text: text.to_owned() }]
}

impl Bench {
    async fn ask(&self, request: Request) -> Result<Response> {
        self.admin.handle(&actor(), request).await
    }

    async fn apply(&self, text: &str) -> Result<Vec<PlannedChange>> {
        let request = Request::Apply { documents: document(text), prune: false };
        match self.ask(request).await? {
            Response::Plan { changes, .. } => Ok(changes),
            other => panic!("{other:?}"),
        }
    }

    async fn plan(&self, documents: Vec<Document>, prune: bool) -> Vec<PlannedChange> {
        match self.ask(Request::Plan { documents, prune }).await.unwrap() {
            Response::Plan { changes, .. } => changes,
            other => panic!("{other:?}"),
        }
    }

    async fn create(&self, noun: Value) -> Result<Response> {
        let noun = Box::new(serde_json::from_value(noun).unwrap());
        self.ask(Request::Create { noun }).await
    }

    async fn change(&self, kind: Kind, name: &str, patch: Value) -> Result<Response> {
        self.ask(Request::Change { kind, name: name.parse().unwrap(), patch, if_match: Vec::new() })
            .await
    }

    async fn delete(&self, kind: Kind, name: &str) -> Result<Response> {
        self.ask(Request::Delete { kind, name: name.parse().unwrap(), if_match: Vec::new() }).await
    }

    async fn export(&self) -> Vec<Document> {
        let request = Request::Export { kinds: Vec::new() };
        match self.admin.handle(&actor(), request).await.unwrap() {
            Response::Documents { documents } => documents,
            other => panic!("{other:?}"),
        }
    }

    /// What lists show, as documents: `***` stands for each hash and sealed secret.
    async fn listed(&self) -> Vec<Document> {
        let mut documents = Vec::new();
        for kind in Kind::ALL {
            let request = list(kind);
            let Response::Nouns { nouns, .. } = self.ask(request).await.unwrap() else {
                panic!("a list answers with nouns");
            };
            let nouns: Vec<AnyNoun> = nouns.into_iter().map(|stored| stored.noun).collect();
            if !nouns.is_empty() {
                let text = crate::document::write(&nouns).unwrap();
                documents.push(Document { file: format!("{kind}.yaml"), text });
            }
        }
        documents
    }

    async fn stored(&self, kind: Kind, name: &str) -> Value {
        let name: Name = name.parse().unwrap();
        match kind {
            Kind::Account => {
                let found = self.db.find::<entrepot_nouns::Account>(SiteId::MAIN, &name).await;
                serde_json::to_value(found.unwrap().unwrap()).unwrap()
            }
            Kind::Endpoint => {
                let found = self.db.find::<entrepot_nouns::Endpoint>(SiteId::MAIN, &name).await;
                serde_json::to_value(found.unwrap().unwrap()).unwrap()
            }
            other => panic!("{other}"),
        }
    }

    async fn events(&self) -> Vec<Event> {
        let filter = EventQuery { after: Some(0), ..EventQuery::default() };
        match self.ask(Request::Events { filter }).await.unwrap() {
            Response::Events { events, .. } => events.into_iter().map(|row| row.event).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// The same database, by a process that has just begun.
    fn again(&self) -> Bench {
        let env = Env::simulated(3);
        let node: Name = "n1".parse().unwrap();
        let admin = Admin::new(AdminParts {
            db: self.db.clone(),
            master: self.master.clone(),
            recorder: Recorder::new(self.journal.clone(), env.clone(), node),
            directory: None,
            env,
        });
        Bench {
            dir: self.dir.clone(),
            admin: admin.with_hash_cost(HashCost::for_tests()),
            db: self.db.clone(),
            journal: self.journal.clone(),
            master: self.master.clone(),
            env: self.env.clone(),
        }
    }

    async fn revision(&self) -> i64 {
        self.db.config_revision().await.unwrap()
    }
}

const PARTNER: &str = "\
account:
  name: acme
  type: partner
  password: hunter22
  groups: [partners]
---
account:
  name: partners
  type: group
  policy: slow
---
policy:
  name: slow
  upload_bytes_per_second: 2048
---
endpoint:
  name: files
  target:
    directory:
      path: /srv/files
---
endpoint:
  name: bucket
  target:
    object:
      bucket: b
      access_key_id: id
      secret_key: opensesame
---
mount:
  name: acme-root
  account: acme
  endpoint: files
  path: /
---
rule:
  name: forward
  when: {event: file.uploaded}
  as: acme
  do:
    - deliver: {endpoint: bucket}
---
listener:
  name: sftp
  protocol: sftp
  address: 127.0.0.1:2022
";

#[tokio::test]
async fn documents_apply_in_any_order_once_and_then_change_nothing() {
    let bench = bench().await;
    let planned = bench.plan(document(PARTNER), false).await;
    assert_eq!(bench.events().await.len(), 0, "a plan changes nothing");
    let applied = bench.apply(PARTNER).await.unwrap();
    assert_eq!(planned.len(), 8);
    assert!(applied.iter().all(|change| change.action == Action::Create));
    let kinds: Vec<Kind> = applied.iter().map(|change| change.kind).collect();
    assert!(
        kinds.iter().position(|k| *k == Kind::Endpoint)
            < kinds.iter().position(|k| *k == Kind::Mount)
    );
    let revision = bench.revision().await;

    // The same again: the passwords are the same, so their hash and seal stay.
    let again = bench.apply(PARTNER).await.unwrap();
    assert!(again.iter().all(|change| change.action == Action::Unchanged), "{again:?}");
    assert_eq!(bench.revision().await, revision);

    // And so does what was exported, even pruned, also without secrets.
    let exported = bench.export().await;
    for exported in [exported, bench.listed().await] {
        let changes = bench.plan(exported.clone(), true).await;
        assert!(changes.iter().all(|c| c.action == Action::Unchanged), "{changes:?}\n{exported:?}");
        assert_eq!(changes.len(), 9, "with the site");
    }
    assert_eq!(bench.events().await.len(), 8);
}

#[tokio::test]
async fn an_export_makes_the_same_configuration_elsewhere() {
    let (one, mut two) = (bench().await, bench().await);
    one.apply(PARTNER).await.unwrap();
    let exported = one.export().await;
    // Another master key cannot open what this one sealed: that is said, and nothing is applied.
    let foreign = MasterKey::from_bytes(&[9; 32]);
    two.admin = two.admin.clone();
    let other = Bench { master: foreign.clone(), ..bench_with(foreign).await };
    let request = Request::Apply { documents: exported.clone(), prune: false };
    let error = other.ask(request.clone()).await.unwrap_err();
    assert!(error.to_string().contains("endpoint 'bucket': target.object.secret_key"), "{error}");
    assert_eq!(error.code(), "EP0102");
    assert!(other.events().await.is_empty());
    // The same master key, another installation.
    two.ask(request).await.unwrap();
    assert_eq!(two.export().await, exported);
}

async fn bench_with(master: MasterKey) -> Bench {
    let mut bench = bench().await;
    bench.admin = Admin::new(AdminParts {
        db: bench.db.clone(),
        master,
        recorder: Recorder::new(bench.journal.clone(), Env::simulated(2), "n1".parse().unwrap()),
        directory: None,
        env: Env::simulated(2),
    })
    .with_hash_cost(HashCost::for_tests());
    bench
}

#[tokio::test]
async fn secrets_are_hashed_and_sealed_and_never_shown() {
    let bench = bench().await;
    let changes = bench.apply(PARTNER).await.unwrap();
    let account = bench.stored(Kind::Account, "acme").await;
    let hash = account["noun"]["password_hash"].as_str().unwrap().to_owned();
    assert!(password::verify(&Secret::new("hunter22"), &hash).unwrap());
    let endpoint = bench.stored(Kind::Endpoint, "bucket").await;
    let mut endpoint: Endpoint = serde_json::from_value(endpoint["noun"].clone()).unwrap();
    let secret = endpoint.target.secret().unwrap();
    let context = SealingContext::endpoint(&name("main"), &name("bucket"), &secret);
    let sealed = secret.sealed.clone().unwrap();
    let opened = bench.master.open(&context, &sealed).unwrap();
    assert_eq!(opened.expose(), b"opensesame");

    let mut seen = format!("{changes:?} {:?}", bench.events().await);
    for kind in Kind::ALL {
        let answer = bench.ask(list(kind)).await.unwrap();
        seen += &serde_json::to_string(&answer).unwrap();
    }
    seen += &format!("{:?}", Request::Apply { documents: document(PARTNER), prune: false });
    let (kind, name) = (Kind::Account, "acme".parse().unwrap());
    seen += &format!(
        "{:?}",
        Request::Change {
            kind,
            name,
            patch: json!({"password": "hunter22"}),
            if_match: Vec::new()
        }
    );
    let journal = bench.journal.reader(0).read_now(100).unwrap();
    assert_eq!(journal.len(), 8);
    for record in journal {
        seen += &String::from_utf8(record.payload).unwrap();
    }
    for secret in ["hunter22", "opensesame", &hash, &sealed.0] {
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
    assert!(seen.contains("\"password_hash\":\"***\""));
    // What was exported in full holds no clear text either.
    let full = serde_json::to_string(&bench.export().await).unwrap();
    assert!(!full.contains("hunter22") && !full.contains("opensesame") && full.contains(&hash));
}

#[tokio::test]
async fn a_code_generator_is_sealed_and_goes() {
    let bench = bench().await;
    bench.create(json!({"account": {"name": "a", "type": "group"}})).await.unwrap();
    let secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
    let refused = bench.change(Kind::Account, "a", json!({"totp": secret})).await;
    assert!(refused.unwrap_err().to_string().contains("a group cannot log in"));
    bench.create(json!({"account": {"name": "b"}})).await.unwrap();
    for (bad, why) in [("0189", "base32"), ("MZXW6", "too short")] {
        let refused = bench.change(Kind::Account, "b", json!({"totp": bad})).await;
        let why_not = refused.unwrap_err().to_string();
        assert!(why_not.contains("totp: ") && why_not.contains(why), "{why_not}");
    }
    let shown = bench.change(Kind::Account, "b", json!({"totp": secret})).await.unwrap();
    let shown = serde_json::to_string(&shown).unwrap();
    assert!(shown.contains("\"totp_sealed\":\"***\"") && !shown.contains(secret), "{shown}");
    let stored = bench.stored(Kind::Account, "b").await;
    let sealed = entrepot_nouns::Sealed(stored["noun"]["totp_sealed"].as_str().unwrap().to_owned());
    let context = SealingContext::code_generator(&name("main"), &name("b"));
    assert_eq!(bench.master.open(&context, &sealed).unwrap(), Secret::new(secret));
    bench.change(Kind::Account, "b", json!({"note": "n", "totp": null})).await.unwrap();
    let stored = bench.stored(Kind::Account, "b").await;
    assert_eq!(stored["noun"]["totp_sealed"], Value::Null);
}

#[tokio::test]
async fn a_password_changes_stays_and_goes() {
    let bench = bench().await;
    bench.create(json!({"account": {"name": "a", "password": "number one"}})).await.unwrap();
    let hash = |value: Value| value["noun"]["password_hash"].clone();
    let first = hash(bench.stored(Kind::Account, "a").await);
    // Applied without it: kept. Shown and given back: kept. The same: kept.
    bench.apply("account: {name: a, note: x}").await.unwrap();
    assert_eq!(hash(bench.stored(Kind::Account, "a").await), first);
    bench.change(Kind::Account, "a", json!({"password_hash": "***"})).await.unwrap();
    bench.change(Kind::Account, "a", json!({"password": "number one"})).await.unwrap();
    assert_eq!(hash(bench.stored(Kind::Account, "a").await), first);
    assert_eq!(bench.events().await.len(), 2, "two of four changed something");
    // Another one, and none.
    bench.change(Kind::Account, "a", json!({"password": "number two"})).await.unwrap();
    let second = hash(bench.stored(Kind::Account, "a").await);
    assert!(password::verify(&Secret::new("number two"), second.as_str().unwrap()).unwrap());
    bench.change(Kind::Account, "a", json!({"password": null})).await.unwrap();
    assert_eq!(hash(bench.stored(Kind::Account, "a").await), Value::Null);
    for (patch, says) in [
        (json!({"password": ""}), "cannot be empty"),
        (json!({"password": "x", "password_hash": first}), "not both"),
        (json!({"password_hash": "***"}), "none is stored"),
        (json!({"password_hash": "plain"}), "password_hash: "),
        (json!({"password": 31337}), "must be one text"),
    ] {
        let error = bench.change(Kind::Account, "a", patch).await.unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("31337"), "{error}");
    }
}

/// Accounts `p0`, `p1` and so on, each with a password of its own.
fn people(passwords: &[&str]) -> String {
    let account = |(at, password): (usize, &&str)| {
        format!("account: {{name: p{at}, password: {password}}}\n")
    };
    passwords.iter().enumerate().map(account).collect::<Vec<_>>().join("---\n")
}

fn actions(changes: &[PlannedChange]) -> Vec<Action> {
    changes.iter().map(|change| change.action).collect()
}

#[tokio::test]
async fn a_plan_hashes_nothing_and_apply_only_what_changed() {
    let bench = bench().await;
    let computed = || bench.admin.passwords().computed();
    let three = people(&["number one", "number two", "number three"]);
    let planned = bench.plan(document(&three), false).await;
    assert_eq!(actions(&planned), [Action::Create; 3]);
    let password = FieldChange { field: "password".into(), old: None, new: Some("***".into()) };
    assert!(planned.iter().all(|change| change.fields.contains(&password)), "{planned:?}");
    assert_eq!(computed(), 0, "a plan of new accounts");
    bench.apply(&three).await.unwrap();
    assert_eq!(computed(), 3);

    // The same again is known, planned or applied.
    assert_eq!(actions(&bench.plan(document(&three), false).await), [Action::Unchanged; 3]);
    assert_eq!(actions(&bench.apply(&three).await.unwrap()), [Action::Unchanged; 3]);
    assert_eq!(computed(), 3, "nothing has changed");

    // One of them changes: the plan does not know it, and apply compares that one alone.
    let other = people(&["number one", "number 2", "number three"]);
    let planned = bench.plan(document(&other), false).await;
    assert_eq!(actions(&planned), [Action::Unchanged, Action::Compare, Action::Unchanged]);
    assert_eq!(planned[1].fields[0].new, Some("*** (apply compares it)".into()));
    assert_eq!(computed(), 3, "a plan compares nothing");
    let applied = bench.apply(&other).await.unwrap();
    assert_eq!(actions(&applied), [Action::Unchanged, Action::Change, Action::Unchanged]);
    assert_eq!(computed(), 5, "compared once, hashed once");
    let more = other.replace("number 2", "number 3, note: x");
    let planned = bench.plan(document(&more), false).await;
    assert_eq!(planned[1].action, Action::Change, "the note differs whatever the password is");
    assert_eq!(planned[1].fields.len(), 2, "{planned:?}");

    // A process that has just begun compares each once.
    let fresh = bench.again();
    assert_eq!(actions(&fresh.plan(document(&other), false).await), [Action::Compare; 3]);
    assert_eq!(actions(&fresh.apply(&other).await.unwrap()), [Action::Unchanged; 3]);
    assert_eq!(fresh.admin.passwords().computed(), 3);
    assert_eq!(actions(&fresh.plan(document(&other), false).await), [Action::Unchanged; 3]);
    assert_eq!(fresh.admin.passwords().computed(), 3);
}

#[tokio::test]
async fn a_password_that_was_set_otherwise_is_no_longer_known() {
    let bench = bench().await;
    let one = people(&["number one"]);
    bench.apply(&one).await.unwrap();
    bench.change(Kind::Account, "p0", json!({"password": "number two"})).await.unwrap();
    assert_eq!(actions(&bench.plan(document(&one), false).await), [Action::Compare]);
    assert_eq!(actions(&bench.apply(&one).await.unwrap()), [Action::Change]);
    let account = bench.stored(Kind::Account, "p0").await;
    let hash = account["noun"]["password_hash"].as_str().unwrap();
    assert!(password::verify(&Secret::new("number one"), hash).unwrap());
}

#[tokio::test]
async fn passwords_are_hashed_when_everything_else_is_right() {
    let bench = bench().await;
    let text =
        people(&["number one", "number two"]) + "---\naccount: {name: p2, groups: [nobody]}\n";
    assert_eq!(bench.apply(&text).await.unwrap_err().code(), "EP0103");
    assert_eq!(bench.admin.passwords().computed(), 0);
}

#[tokio::test]
async fn a_patch_merges_and_is_checked_again() {
    let bench = bench().await;
    bench.apply(PARTNER).await.unwrap();
    let patch = json!({"quota": {"files": 5}, "rights": ["list", "read"]});
    bench.change(Kind::Mount, "acme-root", patch).await.unwrap();
    let patch = json!({"quota": {"size_bytes": 7}});
    let Response::Noun { noun, .. } = bench.change(Kind::Mount, "acme-root", patch).await.unwrap()
    else {
        panic!()
    };
    let AnyNoun::Mount(mount) = &noun.noun else { panic!() };
    assert_eq!(mount.quota.unwrap().files, Some(5));
    assert_eq!((mount.quota.unwrap().size_bytes, noun.revision), (Some(7), 3));
    for (patch, message) in [
        (
            json!({"quota": {"files": "many"}}),
            "mount 'acme-root': quota.files: invalid type: string \"many\", expected u64",
        ),
        (
            json!({"colour": 1}),
            "mount 'acme-root': colour: unknown field 'colour', expected one of 'name', 'account', \
             'path', 'endpoint', 'prefix', 'rights', 'quota', 'hold', \
             'sha256', 'options', 'mode_mask', 'trash', 'versions'",
        ),
        (
            json!({"endpoint": "gone"}),
            "mount 'acme-root': endpoint: there is no endpoint 'gone'; create it, or name another",
        ),
        (
            json!({"name": "other"}),
            "mount 'acme-root': name: a name never changes; create another one",
        ),
        (json!([]), "mount 'acme-root': patch: give an object of the fields to change"),
    ] {
        let error = bench.change(Kind::Mount, "acme-root", patch).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.class(), ProblemClass::Invalid);
    }
}

#[tokio::test]
async fn what_is_in_use_stays() {
    let bench = bench().await;
    bench.apply(PARTNER).await.unwrap();
    let revision = bench.revision().await;
    for (kind, name, users) in [
        (Kind::Endpoint, "files", "mount 'acme-root'"),
        (Kind::Endpoint, "bucket", "rule 'forward'"),
        (Kind::Account, "partners", "account 'acme'"),
        (Kind::Account, "acme", "mount 'acme-root', rule 'forward'"),
        (Kind::Policy, "slow", "account 'partners'"),
    ] {
        let error = bench.delete(kind, name).await.unwrap_err();
        let message = format!("{kind} '{name}' is in use by {users}; change or delete that first");
        assert_eq!(error.to_string(), message);
        assert_eq!((error.code(), error.class()), ("EP0107", ProblemClass::Conflict));
    }
    assert_eq!(bench.revision().await, revision);
    bench.delete(Kind::Mount, "acme-root").await.unwrap();
    bench.delete(Kind::Endpoint, "files").await.unwrap();
    let error = bench.delete(Kind::Endpoint, "files").await.unwrap_err();
    assert_eq!(error.class(), ProblemClass::NotFound);
    let error = bench.delete(Kind::Site, "main").await.unwrap_err();
    assert_eq!(error.code(), "EP0111");
    let error = bench.create(json!({"policy": {"name": "slow"}})).await.unwrap_err();
    assert_eq!(error.code(), "EP0106");
}

#[tokio::test]
async fn keys_that_never_log_in_are_refused_with_what_to_do() {
    let bench = bench().await;
    bench.create(json!({"account": {"name": "acme"}})).await.unwrap();
    let short = include_str!("../../auth/fixtures/rsa1024.pub").trim();
    let dsa = include_str!("../../auth/fixtures/dsa.pub").trim();
    let least = include_str!("../../auth/fixtures/rsa2048.pub").trim();
    let key = |public: &str, more: Value| {
        let mut body = json!({"name": "acme-key", "type": "ssh-user", "public": public});
        diff::merge(&mut body, &more);
        json!({ "key": body })
    };
    let of_acme = json!({"account": "acme"});
    for (public, more, words) in [
        (short, &of_acme, "an RSA key of 1024 bits is too weak to log in with, 2048 are the least"),
        (dsa, &of_acme, "DSA keys are too weak"),
        (short, &json!({"type": "ssh-user-ca"}), "an RSA key of 1024 bits"),
        ("ssh-ed25519 AAAA", &of_acme, "copy the whole line"),
    ] {
        let error = bench.create(key(public, more.clone())).await.unwrap_err();
        assert_eq!((error.code(), error.class()), ("EP0114", ProblemClass::Invalid), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        let text = format!("---\n{}", key(public, more.clone()));
        let error = bench.apply(&text).await.unwrap_err();
        assert!(error.to_string().starts_with("a.yaml:2:"), "{error}");
    }
    bench.create(key(least, of_acme.clone())).await.unwrap();
    let error = bench.change(Kind::Key, "acme-key", json!({"public": short})).await.unwrap_err();
    assert_eq!(error.code(), "EP0114");
    // A key that logs us in elsewhere is the other server's affair, until it is given an account.
    let ours = json!({"name": "ours", "private": "pem"});
    bench.create(key(short, ours)).await.unwrap();
    let error = bench.change(Kind::Key, "ours", of_acme).await.unwrap_err();
    assert_eq!(error.code(), "EP0114");
}

#[tokio::test]
async fn pruning_deletes_what_is_not_named_but_no_host_key() {
    let bench = bench().await;
    bench.apply(PARTNER).await.unwrap();
    let key = json!({"key": {"name": "sftp-ed25519", "type": "ssh-host",
        "public": "ssh-ed25519 AAAA", "private": "pem"}});
    bench.create(key).await.unwrap();
    let error = bench.delete(Kind::Key, "sftp-ed25519").await.unwrap_err();
    assert!(error.to_string().contains("in use by listener 'sftp'"), "{error}");
    let rest = "listener: {name: sftp, protocol: sftp, address: '127.0.0.1:2022'}";
    let changes = bench.plan(document(rest), true).await;
    let deleted: Vec<String> = changes
        .iter()
        .filter(|change| change.action == Action::Delete)
        .map(|change| format!("{} {}", change.kind, change.name))
        .collect();
    assert_eq!(
        deleted,
        [
            "rule forward",
            "mount acme-root",
            "account acme",
            "account partners",
            "endpoint bucket",
            "endpoint files",
            "policy slow"
        ]
    );
    let request = Request::Apply { documents: document(rest), prune: true };
    bench.ask(request).await.unwrap();
    assert_eq!(bench.export().await.len(), 3, "site, key, listener");
}

#[tokio::test]
async fn events_name_fields_and_are_sealed_into_the_journal() {
    let bench = bench().await;
    bench.apply(PARTNER).await.unwrap();
    bench
        .change(Kind::Account, "acme", json!({"password": "new password", "note": "n"}))
        .await
        .unwrap();
    let event = bench.events().await.pop().unwrap();
    let Fact::ConfigChanged { noun, name, action, by, fields } = &event.fact else { panic!() };
    assert_eq!((*noun, name.as_str(), action.as_str()), (Kind::Account, "acme", "changed"));
    assert_eq!(
        (by.as_str(), fields.as_slice()),
        ("cli:root", ["password", "note"].map(String::from).as_slice())
    );
    let last = bench.journal.reader(0).read_now(100).unwrap().pop().unwrap();
    assert_eq!(serde_json::from_slice::<Event>(&last.payload).unwrap(), event);
    assert!(bench.db.unsealed_events(&"n1".parse().unwrap()).await.unwrap().is_empty());

    // The process died between commit and seal.
    let mut lost = event.clone();
    lost.id = Env::simulated(99).new_id();
    let mut tx = bench.db.begin().await.unwrap();
    tx.insert_event(&lost).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(bench.admin.seal_pending().await.unwrap(), 1);
    assert_eq!(bench.admin.seal_pending().await.unwrap(), 0);
    let last = bench.journal.reader(0).read_now(100).unwrap().pop().unwrap();
    assert_eq!(serde_json::from_slice::<Event>(&last.payload).unwrap(), lost);
}

#[tokio::test]
async fn changes_at_the_same_time_do_not_undo_each_other() {
    let bench = std::sync::Arc::new(bench().await);
    bench.create(json!({"account": {"name": "a"}})).await.unwrap();
    let mut group = tokio::task::JoinSet::new();
    for number in 0..8 {
        let bench = bench.clone();
        group.spawn(async move {
            let name = format!("p{number}");
            bench.create(json!({"policy": {"name": name}})).await.unwrap();
        });
    }
    group.join_all().await;
    assert_eq!(bench.events().await.len(), 9);
    let fields =
        ["sessions", "idle_seconds", "address_failures", "account_failures", "partial_days"];
    let mut group = tokio::task::JoinSet::new();
    for field in fields {
        let bench = bench.clone();
        group.spawn(async move {
            bench.change(Kind::Policy, "p0", json!({field: 5})).await.unwrap();
        });
    }
    group.join_all().await;
    let name = "p0".parse().unwrap();
    let answer = bench.ask(Request::Show { kind: Kind::Policy, name }).await.unwrap();
    let policy = serde_json::to_value(&answer).unwrap()["noun"]["noun"]["policy"].clone();
    assert!(fields.iter().all(|field| policy[field] == 5), "{policy}");
}

/// Blocks of `## what is said` and the bad document.
const BAD: &str = include_str!("../fixtures/bad_documents.txt");

#[tokio::test]
async fn bad_documents_are_refused_whole_with_the_place() {
    let bench = bench().await;
    let revision = bench.revision().await;
    let blocks: Vec<&str> = BAD.split("## ").filter(|block| !block.is_empty()).collect();
    assert!(blocks.len() >= 24);
    for block in blocks {
        let (message, text) = block.split_once('\n').unwrap();
        // Good nouns before and after the bad one must not be kept.
        let text = format!("policy: {{name: good}}\n---\n{text}");
        let error = bench.apply(&text).await.err();
        let said =
            error.map_or_else(|| "taken".to_owned(), |error| format!("{} {error}", error.code()));
        let same = match message.strip_suffix('…') {
            Some(beginning) => said.starts_with(beginning),
            None => said == message,
        };
        assert!(same, "{text}\nshould say: {message}\nsays:       {said}");
    }
    assert_eq!(bench.revision().await, revision, "nothing is half applied");
    assert!(bench.events().await.is_empty());
}

#[tokio::test]
async fn a_host_name_is_of_one_site_and_sites_are_of_main() {
    let bench = bench().await;
    let site = |name: &str, hosts: Value| json!({"site": {"name": name, "hosts": hosts}});
    bench.create(site("north", json!(["a.example", "B.example"]))).await.unwrap();
    let twice = bench.create(site("south", json!(["c.example", "b.example"]))).await.unwrap_err();
    assert!(twice.to_string().contains("'north'"), "{twice}");
    bench.create(site("south", json!(["c.example"]))).await.unwrap();
    let taken = bench.change(Kind::Site, "south", json!({"hosts": ["A.Example"]})).await;
    assert!(taken.is_err());
    let own = bench.change(Kind::Site, "north", json!({"hosts": ["a.example", "d.example"]})).await;
    own.unwrap();
    let north = bench.admin.at_site(actor(), Some(&"north".parse().unwrap())).await;
    let north = north.unwrap();
    assert_ne!(north.site, SiteId::MAIN);
    let make = |noun: Value| Request::Create { noun: serde_json::from_value(noun).unwrap() };
    let inner = bench.admin.handle(&north, make(site("inner", json!([])))).await.unwrap_err();
    assert!(inner.to_string().contains("'main'"), "{inner}");
    let account = json!({"account": {"name": "acme"}});
    bench.admin.handle(&north, make(account.clone())).await.unwrap();
    bench.create(account).await.unwrap();
    // Whoever is of another site than main stays there.
    let at = |name: &str| Some(name.parse::<Name>().unwrap());
    assert_eq!(bench.admin.at_site(north.clone(), at("north").as_ref()).await.unwrap(), north);
    for other in ["main", "south"] {
        let error = bench.admin.at_site(north.clone(), at(other).as_ref()).await.unwrap_err();
        assert!(matches!(error, AdminError::NotFound { .. }), "{error}");
    }
    let nobody = Some("nowhere".parse().unwrap());
    assert!(bench.admin.at_site(actor(), nobody.as_ref()).await.is_err());
}
