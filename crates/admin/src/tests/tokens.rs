//! API tokens are made here, shown once, listed and revoked.

use std::time::Duration;

use entrepot_crypto::{BearerKind, bearer_token};
use entrepot_db::ApiTokenUse;
use entrepot_nouns::{Timestamp, TokenScope};

use super::*;

fn order(account: &str, name: &str) -> TokenOrder {
    TokenOrder {
        account: account.parse().unwrap(),
        name: Some(name.parse().unwrap()),
        scopes: vec![TokenScope::FilesRead, TokenScope::AdminRead],
        not_after: None,
        from: Vec::new(),
        note: "for the night".to_owned(),
    }
}

impl Bench {
    async fn make(&self, token: TokenOrder) -> Result<(ShownOnce, Value)> {
        match self.ask(Request::CreateToken { token }).await? {
            Response::Token { token, noun } => Ok((token, serde_json::to_value(noun).unwrap())),
            other => panic!("{other:?}"),
        }
    }

    async fn tokens(&self, account: Option<&str>) -> Vec<TokenRow> {
        let account = account.map(name);
        match self.ask(Request::Tokens { account }).await.unwrap() {
            Response::Tokens { tokens } => tokens,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_token_is_shown_once_and_its_hash_is_stored() {
    let bench = bench().await;
    bench.apply("account: {name: acme}").await.unwrap();
    let (token, noun) = bench.make(order("acme", "nightly")).await.unwrap();
    let secret = Secret::new(token.expose());
    let hash = bearer_token::hash(BearerKind::Api, &secret).unwrap();
    assert_eq!(noun["noun"]["key"]["public"], format!("blake3:{hash}"));
    assert_eq!(noun["noun"]["key"]["scopes"], json!(["files:read", "admin:read"]));
    let found = bench.db.account_of_token(SiteId::MAIN, &hash.to_string()).await.unwrap();
    assert_eq!(found, Some(name("acme")));
    let mut said = format!("{token:?}");
    for document in bench.export().await {
        said.push_str(&document.text);
    }
    for event in bench.events().await {
        said.push_str(&serde_json::to_string(&event).unwrap());
    }
    assert!(said.contains("nightly") && said.contains(&hash.to_string()), "{said}");
    assert!(!said.contains(&token.expose()[4..20]), "{said}");
    // What was exported can be applied: the token is the same.
    let exported = bench.export().await;
    let plan = bench.plan(exported, false).await;
    assert!(plan.iter().all(|change| change.action == Action::Unchanged), "{plan:?}");
}

#[tokio::test]
async fn a_token_ends_as_asked_for_or_as_the_policy_of_its_account_says() {
    let bench = bench().await;
    let nouns = "policy: {name: short, api_token_days: 7}\n---\n\
                 account: {name: partners, type: group, policy: short}\n---\n\
                 account: {name: acme, groups: [partners]}\n---\n\
                 account: {name: anna}\n";
    bench.apply(nouns).await.unwrap();
    let days = |count: u64| bench.env.now().plus(Duration::from_secs(count * 86_400));
    let at = async |bench: &Bench, token: TokenOrder| {
        bench.make(token).await.map(|(_, noun)| {
            noun["noun"]["key"]["not_after"].as_str().unwrap().parse::<Timestamp>().unwrap()
        })
    };
    assert_eq!(at(&bench, order("anna", "a")).await.unwrap(), days(90));
    assert_eq!(at(&bench, order("acme", "b")).await.unwrap(), days(7), "the policy of its group");
    let asked = TokenOrder { not_after: Some(days(1)), ..order("acme", "c") };
    assert_eq!(at(&bench, asked).await.unwrap(), days(1));
    let past = TokenOrder { not_after: Some(bench.env.now()), ..order("acme", "d") };
    assert_eq!(at(&bench, past).await.unwrap_err().code(), "EP0102");
    let nobody = at(&bench, order("acmee", "e")).await.unwrap_err();
    assert_eq!(nobody.code(), "EP0105");
    assert!(nobody.to_string().contains("acme"), "{nobody}");
    let group = at(&bench, order("partners", "f")).await.unwrap_err();
    assert!(group.to_string().contains("is a group"), "{group}");
    let taken = at(&bench, order("anna", "a")).await.unwrap_err();
    assert_eq!(taken.code(), "EP0106", "{taken}");
}

#[tokio::test]
async fn the_list_says_whose_tokens_are_used_and_a_revoked_one_stays_in_it() {
    let bench = bench().await;
    bench.apply("account: {name: acme}\n---\naccount: {name: anna}\n").await.unwrap();
    let (token, _) = bench.make(order("acme", "a")).await.unwrap();
    bench.make(order("anna", "b")).await.unwrap();
    let made_up = TokenOrder { name: None, ..order("anna", "x") };
    bench.make(made_up).await.unwrap();
    bench.apply("key: {name: k, type: ssh-user, public: 'ssh-ed25519 A'}").await.unwrap();
    let hash = bearer_token::hash(BearerKind::Api, &Secret::new(token.expose())).unwrap();
    let used = ApiTokenUse {
        site: SiteId::MAIN,
        hash: hash.to_string(),
        at: Timestamp::from_seconds(7),
        address: "192.0.2.7".to_owned(),
    };
    bench.db.note_token_uses(&[used]).await.unwrap();
    assert_eq!(bench.tokens(None).await.len(), 3, "the key of SSH is none");
    assert_eq!(bench.tokens(Some("anna")).await.len(), 2);
    let of_acme = bench.tokens(Some("acme")).await;
    assert_eq!(of_acme[0].state, TokenState::Active);
    assert_eq!(of_acme[0].used_at, Some(Timestamp::from_seconds(7)));
    assert_eq!(of_acme[0].used_from.as_deref(), Some("192.0.2.7"));

    bench.ask(Request::RevokeToken { name: name("a") }).await.unwrap();
    assert_eq!(bench.tokens(Some("acme")).await[0].state, TokenState::Revoked);
    assert!(bench.tokens(Some("acme")).await[0].used_at.is_some());
    let wrong = bench.ask(Request::RevokeToken { name: name("k") }).await.unwrap_err();
    assert_eq!(wrong.code(), "EP0111", "{wrong}");
    let nothing = bench.ask(Request::RevokeToken { name: name("zzz") }).await.unwrap_err();
    assert_eq!(nothing.code(), "EP0105", "{nothing}");
    bench.env.advance(Duration::from_secs(91 * 86_400));
    assert_eq!(bench.tokens(Some("anna")).await[0].state, TokenState::Expired);
}

#[tokio::test]
async fn an_account_has_so_many_tokens_and_no_more() {
    let bench = bench().await;
    bench.apply("account: {name: acme}").await.unwrap();
    for at in 0..crate::limits::TOKENS_OF_ACCOUNT {
        bench.make(order("acme", &format!("t{at}"))).await.unwrap();
    }
    let error = bench.make(order("acme", "one-more")).await.unwrap_err();
    assert_eq!(error.code(), "EP0111", "{error}");
}
