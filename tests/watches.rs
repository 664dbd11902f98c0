//! Folders that rules watch, in the real program: on an SFTP server (OpenSSH), on an FTP server
//! (vsftpd), on an object store and on a disk; each whole version of a file is fetched once, over a
//! kill, and whatever its writers do.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_nouns::endpoint::FtpTls;
use entrepot_testkit::clients::{noise, text};
use entrepot_testkit::ftpd::Ftpd;
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::s3::S3Server;
use entrepot_testkit::server::{Node, run};
use entrepot_testkit::sshd::Sshd;
use serde_json::json;

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

pub(crate) fn sftp_endpoint(sshd: &Sshd) -> Result<String> {
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

/// What lies in a folder, but for what our stores keep of their own there.
fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        found.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    for own in [".entrepot-staging", ".entrepot-directory"] {
        found.remove(own);
    }
    Ok(found)
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

pub(crate) fn ftp_endpoint(server: &Ftpd) -> Result<String> {
    let mut target = serde_json::to_value(server.target())?;
    target["password"] = json!(server.password());
    let endpoint = json!({"endpoint": {"name": "bank", "target": {"ftp": target}}});
    Ok(format!("{endpoint}\n"))
}

/// The bytes of a version of this size: another size is another version.
fn version(size: usize) -> Vec<u8> {
    noise(size as u64, size)
}

/// What partners do: some append, some rename what is whole, some replace what may be read. Less
/// time than `stable` is between two of their writes.
const WRITER: &str = r#"
for round in 1 2 3 4 5 6 7 8 9 10; do
    cat "$0/slow-$round" >> "$1/slow"
    cp "$0/renamed-$round" "$1/.next" && mv -f "$1/.next" "$1/renamed-$round"
    cp "$0/replaced-$round" "$1/.next" && mv -f "$1/.next" "$1/replaced"
    sleep 0.7
done"#;

/// Runs [`WRITER`] on the folder `out`.
fn write_files(node: &Node, out: &Path) -> Result<()> {
    let parts = node.scratch().join("parts");
    std::fs::create_dir(&parts)?;
    for (round, chunk) in (1usize..).zip(version(500_000).chunks(50_000)) {
        std::fs::write(parts.join(format!("slow-{round}")), chunk)?;
        std::fs::write(parts.join(format!("renamed-{round}")), version(1_000 + round))?;
        std::fs::write(parts.join(format!("replaced-{round}")), version(200_000 + round))?;
    }
    run(Command::new("sh").args(["-c", WRITER]).args([&parts, out])).map(drop)
}

/// Fetches what writers leave in `out`, a folder of the endpoint of `documents`, with two nodes of
/// which one dies, and comes back. `WATCHED=10000` is the full number of files.
fn fetches_each_version_once(documents: &str, out: &Path, take: &str) -> Result<()> {
    let plain = std::env::var("WATCHED").map_or(Ok(50), |count| count.parse::<usize>())?;
    let postgres = Postgres::launch()?;
    let url = postgres.create_database()?;
    let mut node = Node::new_called(program(), &url, "n1")?;
    let ours = node.scratch().join("ours");
    std::fs::create_dir(&ours)?;
    std::fs::create_dir(out)?;
    // The server may be another user.
    std::fs::set_permissions(out, std::fs::Permissions::from_mode(0o777))?;
    let rule = format!(
        "---\nendpoint: {{name: ours, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: fetch\n  when: {{watch: {{endpoint: bank, path: /out, every: 1s, \
         stable: 3s, take: {take}}}}}\n  do:\n    - fetch: {{after: delete}}\n    \
         - deliver: {{endpoint: ours, path: '{{name}}-{{size}}', existing: refuse}}\n",
        text(&ours)?
    );
    node.cli_with_input(&["apply", "-"], &(documents.to_owned() + &rule))?;
    for number in 0..plain {
        std::fs::write(out.join(format!("plain-{number}")), version(number % 100))?;
    }
    let mut other = Node::joined(&node, &url, "n2")?;
    node.start()?;
    other.start()?;
    write_files(&node, out)?;
    other.kill()?;
    other.start()?;
    // As long as files go it is well, however busy the machine is.
    let mut left = names(out)?.len();
    while left > 0 {
        let fewer = || Ok(Some(names(out)?.len()).filter(|now| *now < left));
        let taken = node.until("more files to be taken", fewer);
        left = taken.with_context(|| {
            format!("{:?} are left, {:?} were found", names(out), node.events("watch.found"))
        })?;
    }
    node.until("the jobs", || {
        let ready = node.json(&["job", "list", "--state", "ready"])?;
        let running = node.json(&["job", "list", "--state", "running"])?;
        Ok((ready == json!([]) && running == json!([])).then_some(()))
    })?;
    let got = names(&ours)?;
    for name in &got {
        let size: usize = name.rsplit('-').next().context("a size")?.parse()?;
        ensure!(std::fs::read(ours.join(name))? == version(size), "'{name}' is torn");
    }
    let renamed = (1..=10usize).map(|round| format!("renamed-{round}-{}", 1_000 + round));
    let last = ["slow-500000".to_owned(), "replaced-200010".to_owned()];
    let plain = (0..plain).map(|number| format!("plain-{number}-{}", number % 100));
    let wanted: BTreeSet<String> = renamed.chain(last).chain(plain).collect();
    ensure!(wanted.is_subset(&got), "of {wanted:?} there are {got:?}");
    let slow: Vec<_> = got.iter().filter(|name| name.starts_with("slow")).collect();
    ensure!(slow.len() == 1, "a file that is written to was taken: {slow:?}");
    let failed = node.events("job.failed")?;
    ensure!(failed.is_empty(), "{failed:?}");
    let found = node.events("watch.found")?;
    let versions: BTreeSet<_> =
        found.iter().map(|it| format!("{} {}", it["path"], it["size"])).collect();
    ensure!(versions.len() == found.len(), "a version was found twice: {found:?}");
    let fetched = node.events("file.fetched")?;
    ensure!(fetched.len() == got.len(), "{} of {}: {got:?}", fetched.len(), got.len());
    let shown = node.json(&["watch", "list", "fetch", "--limit", "10000"])?;
    let gone = |file: &serde_json::Value| file["gone_at"].is_i64() || file["gone_at"].is_string();
    ensure!(shown.as_array().is_some_and(|all| all.iter().any(gone)), "{shown}");
    other.stop()?;
    node.stop()
}

#[test]
fn each_whole_version_is_fetched_once_from_a_folder_of_the_machine() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let documents =
        json!({"endpoint": {"name": "bank", "target": {"directory": {"path": folder.path()}}}});
    fetches_each_version_once(&format!("{documents}\n"), &folder.path().join("out"), "lease")
}

#[test]
fn each_whole_version_is_fetched_once_from_an_sftp_server() -> Result<()> {
    let sshd = Sshd::start()?;
    let out = sshd.folder().join("out");
    fetches_each_version_once(&sftp_endpoint(&sshd)?, &out, "rename")
}

#[test]
fn each_whole_version_is_fetched_once_from_an_ftp_server() -> Result<()> {
    let server = Ftpd::vsftpd(FtpTls::Explicit)?;
    let out = server.folder().join("out");
    fetches_each_version_once(&ftp_endpoint(&server)?, &out, "lease")
}

#[test]
fn each_whole_version_is_fetched_once_from_an_object_store() -> Result<()> {
    let s3 = S3Server::start()?;
    let out = s3.objects().join("out");
    fetches_each_version_once(&s3.endpoint("bank"), &out, "lease")
}

#[test]
fn a_file_that_is_forgotten_is_found_anew() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let (there, ours) = (node.scratch().join("there"), node.scratch().join("ours"));
    std::fs::create_dir_all(there.join("out"))?;
    std::fs::create_dir(&ours)?;
    std::fs::write(there.join("out/a.csv"), b"1;2")?;
    let documents = format!(
        "endpoint: {{name: bank, target: {{directory: {{path: {}}}}}}}\n---\n\
         endpoint: {{name: ours, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: fetch\n  when: {{watch: {{endpoint: bank, path: /out, every: 1s, \
         stable: 0s}}}}\n  do:\n    - fetch: {{}}\n    \
         - deliver: {{endpoint: ours, path: '{{name}}'}}\n",
        text(&there)?,
        text(&ours)?
    );
    node.cli_with_input(&["apply", "-"], &documents)?;
    node.start()?;
    node.until("the file", || Ok(ours.join("a.csv").exists().then_some(())))?;
    let shown = node.json(&["watch", "list", "fetch"])?;
    ensure!(shown[0]["path"] == "a.csv" && shown[0]["size"] == 3, "{shown}");
    ensure!(node.cli(&["watch", "forget", "fetch", "b.csv"]).is_err(), "it was never there");
    node.cli(&["watch", "forget", "fetch", "a.csv"])?;
    let twice = || Ok((node.events("watch.found")?.len() == 2).then_some(()));
    node.until("the file once more", twice)?;
    ensure!(node.events("watch.forgotten")?.len() == 1, "who had it forgotten is not recorded");
    node.stop()
}

/// It is listed once a day by itself. The notification is as MinIO posts it.
#[test]
fn an_object_store_that_says_so_has_its_bucket_looked_at_at_once() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let s3 = S3Server::start()?;
    let ours = node.scratch().join("ours");
    std::fs::create_dir(&ours)?;
    let (out, known) = (s3.objects().join("out"), "a-key-of-the-store-01");
    std::fs::create_dir_all(&out)?;
    std::fs::write(out.join("before.csv"), b"0")?;
    let documents = s3.endpoint("bank")
        + &format!(
            "---\nkey: {{name: store, type: web-hook, private: {known}}}\n---\n\
             endpoint: {{name: ours, target: {{directory: {{path: {}}}}}}}\n---\n\
             rule:\n  name: fetch\n  when: {{watch: {{endpoint: bank, path: /out, every: 1d, \
             stable: 0s, hook: {{scheme: bearer, keys: [store]}}}}}}\n  do:\n    \
             - fetch: {{}}\n    - deliver: {{endpoint: ours, path: '{{name}}'}}\n",
            text(&ours)?
        );
    node.cli_with_input(&["apply", "-"], &documents)?;
    node.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
    node.start()?;
    node.until("what was there", || Ok(ours.join("before.csv").exists().then_some(())))?;
    let address = format!("https://127.0.0.1:{}/hooks/fetch", node.port_of("https")?);
    let tell = |key: &str, name: &str| -> Result<String> {
        let event = "s3:ObjectCreated:Put";
        let record = json!({"eventName": event, "s3": {"object": {"key": name}}});
        let message = json!({"EventName": event, "Key": name, "Records": [record]});
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}"]);
        curl.args(["-H", &format!("Authorization: Bearer {key}"), "-d", &message.to_string()]);
        Ok(String::from_utf8(run(curl.arg(&address))?.stdout)?)
    };
    for name in ["first.csv", "second.csv"] {
        std::fs::write(out.join(name), b"1;2")?;
        ensure!(tell("a-key-of-nobody-at-all", name)? == "401", "a stranger is believed");
        ensure!(tell(known, &format!("inbox/out/{name}"))? == "202");
        node.until(name, || Ok(ours.join(name).exists().then_some(())))?;
    }
    node.until("the events", || Ok((node.events("watch.found")?.len() == 3).then_some(())))?;
    node.stop()
}
