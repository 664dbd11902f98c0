//! Passkeys by the pages that offer them: added, used to sign in and to prove, removed.

use entrepot_admin::{Request, Response};
use entrepot_nouns::SiteId;
use entrepot_world::authenticator::{Authenticator, Said};
use entrepot_world::name;
use serde_json::Value;

use super::browsers::{Browser, hidden};
use super::client::Answer;
use super::fixture::Node;

/// The host that requests of tests name.
const HOST: &str = "localhost";

/// Asks for a challenge; gives what the script is told, and the cookie to answer with.
async fn ask(browser: &mut Browser, path: &str) -> (Value, String) {
    let csrf = format!("X-CSRF-Token: {}\r\n", browser.csrf);
    let answer = browser.post(path, &csrf, "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let (cookie, attributes) = answer.field("set-cookie").split_once(';').unwrap();
    assert!(attributes.contains("HttpOnly") && attributes.contains("Max-Age=300"), "{attributes}");
    (answer.json(), cookie.to_owned())
}

fn used(device: &Authenticator, said: &Said) -> String {
    let Said { client_data, authenticator_data, proof } = said;
    format!(
        "credential={}&client_data={client_data}&authenticator_data={authenticator_data}\
         &signature={proof}&to=%2Faccount",
        device.credential
    )
}

fn made(device: &Authenticator, said: &Said) -> String {
    let Said { client_data, authenticator_data, proof } = said;
    format!(
        "credential={}&client_data={client_data}&authenticator_data={authenticator_data}\
         &public_key={proof}&algorithm=-7&called=My+%3Ckey%3E",
        device.credential
    )
}

/// Sends a form with the challenge beside the cookie of the sign-in.
async fn send(browser: &mut Browser, path: &str, cookie: &str, form: &str) -> Answer {
    let before = browser.cookie.clone();
    browser.cookie = [before.as_str(), cookie].join("; ").trim_start_matches("; ").to_owned();
    let form = format!("csrf={}&{form}", browser.csrf);
    let answer = browser.send(path, &form).await;
    if answer.field("set-cookie").is_empty() {
        browser.cookie = before;
    }
    answer
}

#[tokio::test]
async fn a_passkey_is_added_signs_in_proves_and_is_removed() {
    let node = Node::start_tls().await;
    let mut browser = Browser::signed_in(node.connect_tls().await, "anna").await;
    let page = browser.get("/account").await;
    assert!(page.text().contains("data-passkey=\"/account/passkeys/begin\" hidden"), "{page:?}");
    let policy = page.field("content-security-policy");
    assert!(policy.contains("script-src 'nonce-") && policy.contains("connect-src 'self'"));
    let mut device = Authenticator::new(HOST);
    let (options, cookie) = ask(&mut browser, "/account/passkeys/begin").await;
    assert_eq!((&options["rp"]["id"], &options["user"]["name"]), (&HOST.into(), &"anna".into()));
    assert_eq!(options["authenticatorSelection"]["userVerification"], "required");
    let challenge = options["challenge"].as_str().unwrap();
    device.origin = "https://evil.example".to_owned();
    let form = made(&device, &device.made(challenge));
    let refused = send(&mut browser, "/account/passkeys", &cookie, &form).await;
    assert!(refused.status == 422 && refused.text().contains("EP1021"), "{refused:?}");
    device.origin = format!("https://{HOST}");
    let form = made(&device, &device.made(challenge));
    let added = send(&mut browser, "/account/passkeys", &cookie, &form).await;
    assert_eq!((added.status, added.field("location")), (303, "/account"), "{added:?}");
    let again = send(&mut browser, "/account/passkeys", &cookie, &form).await;
    assert_eq!(again.status, 422, "one challenge, one passkey");
    assert!(browser.get("/account").await.text().contains("My &lt;key&gt;"));
    let (options, _) = ask(&mut browser, "/account/passkeys/begin").await;
    assert_eq!(options["excludeCredentials"][0]["id"], device.credential);

    let mut other = Browser::new(node.connect_tls().await);
    let (options, cookie) = ask(&mut other, "/sign-in/passkey/begin").await;
    assert_eq!((&options["rpId"], &options["allowCredentials"]), (&HOST.into(), &Value::Null));
    let form = used(&device, &device.used(options["challenge"].as_str().unwrap()));
    let bare = other.send("/sign-in/passkey", &form).await;
    assert_eq!(bare.status, 401, "without the cookie of the challenge");
    let answer = send(&mut other, "/sign-in/passkey", &cookie, &form).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/account"), "{answer:?}");
    let listed = node.world.gate.sign_ins(SiteId::MAIN, Some(&name("anna"))).await.unwrap();
    assert!(listed.iter().any(|it| it.proof.starts_with("passkey passkey-")), "{listed:?}");
    let page = other.get("/prove?to=/account").await;
    assert!(page.text().contains("Confirm with a passkey"), "{}", page.text());
    let (options, cookie) = ask(&mut other, "/sign-in/passkey/begin").await;
    let form = used(&device, &device.used(options["challenge"].as_str().unwrap()));
    let proved = send(&mut other, "/prove/passkey", &cookie, &form).await;
    assert_eq!((proved.status, proved.field("location")), (303, "/account"), "{proved:?}");

    let key = hidden(&browser.get("/account").await, "name").unwrap();
    let mut reader = Browser::signed_in(node.connect_tls().await, "reader").await;
    let refused = reader.submit("/account/passkeys/remove", &format!("name={key}")).await;
    assert!(refused.text().contains("EP0111"), "{refused:?}");
    let gone = browser.submit("/account/passkeys/remove", &format!("name={key}")).await;
    assert_eq!(gone.status, 303, "{gone:?}");
    assert_eq!(other.get("/account").await.status, 303, "its passkey is gone");
    assert_eq!(browser.get("/account").await.status, 200, "it signed in by password");
}

#[tokio::test]
async fn an_operator_lists_and_removes_passkeys_and_an_address_has_none() {
    let node = Node::start_tls().await;
    let mut browser = Browser::signed_in(node.connect_tls().await, "anna").await;
    let device = Authenticator::new(HOST);
    let (options, cookie) = ask(&mut browser, "/account/passkeys/begin").await;
    let form = made(&device, &device.made(options["challenge"].as_str().unwrap()));
    assert_eq!(send(&mut browser, "/account/passkeys", &cookie, &form).await.status, 303);
    let account = Some(name("anna"));
    let listed = node.ask(SiteId::MAIN, Request::Passkeys { account }).await;
    let Response::Passkeys { passkeys } = listed else { panic!("{listed:?}") };
    assert_eq!((passkeys[0].host.as_str(), passkeys[0].note.as_str()), (HOST, "My <key>"));
    node.ask(SiteId::MAIN, Request::RemovePasskey { name: passkeys[0].name.clone() }).await;
    let listed = node.ask(SiteId::MAIN, Request::Passkeys { account: None }).await;
    assert!(matches!(listed, Response::Passkeys { passkeys } if passkeys.is_empty()));
    let mut client = node.connect_tls().await;
    let line = "POST /sign-in/passkey/begin HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    client.send(format!("{line}Content-Length: 0\r\n\r\n")).await;
    let refused = client.answer().await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "EP1020"));
}
