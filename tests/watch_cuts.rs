//! Listings of a watched folder that end too early, at real servers of SFTP (OpenSSH), FTP (vsftpd,
//! pyftpdlib) and S3: what was not listed any more is not gone, and what is listed again is not
//! found again.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use entrepot_nouns::endpoint::FtpTls;
use entrepot_testkit::ftpd::Ftpd;
use entrepot_testkit::s3::S3Server;
use entrepot_testkit::server::Node;
use entrepot_testkit::sshd::Sshd;

use crate::program;
use crate::watches::{ftp_endpoint, sftp_endpoint};

/// Where a relay cuts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    Nowhere,
    /// Behind so many bytes of the server on a connection; of FTP on a data connection.
    Behind(u64),
    /// The same, counted from the first request on that has these words in it.
    BehindRequest(&'static str, u64),
}

/// What becomes of the end of a listing of FTP that was cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The server says that it was cut.
    Said,
    /// The control connection ends with it.
    Silent,
}

struct State {
    cut: Mutex<Cut>,
    end: Mutex<End>,
    /// Connections that were cut.
    cuts: AtomicU64,
}

/// Stands before a server, and cuts connections.
struct Relay {
    port: u16,
    state: Arc<State>,
}

/// How what comes from a server is passed on.
#[derive(Clone, Copy, PartialEq)]
enum Passes {
    /// As it comes.
    Bytes,
    /// Line by line, for lines name ports for data connections, which lead over a relay too.
    FtpReplies,
}

impl Relay {
    fn start(server: u16, passes: Passes) -> Result<Relay> {
        let (cut, end) = (Mutex::new(Cut::Nowhere), Mutex::new(End::Said));
        let state = Arc::new(State { cut, end, cuts: AtomicU64::new(0) });
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (port, known) = (listener.local_addr()?.port(), state.clone());
        // It ends with the test.
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let state = known.clone();
                std::thread::spawn(move || connect(near, server, passes, &state));
            }
        });
        Ok(Relay { port, state })
    }

    fn set(&self, cut: Cut, end: End) {
        *self.state.end.lock().expect("no test fails in it") = end;
        *self.state.cut.lock().expect("no test fails in it") = cut;
    }

    fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }
}

/// What a client has asked for on a connection.
type Asked = Arc<Mutex<Vec<u8>>>;

fn connect(near: TcpStream, server: u16, passes: Passes, state: &Arc<State>) -> Result<()> {
    let far = TcpStream::connect(("127.0.0.1", server))?;
    let asked = Asked::default();
    let (mut from, mut to, known) = (near.try_clone()?, far.try_clone()?, asked.clone());
    std::thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            known.lock().expect("no test fails in it").extend_from_slice(&bytes[..count]);
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    let ended = match passes {
        Passes::Bytes => pass_bytes(&far, &near, &asked, state),
        Passes::FtpReplies => pass_replies(&far, &near, state),
    };
    let _ = near.shutdown(Shutdown::Both);
    let _ = far.shutdown(Shutdown::Both);
    ended
}

fn pass_bytes(
    mut far: &TcpStream,
    mut near: &TcpStream,
    asked: &Asked,
    state: &State,
) -> Result<()> {
    let (mut bytes, mut passed) = ([0; 4 * 1024], 0);
    let mut counted_as = Cut::Nowhere;
    loop {
        let count = far.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        let cut = *state.cut.lock().expect("no test fails in it");
        if cut != counted_as {
            (counted_as, passed) = (cut, 0);
        }
        let left = match cut {
            Cut::Nowhere => u64::MAX,
            Cut::Behind(most) => most - passed,
            Cut::BehindRequest(words, most) => {
                let asked = asked.lock().expect("no test fails in it");
                let last = asked.windows(4).rposition(|window| window == b"GET ");
                let last = &asked[last.unwrap_or_default()..];
                let has = last.windows(words.len()).any(|window| window == words.as_bytes());
                if has { most - passed } else { u64::MAX }
            }
        };
        let goes = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        near.write_all(&bytes[..goes])?;
        if left != u64::MAX {
            passed += goes as u64;
        }
        if goes < count {
            state.cuts.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
    }
}

fn pass_replies(far: &TcpStream, mut near: &TcpStream, state: &Arc<State>) -> Result<()> {
    let (mut data, mut is_moving) = (None, false);
    for line in BufReader::new(far).lines() {
        let mut line = line?;
        if let Some((words, rest)) = line.split_once("(|||")
            && line.starts_with("229 ")
        {
            let server = rest.split('|').next().context("a port")?.parse()?;
            let listener = TcpListener::bind("127.0.0.1:0")?;
            line = format!("{words}(|||{}|)", listener.local_addr()?.port());
            let state = state.clone();
            data = Some(std::thread::spawn(move || -> Result<bool> {
                let (near, _) = listener.accept()?;
                let before = state.cuts.load(Ordering::SeqCst);
                connect(near, server, Passes::Bytes, &state)?;
                Ok(state.cuts.load(Ordering::SeqCst) > before)
            }));
        }
        if line.starts_with('1') {
            is_moving = true;
        } else if std::mem::take(&mut is_moving)
            && let Some(data) = data.take()
            && let Ok(Ok(true)) = data.join()
        {
            // The server may have sent all of it, and not know that it was cut.
            if *state.end.lock().expect("no test fails in it") == End::Silent {
                return Ok(());
            }
            line = "426 the data connection was cut".to_owned();
        }
        near.write_all(format!("{line}\r\n").as_bytes())?;
    }
    Ok(())
}

/// Files in the folder at first.
const FILES: usize = 300;

/// What `watch list` shows of the rule: how many files, and how many of them are gone.
fn listed(node: &Node) -> Result<(usize, usize)> {
    let shown = node.json(&["watch", "list", "fetch", "--limit", "10000"])?;
    let shown = shown.as_array().context("a list")?;
    Ok((shown.len(), shown.iter().filter(|file| !file["gone_at"].is_null()).count()))
}

/// Cuts the listings of the folder `out` at each of these places in turn.
fn cut_listings(
    documents: &str,
    out: &Path,
    relay: &Relay,
    files: usize,
    cuts: &[(Cut, End)],
) -> Result<()> {
    let mut node = Node::new(program(), None)?;
    std::fs::create_dir_all(out)?;
    // The server may be another user.
    std::fs::set_permissions(out, std::fs::Permissions::from_mode(0o777))?;
    for number in 0..files {
        std::fs::write(out.join(format!("file-{number:04}.csv")), b"1;2\n")?;
    }
    let rule = "---
rule:
  name: fetch
  when: {watch: {endpoint: bank, path: /out, every: 1s, stable: 0s, on: [new, removed]}}
  if: file.name in ['file-0007.csv', 'new.csv']
  do: [set: {which: file.path}]
";
    node.cli_with_input(&["apply", "-"], &(documents.to_owned() + rule))?;
    node.start()?;
    let found = |count: usize| {
        node.until("the files to be found", || {
            let found = node.events("watch.found")?;
            ensure!(found.len() <= count, "{} of {count} were found: {:?}", found.len(), found[0]);
            Ok((found.len() == count).then_some(found))
        })
    };
    found(files)?;
    node.until("all to be noted", || Ok((listed(&node)? == (files, 0)).then_some(())))?;
    for (times, (cut, end)) in (1..).zip(cuts) {
        let before = relay.cuts();
        relay.set(*cut, *end);
        let told = |kind: &str| Ok((node.events(kind)?.len() == times).then_some(()));
        let failed = node.until("the failure", || told("watch.failed"));
        failed.with_context(|| format!("{cut:?} {end:?}: {} cuts", relay.cuts()))?;
        ensure!(relay.cuts() > before, "{cut:?} {end:?}: it failed without a cut");
        relay.set(Cut::Nowhere, End::Said);
        node.until("the recovery", || told("watch.recovered"))?;
        assert_eq!(listed(&node)?, (files, 0), "{cut:?} {end:?}");
    }
    found(files)?;
    // What does come and go is found, once.
    std::fs::remove_file(out.join("file-0007.csv"))?;
    std::fs::write(out.join("new.csv"), b"1;2\n")?;
    let last = found(files + 2)?;
    let mut last: Vec<String> = last
        .iter()
        .filter(|event| event["change"] == "removed" || event["path"] == "/out/new.csv")
        .map(|event| format!("{} {}", event["path"], event["change"]))
        .collect();
    last.sort();
    assert_eq!(last, ["\"/out/file-0007.csv\" \"removed\"", "\"/out/new.csv\" \"new\""]);
    let jobs = node.until("the jobs", || {
        let done = node.events("job.done")?.len();
        Ok((done >= 3).then_some(done))
    })?;
    assert_eq!(jobs, 3);
    node.stop()
}

#[test]
fn a_listing_of_sftp_that_is_cut_removes_nothing() -> Result<()> {
    let sshd = Sshd::start()?;
    let relay = Relay::start(sshd.port(), Passes::Bytes)?;
    let port = |port: u16| format!("port: {port}\n");
    let documents = sftp_endpoint(&sshd)?.replace(&port(sshd.port()), &port(relay.port));
    let cuts = [9_000, 18_000, 27_000].map(|bytes| (Cut::Behind(bytes), End::Said));
    cut_listings(&documents, &sshd.folder().join("out"), &relay, FILES, &cuts)
}

fn ftp_listings_are_cut(server: &Ftpd) -> Result<()> {
    let relay = Relay::start(server.port(), Passes::FtpReplies)?;
    let port = |port: u16| format!("\"port\":{port}");
    let documents = ftp_endpoint(server)?.replace(&port(server.port()), &port(relay.port));
    let cut = |bytes, end| (Cut::Behind(bytes), end);
    let cuts = [
        cut(0, End::Said),
        cut(1, End::Silent),
        cut(5_000, End::Said),
        cut(10_000, End::Silent),
        cut(15_000, End::Said),
    ];
    cut_listings(&documents, &server.folder().join("out"), &relay, FILES, &cuts)
}

#[test]
fn a_listing_of_ftp_that_is_cut_removes_nothing() -> Result<()> {
    ftp_listings_are_cut(&Ftpd::vsftpd(FtpTls::Off)?)
}

#[test]
fn a_listing_of_ftp_by_facts_that_is_cut_removes_nothing() -> Result<()> {
    ftp_listings_are_cut(&Ftpd::pyftpdlib(FtpTls::Off)?)
}

/// A page of it fails, of the first one and of the second one.
#[test]
fn a_listing_of_an_object_store_that_is_cut_removes_nothing() -> Result<()> {
    let s3 = S3Server::start()?;
    let relay = Relay::start(s3.address().port(), Passes::Bytes)?;
    let port = |port: u16| format!("127.0.0.1:{port}");
    let documents = s3.endpoint("bank").replace(&port(s3.address().port()), &port(relay.port))
        + "      requests: {attempts: 1}\n";
    let cuts = [
        (Cut::Behind(0), End::Said),
        (Cut::Behind(50_000), End::Said),
        (Cut::BehindRequest("continuation-token", 0), End::Said),
        (Cut::BehindRequest("continuation-token", 20_000), End::Said),
    ];
    cut_listings(&documents, &s3.objects().join("out"), &relay, 1_200, &cuts)
}
