//! Several uploads in one session under TLS, with the default `tls_reuse: required`: every data
//! connection resumes the session of TLS of its control connection, also behind uploads, on which
//! the server sends nothing but what TLS makes it send.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::ftp::Protection::{self, Implicit, Tls};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::{Node, feed, run};

use crate::program;

/// Enough for every ticket that a server hands out at once to be used up.
const FILES: usize = 8;

struct Uploads {
    node: Node,
    login: Login,
    /// Paths of the files to send, named `0` and on.
    files: Vec<String>,
}

impl Uploads {
    fn prepare() -> Result<Uploads> {
        let mut node = Node::new(program(), None)?;
        let login = Login::create(&node, "acme")?;
        node.add_ftp()?;
        node.add_ftps("")?;
        node.start()?;
        let file =
            |n: usize| Ok(text(&local_file(&node, &n.to_string(), &content(n))?)?.to_owned());
        let files = (0..FILES).map(file).collect::<Result<_>>()?;
        Ok(Uploads { node, login, files })
    }

    /// Every file is there, and one session brought them.
    fn arrived(&self, folder: &str) -> Result<()> {
        for n in 0..FILES {
            let file = self.login.on_disk(&self.node, folder).join(n.to_string());
            let came = std::fs::read(&file).with_context(|| format!("'{}'", file.display()))?;
            ensure!(came == content(n), "{n} came up different");
        }
        let sessions = self.node.until("the uploads in the audit log", || {
            let events = self.node.events("file.uploaded")?;
            let of = |event: &&serde_json::Value| {
                event["path"].as_str().is_some_and(|p| p.starts_with(&format!("/{folder}/")))
            };
            let here: Vec<_> = events.iter().filter(of).collect();
            let ids = here.iter().map(|event| event["session"].to_string());
            Ok((here.len() >= FILES).then(|| ids.collect::<std::collections::BTreeSet<_>>()))
        })?;
        ensure!(sessions.len() == 1, "{} sessions", sessions.len());
        Ok(())
    }
}

fn content(n: usize) -> Vec<u8> {
    noise(n as u64, 1_000 + 40_000 * n)
}

/// `curl -T "{0,1,…}"`, which asks for a list and a file between the uploads of a second call.
fn curl(protection: Protection, version: &str) -> Result<()> {
    let uploads = Uploads::prepare()?;
    let Uploads { node, login, files } = &uploads;
    let (scheme, listener) = if protection == Implicit { ("ftps", "ftps") } else { ("ftp", "ftp") };
    let base = format!("{scheme}://localhost:{}", node.port_of(listener)?);
    let certificate = node.certificate_of(listener)?;
    let login = format!("{}:{}", login.account, login.password);
    let options = ["-sS", "--fail-early", "--ssl-reqd", "--ftp-create-dirs", "--tls-max", version];
    let options = [&options, &["-u", &login, "--cacert", text(&certificate)?][..]].concat();
    let all = format!("{{{}}}", files.join(","));
    run(Command::new("curl").args(&options).args(["-T", &all, &format!("{base}/together/")]))?;
    uploads.arrived("together")?;
    let mut between = Command::new("curl");
    for file in files {
        between.args(&options).args(["-T", file, &format!("{base}/between/"), "--next"]);
        for path in ["/together/1", "/between/"] {
            between.args(&options).args(["-o", "/dev/null", &format!("{base}{path}"), "--next"]);
        }
    }
    run(between.args(&options).args(["-o", "/dev/null", &format!("{base}/")]))?;
    uploads.arrived("between")
}

#[test]
fn curl_under_tls_1_3() -> Result<()> {
    curl(Tls, "1.3")
}

#[test]
fn curl_under_tls_1_2() -> Result<()> {
    curl(Tls, "1.2")
}

#[test]
fn curl_under_implicit_tls() -> Result<()> {
    curl(Implicit, "1.3")
}

#[test]
fn lftp() -> Result<()> {
    let uploads = Uploads::prepare()?;
    let Uploads { node, login, files } = &uploads;
    for (protection, folder) in [(Tls, "explicit"), (Implicit, "implicit")] {
        let put: String = files.iter().map(|file| format!("put {file}; ")).collect();
        let script =
            format!("mkdir {folder}; cd {folder}; {put}cls; cat 1 | wc -c; put {}", files[0]);
        login.lftp_ftp(node, protection, &script)?;
        uploads.arrived(folder)?;
    }
    Ok(())
}

/// The way in which programs on `ftplib` resume the session of their control connection.
const RESUMING: &str = "
ftp.quit()
class Resuming(ftplib.FTP_TLS):
    def ntransfercmd(self, cmd, rest=None):
        conn, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        conn = self.context.wrap_socket(conn, server_hostname=self.host, session=self.sock.session)
        assert conn.session_reused, cmd
        return conn, size
ftplib.FTP_TLS = Resuming
ftp = session()
import os
ftp.mkd('all')
for file in sys.argv[5:]:
    with open(file, 'rb') as source:
        ftp.storbinary('STOR all/' + os.path.basename(file), source)
    assert os.path.basename(file) in [name for name, facts in ftp.mlsd('all')]
ftp.quit()
";

#[test]
fn ftplib_that_resumes() -> Result<()> {
    let uploads = Uploads::prepare()?;
    let files: Vec<_> = uploads.files.iter().map(Into::into).collect();
    let Uploads { node, login, .. } = &uploads;
    login.ftplib_with(node, Tls, RESUMING, &files)?;
    uploads.arrived("all")
}

/// `entrepot put`, which shares a tree out among a few sessions.
#[test]
fn our_own() -> Result<()> {
    let Uploads { node, login, .. } = &Uploads::prepare()?;
    let tree = node.scratch().join("tree");
    std::fs::create_dir(&tree)?;
    for n in 0..5 * FILES {
        std::fs::write(tree.join(n.to_string()), noise(n as u64, 10_000))?;
    }
    let url = format!("ftp://acme@localhost:{}/tree", node.port_of("ftp")?);
    let mut put = node.command(&["put", "--recursive", "--password-stdin", "--authorities"]);
    put.arg(node.certificate_of("ftp")?).arg(&tree).arg(&url);
    feed(&mut put, &login.password)?;
    run(Command::new("diff").arg("-r").arg(&tree).arg(login.on_disk(node, "tree"))).map(drop)
}
