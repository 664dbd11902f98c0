//! Logins by a provider of OpenID Connect: whom it lets in, and what is refused.

use entrepot_crypto::SealingContext;
use entrepot_nouns::oidc::OidcIdentity;
use entrepot_nouns::{Fact, Site};
use entrepot_testbed::provider::{CLIENT, CLIENT_SECRET, Provider, Returned};
use serde_json::{Value, json};

use super::*;
use crate::limits::{OIDC_BEGUN_TIME, OIDC_KEYS_EVERY};
use crate::{
    Encryption, OidcLeading, OidcLogin, OidcPurpose, OidcRefusal, OidcReturn, OidcStart, PageOrigin,
};

const HOST: &str = "files.example";

fn page() -> PageOrigin {
    PageOrigin::new(HOST, None, Encryption::Here).unwrap()
}

/// A site that trusts a provider, with `anna`, whose login takes it.
struct Trusting {
    world: World,
    provider: Provider,
}

impl Trusting {
    async fn start() -> Trusting {
        let world = World::new().await;
        let provider = Provider::start(&world.env);
        let trusting = Trusting { world, provider };
        trusting.trust(json!({})).await;
        trusting.world.account("anna", |account| account.login = by_oidc()).await;
        trusting.world.mount("anna").await;
        trusting.says(json!({"sub": "248289", "preferred_username": "anna"}));
        trusting
    }

    /// The site trusts the provider, with these fields besides.
    async fn trust(&self, more: Value) {
        let secret = Secret::new(CLIENT_SECRET);
        let context = SealingContext::oidc_client(&name("main"), &name("corp"));
        let sealed = self.world.bed.master.seal(&self.world.env, &context, &secret).unwrap();
        let mut provider = json!({
            "issuer": self.provider.issuer,
            "client_id": CLIENT,
            "client_secret_sealed": sealed,
        });
        provider.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let site = json!({"name": "main", "hosts": [HOST], "oidc": {"corp": provider}});
        self.put_site(serde_json::from_value(site).unwrap()).await;
    }

    async fn put_site(&self, site: Site) {
        let mut tx = self.world.db.begin().await.unwrap();
        let id = SiteId::MAIN.0;
        tx.put(SiteId::MAIN, id, &site, self.world.env.now()).await.unwrap();
        tx.commit().await.unwrap();
        self.world.directory.refresh().await.unwrap();
    }

    fn says(&self, claims: Value) {
        self.provider.says().claims = claims.as_object().unwrap().clone();
    }

    async fn begin(&self, purpose: OidcPurpose) -> OidcLeading {
        let (page, to) = (&page(), "/files/a");
        let start = OidcStart { site: SiteId::MAIN, provider: "corp", page, purpose, to };
        self.world.gate.begin_oidc(&start).await.unwrap()
    }

    async fn back(&self, leading: &OidcLeading, came: &Returned) -> Result<OidcLogin, OidcRefusal> {
        self.back_with(leading, came, |_| {}).await
    }

    async fn back_with(
        &self,
        leading: &OidcLeading,
        came: &Returned,
        change: impl FnOnce(&mut OidcReturn<'_>),
    ) -> Result<OidcLogin, OidcRefusal> {
        let page = page();
        let mut back = OidcReturn {
            provider: "corp",
            page: &page,
            cookie: &leading.cookie,
            state: &came.state,
            code: &came.code,
            issuer: "",
            error: "",
        };
        change(&mut back);
        let login = self.world.attempt().oidc(&back).await;
        let _ = self.world.gate.unlock_address(SiteId::MAIN, "192.0.2.1".parse().unwrap(), "test");
        login
    }

    /// The whole way of a browser.
    async fn log_in(&self) -> Result<OidcLogin, OidcRefusal> {
        let leading = self.begin(OidcPurpose::SignIn).await;
        let came = self.provider.agree(&leading.url);
        self.back(&leading, &came).await
    }

    /// A login that is refused with this code and, in the audit log, for this reason.
    async fn refused(&self, code: &str, why: &str) {
        let login = self.log_in().await;
        self.is_refused(login, code, why).await;
    }

    async fn is_refused(&self, login: Result<OidcLogin, OidcRefusal>, code: &str, why: &str) {
        let Err(OidcRefusal { error, .. }) = login else { panic!("let in: {why}") };
        assert_eq!(error.code(), code, "{why}: {error}");
        let refused = |event: Event| match event.fact {
            Fact::LoginRefused { reason, .. } => Some(reason),
            _ => None,
        };
        let mut reasons = self.world.recorded().await.into_iter().filter_map(refused);
        let reason = reasons.next_back().unwrap_or_default();
        assert!(reason.contains("provider 'corp'") && reason.contains(why), "{why}: {reason}");
    }
}

fn by_oidc() -> Vec<Vec<AuthMethod>> {
    vec![vec![AuthMethod::Oidc]]
}

#[tokio::test]
async fn a_provider_signs_in_whose_login_takes_it_once_for_each_beginning() {
    let trusting = Trusting::start().await;
    let leading = trusting.begin(OidcPurpose::SignIn).await;
    assert!(leading.cookie.expose().len() < 1000, "longer than a cookie that is read");
    let came = trusting.provider.agree(&leading.url);
    assert_eq!(came.redirect, "https://files.example/sign-in/oidc/corp/callback");
    let login = trusting.back(&leading, &came).await.unwrap();
    assert_eq!((login.user.as_str(), login.to.as_str()), ("anna", "/files/a"));
    let Verdict::Granted(grant) = login.verdict else { panic!("more is asked for") };
    assert_eq!(grant.proof(), "oidc corp 248289");
    let again = trusting.back(&leading, &came).await;
    trusting.is_refused(again, "EP1025", "answered before").await;

    // The cookie of the browser stands for the login only as long as the provider is trusted.
    let world = &trusting.world;
    let opened = world.gate.open_sign_in(&grant, "Firefox").await.unwrap();
    let peer = world.attempt().peer.clone();
    assert!(world.gate.signed_in(&opened.cookie, peer.clone()).await.unwrap().is_some());
    let mut site: Site = serde_json::from_value(json!({"name": "main"})).unwrap();
    site.hosts = vec![HOST.parse().unwrap()];
    trusting.put_site(site).await;
    assert!(world.gate.signed_in(&opened.cookie, peer).await.unwrap().is_none());
}

#[tokio::test]
async fn what_is_not_of_this_browser_and_this_provider_is_refused() {
    let trusting = Trusting::start().await;
    let (one, other) =
        (trusting.begin(OidcPurpose::SignIn).await, trusting.begin(OidcPurpose::SignIn).await);
    let came = trusting.provider.agree(&one.url);
    let mixed = trusting.back(&other, &came).await;
    trusting.is_refused(mixed, "EP1025", "the state is another one").await;
    let mixed = trusting.back_with(&one, &came, |back| back.issuer = "https://evil.example").await;
    trusting.is_refused(mixed, "EP1027", "another issuer").await;
    let declined = trusting.back_with(&one, &came, |back| back.error = "access_denied").await;
    trusting.is_refused(declined, "EP1026", "access_denied").await;
    trusting.provider.spoil(&came.code);
    let stolen = trusting.back(&one, &came).await;
    trusting.is_refused(stolen, "EP1027", "invalid_grant").await;
    let nothing = OidcLeading { url: String::new(), cookie: Secret::new(b"") };
    let bare = trusting.back(&nothing, &came).await;
    assert_eq!(bare.unwrap_err().error.code(), "EP1025");
    let late = trusting.begin(OidcPurpose::SignIn).await;
    let came = trusting.provider.agree(&late.url);
    trusting.world.env.advance(OIDC_BEGUN_TIME);
    assert_eq!(trusting.back(&late, &came).await.unwrap_err().error.code(), "EP1025");
    let elsewhere = PageOrigin::new("evil.example", None, Encryption::Here).unwrap();
    for (provider, page, code) in [("corp", &elsewhere, "EP1029"), ("corpo", &page(), "EP1023")] {
        let purpose = OidcPurpose::SignIn;
        let start = OidcStart { site: SiteId::MAIN, provider, page, purpose, to: "" };
        assert_eq!(trusting.world.gate.begin_oidc(&start).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn tokens_that_prove_nothing_are_refused() {
    let trusting = Trusting::start().await;
    let anna = json!({"sub": "248289", "preferred_username": "anna"});
    for (change, why) in [
        (json!({"nonce": "another"}), "nonce"),
        (json!({"nonce": null}), "nonce"),
        (json!({"aud": "another"}), "audience"),
        (json!({"aud": [CLIENT, "another"]}), "audience"),
        (json!({"iss": "https://evil.example"}), "issuer"),
        (json!({"exp": 1}), "Expired"),
        (json!({"azp": "another"}), "given to 'another'"),
        (json!({"sub": null}), ""),
    ] {
        let mut claims = anna.clone();
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        trusting.says(claims);
        let code = if why.is_empty() { "EP1024" } else { "EP1027" };
        trusting.refused(code, why).await;
    }
    trusting.says(anna);
    for algorithm in ["none", "HS256", "ES384"] {
        trusting.provider.says().algorithm = algorithm;
        trusting.refused("EP1027", "").await;
    }
    trusting.provider.says().algorithm = "ES256";
    assert!(trusting.log_in().await.is_ok());
}

#[tokio::test]
async fn keys_are_read_anew_when_one_is_unknown_but_not_often() {
    let trusting = Trusting::start().await;
    assert!(trusting.log_in().await.is_ok());
    trusting.provider.take_other_key();
    trusting.refused("EP1027", "No matching key").await;
    assert_eq!(trusting.provider.says().keys_read, 1, "within a minute");
    trusting.world.env.advance(OIDC_KEYS_EVERY);
    trusting.refused("EP1027", "No matching key").await;
    trusting.provider.publish_key();
    trusting.refused("EP1027", "No matching key").await;
    assert_eq!(trusting.provider.says().keys_read, 2, "once a minute");
    trusting.world.env.advance(OIDC_KEYS_EVERY);
    assert!(trusting.log_in().await.is_ok());
    assert_eq!(trusting.provider.says().keys_read, 3);
}

#[tokio::test]
async fn nobody_becomes_an_account_that_does_not_take_it() {
    let trusting = Trusting::start().await;
    let world = &trusting.world;
    let named = |account: &str| json!({"sub": "248289", "preferred_username": account});
    world.account("bert", |_| {}).await;
    world
        .account("root", |account| {
            (account.account_type, account.login) = (AccountType::Admin, by_oidc());
        })
        .await;
    world.account("gone", |it| (it.enabled, it.login) = (false, by_oidc())).await;
    for (account, why) in [
        ("nobody", "there is none"),
        ("bert", "does not sign in by a provider"),
        ("root", "must name the subject"),
        ("gone", "disabled"),
        ("no name", "is no name of an account"),
    ] {
        trusting.says(named(account));
        trusting.refused("EP1028", why).await;
    }
    let own = |subject: &str| OidcIdentity { provider: name("corp"), subject: subject.to_owned() };
    world
        .account("root", |account| {
            (account.account_type, account.oidc) = (AccountType::Admin, vec![own("1")]);
        })
        .await;
    // The subject decides, whatever the claim says; and who has another one is not meant by it.
    trusting.says(json!({"sub": "1", "preferred_username": "anna"}));
    assert_eq!(trusting.log_in().await.unwrap().user, "root");
    world.account("anna", |it| (it.oidc, it.login) = (vec![own("2")], by_oidc())).await;
    trusting.says(named("anna"));
    trusting.refused("EP1028", "another person").await;
    assert!(!granted(&world.attempt().password("anna", &secret("anna")).await), "oidc alone");
}

#[tokio::test]
async fn a_site_narrows_whom_a_provider_lets_in() {
    let trusting = Trusting::start().await;
    trusting.trust(json!({"required": {"claim": "groups", "value": "staff"}})).await;
    trusting.refused("EP1028", "the claim 'groups'").await;
    trusting.trust(json!({"accounts": ["bert"]})).await;
    trusting.refused("EP1028", "may not let anybody in").await;
    trusting.trust(json!({"email_domains": ["example.com"], "claim": "email"})).await;
    let email = "anna@example.com";
    let mail = |verified: bool| json!({"sub": "9", "email": email, "email_verified": verified});
    trusting.world.account("anna@example.com", |account| account.login = by_oidc()).await;
    trusting.says(mail(false));
    trusting.refused("EP1028", "verified").await;
    trusting.says(mail(true));
    assert_eq!(trusting.log_in().await.unwrap().user, "anna@example.com");
}

#[tokio::test]
async fn to_prove_it_the_provider_asks_the_person_anew() {
    let trusting = Trusting::start().await;
    let leading = trusting.begin(OidcPurpose::Prove).await;
    assert!(leading.url.contains("max_age=0") && leading.url.contains("prompt=login"));
    let came = trusting.provider.agree(&leading.url);
    let login = trusting.back(&leading, &came).await;
    trusting.is_refused(login, "EP1027", "did not ask").await;
    let now = trusting.world.env.now().seconds();
    for (asked_at, is_taken) in [(now - 3600, false), (now, true)] {
        let claims = json!({"sub": "1", "preferred_username": "anna", "auth_time": asked_at});
        trusting.says(claims);
        let leading = trusting.begin(OidcPurpose::Prove).await;
        let came = trusting.provider.agree(&leading.url);
        assert_eq!(trusting.back(&leading, &came).await.is_ok(), is_taken, "{asked_at}");
    }
}

#[tokio::test]
async fn a_code_follows_where_the_account_asks_for_one() {
    let trusting = Trusting::start().await;
    let both = vec![vec![AuthMethod::Oidc, AuthMethod::Totp]];
    trusting.world.account("anna", |account| account.login = both).await;
    let login = trusting.log_in().await.unwrap();
    assert!(
        matches!(&login.verdict, Verdict::Partial { next } if *next == [AuthMethod::Totp]),
        "{login:?}"
    );
}
