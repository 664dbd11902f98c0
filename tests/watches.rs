//! Folders that rules watch, in the real program: on an SFTP server (OpenSSH), on an FTP server, on
//! an object store and on a disk; each file is fetched once, over a kill.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{noise, text};
use entrepot_testkit::server::Node;
use entrepot_testkit::sshd::Sshd;

use crate::program;

/// A rule that fetches what lies at the endpoint `bank` into the folder of the endpoint `ours`.
fn rule(more: &str, ours: &Path) -> Result<String> {
    Ok(format!(
        "---\nendpoint: {{name: ours, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: fetch\n  when: {{watch: {{endpoint: bank, path: /out, every: 1s, \
         stable: 1s{more}}}}}\n  do:\n    - deliver: {{endpoint: ours, path: '{{name}}'}}\n    \
         - move: {{to: '/done/{{name}}'}}\n",
        text(ours)?
    ))
}

fn sftp_endpoint(sshd: &Sshd) -> Result<String> {
    let key = std::fs::read_to_string(sshd.user_key())?;
    let indented: String = key.lines().map(|line| format!("      {line}\n")).collect();
    let public = std::fs::read_to_string(sshd.user_key().with_extension("pub"))?;
    Ok(format!(
        "key:\n  name: ours\n  type: ssh-user\n  public: '{}'\n  private: |\n{indented}---\n\
         endpoint:\n  name: bank\n  target:\n    sftp:\n      host: 127.0.0.1\n      \
         port: {}\n      user: {}\n      key: ours\n      host_keys: ['{}']\n      \
         root: {}\n      allow_private: true\n",
        public.trim(),
        sshd.port(),
        sshd.user(),
        sshd.host_key(),
        text(sshd.folder())?
    ))
}

fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[test]
fn files_are_fetched_from_an_sftp_server_once_each_over_a_kill() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let sshd = Sshd::start()?;
    let (ours, out) = (node.scratch().join("ours"), sshd.folder().join("out"));
    std::fs::create_dir(&ours)?;
    std::fs::create_dir(&out)?;
    node.cli_with_input(&["apply", "-"], &(sftp_endpoint(&sshd)? + &rule("", &ours)?))?;
    let big = noise(21, 5_000_000);
    std::fs::write(out.join("big.bin"), &big)?;
    std::fs::write(out.join("half.bin.part"), b"half")?;
    for number in 0..30 {
        std::fs::write(out.join(format!("{number}.txt")), number.to_string())?;
    }
    node.start()?;
    node.until("some of the files", || Ok((names(&ours)?.len() > 5).then_some(())))?;
    node.kill()?;
    std::fs::write(out.join("later.txt"), b"later")?;
    node.start()?;
    let done = sshd.folder().join("done");
    node.until("all of the files", || {
        Ok((done.exists() && names(&done)?.len() == 32).then_some(()))
    })?;
    ensure!(names(&out)? == BTreeSet::from(["half.bin.part".to_owned()]), "{:?}", names(&out)?);
    ensure!(std::fs::read(ours.join("big.bin"))? == big, "the file differs");
    ensure!(std::fs::read(done.join("big.bin"))? == big, "the file there differs");
    ensure!(names(&ours)? == names(&done)?, "{:?} {:?}", names(&ours)?, names(&done)?);
    let found = node.events("watch.found")?;
    let paths: BTreeSet<&str> = found.iter().filter_map(|event| event["path"].as_str()).collect();
    ensure!(found.len() == 32 && paths.len() == 32, "{} events: {paths:?}", found.len());
    // A newer file of a name that is there already is another version.
    std::fs::write(out.join("7.txt"), b"seven, mended")?;
    node.until("the mended file", || {
        Ok((std::fs::read(ours.join("7.txt"))? == b"seven, mended").then_some(()))
    })?;
    let last = node.events("watch.found")?;
    let last = last.iter().find(|event| event["size"] == 13).context("its event")?;
    ensure!(last["change"] == "changed" && last["endpoint"] == "bank", "{last}");
    node.stop()
}

#[test]
fn a_server_that_is_away_is_told_of_and_its_files_come_when_it_is_back() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let (there, ours) = (node.scratch().join("there"), node.scratch().join("ours"));
    std::fs::create_dir(&there)?;
    std::fs::create_dir(&ours)?;
    let bank =
        format!("endpoint: {{name: bank, target: {{directory: {{path: {}}}}}}}\n", text(&there)?);
    let done = ", match: ['*.csv'], done_file: '{stem}.ok'";
    node.cli_with_input(&["apply", "-"], &(bank + &rule(done, &ours)?))?;
    node.start()?;
    node.until("the failure in the log", || Ok(node.events("watch.failed")?.pop()))?;
    let out = there.join("out");
    std::fs::create_dir(&out)?;
    for name in ["a.csv", "a.ok", "b.csv", "c.txt", "c.ok"] {
        std::fs::write(out.join(name), b"1;2\n")?;
    }
    node.until("the file that is done", || Ok(ours.join("a.csv").exists().then_some(())))?;
    node.until("the recovery in the log", || Ok(node.events("watch.recovered")?.pop()))?;
    std::fs::write(out.join("b.ok"), b"")?;
    node.until("the other file", || Ok(ours.join("b.csv").exists().then_some(())))?;
    ensure!(names(&ours)?.len() == 2, "{:?}", names(&ours)?);
    node.stop()
}
