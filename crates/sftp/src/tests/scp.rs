//! SCP and the hash commands, with the real programs and by hand.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use entrepot_ssh::client::{Arrival, ChannelWriter, SshClient};
use tokio::process::Command;
use tokio::sync::mpsc;

use super::clients::{good, run, text};
use super::fixture::{Fixture, PASSWORD};
use super::pattern;
use super::wire::login;

impl Fixture {
    /// OpenSSH's scp in its old mode, as it runs without an SFTP server.
    async fn scp(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("scp");
        command.args(["-O", "-F", "none"]).args(self.ssh_options()).args(arguments);
        command.current_dir(self.local());
        run(command).await
    }

    async fn ssh(&self, line: &str) -> Output {
        let mut command = Command::new("ssh");
        command.args(["-F", "none", "-T"]).args(self.ssh_options()).arg("anna@127.0.0.1").arg(line);
        run(command).await
    }

    fn local_file(&self, name: &str, bytes: &[u8]) {
        let file = self.local().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    fn local_bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.local().join(name)).unwrap()
    }
}

fn set_modified(file: &Path, seconds: u64) {
    let at = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
    std::fs::File::open(file).unwrap().set_modified(at).unwrap();
}

fn modified(file: &Path) -> u64 {
    let at = std::fs::metadata(file).unwrap().modified().unwrap();
    at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn scp_moves_files_both_ways() {
    let fixture = Fixture::start().await;
    let bytes = pattern(5_000_001);
    fixture.local_file("up", &bytes);
    fixture.local_file("empty", b"");
    good(&fixture.scp(&["up", "anna@127.0.0.1:x.bin"]).await);
    assert_eq!(fixture.read("/x.bin").unwrap(), bytes);
    good(&fixture.scp(&["up", "empty", "anna@127.0.0.1:small/.."]).await);
    assert_eq!(fixture.read("/up").unwrap(), bytes);
    assert_eq!(fixture.read("/empty").unwrap(), b"");
    good(&fixture.scp(&["anna@127.0.0.1:x.bin", "back"]).await);
    assert_eq!(fixture.local_bytes("back"), bytes);
    good(&fixture.scp(&["anna@127.0.0.1:~/empty", "nothing"]).await);
    assert_eq!(fixture.local_bytes("nothing"), b"");
    // Over a longer one, and with times.
    fixture.local_file("up", &bytes[..1000]);
    set_modified(&fixture.local().join("up"), 1_000_000_000);
    good(&fixture.scp(&["-p", "up", "anna@127.0.0.1:x.bin"]).await);
    assert_eq!(fixture.read("/x.bin").unwrap(), &bytes[..1000]);
    assert_eq!(modified(&fixture.path("/x.bin")), 1_000_000_000);
    fixture.stop().await;
}

#[tokio::test]
async fn scp_carries_trees_with_times_both_ways() {
    let fixture = Fixture::start().await;
    fixture.local_file("tree/a", b"a");
    fixture.local_file("tree/deep/er/b c", &pattern(300_000));
    std::fs::create_dir(fixture.local().join("tree/none")).unwrap();
    for name in ["tree/deep/er/b c", "tree/deep/er", "tree"] {
        set_modified(&fixture.local().join(name), 1_200_000_000);
    }
    good(&fixture.scp(&["-r", "-p", "tree", "anna@127.0.0.1:"]).await);
    good(&fixture.scp(&["-r", "-p", "tree", "anna@127.0.0.1:named"]).await);
    for top in ["/tree", "/named"] {
        assert_eq!(fixture.read(&format!("{top}/deep/er/b c")).unwrap(), pattern(300_000));
        assert_eq!(fixture.read(&format!("{top}/a")).unwrap(), b"a");
        assert!(fixture.path(&format!("{top}/none")).is_dir());
        assert_eq!(modified(&fixture.path(&format!("{top}/deep/er"))), 1_200_000_000);
    }
    good(&fixture.scp(&["-r", "-p", "anna@127.0.0.1:tree", "back"]).await);
    assert_eq!(fixture.local_bytes("back/deep/er/b c"), pattern(300_000));
    assert!(fixture.local().join("back/none").is_dir());
    assert_eq!(modified(&fixture.local().join("back/deep/er/b c")), 1_200_000_000);
    assert_eq!(modified(&fixture.local().join("back/deep/er")), 1_200_000_000);
    fixture.stop().await;
}

fn set_mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(file: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn scp_carries_modes_both_ways() {
    let fixture = Fixture::start().await;
    fixture.local_file("tree/tool", b"#!");
    fixture.local_file("tree/open", b"open");
    let local = fixture.local();
    for (name, bits) in [("tree/tool", 0o751), ("tree/open", 0o666), ("tree", 0o750)] {
        set_mode(&local.join(name), bits);
    }
    fixture.write("/umask", b"");
    let most = fixture.mode("/umask");
    // Without -p the umask of the server counts, with it nothing does.
    good(&fixture.scp(&["-r", "tree", "anna@127.0.0.1:plain"]).await);
    assert_eq!(fixture.mode("/plain/open"), most);
    assert_eq!(fixture.mode("/plain/tool"), 0o751 & (most | 0o111));
    good(&fixture.scp(&["-r", "-p", "tree", "anna@127.0.0.1:kept"]).await);
    for (name, bits) in [("/kept/tool", 0o751), ("/kept/open", 0o666), ("/kept", 0o750)] {
        assert_eq!(fixture.mode(name), bits, "{name}");
    }
    good(&fixture.scp(&["-r", "-p", "anna@127.0.0.1:kept", "back"]).await);
    for (name, bits) in [("back/tool", 0o751), ("back/open", 0o666), ("back", 0o750)] {
        assert_eq!(mode(&local.join(name)), bits, "{name}");
    }
    // Over another one: its mode stays, unless -p brings one.
    good(&fixture.scp(&["tree/open", "anna@127.0.0.1:kept/tool"]).await);
    assert_eq!(fixture.mode("/kept/tool"), 0o751);
    good(&fixture.scp(&["-p", "tree/open", "anna@127.0.0.1:kept/tool"]).await);
    assert_eq!(fixture.mode("/kept/tool"), 0o666);
    fixture.stop().await;
}

#[tokio::test]
async fn scp_expands_patterns_and_says_what_is_missing() {
    let fixture = Fixture::start().await;
    for name in ["/a.txt", "/b.txt", "/c.bin", "/.d.txt", "/sp ace"] {
        fixture.write(name, name.as_bytes());
    }
    good(&fixture.scp(&["anna@127.0.0.1:*.txt", "."]).await);
    good(&fixture.scp(&["anna@127.0.0.1:sp\\ ace", "."]).await);
    assert_eq!(fixture.local_bytes("sp ace"), b"/sp ace");
    assert_eq!(fixture.local_bytes("b.txt"), b"/b.txt");
    assert!(!fixture.local().join("c.bin").exists() && !fixture.local().join(".d.txt").exists());
    for missing in ["anna@127.0.0.1:nope", "anna@127.0.0.1:*.nope", "anna@127.0.0.1:no/*/x"] {
        let output = fixture.scp(&[missing, "x"]).await;
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains("No such file or directory"), "{}", text(&output));
    }
    let output = fixture.scp(&["anna@127.0.0.1:small", "x"]).await;
    assert!(text(&output).contains("not a regular file"), "{}", text(&output));
    let output = fixture.scp(&["anna@127.0.0.1:c.bin", "anna@127.0.0.1:nope", "."]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fixture.local_bytes("c.bin"), b"/c.bin", "the others are sent");
    fixture.stop().await;
}

#[tokio::test]
async fn what_cannot_be_taken_is_told_and_the_rest_goes_on() {
    let fixture = Fixture::start().await;
    fixture.local_file("large", &pattern(3_000_000));
    fixture.local_file("little", b"little");
    let output = fixture.scp(&["large", "little", "anna@127.0.0.1:small"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("the limit of"), "{}", text(&output));
    assert_eq!(fixture.read("/small/little").unwrap(), b"little");
    assert_eq!(fixture.read("/small/large"), None);
    let output = fixture.scp(&["little", "large", "anna@127.0.0.1:nowhere"]).await;
    assert!(text(&output).contains("no such file or directory"), "{}", text(&output));
    let output = fixture.scp(&["little", "anna@127.0.0.1:no/where"]).await;
    assert_eq!(output.status.code(), Some(1));
    let output = fixture.ssh("scp -t '/a;b' ; ls").await;
    assert!(text(&output).contains("SFTP and SCP only"), "{}", text(&output));
    fixture.stop().await;
}

#[tokio::test]
async fn pscp_speaks_scp() {
    let fixture = Fixture::start().await;
    let bytes = pattern(700_000);
    fixture.local_file("f", &bytes);
    let port = fixture.address.port().to_string();
    let key = super::fixture::fingerprint(&fixture.host_key);
    let pscp = |arguments: &[&str]| {
        let mut command = Command::new("pscp");
        command.args(["-batch", "-scp", "-P", &port, "-pw", PASSWORD, "-hostkey", &key]);
        command.args(arguments).current_dir(fixture.local()).env("HOME", fixture.home.path());
        run(command)
    };
    // It leaves the quotes to people.
    good(&pscp(&["-p", "f", "anna@127.0.0.1:'/g h'"]).await);
    assert_eq!(fixture.read("/g h").unwrap(), bytes);
    good(&pscp(&["-p", "anna@127.0.0.1:'/g h'", "back"]).await);
    assert_eq!(fixture.local_bytes("back"), bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn scp_works_where_the_store_waits_for_a_network() {
    let fixture = Fixture::start_waiting().await;
    let bytes = pattern(2_000_000);
    fixture.local_file("t/f", &bytes);
    fixture.local_file("t/g", b"g");
    good(&fixture.scp(&["-r", "t", "anna@127.0.0.1:"]).await);
    assert_eq!(fixture.read("/t/f").unwrap(), bytes);
    good(&fixture.scp(&["-r", "anna@127.0.0.1:t", "back"]).await);
    assert_eq!(fixture.local_bytes("back/f"), bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn hashes_are_those_of_the_programs() {
    let fixture = Fixture::start().await;
    fixture.write("/a b", b"abc");
    let output = good(&fixture.ssh("md5sum '/a b'").await);
    assert_eq!(output, "900150983cd24fb0d6963f7d28e17f72  /a b\n");
    let output = good(&fixture.ssh("sha1sum a\\ b").await);
    assert_eq!(output, "a9993e364706816aba3e25717850c26c9cd0d89d  a b\n");
    let output = good(&fixture.ssh("sha256sum -b ~/a\\ b 'a b'").await);
    assert_eq!(output.lines().filter(|line| line.starts_with("ba7816bf")).count(), 2, "{output}");
    assert_eq!(good(&fixture.ssh("md5sum").await), "d41d8cd98f00b204e9800998ecf8427e  -\n");
    assert_eq!(good(&fixture.ssh("pwd").await), "/\n");
    good(&fixture.ssh("cd small").await);
    for line in ["md5sum nope", "cd nope", "cd 'a b'"] {
        let output = fixture.ssh(line).await;
        assert_eq!(output.status.code(), Some(1), "{line}: {}", text(&output));
    }
    fixture.stop().await;
}

/// A command by hand.
struct Exec {
    channel: ChannelWriter,
    arrived: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
    bytes: Vec<u8>,
}

impl Exec {
    async fn start(client: &SshClient, line: &str) -> Exec {
        let (sender, arrived) = mpsc::unbounded_channel();
        let receive = move |arrival: Arrival<'_>| {
            let message = match arrival {
                Arrival::Data(data) | Arrival::ErrorText(data) => Some(data.to_vec()),
                Arrival::End => None,
            };
            let _ = sender.send(message);
        };
        let channel = client.open_exec(line, Box::new(receive)).await.unwrap();
        Exec { channel, arrived, bytes: Vec::new() }
    }

    async fn send(&self, bytes: impl AsRef<[u8]>) {
        let _ = self.channel.send(Bytes::copy_from_slice(bytes.as_ref())).await;
    }

    async fn more(&mut self) -> bool {
        let waited = tokio::time::timeout(Duration::from_secs(20), self.arrived.recv()).await;
        match waited.expect("something in twenty seconds").flatten() {
            Some(bytes) => {
                self.bytes.extend(bytes);
                true
            }
            None => false,
        }
    }

    /// The next `count` bytes.
    async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.bytes.len() < count {
            assert!(self.more().await, "the channel ended after {:?}", self.bytes);
        }
        self.bytes.drain(..count).collect()
    }

    async fn rest(mut self) -> Vec<u8> {
        while self.more().await {}
        self.bytes
    }
}

#[tokio::test]
async fn a_cut_copy_publishes_nothing() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"old");
    let client = login(&fixture).await;
    for sent in [&b"C0644 5 f\n"[..], b"C0644 5 f\nabc", b"C0644 5 f\nabcd"] {
        let mut exec = Exec::start(&client, "scp -t /f").await;
        assert_eq!(exec.take(1).await, [0]);
        exec.send(sent).await;
        assert_eq!(exec.take(1).await, [0]);
        exec.channel.end().await.unwrap();
        exec.rest().await;
        assert_eq!(fixture.read("/f").unwrap(), b"old");
    }
    // Every byte, and then the channel is gone without an end: seen behind the next one.
    let mut exec = Exec::start(&client, "scp -t /f").await;
    exec.send(b"C0644 5 f\nabcde").await;
    assert_eq!(exec.take(2).await, [0, 0]);
    exec.channel.close().await.unwrap();
    // The source says that it could not read it all.
    let mut exec = Exec::start(&client, "scp -t /f").await;
    exec.send(b"C0644 5 f\nabcde\x01scp: f: I/O error\n").await;
    assert_eq!(exec.take(3).await, [0, 0, 1]);
    exec.channel.end().await.unwrap();
    exec.rest().await;
    assert_eq!(fixture.read("/f").unwrap(), b"old");
    // Whole, without the last word: libssh2 ends the channel instead.
    let mut exec = Exec::start(&client, "scp -t /f").await;
    exec.send(b"C0644 3 f\nnew").await;
    exec.channel.end().await.unwrap();
    assert_eq!(exec.take(3).await, [0, 0, 0]);
    assert_eq!(fixture.read("/f").unwrap(), b"new");
    // Whole, byte by byte.
    let mut exec = Exec::start(&client, "scp -t /f").await;
    for byte in b"C0644 5 f\nabcde\0" {
        exec.send([*byte]).await;
    }
    assert_eq!(exec.take(3).await, [0, 0, 0]);
    assert_eq!(fixture.read("/f").unwrap(), b"abcde", "answered when it is published");
    fixture.stop().await;
}

#[tokio::test]
async fn names_that_climb_are_refused() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    for record in ["C0644 1 ../x\n", "C0644 1 ..\n", "C0644 1 a/b\n", "D0755 0 ..\n"] {
        let mut exec = Exec::start(&client, "scp -r -t /small").await;
        assert_eq!(exec.take(1).await, [0]);
        exec.send(record).await;
        assert_eq!(exec.take(1).await, [1], "{record}");
        exec.send("C0644 1 good\n").await;
        let answer = exec.rest_of_line().await;
        assert!(answer.starts_with(b"scp: "), "{answer:?}");
        assert_eq!(exec.take(1).await, [0], "the copy goes on");
    }
    assert_eq!(fixture.read("/x"), None);
    fixture.stop().await;
}

impl Exec {
    async fn rest_of_line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            line.extend(self.take(1).await);
        }
        line
    }
}

/// A sink that takes nothing, with a source full of bytes; and a source that is answered before it
/// asks. Neither may hold up the connection.
#[tokio::test]
async fn clients_that_do_not_read_or_talk_too_much_hold_up_nobody() {
    let fixture = Fixture::start().await;
    fixture.write("/large", &pattern(20_000_000));
    let client = login(&fixture).await;
    let mut deaf = Exec::start(&client, "scp -f /large").await;
    // It goes on with the whole file and without any answer being awaited behind it.
    deaf.send([0, 0]).await;
    let talker = Exec::start(&client, "scp -f /large").await;
    for _ in 0..80 {
        talker.send([0; 1024]).await;
    }
    let mut floods = Exec::start(&client, "scp -t /small").await;
    let records: Vec<u8> =
        (0..2000).flat_map(|n| format!("C0644 0 f{n}\n\0").into_bytes()).collect();
    floods.send(records).await;
    assert_eq!(floods.take(4001).await, vec![0; 4001]);
    assert!(fixture.read("/small/f1999").is_some());
    let head = deaf.take(20).await;
    assert!(head.starts_with(b"C0644 20000000"), "{head:?}");
    drop(talker);
    fixture.stop().await;
}

#[tokio::test]
async fn two_thousand_commands_on_one_connection() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"abc");
    let client = Arc::new(login(&fixture).await);
    for round in 0..2000 {
        let exec = Exec::start(&client, if round % 2 == 0 { "md5sum /f" } else { "pwd" }).await;
        let answer = exec.rest().await;
        let wanted: &[u8] =
            if round % 2 == 0 { b"900150983cd24fb0d6963f7d28e17f72  /f\n" } else { b"/\n" };
        assert_eq!(answer, wanted, "{round}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn scp_follows_links_and_goes_round_no_circle() {
    let fixture = Fixture::start().await;
    fixture.allow_links().await;
    for folder in ["/tree", "/tree/deep", "/other"] {
        std::fs::create_dir(fixture.path(folder)).unwrap();
    }
    fixture.write("/tree/f", b"content");
    fixture.write("/other/o", b"other");
    for (target, at) in [
        ("../f", "/tree/deep/file"),
        ("..", "/tree/deep/parent"),
        ("../../other", "/tree/deep/other"),
        ("../tree", "/other/back"),
        ("/etc/passwd", "/tree/deep/outside"),
        ("none", "/tree/deep/dangling"),
        ("tree", "/to-tree"),
    ] {
        std::os::unix::fs::symlink(target, fixture.path(at)).unwrap();
    }
    good(&fixture.scp(&["anna@127.0.0.1:tree/deep/file", "plain"]).await);
    assert_eq!(fixture.local_bytes("plain"), b"content");
    let output = fixture.scp(&["-r", "anna@127.0.0.1:to-tree", "back"]).await;
    assert!(!output.status.success(), "what is left out is told");
    let told = text(&output);
    for (at, why) in [
        ("/to-tree/deep/parent", "being copied already"),
        ("/to-tree/deep/other/back", "being copied already"),
        ("/to-tree/deep/outside", "a link may only lead"),
        ("/to-tree/deep/dangling", "No such file"),
    ] {
        let is_told = told.lines().any(|line| line.contains(at) && line.contains(why));
        assert!(is_told, "{at}: {told}");
    }
    assert_eq!(fixture.local_bytes("back/f"), b"content");
    assert_eq!(fixture.local_bytes("back/deep/file"), b"content");
    assert_eq!(fixture.local_bytes("back/deep/other/o"), b"other");
    for name in ["parent", "outside", "dangling", "other/back"] {
        assert!(!fixture.local().join("back/deep").join(name).exists(), "{name}");
    }
    // Into a directory and over a file by links.
    fixture.local_file("up/f", b"newer");
    good(&fixture.scp(&["-r", "up", "anna@127.0.0.1:to-tree/deep/other"]).await);
    assert_eq!(fixture.read("/other/up/f").unwrap(), b"newer");
    good(&fixture.scp(&["up/f", "anna@127.0.0.1:tree/deep/file"]).await);
    assert_eq!(fixture.read("/tree/f").unwrap(), b"newer");
    assert!(fixture.path("/tree/deep/file").is_symlink());
    fixture.stop().await;
}
