use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_nouns::{AccountType, Protocol};
use entrepot_vfs::HashAlgorithm;
use serde_json::json;

use super::client::{Answer, Client, basic};
use super::fixture::{Node, SMALL_BYTES};
use super::soon;

const TUS: &str = "Tus-Resumable: 1.0.0\r\n";
const OCTETS: &str = "Content-Type: application/offset+octet-stream\r\n";

fn noise(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at.wrapping_mul(at) >> 3) as u8).collect()
}

/// The field of metadata for these keys and values.
fn metadata(pairs: &[(&str, &str)]) -> String {
    let pair = |(key, value): &(&str, &str)| format!("{key} {}", STANDARD.encode(value));
    let pairs: Vec<String> = pairs.iter().map(pair).collect();
    format!("Upload-Metadata: {}\r\n", pairs.join(","))
}

/// Begins an upload of `size` bytes as tus does.
async fn create(client: &mut Client, size: usize, fields: &str) -> Answer {
    let fields = format!("{}{TUS}Upload-Length: {size}\r\n{fields}", basic("anna"));
    client.upload("POST /uploads", &fields, b"").await
}

async fn patch(client: &mut Client, location: &str, fields: &str, bytes: &[u8]) -> Answer {
    let fields = format!("{}{TUS}{OCTETS}{fields}\r\n", basic("anna"));
    client.upload(&format!("PATCH {location}"), &fields, bytes).await
}

async fn head(client: &mut Client, location: &str) -> Answer {
    client.request(&format!("HEAD {location}"), &format!("{}{TUS}", basic("anna"))).await
}

async fn file(client: &mut Client, path: &str) -> Vec<u8> {
    let answer = client.request(&format!("GET /files{path}"), &basic("anna")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[tokio::test]
async fn tus_appends_from_where_the_upload_stands_and_publishes_once() {
    let node = Node::start_tls().await;
    let mut client = node.connect_tls().await;
    let options = client.request("OPTIONS /uploads", "").await;
    assert_eq!((options.status, options.field("tus-version")), (204, "1.0.0"));
    assert!(options.field("tus-extension").contains("creation-with-upload"), "{options:?}");
    assert!(options.field("tus-checksum-algorithm").contains("sha256"));
    let whole = noise(2_500_000);
    let sent = metadata(&[("filename", "ä b.bin"), ("filetype", "x/y"), ("folder", "/")]);
    let created = create(&mut client, whole.len(), &sent).await;
    assert_eq!((created.status, created.field("upload-offset")), (201, "0"), "{created:?}");
    assert_eq!(created.field("tus-resumable"), "1.0.0");
    assert!(created.field("upload-expires").ends_with(" GMT"), "{created:?}");
    let location = created.field("location").to_owned();
    let first = patch(&mut client, &location, "Upload-Offset: 0", &whole[..1_700_000]).await;
    assert_eq!((first.status, first.field("upload-offset")), (204, "1700000"), "{first:?}");
    let wrong = patch(&mut client, &location, "Upload-Offset: 9", b"x").await;
    assert_eq!((wrong.status, wrong.code().as_str()), (409, "EP1080"));
    assert_eq!(wrong.field("upload-offset"), "1700000");
    let state = head(&mut client, &location).await;
    assert_eq!((state.status, state.field("upload-offset")), (200, "1700000"));
    assert_eq!(state.field("upload-length"), "2500000");
    assert_eq!(format!("Upload-Metadata: {}\r\n", state.field("upload-metadata")), sent);
    assert_eq!(state.field("cache-control"), "no-store");
    // A checksum counts for its request alone.
    let rest = &whole[1_700_000..];
    let sum = STANDARD.encode(HashAlgorithm::Sha256.hash(rest));
    let with_sum = format!("Upload-Offset: 1700000\r\nUpload-Checksum: sha256 {sum}");
    let mut changed = rest.to_vec();
    changed[5] ^= 1;
    let refused = patch(&mut client, &location, &with_sum, &changed).await;
    assert_eq!((refused.status, refused.code().as_str()), (460, "EP1083"));
    let last = patch(&mut client, &location, &with_sum, rest).await;
    assert_eq!((last.status, last.field("upload-offset")), (204, "2500000"), "{last:?}");
    assert_eq!(last.field("content-location"), "/files/%C3%A4%20b.bin");
    assert!(file(&mut client, "/%C3%A4%20b.bin").await == whole);
    // A client that lost the last answer hears it again.
    assert_eq!(head(&mut client, &location).await.field("upload-offset"), "2500000");
    let again = patch(&mut client, &location, "Upload-Offset: 1700000", rest).await;
    assert_eq!((again.status, again.field("upload-offset")), (409, "2500000"));
    let uploads = node.stop().await.uploads().await;
    assert_eq!((uploads.len(), uploads[0].protocol), (1, Protocol::Https));
    assert_eq!(uploads[0].digests.blake3.unwrap(), *blake3::hash(&whole).as_bytes());
}

#[tokio::test]
async fn uploads_come_with_their_creation_without_a_size_and_empty() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let named = |name| metadata(&[("filename", name)]);
    let fields = format!("{}{TUS}{OCTETS}Upload-Length: 5\r\n", basic("anna"));
    let whole = client.upload("POST /uploads", &(fields.clone() + &named("one")), b"bytes").await;
    assert_eq!((whole.status, whole.field("upload-offset")), (201, "5"), "{whole:?}");
    assert_eq!(file(&mut client, "/one").await, b"bytes");
    let begun = client.upload("POST /uploads", &(fields + &named("two")), b"by").await;
    assert_eq!((begun.status, begun.field("upload-offset")), (201, "2"), "{begun:?}");
    let location = begun.field("location").to_owned();
    assert_eq!(patch(&mut client, &location, "Upload-Offset: 2", b"tes").await.status, 204);
    assert_eq!(file(&mut client, "/two").await, b"bytes");
    let empty = create(&mut client, 0, &named("none")).await;
    assert_eq!((empty.status, empty.field("content-location")), (201, "/files/none"));
    assert_eq!(file(&mut client, "/none").await, b"");
    // The size is said later.
    let fields = format!("{}{TUS}Upload-Defer-Length: 1\r\n{}", basic("anna"), named("late"));
    let begun = client.upload("POST /uploads", &fields, b"").await;
    assert_eq!((begun.status, begun.field("upload-defer-length")), (201, "1"), "{begun:?}");
    let location = begun.field("location").to_owned();
    assert_eq!(patch(&mut client, &location, "Upload-Offset: 0", b"la").await.status, 204);
    let last = "Upload-Offset: 2\r\nUpload-Length: 4";
    assert_eq!(patch(&mut client, &location, last, b"te").await.status, 204);
    assert_eq!(file(&mut client, "/late").await, b"late");
    // Ended, by a client that can send no DELETE.
    let begun = create(&mut client, 3, &named("ended")).await;
    let location = begun.field("location").to_owned();
    let fields = format!("{}{TUS}X-HTTP-Method-Override: DELETE\r\n", basic("anna"));
    assert_eq!(client.upload(&format!("POST {location}"), &fields, b"").await.status, 204);
    let gone = client.request(&format!("GET {location}"), &basic("anna")).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "EP1087"));
    assert_eq!(node.stop().await.uploads().await.len(), 4);
}

#[tokio::test]
async fn what_is_refused_names_its_rule() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let named = metadata(&[("filename", "a"), ("folder", "/small")]);
    let most = usize::try_from(SMALL_BYTES).unwrap();
    let large = create(&mut client, most + 1, &named).await;
    assert_eq!((large.status, large.code().as_str()), (507, "EP0409"));
    assert!(large.text().contains(&SMALL_BYTES.to_string()), "{}", large.text());
    assert_eq!(large.field("tus-resumable"), "1.0.0");
    let fields = format!("{}{TUS}Upload-Length: 9223372036854775808\r\n{named}", basic("anna"));
    let huge = client.upload("POST /uploads", &fields, b"").await;
    assert_eq!((huge.status, huge.code().as_str()), (413, "EP0409"));
    let fields = format!("{}{TUS}Upload-Length: 1\r\n{named}", basic("reader"));
    let denied = client.upload("POST /uploads", &fields, b"").await;
    assert_eq!((denied.status, denied.code().as_str()), (403, "EP0402"));
    for (fields, status, code) in [
        (format!("{}{named}", basic("anna")), 400, "EP1013"),
        (format!("{}Upload-Length: 1\r\n", basic("anna")), 400, "EP1013"),
        (format!("{}Upload-Length: -1\r\n{named}", basic("anna")), 400, "EP1013"),
        (format!("{}Tus-Resumable: 0.2.2\r\n{named}", basic("anna")), 412, "EP1088"),
        (format!("{TUS}Upload-Length: 1\r\n{named}"), 401, "EP1000"),
    ] {
        let refused = client.upload("POST /uploads", &fields, b"").await;
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{fields}");
    }
    let created = create(&mut client, 4, &named).await;
    let location = created.field("location").to_owned();
    let fields = format!("{}{TUS}Upload-Offset: 0\r\n", basic("anna"));
    let kind = client.upload(&format!("PATCH {location}"), &fields, b"x").await;
    assert_eq!((kind.status, kind.code().as_str()), (415, "EP1089"));
    let sum = "Upload-Offset: 0\r\nUpload-Checksum: blake9 eA==";
    let sum = patch(&mut client, &location, sum, b"x").await;
    assert_eq!((sum.status, sum.code().as_str()), (400, "EP1090"));
    let more = patch(&mut client, &location, "Upload-Offset: 0", b"12345").await;
    assert_eq!((more.status, more.code().as_str()), (400, "EP0416"));
    // Others see nothing of it.
    let other = client.request(&format!("GET {location}"), &basic("admin")).await;
    assert_eq!((other.status, other.code().as_str()), (404, "EP1087"));
    assert!(node.stop().await.uploads().await.is_empty());
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_replaced_or_kept() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let put = client.upload("PUT /files/a.txt", &basic("anna"), b"old").await;
    assert_eq!(put.status, 201);
    let named = metadata(&[("filename", "a.txt")]);
    let refused = create(&mut client, 3, &named).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "EP0403"));
    let both = metadata(&[("filename", "a.txt"), ("conflict", "keep-both")]);
    let created = create(&mut client, 3, &both).await;
    let location = created.field("location").to_owned();
    let kept = patch(&mut client, &location, "Upload-Offset: 0", b"new").await;
    assert_eq!(kept.field("content-location"), "/files/a%20%281%29.txt", "{kept:?}");
    let replaced = create(&mut client, 3, &format!("{named}Upload-Conflict: replace\r\n")).await;
    let location = replaced.field("location").to_owned();
    assert_eq!(file(&mut client, "/a.txt").await, b"old");
    assert_eq!(patch(&mut client, &location, "Upload-Offset: 0", b"new").await.status, 204);
    assert_eq!(file(&mut client, "/a.txt").await, b"new");
    // The name is taken while the upload runs: the client is told, also when it asks again.
    let created = create(&mut client, 3, &metadata(&[("filename", "b.txt")])).await;
    let location = created.field("location").to_owned();
    client.upload("PUT /files/b.txt", &basic("anna"), b"other").await;
    let refused = patch(&mut client, &location, "Upload-Offset: 0", b"new").await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "EP0403"));
    assert_eq!(head(&mut client, &location).await.status, 409);
    assert_eq!(client.request("DELETE /files/b.txt", &basic("anna")).await.status, 204);
    assert_eq!(head(&mut client, &location).await.field("upload-offset"), "3");
    assert_eq!(file(&mut client, "/b.txt").await, b"new");
}

#[tokio::test]
async fn a_ticket_continues_its_upload_and_nothing_else() {
    let node = Node::start_tls().await;
    let mut client = node.connect_tls().await;
    let created = create(&mut client, 6, &metadata(&[("filename", "f")])).await;
    let other = create(&mut client, 6, &metadata(&[("filename", "g")])).await;
    let (location, ticket) = (created.field("location"), created.field("upload-ticket"));
    drop(client);
    let mut client = node.connect_tls().await;
    let by = |ticket: &str| format!("{TUS}{OCTETS}Upload-Ticket: {ticket}\r\n");
    let append = format!("{}Upload-Offset: 0\r\n", by(ticket));
    // A sign-in that has ended beside it does no harm.
    let append = format!("{append}{}", super::client::basic_with("anna", "expired"));
    let answer = client.upload(&format!("PATCH {location}"), &append, b"one").await;
    assert_eq!((answer.status, answer.field("upload-offset")), (204, "3"), "{answer:?}");
    let elsewhere = other.field("location");
    for (at, ticket) in [(elsewhere, ticket), (location, "x"), (location, &ticket[..40])] {
        let refused = client.request(&format!("GET {at}"), &by(ticket)).await;
        assert_eq!((refused.status, refused.code().as_str()), (404, "EP1087"), "{at}");
    }
    for at in ["/uploads", "/files/", "/api/v1/session"] {
        assert_eq!(client.request(&format!("GET {at}"), &by(ticket)).await.status, 401, "{at}");
    }
    // Without the account it is good for nothing.
    let disable = |enabled: bool| {
        node.world.account("anna", move |account| {
            account.account_type = AccountType::Partner;
            account.enabled = enabled;
        })
    };
    disable(false).await;
    node.world.directory.refresh().await.unwrap();
    let append = format!("{}Upload-Offset: 3\r\n", by(ticket));
    let refused = client.upload(&format!("PATCH {location}"), &append, b"two").await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "EP0402"));
    disable(true).await;
    node.world.directory.refresh().await.unwrap();
    let answer = client.upload(&format!("PATCH {location}"), &append, b"two").await;
    assert_eq!((answer.status, answer.field("content-location")), (204, "/files/f"), "{answer:?}");
    assert_eq!(file(&mut client, "/f").await, b"onetwo");
    let uploads = node.stop().await.uploads().await;
    assert_eq!((uploads.len(), uploads[0].protocol), (1, Protocol::Https));
}

#[tokio::test]
async fn what_came_before_a_cut_counts() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let whole = noise(3_000_000);
    let created = create(&mut client, whole.len(), &metadata(&[("filename", "cut")])).await;
    let location = created.field("location").to_owned();
    let fields = format!("{}{TUS}{OCTETS}Upload-Offset: 0\r\n", basic("anna"));
    let request = format!(
        "PATCH {location} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n",
        whole.len()
    );
    client.send(request).await;
    client.send(&whole[..1_200_000]).await;
    drop(client);
    let mut client = node.connect().await;
    let offset = soon(async {
        loop {
            // Until the server sees the cut the upload is in use, and stands at its beginning.
            let offset = head(&mut client, &location).await.field("upload-offset").to_owned();
            if offset != "0" {
                break offset.parse::<usize>().unwrap();
            }
            tokio::task::yield_now().await;
        }
    });
    let offset = offset.await;
    assert_eq!(offset, 1_200_000);
    let rest = format!("Upload-Offset: {offset}");
    assert_eq!(patch(&mut client, &location, &rest, &whole[offset..]).await.status, 204);
    assert!(file(&mut client, "/cut").await == whole);
    assert_eq!(node.stop().await.uploads().await.len(), 1);
}

#[tokio::test]
async fn a_client_that_comes_back_does_not_wait_for_its_dead_connection() {
    let node = Node::start().await;
    let mut dead = node.connect().await;
    let created = create(&mut dead, 6, &metadata(&[("filename", "f")])).await;
    let location = created.field("location").to_owned();
    let fields = format!("{}{TUS}{OCTETS}Upload-Offset: 0\r\n", basic("anna"));
    let request = format!("PATCH {location} HTTP/1.1\r\nHost: localhost\r\n{fields}");
    dead.send(format!("{request}Content-Length: 6\r\n\r\none")).await;
    // The connection stays open, and nothing more comes by it.
    let mut client = node.connect().await;
    let asked = soon(async {
        loop {
            let answer = patch(&mut client, &location, "Upload-Offset: 3", b"two").await;
            // The first may not have begun, or just have given way.
            if answer.status == 204 {
                break answer;
            }
            assert!(matches!(answer.status, 409 | 423), "{answer:?}");
        }
    });
    assert_eq!(asked.await.field("upload-offset"), "6");
    assert_eq!(file(&mut client, "/f").await, b"onetwo");
    assert_eq!(node.stop().await.uploads().await.len(), 1);
}

const PART: usize = 100_000;

fn crc32c(bytes: &[u8]) -> String {
    // As the wire has it: the four bytes of the number, high byte first.
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    format!("Content-Digest: crc32c=:{}:\r\n", STANDARD.encode((!crc).to_be_bytes()))
}

#[tokio::test]
async fn parts_come_in_any_order_side_by_side_and_again() {
    let node = Node::start_tls().await;
    let mut client = node.connect_tls().await;
    let whole = noise(5 * PART + 7);
    let blake3 = blake3::hash(&whole);
    let document = json!({
        "path": "/parts.bin",
        "size": whole.len(),
        "part_bytes": PART,
        "modified": "2026-01-02T03:04:05Z",
        "digests": { "blake3": blake3.to_hex().to_string() },
    });
    let json = format!("{}Content-Type: application/json\r\n", basic("anna"));
    let document = document.to_string();
    let created = client.upload("POST /uploads", &json, document.as_bytes()).await;
    assert_eq!(created.status, 201, "{created:?}");
    let (location, ticket) =
        (created.field("location").to_owned(), created.json()["ticket"].clone());
    let by_ticket = format!("Upload-Ticket: {}\r\n", ticket.as_str().unwrap());
    let part = |number: usize| &whole[number * PART..whole.len().min((number + 1) * PART)];
    let at = |number: usize| format!("PUT {location}/parts/{number}");
    let (mut other, mut third) = (node.connect_tls().await, node.connect_tls().await);
    let sum = |number: usize| format!("{by_ticket}{}", crc32c(part(number)));
    let (last, first, middle) = tokio::join!(
        async { client.upload(&at(5), &sum(5), part(5)).await },
        async { other.upload(&at(0), &sum(0), part(0)).await },
        async { third.upload(&at(3), &sum(3), part(3)).await },
    );
    for answer in [last, first, middle] {
        assert_eq!(answer.status, 204, "{answer:?}");
    }
    let state = client.request(&format!("GET {location}"), &by_ticket).await.json();
    assert_eq!(state["parts"], json!([[0, 0], [3, 3], [5, 5]]));
    assert_eq!((&state["offset"], &state["stage"]), (&json!(PART), &json!("receiving")));
    let early = client.request(&format!("POST {location}/complete"), &by_ticket).await;
    assert_eq!((early.status, early.code().as_str()), (409, "EP0416"));
    // Damaged on the way, too short, no such part: nothing of it counts.
    let damaged = client.upload(&at(1), &sum(2), part(1)).await;
    assert_eq!((damaged.status, damaged.code().as_str()), (460, "EP1083"));
    let short = client.upload(&at(1), &by_ticket, &part(1)[..9]).await;
    assert_eq!((short.status, short.code().as_str()), (400, "EP0416"));
    let none = client.upload(&at(6), &by_ticket, b"x").await;
    assert_eq!((none.status, none.code().as_str()), (422, "EP1084"));
    // Once more the same is the same; something else is not.
    assert_eq!(client.upload(&at(3), &sum(3), part(3)).await.status, 204);
    let differs = client.upload(&at(3), &by_ticket, part(4)).await;
    assert_eq!((differs.status, differs.code().as_str()), (422, "EP1084"));
    for number in [4, 2, 1] {
        assert_eq!(client.upload(&at(number), &sum(number), part(number)).await.status, 204);
    }
    for _ in 0..2 {
        let done = client.request(&format!("POST {location}/complete"), &by_ticket).await;
        assert_eq!((done.status, &done.json()["path"]), (200, &json!("/parts.bin")), "{done:?}");
        assert_eq!(done.json()["digests"]["blake3"], blake3.to_hex().to_string());
    }
    assert!(file(&mut client, "/parts.bin").await == whole);
    let listed = client.request("GET /files/", &basic("anna")).await.json();
    assert_eq!(listed["entries"][0]["modified"], "2026-01-02T03:04:05.000000Z");
    assert_eq!(node.stop().await.uploads().await.len(), 1);
}

#[tokio::test]
async fn a_whole_that_is_not_the_announced_one_is_dropped_and_an_end_leaves_nothing() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let json = format!("{}Content-Type: application/json\r\n", basic("anna"));
    let wrong = "00".repeat(32);
    let document =
        json!({"path": "/x", "size": 3, "part_bytes": PART, "digests": {"sha256": wrong}});
    let document = document.to_string();
    let mut begin = async |document: &[u8]| client.upload("POST /uploads", &json, document).await;
    let created = begin(document.as_bytes()).await;
    let unknown = begin(br#"{"path": "/x", "sise": 3}"#).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (400, "EP1013"));
    let small = begin(br#"{"path": "/x", "size": 3, "part_bytes": 1}"#).await;
    assert_eq!((small.status, small.code().as_str()), (422, "EP1084"));
    let location = created.field("location").to_owned();
    let put = client.upload(&format!("PUT {location}/parts/0"), &basic("anna"), b"abc").await;
    assert_eq!(put.status, 204);
    let done = client.request(&format!("POST {location}/complete"), &basic("anna")).await;
    assert_eq!((done.status, done.code().as_str()), (422, "EP1083"));
    let created = client.upload("POST /uploads", &json, br#"{"path": "/y", "size": 3}"#).await;
    let location = created.field("location").to_owned();
    let listed = client.request("GET /uploads", &basic("anna")).await.json();
    assert_eq!(listed["uploads"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(client.request(&format!("DELETE {location}"), &basic("anna")).await.status, 204);
    let listed = client.request("GET /uploads", &basic("anna")).await.json();
    assert_eq!(listed, json!({"uploads": []}));
    assert!(node.stop().await.uploads().await.is_empty());
}
