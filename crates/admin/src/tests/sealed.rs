//! Sealed secrets of sites: exported, applied elsewhere, moved.

use entrepot_nouns::{Key, Stored};

use super::*;

/// A key and an account with a secret each.
const OF_A_SITE: &str = "\
key:
  name: backup
  type: ssh-user
  public: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7H7mLZo2pXvKwbNKmQGgYrtmzdtCdYBqBNvgSYW2hG
  private: the private half
---
account:
  name: acme
  totp: GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ
";

/// An installation with sites of these names, made in this order, under one master key for all.
async fn with_sites(names: &[&str]) -> Bench {
    let master = MasterKey::from_bytes(&[7; 32]);
    let bench = Bench { master: master.clone(), ..bench_with(master).await };
    for name in names {
        bench.create(json!({"site": {"name": name}})).await.unwrap();
    }
    bench
}

async fn at(bench: &Bench, site: &str) -> Actor {
    bench.admin.at_site(actor(), Some(&name(site))).await.unwrap()
}

async fn apply(bench: &Bench, site: &str, documents: Vec<Document>) -> Result<Response> {
    let request = Request::Apply { documents, prune: false };
    bench.admin.handle(&at(bench, site).await, request).await
}

async fn exported(bench: &Bench, site: &str) -> Vec<Document> {
    let request = Request::Export { kinds: vec![Kind::Key, Kind::Account] };
    match bench.admin.handle(&at(bench, site).await, request).await.unwrap() {
        Response::Documents { documents } => documents,
        other => panic!("{other:?}"),
    }
}

async fn stored_key(bench: &Bench, site: &str) -> Stored<Key> {
    let site = at(bench, site).await.site;
    bench.db.find::<Key>(site, &name("backup")).await.unwrap().unwrap()
}

fn opened(bench: &Bench, site: &str, key: &Key) -> Option<Secret> {
    let context = SealingContext::private_key(&name(site), &key.name);
    bench.master.open(&context, key.private_sealed.as_ref().unwrap()).ok()
}

#[tokio::test]
async fn an_export_of_a_site_opens_where_the_site_was_made_anew() {
    let one = with_sites(&["north"]).await;
    apply(&one, "north", document(OF_A_SITE)).await.unwrap();
    let documents = exported(&one, "north").await;
    let two = with_sites(&["south", "north"]).await;
    assert_ne!(at(&one, "north").await.site, at(&two, "north").await.site, "another id");
    apply(&two, "north", documents.clone()).await.unwrap();
    assert_eq!(exported(&two, "north").await, documents);
    let key = stored_key(&two, "north").await.noun;
    assert_eq!(opened(&two, "north", &key), Some(Secret::new("the private half")));
}

#[tokio::test]
async fn a_sealed_secret_of_one_site_does_not_open_in_another() {
    let bench = with_sites(&["north", "south"]).await;
    apply(&bench, "north", document(OF_A_SITE)).await.unwrap();
    let revision = bench.revision().await;
    // By a document: refused, and nothing is applied.
    for site in ["south", "main"] {
        for moved in exported(&bench, "north").await {
            let error = apply(&bench, site, vec![moved]).await.unwrap_err();
            assert_eq!(error.code(), "EP0102");
            let text = error.to_string();
            assert!(text.contains(&format!("of the site '{site}'")), "{text}");
            assert!(text.contains("sealed for another noun or site"), "{text}");
        }
    }
    assert_eq!(bench.revision().await, revision);
    // By a row that was written past the administration.
    let moved = stored_key(&bench, "north").await.noun;
    let south = at(&bench, "south").await.site;
    let id: SiteId = Env::simulated(8).new_id();
    let mut tx = bench.db.begin().await.unwrap();
    tx.put(south, id.0, &moved, Env::simulated(8).now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(opened(&bench, "south", &stored_key(&bench, "south").await.noun), None);
    assert!(opened(&bench, "north", &moved).is_some());
}
