//! Uploads over HTTP that are continued: tus-js-client, tuspy and curl, with the server killed
//! between and within requests.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::tus::TusUpload;
use entrepot_testkit::clients::{Login, local_file, noise};
use entrepot_testkit::server::{Node, run};

use crate::hooks::blocks;
use crate::program;

const PAGE: &str = include_str!("../../docs/howto/upload.md");

fn server(node: &Node) -> Result<String> {
    Ok(format!("https://localhost:{}", node.port_of("web")?))
}

/// The path of an address: after a start the server has another port.
fn path_of(url: &str) -> Result<String> {
    let at = url.find("/uploads/").with_context(|| format!("no upload: {url}"))?;
    Ok(url.get(at..).unwrap_or_default().to_owned())
}

/// tus-js-client: the server is killed in the middle of its requests.
fn by_tus_js(node: &mut Node, login: &Login) -> Result<()> {
    let content = noise(51, 22_000_001);
    let local = local_file(node, "by tus-js.bin", &content)?;
    let certificate = node.certificate_of("web")?;
    let endpoint = format!("{}/uploads", server(node)?);
    let mut upload = TusUpload {
        endpoint: &endpoint,
        certificate: &certificate,
        file: &local,
        folder: "/",
        begun: None,
    };
    let mut first = upload.by_tus_js(login)?;
    let mut first = first.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut lines = BufReader::new(first.stdout.take().context("its output")?).lines();
    let mut line = || lines.next().context("it ended too early")?.context("a line");
    let begun = line()?;
    let begun = path_of(begun.strip_prefix("at ").context("no address")?)?;
    ensure!(line()?.starts_with("chunk ") && line()?.starts_with("chunk "));
    node.kill()?;
    ensure!(!first.wait()?.success(), "it has not noticed");
    node.start()?;
    let (endpoint, begun) =
        (format!("{}/uploads", server(node)?), format!("{}{begun}", server(node)?));
    (upload.endpoint, upload.begun) = (endpoint.as_str(), Some(begun.as_str()));
    let second = String::from_utf8(run(&mut upload.by_tus_js(login)?)?.stdout)?;
    ensure!(second.ends_with("done\n"), "{second}");
    // What was acknowledged did not come again.
    let acknowledged = second.lines().find_map(|line| line.strip_prefix("chunk "));
    let acknowledged: u64 = acknowledged.context("nothing came")?.parse()?;
    ensure!(acknowledged > 2 * 4 * 1024 * 1024, "{second}");
    assert_eq!(std::fs::read(login.on_disk(node, "by tus-js.bin"))?, content);
    Ok(())
}

/// tuspy: it stops between two requests, and the server is killed there.
fn by_tuspy(node: &mut Node, login: &Login) -> Result<()> {
    let content = noise(52, 5_000_001);
    let local = local_file(node, "by tuspy.bin", &content)?;
    let certificate = node.certificate_of("web")?;
    let endpoint = format!("{}/uploads", server(node)?);
    let mut upload = TusUpload {
        endpoint: &endpoint,
        certificate: &certificate,
        file: &local,
        folder: "/",
        begun: None,
    };
    let first = String::from_utf8(run(&mut upload.by_tuspy(login, 2)?)?.stdout)?;
    let (url, offset) = first.trim().rsplit_once(' ').context("no address")?;
    assert_eq!(offset, "2097152");
    node.kill()?;
    node.start()?;
    let (endpoint, begun) =
        (format!("{}/uploads", server(node)?), format!("{}{}", server(node)?, path_of(url)?));
    (upload.endpoint, upload.begun) = (endpoint.as_str(), Some(begun.as_str()));
    let second = String::from_utf8(run(&mut upload.by_tuspy(login, 0)?)?.stdout)?;
    ensure!(second.trim().ends_with(" 5000001"), "{second}");
    assert_eq!(std::fs::read(login.on_disk(node, "by tuspy.bin"))?, content);
    Ok(())
}

#[test]
fn uploads_over_http_outlive_clients_and_servers() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli(&["listener", "create", "web", "protocol=https", "address=127.0.0.1:0"])?;
    node.start()?;
    by_tus_js(&mut node, &login)?;
    by_tuspy(&mut node, &login)?;
    // The page, done by curl: in order, in parts, and what archives and searches give.
    let lines = blocks(PAGE, "sh").join("\n").replace("curl -sS", "curl -sSk");
    let mut sh = Command::new("bash");
    sh.args(["-e", "-o", "pipefail", "-c", &lines]).current_dir(node.scratch());
    let who = format!("{}:{}", login.account, login.password);
    sh.env("SERVER", server(&node)?).env("LOGIN", who);
    let shown = String::from_utf8(run(&mut sh)?.stdout)?;
    ensure!(shown.contains("\"parts\":[[0,2]]"), "{shown}");
    ensure!(shown.contains("\"uploads\":[]"), "{shown}");
    ensure!(shown.contains("\"path\":\"/box/copy.bin\""), "{shown}");
    for (archive, names) in [
        ("box.zip", vec!["box/", "box/copy.bin"]),
        ("some.zip", vec!["big.bin", "box/", "box/copy.bin"]),
    ] {
        let list = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert not z.testzip()\n\
            print('\\n'.join(z.namelist()))";
        let told =
            run(Command::new("python3").args(["-c", list]).arg(node.scratch().join(archive)))?;
        assert_eq!(String::from_utf8(told.stdout)?.lines().collect::<Vec<_>>(), names);
    }
    // Each file came once: two of tus, two of the page, and the copy.
    let events = node.until("the events", || {
        let events = node.events("file.uploaded")?;
        Ok((events.len() >= 5).then_some(events))
    })?;
    assert_eq!(events.len(), 5, "{events:?}");
    ensure!(events.iter().all(|event| event["protocol"] == "https"), "{events:?}");
    let tus = events.iter().find(|event| event["path"] == "/by tus-js.bin").context("no event")?;
    let local = std::fs::read(login.on_disk(&node, "by tus-js.bin"))?;
    assert_eq!(tus["blake3"], blake3::hash(&local).to_hex().to_string());
    Ok(())
}
