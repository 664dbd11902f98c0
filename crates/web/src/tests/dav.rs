use entrepot_dav_proto::Element;
use entrepot_nouns::Fact;

use super::client::{Answer, Client, basic};
use super::fixture::Node;

const LOCK: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/>\
                    </locktype><owner><href>mailto:anna@example</href></owner></lockinfo>";

/// A request of `anna`, with more fields as whole lines.
async fn ask(client: &mut Client, line: &str, fields: &str, body: &str) -> Answer {
    client.upload(line, &format!("{}{fields}", basic("anna")), body.as_bytes()).await
}

/// The addresses in a 207.
fn hrefs(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 207, "{answer:?}");
    let root = Element::parse(&answer.body).unwrap();
    root.elements().map(|response| response.child("href").unwrap().text()).collect()
}

async fn tree(client: &mut Client) {
    for line in ["MKCOL /dav/a", "MKCOL /dav/a/b"] {
        assert_eq!(ask(client, line, "", "").await.status, 201);
    }
    for line in ["PUT /dav/a/1", "PUT /dav/a/b/2%20%26"] {
        assert_eq!(ask(client, line, "", "content").await.status, 201);
    }
}

#[tokio::test]
async fn a_tree_is_made_listed_copied_moved_and_removed() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    tree(&mut client).await;
    let options = client.request("OPTIONS /dav/", &basic("anna")).await;
    assert_eq!((options.status, options.field("dav")), (200, "1, 2"));
    let found = ask(&mut client, "PROPFIND /dav/a", "Depth: 1\r\n", "").await;
    let mut names = hrefs(&found);
    names.sort();
    assert_eq!(names, ["/dav/a/", "/dav/a/1", "/dav/a/b/"]);
    assert!(found.text().contains("<D:getcontentlength xmlns:D=\"DAV:\">7<"), "{}", found.text());
    let deep = ask(&mut client, "PROPFIND /dav/a", "Depth: infinity\r\n", "").await;
    assert_eq!(deep.status, 403);
    assert!(deep.text().contains("propfind-finite-depth"));

    let to = |path: &str| format!("Destination: http://localhost/dav{path}\r\n");
    for (line, fields, status) in [
        ("MKCOL /dav/a", String::new(), 405),
        ("MKCOL /dav/x/y", String::new(), 409),
        ("PUT /dav/x/y", String::new(), 409),
        ("COPY /dav/a", to("/c"), 201),
        ("COPY /dav/a", to("/c"), 204),
        ("COPY /dav/a", to("/c") + "Overwrite: F\r\n", 412),
        ("COPY /dav/a", to("/a/b/c"), 403),
        ("COPY /dav/a", to("/a"), 403),
        ("COPY /dav/a/b", to("/a"), 403),
        ("COPY /dav/a", to("/x/y"), 409),
        ("COPY /dav/a", "Destination: http://elsewhere/dav/c\r\n".to_owned(), 502),
        ("COPY /dav/a", to("/flat") + "Depth: 0\r\n", 201),
        ("MOVE /dav/a/1", to("/flat/1"), 201),
        ("MOVE /dav/c", to("/flat"), 204),
        ("GET /dav/flat/b/2%20%26", String::new(), 200),
        ("GET /dav/c/1", String::new(), 404),
        ("DELETE /dav/flat", String::new(), 204),
        ("DELETE /dav/flat", String::new(), 404),
        ("DELETE /dav/../etc", String::new(), 400),
    ] {
        let answer = ask(&mut client, line, &fields, "").await;
        assert_eq!(answer.status, status, "{line} {fields}: {answer:?}");
    }
    let world = node.stop().await;
    let events = world.events().await;
    let copied =
        |fact: &Fact| matches!(fact, Fact::FileUploaded { file } if file.path == "/c/b/2 &");
    assert!(events.iter().any(|event| copied(&event.fact)), "a copy is an upload");
}

#[tokio::test]
async fn a_lock_keeps_out_who_has_no_token() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    tree(&mut client).await;
    let given = ask(&mut client, "LOCK /dav/a/b", "Timeout: Second-60\r\n", LOCK).await;
    assert_eq!(given.status, 200, "{given:?}");
    let token = given.field("lock-token").to_owned();
    assert!(token.starts_with("<urn:uuid:") && given.text().contains("mailto:anna@example"));
    let with = format!("If: ({token})\r\n");
    let tagged = format!("If: <http://localhost/dav/a/b> ({token})\r\n");
    let changed = format!("If: ({token} [\"other\"])\r\n");
    let to = "Destination: http://localhost/dav/z\r\n";
    for (line, fields, status) in [
        ("PUT /dav/a/b/new", "", 423),
        ("PUT /dav/a/b/new", &*with, 201),
        ("PUT /dav/a/b/new", &*tagged, 204),
        ("PUT /dav/a/b/new", &*changed, 412),
        ("PUT /dav/a/b/new", "If: nonsense\r\n", 400),
        ("PUT /dav/a/other", "", 201),
        ("MKCOL /dav/a/b/c", "", 423),
        ("DELETE /dav/a", "", 423),
        ("MOVE /dav/a", to, 423),
        ("LOCK /dav/a/b/2%20%26", "", 423),
        ("UNLOCK /dav/a/b", "Lock-Token: <urn:uuid:0>\r\n", 409),
    ] {
        let body = if line.starts_with("LOCK") { LOCK } else { "" };
        let answer = ask(&mut client, line, fields, body).await;
        assert_eq!(answer.status, status, "{line} {fields}: {answer:?}");
    }
    // Another account, by the same token.
    let reader = format!("{}If: ({token})\r\n", basic("reader"));
    let answer = client.upload("PUT /dav/a/b/new", &reader, b"").await;
    assert!(matches!(answer.status, 403 | 423), "{answer:?}");
    let refused = client.upload("LOCK /dav/a/1", &basic("reader"), LOCK.as_bytes()).await;
    assert_eq!(refused.status, 403, "who may not write locks nobody out");
    let body = "<propfind xmlns='DAV:'><prop><lockdiscovery/></prop></propfind>";
    let shown = ask(&mut client, "PROPFIND /dav/a/b/new", "Depth: 0\r\n", body).await;
    assert!(shown.text().contains("<D:href xmlns:D=\"DAV:\">/dav/a/b<"), "{}", shown.text());
    assert_eq!(ask(&mut client, "LOCK /dav/a/b", &with, "").await.status, 200, "refreshed");
    let back = format!("Lock-Token: {token}\r\n");
    assert_eq!(ask(&mut client, "UNLOCK /dav/a/b", &back, "").await.status, 204);
    assert_eq!(ask(&mut client, "PUT /dav/a/b/new", "", "").await.status, 204);
    // A lock on a free name makes an empty file of it.
    assert_eq!(ask(&mut client, "LOCK /dav/a/empty", "Depth: 0\r\n", LOCK).await.status, 201);
    assert_eq!(ask(&mut client, "GET /dav/a/empty", "", "").await.status, 200);
    node.stop().await;
}

#[tokio::test]
async fn what_cannot_be_set_keeps_the_rest_from_being_set() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    tree(&mut client).await;
    let set = |properties: &str| {
        format!(
            "<propertyupdate xmlns='DAV:' xmlns:m='urn:schemas-microsoft-com:' xmlns:z='urn:z'>\
             <set><prop>{properties}</prop></set></propertyupdate>"
        )
    };
    let time = "<m:Win32LastModifiedTime>Sun, 06 Nov 1994 08:49:37 GMT</m:Win32LastModifiedTime>";
    let both = set(&format!("{time}<z:colour>red</z:colour>"));
    let answer = ask(&mut client, "PROPPATCH /dav/a/1", "", &both).await;
    assert!(answer.text().contains("403 ") && answer.text().contains("424 "), "{}", answer.text());
    let answer = ask(&mut client, "PROPPATCH /dav/a/1", "", &set(time)).await;
    assert!(answer.text().contains("200 OK"), "{}", answer.text());
    let head = client.request("HEAD /dav/a/1", &basic("anna")).await;
    assert_eq!(head.field("last-modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
    for (body, status) in [("<a/>", 400), ("x", 400), ("<!DOCTYPE a><a/>", 400)] {
        for method in ["PROPPATCH", "PROPFIND", "LOCK"] {
            let answer =
                ask(&mut client, &format!("{method} /dav/a/1"), "Depth: 0\r\n", body).await;
            assert_eq!(answer.status, status, "{method} {body}");
        }
    }
    let large = " ".repeat(300 << 10);
    assert_eq!(ask(&mut client, "PROPFIND /dav/a", "Depth: 0\r\n", &large).await.status, 413);
    node.stop().await;
}
