use entrepot_nouns::{Direction, Protocol};

use super::client::{Client, basic};
use super::fixture::{Node, SMALL_BYTES};

async fn put(client: &mut Client, path: &str, body: &[u8]) -> String {
    let answer = client.upload(&format!("PUT /files{path}"), &basic("anna"), body).await;
    assert!(matches!(answer.status, 201 | 204), "{answer:?}");
    answer.field("etag").to_owned()
}

#[tokio::test]
async fn a_file_goes_up_and_comes_down_by_parts() {
    let node = Node::start_tls().await;
    let mut client = node.connect_tls().await;
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let answer = client.upload("PUT /files/a%20b.bin", &basic("anna"), &bytes).await;
    assert_eq!((answer.status, answer.field("location")), (201, "/files/a%20b.bin"));
    let etag = answer.field("etag").to_owned();
    assert!(etag.starts_with('"'), "{etag}");
    let whole = client.request("GET /files/a%20b.bin", &basic("anna")).await;
    assert_eq!((whole.status, whole.field("etag")), (200, &*etag));
    assert!(whole.body == bytes);
    for (field, value) in [
        ("accept-ranges", "bytes"),
        ("content-type", "application/octet-stream"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("content-disposition", "attachment; filename=\"a b.bin\"; filename*=UTF-8''a%20b.bin"),
    ] {
        assert_eq!(whole.field(field), value);
    }
    let rest = format!("{}Range: bytes=2999990-\r\nIf-Range: {etag}\r\n", basic("anna"));
    let part = client.request("GET /files/a%20b.bin", &rest).await;
    assert_eq!(part.status, 206);
    assert_eq!(part.field("content-range"), "bytes 2999990-2999999/3000000");
    assert_eq!(part.body, bytes[2_999_990..]);
    let head = client.request("HEAD /files/a%20b.bin", &basic("anna")).await;
    assert_eq!((head.status, head.field("content-length")), (200, "3000000"));
    let uploads = node.stop().await.uploads().await;
    assert_eq!((uploads.len(), uploads[0].size), (1, 3_000_000));
    assert_eq!(uploads[0].digests.blake3.unwrap(), *blake3::hash(&bytes).as_bytes());
    assert_eq!(uploads[0].protocol, Protocol::Https);
}

#[tokio::test]
async fn ranges_and_states_are_what_the_client_knows() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let old = put(&mut client, "/a", b"0123456789").await;
    let with = |fields: &str| format!("{}{fields}\r\n", basic("anna"));
    let answer = client.request("GET /files/a", &with("Range: bytes=10-")).await;
    assert_eq!((answer.status, answer.code().as_str()), (416, "EP1010"));
    assert_eq!(answer.field("content-range"), "bytes */10");
    let several = client.request("GET /files/a", &with("Range: bytes=0-1,3-4")).await;
    assert_eq!((several.status, several.text()), (200, "0123456789"));
    let answer = client.request("GET /files/a", &with(&format!("If-None-Match: {old}"))).await;
    assert_eq!((answer.status, answer.field("etag")), (304, &*old));
    let new = put(&mut client, "/a", b"abc").await;
    assert_ne!(new, old);
    let rest = with(&format!("Range: bytes=1-\r\nIf-Range: {old}"));
    let whole = client.request("GET /files/a", &rest).await;
    assert_eq!((whole.status, whole.text()), (200, "abc"), "parts of two files");
    for condition in [format!("If-Match: {old}"), "If-None-Match: *".to_owned()] {
        let answer = client.upload("PUT /files/a", &with(&condition), b"lost").await;
        assert_eq!((answer.status, answer.code().as_str()), (412, "EP1009"), "{condition}");
        let answer = client.request("DELETE /files/a", &with(&condition)).await;
        assert_eq!(answer.status, 412, "{condition}");
    }
    let answer = client.upload("PUT /files/a", &with(&format!("If-Match: {new}")), b"last").await;
    assert_eq!(answer.status, 204);
    let whole = client.request("GET /files/a", &basic("anna")).await;
    assert_eq!(whole.text(), "last");
    let exclusive = client.upload("PUT /files/b", &with("If-None-Match: *"), b"").await;
    assert_eq!(exclusive.status, 201);
}

#[tokio::test]
async fn of_two_writers_who_know_one_state_the_second_is_told() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let etag = put(&mut client, "/a", b"first").await;
    let condition = format!("{}If-Match: {etag}\r\nContent-Length: 4\r\n", basic("anna"));
    let head = format!("PUT /files/a HTTP/1.1\r\nHost: localhost\r\n{condition}\r\n");
    let mut slow = node.connect().await;
    slow.send(format!("{head}sl")).await;
    let meters = node.world.vfs.meters();
    while meters.active(Direction::In) == 0 {
        tokio::task::yield_now().await;
    }
    put(&mut client, "/a", b"other").await;
    slow.send("ow").await;
    let answer = slow.answer().await;
    assert_eq!((answer.status, answer.code().as_str()), (412, "EP1009"));
    assert_eq!(client.request("GET /files/a", &basic("anna")).await.text(), "other");
}

#[tokio::test]
async fn names_are_changed_made_and_removed() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let anna = basic("anna");
    let made = client.request("POST /files/in?mkdir", &anna).await;
    assert_eq!((made.status, made.field("location")), (201, "/files/in/"));
    put(&mut client, "/in/a", b"a").await;
    put(&mut client, "/in/b", b"b").await;
    let moved = client.request("POST /files/in/a?move=/in/b", &anna).await;
    assert_eq!((moved.status, moved.code().as_str()), (409, "EP0403"));
    let moved = client.request("POST /files/in/a?move=/in/c%20d", &anna).await;
    assert_eq!((moved.status, moved.field("location")), (201, "/files/in/c%20d"));
    let moved = client.request("POST /files/in/b?move=/in/c%20d&replace=true", &anna).await;
    assert_eq!(moved.status, 204);
    assert_eq!(client.request("GET /files/in/c%20d", &anna).await.text(), "b");
    assert_eq!(client.request("DELETE /files/in", &anna).await.status, 409, "it is not empty");
    assert_eq!(client.request("DELETE /files/in/c%20d", &anna).await.status, 204);
    assert_eq!(client.request("DELETE /files/in", &anna).await.status, 204);
    let gone = client.request("DELETE /files/in", &anna).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "EP0401"));
    let answer = client.request("PATCH /files/in", &anna).await;
    assert_eq!((answer.status, answer.code().as_str()), (405, "EP1012"));
}

#[tokio::test]
async fn a_listing_goes_on_where_it_ended() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    for name in ["c", "a", "e", "b", "d"] {
        put(&mut client, &format!("/{name}"), b"x").await;
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let line = format!("GET /files/?limit=2{cursor}");
        let answer = client.request(&line, &basic("anna")).await.json();
        let entries = answer["entries"].as_array().unwrap().clone();
        assert!(entries.len() <= 2);
        names.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        match answer["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e", "small"]);
    let answer = client.request("GET /files/?cursor=%21", &basic("anna")).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "EP1013"));
}

#[tokio::test]
async fn a_person_without_scripts_lists_downloads_and_uploads() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    put(&mut client, "/%3Cscript%3Ealert(1)", b"x").await;
    let html = format!("{}Accept: text/html,*/*\r\n", basic("anna"));
    let page = client.request("GET /files/", &html).await;
    assert_eq!(page.status, 200);
    assert!(page.field("content-type").starts_with("text/html"));
    let policy = page.field("content-security-policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("script-src"), "{policy}");
    assert!(!page.text().contains("<script") && page.text().contains("&lt;script&gt;"));
    assert!(page.text().contains("href=\"./%3Cscript%3Ealert%281%29\""), "{}", page.text());
    let form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\dir\\new.txt\"\
                \r\nContent-Type: text/plain\r\n\r\nhello\r\n--x\r\n\
                Content-Disposition: form-data; name=\"file\"; filename=\"\"\r\n\r\n\r\n--x--\r\n";
    let kind = format!("{html}Content-Type: multipart/form-data; boundary=x\r\n");
    let ours = format!("{kind}Origin: http://localhost\r\n");
    let answer = client.upload("POST /files/", &ours, form.as_bytes()).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/files/"));
    assert_eq!(client.request("GET /files/new.txt", &basic("anna")).await.text(), "hello");
    let again = client.upload("POST /files/", &ours, form.as_bytes()).await;
    assert_eq!((again.status, again.field("content-type")), (409, "text/html; charset=utf-8"));
    assert!(again.text().contains("EP0403") && again.text().contains("new.txt"), "{again:?}");
    let replace = "--x\r\nContent-Disposition: form-data; name=\"replace\"\r\n\r\ntrue\r\n";
    let answer = client.upload("POST /files/", &ours, format!("{replace}{form}").as_bytes()).await;
    assert_eq!(answer.status, 303);
    let evil = format!("{kind}Origin: http://evil.example\r\n");
    let answer = client.upload("POST /files/", &evil, form.as_bytes()).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("EP1005"), "{answer:?}");
    let cut = &form.as_bytes()[..form.len() - 90];
    let answer = client.upload("POST /files/", &ours, cut).await;
    assert_eq!(answer.status, 400, "{answer:?}");
}

#[tokio::test]
async fn what_an_account_may_not_do_is_refused_with_the_reason() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    put(&mut client, "/a", b"abc").await;
    let reader = basic("reader");
    assert_eq!(client.request("GET /files/a", &reader).await.text(), "abc");
    for line in ["DELETE /files/a", "POST /files/d?mkdir", "POST /files/a?move=/b"] {
        let answer = client.request(line, &reader).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "EP0402"), "{line}");
    }
    let answer = client.upload("PUT /files/a", &reader, b"x").await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "EP0402"));
    let large = vec![0; SMALL_BYTES as usize + 1];
    let answer = client.upload("PUT /files/small/x", &basic("anna"), &large).await;
    assert_eq!((answer.status, answer.code().as_str()), (507, "EP0409"));
    let partial = format!("{}Content-Range: bytes 0-1/5\r\n", basic("anna"));
    assert_eq!(client.upload("PUT /files/a", &partial, b"xy").await.status, 400);
}

#[tokio::test]
async fn hostile_addresses_are_refused() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    for path in ["/..", "/%2e%2e/x", "/..;/x", "/a%2fb", "/a%00", "/%ff", "/a//b", "/%zz", "/a/./b"]
    {
        let answer = client.request(&format!("GET /files{path}"), &basic("anna")).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "EP1004"), "{path}");
    }
    let long = format!("PUT /files/{}", "a".repeat(256));
    assert_eq!(client.upload(&long, &basic("anna"), b"").await.status, 400);
    let longest = format!("PUT /files/{}", "a".repeat(255));
    assert_eq!(client.upload(&longest, &basic("anna"), b"").await.status, 201);
}

#[tokio::test]
async fn a_body_that_breaks_off_publishes_nothing() {
    let node = Node::start_limited(|limits| limits.body_seconds = 1).await;
    let head = format!(
        "PUT /files/a HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 10\r\n\r\n12345",
        basic("anna")
    );
    let mut client = node.connect().await;
    client.send(&head).await;
    let late = client.answer().await;
    assert_eq!((late.status, late.code().as_str()), (408, "EP1007"));
    let mut client = node.connect().await;
    client.send(&head).await;
    drop(client);
    let mut client = node.connect().await;
    let chunked = format!("{}Transfer-Encoding: chunked\r\n", basic("anna"));
    let head = format!("PUT /files/b HTTP/1.1\r\nHost: localhost\r\n{chunked}\r\n");
    client.send(format!("{head}5\r\n12345\r\nzz\r\n")).await;
    assert!(client.rest().await.starts_with("HTTP/1.1 400"));
    let mut client = node.connect().await;
    for path in ["/files/a", "/files/b"] {
        let answer = client.request(&format!("GET {path}"), &basic("anna")).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    let world = node.stop().await;
    assert!(world.uploads().await.is_empty());
}

#[tokio::test]
async fn a_refused_upload_is_told_why_though_its_client_still_sends() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let body = vec![7; 4 << 20];
    let answer = client.upload("PUT /files/small/x", &basic("anna"), &body).await;
    assert_eq!(answer.status, 507);
    // The connection goes on behind the body that was thrown away.
    assert_eq!(client.request("GET /files/", &basic("anna")).await.status, 200);
    let asks = format!("{}Expect: 100-continue\r\nContent-Length: 5\r\n", basic("reader"));
    let head = format!("PUT /files/a HTTP/1.1\r\nHost: localhost\r\n{asks}\r\n");
    let mut client = node.connect().await;
    client.send(head).await;
    assert_eq!(client.answer().await.status, 403, "it was not told to send");
}

#[tokio::test]
async fn too_many_requests_are_refused_before_their_bodies_are_read() {
    let node = Node::start_limited(|limits| limits.requests = 1).await;
    let mut first = node.connect().await;
    let head = |path: &str| {
        let fields = format!("{}Content-Length: 5\r\n", basic("anna"));
        format!("PUT /files/{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
    };
    first.send(head("a")).await;
    while node.world.vfs.sessions().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut other = node.connect().await;
    other.send(head("b")).await;
    let answer = other.answer().await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "EP1003"));
    assert!(!answer.field("retry-after").is_empty());
    first.send("12345").await;
    assert_eq!(first.answer().await.status, 201);
}

#[tokio::test]
async fn an_account_that_is_disabled_ends_its_upload() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let fields = format!("{}Content-Length: 5\r\n", basic("anna"));
    client.send(format!("PUT /files/a HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n12")).await;
    while node.world.vfs.sessions().is_empty() {
        tokio::task::yield_now().await;
    }
    node.world.account("anna", |account| account.enabled = false).await;
    assert_eq!(client.answer().await.status, 401);
    assert!(node.stop().await.uploads().await.is_empty());
}
