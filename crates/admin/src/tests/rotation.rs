//! Another master key: every kind of secret of every site, nodes that live, damage.

use entrepot_db::{ListenerPlace, NodeIdentity, NodeKey};
use entrepot_nouns::{Account, Key, NodeId};

use super::*;

const SECRETS: &str = "\
key:
  name: backup
  type: ssh-user
  public: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7H7mLZo2pXvKwbNKmQGgYrtmzdtCdYBqBNvgSYW2hG
  private: the private half
---
account:
  name: acme
  totp: GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ
---
endpoint:
  name: partner
  target:
    object: {bucket: inbox, region: eu-central-1, access_key_id: AKIA, secret_key: opensesame}
";

/// How many secrets of the installation open under a key.
async fn opened(bench: &Bench, master: &MasterKey) -> usize {
    let mut count = 0;
    for site in bench.db.sites().await.unwrap() {
        let (id, site) = (SiteId(site.id), site.noun.name);
        for key in bench.db.list::<Key>(id).await.unwrap() {
            let context = SealingContext::private_key(&site, &key.noun.name);
            let sealed = key.noun.private_sealed;
            count += usize::from(sealed.is_some_and(|it| master.open(&context, &it).is_ok()));
        }
        for account in bench.db.list::<Account>(id).await.unwrap() {
            let context = SealingContext::code_generator(&site, &account.noun.name);
            let sealed = account.noun.totp_sealed;
            count += usize::from(sealed.is_some_and(|it| master.open(&context, &it).is_ok()));
        }
        for mut endpoint in bench.db.list::<Endpoint>(id).await.unwrap() {
            let name = endpoint.noun.name.clone();
            let Some(secret) = endpoint.noun.target.secret() else { continue };
            let context = SealingContext::endpoint(&site, &name, &secret);
            let sealed = secret.sealed.clone();
            count += usize::from(sealed.is_some_and(|it| master.open(&context, &it).is_ok()));
        }
    }
    count
}

async fn with_secrets() -> Bench {
    let master = MasterKey::from_bytes(&[7; 32]);
    let bench = Bench { master: master.clone(), ..bench_with(master).await };
    bench.create(json!({"site": {"name": "north"}})).await.unwrap();
    for site in ["main", "north"] {
        let at = bench.admin.at_site(actor(), Some(&name(site))).await.unwrap();
        let request = Request::Apply { documents: document(SECRETS), prune: false };
        bench.admin.handle(&at, request).await.unwrap();
    }
    bench
}

fn node_key(master: &MasterKey, node: &str, id: NodeId) -> NodeKey {
    let context = SealingContext::node_key(&name("main"), &name(node));
    let secret = Secret::new([5; 32]);
    let private_sealed = master.seal(&Env::simulated(9), &context, &secret).unwrap();
    NodeKey { public: format!("entrepot/{node}/{id}+0+key"), private_sealed }
}

#[tokio::test]
async fn every_secret_of_every_site_and_node_is_sealed_anew() {
    let bench = with_secrets().await;
    let id: NodeId = Env::simulated(8).new_id();
    bench.db.insert_node_key(id, &node_key(&bench.master, "gone", id)).await.unwrap();
    let new = MasterKey::from_bytes(&[8; 32]);
    let place = ListenerPlace { site: SiteId::MAIN, listener: name("web") };
    let of_authority = SealingContext::acme_account(&name("main"), &name("web"));
    let account = Secret::new("account");
    let sealed = bench.master.seal(&bench.env, &of_authority, &account).unwrap();
    bench.db.set_acme_account(&place, "https://ca.example/", &sealed).await.unwrap();
    assert_eq!((opened(&bench, &bench.master).await, opened(&bench, &new).await), (6, 0));
    assert_eq!(bench.admin.rotate_secrets(&actor(), &new).await.unwrap(), 8);
    let sealed = bench.db.acme_account(&place, "https://ca.example/").await.unwrap().unwrap();
    assert_eq!(new.open(&of_authority, &sealed).unwrap(), account);
    assert_eq!((opened(&bench, &bench.master).await, opened(&bench, &new).await), (0, 6));
    let key = bench.db.node_key(id).await.unwrap().unwrap();
    let context = SealingContext::node_key(&name("main"), &name("gone"));
    assert_eq!(new.open(&context, &key.private_sealed).unwrap(), Secret::new([5; 32]));
    // The same once more, as behind a crash: nothing changes and nothing is recorded.
    let revision = bench.db.config_revision().await.unwrap();
    assert_eq!(bench.admin.rotate_secrets(&actor(), &new).await.unwrap(), 8);
    assert_eq!(bench.db.config_revision().await.unwrap(), revision);
    let filter = entrepot_db::EventFilter {
        kinds: vec!["secrets.rotated".to_owned()],
        limit: 10,
        ..entrepot_db::EventFilter::default()
    };
    let events = bench.db.events(SiteId::MAIN, &filter).await.unwrap();
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn a_living_node_or_a_foreign_secret_stops_a_rotation() {
    let bench = with_secrets().await;
    let new = MasterKey::from_bytes(&[8; 32]);
    let other = MasterKey::from_bytes(&[9; 32]);
    let id: NodeId = Env::simulated(8).new_id();
    bench.db.insert_node_key(id, &node_key(&other, "stray", id)).await.unwrap();
    let refused = bench.admin.rotate_secrets(&actor(), &new).await.unwrap_err();
    assert_eq!(refused.code(), "EP0909", "{refused}");
    let identity = NodeIdentity { id, name: name("second"), program: "1".to_owned() };
    let mut tx = bench.db.begin().await.unwrap();
    tx.join_node(&bench.db, &identity).await.unwrap();
    tx.commit().await.unwrap();
    bench.db.start_node(&identity, 0).await.unwrap();
    let refused = bench.admin.rotate_secrets(&actor(), &new).await.unwrap_err();
    assert!(refused.to_string().contains("'second'"), "{refused}");
    assert_eq!(opened(&bench, &bench.master).await, 6, "nothing was changed");
}
