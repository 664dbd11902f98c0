//! The API over HTTPS: with curl, as its page says, and its streams and receipts.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, python, text};
use entrepot_testkit::server::{Node, feed, run};
use serde_json::{Value, json};

use crate::hooks::blocks;
use crate::program;

const PAGE: &str = include_str!("../docs/howto/api.md");
const PASSWORD: &str = "a password of an admin";

/// A node with HTTPS and an administrator.
struct Api {
    node: Node,
    login: Login,
    server: String,
}

impl Api {
    fn start() -> Result<Api> {
        let mut node = Node::new(program(), None)?;
        let login = Login::create(&node, "acme")?;
        let admin = ["account", "create", "boss", "type=admin", "--password-stdin"];
        node.cli_with_input(&admin, PASSWORD)?;
        let listener = ["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"];
        node.cli(&listener)?;
        node.start()?;
        let server = format!("https://127.0.0.1:{}", node.port_of("https")?);
        Ok(Api { node, login, server })
    }

    fn curl(&self, arguments: &[&str]) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--max-time", "60", "-u", &format!("boss:{PASSWORD}")]);
        curl.args(["-H", "Content-Type: application/json"]).args(arguments);
        curl
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, more: &[&str]) -> Result<Asked> {
        let address = format!("{}/api/v1{path}", self.server);
        let mut arguments = vec!["-X", method, "-w", "\n%{http_code}", &address];
        arguments.extend(more);
        let output = String::from_utf8(run(&mut self.curl(&arguments))?.stdout)?;
        let (body, status) = output.rsplit_once('\n').context("a status")?;
        let body = if body.is_empty() { Value::Null } else { serde_json::from_str(body)? };
        Ok(Asked { status: status.parse()?, body })
    }

    /// What a stream of events gives behind the event `named` until this text has come.
    fn follow(&self, named: &str, text: &str) -> Result<String> {
        let address = format!("{}/api/v1/events/stream?kind=config.changed", self.server);
        let field = format!("Last-Event-ID: {named}");
        let mut curl = self.curl(&["-N", &address]);
        if !named.is_empty() {
            curl.args(["-H", &field]);
        }
        let mut curl = curl.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(curl.stdout.take().context("its output")?).lines();
        let mut seen = String::new();
        while !seen.contains(text) {
            seen += &lines.next().context("the stream ended")??;
            seen.push('\n');
        }
        // The stream itself does not end.
        curl.kill()?;
        curl.wait()?;
        Ok(seen)
    }

    fn get(&self, path: &str) -> Result<Value> {
        let Asked { status, body } = self.ask("GET", path, &[])?;
        ensure!(status == 200, "{path}: {status} {body}");
        Ok(body)
    }
}

/// A command and what came of it.
struct Ran {
    status: Option<i32>,
    shown: String,
    told: String,
}

impl Api {
    /// Runs the program far from the node: without its process file, by the API alone.
    fn far(&self) -> Result<Command> {
        let mut command = crate::far(&self.node)?;
        command.args(["--user", "boss"]);
        Ok(command)
    }

    fn run_far(&self, words: &[&str]) -> Result<Ran> {
        let mut command = self.far()?;
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        writeln!(child.stdin.take().context("its input")?, "{PASSWORD}")?;
        Ok(ran(child.wait_with_output()?))
    }

    /// Runs a command beside the node and far from it, with the word `HERE` in it replaced, and
    /// compares all that is shown but for that word.
    fn is_same(&self, words: &[&str]) -> Result<String> {
        let named = |at: &str| words.iter().map(|word| word.replace("HERE", at)).collect();
        let (beside, far): (Vec<String>, Vec<String>) = (named("beside"), named("afar"));
        let words = |of: &[String]| of.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let beside = {
            let arguments: Vec<&str> = beside.iter().map(String::as_str).collect();
            ran(self.node.command(&arguments).output()?)
        };
        let shown_far = self.run_far(&far.iter().map(String::as_str).collect::<Vec<_>>())?;
        let alike = |text: &str| text.replace("beside", "HERE").replace("afar", "HERE");
        assert_eq!(alike(&beside.shown), alike(&shown_far.shown), "{}", words(&far));
        assert_eq!(alike(&beside.told), alike(&shown_far.told), "{}", words(&far));
        assert_eq!(beside.status, shown_far.status, "{}", words(&far));
        Ok(shown_far.shown)
    }
}

fn ran(output: std::process::Output) -> Ran {
    Ran {
        status: output.status.code(),
        shown: String::from_utf8_lossy(&output.stdout).into_owned(),
        told: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

struct Asked {
    status: u16,
    body: Value,
}

#[test]
fn the_examples_of_the_page_work() -> Result<()> {
    let api = Api::start()?;
    let lines = blocks(PAGE, "sh").join("\n");
    ensure!(lines.matches("api ").count() > 8, "{lines}");
    // The certificate was made by the node itself, and no client knows it.
    let lines = lines.replace("curl -sS", "curl -sSk");
    let mut sh = Command::new("bash");
    sh.args(["-e", "-c", &lines]).current_dir(api.node.scratch());
    sh.env("SERVER", &api.server).env("ADMIN", format!("boss:{PASSWORD}"));
    let shown = String::from_utf8(run(&mut sh)?.stdout)?;
    ensure!(shown.contains("EP1111"), "{shown}");
    ensure!(shown.contains("id: "), "{shown}");
    ensure!(!shown.contains("bottles\"}"), "{shown}");
    assert_eq!(api.get("/accounts/berta")?["note"], "first");
    let created = api.node.events("config.changed")?;
    let carl = created.iter().filter(|event| event["name"] == "carl" && event["noun"] == "account");
    assert_eq!(carl.count(), 1, "the repetition changed something");
    Ok(())
}

#[test]
fn what_the_command_line_shows_and_does_the_api_does_too() -> Result<()> {
    let api = Api::start()?;
    let local = local_file(&api.node, "orders", b"ten boxes")?;
    api.login.sftp_batch(&api.node, &format!("put {} orders\n", text(&local)?))?;
    let transfer = api.node.until("the transfer to be in the database", || {
        let listed = api.get("/transfers?account=acme&fields=id,path,state")?;
        Ok(listed["items"].get(0).cloned())
    })?;
    assert_eq!(transfer["path"], "/orders");
    let id = transfer["id"].as_str().context("an id")?;
    let receipt = api.node.until("a head that covers the transfer", || {
        let asked = api.ask("GET", &format!("/transfers/{id}/receipt"), &[])?;
        Ok((asked.status == 200).then_some(asked.body))
    })?;
    let file = api.node.scratch().join("receipt.json");
    std::fs::write(&file, receipt.to_string())?;
    let key = api.node.cli(&["receipt", "key"])?.trim().to_owned();
    let told = api.node.cli(&["receipt", "verify", text(&file)?, "--key", &key])?;
    ensure!(told.starts_with("valid"), "{told}");
    let head = api.get("/journal/head")?;
    assert_eq!(head["key"], json!(key));

    let plan = json!({"documents": [{"file": "a", "text": "account: {name: dora}"}]}).to_string();
    let planned = api.ask("POST", "/configuration/plan", &["-d", &plan])?;
    assert_eq!((planned.status, &planned.body["changes"][0]["action"]), (200, &json!("create")));
    assert_eq!(api.ask("GET", "/accounts/dora", &[])?.status, 404);
    let applied = api.ask("POST", "/configuration/apply", &["-d", &plan])?;
    assert_eq!(applied.status, 200, "{}", applied.body);
    assert_eq!(api.node.json(&["account", "show", "dora"])?["noun"]["account"]["name"], "dora");

    let nodes = api.get("/nodes")?;
    let name = nodes["items"][0]["name"].as_str().context("a node")?.to_owned();
    assert_eq!(api.ask("POST", &format!("/nodes/{name}/drain"), &["-d", ""])?.status, 204);
    assert_eq!(api.node.json(&["node", "show", &name])?["drained"], true);
    let serves = |path: &str| -> Result<bool> {
        let url = format!("{}{path}", api.server);
        let head = run(&mut api.curl(&["-o", "/dev/null", "-w", "%{http_code}", &url]))?.stdout;
        Ok(head == b"200")
    };
    // The API is there all the time, or nobody far away could undrain the node.
    api.node.until("the node to serve nothing but its API", || {
        ensure!(serves("/api/v1/nodes")?);
        Ok((!serves("/files/")?).then_some(()))
    })?;
    assert_eq!(api.ask("POST", &format!("/nodes/{name}/undrain"), &["-d", ""])?.status, 204);
    api.node.until("the node to serve files again", || Ok(serves("/files/")?.then_some(())))?;
    let metrics = run(&mut api.curl(&[&format!("{}/api/v1/metrics", api.server)]))?.stdout;
    let metrics = String::from_utf8_lossy(&metrics);
    ensure!(metrics.contains("entrepot_") && metrics.ends_with("# EOF\n"), "{metrics}");
    let refused = api.ask("PATCH", "/accounts/acme", &["-d", r#"{"groups": ["none"]}"#])?;
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("EP0103")));
    let page = refused.body["type"].as_str().context("a type")?;
    let page = run(&mut api.curl(&[&format!("{}{page}", api.server)]))?.stdout;
    ensure!(page.starts_with(b"# EP0103: "));
    Ok(())
}

#[test]
fn a_stream_of_events_goes_on_where_it_was_cut() -> Result<()> {
    let api = Api::start()?;
    let begun = api.follow("", "id: ")?;
    let id = begun.split("id: ").nth(1).and_then(|rest| rest.lines().next()).context("an id")?;
    for name in ["one", "two"] {
        api.node.cli(&["account", "create", name])?;
    }
    let seen = api.follow(id, "\"name\":\"two\"")?;
    for name in ["one", "two"] {
        assert_eq!(seen.matches(&format!("\"name\":\"{name}\"")).count(), 1, "{seen}");
    }
    let of_one = seen.split("\"name\":\"one\"").next().unwrap_or_default();
    let id = of_one.rsplit("id: ").next().and_then(|rest| rest.lines().next()).context("an id")?;
    let rest = api.follow(id, "\"name\":\"two\"")?;
    ensure!(rest.contains("\"name\":\"two\"") && !rest.contains("\"name\":\"one\""), "{rest}");
    Ok(())
}

#[test]
fn the_same_commands_work_beside_the_node_and_far_from_it() -> Result<()> {
    let mut api = Api::start()?;
    let node = api.node.json(&["nodes"])?[0]["name"].as_str().context("a node")?.to_owned();
    let local = local_file(&api.node, "orders", b"ten boxes")?;
    api.login.sftp_batch(&api.node, &format!("put {} orders\n", text(&local)?))?;
    let wanted = api.node.scratch().join("wanted.yaml");
    std::fs::write(&wanted, "account: {name: dora, note: of a document}")?;
    let transfer = api.node.until("the transfer to be in the database", || {
        Ok(api.node.json(&["transfers"])?[0]["id"].as_str().map(str::to_owned))
    })?;
    let wanted = text(&wanted)?;
    let commands: [&[&str]; 36] = [
        &["account", "create", "bob-HERE", "type=service", "note=hello there"],
        &["account", "change", "bob-HERE", "note="],
        &["account", "change", "bob-HERE", "groups=[\"none\"]"],
        &["account", "show", "bob-HERE"],
        &["token", "create", "bob-HERE", "--scope", "files:reed"],
        &["account", "recovery-codes", "bob-HERE"],
        &["account", "delete", "bob-HERE"],
        &["account", "show", "bob-HERE"],
        &["account", "create", "acme"],
        &["account", "show", "acem"],
        &["--json", "account", "show", "acme"],
        &["accounts"],
        &["--json", "mounts"],
        &["listeners"],
        &["--site", "mian", "accounts"],
        &["--site", "main", "policies"],
        &["plan", wanted],
        &["--json", "plan", wanted],
        &["export", "mount"],
        &["transfers", "--account", "acme"],
        &["--json", "transfer", "show", &transfer],
        &["events", "--kind", "file.uploaded"],
        &["--json", "events", "--account", "acme", "--limit", "2"],
        &["event", "list", "--kind", "file.uplaoded"],
        &["jobs"],
        &["job", "retry", &transfer],
        &["job", "retry", &transfer, "--current"],
        &["tokens"],
        &["passkeys"],
        &["--json", "sign-ins"],
        &["addresses"],
        &["address", "unlock", "--account", "acme"],
        &["node", "limit", "--upload", "50M"],
        &["node", "limit", "--reset"],
        &["log", "level", "auth=debug"],
        &["log", "level", "--reset"],
    ];
    for words in commands {
        api.is_same(words)?;
    }
    what_is_alike_but_for_time(&api, &node, &transfer)?;
    what_is_refused_far_away(&api)?;
    let applied = api.run_far(&["apply", wanted])?;
    ensure!(applied.shown.starts_with("+ account dora"), "{}", applied.told);
    follow_far(&api)?;
    let stopping = api.run_far(&["stop"])?;
    assert_eq!(stopping.shown, "stopping\n", "{}", stopping.told);
    api.node.wait()?;
    Ok(())
}

/// Commands whose output has times or sessions in it.
fn what_is_alike_but_for_time(api: &Api, node: &str, transfer: &str) -> Result<()> {
    ensure!(api.is_same(&["account", "list"])?.contains("acme"));
    api.is_same(&["node", "undrain", node])?;
    let sessions = api.run_far(&["sessions"])?;
    ensure!(sessions.shown.contains("boss"), "{}", sessions.told);
    let receipt = api.node.until("a head that covers the transfer", || {
        let made = api.run_far(&["receipt", transfer])?;
        Ok((made.status == Some(0)).then_some(made.shown))
    })?;
    assert_eq!(receipt, api.node.cli(&["receipt", transfer])?);
    let heads = api.run_far(&["journal", "heads"])?;
    ensure!(heads.shown.starts_with("RECORDS"), "{}{}", heads.shown, heads.told);
    Ok(())
}

/// What needs the machine of the node, and a server that is not known.
fn what_is_refused_far_away(api: &Api) -> Result<()> {
    for words in [&["doctor"][..], &["backup", "b"], &["account", "set-up-token"], &["reload"]] {
        let refused = api.run_far(words)?;
        ensure!(refused.told.contains("EP1116") && refused.status == Some(4), "{}", refused.told);
    }
    let mut unknown = Command::new(program());
    unknown.args(["--server", &api.server, "--token", "eat_x", "accounts"]);
    let unknown = ran(unknown.output()?);
    ensure!(unknown.status == Some(5) && unknown.told.contains("certificate"), "{}", unknown.told);
    Ok(())
}

/// What no test may call: streams that do not end, and what ends the node or its sessions, makes it
/// slow, or takes away what the test stands on.
const NOT_TRIED: &str = "^(follow_.*|stop_node|drain_node|remove_node|limit_node\
                         |apply_configuration|end_session|limit_session\
                         |(delete|patch|replace)_(listener|account|policy))$";

#[test]
fn the_api_answers_as_its_description_says() -> Result<()> {
    let api = Api::start()?;
    // A busy machine takes as long to read the description alone.
    let ran = match try_operations(&api, "25")? {
        ran if ran.shown.contains("Tested: 0") => try_operations(&api, "200")?,
        ran => ran,
    };
    ensure!(ran.status == Some(0), "{}\n{}", ran.shown, ran.told);
    ensure!(ran.shown.contains(" generated, "), "nothing was tried: {}", ran.shown);
    ensure!(api.get("/accounts/acme")?["name"] == "acme");
    Ok(())
}

/// Calls what the description says, for so many seconds.
fn try_operations(api: &Api, seconds: &str) -> Result<Ran> {
    let certificate = api.node.certificate_of("https")?;
    let mut tried = Command::new(python::tool("schemathesis")?);
    tried.current_dir(api.node.scratch());
    tried.args(["run", &format!("{}/api/v1/openapi.json", api.server)]);
    tried.args(["--auth", &format!("boss:{PASSWORD}"), "--tls-verify", text(&certificate)?]);
    tried.args(["--phases", "fuzzing", "--max-examples", "2", "--max-time", seconds]);
    // One: Python 3.11 counts the depth of the sources that it parses for all threads together.
    tried.args(["--seed", "1", "--workers", "1", "--request-timeout", "20", "--no-color"]);
    tried.args(["--no-shrink", "--suppress-health-check", "all"]);
    tried.args(["--exclude-operation-id-regex", NOT_TRIED]);
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,\
                  response_headers_conformance,response_schema_conformance";
    tried.args(["--checks", checks, "--generation-database", "none"]);
    Ok(ran(tried.output()?))
}

/// New events come over the network as they happen.
fn follow_far(api: &Api) -> Result<()> {
    let mut follow = api.far()?;
    follow.args(["event", "follow", "--kind", "config.changed", "--limit", "1"]);
    let mut follow = follow.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    writeln!(follow.stdin.take().context("its input")?, "{PASSWORD}")?;
    let mut lines = BufReader::new(follow.stdout.take().context("its output")?).lines();
    lines.next().context("the newest event")??;
    api.node.cli(&["account", "create", "emil"])?;
    let line = lines.next().context("the stream ended")??;
    ensure!(line.contains("account emil created"), "{line}");
    follow.kill()?;
    follow.wait()?;
    Ok(())
}

/// How many clients follow at once in the measurement below.
const FOLLOWERS: usize = 2_000;
/// What they may take, KiB.
const FOLLOWERS_KIB: u64 = 64 * 1024;

/// A measurement, for `docs/performance.md`: `cargo test --release -p entrepot --test e2e -- \
/// --ignored clients_that_follow`.
#[test]
#[ignore = "it measures the memory of a node that does nothing else"]
fn two_thousand_clients_that_follow_take_little_memory() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let admin = ["account", "create", "boss", "type=admin", "--password-stdin"];
    node.cli_with_input(&admin, PASSWORD)?;
    node.cli(&["listener", "create", "web", "protocol=http", "address=127.0.0.1:0"])?;
    node.start()?;
    let port = node.port_of("web")?;
    let credentials = feed(Command::new("base64").arg("-w0"), &format!("boss:{PASSWORD}"))?.stdout;
    let credentials = String::from_utf8(credentials)?;
    let follow = |subject: &str| -> Result<TcpStream> {
        let mut client = TcpStream::connect(("127.0.0.1", port))?;
        write!(
            client,
            "GET /api/v1/{subject}/stream HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Basic {credentials}\r\n\r\n"
        )?;
        let mut head = [0; 12];
        client.read_exact(&mut head)?;
        ensure!(head.ends_with(b"200"), "{}", String::from_utf8_lossy(&head));
        Ok(client)
    };
    let first = follow("throughput")?;
    let before = resident_kib(node.pid()?)?;
    let subjects = ["events", "sessions", "transfers", "throughput"];
    let clients = (0..FOLLOWERS).map(|at| follow(subjects[at % subjects.len()]));
    let clients = clients.collect::<Result<Vec<_>>>()?;
    for at in 0..50 {
        node.cli(&["account", "create", &format!("a{at}")])?;
    }
    let taken = resident_kib(node.pid()?)?.saturating_sub(before);
    println!("{FOLLOWERS} clients that follow: {taken} KiB");
    drop((first, clients));
    ensure!(taken <= FOLLOWERS_KIB, "{taken} KiB");
    Ok(())
}

/// The resident memory of a process.
fn resident_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
