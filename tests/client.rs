//! `entrepot put` and `entrepot get`, against this server (SFTP and FTP under TLS) and others.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use entrepot_nouns::endpoint::FtpTls;
use entrepot_testkit::clients::python::AsyncsshServer;
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::ftpd::Ftpd;
use entrepot_testkit::server::{Node, feed, run, until};
use entrepot_testkit::sshd::Sshd;
use serde_json::Value;

use crate::interop::ftp::node_with_ftp;
use crate::{node_with, program};

/// A server to move files to: how it is named and what is known of it.
struct Far {
    base: String,
    options: Vec<String>,
    /// What it reads: a password, or nothing.
    input: PathBuf,
}

const NO_INPUT: &str = "/dev/null";

impl Far {
    fn node(node: &Node, login: &Login) -> Result<Far> {
        let known = node.known_hosts()?;
        Ok(Far {
            base: format!("sftp://{}@127.0.0.1:{}", login.account, node.sftp_port()?),
            options: options(&login.key, &["--known-hosts", text(&known)?])?,
            input: NO_INPUT.into(),
        })
    }

    /// The listener `ftp`, under TLS.
    fn ftp(node: &Node, login: &Login) -> Result<Far> {
        let certificate = node.certificate_of("ftp")?;
        let input = local_file(node, "password", login.password.as_bytes())?;
        let words = ["--password-stdin", "--authorities", text(&certificate)?];
        Ok(Far {
            base: format!("ftp://{}@localhost:{}", login.account, node.ftp_port()?),
            options: words.map(str::to_owned).to_vec(),
            input,
        })
    }

    fn sshd(sshd: &Sshd) -> Result<Far> {
        let place = sshd.folder().display();
        Ok(Far {
            base: format!("sftp://{}@127.0.0.1:{}{place}", sshd.user(), sshd.port()),
            options: options(sshd.user_key(), &["--accept-host-key", sshd.host_key()])?,
            input: NO_INPUT.into(),
        })
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    /// `put` or `get`, not yet run.
    fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(program());
        command.arg("--json").args(words).args(&self.options);
        let input = std::fs::File::open(&self.input)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(input);
        Ok(command)
    }

    fn run(&self, words: &[&str]) -> Result<Vec<Value>> {
        let output = run(&mut self.command(words)?)?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// asyncssh as a server, with a key and a folder in `scratch`.
fn asyncssh(scratch: &Path) -> Result<(AsyncsshServer, Far)> {
    let (key, files) = (scratch.join("user"), scratch.join("files"));
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
    std::fs::create_dir(&files)?;
    let server = AsyncsshServer::start(&key.with_extension("pub"), &files)?;
    let base = format!("sftp://somebody@127.0.0.1:{}", server.port);
    let options = options(&key, &["--accept-host-key", &server.host_key])?;
    Ok((server, Far { base, options, input: NO_INPUT.into() }))
}

fn options(key: &Path, more: &[&str]) -> Result<Vec<String>> {
    let all = [&["--identity", text(key)?], more].concat();
    Ok(all.into_iter().map(str::to_owned).collect())
}

/// Files and folders both ways, with their times, over what was there before.
fn both_ways(far: &Far, scratch: &Path) -> Result<()> {
    let tree = scratch.join("tree");
    let when = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (path, size) in [("a", 3_000_001), ("b/with space", 70_000), ("b/c/ünï", 0)] {
        let file = tree.join(path);
        std::fs::create_dir_all(file.parent().context("a parent")?)?;
        std::fs::write(&file, noise(size as u64, size))?;
        std::fs::File::options().write(true).open(&file)?.set_modified(when)?;
    }
    far.run(&["put", "-r", text(&tree)?, &far.url("up")])?;
    let moved = far.run(&["put", "-r", text(&tree)?, &far.url("up")])?;
    ensure!(moved.len() == 3, "the second time goes over the first: {moved:?}");
    let back = scratch.join("back");
    far.run(&["get", "-r", &far.url("up"), text(&back)?])?;
    // A folder that exists takes what is put by its name.
    for folder in ["", "tree"] {
        for path in ["a", "b/with space", "b/c/ünï"] {
            let (here, there) = (tree.join(path), back.join(folder).join(path));
            ensure!(std::fs::read(&here)? == std::fs::read(&there)?, "{folder}/{path} differs");
            ensure!(std::fs::metadata(&there)?.modified()? == when, "{folder}/{path}: its time");
        }
    }
    let missing = far.command(&["get", &far.url("missing"), text(&back)?])?.output()?;
    ensure!(missing.status.code() == Some(3), "{}", said(&missing));
    let folder = far.command(&["put", text(&tree)?, &far.url("x")])?.output()?;
    ensure!(said(&folder).contains("--recursive") && !folder.status.success());
    Ok(())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn files_and_folders_go_both_ways() -> Result<()> {
    let (node, login) = node_with("acme")?;
    both_ways(&Far::node(&node, &login)?, node.scratch())
}

#[test]
fn files_and_folders_go_both_ways_with_openssh() -> Result<()> {
    let sshd = Sshd::start()?;
    let scratch = tempfile::tempdir()?;
    both_ways(&Far::sshd(&sshd)?, scratch.path())?;
    let parts: Vec<_> = std::fs::read_dir(sshd.folder())?.flatten().collect();
    ensure!(parts.len() == 1, "nothing hidden is left: {parts:?}");
    Ok(())
}

#[test]
fn files_and_folders_go_both_ways_with_asyncssh() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (_server, far) = asyncssh(scratch.path())?;
    both_ways(&far, scratch.path())
}

#[test]
fn an_unknown_host_key_is_refused_and_shown() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let local = local_file(&node, "a", b"content")?;
    let empty = local_file(&node, "nobody", b"")?;
    let mut far = Far::node(&node, &login)?;
    let known = run(Command::new("ssh-keygen").arg("-lf").arg(node.known_hosts()?))?;
    let known = String::from_utf8(known.stdout)?;
    let fingerprint = known.split_whitespace().nth(1).context("a fingerprint")?;
    far.options = options(&login.key, &["--known-hosts", text(&empty)?])?;
    let refused = far.command(&["put", text(&local)?, &far.url("a")])?.output()?;
    ensure!(
        !refused.status.success() && said(&refused).contains(fingerprint),
        "{}",
        said(&refused)
    );
    ensure!(said(&refused).contains("--accept-host-key"), "{}", said(&refused));
    ensure!(node.events("session.opened")?.is_empty(), "it logged in before the key was right");
    far.options.extend(["--accept-host-key".to_owned(), fingerprint.to_owned()]);
    far.run(&["put", text(&local)?, &far.url("a")])?;
    Ok(())
}

#[test]
fn a_password_comes_from_standard_input() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let local = local_file(&node, "a", b"content")?;
    let far = Far::node(&node, &login)?;
    let known = node.known_hosts()?;
    let url = far.url("~/a");
    let words = ["put", "--password-stdin", "--known-hosts", text(&known)?, text(&local)?, &url];
    feed(Command::new(program()).args(words), &format!("{}\n", login.password))?;
    ensure!(std::fs::read(login.on_disk(&node, "a"))? == b"content");
    let wrong = feed(Command::new(program()).args(words), "wrong\n");
    ensure!(wrong.is_err_and(|error| error.to_string().contains("refused to log in")));
    Ok(())
}

/// Runs a command until `enough`, then kills it.
fn cut(mut command: Command, mut enough: impl FnMut() -> bool) -> Result<()> {
    let mut child = command.spawn()?;
    let waited = until("some bytes", || Ok(enough().then_some(())));
    child.kill()?;
    child.wait()?;
    waited
}

fn longest(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).max().unwrap_or(0)
}

/// Cut in the middle, then gone on with: up, and down again.
fn resumes(far: &Far, scratch: &Path, staging: &Path) -> Result<()> {
    let content = noise(4, 96 << 20);
    let local = scratch.join("big");
    std::fs::write(&local, &content)?;
    let put = ["put", "--resume", text(&local)?, &far.url("big")];
    cut(far.command(&put)?, || longest(staging) > 4 << 20)?;
    let moved = far.run(&put)?;
    ensure!(moved[0]["resumed_at"].as_u64() > Some(1 << 20), "{moved:?}");
    let down = scratch.join("down");
    std::fs::create_dir(&down)?;
    let get = ["get", "--resume", &far.url("big"), text(&down)?];
    cut(far.command(&get)?, || longest(&down) > 4 << 20)?;
    ensure!(!down.join("big").exists(), "a cut download has its name");
    let moved = far.run(&get)?;
    ensure!(moved[0]["resumed_at"].as_u64() > Some(1 << 20), "{moved:?}");
    ensure!(std::fs::read(down.join("big"))? == content, "it came back different");
    // A part that is not the file's beginning is not gone on with.
    std::fs::write(&local, noise(5, 96 << 20))?;
    let moved = far.run(&put)?;
    ensure!(moved[0]["resumed_at"] == 0, "{moved:?}");
    Ok(())
}

#[test]
fn what_was_cut_goes_on() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let staging = node.files().join(".entrepot-staging");
    resumes(&Far::node(&node, &login)?, node.scratch(), &staging)
}

#[test]
fn what_was_cut_goes_on_with_openssh() -> Result<()> {
    let sshd = Sshd::start()?;
    let scratch = tempfile::tempdir()?;
    resumes(&Far::sshd(&sshd)?, scratch.path(), sshd.folder())
}

#[test]
fn what_was_cut_goes_on_with_asyncssh() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (_server, far) = asyncssh(scratch.path())?;
    resumes(&far, scratch.path(), &scratch.path().join("files"))
}

#[test]
fn files_and_folders_go_both_ways_over_ftp() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    both_ways(&Far::ftp(&node, &login)?, node.scratch())
}

#[test]
fn what_was_cut_goes_on_over_ftp() -> Result<()> {
    let server = Ftpd::vsftpd(FtpTls::Explicit)?;
    let scratch = tempfile::tempdir()?;
    let (certificate, input) = (scratch.path().join("ftp.pem"), scratch.path().join("password"));
    std::fs::write(&certificate, server.certificate().context("a certificate")?)?;
    std::fs::write(&input, server.password())?;
    let words = ["--password-stdin", "--authorities", text(&certificate)?];
    let options = words.map(str::to_owned).to_vec();
    let base = format!("ftp://{}@localhost:{}/~/files", server.user(), server.port());
    resumes(&Far { base, options, input }, scratch.path(), server.folder())
}

/// What was cut is not shown by this server before it is whole: it is sent again.
#[test]
fn what_was_cut_is_sent_again_to_this_server_over_ftp() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let far = Far::ftp(&node, &login)?;
    let content = noise(7, 96 << 20);
    let local = local_file(&node, "big", &content)?;
    let put = ["put", "--resume", text(&local)?, &far.url("big")];
    let staging = node.files().join(".entrepot-staging");
    cut(far.command(&put)?, || longest(&staging) > 4 << 20)?;
    let moved = far.run(&put)?;
    ensure!(moved[0]["resumed_at"] == 0, "{moved:?}");
    ensure!(std::fs::read(login.on_disk(&node, "big"))? == content, "it is another file");
    Ok(())
}

#[test]
fn ftp_is_under_tls_with_a_known_certificate_unless_it_is_told_otherwise() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let local = local_file(&node, "a", b"content")?;
    let put = |far: &Far| -> Result<Output> {
        Ok(far.command(&["put", text(&local)?, &far.url("a")])?.output()?)
    };
    let far = Far::ftp(&node, &login)?;
    let with = |words: &[&str]| Far {
        options: words.iter().map(|word| (*word).to_owned()).collect(),
        base: far.base.clone(),
        input: far.input.clone(),
    };
    let unknown = put(&with(&["--password-stdin"]))?;
    ensure!(said(&unknown).contains("certificate"), "{}", said(&unknown));
    ensure!(node.events("session.opened")?.is_empty(), "a password went to an unknown server");
    let wrong = put(&with(&["--password-stdin", "--known-hosts", NO_INPUT]))?;
    ensure!(said(&wrong).contains("known by its certificate"), "{}", said(&wrong));
    let clear = put(&with(&["--password-stdin", "--clear-text"]))?;
    ensure!(clear.status.success(), "{}", said(&clear));
    ensure!(std::fs::read(login.on_disk(&node, "a"))? == b"content");
    Ok(())
}

/// The last bytes of the part decide, not its length.
#[test]
fn a_part_with_another_end_is_sent_again() -> Result<()> {
    let sshd = Sshd::start()?;
    let far = Far::sshd(&sshd)?;
    let scratch = tempfile::tempdir()?;
    let local = scratch.path().join("big");
    let content = noise(6, 96 << 20);
    std::fs::write(&local, &content)?;
    let put = ["put", "--resume", text(&local)?, &far.url("big")];
    cut(far.command(&put)?, || longest(sshd.folder()) > 4 << 20)?;
    let part = std::fs::read_dir(sshd.folder())?.flatten().next().context("a part")?.path();
    // What the client had sent is still being written behind its back.
    sshd.settle()?;
    let file = std::fs::File::options().write(true).open(&part)?;
    use std::os::unix::fs::FileExt;
    file.write_all_at(b"not its bytes", file.metadata()?.len() - 100)?;
    let moved = far.run(&put)?;
    ensure!(moved[0]["resumed_at"] == 0, "{moved:?}");
    ensure!(std::fs::read(sshd.folder().join("big"))? == content, "the file is not whole");
    Ok(())
}
