//! Signing in by a provider of OpenID Connect, by links of the pages that offer it.

use entrepot_admin::Request;
use entrepot_nouns::{Kind, SiteId};
use entrepot_world::name;
use entrepot_world::provider::{CLIENT, CLIENT_SECRET, Provider, Returned};
use serde_json::{Value, json};

use super::browsers::Browser;
use super::client::Answer;
use super::fixture::Node;

async fn change(node: &Node, kind: Kind, called: &str, patch: Value) {
    let name = name(called);
    node.ask(SiteId::MAIN, Request::Change { kind, name, patch, if_match: Vec::new() }).await;
}

/// A node whose site trusts the provider, and whose account `anna` signs in by it alone.
async fn start() -> (Node, Provider) {
    let node = Node::start_tls().await;
    let provider = Provider::start(&node.world.env);
    let corp = json!({
        "label": "Corp <b>",
        "issuer": provider.issuer,
        "client_id": CLIENT,
        "client_secret": CLIENT_SECRET,
    });
    change(&node, Kind::Site, "main", json!({"oidc": {"corp": corp}})).await;
    change(&node, Kind::Account, "anna", json!({"login": [["oidc"]]})).await;
    let claims = json!({"sub": "7", "preferred_username": "anna"});
    provider.says().claims = claims.as_object().unwrap().clone();
    (node, provider)
}

/// Follows a link to the provider, where the person agrees.
async fn lead(browser: &mut Browser, provider: &Provider, link: &str) -> Returned {
    let before = browser.cookie.clone();
    let answer = browser.get(link).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let cookie = answer.field("set-cookie");
    assert!(cookie.starts_with("__Host-entrepot-oidc=") && cookie.contains("Max-Age=600"));
    browser.cookie = [before, browser.cookie.clone()].join("; ");
    browser.cookie = browser.cookie.trim_start_matches("; ").to_owned();
    provider.agree(answer.field("location"))
}

async fn back(browser: &mut Browser, came: &Returned, issuer: &str) -> Answer {
    assert_eq!(came.redirect, "https://localhost/sign-in/oidc/corp/callback");
    let path = came.redirect.trim_start_matches("https://localhost");
    let Returned { state, code, .. } = came;
    browser.get(&format!("{path}?code={code}&state={state}&iss={issuer}")).await
}

#[tokio::test]
async fn a_provider_signs_in_and_proves_without_a_script() {
    let (node, provider) = start().await;
    let mut browser = Browser::new(node.connect_tls().await);
    let page = browser.get("/sign-in?to=/account").await;
    let link = "/sign-in/oidc/corp?to=%2Faccount";
    let text = page.text();
    assert!(text.contains(&format!("href=\"{link}\">Sign in with Corp &lt;b&gt;</a>")), "{text}");
    let came = lead(&mut browser, &provider, link).await;
    let answer = back(&mut browser, &came, &provider.issuer).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/account"), "{answer:?}");
    assert!(browser.cookie.starts_with("__Host-entrepot=eps_"), "{}", browser.cookie);
    assert_eq!(browser.get("/account").await.status, 200);
    let listed = node.world.gate.sign_ins(SiteId::MAIN, Some(&name("anna"))).await.unwrap();
    assert_eq!(listed[0].proof, "oidc corp 7");

    let page = browser.get("/prove?to=/account").await;
    assert!(page.text().contains("href=\"/prove/oidc/corp?to=%2Faccount\""), "{}", page.text());
    let asked_at = node.world.env.now().seconds();
    provider.says().claims.insert("auth_time".to_owned(), asked_at.into());
    let came = lead(&mut browser, &provider, "/prove/oidc/corp?to=/account").await;
    let answer = back(&mut browser, &came, &provider.issuer).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/account"), "{answer:?}");
}

#[tokio::test]
async fn what_goes_wrong_at_a_provider_is_a_page_with_a_code() {
    let (node, provider) = start().await;
    let mut browser = Browser::new(node.connect_tls().await);
    let unknown = browser.get("/sign-in/oidc/nobody").await;
    assert!(unknown.status == 404 && unknown.text().contains("EP1023"), "{unknown:?}");
    let link = "/sign-in/oidc/corp?to=https://evil.example/";
    let came = lead(&mut browser, &provider, link).await;
    let cookie = std::mem::take(&mut browser.cookie);
    let bare = back(&mut browser, &came, &provider.issuer).await;
    assert!(bare.status == 400 && bare.text().contains("EP1025"), "{bare:?}");
    browser.cookie = cookie;
    let path = "/sign-in/oidc/corp/callback";
    let declined = format!("{path}?state={}&error=%3Cscript%3E", came.state);
    let declined = browser.get(&declined).await;
    assert!(declined.status == 403 && declined.text().contains("EP1026"), "{declined:?}");
    assert!(!declined.text().contains("<script"), "{}", declined.text());
    provider.says().claims.insert("preferred_username".to_owned(), "nobody".into());
    let refused = back(&mut browser, &came, "").await;
    assert!(refused.status == 403 && refused.text().contains("EP1028"), "{refused:?}");

    provider.says().claims.insert("preferred_username".to_owned(), "anna".into());
    let came = lead(&mut browser, &provider, link).await;
    browser.cookie = browser.cookie.rsplit("; ").next().unwrap().to_owned();
    let answer = back(&mut browser, &came, "").await;
    assert_eq!((answer.status, answer.field("location")), (303, "/files/"), "{answer:?}");
}
