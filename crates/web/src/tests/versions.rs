//! What is replaced over HTTP and WebDAV can be read and put back, by programs and by people
//! without scripts.

use entrepot_nouns::{Mount, VersionOptions};
use entrepot_world::mount;

use super::client::basic;
use super::fixture::Node;
use super::trash::form;

async fn start() -> Node {
    let node = Node::start().await;
    let versions = Some(VersionOptions { keep: Some(9), days: None, bytes: None });
    node.world.put(&Mount { versions, ..mount("anna-all", "anna", "/", "files") }).await;
    node
}

#[tokio::test]
async fn versions_are_listed_read_put_back_and_deleted() {
    let node = start().await;
    let mut client = node.connect().await;
    let anna = basic("anna");
    let (mut etag, mut statuses) = (String::new(), Vec::new());
    for (method, text) in [("PUT /files", "one"), ("PUT /dav", "two"), ("PUT /files", "three")] {
        let put = client.upload(&format!("{method}/a%20b.txt"), &anna, text.as_bytes()).await;
        statuses.push(put.status);
        if text == "one" {
            let head = client.request("HEAD /files/a%20b.txt", &anna).await;
            etag = head.field("etag").to_owned();
        }
    }
    assert_eq!(statuses, [201, 204, 204]);
    let listed = client.request("GET /files/a%20b.txt?versions&limit=1", &anna).await.json();
    let (two, next) = (&listed["versions"][0], listed["next"].as_str().unwrap());
    assert_eq!((two["size"].as_u64(), two["replaced_by"].as_str()), (Some(3), Some("anna")));
    assert!(two["until"].is_null());
    let more = format!("GET /files/a%20b.txt?versions&cursor={next}");
    let one = client.request(&more, &anna).await.json()["versions"][0].clone();
    let (href, id) = (one["href"].as_str().unwrap(), one["id"].as_str().unwrap());

    // It is read as a file, in parts and by conditions.
    let whole = client.request(&format!("GET {href}"), &anna).await;
    assert_eq!((whole.text(), whole.field("etag")), ("one", &*etag));
    assert!(whole.field("content-disposition").contains("a b.txt"), "{whole:?}");
    let part = client.request(&format!("GET {href}"), &format!("{anna}Range: bytes=1-\r\n")).await;
    assert_eq!((part.status, part.text()), (206, "ne"));
    let known = format!("{anna}If-None-Match: {etag}\r\n");
    assert_eq!(client.request(&format!("GET {href}"), &known).await.status, 304);
    assert_eq!(client.request(&format!("HEAD {href}"), &anna).await.field("content-length"), "3");

    // Who may not replace or delete does neither; nothing is replaced or deleted by mistake.
    let reader = basic("reader");
    for (method, status) in [("POST", 403), ("DELETE", 403)] {
        let refused = client.upload(&format!("{method} {href}"), &reader, b"").await;
        assert_eq!(refused.status, status, "{method}: {refused:?}");
    }
    for wrong in ["DELETE /files/a%20b.txt?versions", "PUT /files/a%20b.txt?versions"] {
        let refused = client.upload(wrong, &anna, b"").await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "EP1013"), "{wrong}");
    }
    let gone = format!("GET /files/other?version={id}");
    assert_eq!(client.request(&gone, &anna).await.code(), "EP0401");
    let stale = format!("{anna}If-Match: {etag}\r\n");
    assert_eq!(client.upload(&format!("POST {href}"), &stale, b"").await.status, 412);

    assert_eq!(client.upload(&format!("POST {href}"), &anna, b"").await.status, 204);
    assert_eq!(client.request("GET /files/a%20b.txt", &anna).await.text(), "one");
    let again = client.upload(&format!("POST {href}"), &anna, b"").await;
    assert_eq!((again.status, again.code().as_str()), (404, "EP0401"));
    let href = two["href"].as_str().unwrap();
    assert_eq!(client.request(&format!("DELETE {href}"), &anna).await.status, 204);
    let listed = client.request("GET /files/a%20b.txt?versions", &anna).await.json();
    assert_eq!(listed["versions"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["versions"][0]["size"], 5);
}

#[tokio::test]
async fn a_person_without_scripts_puts_a_version_back() {
    let node = start().await;
    let mut client = node.connect().await;
    let anna = basic("anna");
    for text in ["one", "two"] {
        client.upload("PUT /files/%3Cb%3E", &anna, text.as_bytes()).await;
    }
    let html = format!("{anna}Accept: text/html,*/*\r\n");
    let page = client.request("GET /files/", &html).await;
    assert!(page.text().contains("href=\"./%3Cb%3E?versions\""), "{}", page.text());
    let page = client.request("GET /files/%3Cb%3E?versions", &html).await;
    let text = page.text().to_owned();
    assert!(text.contains("&lt;b&gt;") && !text.contains("<bdi><b>") && !text.contains("<script"));
    assert!(text.contains("action=\"?versions\"") && text.contains("by anna"), "{text}");
    let id = text.split("name=\"restore-version\" value=\"").nth(1).unwrap()[..36].to_owned();
    let ours = format!(
        "{html}Content-Type: multipart/form-data; boundary=x\r\nOrigin: http://localhost\r\n"
    );
    let evil = ours.replace("http://localhost", "http://evil.example");
    let back = form(&[("restore-version", &id)]);
    let there = "POST /files/%3Cb%3E?versions";
    assert_eq!(client.upload(there, &evil, back.as_bytes()).await.status, 403);
    let answer = client.upload(there, &ours, back.as_bytes()).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/files/%3Cb%3E?versions"));
    assert_eq!(client.request("GET /files/%3Cb%3E", &anna).await.text(), "one");
    let page = client.request("GET /files/%3Cb%3E?versions", &html).await;
    let id = page.text().split("name=\"delete-version\" value=\"").nth(1).unwrap()[..36].to_owned();
    let purge = form(&[("delete-version", &id)]);
    assert_eq!(client.upload(there, &ours, purge.as_bytes()).await.status, 303);
    let page = client.request("GET /files/%3Cb%3E?versions", &html).await;
    assert!(page.text().contains("No version of this file is kept"), "{}", page.text());
}
