//! The walk of rights: every route of the listener, from the one table that serves it, with the
//! credentials of nobody, of everybody and of those that do not count.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::Method;
use entrepot_admin::Request;
use entrepot_nouns::{Account, AnyNoun, Key, Site, SiteId, TokenScope};
use entrepot_world::name;

use super::browsers::Browser;
use super::client::{Answer, basic, basic_with, bearer};
use super::fixture::Node;
use crate::route_table::Access;
use crate::router;

/// One method at one address.
struct Step {
    line: String,
    access: Access,
    is_safe: bool,
}

/// Every step of the walk.
fn steps(node: &Node) -> Vec<Step> {
    let id = "0192f1c4-7d7a-7abc-8def-0123456789ab";
    let mut steps = Vec::new();
    for served in router::table(&node.api()) {
        let path = served.path.replace("{*path}", "walk").replace("{name}", "nothing");
        let path = path.replace("{procedure}", "nothing");
        let path = path.replace("{id}", id).replace("{code}", "EP1000").replace("{number}", "0");
        let path = path.replace("{secret}", "no-such-link").replace("{token}", "no-such-token");
        assert!(!path.contains('{'), "the walk has no word for {path}");
        for method in served.methods {
            // A stream that is allowed does not end; who is refused is refused as everywhere.
            let is_safe = matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
            let line = format!("{method} {path}");
            steps.push(Step { line, access: served.access, is_safe });
        }
    }
    steps
}

impl Step {
    /// No rule takes web hooks there.
    fn is_no_hook(&self, answer: &Answer) -> bool {
        self.refusal(answer) == self.refused(404, "EP0846")
    }

    /// It is no message of AS2, whatever it shows otherwise.
    fn is_no_message(&self, answer: &Answer) -> bool {
        self.refusal(answer) == self.refused(400, "EP1203")
    }

    async fn walk(&self, node: &Node, fields: &str) -> Answer {
        // Refusals end connections, and delay what comes after them.
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        node.world.gate.unlock_address(SiteId::MAIN, address, "cli:test").unwrap();
        let mut client = node.connect().await;
        if self.is_safe {
            return client.request(&self.line, fields).await;
        }
        client.upload(&self.line, fields, b"").await
    }

    /// The refusal, as far as it has a body.
    fn refusal(&self, answer: &Answer) -> (u16, String) {
        let has_body = !self.line.starts_with("HEAD");
        (answer.status, if has_body { answer.code() } else { String::new() })
    }

    /// No link has the secret; wrong ones count as wrong passwords do, and the walk shows many.
    fn is_no_link(&self, answer: &Answer) -> bool {
        let refusal = self.refusal(answer);
        [(404, "EP1160"), (429, "EP1165")]
            .into_iter()
            .any(|(status, code)| refusal == self.refused(status, code))
    }

    fn refused(&self, status: u16, code: &str) -> (u16, String) {
        let has_body = !self.line.starts_with("HEAD");
        (status, if has_body { code.to_owned() } else { String::new() })
    }
}

/// Credentials that let nobody in, each with the code of its refusal.
async fn refused_credentials(node: &Node) -> Vec<(String, &'static str)> {
    let expired = node.token("admin", &TokenScope::ALL).await;
    for stored in node.world.bed.db.list::<Key>(SiteId::MAIN).await.unwrap() {
        let mut key = stored.noun;
        key.not_before = None;
        key.not_after = Some(node.world.env.now().minus(std::time::Duration::from_secs(1)));
        node.world.put(&key).await;
    }
    let site: Site = serde_json::from_str(r#"{"name": "other"}"#).unwrap();
    let site = AnyNoun::from(site);
    node.ask(SiteId::MAIN, Request::Create { noun: Box::new(site) }).await;
    let actor = entrepot_admin::Actor::of_machine("cli:test".to_owned(), SiteId::MAIN);
    let other = node.admin.at_site(actor, Some(&name("other"))).await.unwrap().site;
    let admin = node.world.bed.db.find::<Account>(SiteId::MAIN, &name("admin")).await.unwrap();
    let admin = admin.unwrap().noun;
    let abroad = Account { name: name("abroad"), ..admin };
    node.ask(other, Request::Create { noun: Box::new(AnyNoun::from(abroad)) }).await;
    let foreign = node.token_at(other, "abroad", &TokenScope::ALL).await;
    let mut ended = Browser::signed_in(node.connect().await, "admin").await;
    let signed_in = node.world.gate.sign_ins(SiteId::MAIN, None).await.unwrap();
    node.world.gate.end_sign_in(SiteId::MAIN, signed_in[0].id, "test").await.unwrap();
    let forged = ended.cookie.replace("eps_", "eps_x");
    let cookie = |cookie: &str, csrf: &str| format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}\r\n");
    let csrf = std::mem::take(&mut ended.csrf);
    vec![
        (String::new(), "EP1000"),
        (basic_with("admin", "forged"), "EP1001"),
        (basic("abroad"), "EP1001"),
        (bearer("ept_forged"), "EP1016"),
        (bearer(&expired), "EP1016"),
        (bearer(&foreign), "EP1016"),
        (cookie(&ended.cookie, &csrf), "EP1000"),
        (cookie(&forged, &csrf), "EP1000"),
    ]
}

#[tokio::test]
async fn every_route_refuses_those_who_may_not() {
    let node = Node::start().await;
    let steps = steps(&node);
    assert!(steps.len() > 100, "the table is empty");
    for (fields, code) in refused_credentials(&node).await {
        for step in &steps {
            let answer = step.walk(&node, &fields).await;
            let line = &step.line;
            if step.access == Access::Everybody {
                assert!(![401, 403].contains(&answer.status), "{line}: {answer:?}");
                continue;
            }
            if step.access == Access::Link {
                assert!(step.is_no_link(&answer), "{line} {fields}: {answer:?}");
                continue;
            }
            if step.access == Access::As2 {
                assert!(step.is_no_message(&answer), "{line} {fields}: {answer:?}");
                continue;
            }
            if step.access == Access::Signature {
                assert!(step.is_no_hook(&answer), "{line} {fields}: {answer:?}");
                continue;
            }
            assert_eq!(step.refusal(&answer), step.refused(401, code), "{line} {fields}");
            assert!(!answer.field("www-authenticate").is_empty(), "{line} {fields}");
        }
    }
}

#[tokio::test]
async fn every_route_knows_accounts_from_administrators_and_browsers_from_programs() {
    let node = Node::start().await;
    let token = bearer(&node.token("anna", &TokenScope::ALL).await);
    let browser = Browser::signed_in(node.connect().await, "anna").await;
    let cookie = format!("Cookie: {}\r\n", browser.cookie);
    let proven = format!("{cookie}X-CSRF-Token: {}\r\n", browser.csrf);
    for step in steps(&node) {
        let line = &step.line;
        // What signs out or removes would change the next step.
        let is_last = line.ends_with("/sign-out");
        for (fields, is_browser) in [(&token, false), (&basic("anna"), false), (&proven, true)] {
            if is_last && is_browser {
                continue;
            }
            let answer = step.walk(&node, fields).await;
            match step.access {
                Access::Administrator => {
                    assert_eq!(step.refusal(&answer), step.refused(403, "EP0115"), "{line}");
                }
                Access::Browser if !is_browser => {
                    assert_eq!(step.refusal(&answer), step.refused(403, "EP1019"), "{line}");
                }
                Access::Link => {
                    assert!(step.is_no_link(&answer), "{line}: {answer:?}");
                }
                Access::As2 => assert!(step.is_no_message(&answer), "{line}: {answer:?}"),
                Access::Signature => assert!(step.is_no_hook(&answer), "{line}: {answer:?}"),
                Access::Everybody | Access::Account | Access::Browser => {
                    assert_ne!(answer.status, 401, "{line}: {answer:?}");
                }
            }
        }
        let open = [Access::Everybody, Access::Link, Access::Signature, Access::As2];
        if !step.is_safe && !open.contains(&step.access) {
            // The cookie alone, as another page makes a browser send it.
            let answer = step.walk(&node, &cookie).await;
            assert!([403, 415, 400].contains(&answer.status), "{line}: {answer:?}");
            assert_ne!(answer.code(), "EP0115", "{line}: it was looked at");
        }
        for other in ["Sec-Fetch-Site: cross-site\r\n", "Origin: http://evil.example\r\n"] {
            if !step.is_safe {
                let answer = step.walk(&node, &format!("{proven}{other}")).await;
                assert_eq!(step.refusal(&answer), step.refused(403, "EP1005"), "{line} {other}");
            }
        }
    }
    assert_eq!(node.world.gate.sign_ins(SiteId::MAIN, None).await.unwrap().len(), 1);
}
