//! A browser without scripts: it signs in by a form, keeps a cookie, and sends forms.

use std::time::Duration;

use entrepot_admin::{Request, Response};
use entrepot_nouns::{AccountType, Key, Kind, SiteId};
use entrepot_world::{PASSWORD, name};
use serde_json::json;

use super::client::{Answer, Client, basic, bearer};
use super::fixture::Node;

const HTML: &str = "Accept: text/html,*/*\r\nUser-Agent: Lynx/2.9\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const GENERATOR: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

/// A browser with at most one cookie.
pub(super) struct Browser {
    client: Client,
    pub(super) cookie: String,
    /// Of the last page with a form.
    pub(super) csrf: String,
}

impl Browser {
    pub(super) fn new(client: Client) -> Browser {
        Browser { client, cookie: String::new(), csrf: String::new() }
    }

    /// A browser that has signed in.
    pub(super) async fn signed_in(client: Client, account: &str) -> Browser {
        let mut browser = Browser::new(client);
        let answer = browser.sign_in(account, PASSWORD).await;
        assert_eq!(answer.status, 303, "{answer:?}");
        browser.get("/account").await;
        browser
    }

    pub(super) fn fields(&self) -> String {
        let cookie = if self.cookie.is_empty() {
            String::new()
        } else {
            format!("Cookie: theme=dark; {}\r\n", self.cookie)
        };
        format!("{HTML}{cookie}Sec-Fetch-Site: same-origin\r\n")
    }

    fn note(&mut self, answer: &Answer) {
        if let Some((cookie, _)) = answer.field("set-cookie").split_once(';') {
            self.cookie = cookie.to_owned();
        }
        let is_page = answer.field("content-type").starts_with("text/html");
        if let Some(token) = is_page.then(|| hidden(answer, "csrf")).flatten() {
            self.csrf = token;
        }
    }

    pub(super) async fn get(&mut self, path: &str) -> Answer {
        let answer = self.client.request(&format!("GET {path}"), &self.fields()).await;
        self.note(&answer);
        answer
    }

    /// Sends what a script of a page does; a cookie that comes back is for the caller to keep.
    pub(super) async fn post(&mut self, path: &str, more: &str, body: &str) -> Answer {
        let fields = format!("{}{more}", self.fields());
        self.client.upload(&format!("POST {path}"), &fields, body.as_bytes()).await
    }

    /// Sends fields as they are, already encoded.
    pub(super) async fn send(&mut self, path: &str, form: &str) -> Answer {
        let fields = format!("{}{FORM}", self.fields());
        let answer = self.client.upload(&format!("POST {path}"), &fields, form.as_bytes()).await;
        self.note(&answer);
        answer
    }

    /// Sends a form of a page that was loaded.
    pub(super) async fn submit(&mut self, path: &str, form: &str) -> Answer {
        let csrf = self.csrf.clone();
        self.send(path, &format!("csrf={csrf}&{form}")).await
    }

    async fn sign_in(&mut self, account: &str, password: &str) -> Answer {
        let password = password.replace(' ', "+");
        self.send("/sign-in", &format!("name={account}&password={password}&to=%2Ffiles%2F")).await
    }
}

/// The value of a hidden field.
pub(super) fn hidden(answer: &Answer, name: &str) -> Option<String> {
    let (_, rest) = answer.text().split_once(&format!("name=\"{name}\" value=\""))?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

fn part(name: &str, rest: &str, value: &str) -> String {
    format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"{rest}\r\n\r\n{value}\r\n")
}

#[tokio::test]
async fn a_browser_signs_in_works_with_files_and_signs_out() {
    let node = Node::start_tls().await;
    let mut browser = Browser::new(node.connect_tls().await);
    let answer = browser.get("/files/in%20x/?cursor=a").await;
    let there = "/sign-in?to=%2Ffiles%2Fin%2520x%2F%3Fcursor%3Da";
    assert_eq!((answer.status, answer.field("location")), (303, there));
    let page = browser.get(there).await;
    assert_eq!(hidden(&page, "to").unwrap(), "/files/in%20x/?cursor=a");
    let wrong = browser.sign_in("anna", "wrong").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text().contains("role=\"alert\""), "{wrong:?}");
    assert!(wrong.field("www-authenticate").starts_with("Cookie "), "a dialog is shown");
    let answer = browser.sign_in("anna", PASSWORD).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/files/"));
    let cookie = answer.field("set-cookie");
    assert!(cookie.starts_with("__Host-entrepot=eps_"), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    let page = browser.get("/files/").await;
    assert!(page.text().contains("Signed in as <b>anna</b>"), "{}", page.text());
    assert_eq!((page.status, page.field("cache-control")), (200, "no-store"));
    let kind = format!("{}Content-Type: multipart/form-data; boundary=x\r\n", browser.fields());
    let csrf = part("csrf", "", &browser.csrf);
    let file = part("file", "; filename=\"a b.txt\"", "hello");
    let folder = part("mkdir", "", "new");
    let mut post = async |body: String| {
        let body = format!("{body}--x--\r\n");
        browser.client.upload("POST /files/", &kind, body.as_bytes()).await
    };
    let refused = post(file.clone()).await;
    assert!(refused.status == 403 && refused.text().contains("EP1017"), "{refused:?}");
    let late = post(format!("{file}{csrf}")).await;
    assert_eq!(late.status, 403, "the token must come first");
    assert_eq!(post(format!("{csrf}{file}{folder}")).await.status, 303);
    assert_eq!(browser.get("/files/a%20b.txt").await.text(), "hello");
    let page = browser.get("/files/").await;
    assert!(page.text().contains("value=\"a%20b.txt\""), "{}", page.text());
    let gone = format!("{csrf}{}{}", part("delete", "", "a%20b.txt"), part("delete", "", "new"));
    let body = format!("{gone}--x--\r\n");
    let answer = browser.client.upload("POST /files/", &kind, body.as_bytes()).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert!(!browser.get("/files/").await.text().contains("a%20b.txt"));
    // Another way for what is no form, such as scripts of ours.
    let put = format!("{}X-CSRF-Token: {}\r\n", browser.fields(), browser.csrf);
    assert_eq!(browser.client.upload("PUT /files/c", &put, b"x").await.status, 201);
    let plain = browser.fields();
    assert_eq!(browser.client.upload("PUT /files/c", &plain, b"x").await.status, 403);
    assert_eq!(browser.send("/sign-out", "csrf=wrong").await.status, 403);
    let before = browser.cookie.clone();
    let answer = browser.submit("/sign-out", "").await;
    assert_eq!((answer.status, answer.field("location")), (303, "/sign-in"));
    assert!(answer.field("set-cookie").contains("Max-Age=0"), "{answer:?}");
    browser.cookie = before;
    assert_eq!(browser.get("/files/").await.status, 303, "the cookie still counts");
    let fields = browser.fields().replace("text/html,", "");
    let answer = browser.client.request("GET /files/", &fields).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1000"));
    let world = node.stop().await;
    assert!(world.vfs.sessions().is_empty());
}

#[tokio::test]
async fn an_account_with_a_generator_is_asked_for_a_code() {
    let node = Node::start().await;
    let patch = json!({ "totp": GENERATOR });
    let (kind, called) = (Kind::Account, name("anna"));
    let change = Request::Change { kind, name: called.clone(), patch, if_match: Vec::new() };
    node.ask(SiteId::MAIN, change).await;
    let made = node.ask(SiteId::MAIN, Request::MakeRecoveryCodes { account: called }).await;
    let Response::RecoveryCodes { codes } = made else { panic!("{made:?}") };
    let mut browser = Browser::new(node.connect().await);
    let page = browser.sign_in("anna", PASSWORD).await;
    assert_eq!((page.status, page.field("set-cookie")), (200, ""));
    let step = hidden(&page, "step").unwrap();
    let wrong = browser.send("/sign-in/code", &format!("step={step}&code=000000")).await;
    assert_eq!(wrong.status, 401);
    let used = browser.send("/sign-in/code", &format!("step={step}&code=000000")).await;
    assert!(used.text().contains("Begin again"), "one word is good for one try");
    // The code may come on another connection.
    let step = hidden(&wrong, "step").unwrap();
    browser.client = node.connect().await;
    let form = format!("step={step}&code={}&to=%2Faccount", codes[0].expose());
    let answer = browser.send("/sign-in/code", &form).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/account"));
    // In clear text, which comes from this machine.
    assert!(browser.cookie.starts_with("entrepot=eps_"), "{}", browser.cookie);
    let page = browser.get("/prove").await;
    assert!(page.text().contains("one-time-code"), "{}", page.text());
    let password = PASSWORD.replace(' ', "+");
    let alone = browser.submit("/prove", &format!("password={password}")).await;
    assert_eq!(alone.status, 403, "the password alone proves nothing");
    let both = format!("password={password}&code={}&to=%2Faccount", codes[1].expose());
    assert_eq!(browser.submit("/prove", &both).await.status, 303);
}

#[tokio::test]
async fn dangerous_changes_ask_for_the_password_once_more() {
    let node = Node::start().await;
    let mut browser = Browser::signed_in(node.connect().await, "admin").await;
    let put = async |browser: &mut Browser, query: &str| {
        let json = "Content-Type: application/json\r\n";
        let fields = format!("{}X-CSRF-Token: {}\r\n{json}", browser.fields(), browser.csrf);
        let fields = fields.replace("text/html,", "");
        let line = format!("PATCH /api/v1/accounts/anna{query}");
        browser.client.upload(&line, &fields, br#"{"note":"x"}"#).await
    };
    assert_eq!(put(&mut browser, "").await.status, 200);
    let all = node.world.gate.sign_ins(SiteId::MAIN, None).await.unwrap();
    let earlier = node.world.env.now().minus(Duration::from_secs(20 * 60));
    node.world.bed.db.note_sign_in_proved(all[0].id, earlier).await.unwrap();
    node.world.gate.forget_sign_in(all[0].id);
    let refused = put(&mut browser, "").await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "EP1018"));
    assert_eq!(put(&mut browser, "?dry_run=true").await.status, 200);
    let page = browser.get("/account").await;
    assert!(page.text().contains("/prove?to=/account"), "{}", page.text());
    let refused = browser.submit("/account/tokens", "note=x&scope=files%3Aread").await;
    assert!(refused.status == 403 && refused.text().contains("EP1018"), "{refused:?}");
    assert_eq!(browser.submit("/prove", "password=wrong").await.status, 403);
    let right = format!("password={}&to=%2Faccount", PASSWORD.replace(' ', "+"));
    let answer = browser.submit("/prove", &right).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/account"));
    assert_eq!(put(&mut browser, "").await.status, 200);
}

#[tokio::test]
async fn an_account_has_tokens_and_browsers_of_its_own() {
    let node = Node::start().await;
    let mut browser = Browser::signed_in(node.connect().await, "anna").await;
    let other = Browser::signed_in(node.connect().await, "anna").await;
    let page = browser.get("/account").await;
    assert!(!page.text().contains("admin:write"), "{}", page.text());
    for bad in ["note=x", "note=x&scope=files%3Aread&days=0", "note=x&scope=files%3Aread&days=9999"]
    {
        let answer = browser.submit("/account/tokens", bad).await;
        assert!(answer.status == 409 || answer.status == 422, "{bad}: {answer:?}");
    }
    let made = browser.submit("/account/tokens", "note=%3Cb%3E&scope=files%3Aread&days=7").await;
    assert_eq!(made.status, 201, "{made:?}");
    let (_, token) = made.text().split_once("id=\"token\">").unwrap();
    let token = bearer(token.split_once('<').unwrap().0);
    let session = "GET /api/v1/session";
    let mut program = node.connect().await;
    assert_eq!(program.request(session, &token).await.json()["account"], "anna");
    // A token makes no other tokens, and neither does a password.
    for fields in [&token, &basic("anna")] {
        let answer = program.request("GET /account", fields).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "EP1019"));
    }
    let page = browser.get("/account").await;
    assert!(page.text().contains("&lt;b&gt;") && page.text().contains("active"), "{page:?}");
    let stored = node.world.bed.db.list::<Key>(SiteId::MAIN).await.unwrap();
    let key = stored[0].noun.name.clone();
    let mut reader = Browser::signed_in(node.connect().await, "reader").await;
    let answer = reader.submit("/account/tokens/revoke", &format!("name={key}")).await;
    assert!(answer.text().contains("EP0111"), "{answer:?}");
    assert_eq!(program.request(session, &token).await.status, 200);
    let answer = browser.submit("/account/tokens/revoke", &format!("name={key}")).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(program.request(session, &token).await.status, 401);
    let ids = node.world.gate.sign_ins(SiteId::MAIN, Some(&name("anna"))).await.unwrap();
    assert_eq!((ids.len(), ids[0].user_agent.as_str()), (2, "Lynx/2.9"));
    for ended in &ids {
        reader.submit("/account/sign-ins/end", &format!("id={}", ended.id)).await;
    }
    assert_eq!(browser.get("/files/").await.status, 200, "another account ended it");
    let theirs = page.text().split("name=\"id\" value=\"").nth(1).unwrap();
    let id = theirs.split_once('"').unwrap().0;
    browser.submit("/account/sign-ins/end", &format!("id={id}")).await;
    let fields = other.fields();
    let mut client = node.connect().await;
    assert_eq!(client.request("GET /files/", &fields).await.status, 303, "it is signed in");
    assert_eq!(browser.get("/files/").await.status, 200);
}

#[tokio::test]
async fn the_first_administrator_is_made_once_by_whoever_has_the_token() {
    let node = Node::start().await;
    let mut browser = Browser::new(node.connect().await);
    assert_eq!(browser.get("/setup").await.status, 404, "there is an administrator");
    node.world.account("admin", |account| account.account_type = AccountType::Partner).await;
    assert_eq!(browser.get("/setup").await.status, 404, "there is no token");
    let Response::SetUpToken { token, .. } = node.ask(SiteId::MAIN, Request::MakeSetUpToken).await
    else {
        panic!("no token")
    };
    assert_eq!(browser.get("/setup").await.status, 200);
    let form = |token: &str, password: &str, again: &str| {
        format!("token={token}&name=root&password={password}&again={again}")
    };
    let (right, good) = (token.expose(), "long-enough-1");
    for (bad, status) in [
        (form("epi_wrong", good, good), 403),
        (form(right, good, "other"), 422),
        (form(right, "short", "short"), 422),
    ] {
        let answer = browser.send("/setup", &bad).await;
        assert_eq!(answer.status, status, "{bad}: {answer:?}");
        assert!(answer.text().contains("role=\"alert\""), "{answer:?}");
    }
    let answer = browser.send("/setup", &form(right, good, good)).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/sign-in"));
    assert_eq!(browser.get("/setup").await.status, 404, "it goes on");
    assert_eq!(browser.send("/setup", &form(right, good, good)).await.status, 404);
    node.world.directory.refresh().await.unwrap();
    assert_eq!(browser.sign_in("root", good).await.status, 303);
}
