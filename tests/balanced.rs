//! Behind a balancer: what a node says of itself, and what that means for open sessions.

use std::io::Read as _;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::not_run;
use entrepot_testkit::ports::free_port;
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::{Node, PATIENCE, run};

use crate::limits::Control;
use crate::program;

/// The configuration that the package brings.
const SHIPPED: &str = include_str!("../packaging/haproxy.cfg");
/// What the process file of a node says besides. The ports are none that the system gives away.
const LIMITS: &str = "\n[limits]\njournal_mib = 1\n[ftp]\npassive_ports = \"28100-28109\"\n";
/// More directories than any journal of 1 MiB can tell of.
const MANY: usize = 20_000;

/// A node on PostgreSQL with a small journal, an agent port, and an account that has logged in.
fn small_node(url: &str) -> Result<(Node, Login)> {
    let mut node = Node::new(program(), Some(url))?;
    let login = Login::create(&node, "acme")?;
    let create = ["listener", "create", "ftp", "protocol=ftp", "address=127.0.0.2:0"];
    node.cli(&[&create[..], &["ftp.tls_required=none"]].concat())?;
    let file = node.home().join("entrepot.toml");
    let own = std::fs::read_to_string(&file)?;
    let own = own.replace("[ops]", "[ops]\nagent = \"127.0.0.1:0\"");
    std::fs::write(&file, own + LIMITS)?;
    node.start()?;
    Ok((node, login))
}

/// Status and body that the ops listener gives.
pub(crate) fn asked(node: &Node, path: &str) -> Result<(String, String)> {
    let url = format!("{}{path}", node.ops_url()?);
    let output = run(Command::new("curl").args(["-s", "-m", "10", "-w", "%{http_code}", &url]))?;
    let mut body = String::from_utf8(output.stdout)?;
    let status = body.split_off(body.len().saturating_sub(3));
    Ok((status, body))
}

fn port_in(address: &serde_json::Value) -> Result<u16> {
    let address = address.as_str().context("no address")?;
    Ok(address.parse::<std::net::SocketAddr>()?.port())
}

/// What the agent says.
fn agent(node: &Node) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port_in(&node.addresses()?["agent"])?))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    stream.read_to_string(&mut line)?;
    Ok(line)
}

/// True of a line by which a node takes new sessions.
fn takes_sessions(line: &str) -> bool {
    let free = line.strip_prefix("up ready ").and_then(|rest| rest.strip_suffix("%\n"));
    free.and_then(|free| free.parse::<u32>().ok()).is_some_and(|free| (1..=100).contains(&free))
}

/// Makes directories until the journal holds as much as it may.
fn fill_journal(node: &Node, control: &mut Control) -> Result<()> {
    for number in 0..MANY {
        control.says(&format!("MKD a-directory-with-a-name-that-is-rather-long-{number}"))?;
        if number % 100 == 0 && asked(node, "/ready")?.0 == "404" {
            return Ok(());
        }
    }
    anyhow::bail!("the journal is not full")
}

#[test]
fn a_full_journal_keeps_new_sessions_away_and_leaves_the_open_ones() -> Result<()> {
    let postgres = Postgres::launch()?;
    let (node, login) = small_node(&postgres.create_database()?)?;
    assert_eq!(asked(&node, "/ready")?, ("200".to_owned(), "ready\n".to_owned()));
    let line = agent(&node)?;
    ensure!(takes_sessions(&line), "{line}");
    let port = node.port_of("ftp")?;
    let log_in = || Control::log_in_at(("127.0.0.2", port), &login);
    let mut control = log_in()?;
    postgres.kill()?;
    log_in().context("an account that is known, while the database is away")?;
    assert_eq!(asked(&node, "/ready")?.0, "200", "that is no reason");
    fill_journal(&node, &mut control)?;
    let (status, reasons) = asked(&node, "/ready")?;
    ensure!(status == "404" && reasons.starts_with("journal-full: "), "{status} {reasons}");
    assert_eq!(asked(&node, "/live")?, ("200".to_owned(), "live\n".to_owned()));
    assert_eq!(agent(&node)?, "up drain\n");
    ensure!(control.says("PWD")?.starts_with("257"), "the open session goes on");
    let health = node.command(&["health"]).output()?;
    ensure!(health.status.code() == Some(1));
    ensure!(String::from_utf8_lossy(&health.stderr).contains("journal-full"));
    postgres.start()?;
    node.until("the journal to be emptied", || {
        Ok((asked(&node, "/ready")?.0 == "200").then_some(()))
    })?;
    ensure!(takes_sessions(&agent(&node)?));
    Ok(())
}

#[test]
fn a_node_that_is_drained_says_so_to_its_balancer() -> Result<()> {
    let postgres = Postgres::launch()?;
    let (node, _) = small_node(&postgres.create_database()?)?;
    let name = node.json(&["node", "list"])?[0]["name"].as_str().context("a name")?.to_owned();
    node.cli(&["node", "drain", &name])?;
    node.until("the node to be drained", || {
        let (status, reasons) = asked(&node, "/ready")?;
        Ok((status == "404" && reasons.starts_with("drained: ")).then_some(()))
    })?;
    assert_eq!((agent(&node)?.as_str(), asked(&node, "/live")?.0.as_str()), ("up drain\n", "200"));
    node.cli(&["node", "undrain", &name])?;
    node.until("the node to take sessions", || Ok(takes_sessions(&agent(&node)?).then_some(())))
}

/// HAProxy with a configuration; ended when dropped.
struct Haproxy(Child);

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program, where it is installed.
fn haproxy() -> Option<&'static str> {
    let places = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"];
    places.into_iter().find(|place| std::path::Path::new(place).exists())
}

/// Where the balancer takes sessions.
struct Front {
    sftp: u16,
    ftp: u16,
}

/// The shipped configuration with the addresses of a node of this machine. Both servers of each
/// backend are named; the second one is not there.
fn balanced(node: &Node, front: &Front) -> Result<String> {
    let addresses = node.addresses()?;
    let (ops, agent) = (port_in(&addresses["ops"])?, port_in(&addresses["agent"])?);
    let mut config = SHIPPED.to_owned();
    for (shipped, here) in [
        ("bind :22\n", format!("bind 127.0.0.1:{}\n", front.sftp)),
        ("bind :21\n", format!("bind 127.0.0.1:{}\n", front.ftp)),
        ("bind :50000-50199", "bind 127.0.0.1:28100-28119".to_owned()),
        ("50000:50099", "28100:28109".to_owned()),
        ("50100:50199", "28110:28119".to_owned()),
        ("10.0.0.11:2022", format!("127.0.0.1:{}", node.sftp_port()?)),
        ("10.0.0.11:2121", format!("127.0.0.2:{}", node.port_of("ftp")?)),
        ("server n1 10.0.0.11 ", "server n1 127.0.0.2 addr 127.0.0.1 ".to_owned()),
        ("10.0.0.12:", "127.0.0.3:".to_owned()),
        ("10.0.0.12 ", "127.0.0.3 ".to_owned()),
        ("port 9100", format!("port {ops}")),
        ("default-server ", "default-server addr 127.0.0.1 agent-addr 127.0.0.1 ".to_owned()),
        ("agent-port 9101", format!("agent-port {agent}")),
    ] {
        ensure!(config.contains(shipped), "the shipped configuration has no '{shipped}'");
        config = config.replace(shipped, &here);
    }
    // Both servers of a backend would be this node.
    let lines = config.lines().filter(|line| !line.trim_start().starts_with("server n2"));
    Ok(lines.collect::<Vec<_>>().join("\n") + "\n")
}

/// The first bytes that a server sends to a new connection; empty if it is closed instead.
fn greeting(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = [0; 4];
    // A connection that is reset has no greeting either.
    let count = stream.read(&mut bytes).unwrap_or(0);
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

/// Fetches a file in passive mode, with a data connection to the balancer.
fn fetched(control: &mut Control, path: &str) -> Result<Vec<u8>> {
    let said = control.says("EPSV")?;
    let port = said.split('|').nth(3).and_then(|port| port.parse::<u16>().ok());
    let port = port.with_context(|| format!("no port in '{said}'"))?;
    ensure!((28_100..28_110).contains(&port), "port {port} is not of the node's range");
    control.send(&format!("RETR {path}"))?;
    let mut data = TcpStream::connect(("127.0.0.1", port))?;
    data.set_read_timeout(Some(PATIENCE))?;
    let begins = control.line()?;
    ensure!(begins.starts_with("150"), "{begins}");
    let mut bytes = Vec::new();
    data.read_to_end(&mut bytes)?;
    let ends = control.line()?;
    ensure!(ends.starts_with("226"), "{ends}");
    Ok(bytes)
}

/// Starts HAProxy in front of `node`, and waits until it passes connections on.
fn start(haproxy: &str, node: &Node, front: &Front) -> Result<Haproxy> {
    let file = node.scratch().join("haproxy.cfg");
    std::fs::write(&file, balanced(node, front)?)?;
    run(Command::new(haproxy).args(["-c", "-q", "-f"]).arg(&file))?;
    let mut command = Command::new(haproxy);
    command.args(["-db", "-q", "-f"]).arg(&file).stdin(Stdio::null());
    let running = Haproxy(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    node.until("the balancer to reach the node", || {
        let greeted = [front.sftp, front.ftp].map(|port| greeting(port).unwrap_or_default());
        Ok((greeted == ["SSH-", "220 "]).then_some(()))
    })?;
    Ok(running)
}

#[test]
fn the_shipped_haproxy_cfg_cuts_no_session_of_a_node_that_takes_no_new_ones() -> Result<()> {
    let Some(haproxy) = haproxy() else {
        return not_run("packaging/haproxy.cfg", "HAProxy is not installed (package haproxy)");
    };
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/haproxy.cfg");
    run(Command::new(haproxy).args(["-c", "-q", "-f", shipped]))?;
    let postgres = Postgres::launch()?;
    let (node, login) = small_node(&postgres.create_database()?)?;
    let local = local_file(&node, "a", b"content")?;
    login.sftp_batch(&node, &format!("put {} a\n", text(&local)?))?;
    for listener in ["sftp", "ftp"] {
        node.cli(&["listener", "change", listener, r#"proxies=["127.0.0.0/8"]"#])?;
    }
    let front = Front { sftp: free_port()?, ftp: free_port()? };
    let _balancer = start(haproxy, &node, &front)?;
    let mut control = Control::log_in_at(("127.0.0.1", front.ftp), &login)?;
    assert_eq!(fetched(&mut control, "a")?, b"content");
    let sessions = node.json(&["session", "list"])?;
    let from = sessions[0]["address"].as_str().unwrap_or_default().to_owned();
    ensure!(from.starts_with("127.0.0.1"), "{sessions}");
    postgres.kill()?;
    fill_journal(&node, &mut control)?;
    node.until("the balancer to send no new sessions", || {
        Ok((greeting(front.sftp)?.is_empty() && greeting(front.ftp)?.is_empty()).then_some(()))
    })?;
    // A session that was open goes on, with new data connections, beyond any check that could
    // take the node for dead.
    for _ in 0..5 {
        assert_eq!(fetched(&mut control, "a")?, b"content");
        let (began, second) = (std::time::Instant::now(), std::time::Duration::from_secs(1));
        node.until("the next check", || Ok((began.elapsed() > second).then_some(())))?;
    }
    postgres.start()?;
    node.until("the balancer to send sessions again", || {
        Ok((greeting(front.sftp)? == "SSH-").then_some(()))
    })?;
    ensure!(control.says("NOOP")?.starts_with("200"), "the same session");
    Ok(())
}
