//! Share links over HTTPS with curl: the page's examples, counts, passwords, uploads, revocation,
//! and that guessing is stopped.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::text;
use entrepot_testkit::ports::free_port;
use entrepot_testkit::server::{Node, run};
use serde_json::Value;

use crate::hooks::blocks;
use crate::program;

const PAGE: &str = include_str!("../docs/howto/share.md");
const PASSWORD: &str = "a password of anna";

/// A node with HTTPS and the account `anna`, who has `/out/report.txt` and `/in`.
struct Shared {
    node: Node,
    server: String,
}

/// The status and the body of an answer.
struct Asked {
    status: u16,
    body: String,
}

impl Shared {
    fn start() -> Result<Shared> {
        let mut node = Node::new(program(), None)?;
        node.cli_with_input(&["account", "create", "anna", "--password-stdin"], PASSWORD)?;
        let mount = ["mount", "create", "anna", "account=anna", "path=/", "endpoint=files"];
        node.cli(&[mount.as_slice(), &["prefix=anna"]].concat())?;
        let port = free_port()?;
        let address = format!("address=127.0.0.1:{port}");
        node.cli(&["listener", "create", "https", "protocol=https", &address])?;
        node.start()?;
        let shared = Shared { node, server: format!("https://127.0.0.1:{port}") };
        let login = format!("anna:{PASSWORD}");
        for folder in ["out", "in"] {
            let address = format!("{}/files/{folder}?mkdir", shared.server);
            ensure!(shared.curl(&["-u", &login, "-X", "POST", &address])?.status == 201);
        }
        let report = shared.node.scratch().join("report");
        std::fs::write(&report, "the report\n")?;
        let address = format!("{}/files/out/report.txt", shared.server);
        ensure!(shared.curl(&["-u", &login, "-T", text(&report)?, &address])?.status == 201);
        Ok(shared)
    }

    fn curl(&self, arguments: &[&str]) -> Result<Asked> {
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--max-time", "60", "-w", "\n%{http_code}"]).args(arguments);
        let output = String::from_utf8(run(&mut curl)?.stdout)?;
        let (body, status) = output.rsplit_once('\n').context("a status")?;
        Ok(Asked { status: status.parse()?, body: body.to_owned() })
    }

    /// Makes a link by the command line; gives its address and its name.
    fn link(&self, options: &[&str]) -> Result<Made> {
        let create = ["link", "create", "anna"];
        let made = self.node.json(&[create.as_slice(), options].concat())?;
        let field = |value: &Value| value.as_str().map(str::to_owned).context("a text");
        let address = field(&made["addresses"][0]["address"])?;
        ensure!(address.starts_with(&format!("{}/s/epl_", self.server)), "{address}");
        Ok(Made { address, name: field(&made["link"]["name"])? })
    }
}

struct Made {
    address: String,
    name: String,
}

#[test]
fn links_are_shared_counted_ended_and_cannot_be_guessed() -> Result<()> {
    let shared = Shared::start()?;
    examples(&shared)?;

    // By the command line: counted, and ended.
    let made = shared.link(&["/out", "--file", "report.txt", "--downloads", "2"])?;
    for status in [200, 200, 410] {
        assert_eq!(shared.curl(&[&made.address])?.status, status);
    }
    let listed = shared.node.cli(&["link", "show", &made.name])?;
    ensure!(listed.contains("exhausted") && listed.contains("2/2"), "{listed}");
    let made = shared.link(&["/out"])?;
    let zip = format!("{}?zip", made.address);
    let target = shared.node.scratch().join("out.zip");
    assert_eq!(shared.curl(&["-o", text(&target)?, &zip])?.status, 200);
    ensure!(std::fs::read(&target)?.starts_with(b"PK"));
    let page = shared.curl(&["-H", "Accept: text/html", &made.address])?;
    ensure!(page.body.contains("report.txt") && page.body.contains("?zip"), "{}", page.body);
    shared.node.cli(&["link", "revoke", &made.name])?;
    let ended = shared.node.until("the link to end", || {
        let asked = shared.curl(&[&made.address])?;
        Ok((asked.status == 410).then_some(asked.body))
    })?;
    ensure!(ended.contains("EP1162"), "{ended}");
    shared.node.cli(&["link", "delete", &made.name])?;
    assert_eq!(shared.curl(&[&made.address])?.status, 404);

    // The transfers are those of the link, and the secret is nowhere.
    let events = shared.node.until("the downloads to be recorded", || {
        let events = shared.node.events("file.downloaded")?;
        let is_here = |event: &Value| event["account"].as_str() == Some(&*made.name);
        Ok(events.iter().any(is_here).then_some(serde_json::to_string(&events)?))
    })?;
    let secret = made.address.rsplit('/').next().context("a secret")?;
    ensure!(!events.contains(secret) && !shared.node.log().contains(secret));
    ensure!(!shared.node.cli(&["export"])?.contains(secret));

    // Guessing: the address is locked, and who has a right link is let in all the same.
    let right = shared.link(&["/out"])?.address;
    shared.node.cli(&["policy", "create", "strict", "address_failures=4"])?;
    shared.node.cli(&["site", "change", "main", "policy=strict"])?;
    let last = if right.ends_with('x') { "y" } else { "x" };
    let wrong = format!("{}{last}", &right[..right.len() - 1]);
    shared.node.until("guesses to be refused unheard", || {
        Ok((shared.curl(&[&wrong])?.status == 429).then_some(()))
    })?;
    let locked = shared.node.cli(&["address", "list"])?;
    ensure!(locked.contains("127.0.0.1"), "{locked}");
    assert_eq!(shared.curl(&[&right])?.status, 200);
    Ok(())
}

/// The examples of the page, as they stand there.
fn examples(shared: &Shared) -> Result<()> {
    let lines = blocks(PAGE, "sh").join("\n");
    ensure!(lines.matches("curl ").count() > 4, "{lines}");
    // The certificate was made by the node itself, and no client knows it.
    let lines = lines.replace("curl -sS", "curl -sSk");
    let folder = program().parent().context("the folder of the program")?;
    let path = format!("{}:{}", text(folder)?, std::env::var("PATH").unwrap_or_default());
    let mut sh = Command::new("bash");
    sh.args(["-e", "-o", "pipefail", "-c", &lines]).current_dir(shared.node.scratch());
    sh.env("SERVER", &shared.server).env("ANNA", format!("anna:{PASSWORD}"));
    sh.env("PATH", path).env("ENTREPOT_CONFIG", shared.node.home().join("entrepot.toml"));
    let shown = String::from_utf8(run(&mut sh)?.stdout)?;
    ensure!(shown.contains("\"blake3\":"), "{shown}");
    ensure!(shown.contains("revoked") && shown.contains("the report"), "{shown}");
    let whole = std::fs::read_to_string(shared.node.scratch().join("broken-off.txt"))?;
    assert_eq!(whole, "the report\n");
    let arrived = shared.node.files().join("anna/in/report.txt");
    assert_eq!(std::fs::read_to_string(arrived)?, "the report\n");
    Ok(())
}
