use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_vfs::HashAlgorithm;
use serde_json::json;

use super::client::{Client, basic};
use super::fixture::Node;

const GET: &str = "GET /files";

/// A directory with a file, one in a directory below it, and one beside it.
async fn filled(node: &Node) -> Client {
    let mut client = node.connect().await;
    for path in ["/d?mkdir", "/d/e?mkdir"] {
        client.upload(&format!("POST /files{path}"), &basic("anna"), b"").await;
    }
    for (path, bytes) in [("/d/a.txt", "first"), ("/d/e/B.TXT", "second"), ("/d/c", "third")] {
        let line = format!("PUT /files{path}");
        assert_eq!(client.upload(&line, &basic("anna"), bytes.as_bytes()).await.status, 201);
    }
    client
}

fn with(fields: &str) -> String {
    format!("{}{fields}\r\n", basic("anna"))
}

fn has(archive: &[u8], text: &str) -> bool {
    archive.windows(text.len()).any(|part| part == text.as_bytes())
}

#[tokio::test]
async fn a_directory_comes_as_an_archive_whole_and_in_ranges() {
    let node = Node::start().await;
    let mut client = filled(&node).await;
    let head = client.request("HEAD /files/d/?zip", &basic("anna")).await;
    let whole = client.request("GET /files/d/?zip", &basic("anna")).await;
    assert_eq!((head.status, whole.status), (200, 200));
    assert_eq!(head.field("content-length"), whole.body.len().to_string());
    assert_eq!(whole.field("content-type"), "application/zip");
    let named = "attachment; filename=\"d.zip\"; filename*=UTF-8''d.zip";
    assert_eq!(whole.field("content-disposition"), named);
    assert!(whole.body.starts_with(b"PK"));
    for name in ["d/a.txt", "d/e/B.TXT", "second"] {
        assert!(has(&whole.body, name), "{name}");
    }
    let etag = whole.field("etag").to_owned();
    assert!(etag.starts_with('"'), "{etag}");
    let rest = with(&format!("Range: bytes=100-\r\nIf-Range: {etag}"));
    let part = client.request("GET /files/d/?zip", &rest).await;
    assert_eq!((part.status, part.body.as_slice()), (206, &whole.body[100..]));
    let again = client.request("GET /files/d/?zip", &with(&format!("If-None-Match: {etag}"))).await;
    assert_eq!(again.status, 304);
    // By content negotiation too, but not for a browser, which takes everything.
    let asked = client.request("GET /files/d/", &with("Accept: application/zip")).await;
    assert_eq!(asked.body, whole.body);
    let page =
        client.request("GET /files/d/", &with("Accept: text/html,application/zip,*/*")).await;
    assert!(page.field("content-type").starts_with("text/html"));
    // Changed, it is another archive: the rest of the old one does not fit.
    client.upload("PUT /files/d/a.txt", &basic("anna"), b"FIRST").await;
    let new = client.request("GET /files/d/?zip", &rest).await;
    assert_eq!((new.status, has(&new.body, "FIRST")), (200, true));
    assert_ne!(new.field("etag"), etag);
    let file = client.request("GET /files/d/a.txt?zip", &basic("anna")).await;
    assert_eq!((file.status, file.code().as_str()), (409, "EP0406"));
}

#[tokio::test]
async fn chosen_entries_come_as_one_archive() {
    let node = Node::start().await;
    let mut client = filled(&node).await;
    let get = client.request("GET /files/d/?zip&name=c&name=e", &basic("anna")).await;
    assert_eq!(get.status, 200, "{get:?}");
    assert!(has(&get.body, "e/B.TXT") && has(&get.body, "third") && !has(&get.body, "d/"));
    assert!(!has(&get.body, "a.txt"));
    let form = with("Content-Type: application/x-www-form-urlencoded");
    let none = client.upload("POST /files/d/?zip", &form, b"").await;
    assert_eq!((none.status, none.code().as_str()), (400, "EP1013"));
    for (kind, body) in [
        ("application/x-www-form-urlencoded", "name=c&name=e"),
        ("application/json", "{\"names\": [\"c\", \"e\"]}"),
    ] {
        let fields = with(&format!("Content-Type: {kind}"));
        let post = client.upload("POST /files/d/?zip", &fields, body.as_bytes()).await;
        assert_eq!((post.status, post.body == get.body), (200, true), "{kind}");
    }
    for (name, status, code) in
        [("nothing", 404, "EP0401"), ("..", 400, "EP1004"), ("e%2FB.TXT", 400, "EP1004")]
    {
        let line = format!("GET /files/d/?zip&name=c&name={name}");
        let refused = client.request(&line, &basic("anna")).await;
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{name}");
    }
}

#[tokio::test]
async fn entries_are_found_by_name_page_by_page() {
    let node = Node::start().await;
    let mut client = filled(&node).await;
    let all = client.request(&format!("{GET}/?search=txt"), &basic("anna")).await.json();
    let paths = |page: &serde_json::Value| {
        let found = page["found"].as_array().unwrap().iter();
        found.map(|entry| entry["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(paths(&all), ["/d/a.txt", "/d/e/B.TXT"]);
    assert_eq!((&all["found"][0]["size"], &all["next"]), (&json!(5), &json!(null)));
    let first =
        client.request(&format!("{GET}/?search=*.txt&limit=1"), &basic("anna")).await.json();
    assert_eq!(paths(&first), ["/d/a.txt"]);
    let next = first["next"].as_str().unwrap();
    let line = format!("{GET}/?search=*.txt&limit=1&cursor={next}");
    let second = client.request(&line, &basic("anna")).await.json();
    assert_eq!(paths(&second), ["/d/e/B.TXT"]);
    let html = format!("{}Accept: text/html\r\n", basic("anna"));
    let page = client.request(&format!("{GET}/?search=*.txt&limit=1"), &html).await;
    let text = page.text();
    assert!(
        text.contains("value=\"*.txt\"") && text.contains("?search=%2A.txt&amp;cursor="),
        "{text}"
    );
    assert!(text.contains("class=\"n\"><a href=\"/files/") && !text.contains("<script"), "{text}");
    let page = client.request(&format!("{GET}/?search=%22%3E%3Cscript%3E"), &html).await;
    assert!(page.text().contains("Nothing here") && !page.text().contains("<script"));
    let empty = client.request(&format!("{GET}/?search="), &basic("anna")).await;
    assert_eq!((empty.status, empty.code().as_str()), (400, "EP1013"));
}

#[tokio::test]
async fn files_and_directories_are_copied() {
    let node = Node::start().await;
    let mut client = filled(&node).await;
    let copy = async |client: &mut Client, line: &str| {
        client.upload(&format!("POST /files{line}"), &basic("anna"), b"").await
    };
    let done = copy(&mut client, "/d?copy=/f").await;
    assert_eq!((done.status, done.field("location")), (201, "/files/f"), "{done:?}");
    assert_eq!(done.json()["files"], 3);
    let read = client.request("GET /files/f/e/B.TXT", &basic("anna")).await;
    assert_eq!(read.text(), "second");
    let taken = copy(&mut client, "/d/c?copy=/d/a.txt").await;
    assert_eq!((taken.status, taken.code().as_str()), (409, "EP0403"));
    let both = copy(&mut client, "/d/c?copy=/d/a.txt&conflict=keep-both").await;
    assert_eq!(
        (both.status, both.field("location")),
        (201, "/files/d/a%20%281%29.txt"),
        "{both:?}"
    );
    let replaced = copy(&mut client, "/d/c?copy=/d/a.txt&replace=true").await;
    assert_eq!(replaced.status, 201);
    assert_eq!(client.request("GET /files/d/a.txt", &basic("anna")).await.text(), "third");
    let into = copy(&mut client, "/d?copy=/d/e/d").await;
    assert_eq!((into.status, into.code().as_str()), (403, "EP0402"));
    assert_eq!(copy(&mut client, "/d?copy=x").await.code(), "EP1004");
    assert_eq!(node.stop().await.uploads().await.len(), 3 + 3 + 2);
}

#[tokio::test]
async fn the_digest_of_a_file_is_there_for_who_asks() {
    let node = Node::start().await;
    let mut client = filled(&node).await;
    let plain = client.request("GET /files/d/a.txt", &basic("anna")).await;
    assert_eq!(plain.field("repr-digest"), "", "nobody computed it");
    let wanted = with("Want-Repr-Digest: sha-256=3");
    let sum_of = |bytes: &[u8]| {
        let hash = HashAlgorithm::Sha256.hash(bytes);
        format!("sha-256=:{}:", STANDARD.encode(hash))
    };
    let head = client.request("HEAD /files/d/a.txt", &wanted).await;
    assert_eq!(head.field("repr-digest"), sum_of(b"first"));
    // From then on it is known, until the file is another one.
    let known = client.request("GET /files/d/a.txt", &basic("anna")).await;
    assert_eq!(known.field("repr-digest"), sum_of(b"first"));
    client.upload("PUT /files/d/a.txt", &basic("anna"), b"other").await;
    let other = client.request("GET /files/d/a.txt", &basic("anna")).await;
    assert_eq!(other.field("repr-digest"), "");
    let unwanted = with("Want-Repr-Digest: sha-256=0, sha-512=9");
    let other = client.request("GET /files/d/a.txt", &unwanted).await;
    assert_eq!(other.field("repr-digest"), "");
}
