//! Recovery codes are shown once and void when the generator is another one.

use entrepot_crypto::recovery_code;
use entrepot_nouns::{Account, AccountId};

use super::*;

const GENERATOR: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

impl Bench {
    async fn recovery_codes(&self, account: &str) -> Result<Vec<ShownOnce>> {
        match self.ask(Request::MakeRecoveryCodes { account: name(account) }).await? {
            Response::RecoveryCodes { codes } => Ok(codes),
            other => panic!("{other:?}"),
        }
    }

    async fn left(&self, account: AccountId) -> u64 {
        self.db.recovery_codes_left(account).await.unwrap()
    }
}

#[tokio::test]
async fn ten_codes_are_shown_once_and_only_their_hashes_are_stored() {
    let bench = bench().await;
    bench.apply("account: {name: anna}").await.unwrap();
    assert_eq!(bench.recovery_codes("anna").await.unwrap_err().code(), "EP0111", "no generator");
    assert_eq!(bench.recovery_codes("annna").await.unwrap_err().code(), "EP0105");
    bench.change(Kind::Account, "anna", json!({"totp": GENERATOR})).await.unwrap();
    let codes = bench.recovery_codes("anna").await.unwrap();
    assert_eq!(codes.len(), 10);
    let stored = bench.db.find::<Account>(SiteId::MAIN, &name("anna")).await.unwrap().unwrap();
    let id = AccountId(stored.id);
    assert_eq!(bench.left(id).await, 10);
    let mut said = format!("{codes:?}");
    for event in bench.events().await {
        said.push_str(&serde_json::to_string(&event).unwrap());
    }
    assert!(said.contains("recovery-codes.made"), "{said}");
    for code in &codes {
        assert!(!said.contains(code.expose()), "{said}");
        let hash = recovery_code::hash(id, &Secret::new(code.expose())).unwrap();
        assert!(bench.db.take_recovery_code(id, &hash).await.unwrap());
        assert!(!bench.db.take_recovery_code(id, &hash).await.unwrap(), "it was used");
    }
}

#[tokio::test]
async fn another_generator_new_codes_and_the_end_of_the_account_void_them() {
    let bench = bench().await;
    let text = format!("account: {{name: anna, totp: {GENERATOR}}}");
    bench.apply(&text).await.unwrap();
    let stored = bench.db.find::<Account>(SiteId::MAIN, &name("anna")).await.unwrap().unwrap();
    let id = AccountId(stored.id);
    let first = bench.recovery_codes("anna").await.unwrap();
    bench.recovery_codes("anna").await.unwrap();
    assert_eq!(bench.left(id).await, 10, "the new ones replace the old");
    let hash = recovery_code::hash(id, &Secret::new(first[0].expose())).unwrap();
    assert!(!bench.db.take_recovery_code(id, &hash).await.unwrap());
    bench.apply(&text).await.unwrap();
    bench.change(Kind::Account, "anna", json!({"note": "x"})).await.unwrap();
    assert_eq!(bench.left(id).await, 10, "the generator is the same");
    let other = "MFRGGZDFMZTWQ2LKMFRGGZDFMZTWQ2LK";
    bench.change(Kind::Account, "anna", json!({"totp": other})).await.unwrap();
    assert_eq!(bench.left(id).await, 0, "another generator");
    bench.recovery_codes("anna").await.unwrap();
    bench.change(Kind::Account, "anna", json!({"totp": null})).await.unwrap();
    assert_eq!(bench.left(id).await, 0, "no generator");
    bench.change(Kind::Account, "anna", json!({"totp": other})).await.unwrap();
    bench.recovery_codes("anna").await.unwrap();
    bench.delete(Kind::Account, "anna").await.unwrap();
    assert_eq!(bench.left(id).await, 0, "no account");
}
