//! Certificates of TLS in rules: ours, which prove to servers who asks, and those of senders of web
//! hooks.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::server::{Node, run};
use serde_json::{Value, json};

use crate::hooks::apply;
use crate::program;

/// Takes requests from clients with a certificate of the authority alone, and notes of each its
/// path and the common name of its client.
const SERVER: &str = "
import http.server, ssl, sys
certificate, key, authority, book = sys.argv[1:5]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get('content-length', 0)))
        subject = dict(part[0] for part in self.connection.getpeercert()['subject'])
        with open(book, 'a') as notes:
            notes.write(f\"{self.path} {subject['commonName']}\\n\")
        self.send_response(200)
        self.send_header('content-length', '0')
        self.end_headers()
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
context.load_verify_locations(authority)
context.verify_mode = ssl.CERT_REQUIRED
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

/// Ended with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Certificates, made by openssl in the scratch folder of a node.
struct Made(PathBuf);

impl Made {
    fn file(&self, name: &str, end: &str) -> PathBuf {
        self.0.join(format!("{name}.{end}"))
    }

    fn read(&self, name: &str, end: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.file(name, end))?)
    }

    /// One for a name, signed by `by` or by itself.
    fn make(&self, name: &str, host: &str, by: Option<&str>) -> Result<()> {
        let is_authority = if name.starts_with("ca") { "TRUE" } else { "FALSE" };
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}")]);
        openssl.args(["-addext", &format!("subjectAltName=DNS:{host}")]);
        openssl.args(["-addext", &format!("basicConstraints=critical,CA:{is_authority}")]);
        if let Some(by) = by {
            openssl.arg("-CA").arg(self.file(by, "pem")).arg("-CAkey").arg(self.file(by, "key"));
        }
        openssl.arg("-keyout").arg(self.file(name, "key"));
        run(openssl.arg("-out").arg(self.file(name, "pem"))).map(drop)
    }

    fn serve(&self) -> Result<Server> {
        let mut python = Command::new("python3");
        python.args(["-c", SERVER]).arg(self.file("server", "pem")).arg(self.file("server", "key"));
        python.arg(self.file("ca", "pem")).arg(self.0.join("book"));
        let mut child = python.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("piped")?).read_line(&mut line)?;
        Ok(Server { child, port: line.trim().parse()? })
    }
}

/// What the node is to have, of which each document is one line of JSON.
fn documents(made: &Made, port: u16) -> Result<String> {
    let (server, ca) = (made.read("server", "pem")?, made.read("ca", "pem")?);
    let url = format!("https://localhost:{port}");
    let web = |key: Option<&str>| {
        let mut web = json!({"url": url, "authorities": server, "allow_private": true});
        web["key"] = key.into();
        json!({ "web": web })
    };
    let hook = json!({"webhook": {"url": format!("{url}/told"), "authorities": server,
        "secret_key": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "key": "ours",
        "allow_private": true}});
    let certificates = json!({"of": ["dns:shop.example"]});
    let once = json!({"attempts": 1});
    let all = [
        json!({"key": {"name": "ours", "type": "tls", "public": made.read("ours", "pem")?,
            "private": made.read("ours", "key")?}}),
        json!({"endpoint": {"name": "known", "target": web(Some("ours"))}}),
        json!({"endpoint": {"name": "bare", "target": web(None)}}),
        json!({"endpoint": {"name": "receiver", "target": hook}}),
        json!({"rule": {"name": "orders", "when": {"hook":
                {"scheme": {"certificate": certificates}}}, "retry": once, "do": [
            {"http": {"endpoint": "known", "path": "/asked/{hook.body.id}"}},
            {"webhook": {"endpoint": "receiver"}}]}}),
        json!({"rule": {"name": "bare", "when": {"call": {}}, "retry": once,
            "do": [{"http": {"endpoint": "bare", "path": "/asked"}}]}}),
        json!({"listener": {"name": "https", "protocol": "https", "address": "127.0.0.1:0",
            "tls": {"client_certificates": "ask", "client_authorities": ca}}}),
    ];
    Ok(all.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n"))
}

#[test]
fn certificates_prove_who_asks_and_who_sends() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let made = Made(node.scratch().to_owned());
    made.make("ca", "ca.example", None)?;
    made.make("server", "localhost", None)?;
    for (name, host) in [("ours", "us.example"), ("shop", "shop.example"), ("eve", "eve.example")] {
        made.make(name, host, Some("ca"))?;
    }
    let server = made.serve()?;
    apply(&node, &documents(&made, server.port)?)?;
    let private = made.read("ours", "key")?;
    ensure!(!node.cli(&["export"])?.contains(private.lines().nth(1).context("a key")?));
    node.start()?;
    let send = |client: Option<&str>, id: u32| -> Result<u16> {
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}"]);
        if let Some(client) = client {
            curl.arg("--cert").arg(made.file(client, "pem"));
            curl.arg("--key").arg(made.file(client, "key"));
        }
        curl.args(["-H", "Content-Type: application/json", "--data", &format!("{{\"id\":{id}}}")]);
        let url = format!("https://localhost:{}/hooks/orders", node.port_of("https")?);
        Ok(String::from_utf8(run(curl.arg(&url))?.stdout)?.parse()?)
    };
    assert_eq!(send(None, 1)?, 401, "without a certificate");
    assert_eq!(send(Some("eve"), 2)?, 401, "with that of somebody else");
    assert_eq!(send(Some("shop"), 3)?, 202);
    let book = || std::fs::read_to_string(made.0.join("book"));
    node.until("the server to be asked and the receiver to be told", || {
        let lines = book().unwrap_or_default();
        Ok((lines.lines().count() >= 2).then_some(()))
    })?;
    assert_eq!(book()?, "/asked/3 ours\n/told ours\n");
    node.cli(&["rule", "run", "bare"])?;
    let failed = node.until("the job without a certificate to fail", || {
        let failed = node.events("job.failed")?;
        Ok(failed.into_iter().find(|event| event["rule"] == "bare"))
    })?;
    ensure!(failed["error"].as_str().is_some_and(|why| why.starts_with("EP02")), "{failed}");
    assert_eq!(book()?.lines().count(), 2);
    // A key that does not count any more proves nothing.
    node.cli(&["key", "change", "ours", "enabled=false"])?;
    assert_eq!(send(Some("shop"), 4)?, 202);
    node.until("the job with a disabled key to fail", || {
        let failed = node.events("job.failed")?;
        let is_it = |event: &Value| {
            event["error"].as_str().is_some_and(|why| why.starts_with("EP0884: key 'ours'"))
        };
        Ok(failed.iter().any(is_it).then_some(()))
    })?;
    assert_eq!(book()?.lines().count(), 2);
    node.stop()
}
