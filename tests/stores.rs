//! Endpoints on FTP servers, and the page `docs/howto/add-a-store.md`, done.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_nouns::endpoint::FtpTls;
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::ftpd::Ftpd;
use entrepot_testkit::s3::S3Server;
use entrepot_testkit::server::{Node, run};

use crate::program;

fn apply(node: &Node, documents: &str) -> Result<String> {
    node.cli_with_input(&["apply", "-"], documents)
}

fn indented(pem: &str, by: usize) -> String {
    pem.lines().map(|line| format!("{}{line}\n", " ".repeat(by))).collect()
}

/// An endpoint that pins the certificate.
fn endpoint(name: &str, (port, user, password): (u16, &str, &str), rest: &str) -> String {
    format!(
        "endpoint:\n  name: {name}\n  target:\n    ftp:\n      host: localhost\n      \
         port: {port}\n      user: {user}\n      password: '{password}'\n      \
         allow_private: true\n{rest}"
    )
}

fn pinned(certificate: &str) -> String {
    format!("      certificates:\n      - |\n{}", indented(certificate, 8))
}

/// A server that is slow and dies in the middle: the job is tried again, and the file is whole.
#[test]
fn a_delivery_to_an_ftp_server_that_dies_is_done_again_and_whole() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let server = Ftpd::vsftpd_with(FtpTls::Explicit, &["anon_max_rate=4000000"])?;
    let certificate = pinned(server.certificate().context("no certificate")?);
    let account = (server.port(), server.user(), server.password());
    let documents = endpoint("remote", account, &format!("      root: files\n{certificate}"))
        + "---\nrule:\n  name: to-remote\n  when: {event: file.uploaded}\n  do:\n    \
           - deliver: {endpoint: remote, path: 'in/{name}'}\n  \
           retry: {attempts: 5, first_delay_seconds: 1, longest_delay_seconds: 1}\n";
    apply(&node, &documents)?;
    let shown = node.cli(&["export"])?;
    ensure!(!shown.contains(server.password()), "an export shows a secret in the clear");
    node.start()?;
    let content = noise(77, 8_000_000);
    let local = local_file(&node, "big.bin", &content)?;
    login.sftp_batch(&node, &format!("put {} big.bin\n", text(&local)?))?;
    let inbox = server.folder().join("in");
    node.until("some of the file to arrive", || {
        let Ok(mut entries) = std::fs::read_dir(&inbox) else { return Ok(None) };
        let grows = |it: std::fs::DirEntry| it.metadata().is_ok_and(|meta| meta.len() > 1_000_000);
        Ok(entries.any(|entry| entry.is_ok_and(grows)).then_some(()))
    })?;
    ensure!(!inbox.join("big.bin").exists(), "it is visible before it is whole");
    server.kill_sessions();
    node.until("the delivery", || Ok((!node.events("file.delivered")?.is_empty()).then_some(())))?;
    ensure!(std::fs::read(inbox.join("big.bin"))? == content, "the file differs");
    let left = std::fs::read_dir(&inbox)?.count();
    ensure!(left == 1, "{left} names instead of one: a part is left");
    let jobs = node.json(&["job", "list", "--state", "done"])?;
    ensure!(jobs[0]["attempts"].as_u64() > Some(1), "it was not tried again: {jobs}");
    Ok(())
}

/// Two nodes: what is put into a mount of the first lies on the second, by FTPS with data
/// connections that resume their session, and comes back.
#[test]
fn a_mount_on_an_ftp_endpoint_shows_the_other_nodes_files() -> Result<()> {
    let mut far = Node::new(program(), None)?;
    let there = Login::create(&far, "gate")?;
    far.add_ftp()?;
    far.start()?;
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let certificate = pinned(&std::fs::read_to_string(far.certificate_of("ftp")?)?);
    let account = (far.ftp_port()?, there.account.as_str(), there.password.as_str());
    let mount = "---\nmount: {name: acme-far, account: acme, path: /far, endpoint: far}\n---\n\
                 rule:\n  name: to-far\n  when: {event: file.uploaded}\n  \
                 if: file.path.startsWith('/out/')\n  do:\n    \
                 - deliver: {endpoint: far, path: 'delivered/{name}'}\n";
    apply(&node, &(endpoint("far", account, &certificate) + mount))?;
    node.start()?;
    let content = noise(78, 3_000_001);
    let local = local_file(&node, "a.bin", &content)?;
    let back = node.scratch().join("back.bin");
    let (local, shown) = (text(&local)?, text(&back)?);
    let batch = format!(
        "mkdir far/d\nput {local} far/d/a.bin\nput {local} far/d/b.bin\nput {local} far/d/c.bin\n\
         rename far/d/a.bin far/d/e.bin\nrm far/d/b.bin\nget far/d/e.bin {shown}\nmkdir out\n\
         put {local} out/f.bin\n"
    );
    login.sftp_batch(&node, &batch)?;
    ensure!(std::fs::read(&back)? == content, "what came back differs");
    ensure!(std::fs::read(there.on_disk(&far, "d/e.bin"))? == content, "the file there differs");
    let mut names: Vec<_> = std::fs::read_dir(there.on_disk(&far, "d"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    names.sort();
    assert_eq!(names, ["c.bin", "e.bin"]);
    node.until("the delivery", || Ok((!node.events("file.delivered")?.is_empty()).then_some(())))?;
    ensure!(std::fs::read(there.on_disk(&far, "delivered/f.bin"))? == content);
    let delivered = node.events("file.delivered")?;
    assert_eq!(delivered[0]["protocol"], "ftp");
    Ok(())
}

/// A bucket has no directories, only names with slashes: all of them change.
#[test]
fn a_directory_in_a_bucket_is_renamed_with_all_in_it() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let s3 = S3Server::start()?;
    let mounts = "---\nmount: {name: acme-bucket, account: acme, path: /b, endpoint: bucket}\n";
    let documents = s3.endpoint("bucket") + mounts;
    apply(&node, &documents)?;
    node.start()?;
    let content = noise(79, 6_000_000);
    let local = local_file(&node, "a.bin", &content)?;
    let back = node.scratch().join("back.bin");
    let (local, shown) = (text(&local)?, text(&back)?);
    let batch = format!(
        "mkdir b/old\nmkdir b/old/sub\nput {local} b/old/a.bin\nput {local} b/old/sub/b.bin\n\
         mkdir b/old/empty\nmkdir b/taken\n-rename b/old b/taken\n-rename b/old b/old/sub/x\n\
         rename b/old b/new\nget b/new/sub/b.bin {shown}\nls -1 b\nls -1 b/new\n"
    );
    let said = String::from_utf8(login.sftp_batch(&node, &batch)?.stdout)?;
    ensure!(std::fs::read(&back)? == content, "what came back differs");
    let shown: Vec<_> = said.lines().filter(|line| !line.starts_with("sftp>")).collect();
    let wanted = ["b/new", "b/taken", "b/new/a.bin", "b/new/empty", "b/new/sub"];
    ensure!(shown == wanted, "{said}");
    ensure!(std::fs::read(s3.objects().join("new/a.bin"))? == content, "the object differs");
    ensure!(!s3.objects().join("old/a.bin").exists(), "the old name is left");
    let renamed = node.until("the record", || {
        let events = node.events("file.renamed")?;
        Ok((!events.is_empty()).then_some(events))
    })?;
    assert_eq!(renamed.len(), 1, "{renamed:?}");
    Ok(())
}

/// The only block of its kind on the page.
fn block<'a>(page: &'a str, kind: &str) -> Result<&'a str> {
    let fence = format!("```{kind}\n");
    let mut blocks = page.split(&fence).skip(1);
    let block = blocks.next().and_then(|rest| rest.split("```").next());
    ensure!(blocks.next().is_none(), "more than one block of {kind}");
    block.with_context(|| format!("no block of {kind}"))
}

#[test]
fn the_page_about_stores_does_what_it_says() -> Result<()> {
    let page = include_str!("../docs/howto/add-a-store.md");
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    let shop = node.scratch().join("shop");
    std::fs::create_dir(&shop)?;
    let python = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
    let file = shop.join("shop.db");
    run(Command::new("python3").args(["-c", python]).arg(&file).arg(block(page, "sql")?))?;
    apply(&node, &block(page, "yaml")?.replace("/srv/shop", text(&shop)?))?;
    node.start()?;
    let here = format!("localhost:{}", node.ftp_port()?);
    let script = block(page, "sh")?.replace("files.example", &here);
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]).current_dir(&shop).env("PASSWORD", &login.password);
    let printed = run(&mut shell)?;
    assert_eq!(String::from_utf8(printed.stdout)?, block(page, "text")?);
    let query = "import sqlite3, sys; \
                 print(*sqlite3.connect(sys.argv[1]).execute('SELECT name, typeof(content) FROM \
                 documents ORDER BY name').fetchall())";
    let rows = run(Command::new("python3").args(["-c", query]).arg(&file))?;
    let rows = String::from_utf8(rows.stdout)?;
    assert_eq!(rows.trim(), "('invoice-8.xml', 'blob') ('old.xml', 'blob')");
    Ok(())
}
