//! Rules before and after what is asked for over HTTP, with curl: the page
//! `docs/howto/refuse-a-command.md`, its part about HTTP, done, programs that decide, jobs
//! afterwards, WebDAV, a share link and sign-ins.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, text};
use entrepot_testkit::server::{Node, feed, run};

use crate::hooks::{apply, blocks, node_with_programs, script};

const SENTENCE: &str = "ask archive@example.com";

struct Web {
    node: Node,
    login: Login,
    server: String,
    /// Where programs of rules lie.
    programs: PathBuf,
}

/// The status and the body of an answer.
#[derive(Debug)]
struct Asked {
    status: u16,
    body: String,
}

impl Web {
    fn start() -> Result<Web> {
        let (node, login, programs) = node_with_programs()?;
        for folder in ["archive", "in"] {
            std::fs::create_dir_all(login.on_disk(&node, folder))?;
        }
        std::fs::write(login.on_disk(&node, "archive").join("2016.txt"), "old")?;
        node.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
        let port = node.until("the listener", || Ok(node.port_of("https").ok()))?;
        Ok(Web { node, login, server: format!("https://127.0.0.1:{port}"), programs })
    }

    /// A request of the account.
    fn ask(&self, method: &str, path: &str, more: &[&str]) -> Result<Asked> {
        let user = format!("{}:{}", self.login.account, self.login.password);
        self.ask_as(&user, method, path, more)
    }

    fn ask_as(&self, user: &str, method: &str, path: &str, more: &[&str]) -> Result<Asked> {
        let address = format!("{}{path}", self.server);
        self.curl(&[&["-u", user, "-X", method, &address], more].concat())
    }

    fn curl(&self, arguments: &[&str]) -> Result<Asked> {
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--max-time", "60", "-w", "\n%{http_code}"]).args(arguments);
        let output = String::from_utf8(run(&mut curl)?.stdout)?;
        let (body, status) = output.rsplit_once('\n').context("a status")?;
        Ok(Asked { status: status.parse()?, body: body.to_owned() })
    }

    fn put(&self, path: &str) -> Result<Asked> {
        self.ask("PUT", path, &["--data-binary", "new"])
    }

    /// Waits until this request is answered so.
    fn until(&self, status: u16, method: &str, path: &str) -> Result<()> {
        self.node.until("the rule to count", || {
            Ok((self.ask(method, path, &[])?.status == status).then_some(()))
        })
    }

    fn entries(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.login.on_disk(&self.node, folder))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        Ok(names)
    }
}

fn must_be_refused(asked: &Asked, what: &str) -> Result<()> {
    ensure!(asked.status == 403 && asked.body.contains(SENTENCE), "{what}: {asked:?}");
    ensure!(asked.body.contains("EP1030"), "{what}: {asked:?}");
    Ok(())
}

#[test]
fn the_archive_of_the_page_stays_whatever_asks_for_it_over_http() -> Result<()> {
    let web = Web::start()?;
    let page = include_str!("../docs/howto/refuse-a-command.md");
    apply(&web.node, blocks(page, "yaml")[2])?;
    web.until(403, "DELETE", "/files/archive/nothing")?;
    let to = format!("Destination: {}/dav/archive/x", web.server);
    let away = format!("Destination: {}/dav/away", web.server);
    ensure!(web.put("/files/free")?.status == 201);
    for (method, path, more) in [
        ("PUT", "/files/archive/2016.txt", &["--data-binary", "new"][..]),
        ("DELETE", "/files/archive/2016.txt", &[]),
        ("POST", "/files/archive/d?mkdir", &[]),
        ("POST", "/files/archive/2016.txt?move=/away", &[]),
        ("POST", "/files/free?move=/archive/x", &[]),
        ("POST", "/files/free?copy=/archive/x", &[]),
        ("POST", "/files/archive/", &["-F", "file=new;filename=x"]),
        ("POST", "/files/archive/", &["-F", "delete=2016.txt"]),
        ("PUT", "/dav/archive/x", &["--data-binary", "new"]),
        ("DELETE", "/dav/archive", &[]),
        ("MKCOL", "/dav/archive/d", &[]),
        ("MOVE", "/dav/archive/2016.txt", &["-H", &away]),
        ("COPY", "/dav/free", &["-H", &to]),
        (
            "POST",
            "/uploads",
            &["-H", "Content-Type: application/json", "-d", r#"{"path":"/archive/x","size":3}"#],
        ),
        (
            "POST",
            "/uploads",
            // The name is 'x', the folder '/archive'.
            &["-H", "Upload-Length: 3", "-H", "Upload-Metadata: filename eA==,folder L2FyY2hpdmU="],
        ),
    ] {
        must_be_refused(&web.ask(method, path, more)?, &format!("{method} {path}"))?;
    }
    // A page for people says it, too.
    let page = web.ask("DELETE", "/files/archive/2016.txt", &["-H", "Accept: text/html"])?;
    ensure!(page.status == 403 && page.body.contains(SENTENCE), "{page:?}");
    // A link lets nobody do what its owner may not.
    let create = ["link", "create", &web.login.account, "/archive", "--allow", "both"];
    let made = web.node.json(&create)?;
    let address = made["addresses"][0]["address"].as_str().context("an address")?;
    let secret = address.rsplit('/').next().context("a secret")?;
    let link = format!("{}/s/{secret}", web.server);
    must_be_refused(
        &web.curl(&["-X", "PUT", "--data-binary", "new", &format!("{link}/x")])?,
        "a link",
    )?;
    ensure!(web.curl(&[&format!("{link}/2016.txt")])?.body == "old");
    ensure!(web.ask("GET", "/files/archive/2016.txt", &[])?.body == "old");
    assert_eq!(web.entries("archive")?, ["2016.txt"]);
    web.node.until("the refusals in the log", || {
        let refused = web.node.events("command.refused")?;
        let is = |verb: &str| {
            refused.iter().any(|event| {
                event["protocol"] == "http" && event["verb"] == *verb && event["code"] == 403
            })
        };
        let all = ["write", "remove", "mkdir", "rename"].into_iter().all(is);
        let owner = |event: &serde_json::Value| event["account"] == *web.login.account;
        Ok((all && refused.iter().all(owner)).then_some(()))
    })?;
    web.node.cli(&["rule", "delete", "archive-stays-http"])?;
    web.until(204, "DELETE", "/files/archive/2016.txt")
}

#[test]
fn a_program_decides_before_a_request_and_a_job_follows_it() -> Result<()> {
    let web = Web::start()?;
    let decide = "#!/bin/sh\ncase \"$1\" in *.exe|*.bat) exit 2;; esac\nexit 0\n";
    let enter = "#!/bin/sh\necho \"$2\" >> \"$1\"\n";
    let (decide, enter) =
        (script(&web.programs, "decide", decide)?, script(&web.programs, "enter", enter)?);
    let book = web.node.scratch().join("book/done");
    let rule = |name: &str, when: &str, condition: &str, exec: &str| {
        format!(
            "rule:\n  name: {name}\n  when: {when}\n  if: {condition}\n  do:\n    - exec: {exec}\n"
        )
    };
    let asks = |code: &str| format!("{{argv: [{}, '{{path}}']{code}}}", decide.display());
    let notes = format!(
        "{{argv: [{}, {}, '{{verb}} {{path}} {{code}} {{account}}']}}",
        enter.display(),
        text(&book)?
    );
    let before = "{before: [http write]}";
    let inside = "command.path.startsWith('/in/') &&";
    apply(
        &web.node,
        &[
            rule(
                "exe",
                before,
                &format!("{inside} !command.path.endsWith('.bat')"),
                &asks(", failure_code: 550"),
            ),
            rule("bat", before, &format!("{inside} command.path.endsWith('.bat')"), &asks("")),
            rule("book", "{after: [http write, http read]}", "command.code < 400", &notes),
        ]
        .join("---\n"),
    )?;
    web.node.until("the rules to count", || {
        Ok((web.put("/files/in/a.exe")?.status == 403).then_some(()))
    })?;
    let later = web.put("/dav/in/a.bat")?;
    ensure!(later.status == 503 && later.body.contains("EP0883"), "{later:?}");
    ensure!(web.put("/files/in/a.txt")?.status == 201);
    ensure!(web.put("/dav/in/b.txt")?.status == 201);
    let form = web.ask("POST", "/files/in/", &["-F", "file=new;filename=c.txt"])?;
    ensure!(form.status == 201, "{form:?}");
    let refused = web.ask("POST", "/files/in/", &["-F", "file=new;filename=c.exe"])?;
    ensure!(refused.status == 403 && refused.body.contains("c.exe"), "{refused:?}");
    ensure!(web.ask("GET", "/files/in/a.txt", &[])?.body == "new");
    let account = &web.login.account;
    let wanted = |line: &str| format!("{line} {account}");
    web.node.until("the jobs", || {
        let book = std::fs::read_to_string(&book).unwrap_or_default();
        let has = |line: &str| book.lines().any(|it| it == wanted(line));
        let all = ["write /in/a.txt 201", "write /in/b.txt 201", "write /in/c.txt 201"];
        Ok((all.into_iter().all(has) && has("read /in/a.txt 200")).then_some(()))
    })?;
    let once = std::fs::read_to_string(&book)?;
    assert_eq!(once.matches("/in/a.txt 201").count(), 1, "{once}");
    let names = web.entries("in")?;
    ensure!(!names.iter().any(|name| name.ends_with(".bat") || name == "c.exe"), "{names:?}");
    let done = web.node.events("command.done")?;
    let event = done.iter().find(|event| event["path"] == "/in/a.txt" && event["verb"] == "write");
    let event = event.context("what was done is in the log")?;
    assert_eq!(event["protocol"], "http");
    ensure!(event["transfer"].is_string() && event["bytes"] == 3, "{event}");
    sign_ins(&web)
}

/// Who may sign in, and what is no word of HTTP.
fn sign_ins(web: &Web) -> Result<()> {
    web.node
        .cli_with_input(&["account", "create", "eve", "--password-stdin"], "a password of eve")?;
    let eve = "eve:a password of eve";
    ensure!(web.ask_as(eve, "GET", "/api/v1/session", &[])?.status == 200);
    let rule = "rule:\n  name: not-eve\n  when: {before: [http login]}\n  \
                if: command.account == 'eve'\n  do:\n    - refuse: {text: Not by HTTP.}\n";
    apply(&web.node, rule)?;
    // Her session goes on: one that she opens by another credential is a new one.
    let address = format!("{}/api/v1/session", web.server);
    web.node.until("the sign-in to be refused", || {
        let token = web.node.json(&["token", "create", "eve", "--scope", "files:read"])?;
        let token = token["token"].as_str().context("a token")?;
        let asked = web.curl(&["-H", &format!("Authorization: Bearer {token}"), &address])?;
        Ok((asked.status == 403 && asked.body.contains("Not by HTTP.")).then_some(()))
    })?;
    ensure!(web.ask("GET", "/files/", &[])?.status == 200, "others may");
    let mut applying = web.node.command(&["apply", "-"]);
    let wrong = rule.replace("http login", "http GET");
    let said = feed(&mut applying, &wrong).err().context("an unknown word is stored")?;
    ensure!(format!("{said:?}").contains("did you mean 'http read'?"), "{said:?}");
    Ok(())
}
