//! Wrong configuration and hostile peers: one clear sentence with a code, nothing half applied,
//! others unaffected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::{Node, feed};

use crate::{node_with, program};

#[test]
fn bad_documents_are_refused_whole_with_their_place() -> Result<()> {
    let node = Node::new(program(), None)?;
    let before = node.cli(&["export"])?;
    let cases = [
        ("account: {name: a}\n---\naccount:\n  name: b\n  colour: red\n", "5:", "colour"),
        ("account: {name: a, policy: nowhere}\n", "", "nowhere"),
        ("mount: {name: m, account: a, path: relative, endpoint: files}\n", "1:", "path"),
        ("account: {name: '../a'}\n", "1:", "not a name"),
        ("account:\n  name: a\n type: x\n", "3:", ""),
        ("rule: {name: r, when: {event: file.eaten}, do: [{delete: {}}]}\n", "", "file.uploaded"),
        (
            "rule: {name: r, when: {event: file.uploaded}, if: 'file.', do: [{delete: {}}]}\n",
            "",
            "if",
        ),
        ("endpoint: {name: e, target: {directory: {path: relative}}}\n", "", "absolute"),
        ("thing: {name: a}\n", "1:", "thing"),
    ];
    for (documents, place, word) in cases {
        let file = local_file(&node, "bad.yaml", documents.as_bytes())?;
        let output = node.command(&["apply", text(&file)?]).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{documents:?}: {said}");
        ensure!(said.contains(&format!("bad.yaml:{place}")), "{documents:?}: no place in {said:?}");
        ensure!(said.contains(word) && said.contains("[EP01"), "{documents:?}: {said:?}");
    }
    assert_eq!(node.cli(&["export"])?, before, "something was half applied");
    Ok(())
}

#[test]
fn a_wrong_start_is_one_sentence_with_a_code() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut node = Node::new(program(), None)?;
    let refused = |node: &Node, code: &str, word: &str| -> Result<()> {
        let output = node.command(&["serve"]).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success(), "it started");
        ensure!(said.contains(code) && said.contains(word), "it said {said:?}");
        Ok(())
    };
    let key = node.home().join("data/master.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644))?;
    refused(&node, "EP0201", "master.key")?;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))?;
    let toml = node.home().join("entrepot.toml");
    let good = std::fs::read_to_string(&toml)?;
    std::fs::write(&toml, format!("{good}\nflavour = 'x'\n"))?;
    refused(&node, "EP0201", "entrepot.toml:")?;
    std::fs::write(&toml, &good)?;
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = format!("address={}", taken.local_addr()?);
    node.cli(&["listener", "change", "sftp", &address])?;
    refused(&node, "EP02", "in use")?;
    node.cli(&["listener", "change", "sftp", "address=127.0.0.1:0"])?;
    node.start()?;
    refused(&node, "EP06", "another process")
}

/// Reads what the server says until it hangs up; fails if it does not hang up.
fn rest(mut stream: TcpStream) -> Result<Vec<u8>> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => Ok(said),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(said),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn malformed_ssh_ends_only_its_own_connection() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let port = node.sftp_port()?;
    let oversized = [b"SSH-2.0-x\r\n".as_slice(), &[0x7f, 0xff, 0xff, 0xff], &[0; 64]].concat();
    let early = [b"SSH-2.0-x\r\n".as_slice(), &[0, 0, 0, 12, 10, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        .concat();
    let cases: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\n\r\n", &[0; 4096], &[b'a'; 300_000], &oversized, &early];
    for bytes in cases {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        // The server may hang up before all is written.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        rest(stream)?;
    }
    let local = local_file(&node, "a", b"content")?;
    login.sftp_batch(&node, &format!("put {} a\n", text(&local)?))?;
    ensure!(!node.log().contains("panicked"), "{}", node.log());
    Ok(())
}

#[test]
fn unauthenticated_connections_do_not_shut_others_out() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let port = node.sftp_port()?;
    // 256 of one address may be without a login; those that make no progress give way.
    let mut silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(("127.0.0.1", port))).collect::<Result<_, _>>()?;
    let local = local_file(&node, "a", b"content")?;
    let put = format!("put {} a\n", text(&local)?);
    node.until("the crowd to count as silent", || Ok(login.sftp_batch(&node, &put).ok()))?;
    login.sftp_batch(&node, &put)?;
    let sentence = b"too many connections have not logged in yet, try again in a moment";
    let mut told = 0;
    for stream in &mut silent {
        // What is there now: others are kept, or were told after a while that they said nothing.
        stream.set_nonblocking(true)?;
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        told += usize::from(said.windows(sentence.len()).any(|words| words == sentence));
    }
    // For 44 there was no room, and one gave way.
    ensure!((45..300).contains(&told), "{told} of the crowd were told to go");
    Ok(())
}

#[test]
fn nothing_leads_out_of_the_mount() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let outside = node.files().join("secret.txt");
    std::fs::write(&outside, b"secret")?;
    let home = node.files().join("acme");
    std::fs::create_dir_all(&home)?;
    std::os::unix::fs::symlink(&outside, home.join("link"))?;
    std::os::unix::fs::symlink(node.files(), home.join("up"))?;
    for path in ["../secret.txt", "/../secret.txt", "link", "up/secret.txt", "a/../../secret.txt"] {
        let target = node.scratch().join("got");
        let batch = format!("get {path} {}\n", text(&target)?);
        ensure!(login.sftp_batch(&node, &batch).is_err(), "{path} was read");
        ensure!(!target.exists());
    }
    let local = local_file(&node, "new", b"new")?;
    for path in ["link", "up/secret.txt"] {
        let _ = login.sftp_batch(&node, &format!("put {} {path}\n", text(&local)?));
        assert_eq!(std::fs::read(&outside)?, b"secret", "{path} was written through");
    }
    Ok(())
}

#[test]
fn a_guesser_is_slowed_and_the_owner_is_not() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let local = local_file(&node, "a", b"content")?;
    let put = format!("put {} a\n", text(&local)?);
    login.sftp_batch(&node, &put)?;
    let wrong =
        Login { password: "wrong".to_owned(), key: login.key.clone(), account: "acme".to_owned() };
    for _ in 0..3 {
        ensure!(wrong.rclone(&node, &["lsf", "node:"]).is_err(), "a wrong password was taken");
    }
    let refused = node.until("the refusals in the audit log", || {
        let events = node.events("login.refused")?;
        Ok((events.len() >= 3).then_some(events))
    })?;
    ensure!(refused.iter().all(|event| event["name"] == "acme"));
    login.sftp_batch(&node, &put)?;
    Ok(())
}

/// Addresses of the crowd, and connections that each of them keeps open.
const CROWD: (u8, usize) = (200, 50);

/// Connects over and over from one address and keeps its newest connections open, cut or not; some
/// say a little.
async fn crowd(port: u16, number: u8, starts: &AtomicUsize) {
    let mut held = std::collections::VecDeque::new();
    loop {
        let count = starts.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        let Ok(socket) = tokio::net::TcpSocket::new_v4() else { continue };
        let Ok(()) = socket.bind(([127, 0, 1, number + 1], 0).into()) else { continue };
        let Ok(mut stream) = socket.connect(([127, 0, 0, 1], port).into()).await else { continue };
        if count.is_multiple_of(3) {
            use tokio::io::AsyncWriteExt;
            let _ = stream.write_all(b"SSH-2.0-crowd\r\n").await;
        }
        held.push_back(stream);
        if held.len() > CROWD.1 {
            held.pop_front();
        }
    }
}

/// Lists a directory by `sftp` from an address of this machine.
fn list_from(node: &Node, login: &Login, address: &str) -> Result<()> {
    let mut sftp = std::process::Command::new("sftp");
    sftp.args(login.ssh_options(node)?).arg(format!("-oBindAddress={address}"));
    sftp.args(["-q", "-b", "-", "-P", &node.sftp_port()?.to_string()]);
    feed(sftp.arg(format!("{}@127.0.0.1", login.account)), "ls\n").map(drop)
}

/// Clients from addresses that nobody has ever logged in from, the first of them before anybody at
/// all has, come in at the first try while the flood goes on.
#[test]
fn ten_thousand_starts_from_two_hundred_addresses_shut_no_newcomer_out() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let port = node.sftp_port()?;
    let starts = AtomicUsize::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| -> Result<()> {
        scope.spawn(|| {
            runtime.block_on(async {
                let crowds = (0..CROWD.0).map(|number| crowd(port, number, &starts));
                tokio::select! {
                    _ = stopped => {}
                    _ = futures_util::future::join_all(crowds) => {}
                }
            });
        });
        let come_in = || -> Result<()> {
            let started = || starts.load(Ordering::Relaxed);
            node.until("the flood", || Ok((started() >= 10_000).then_some(())))?;
            for newcomer in 1..=5 {
                let before = started();
                let address = format!("127.0.2.{newcomer}");
                list_from(&node, &login, &address).with_context(|| format!("as {newcomer}"))?;
                node.until("the flood to go on", || Ok((started() > before + 200).then_some(())))?;
            }
            list_from(&node, &login, "127.0.2.1").context("from a known address")
        };
        let came = come_in();
        drop(stop);
        came
    })?;
    node.until("the sessions to be gone", || {
        let sessions = node.json(&["session", "list"])?;
        Ok(sessions.as_array().is_some_and(Vec::is_empty).then_some(()))
    })
}
