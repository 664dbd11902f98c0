//! The page `docs/howto/check-logins-elsewhere.md`, done: a web service, a program and a directory
//! decide logins.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::Login;
use entrepot_testkit::clients::ftp::Protection::Tls;
use entrepot_testkit::ports::free_port;
use entrepot_testkit::server::{Node, run};
use entrepot_testkit::slapd::Slapd;
use serde_json::Value;

use crate::program;

const PAGE: &str = include_str!("../docs/howto/check-logins-elsewhere.md");

/// The fenced blocks of a language, in order.
fn block(language: &str, number: usize) -> Result<&'static str> {
    let fence = format!("```{language}\n");
    let block = PAGE.split(&*fence).nth(number + 1).and_then(|rest| rest.split("```").next());
    block.with_context(|| format!("the page has no block {number} of {language}"))
}

/// The web service of the page, on a port of its own.
struct Service {
    child: Child,
    port: u16,
}

impl Service {
    fn start(node: &Node) -> Result<Service> {
        Self::start_with(node, |script| script)
    }

    fn start_with(node: &Node, change: impl Fn(String) -> String) -> Result<Service> {
        let port = free_port()?;
        let file = node.scratch().join("check.py");
        let script = block("python", 0)?.replace("8700", &port.to_string());
        std::fs::write(&file, change(script))?;
        let mut python = Command::new("python3");
        let child = python.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        node.until("the service", || Ok(TcpStream::connect(("127.0.0.1", port)).ok()))?;
        Ok(Service { child, port })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Applies a document of the page, and lists by the command behind it.
fn apply(node: &Node, number: usize, change: impl Fn(String) -> String) -> Result<()> {
    let file = node.scratch().join(format!("hook{number}.yaml"));
    let document = block("yaml", number)?.replace("0.0.0.0:21", "127.0.0.1:0");
    std::fs::write(&file, change(document))?;
    node.cli(&["apply", file.to_str().context("a path")?]).map(drop)
}

/// The command of the page behind a document.
fn lists(node: &Node, number: usize, password: &str) -> Result<bool> {
    let command = block("sh", number)?.lines().nth(1).context("a command")?;
    let host = format!("localhost:{}", node.ftp_port()?);
    let command = command.replace("files.example", &host).replace("open sesame", password);
    // The certificate is the one that the listener made for itself.
    let command = command.replace("--ssl-reqd", "--ssl-reqd --insecure");
    Ok(Command::new("sh").args(["-c", &command]).output()?.status.success())
}

fn last(node: &Node, kind: &str, field: &str, begins: &str) -> Result<Value> {
    node.until(&format!("{kind} that says '{begins}'"), || {
        let mut events = node.events(kind)?.into_iter().rev();
        Ok(events.find(|event| event[field].as_str().is_some_and(|it| it.starts_with(begins))))
    })
}

#[test]
fn the_page_about_logins_elsewhere_does_what_it_says() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    let check = node.scratch().join("check-login");
    std::fs::write(&check, block("program", 0)?)?;
    run(Command::new("chmod").arg("755").arg(&check))?;
    let here =
        |text: &str| text.replace("/usr/local/libexec/check-login", &check.display().to_string());
    let config = node.home().join("entrepot.toml");
    let allow = format!("{}\n{}", std::fs::read_to_string(&config)?, here(block("toml", 0)?));
    std::fs::write(&config, allow)?;
    node.start()?;

    ensure!(!lists(&node, 0, "open sesame")?, "before there was a hook");
    let service = Service::start(&node)?;
    let port = service.port.to_string();
    apply(&node, 0, |document| document.replace("8700", &port))?;
    node.until("the hook to count", || Ok(lists(&node, 0, "open sesame")?.then_some(())))?;
    let opened = last(&node, "session.opened", "proof", "password of 'anna', by the login hook")?;
    assert_eq!(opened["account"], "sales");
    ensure!(!lists(&node, 0, "wrong")?, "a wrong password");
    let refused = last(&node, "login.refused", "reason", "the login hook refused")?;
    assert_eq!(refused["name"], "anna");

    drop(service);
    ensure!(!lists(&node, 0, "open sesame")?, "the hook is down");
    last(&node, "login.refused", "reason", "the login hook did not decide")?;
    run(login.curl_ftp(&node, Tls)?.arg(login.ftp_url(&node, "")?)).context("its own password")?;

    apply(&node, 1, |document| here(&document))?;
    node.until("the program to count", || Ok(lists(&node, 1, "open sesame")?.then_some(())))?;
    ensure!(!lists(&node, 1, "wrong")?, "a wrong password");
    let log = node.log();
    ensure!(log.contains("EP0306") && !log.contains("open sesame"), "{log}");
    let events = node.cli(&["event", "list", "--limit", "1000"])?;
    ensure!(!events.contains("open sesame"), "{events}");
    Ok(())
}

#[test]
fn a_service_under_tls_must_be_the_right_one_and_public_unless_told() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.add_ftp()?;
    node.start()?;
    let (key, certificate) = (node.scratch().join("hook.key"), node.scratch().join("hook.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    run(openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate))?;
    let service = Service::start_with(&node, |script| {
        let (plain, wrapped) =
            ("http.server.HTTPServer((", "import ssl\nserver = http.server.HTTPServer((");
        let tls = format!(
            "\ncontext = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
             context.load_cert_chain('{}', '{}')\n\
             server.socket = context.wrap_socket(server.socket, server_side=True, \
             do_handshake_on_connect=False)\nserver.serve_forever()\n",
            certificate.display(),
            key.display()
        );
        script.replace(plain, wrapped).replace(".serve_forever()", &tls)
    })?;
    apply(&node, 0, |document| document)?;
    let pem = std::fs::read_to_string(&certificate)?;
    let hook = |private: bool, authorities: Option<&str>| {
        let url = format!("https://localhost:{}/check", service.port);
        let mut http = serde_json::json!({"url": url, "private": private});
        if let Some(pem) = authorities {
            http["authorities"] = pem.into();
        }
        let login = serde_json::json!({"hook": {"http": http}, "seconds": 10});
        // What is set is added to what was set before.
        node.cli(&["listener", "change", "ftp", "login="])?;
        node.cli(&["listener", "change", "ftp", &format!("login={login}")])
    };
    hook(true, Some(&pem))?;
    node.until("the hook to count", || Ok(lists(&node, 0, "open sesame")?.then_some(())))?;
    for (private, authorities, why) in
        [(true, None, "certificate"), (false, Some(&*pem), "private")]
    {
        hook(private, authorities)?;
        node.until(why, || {
            ensure!(!lists(&node, 0, "wrong")?, "a wrong password");
            let mut refused = node.events("login.refused")?.into_iter();
            let told = |event: Value| event["reason"].as_str().is_some_and(|it| it.contains(why));
            Ok(refused.any(told).then_some(()))
        })?;
        ensure!(!lists(&node, 0, "open sesame")?, "{why}");
    }
    Ok(())
}

/// The people of the page about directories, and one whom its search does not find.
const PEOPLE: &str = "\
dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: uid=anna,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: anna
cn: Anna
sn: A
employeeType: transfer
departmentNumber: sales
userPassword: open sesame

dn: uid=bert,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: bert
cn: Bert
sn: B
departmentNumber: sales
userPassword: open sesame
";

#[test]
fn a_directory_decides_about_logins_in_clear_text_here_and_under_tls() -> Result<()> {
    let slapd = Slapd::start(PEOPLE)?;
    let mut node = Node::new(program(), None)?;
    node.add_ftp()?;
    node.start()?;
    apply(&node, 0, |document| document)?;
    let pem: Value = slapd.certificate().into();
    let (clear, tls) = (slapd.port(), slapd.tls_port());
    for (url, under_tls) in [
        (format!("ldap://localhost:{clear}"), false),
        (format!("ldap://localhost:{clear}"), true),
        (format!("ldaps://localhost:{tls}"), true),
    ] {
        // What is set is added to what was set before.
        node.cli(&["listener", "change", "ftp", "login="])?;
        let own = if under_tls {
            format!("\n        private: true\n        authorities: {pem}")
        } else {
            String::new()
        };
        apply(&node, 2, |document| {
            document.replace("ldaps://directory.example", &format!("{url}{own}"))
        })?;
        let before = slapd.log().matches("TLS established").count();
        node.until("the directory to count", || Ok(lists(&node, 2, "open sesame")?.then_some(())))?;
        let opened =
            last(&node, "session.opened", "proof", "password of 'anna', by the login hook")?;
        assert_eq!(opened["account"], "sales");
        let log = slapd.log();
        ensure!((log.matches("TLS established").count() > before) == under_tls, "{url}: {log}");
        ensure!(!lists(&node, 2, "wrong")?, "a wrong password");
        last(&node, "login.refused", "reason", "the login hook refused")?;
    }
    // Nobody's password is empty, and a name is a name, not a piece of a filter.
    for user in ["anna:", "bert:open sesame", "*:open sesame", "anna)(uid=*:open sesame"] {
        let url = format!("ftp://localhost:{}/", node.ftp_port()?);
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--ssl-reqd", "--insecure", "--user", user, &url]);
        ensure!(!curl.output()?.status.success(), "{user} was let in");
    }
    drop(slapd);
    ensure!(!lists(&node, 2, "open sesame")?, "the directory is down");
    last(&node, "login.refused", "reason", "the login hook did not decide")?;
    let log = node.log();
    ensure!(log.contains("EP0306") && !log.contains("open sesame"), "{log}");
    Ok(())
}
