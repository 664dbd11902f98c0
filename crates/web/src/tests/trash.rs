//! What is deleted over HTTP and WebDAV can be put back, by programs and by people without scripts.

use entrepot_nouns::{Mount, TrashOptions};
use entrepot_world::mount;

use super::client::{Client, basic};
use super::fixture::Node;

async fn start() -> Node {
    let node = Node::start().await;
    let trash = Some(TrashOptions { days: 30, bytes: None });
    node.world.put(&Mount { trash, ..mount("anna-all", "anna", "/", "files") }).await;
    node
}

async fn put(client: &mut Client, at: &str, body: &str) {
    let answer = client.upload(&format!("PUT /files{at}"), &basic("anna"), body.as_bytes()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[tokio::test]
async fn the_answer_to_a_delete_names_its_undo() {
    let node = start().await;
    let mut client = node.connect().await;
    let anna = basic("anna");
    put(&mut client, "/a.txt", "one").await;
    let gone = client.request("DELETE /files/a.txt", &anna).await;
    let undo = gone.field("undo-location").to_owned();
    assert_eq!((gone.status, undo.is_empty()), (200, false), "{gone:?}");
    assert_eq!(gone.json()["trashed"]["undo"], undo);
    assert_eq!(client.request("GET /files/a.txt", &anna).await.status, 404);
    let hidden = client.request("GET /files/.entrepot-trash/", &anna).await;
    assert_eq!((hidden.status, hidden.code().as_str()), (404, "EP0401"));
    put(&mut client, "/a.txt", "two").await;
    let taken = client.upload(&format!("POST {undo}"), &anna, b"").await;
    assert_eq!((taken.status, taken.code().as_str()), (409, "EP0403"));
    let replace = client.upload(&format!("POST {undo}&conflict=replace"), &anna, b"").await;
    assert_eq!((replace.status, replace.code().as_str()), (400, "EP1013"));
    let other = client.upload(&format!("POST {undo}"), &basic("reader"), b"").await;
    assert_eq!((other.status, other.code().as_str()), (404, "EP1091"));
    let both = client.upload(&format!("POST {undo}&conflict=keep-both"), &anna, b"").await;
    assert_eq!((both.status, both.field("location")), (201, "/files/a%20%281%29.txt"));
    assert_eq!(client.request("GET /files/a%20%281%29.txt", &anna).await.text(), "one");
    let again = client.upload(&format!("POST {undo}"), &anna, b"").await;
    assert_eq!((again.status, again.code().as_str()), (404, "EP1091"));

    // A folder with what is in it goes in one step; an empty one needs no trash.
    assert_eq!(client.request("POST /files/in?mkdir", &anna).await.status, 201);
    put(&mut client, "/in/b", "b").await;
    assert_eq!(client.request("DELETE /files/in/", &anna).await.status, 200);
    let listed = client.request("GET /files/?trash&limit=1", &anna).await.json();
    let (first, next) = (&listed["trashed"][0], listed["next"].clone());
    assert_eq!((first["path"].as_str(), first["type"].as_str()), (Some("/in"), Some("directory")));
    assert_eq!((first["removed_by"].as_str(), next.is_null()), (Some("anna"), true));
    let undo = first["undo"].as_str().unwrap();
    assert_eq!(client.upload(&format!("POST {undo}"), &anna, b"").await.status, 201);
    assert_eq!(client.request("GET /files/in/b", &anna).await.text(), "b");

    // WebDAV says it in the head.
    let gone = client.request("DELETE /dav/in/", &anna).await;
    let undo = gone.field("undo-location").to_owned();
    assert_eq!((gone.status, undo.is_empty()), (204, false), "{gone:?}");
    assert_eq!(client.upload(&format!("POST {undo}"), &anna, b"").await.status, 201);
    assert_eq!(client.request("DELETE /files/in/b", &anna).await.status, 200);
    assert_eq!(client.request("DELETE /files/in", &anna).await.status, 204);
    let reader = client.request("GET /files/?trash", &basic("reader")).await.json();
    assert_eq!(reader["trashed"].as_array().unwrap().len(), 0);
    let refused = client.request("DELETE /files/?trash=nothing", &anna).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "EP1013"));
    assert_eq!(client.request("DELETE /files/?trash", &anna).await.status, 204);
    let empty = client.request("GET /files/?trash", &anna).await.json();
    assert_eq!(empty["trashed"].as_array().unwrap().len(), 0);
    assert_eq!(client.request("GET /files/a.txt", &anna).await.text(), "two");
}

/// A form with these fields.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let part = |(name, value): &(&str, &str)| {
        format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    fields.iter().map(part).collect::<String>() + "--x--\r\n"
}

#[tokio::test]
async fn a_person_without_scripts_puts_back_what_was_deleted() {
    let node = start().await;
    let mut client = node.connect().await;
    let html = format!("{}Accept: text/html,*/*\r\n", basic("anna"));
    let ours = format!(
        "{html}Content-Type: multipart/form-data; boundary=x\r\nOrigin: http://localhost\r\n"
    );
    for name in ["%3Cb%3E", "c"] {
        put(&mut client, &format!("/{name}"), "x").await;
    }
    let ticked = form(&[("delete", "%3Cb%3E"), ("delete", "c")]);
    let answer = client.upload("POST /files/", &ours, ticked.as_bytes()).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/files/"));
    let page = client.request("GET /files/", &html).await;
    assert!(page.text().contains("href=\"?trash\""), "{}", page.text());
    let page = client.request("GET /files/?trash", &html).await;
    let text = page.text().to_owned();
    assert!(text.contains("&lt;b&gt;") && !text.contains("<b>/") && !text.contains("<script"));
    assert!(text.contains("action=\"?trash\"") && text.contains("by anna"), "{text}");
    let ids: Vec<&str> = text.split("name=\"restore\" value=\"").skip(1).collect();
    let ids: Vec<&str> = ids.iter().map(|rest| &rest[..36]).collect();
    assert_eq!(ids.len(), 2, "{text}");
    // Which of them was removed first is not said where both were within one millisecond.
    let listed = client.request("GET /files/?trash", &basic("anna")).await.json();
    let listed = listed["trashed"].as_array().unwrap();
    let of_b = listed.iter().find(|it| it["path"] == "/<b>").unwrap();
    let id = of_b["undo"].as_str().unwrap();
    let id = ids.iter().find(|known| id.contains(**known)).unwrap();
    let back = form(&[("restore", id)]);
    let answer = client.upload("POST /files/?trash", &ours, back.as_bytes()).await;
    assert_eq!((answer.status, answer.field("location")), (303, "/files/?trash"));
    assert_eq!(client.request("GET /files/%3Cb%3E", &basic("anna")).await.status, 200);
    let purge = form(&[("purge", "all")]);
    let evil = ours.replace("http://localhost", "http://evil.example");
    let answer = client.upload("POST /files/?trash", &evil, purge.as_bytes()).await;
    assert_eq!(answer.status, 403);
    let answer = client.upload("POST /files/?trash", &ours, purge.as_bytes()).await;
    assert_eq!(answer.status, 303);
    let page = client.request("GET /files/?trash", &html).await;
    assert!(page.text().contains("Nothing that was removed"), "{}", page.text());
    let reader = format!("{}Accept: text/html\r\n", basic("reader"));
    let page = client.request("GET /files/", &reader).await;
    assert!(!page.text().contains("?trash"), "who may not delete has no trash");
}
