//! Accounts have passkeys of their own, and keep one way to sign in.

use entrepot_auth::{Directory, Principal};

use super::*;
use crate::own_passkeys::OwnPasskeyOrder;

fn order(credential: &str) -> OwnPasskeyOrder {
    let public = format!("webauthn-es256 files.example {credential} MFkw").parse().unwrap();
    OwnPasskeyOrder { public, note: "phone".to_owned() }
}

async fn owner(bench: &Bench, account: &str) -> Principal {
    let directory = Directory::new(bench.db.clone(), bench.env.clone(), bench.master.clone());
    let found = directory.resolve(SiteId::MAIN, &name(account)).await.unwrap().unwrap();
    (*found).clone()
}

#[tokio::test]
async fn an_account_adds_and_removes_its_own_passkeys_but_not_its_last_way_in() {
    let bench = bench().await;
    bench.apply("account: {name: anna}").await.unwrap();
    bench.apply("account: {name: acme, password: long-enough-1}").await.unwrap();
    let (anna, acme) = (owner(&bench, "anna").await, owner(&bench, "acme").await);
    bench.admin.add_own_passkey(&anna, order("AAAA")).await.unwrap();
    let same = bench.admin.add_own_passkey(&acme, order("AAAA")).await;
    assert!(same.is_err(), "one authenticator, one account");
    bench.admin.add_own_passkey(&acme, order("BBBB")).await.unwrap();
    let of_anna = bench.admin.own_passkeys(&anna).await.unwrap();
    assert_eq!((of_anna.len(), of_anna[0].note.as_str()), (1, "phone"));
    let key = of_anna[0].name.clone();
    let others = bench.admin.remove_own_passkey(&acme, key.clone()).await.unwrap_err();
    assert_eq!(others.code(), "EP0111");
    let last = bench.admin.remove_own_passkey(&anna, key.clone()).await.unwrap_err();
    assert!(last.to_string().contains("last way"), "{last}");
    bench.admin.add_own_passkey(&anna, order("CCCC")).await.unwrap();
    bench.admin.remove_own_passkey(&anna, key).await.unwrap();
    let of_acme = bench.admin.own_passkeys(&acme).await.unwrap();
    bench.admin.remove_own_passkey(&acme, of_acme[0].name.clone()).await.unwrap();
    let not_one = bench.ask(Request::RemovePasskey { name: name("zzz") }).await.unwrap_err();
    assert_eq!(not_one.code(), "EP0105");
    for at in 0..20 {
        bench.admin.add_own_passkey(&acme, order(&format!("D{at}"))).await.unwrap();
    }
    let full = bench.admin.add_own_passkey(&acme, order("E")).await.unwrap_err();
    assert_eq!(full.code(), "EP0111");
}
