//! Hashes of passwords that are made anew after a login.

use entrepot_auth::{Directory, Gate, GateOptions, Peer, Verdict};
use entrepot_nouns::{Account, Protocol};
use tokio_util::sync::CancellationToken;

use super::*;

/// What new hashes cost here.
const COST: HashCost = HashCost { memory_kib: 64, passes: 3, lanes: 1 };

fn attempt(gate: &Gate) -> entrepot_auth::Attempt {
    gate.attempt(Peer {
        site: SiteId::MAIN,
        home: SiteId::MAIN,
        protocol: Protocol::Sftp,
        encrypted: true,
        listener: name("sftp"),
        address: "192.0.2.1:999".parse().unwrap(),
        client: String::new(),
        algorithms: String::new(),
    })
}

async fn hash(bench: &Bench) -> String {
    let found = bench.db.find::<Account>(SiteId::MAIN, &name("a")).await.unwrap().unwrap();
    found.noun.password_hash.unwrap()
}

#[tokio::test]
async fn a_hash_that_costs_too_little_is_made_anew_after_a_login_and_no_session_ends() {
    let bench = bench().await;
    bench.create(json!({"account": {"name": "a", "password": "open sesame"}})).await.unwrap();
    let cheap = hash(&bench).await;
    let env = Env::simulated(7);
    let directory = Directory::new(bench.db.clone(), env.clone(), bench.master.clone());
    directory.refresh().await.unwrap();
    let recorder = Recorder::new(bench.journal.clone(), env.clone(), name("n1"));
    let gate = Gate::new(directory.clone(), recorder, GateOptions { cost: COST });
    let outdated = gate.outdated_passwords().unwrap();
    let given = Secret::new("open sesame");
    assert!(matches!(attempt(&gate).password("a", &wrong()).await, Verdict::Refused { .. }));
    let Verdict::Granted(grant) = attempt(&gate).password("a", &given).await else {
        panic!("refused")
    };
    let live = directory.enlist(&grant, env.new_id()).unwrap();

    let (admin, until) = (bench.admin.clone().with_hash_cost(COST), CancellationToken::new());
    let renewing = tokio::spawn({
        let until = until.clone();
        async move { admin.renew_hashes(outdated, until).await }
    });
    let renewed = async {
        while hash(&bench).await == cheap {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), renewed).await.unwrap();
    until.cancel();
    renewing.await.unwrap();

    let dear = hash(&bench).await;
    assert!(dear.contains("m=64,t=3,p=1"), "{dear}");
    assert!(password::verify(&given, &dear).unwrap());
    directory.refresh().await.unwrap();
    assert_eq!(live.end_reason(), None, "the password is the same");
    assert!(matches!(attempt(&gate).password("a", &given).await, Verdict::Granted(_)));
    let events = bench.events().await;
    let Fact::ConfigChanged { name, by, fields, .. } = &events.last().unwrap().fact else {
        panic!("{events:?}")
    };
    assert_eq!((name.as_str(), by.as_str()), ("a", "node:n1"));
    assert_eq!(fields, &["password"]);

    bench.change(Kind::Account, "a", json!({"password": "another one"})).await.unwrap();
    directory.refresh().await.unwrap();
    assert!(live.end_reason().is_some(), "another password ends it");
}

fn wrong() -> Secret {
    Secret::new("wrong")
}
