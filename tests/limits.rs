//! Limits that an administrator sets, as FTP clients feel them: rates by the hour and by order, the
//! end of a node, crowds of newcomers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use entrepot_nouns::Timestamp;
use entrepot_testkit::clients::ftp::Protection::Clear;
use entrepot_testkit::clients::{Login, local_file, noise};
use entrepot_testkit::server::{Node, PATIENCE, run};
use serde_json::json;

use crate::program;

const PAGE: &str = include_str!("../docs/howto/limit-bandwidth-by-the-hour.md");

/// A node that serves FTP by a listener with these options, and an account of it.
fn node_with_ftp(options: &str) -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    if !options.is_empty() {
        node.cli(&["listener", "change", "ftp", &format!("ftp={options}")])?;
    }
    node.start()?;
    Ok((node, login))
}

/// A file of the account that is too large to come quickly at any of the rates here.
fn big_file(node: &Node, login: &Login, bytes: usize) -> Result<()> {
    std::fs::create_dir_all(node.files().join(&login.account))?;
    Ok(std::fs::write(login.on_disk(node, "big.bin"), noise(5, bytes))?)
}

/// A download that runs until it is dropped.
struct Download {
    child: Child,
    file: PathBuf,
}

impl Download {
    fn begin(node: &Node, login: &Login, name: &str) -> Result<Download> {
        let file = node.scratch().join(name);
        let mut curl = login.curl_ftp(node, Clear)?;
        curl.arg("-N").arg("-o").arg(&file).arg(login.ftp_url(node, "big.bin")?);
        let child = curl.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Download { child, file })
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.file).map_or(0, |meta| meta.len())
    }

    /// Bytes a second over a time that begins so much later.
    fn speed(&self, node: &Node, later: Duration, time: Duration) -> Result<f64> {
        passed(node, later)?;
        let (began, before) = (Instant::now(), self.bytes());
        passed(node, time)?;
        Ok((self.bytes() - before) as f64 / began.elapsed().as_secs_f64())
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn passed(node: &Node, time: Duration) -> Result<()> {
    let began = Instant::now();
    node.until("time to pass", || Ok((began.elapsed() >= time).then_some(())))
}

const TWO_SECONDS: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(4);

/// No more than the rate, to a twentieth; and as much of it as a busy machine leaves. How exact it
/// is without other load the tests of `net` say, by a clock of their own.
fn within(speed: f64, rate: f64) -> Result<()> {
    let held = (rate * 0.6..=rate * 1.05).contains(&speed);
    ensure!(held, "{speed:.0} bytes a second, not {rate:.0}");
    Ok(())
}

/// The download gets this rate: two seconds after the order no other one, and then this one, which
/// a client that was late, and writes what waited for it, exceeds at a single look.
fn settles(node: &Node, download: &Download, rate: f64) -> Result<()> {
    let first = download.speed(node, TWO_SECONDS, LONG)?;
    ensure!(first <= rate * 1.5, "{first:.0} bytes a second, not {rate:.0}");
    let mut seen = within(first, rate);
    for _ in 0..5 {
        if seen.is_ok() {
            break;
        }
        seen = within(download.speed(node, Duration::ZERO, LONG)?, rate);
    }
    seen
}

/// The fenced blocks of a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&*fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// Runs commands of the page in the scratch folder.
fn shell(node: &Node, script: &str) -> Result<String> {
    let wrapper = node.scratch().join("bin/entrepot");
    if !wrapper.exists() {
        std::fs::create_dir_all(wrapper.parent().context("a parent")?)?;
        let config = node.home().join("entrepot.toml");
        let lines = format!(
            "#!/bin/sh\nexec '{}' --config '{}' \"$@\"\n",
            program().display(),
            config.display()
        );
        std::fs::write(&wrapper, lines)?;
        run(Command::new("chmod").arg("755").arg(&wrapper))?;
    }
    let path = format!("{}:{}", node.scratch().join("bin").display(), std::env::var("PATH")?);
    let mut sh = Command::new("sh");
    sh.args(["-ec", script]).current_dir(node.scratch()).env("PATH", path);
    Ok(String::from_utf8(run(&mut sh)?.stdout)?)
}

#[test]
fn the_page_about_hours_does_what_it_says() -> Result<()> {
    let (node, login) = node_with_ftp("")?;
    big_file(&node, &login, 1_200_000)?;
    let (documents, commands) = (blocks("yaml"), blocks("sh"));
    ensure!(documents.len() == 2 && commands.len() == 5, "the page has other blocks");
    std::fs::write(node.scratch().join("bandwidth.yaml"), documents[0])?;
    std::fs::write(node.scratch().join("line.yaml"), documents[1])?;
    shell(&node, commands[0])?;
    let policy = node.json(&["policy", "show", "office-hours"])?;
    assert_eq!(policy["noun"]["policy"]["hours"][0]["timezone"], "Europe/Paris", "{policy}");
    shell(&node, commands[1])?;
    let host = format!("localhost:{}", node.ftp_port()?);
    let user = format!("'acme:{}'", login.password);
    let look = commands[2].replace("files.example", &host).replace("acme:secret", &user);
    // The certificate is the one that the listener made for itself.
    let look = look.replace("--ssl-reqd", "--ssl-reqd --insecure");
    // Its session may begin before the change has reached every corner.
    node.until("the rate of the page", || {
        let speed: f64 = shell(&node, &look)?.trim().parse()?;
        Ok(within(speed, 300_000.0).ok())
    })?;
    shell(&node, commands[3])?;
    shell(&node, commands[4])?;
    let limited = node.until("the orders in the audit log", || {
        let events = node.events("node.limited")?;
        Ok((events.len() == 2).then_some(events))
    })?;
    assert_eq!(
        (&limited[0]["download"], &limited[1]["download"]),
        (&100_000.into(), &300_000.into())
    );
    ensure!(limited[0]["by"].as_str().is_some_and(|by| by.starts_with("cli:")), "{limited:?}");
    Ok(())
}

#[test]
fn a_changed_rate_reaches_running_sessions_within_two_seconds() -> Result<()> {
    let (node, login) = node_with_ftp(r#"{"site_commands":["limit"]}"#)?;
    big_file(&node, &login, 200_000_000)?;
    node.cli(&["policy", "create", "slow", "session_download_bytes_per_second=500000"])?;
    node.cli(&["account", "change", "acme", "policy=slow", "type=admin"])?;
    let download = Download::begin(&node, &login, "back.bin")?;
    settles(&node, &download, 500_000.0).context("at first")?;
    node.cli(&["policy", "change", "slow", "session_download_bytes_per_second=1500000"])?;
    settles(&node, &download, 1_500_000.0).context("faster")?;
    // Hours that hold: all day, every day.
    let hours = r#"hours=[{"session_download_bytes_per_second":700000}]"#;
    node.cli(&["policy", "change", "slow", hours])?;
    settles(&node, &download, 700_000.0).context("in the hours")?;
    // Everything together, by an administrator of another session.
    let said = login.lftp_ftp(&node, Clear, "quote SITE LIMIT 0 300000")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    ensure!(said.contains("200"), "{said}");
    settles(&node, &download, 300_000.0).context("by SITE LIMIT")?;
    let by = node.until("the order in the audit log", || Ok(node.events("node.limited")?.pop()))?;
    assert_eq!(
        (&by["by"], &by["download"], &by["account"]),
        (&"acme".into(), &300_000.into(), &"acme".into())
    );
    ensure!(by["upload"].is_null() && by["session"].is_string(), "{by}");
    login.lftp_ftp(&node, Clear, "quote SITE LIMITBANDWIDTH")?;
    settles(&node, &download, 700_000.0).context("taken back")
}

/// One control connection.
pub(crate) struct Control {
    stream: BufReader<TcpStream>,
}

impl Control {
    fn open(address: (&str, u16)) -> Result<Control> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Control { stream: BufReader::new(stream) })
    }

    /// The next line of a reply.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Sends a command, and does not wait for its reply.
    pub(crate) fn send(&mut self, command: &str) -> Result<()> {
        Ok(self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes())?)
    }

    /// Sends a command; the first line of its reply.
    pub(crate) fn says(&mut self, command: &str) -> Result<String> {
        self.send(command)?;
        self.line()
    }

    fn log_in(port: u16, login: &Login) -> Result<Control> {
        Control::log_in_at(("127.0.0.1", port), login)
    }

    /// A session of an account, by its password and without TLS.
    pub(crate) fn log_in_at(address: (&str, u16), login: &Login) -> Result<Control> {
        let mut control = Control::open(address)?;
        control.line()?;
        control.says(&format!("USER {}", login.account))?;
        let said = control.says(&format!("PASS {}", login.password))?;
        ensure!(said.starts_with("230"), "{said}");
        Ok(control)
    }
}

#[test]
fn words_of_administrators_are_for_them_alone_and_only_where_offered() -> Result<()> {
    let (node, login) = node_with_ftp("")?;
    let port = node.ftp_port()?;
    let both = ["SITE LIMIT 5000", "SITE SHUTDOWN", "SITE SHUTDOWN CONFIRM"];
    let refused = |login: &Login| -> Result<bool> {
        let mut control = Control::log_in(port, login)?;
        let codes: Result<Vec<String>> = both.iter().map(|word| control.says(word)).collect();
        Ok(codes?.iter().all(|said| said.starts_with("504")))
    };
    node.cli(&["account", "change", "acme", "type=admin"])?;
    ensure!(refused(&login)?, "the listener offers none");
    node.cli(&["account", "change", "acme", "type=partner"])?;
    node.cli(&["listener", "change", "ftp", r#"ftp={"site_commands":["limit","shutdown"]}"#])?;
    ensure!(refused(&login)?, "the account is no administrator");
    node.cli(&["account", "change", "acme", "type=admin"])?;
    node.until("the words to be offered", || {
        let mut control = Control::log_in(port, &login)?;
        Ok(control.says("SITE LIMIT")?.starts_with("200").then_some(()))
    })?;
    let mut control = Control::log_in(port, &login)?;
    ensure!(control.says("SITE SHUTDOWN CONFIRM")?.starts_with("503"), "without being asked");
    ensure!(control.says("SITE SHUTDOWN")?.starts_with("350"));
    ensure!(control.says("NOOP")?.starts_with("200"));
    ensure!(control.says("SITE SHUTDOWN CONFIRM")?.starts_with("503"), "not the very next");
    // Who is no administrator any more has the session, but not the words.
    node.cli(&["account", "change", "acme", "type=partner"])?;
    node.until("the change to count", || {
        Ok((!control.says("SITE LIMIT 5000")?.starts_with("200")).then_some(()))
    })?;
    ensure!(node.events("node.draining")?.is_empty());
    Ok(())
}

#[test]
fn a_shutdown_lets_transfers_end_and_tells_newcomers() -> Result<()> {
    let (mut node, login) = node_with_ftp(r#"{"site_commands":["shutdown"]}"#)?;
    node.cli(&["account", "change", "acme", "type=admin"])?;
    let port = node.ftp_port()?;
    let content = noise(7, 3_000_000);
    let local = local_file(&node, "big.bin", &content)?;
    let mut curl = login.curl_ftp(&node, Clear)?;
    curl.args(["--limit-rate", "600K", "-T"]).arg(&local).arg(login.ftp_url(&node, "big.bin")?);
    let mut upload = curl.spawn()?;
    let staging = node.files().join(".entrepot-staging");
    node.until("the upload to begin", || {
        let mut entries = std::fs::read_dir(&staging).into_iter().flatten().flatten();
        let begun = entries.any(|entry| entry.metadata().is_ok_and(|meta| meta.len() > 0));
        Ok(begun.then_some(()))
    })?;
    let mut idle = Control::log_in(port, &login)?;
    let script = ["-Q", "SITE SHUTDOWN", "-Q", "SITE INTERNALSHUTDOWN CONFIRM", "-I"];
    // The session ends with the node, or a moment before curl is done.
    let _ = login.curl_ftp(&node, Clear)?.args(script).arg(login.ftp_url(&node, "")?).output()?;
    ensure!(idle.line()?.starts_with("421"), "an idle session goes on");
    let mut newcomer = Control::open(("127.0.0.1", port))?;
    assert_eq!(newcomer.line()?, "421 The server is stopping: try again later.");
    ensure!(newcomer.stream.read(&mut [0; 1]).map_or(true, |count| count == 0));
    ensure!(upload.wait()?.success(), "the running upload was cut");
    ensure!(node.wait()?.success(), "{}", node.log());
    ensure!(std::fs::read(login.on_disk(&node, "big.bin"))? == content);
    let events = node.events("node.draining")?;
    ensure!(events.len() == 1 && events[0]["by"] == "acme", "{events:?}");
    assert_eq!(node.events("node.stopped")?.len(), 1);
    Ok(())
}

/// How many of so many connections without a login from one address stay open.
fn crowd(port: u16, count: usize) -> Result<usize> {
    let open: Result<Vec<Control>> =
        (0..count).map(|_| Control::open(("127.0.0.1", port))).collect();
    let mut crowd = open?;
    // When each was greeted or refused, it is decided who must make room.
    crowd.retain_mut(|control| control.line().is_ok_and(|line| line.starts_with("220")));
    // Who must may answer once more before it hears of it, but not twice.
    for _ in 0..2 {
        crowd.retain_mut(|control| control.says("NOOP").is_ok_and(|it| it.starts_with("200")));
    }
    Ok(crowd.len())
}

#[test]
fn a_crowd_of_a_named_network_is_let_in() -> Result<()> {
    let (node, _login) = node_with_ftp("")?;
    let port = node.ftp_port()?;
    let usual = crowd(port, 300)?;
    ensure!(usual == 256, "{usual} where 256 are usual");
    let named = r#"unauthenticated=[{"network":"127.0.0.0/8","connections":400}]"#;
    node.cli(&["listener", "change", "ftp", named])?;
    // Those of a crowd before may not be gone yet.
    node.until("the network to count", || Ok((crowd(port, 300)? == 300).then_some(())))?;
    node.until("all of them to be let in", || Ok((crowd(port, 400)? == 400).then_some(())))
}

/// What the steps of rules write into an account, and read of it: it is never faster than its
/// policy says, and a twentieth of that. How fast it was is printed.
#[test]
fn what_rules_move_is_no_faster_than_the_policy_of_their_account() -> Result<()> {
    const BYTES: usize = 5_000_000;
    const RATE: f64 = 1_000_000.0;
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let mut documents = "policy: {name: slow, upload_bytes_per_second: 1000000, \
                         download_bytes_per_second: 1000000}\n"
        .to_owned();
    for name in ["away", "there"] {
        let folder = node.scratch().join(name);
        std::fs::create_dir(&folder)?;
        let endpoint = json!({"name": name, "target": {"directory": {"path": folder}}});
        documents += &format!("---\n{}\n", json!({ "endpoint": endpoint }));
    }
    let content = noise(6, BYTES);
    std::fs::write(node.scratch().join("away/big.bin"), &content)?;
    documents += "---
rule:
  name: in
  when: {call: {}}
  as: acme
  do: [{fetch: {endpoint: away, path: big.bin}}, {copy: {to: /big.bin}}]
---
rule: {name: out, when: {event: file.uploaded}, do: [{deliver: {endpoint: there}}]}
";
    node.cli_with_input(&["apply", "-"], &documents)?;
    node.cli(&["account", "change", "acme", "policy=slow"])?;
    node.start()?;
    node.cli(&["rule", "run", "in"])?;
    let time = |kind: &str| -> Result<Timestamp> {
        let event = node.until(kind, || Ok(node.events(kind)?.pop()))?;
        Ok(serde_json::from_value(event["at"].clone())?)
    };
    let times = [time("rule.called")?, time("file.uploaded")?, time("file.delivered")?];
    for (at, what) in ["written into the account", "read of it"].into_iter().enumerate() {
        let seconds = times[at + 1].since(times[at]).as_secs_f64();
        let rate = BYTES as f64 / seconds;
        println!(
            "{BYTES} bytes {what} in {seconds:.2} s: {:.1} % of the rate",
            rate / RATE * 100.0
        );
        // A busy machine makes it slower, and nothing makes it faster.
        ensure!(rate <= RATE * 1.05, "{rate:.0} bytes a second {what}");
    }
    ensure!(std::fs::read(node.scratch().join("there/big.bin"))? == content, "it differs");
    ensure!(std::fs::read(login.on_disk(&node, "big.bin"))? == content, "it differs");
    node.stop()
}
