//! Real clients from Debian, driven as people drive them.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use entrepot_ssh::keys;
use tokio::process::Command;

use super::fixture::Fixture;
use super::pattern;

impl Fixture {
    pub(super) fn known_hosts(&self) -> PathBuf {
        let file = self.home.path().join("known_hosts");
        let port = self.address.port();
        let line = keys::known_hosts_line("127.0.0.1", port, &self.host_key).unwrap();
        std::fs::write(&file, line + "\n").unwrap();
        file
    }

    /// Options that keep the machine's own configuration out.
    pub(super) fn ssh_options(&self) -> Vec<String> {
        [
            "BatchMode=yes".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            format!("UserKnownHostsFile={}", self.known_hosts().display()),
            format!("IdentityFile={}", self.home.path().join("id").display()),
            format!("Port={}", self.address.port()),
        ]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect()
    }

    /// A folder on the client's side.
    pub(super) fn local(&self) -> PathBuf {
        let folder = self.home.path().join("local");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub(super) async fn sftp(&self, more: &[&str], batch: &str) -> Output {
        let file = self.home.path().join("batch");
        std::fs::write(&file, batch).unwrap();
        let mut command = Command::new("sftp");
        command.args(["-F", "none", "-b"]).arg(&file).args(self.ssh_options()).args(more);
        command.arg("anna@127.0.0.1").current_dir(self.local());
        run(command).await
    }
}

pub(super) async fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap()
}

pub(super) fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[track_caller]
pub(super) fn good(output: &Output) -> String {
    let text = text(output);
    assert!(output.status.success(), "{:?}: {text}", output.status);
    text
}

#[tokio::test]
async fn openssh_moves_files_both_ways() {
    let fixture = Fixture::start().await;
    let bytes = pattern(5_000_001);
    std::fs::write(fixture.local().join("up.bin"), &bytes).unwrap();
    std::fs::write(fixture.local().join("empty"), b"").unwrap();
    let batch = "pwd\nmkdir d\nput up.bin d/x.bin\nput -p empty d/empty\nls -la d\n\
                 get d/x.bin back.bin\ncp d/x.bin d/copy\nrename d/x.bin d/y.bin\nls -1 d\ndf d\n\
                 rm d/empty\nput empty d/y.bin.tmp\nrename d/y.bin.tmp d/z\nrm d/z\n";
    let told = good(&fixture.sftp(&[], batch).await);
    assert!(told.contains("Remote working directory: /"), "{told}");
    assert!(told.contains("5000001") && told.contains("d/y.bin"), "{told}");
    assert_eq!(fixture.read("/d/y.bin").unwrap(), bytes);
    assert_eq!(fixture.read("/d/copy").unwrap(), bytes);
    assert_eq!(fixture.read("/d/x.bin"), None);
    assert_eq!(fixture.read("/d/empty"), None);
    assert_eq!(std::fs::read(fixture.local().join("back.bin")).unwrap(), bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn openssh_goes_on_where_it_stopped() {
    let fixture = Fixture::start().await;
    let bytes = pattern(3_000_000);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    fixture.write("/f", &bytes[..1_000_000]);
    good(&fixture.sftp(&[], "reput f f\n").await);
    assert_eq!(fixture.read("/f").unwrap(), bytes);
    std::fs::write(fixture.local().join("g"), &bytes[..1_234_567]).unwrap();
    fixture.write("/g", &bytes);
    good(&fixture.sftp(&[], "reget g g\n").await);
    assert_eq!(std::fs::read(fixture.local().join("g")).unwrap(), bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn openssh_rekeys_in_the_middle() {
    let fixture = Fixture::start().await;
    let bytes = pattern(6_000_000);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    let more = ["-o", "RekeyLimit=1M", "-o", "Ciphers=chacha20-poly1305@openssh.com"];
    good(&fixture.sftp(&more, "put f f\nget f back\n").await);
    assert_eq!(fixture.read("/f").unwrap(), bytes);
    assert_eq!(std::fs::read(fixture.local().join("back")).unwrap(), bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn the_server_rekeys_in_the_middle() {
    let fixture = Fixture::start_rekeying(1 << 20).await;
    let bytes = pattern(6_000_000);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    for batch in ["put f f\n", "get f back\n"] {
        let told = good(&fixture.sftp(&["-v"], batch).await);
        let exchanges = told.matches("SSH2_MSG_NEWKEYS received").count();
        assert!(exchanges > 1, "{exchanges} key exchanges in {batch}");
    }
    assert_eq!(fixture.read("/f").unwrap(), bytes);
    assert_eq!(std::fs::read(fixture.local().join("back")).unwrap(), bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn openssh_works_on_a_store_that_waits() {
    let fixture = Fixture::start_waiting().await;
    let bytes = pattern(3_000_000);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    let batch = "put f f\nget f back\nls -l\nrename f g\n-get nothing\nrm g\nput f h\n";
    good(&fixture.sftp(&[], batch).await);
    assert_eq!(fixture.read("/h").unwrap(), bytes);
    assert_eq!(std::fs::read(fixture.local().join("back")).unwrap(), bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn errors_are_sentences_for_openssh() {
    let fixture = Fixture::start().await;
    std::fs::write(fixture.local().join("f"), b"x").unwrap();
    std::fs::write(fixture.local().join("big"), pattern(3 << 20)).unwrap();
    let output = fixture.sftp(&[], "put big small/big\n").await;
    let told = text(&output);
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("space") || told.contains("limit"), "{told}");
    assert_eq!(fixture.read("/small/big"), None);
    for (batch, word) in [
        ("get nothing\n", "not found"),
        ("put f no/such/f\n", "No such file"),
        ("rmdir none\n", "No such file"),
    ] {
        let output = fixture.sftp(&[], batch).await;
        assert!(!output.status.success() && text(&output).contains(word), "{}", text(&output));
    }
    good(&fixture.sftp(&[], "put f f\nmkdir d\nput f d/f\n-rmdir d\nls d\n").await);
    assert!(fixture.read("/d/f").is_some());
    fixture.stop().await;
}

#[tokio::test]
async fn scp_uses_sftp_and_writes_over_a_longer_file() {
    let fixture = Fixture::start().await;
    fixture.write("/f", &pattern(500_000));
    let bytes = pattern(100_000);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    let mut scp = Command::new("scp");
    scp.args(["-F", "none", "-p"]).args(fixture.ssh_options()).args(["f", "anna@127.0.0.1:f"]);
    scp.current_dir(fixture.local());
    good(&run(scp).await);
    assert_eq!(fixture.read("/f").unwrap(), bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn commands_and_shells_are_declined() {
    let fixture = Fixture::start().await;
    for command in [&["ls", "-l"][..], &["df"], &["echo", "${ShellId}%ComSpec%"], &[]] {
        let mut ssh = Command::new("ssh");
        ssh.args(["-F", "none", "-T"]).args(fixture.ssh_options()).arg("anna@127.0.0.1");
        ssh.args(command);
        let output = run(ssh).await;
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", text(&output));
        assert!(text(&output).contains("Entrepot offers SFTP and SCP only"), "{}", text(&output));
    }
    fixture.stop().await;
}

/// lftp drives OpenSSH's ssh.
pub(super) async fn lftp(fixture: &Fixture, script: &str) -> Output {
    let program = format!("ssh -a -x -F none {}", fixture.ssh_options().join(" "));
    let setup = format!(
        "set sftp:connect-program '{program}'; set net:max-retries 1; set net:timeout 20; \
         set cmd:fail-exit true; open -u anna, sftp://127.0.0.1:{}; ",
        fixture.address.port()
    );
    let mut command = Command::new("lftp");
    command.args(["--norc", "-c"]).arg(setup + script).current_dir(fixture.local());
    command.env("HOME", fixture.home.path());
    run(command).await
}

fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn lftp_mirrors_both_ways() {
    let fixture = Fixture::start().await;
    let source = fixture.local().join("tree");
    std::fs::create_dir(&source).unwrap();
    for n in 0..20 {
        std::fs::write(source.join(format!("file {n}")), pattern(n * 20_000)).unwrap();
    }
    good(&lftp(&fixture, "mkdir -p a/b; mirror -R tree a/b/tree; mirror a/b/tree back").await);
    assert_eq!(fixture.read("/a/b/tree/file 7").unwrap(), pattern(140_000));
    assert_eq!(tree(&fixture.local().join("back")), tree(&source));
    let told = good(&lftp(&fixture, "cd a/b/tree; mv 'file 1' one; rm 'file 2'; ls").await);
    assert!(told.contains("one") && !told.contains("file 2"), "{told}");
    fixture.stop().await;
}

#[tokio::test]
async fn lftp_goes_on_where_it_stopped() {
    let fixture = Fixture::start().await;
    let bytes = pattern(2_000_000);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    fixture.write("/f", &bytes[..700_000]);
    good(&lftp(&fixture, "put -c f").await);
    assert_eq!(fixture.read("/f").unwrap(), bytes);
    fixture.stop().await;
}

pub(super) async fn rclone(fixture: &Fixture, arguments: &[&str]) -> Output {
    let mut command = Command::new("rclone");
    command
        .args(["--config", "/dev/null", "--retries", "1", "--low-level-retries", "1"])
        .args(["--sftp-host", "127.0.0.1", "--sftp-user", "anna"])
        .args(["--sftp-port", &fixture.address.port().to_string()])
        .arg("--sftp-key-file")
        .arg(fixture.home.path().join("id"))
        .arg("--sftp-known-hosts-file")
        .arg(fixture.known_hosts())
        .args(arguments)
        .current_dir(fixture.local())
        .env("HOME", fixture.home.path());
    run(command).await
}

#[tokio::test]
async fn rclone_copies_and_checks_both_ways() {
    let fixture = Fixture::start().await;
    let source = fixture.local().join("tree");
    std::fs::create_dir(&source).unwrap();
    for n in 1..6 {
        std::fs::write(source.join(format!("f{n}")), pattern(n * 400_000)).unwrap();
    }
    good(&rclone(&fixture, &["copy", "tree", ":sftp:in/tree"]).await);
    assert_eq!(fixture.read("/in/tree/f3").unwrap(), pattern(1_200_000));
    good(&rclone(&fixture, &["check", "--download", "tree", ":sftp:in/tree"]).await);
    // By md5sum and sha1sum on a channel of its own for each file.
    let told = good(&rclone(&fixture, &["-vv", "check", "tree", ":sftp:in/tree"]).await);
    assert!(told.contains("5 matching files"), "{told}");
    assert!(!told.contains("hashes could not be checked"), "{told}");
    good(&rclone(&fixture, &["copy", ":sftp:in/tree", "back"]).await);
    assert_eq!(tree(&fixture.local().join("back")), tree(&source));
    let told = good(&rclone(&fixture, &["lsl", ":sftp:in/tree"]).await);
    assert!(told.contains("1200000"), "{told}");
    good(&rclone(&fixture, &["moveto", ":sftp:in/tree/f1", ":sftp:in/g1"]).await);
    assert!(fixture.read("/in/g1").is_some() && fixture.read("/in/tree/f1").is_none());
    good(&rclone(&fixture, &["purge", ":sftp:in/tree"]).await);
    assert!(fixture.read("/in/tree/f3").is_none());
    fixture.stop().await;
}
