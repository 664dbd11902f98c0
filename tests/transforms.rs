//! Files are decrypted, packed and taken apart on their way, as partners with real tools send them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::{Node, run};
use serde_json::Value;

use crate::hooks::apply;
use crate::program;

/// A home of GnuPG with a key for `ours` and one for `bank`; its agent ends with it.
pub(crate) struct Gpg(tempfile::TempDir);

impl Drop for Gpg {
    fn drop(&mut self) {
        let mut kill = Command::new("gpgconf");
        let _ = run(kill.env("GNUPGHOME", self.0.path()).args(["--kill", "all"]));
    }
}

impl Gpg {
    pub(crate) fn new() -> Result<Gpg> {
        let private = std::fs::Permissions::from_mode(0o700);
        // The path of its socket must be short.
        let gpg = Gpg(tempfile::Builder::new().permissions(private).tempdir_in("/tmp")?);
        for name in ["ours", "bank"] {
            gpg.run(&["--passphrase", "", "--quick-gen-key", name, "future-default"])?;
        }
        Ok(gpg)
    }

    fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut gpg = Command::new("gpg");
        gpg.env("GNUPGHOME", self.0.path()).args(["--batch", "--no-tty", "--quiet", "--yes"]);
        gpg.args(["--trust-model", "always", "--pinentry-mode", "loopback"]).args(arguments);
        Ok(run(&mut gpg)?.stdout)
    }

    fn exported(&self, what: &str, name: &str) -> Result<String> {
        Ok(String::from_utf8(self.run(&["--armor", what, name])?)?)
    }

    /// As `run`, on the first day of 2020, of which keys that were made later know nothing.
    fn run_in_2020(&self, hour: u32, arguments: &[&str]) -> Result<Vec<u8>> {
        let time = format!("20200101T{hour:02}0000!");
        let then = ["--faked-system-time", &time, "--ignore-time-conflict", "--ignore-valid-from"];
        self.run(&[&then, arguments].concat())
    }

    /// The documents of both keys, of which only ours has its private half.
    pub(crate) fn documents(&self) -> Result<String> {
        Ok(format!(
            "key:\n  name: ours\n  type: openpgp\n  public: |\n{}  private: |\n{}---\n\
             key:\n  name: bank\n  type: openpgp\n  public: |\n{}---\n",
            block(self.exported("--export", "ours")?),
            block(self.exported("--export-secret-keys", "ours")?),
            block(self.exported("--export", "bank")?),
        ))
    }

    /// `content` as a message for ours, made with these options.
    pub(crate) fn message(&self, node: &Node, options: &[&str], content: &[u8]) -> Result<Vec<u8>> {
        let file = local_file(node, "clear", content)?;
        let arguments =
            [&["--encrypt", "-r", "ours", "-o", "-"], options, &[text(&file)?]].concat();
        self.run(&arguments)
    }
}

/// The lines of a text where a document has a block.
fn block(text: String) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// A node with the documents, and the endpoint `erp`, whose folder comes with it.
fn node_with(documents: &str) -> Result<(Node, Login, PathBuf)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let erp = node.scratch().join("erp");
    std::fs::create_dir(&erp)?;
    let endpoint = crate::routes::directory("erp", &erp)?;
    apply(&node, &(endpoint + documents))?;
    node.start()?;
    Ok((node, login, erp))
}

/// Uploads a file over SFTP, and answers its job when that has ended.
fn job_of(node: &Node, login: &Login, name: &str, content: &[u8]) -> Result<Value> {
    let local = local_file(node, "upload", content)?;
    login.sftp_batch(node, &format!("put {} {name}\n", text(&local)?))?;
    node.until("the job to end", || {
        let jobs = node.json(&["job", "list"])?;
        let mut jobs = jobs.as_array().context("a list")?.iter();
        let ended = jobs.find(|job| {
            let is_over = job["state"] == "done" || job["state"] == "failed";
            job["event"]["path"] == format!("/{name}") && is_over
        });
        Ok(ended.cloned())
    })
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().into_string().ok().context("a name")?;
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[test]
fn messages_of_gpg_are_decrypted_packed_and_delivered_and_answers_go_back() -> Result<()> {
    let gpg = Gpg::new()?;
    let rules = "rule:
  name: from-bank
  when: {event: file.uploaded}
  if: file.name.endsWith('.gpg')
  do:
    - name: open
      decrypt: {keys: [ours], signed_by: [bank]}
    - gzip: {}
    - deliver: {endpoint: erp, path: '{steps.open.signer}-{name}'}
---
rule:
  name: to-bank
  when: {event: file.uploaded}
  if: file.name.endsWith('.xml')
  do:
    - encrypt: {keys: [bank], signers: [ours], armor: true}
    - deliver: {endpoint: erp}
";
    let documents = gpg.documents()?;
    let (node, login, erp) = node_with(&(documents.clone() + rules))?;
    let exported = node.cli(&["export"])?;
    let secret = documents.split("PRIVATE KEY BLOCK-----").nth(1).context("a private key")?;
    let secret = secret.lines().map(str::trim).find(|line| line.len() > 40).context("a line")?;
    ensure!(!exported.contains(secret), "an export shows a private key in the clear");

    let content = noise(31, 3_000_000);
    let signed = ["--sign", "-u", "bank"];
    let message = gpg.message(&node, &signed, &content)?;
    let job = job_of(&node, &login, "statement.csv.gpg", &message)?;
    ensure!(job["state"] == "done", "{job}");
    let [delivered] = &names(&erp)?[..] else { anyhow::bail!("{:?}", names(&erp)?) };
    let print = gpg.run(&["--with-colons", "--fingerprint", "bank"])?;
    let print = String::from_utf8(print)?.to_ascii_lowercase();
    let (signer, name) = delivered.split_once('-').context("who signed it")?;
    ensure!(print.contains(&signer.to_ascii_lowercase()), "{signer}: {print}");
    assert_eq!(name, "statement.csv.gz");
    let unpacked = run(Command::new("gzip").arg("-dc").arg(erp.join(delivered)))?.stdout;
    ensure!(unpacked == content, "the file differs");

    let mut damaged = message.clone();
    let last = damaged.len() - 9;
    *damaged.get_mut(last).context("a byte")? ^= 1;
    let own = gpg.message(&node, &["--sign", "-u", "ours"], &content)?;
    let unsigned = gpg.message(&node, &[], &content)?;
    let mut said = std::collections::BTreeMap::new();
    for (name, bytes, code) in [
        ("damaged.gpg", damaged, "EP0873"),
        ("other.gpg", own, "EP0874"),
        ("unsigned.gpg", unsigned, "EP0874"),
        ("clear.gpg", content, "EP0873"),
    ] {
        let job = job_of(&node, &login, name, &bytes)?;
        let error = job["error"].as_str().unwrap_or_default();
        ensure!(job["state"] == "failed" && error.starts_with(code), "{name}: {job}");
        ensure!(job["attempts"] == 1, "{name}: {job}");
        let first = *said.entry(code).or_insert_with(|| error.to_owned()) == error;
        ensure!(first, "the answer tells one bad message from another: {said:?}, {error}");
    }
    assert_eq!(names(&erp)?.len(), 1, "something of a bad message was delivered");

    let job = job_of(&node, &login, "order.xml", b"<order/>\n")?;
    ensure!(job["state"] == "done", "{job}");
    let answer = erp.join("order.xml.pgp");
    let opened = gpg.run(&["--status-fd", "1", "--decrypt", text(&answer)?])?;
    let opened = String::from_utf8(opened)?;
    ensure!(opened.contains("<order/>\n") && opened.contains("GOODSIG"), "{opened}");
    Ok(())
}

/// The document of somebody else's key.
fn theirs(name: &str, public: Vec<u8>) -> Result<String> {
    let public = block(String::from_utf8(public)?);
    Ok(format!("key:\n  name: {name}\n  type: openpgp\n  public: |\n{public}---\n"))
}

const TO_AND_FROM_THE_PAST: &str = "rule:
  name: decrypts
  when: {event: file.uploaded}
  if: file.name.endsWith('.gpg')
  do:
    - decrypt: {keys: [ours], signed_by: [gone, past]}
    - deliver: {endpoint: erp}
---
rule:
  name: verifies
  when: {event: file.uploaded}
  if: file.name.endsWith('.asc')
  do:
    - verify: {signed_by: [gone, past]}
    - deliver: {endpoint: erp}
---
rule:
  name: to-gone
  when: {event: file.uploaded}
  if: file.name.endsWith('.xml')
  do:
    - encrypt: {keys: [gone], signers: [ours]}
    - deliver: {endpoint: erp}
---
rule:
  name: to-past
  when: {event: file.uploaded}
  if: file.name.endsWith('.csv')
  do:
    - encrypt: {keys: [past], signers: [ours]}
    - deliver: {endpoint: erp}
";

/// Keys that GnuPG and Sequoia made for the first day of 2020, and what was signed with them that
/// day and later.
#[test]
fn with_a_key_that_has_expired_nothing_is_encrypted_and_nothing_is_signed() -> Result<()> {
    let gpg = Gpg::new()?;
    let make = ["--passphrase", "", "--quick-gen-key", "gone", "future-default", "default", "1d"];
    gpg.run_in_2020(0, &make)?;
    let folder = tempfile::tempdir()?;
    let sq = |arguments: &[&str]| -> Result<Vec<u8>> {
        Ok(run(Command::new("sq").current_dir(folder.path()).args(arguments))?.stdout)
    };
    let made = ["key", "generate", "--userid", "past", "--export", "past.pgp"];
    sq(&[&made[..], &["--creation-time", "20200101", "--expires-in", "1d"]].concat())?;
    let past = sq(&["key", "extract-cert", "past.pgp"])?;
    let gone = theirs("gone", gpg.run(&["--armor", "--export", "gone"])?)?;
    let documents =
        [gpg.documents()?, gone, theirs("past", past)?, TO_AND_FROM_THE_PAST.to_owned()].concat();
    let (node, login, erp) = node_with(&documents)?;
    let clear = local_file(&node, "signed", b"<order/>\n")?;
    let clear = text(&clear)?;
    let by_gone = ["--sign", "-u", "gone", "-o", "-"];
    let sealed = |hour| {
        let to_ours = [&by_gone[..], &["--encrypt", "-r", "ours", clear]].concat();
        gpg.run_in_2020(hour, &to_ours)
    };
    let signed = |hour| gpg.run_in_2020(hour, &[&by_gone[..], &[clear]].concat());
    let by_past = |time: &str| sq(&["sign", "--signer-key", "past.pgp", "--time", time, clear]);
    let (nobody, no_key) = ("EP0874", "EP0872");
    for (name, bytes, code) in [
        ("then.gpg", sealed(12)?, nobody),
        ("then.asc", signed(12)?, nobody),
        ("sequoia.asc", by_past("20200101T120000Z")?, nobody),
        ("order.xml", b"<order/>\n".to_vec(), no_key),
        ("order.csv", b"order\n".to_vec(), no_key),
    ] {
        let job = job_of(&node, &login, name, &bytes)?;
        let error = job["error"].as_str().unwrap_or_default();
        ensure!(job["state"] == "failed" && error.starts_with(code), "{name}: {job}");
        ensure!(job["attempts"] == 1, "{name}: {job}");
        ensure!(code != no_key || error.contains("expired"), "{name}: {job}");
        ensure!(names(&erp)?.is_empty(), "{name} was delivered");
    }
    Ok(())
}

/// Writes an archive with Python's tools: `body` fills `a`, a zip or tar archive.
fn packed(node: &Node, kind: &str, body: &str) -> Result<Vec<u8>> {
    let path = node.scratch().join("archive");
    let open = match kind {
        "zip" => "zipfile.ZipFile(p, 'w', zipfile.ZIP_DEFLATED)",
        _ => "tarfile.open(p, 'w:gz')",
    };
    let script = format!("import io, sys, tarfile, zipfile\np = sys.argv[1]\nwith {open} as a:\n");
    let body: String = body.lines().map(|line| format!("    {}\n", line.trim())).collect();
    run(Command::new("/usr/bin/python3").args(["-c", &(script + &body)]).arg(&path))?;
    Ok(std::fs::read(path)?)
}

#[test]
fn a_hostile_archive_publishes_nothing_and_an_honest_one_its_files() -> Result<()> {
    let rule = "rule:
  name: unpack
  when: {event: file.uploaded}
  if: file.name.endsWith('.zip') || file.name.endsWith('.tgz')
  do:
    - name: open
      extract: {to: '/new/{stem}'}
    - deliver: {endpoint: erp, path: '{steps.open.files}-{name}'}
";
    let (node, login, erp) = node_with(rule)?;
    let link = "a.writestr('good', 'x')
        i = zipfile.ZipInfo('l')
        i.create_system, i.external_attr = 3, 0o120777 << 16
        a.writestr(i, '/etc')";
    let device = "i = tarfile.TarInfo('d')
        i.type = tarfile.CHRTYPE
        a.addfile(i)";
    let tar_link = "i = tarfile.TarInfo('good')
        i.size = 1
        a.addfile(i, io.BytesIO(b'x'))
        i = tarfile.TarInfo('l')
        i.type, i.linkname = tarfile.SYMTYPE, '/etc/passwd'
        a.addfile(i)";
    for (name, body, code) in [
        ("up.zip", "a.writestr('good', 'x')\na.writestr('../../evil', 'x')", "EP0870"),
        ("root.zip", "a.writestr('good', 'x')\na.writestr('/evil', 'x')", "EP0870"),
        ("case.zip", "a.writestr('good', 'x')\na.writestr('GOOD', 'y')", "EP0870"),
        ("link.zip", link, "EP0870"),
        ("bomb.zip", "a.writestr('good', 'x')\na.writestr('b', bytes(80_000_000))", "EP0871"),
        ("device.tgz", device, "EP0870"),
        ("link.tgz", tar_link, "EP0870"),
    ] {
        let kind = name.rsplit_once('.').map_or("", |(_, kind)| kind);
        let job = job_of(&node, &login, name, &packed(&node, kind, body)?)?;
        let error = job["error"].as_str().unwrap_or_default();
        ensure!(job["state"] == "failed" && error.starts_with(code), "{name}: {job}");
        ensure!(!login.on_disk(&node, "new").exists(), "{name}: something was published");
    }
    ensure!(!node.files().join("evil").exists() && names(&erp)?.is_empty());
    let uploads = |node: &Node| -> Result<Vec<Value>> {
        let mut events = node.events("file.uploaded")?;
        events.retain(|event| event["path"].as_str().is_some_and(|it| it.starts_with("/new/")));
        Ok(events)
    };
    ensure!(uploads(&node)?.is_empty());

    let body = "a.writestr('one.txt', 'first')\na.writestr('b/two.txt', 'x' * 700_000)";
    let job = job_of(&node, &login, "good.zip", &packed(&node, "zip", body)?)?;
    ensure!(job["state"] == "done", "{job}");
    assert_eq!(names(&erp)?, ["2-good.zip"]);
    assert_eq!(std::fs::read(login.on_disk(&node, "new/good/one.txt"))?, b"first");
    let two = std::fs::read(login.on_disk(&node, "new/good/b/two.txt"))?;
    ensure!(two == vec![b'x'; 700_000], "the file differs");
    let told = node.until("both events", || {
        let events = uploads(&node)?;
        Ok((events.len() >= 2).then_some(events))
    })?;
    ensure!(told.len() == 2 && told.iter().all(|event| event["job"] == job["id"]), "{told:?}");
    Ok(())
}
