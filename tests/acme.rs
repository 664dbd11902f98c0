//! The page `docs/howto/acme.md`, done: an authority signs the certificate of a listener by both
//! challenges, renews it under an open connection, and a name that leads nowhere is reported.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::text;
use entrepot_testkit::pebble::{CheckedPorts, Pebble};
use entrepot_testkit::server::{Node, run};
use serde_json::Value;

use crate::program;

const PAGE: &str = include_str!("../docs/howto/acme.md");

/// The fenced blocks of a language, in order.
fn block(language: &str, number: usize) -> Result<&'static str> {
    let fence = format!("```{language}\n");
    let block = PAGE.split(&*fence).nth(number + 1).and_then(|rest| rest.split("```").next());
    block.with_context(|| format!("the page has no block {number} of {language}"))
}

/// Runs a command of the page, with other words in some places.
fn by_page(node: &Node, number: usize, words: &[(&str, &str)]) -> Result<String> {
    let mut command = block("sh", number)?.replace("\\\n", " ");
    for (word, other) in words {
        ensure!(command.contains(word), "{word} is not in: {command}");
        command = command.replace(word, other);
    }
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    node.cli(&words)
}

/// Asks again and again over one connection, which trusts one authority only.
struct OpenConnection {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

const CLIENT: &str = "\
import http.client, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
connection = http.client.HTTPSConnection('localhost', int(sys.argv[1]), context=context)
connection.connect()
first = connection.sock
for _ in sys.stdin:
    connection.request('GET', '/docs/errors/EP1131')
    answer = connection.getresponse()
    answer.read()
    print(answer.status, connection.sock is first, flush=True)
";

impl OpenConnection {
    fn open(port: u16, root: &Path) -> Result<OpenConnection> {
        let mut python = Command::new("python3");
        python.args(["-c", CLIENT, &port.to_string(), text(root)?]);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take().context("its input")?;
        let answers = BufReader::new(child.stdout.take().context("its output")?);
        let mut open = OpenConnection { child, orders, answers };
        open.works()?;
        Ok(open)
    }

    fn works(&mut self) -> Result<()> {
        self.orders.write_all(b"\n")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(answer.trim() == "200 True", "{answer}");
        Ok(())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The certificate that a new connection sees, if `root` has signed it.
fn shown(port: u16, root: &Path) -> Result<String> {
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &format!("localhost:{port}"), "-verify_return_error"]);
    openssl.args(["-verify_hostname", "localhost", "-CAfile"]).arg(root).stdin(Stdio::null());
    let text = String::from_utf8_lossy(&run(&mut openssl)?.stdout).into_owned();
    let rest = text.split_once("-----BEGIN").context("a certificate")?.1;
    Ok(rest.split_once("-----END").context("a certificate")?.0.to_owned())
}

/// The last of so many events of a kind.
fn events(node: &Node, kind: &str, count: usize) -> Result<Value> {
    node.until(&format!("{count} events {kind}"), || {
        let events = node.events(kind)?;
        Ok(events.get(count - 1).cloned())
    })
}

/// The documents of the page on ports of this machine, and an authority that looks there.
fn with_authority(node: &mut Node) -> Result<Pebble> {
    let page = block("yaml", 0)?.replace("0.0.0.0:80", "127.0.0.1:0");
    let page = page.replace("0.0.0.0:443", "127.0.0.1:0").replace("[files.example]", "[localhost]");
    let (before, _) = page.split_once("  tls:\n").context("tls")?;
    node.cli_with_input(&["apply", "-"], before)?;
    node.start()?;
    let (http, tls) = (node.port_of("http")?, node.port_of("https")?);
    let pebble = Pebble::start(CheckedPorts { http, tls })?;
    let public = "https://acme-v02.api.letsencrypt.org/directory";
    let authority = std::fs::read_to_string(pebble.own_certificate())?;
    let authority = serde_json::to_string(&authority)?;
    let private = format!(
        "{}\n      allow_private: true\n      authorities: {authority}",
        pebble.directory()
    );
    ensure!(page.contains(public));
    node.cli_with_input(&["apply", "-"], &page.replace(public, &private))?;
    Ok(pebble)
}

fn state(node: &Node) -> Result<Value> {
    let rows = node.json(&["listener", "certificates"])?;
    Ok(rows.get(0).context("a row")?.clone())
}

#[test]
fn an_authority_signs_and_renews_the_certificate_of_a_listener() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let pebble = with_authority(&mut node)?;
    let renewed = events(&node, "certificate.renewed", 1)
        .with_context(|| format!("{}\n{}", node.log(), pebble.log()))?;
    ensure!(renewed["names"] == serde_json::json!(["localhost"]), "{renewed}");
    let root: PathBuf = pebble.root()?;
    let port = node.port_of("https")?;
    let first = node.until("the certificate to be shown", || Ok(shown(port, &root).ok()))?;
    let certificate = state(&node)?;
    ensure!(certificate["state"] == "valid" && certificate["listener"] == "https", "{certificate}");
    ensure!(certificate["renews_at"].as_str() < certificate["not_after"].as_str());
    let listed = by_page(&node, 0, &[])?;
    ensure!(listed.contains("localhost") && listed.contains("valid"), "{listed}");
    ensure!(node.cli(&["doctor"])?.contains("1 of 1 from authorities have come"));
    let secret = node.cli(&["key", "show", "https-tls"])?;
    ensure!(secret.contains("***") && !node.log().contains("PRIVATE KEY"), "{secret}");

    // The other challenge, the next certificate, and a connection that knows the first one.
    let mut open = OpenConnection::open(port, &root)?;
    by_page(&node, 1, &[])?;
    by_page(&node, 2, &[])?;
    events(&node, "certificate.renewed", 2)
        .with_context(|| format!("{}\n{}", node.log(), pebble.log()))?;
    node.until("the next certificate to be shown", || {
        Ok((shown(port, &root)? != first).then_some(()))
    })?;
    open.works()?;
    let asked = events(&node, "certificate.requested", 1)?;
    ensure!(asked["by"].as_str().is_some_and(|by| by.starts_with("cli:")), "{asked}");

    // Nobody answers on the port of http-01.
    let last = shown(port, &root)?;
    let own = pebble.own_certificate();
    // With another account: even when told not to, `pebble` trusts a check of an account again for
    // one order in a hundred.
    let directory = format!("{}?account=another", pebble.directory());
    let directory = ("https://ca.internal.example/acme/directory", &*directory);
    node.cli(&["listener", "change", "http", "enabled=false"])?;
    by_page(&node, 3, &[directory, ("=ca.pem", &format!("={}", text(&own)?))])?;
    node.cli(&["listener", "change", "https", "tls.acme.challenge=http-01"])?;
    node.cli(&["listener", "renew-certificate", "https"])?;
    let failed = events(&node, "certificate.failed", 1)?;
    ensure!(failed["code"] == "EP1131" && failed["failures"] == 1, "{failed}");
    let problem = failed["problem"].as_str().context("a problem")?;
    ensure!(problem.contains("could not verify 'localhost' by http-01"), "{problem}");
    let certificate = state(&node)?;
    ensure!(certificate["state"] == "failed", "{certificate}");
    ensure!(certificate["failure"]["problem"] == failed["problem"], "{certificate}");
    let doctor = node.cli(&["doctor"])?;
    ensure!(doctor.contains("'https' got none") && doctor.contains("EP1131"), "{doctor}");
    assert_eq!(shown(port, &root)?, last, "the certificate that counts stays");
    open.works()
}
