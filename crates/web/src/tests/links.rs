//! Share links: what their recipients may do, how often, and that nobody else may.

use entrepot_nouns::{Account, Event, Fact, Kind, Policy, Site, SiteId};
use serde_json::{Value, json};

use super::client::{Answer, Client, basic, basic_with};
use super::fixture::Node;

const HTML: &str = "Accept: text/html\r\n";

/// Makes a link as `anna`; gives its address.
async fn link(client: &mut Client, order: Value) -> String {
    let answer = make(client, "anna", &order).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let address = answer.json()["addresses"][0]["address"].as_str().unwrap().to_owned();
    assert!(address.starts_with("/s/epl_") && address.len() > 50, "{address}");
    address
}

async fn make(client: &mut Client, who: &str, order: &Value) -> Answer {
    let fields = format!("{}Content-Type: application/json\r\n", basic(who));
    client.upload("POST /api/v1/links", &fields, order.to_string().as_bytes()).await
}

async fn put(client: &mut Client, path: &str, body: &[u8]) {
    let answer = client.upload(&format!("PUT /files{path}"), &basic("anna"), body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// A node with `/out/report.txt`, `/out/b.txt` and `/out/deep/c.txt` of `anna`, and `/in`.
async fn node() -> (Node, Client) {
    let node = Node::start().await;
    let mut client = node.connect().await;
    for folder in ["/out", "/out/deep", "/in"] {
        let line = format!("POST /files{folder}?mkdir");
        assert_eq!(client.upload(&line, &basic("anna"), b"").await.status, 201);
    }
    put(&mut client, "/out/report.txt", b"the report").await;
    put(&mut client, "/out/b.txt", b"b").await;
    put(&mut client, "/out/deep/c.txt", b"c").await;
    put(&mut client, "/secret.txt", b"of nobody's business").await;
    (node, client)
}

async fn get(client: &mut Client, path: &str) -> Answer {
    client.request(&format!("GET {path}"), "").await
}

#[tokio::test]
async fn a_file_is_downloaded_as_often_as_the_link_allows_and_resumed_besides() {
    let (node, mut client) = node().await;
    let order = json!({
        "folder": "/out", "files": ["report.txt"], "allows": ["download"], "downloads": 2,
        "title": "Report <of> May",
    });
    let address = link(&mut client, order).await;
    let page = client.request(&format!("GET {address}"), HTML).await;
    assert_eq!(page.status, 200, "{page:?}");
    let text = page.text();
    assert!(text.contains("Report &lt;of&gt; May") && text.contains("report.txt"), "{text}");
    assert!(text.contains("10 B") && text.contains("until ") && text.contains("2 of 2"), "{text}");
    assert!(!text.contains("<script") && !text.contains("b.txt"), "{text}");
    assert_eq!(page.field("referrer-policy"), "no-referrer");
    assert_eq!(page.field("x-robots-tag"), "noindex, nofollow");
    assert!(page.field("content-security-policy").contains("style-src 'nonce-"), "{page:?}");
    assert!(page.field("cache-control").contains("no-store"));

    // To look at it is no download; HEAD says how large it is.
    let file = format!("{address}/report.txt");
    let head = client.request(&format!("HEAD {file}"), "").await;
    assert_eq!((head.status, head.field("content-length")), (200, "10"));
    let answer = get(&mut client, &file).await;
    assert_eq!((answer.status, answer.text()), (200, "the report"));
    assert!(answer.field("content-disposition").starts_with("attachment"), "{answer:?}");
    // The rest of it is no other download, and nobody makes it the whole by a wrong condition.
    let rest = client.request(&format!("GET {file}"), "Range: bytes=4-\r\n").await;
    assert_eq!((rest.status, rest.text()), (206, "report"));
    // Programs are given the only file at once.
    assert_eq!(get(&mut client, &address).await.text(), "the report");
    let trick = "Range: bytes=0-0\r\nIf-Range: \"x\"\r\n";
    for (fields, status) in [("", 410), (trick, 410), ("Range: bytes=4-\r\n", 206)] {
        let answer = client.request(&format!("GET {file}"), fields).await;
        assert_eq!(answer.status, status, "{fields} {answer:?}");
    }
    let answer = get(&mut client, &file).await;
    assert_eq!(answer.code(), "EP1164");
    let page = client.request(&format!("GET {address}"), HTML).await;
    assert_eq!(page.status, 410);
    assert!(page.text().contains("as often as it may be"), "{}", page.text());

    // Nothing else is in reach.
    for other in ["/b.txt", "/deep/c.txt", "/deep/", "/../secret.txt", "/%2e%2e/secret.txt"] {
        let status = get(&mut client, &format!("{address}{other}")).await.status;
        assert!(status == 404 || status == 400, "{other}: {status}");
    }
    let put = client.upload(&format!("PUT {address}/x.txt"), "", b"x").await;
    assert_eq!((put.status, put.code().as_str()), (403, "EP1167"));

    let mut world = node.stop().await.events().await;
    let name = made(&world);
    world.retain(|event| event.account.as_ref().is_some_and(|it| it.as_str() == name));
    let kinds: Vec<&str> = world.iter().map(|event| event.fact.kind()).collect();
    assert!(kinds.contains(&"session.opened") && kinds.contains(&"file.downloaded"), "{kinds:?}");
    let all = serde_json::to_string(&world).unwrap();
    assert!(!all.contains(&address[3..]), "the secret is in an event");
}

/// The name of the link that was made first.
fn made(events: &[Event]) -> String {
    let name = events.iter().find_map(|event| match &event.fact {
        Fact::ConfigChanged { noun: Kind::Account, name, .. }
            if name.as_str().starts_with("link-") =>
        {
            Some(name)
        }
        _ => None,
    });
    name.unwrap().to_string()
}

#[tokio::test]
async fn what_is_ticked_comes_as_one_zip_and_an_only_file_shows_its_digest() {
    let (node, mut client) = node().await;
    let address = link(&mut client, json!({"folder": "/out", "allows": ["download"]})).await;
    let page = client.request(&format!("GET {address}"), HTML).await;
    let text = page.text();
    assert!(text.contains("name=\"zip\" value=\"\"") && text.contains("method=\"get\""), "{text}");
    assert!(text.contains("name=\"name\" value=\"b.txt\""), "{text}");
    let all = get(&mut client, &format!("{address}?zip")).await;
    let some = get(&mut client, &format!("{address}?zip=&name=b.txt&name=deep")).await;
    assert_eq!((some.status, some.field("content-type")), (200, "application/zip"));
    let has =
        |answer: &Answer, name: &[u8]| answer.body.windows(name.len()).any(|bytes| bytes == name);
    assert!(has(&all, b"report.txt") && !has(&some, b"report.txt") && has(&some, b"deep/c.txt"));
    let deep = get(&mut client, &format!("{address}/deep/?zip&name=c.txt")).await;
    assert_eq!(deep.status, 200, "{deep:?}");
    for (name, status) in [("nothing", 404), ("..%2Fsecret.txt", 400), ("..", 400)] {
        let answer = get(&mut client, &format!("{address}?zip&name={name}")).await;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
    }
    // A link of some files opens these and no others, as an archive too.
    let order = json!({
        "folder": "/out", "files": ["report.txt", "b.txt"], "allows": ["download"], "downloads": 2,
    });
    let address = link(&mut client, order).await;
    let refused = get(&mut client, &format!("{address}?zip&name=deep")).await;
    assert_eq!((refused.status, refused.code().as_str()), (404, "EP0401"));
    let both = get(&mut client, &format!("{address}?zip")).await;
    assert!(has(&both, b"report.txt") && has(&both, b"b.txt") && !has(&both, b"deep"), "{both:?}");
    let one = get(&mut client, &format!("{address}?zip&name=b.txt")).await;
    assert!(one.status == 200 && !has(&one, b"report.txt"), "{one:?}");
    let spent = get(&mut client, &format!("{address}?zip")).await;
    assert_eq!((spent.status, spent.code().as_str()), (410, "EP1164"));

    let all = entrepot_world::mount("anna-all", "anna", "/", "files");
    node.world.put(&entrepot_nouns::Mount { sha256: true, ..all }).await;
    put(&mut client, "/out/known.txt", b"abc").await;
    let order = json!({"folder": "/out", "files": ["known.txt"], "allows": ["download"]});
    let address = link(&mut client, order).await;
    let page = client.request(&format!("GET {address}"), HTML).await;
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert!(page.text().contains(&format!("SHA-256 {digest}")), "{}", page.text());
}

#[tokio::test]
async fn a_folder_is_listed_and_taken_as_a_zip() {
    let (_node, mut client) = node().await;
    let order = json!({"folder": "/out", "allows": ["download"]});
    let address = link(&mut client, order).await;
    let listed = get(&mut client, &address).await.json();
    let names: Vec<&str> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["b.txt", "deep", "report.txt"]);
    assert_eq!(get(&mut client, &format!("{address}/deep/c.txt")).await.text(), "c");
    let page = client.request(&format!("GET {address}/deep/"), HTML).await;
    assert!(page.text().contains("c.txt") && page.text().contains("Folder above"));
    let zip = get(&mut client, &format!("{address}?zip")).await;
    assert_eq!((zip.status, zip.field("content-type")), (200, "application/zip"));
    assert!(zip.body.starts_with(b"PK\x03\x04") && zip.body.len() > 100);
    let size = zip.body.len();
    let part = client.request(&format!("GET {address}?zip"), "Range: bytes=10-19\r\n").await;
    assert_eq!((part.status, &part.body[..]), (206, &zip.body[10..20]));
    let head = client.request(&format!("HEAD {address}?zip"), "").await;
    assert_eq!(head.field("content-length"), size.to_string());
    assert_eq!(get(&mut client, &format!("{address}/absent.txt")).await.status, 404);
}

#[tokio::test]
async fn a_file_request_shows_nothing_and_replaces_nothing() {
    let (node, mut client) = node().await;
    put(&mut client, "/in/a.txt", b"was here").await;
    let order = json!({
        "folder": "/in", "allows": ["upload"], "uploads": 4, "file_size_bytes": 10,
        "upload_bytes": 14,
    });
    let address = link(&mut client, order).await;
    let page = client.request(&format!("GET {address}"), HTML).await;
    assert!(page.text().contains("type=\"file\"") && !page.text().contains("a.txt"));
    assert_eq!(get(&mut client, &address).await.json()["entries"], Value::Null);
    for path in ["/a.txt", "/", "?zip"] {
        let answer = get(&mut client, &format!("{address}{path}")).await;
        assert!(!answer.text().contains("was here") && !answer.body.starts_with(b"PK"), "{path}");
    }
    let answer = client.upload(&format!("PUT {address}/a.txt"), "", b"mine").await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let arrived = answer.json();
    assert_eq!((&arrived["name"], &arrived["size"]), (&json!("a.txt"), &json!(4)));
    assert_eq!(arrived["blake3"], blake3::hash(b"mine").to_hex().as_str());
    let too_large = client.upload(&format!("PUT {address}/b.txt"), "", &[7; 11]).await;
    assert_eq!((too_large.status, too_large.code().as_str()), (413, "EP1166"));
    for path in ["", "/", "/sub/b.txt"] {
        assert_eq!(client.upload(&format!("PUT {address}{path}"), "", b"x").await.status, 400);
    }
    let form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\\\b.txt\"\r\n\
                \r\nfrom a form\r\n--x--\r\n";
    let fields = "Content-Type: multipart/form-data; boundary=x\r\n";
    let answer = client.upload(&format!("POST {address}"), fields, form.as_bytes()).await;
    assert_eq!(answer.status, 413, "11 bytes are too many: {answer:?}");
    let form = form.replace("from a form", "form");
    let html = format!("{fields}{HTML}");
    let page = client.upload(&format!("POST {address}"), &html, form.as_bytes()).await;
    assert_eq!(page.status, 201, "{page:?}");
    let digest = blake3::hash(b"form").to_hex();
    assert!(page.text().contains("b.txt") && page.text().contains(digest.as_str()));
    // 14 bytes in all: 8 have come.
    let answer = client.upload(&format!("PUT {address}/c.txt"), "", &[7; 7]).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "EP1166"));
    assert_eq!(client.upload(&format!("PUT {address}/c.txt"), "", &[7; 6]).await.status, 201);
    let answer = client.upload(&format!("PUT {address}/d.txt"), "", b"1").await;
    assert_eq!(answer.status, 413, "{answer:?}");

    for (path, content) in [("a.txt", "was here"), ("a (1).txt", "mine"), ("b.txt", "form")] {
        let path = path.replace(' ', "%20");
        let kept = client.request(&format!("GET /files/in/{path}"), &basic("anna")).await;
        assert_eq!(kept.text(), content);
    }
    let events = node.stop().await.events().await;
    let name = made(&events);
    let arrived = events.iter().filter(|event| {
        event.fact.kind() == "file.uploaded"
            && event.account.as_ref().is_some_and(|it| it.as_str() == name)
    });
    assert_eq!(arrived.count(), 3, "uploads are the link's own transfers");
}

#[tokio::test]
async fn a_password_is_asked_for_and_remembered_for_this_link_only() {
    let (_node, mut client) = node().await;
    let order = json!({"folder": "/out", "allows": ["download"], "password": "correct horse"});
    let address = link(&mut client, order.clone()).await;
    let other = link(&mut client, order).await;
    let answer = get(&mut client, &address).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1163"));
    let page = client.request(&format!("GET {address}"), HTML).await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("type=\"password\"") && !page.text().contains("report.txt"));
    let form = "Content-Type: application/x-www-form-urlencoded\r\nAccept: text/html\r\n";
    let wrong = client.upload(&format!("POST {address}"), form, b"password=wrong").await;
    assert_eq!(wrong.status, 403);
    assert!(wrong.text().contains("wrong") && wrong.field("set-cookie").is_empty());
    let right = client.upload(&format!("POST {address}"), form, b"password=correct+horse").await;
    assert_eq!((right.status, right.field("location")), (303, &*address));
    let cookie = right.field("set-cookie").to_owned();
    assert!(cookie.contains(&format!("Path={address};")), "{cookie}");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let sent = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let listed = client.request(&format!("GET {address}"), &sent).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let elsewhere = client.request(&format!("GET {other}"), &sent).await;
    assert_eq!(elsewhere.status, 401, "it is of use for one link");
    let by_curl = client.request(&format!("GET {address}"), &basic_with("", "correct horse")).await;
    assert_eq!(by_curl.status, 200);
    // The account of the link has no other door.
    let name = listed_names(&mut client).await.remove(0);
    let answer = client.request("GET /files/", &basic_with(&name, "correct horse")).await;
    assert_eq!(answer.status, 401);
}

async fn listed_names(client: &mut Client) -> Vec<String> {
    let listed = client.request("GET /api/v1/links", &basic("anna")).await.json();
    let names = listed["items"].as_array().unwrap().iter();
    names.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_link_ends_when_it_is_revoked_and_when_its_owner_may_not() {
    let (node, mut client) = node().await;
    let order = json!({"folder": "/out", "allows": ["download"], "people": ["a@b.c", "d@e.f"]});
    let made = make(&mut client, "anna", &order).await.json();
    let addresses: Vec<&str> = made["addresses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["address"].as_str().unwrap())
        .collect();
    assert_eq!((addresses.len(), &made["addresses"][1]["person"]), (2, &json!("d@e.f")));
    assert_ne!(addresses[0], addresses[1]);
    for address in &addresses {
        assert_eq!(get(&mut client, address).await.status, 200);
    }
    // Of others nobody learns more than administrators do.
    let name = made["name"].as_str().unwrap();
    for (who, status) in [("anna", 200), ("admin", 200), ("reader", 404)] {
        let answer = client.request(&format!("GET /api/v1/links/{name}"), &basic(who)).await;
        assert_eq!(answer.status, status, "{who} {answer:?}");
    }
    let line = format!("POST /api/v1/links/{name}/revoke");
    assert_eq!(client.upload(&line, &basic("reader"), b"").await.status, 404);
    let order = json!({"folder": "/out", "allows": ["upload"]});
    let refused = make(&mut client, "reader", &order).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "EP0102"), "no more than it has");
    let order = json!({"folder": "/out", "allows": ["download"], "owner": "anna"});
    assert_eq!(make(&mut client, "reader", &order).await.status, 403);

    let revoked = client.upload(&line, &basic("anna"), b"").await;
    assert_eq!((revoked.status, &revoked.json()["state"]), (200, &json!("revoked")));
    let answer = get(&mut client, addresses[0]).await;
    assert_eq!((answer.status, answer.code().as_str()), (410, "EP1162"));
    let order = json!({"folder": "/out", "allows": ["download"], "owner": "anna"});
    let answer = make(&mut client, "admin", &order).await.json();
    let address = answer["addresses"][0]["address"].as_str().unwrap().to_owned();
    assert_eq!(get(&mut client, &address).await.status, 200);
    let world = &node.world;
    let stored = world.bed.db.find::<Account>(SiteId::MAIN, &"anna".parse().unwrap()).await;
    world.put(&Account { enabled: false, ..stored.unwrap().unwrap().noun }).await;
    assert_eq!(get(&mut client, &address).await.status, 410);
}

#[tokio::test]
async fn secrets_cannot_be_guessed() {
    let (node, mut client) = node().await;
    let strict = json!({"name": "strict", "address_failures": 4});
    node.world.put(&serde_json::from_value::<Policy>(strict).unwrap()).await;
    let site = json!({"name": "main", "policy": "strict"});
    node.world.put(&serde_json::from_value::<Site>(site).unwrap()).await;
    let address = link(&mut client, json!({"folder": "/out", "allows": ["download"]})).await;
    let answer = get(&mut client, "/s/nonsense").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "EP1160"));
    assert_eq!(answer.field("referrer-policy"), "no-referrer");
    let last = if address.ends_with('x') { "y" } else { "x" };
    let wrong = format!("{}{last}", &address[..address.len() - 1]);
    let mut statuses = Vec::new();
    while statuses.len() < 10 && !statuses.contains(&429) {
        let mut client = node.connect().await;
        statuses.push(get(&mut client, &wrong).await.status);
    }
    assert_eq!(statuses.last(), Some(&429), "guessing goes on for ever: {statuses:?}");
    let mut client = node.connect().await;
    assert_eq!(get(&mut client, &address).await.status, 200, "who has it is let in");
}
