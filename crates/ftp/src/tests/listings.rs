//! LIST, NLST, MLSD, MLST, and STAT with a path.

use super::client::Client;
use super::fixture::Node;

/// `/a.txt` (3 bytes), `/b.csv` (4), `/d/c.txt` (5) and the mount `/small`.
async fn filled() -> (Node, Client) {
    let node = Node::start().await;
    let mut client = node.anna().await;
    assert_eq!(client.code("MKD d").await, 257);
    for (name, bytes) in [("a.txt", &b"abc"[..]), ("b.csv", b"1,2\n"), ("d/c.txt", b"below")] {
        assert_eq!(client.upload(&format!("STOR {name}"), bytes).await.code, 226);
        assert_eq!(client.code(&format!("MFMT 20260203040506 {name}")).await, 213);
    }
    (node, client)
}

/// The part of a line of LIST that does not depend on when it is asked for.
fn head(line: &str) -> (&str, &str) {
    let name = line.rsplit(' ').next().unwrap();
    (line.split_whitespace().next().unwrap(), name)
}

#[tokio::test]
async fn names_are_listed_sorted_and_by_pattern() {
    let (_node, mut client) = filled().await;
    assert_eq!(client.listing("NLST").await, ["a.txt", "b.csv", "d", "small"]);
    assert_eq!(client.listing("NLST *.txt").await, ["a.txt"]);
    assert_eq!(client.listing("NLST d").await, ["d/c.txt"]);
    assert_eq!(client.listing("NLST d/*.txt").await, ["d/c.txt"]);
    assert_eq!(client.code("CWD d").await, 250);
    assert_eq!(client.listing("NLST").await, ["c.txt"]);
}

#[tokio::test]
async fn list_is_like_ls_and_goes_into_directories_on_request() {
    let (_node, mut client) = filled().await;
    let lines = client.listing("LIST").await;
    let heads: Vec<_> = lines.iter().map(|line| head(line)).collect();
    let wanted = [
        ("-rw-r--r--", "a.txt"),
        ("-rw-r--r--", "b.csv"),
        ("drwxr-xr-x", "d"),
        ("dr-xr-xr-x", "small"),
    ];
    assert_eq!(heads, wanted);
    assert!(lines[0].contains(" 3 Feb"), "size and time: {}", lines[0]);
    let lines = client.listing("LIST -R").await;
    let below = lines.iter().position(|line| line == "/d:").expect("a heading for the directory");
    assert!(lines[below + 1].ends_with(" c.txt"), "{lines:?}");
    assert_eq!(client.code("LIST none").await, 425);
    let _unused = client.passive().await;
    assert_eq!(client.code("LIST none").await, 550);
}

/// The facts of a line of MLSD or MLST that are asked about, and the name.
fn facts(line: &str, asked: &[&str]) -> (Vec<String>, String) {
    let (facts, name) = line.trim_start().split_once(' ').unwrap();
    let kept = facts.split(';').filter(|it| asked.contains(&it.split('=').next().unwrap()));
    (kept.map(str::to_owned).collect(), name.to_owned())
}

#[tokio::test]
async fn facts_tell_type_size_time_and_rights() {
    let (node, mut client) = filled().await;
    let asked = ["type", "size", "modify", "perm"];
    let lines = client.listing("MLSD").await;
    let of = |name: &str| {
        let all = lines.iter().map(|line| facts(line, &asked));
        all.into_iter().find(|(_, it)| it == name).unwrap_or_else(|| panic!("{name}: {lines:?}")).0
    };
    assert_eq!(of("a.txt"), ["type=file", "size=3", "modify=20260203040506", "perm=adfrw"]);
    assert_eq!(of("d")[0], "type=dir");
    assert!(lines.iter().any(|line| line.starts_with("type=cdir;")), "{lines:?}");

    let shown = client.command("MLST d/c.txt").await;
    let line = shown.text.lines().nth(1).unwrap();
    let wanted = ["type=file", "size=5", "modify=20260203040506", "perm=adfrw"];
    assert_eq!(facts(line, &asked), (wanted.map(str::to_owned).to_vec(), "/d/c.txt".to_owned()));
    let unique = |line: &str| facts(line, &["unique"]).0;
    let again = client.command("MLST d/c.txt").await;
    assert_eq!(unique(line), unique(again.text.lines().nth(1).unwrap()), "it is the same file");

    assert_eq!(client.command("OPTS MLST size;").await.text, "MLST OPTS size;");
    let shown = client.command("MLST a.txt").await;
    assert_eq!(shown.text.lines().nth(1).unwrap(), " size=3; /a.txt");

    let mut reader = node.logged_in("reader").await;
    let shown = reader.command("MLST a.txt").await;
    assert!(shown.text.contains("perm=r;"), "{shown:?}");
    let _unused = client.passive().await;
    assert_eq!(client.code("MLSD a.txt").await, 501, "no directory");
}

#[tokio::test]
async fn stat_lists_on_the_control_connection() {
    let (_node, mut client) = filled().await;
    let directory = client.command("STAT d").await;
    assert_eq!(directory.code, 212);
    assert!(directory.text.contains("c.txt"), "{directory:?}");
    let file = client.command("STAT a.txt").await;
    assert_eq!((file.code, file.text.contains("a.txt")), (213, true), "{file:?}");
    assert_eq!(client.code("STAT none").await, 550);
    assert!(client.command("STAT").await.text.contains("Logged in as anna"));
}
