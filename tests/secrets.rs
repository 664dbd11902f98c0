//! No secret in a log, a trace, an error, an event, an export or on the disk in the clear.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};
use entrepot_testkit::server::{Node, run};
use entrepot_testkit::sshd::Sshd;

use crate::program;

const WRONG: &str = "a-wrong-guess-of-somebody";

/// Every file below `folder`.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

/// Endpoints whose secrets are used, and a rule that uses them.
fn documents(s3: &S3Server, sshd: &Sshd, private: &str) -> Result<String> {
    let indented: String = private.lines().map(|line| format!("      {line}\n")).collect();
    let public = std::fs::read_to_string(sshd.user_key().with_extension("pub"))?;
    Ok(format!(
        "endpoint:\n  name: bucket\n  target:\n    object:\n      bucket: {BUCKET}\n      \
         url: {}\n      access_key_id: {ACCESS_KEY_ID}\n      secret_key: {SECRET_KEY}\n      \
         allow_private: true\n---\n\
         key:\n  name: ours\n  type: ssh-user\n  public: '{}'\n  private: |\n{indented}---\n\
         endpoint:\n  name: remote\n  target:\n    sftp:\n      host: 127.0.0.1\n      \
         port: {}\n      user: root\n      key: ours\n      host_keys: ['{}']\n      \
         root: {}\n      allow_private: true\n---\n\
         rule:\n  name: both\n  when: {{event: file.uploaded}}\n  do:\n    \
         - deliver: {{endpoint: bucket, path: '{{name}}'}}\n    \
         - deliver: {{endpoint: remote, path: '{{name}}'}}\n",
        s3.url(),
        public.trim(),
        sshd.port(),
        sshd.host_key(),
        text(sshd.folder())?
    ))
}

/// Uses every secret: logins right and wrong, deliveries to both endpoints.
fn use_all(node: &Node, login: &Login) -> Result<()> {
    let local = local_file(node, "a.txt", b"content")?;
    login.rclone(node, &["copy", text(&local)?, "node:/"])?;
    let guesser = Login {
        account: login.account.clone(),
        password: WRONG.to_owned(),
        key: login.key.clone(),
    };
    ensure!(guesser.rclone(node, &["lsf", "node:/"]).is_err(), "a wrong password was taken");
    node.until("both deliveries", || {
        let delivered = node.events("file.delivered")?;
        Ok((delivered.len() >= 2).then_some(()))
    })
}

#[test]
fn no_secret_is_told_or_kept_in_the_clear() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let (s3, sshd) = (S3Server::start()?, Sshd::start()?);
    let private = std::fs::read_to_string(sshd.user_key())?;
    node.cli_with_input(&["apply", "-"], &documents(&s3, &sshd, &private)?)?;
    // Everything that can be logged, by us and by every library.
    let config = node.home().join("entrepot.toml");
    let quiet = std::fs::read_to_string(&config)?;
    let loud = quiet.replace("level = \"info\"", "level = \"trace\"");
    ensure!(loud != quiet, "the process file names no level any more");
    std::fs::write(&config, loud)?;
    node.start()?;
    use_all(&node, &login)?;
    let mut told = vec![("the export", node.cli(&["export"])?.into_bytes())];
    told.push((
        "the events",
        node.cli(&["event", "list", "--limit", "100000", "--json"])?.into_bytes(),
    ));
    for (noun, name) in [("endpoint", "bucket"), ("account", "acme"), ("key", "ours")] {
        told.push((name, node.cli(&[noun, "show", name, "--json"])?.into_bytes()));
    }
    let metrics = format!("{}/metrics", node.ops_url()?);
    told.push(("metrics", run(std::process::Command::new("curl").args(["-sf", &metrics]))?.stdout));
    node.stop()?;
    let log = node.log();
    ensure!(log.contains("TRACE"), "the log was not as loud as it gets");
    told.push(("the log", log.into_bytes()));
    let kept = files(&node.home())?;
    ensure!(kept.iter().any(|path| path.extension().is_some_and(|it| it == "db")), "{kept:?}");
    let line = private.lines().nth(2).context("a private key has lines")?;
    for secret in [login.password.as_str(), WRONG, SECRET_KEY, line] {
        for (what, bytes) in &told {
            ensure!(!holds(bytes, secret), "{what} shows '{secret}'");
        }
        for path in &kept {
            ensure!(!holds(&std::fs::read(path)?, secret), "{} holds '{secret}'", path.display());
        }
    }
    Ok(())
}
