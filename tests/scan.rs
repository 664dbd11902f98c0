//! Files before real scanners: clamd, and c-icap before it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::ftp::Protection::Clear;
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::scanners::{CIcap, Clamd, MARK, THREAT};
use entrepot_testkit::server::Node;
use serde_json::Value;

use crate::hooks::apply;
use crate::program;

/// A node whose rule scans what comes at an endpoint, and passes on what is clean.
fn node_with(url: &str) -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let clean = node.scratch().join("clean");
    std::fs::create_dir(&clean)?;
    let documents = format!(
        "endpoint: {{name: av, target: {{scanner: {{url: '{url}', allow_private: true}}}}}}
---
endpoint: {{name: clean, target: {{directory: {{path: {}}}}}}}
---
rule:
  name: gate
  when: {{event: file.uploaded}}
  do:
    - scan: {{endpoint: av}}
      name: look
    - deliver: {{endpoint: clean}}
  retry: {{attempts: 2, first_delay_seconds: 1, longest_delay_seconds: 1}}
",
        text(&clean)?
    );
    apply(&node, &documents)?;
    node.start()?;
    Ok((node, login))
}

/// What became of files after their jobs ended: `clean` of those that were passed on, else the
/// error of the job.
fn fates(
    node: &Node,
    login: &Login,
    files: &[(&str, Vec<u8>)],
) -> Result<BTreeMap<String, String>> {
    let mut batch = String::new();
    for (name, content) in files {
        batch += &format!("put {} {name}\n", text(&local_file(node, name, content)?)?);
    }
    login.sftp_batch(node, &batch)?;
    let jobs = node.until("the jobs to end", || {
        let jobs = node.json(&["job", "list"])?;
        let mut jobs = jobs.as_array().context("a list")?.clone();
        let is_of = |job: &Value, name: &str| job["event"]["path"] == format!("/{name}");
        jobs.retain(|job| files.iter().any(|(name, _)| is_of(job, name)));
        jobs.retain(|job| job["state"] == "done" || job["state"] == "failed");
        Ok((jobs.len() >= files.len()).then_some(jobs))
    })?;
    let mut fates = BTreeMap::new();
    for job in &jobs {
        let name = job["event"]["path"].as_str().context("a path")?.trim_start_matches('/');
        let there = node.scratch().join("clean").join(name).exists();
        let fate = if there { "clean" } else { job["error"].as_str().unwrap_or("not passed on") };
        ensure!(there == (job["state"] == "done"), "{job}");
        fates.insert(name.to_owned(), fate.to_owned());
    }
    Ok(fates)
}

fn infected(size: usize) -> Vec<u8> {
    let mut content = noise(93, size);
    content.splice(size / 2..size / 2, MARK.iter().copied());
    content
}

#[test]
fn clamd_lets_through_what_is_clean_and_nothing_else() -> Result<()> {
    let mut clamd = Clamd::start()?;
    let (mut node, login) = node_with(&format!("clamd:{}", clamd.socket().display()))?;
    let files = [
        ("good.bin", noise(92, 1_500_000)),
        ("empty.bin", Vec::new()),
        ("bad.bin", infected(700_000)),
        ("large.bin", noise(94, 5 << 20)),
    ];
    let found = fates(&node, &login, &files)?;
    assert_eq!(found["good.bin"], "clean");
    assert_eq!(found["empty.bin"], "clean");
    ensure!(found["bad.bin"].starts_with("EP0897: "), "{found:?}");
    ensure!(found["bad.bin"].contains(THREAT), "{found:?}");
    ensure!(found["large.bin"].starts_with("EP0898: "), "a file that it does not scan: {found:?}");
    clamd.kill()?;
    let found = fates(&node, &login, &[("later.bin", noise(95, 1000))])?;
    ensure!(found["later.bin"].starts_with("EP0898: "), "a scanner that is away: {found:?}");
    node.stop()
}

#[test]
fn an_icap_server_lets_through_what_is_clean_and_nothing_else() -> Result<()> {
    let mut clamd = Clamd::start()?;
    let icap = CIcap::start(&clamd)?;
    let (mut node, login) = node_with(&format!("icap://127.0.0.1:{}/avscan", icap.port()))?;
    let files = [
        ("good.bin", noise(96, 1_500_000)),
        ("small.txt", b"a few words".to_vec()),
        ("bad.bin", infected(700_000)),
        ("small-bad.txt", MARK.to_vec()),
    ];
    let found = fates(&node, &login, &files)?;
    assert_eq!((found["good.bin"].as_str(), found["small.txt"].as_str()), ("clean", "clean"));
    for bad in ["bad.bin", "small-bad.txt"] {
        ensure!(found[bad].starts_with("EP0897: ") && found[bad].contains(THREAT), "{found:?}");
    }
    // It answers OPTIONS still, and cannot scan.
    clamd.kill()?;
    let found = fates(&node, &login, &[("later.bin", noise(97, 10_000))])?;
    ensure!(found["later.bin"].starts_with("EP0898: "), "{found:?}");
    node.stop()
}

/// Such a server sends a file back as it is, and says 200.
#[test]
fn a_file_that_an_icap_server_sends_back_unscanned_is_not_let_through() -> Result<()> {
    let clamd = Clamd::start()?;
    let icap = CIcap::start(&clamd)?;
    let (mut node, login) = node_with(&format!("icap://127.0.0.1:{}/limited", icap.port()))?;
    let files = [("good.bin", noise(98, 50_000)), ("large.bin", infected(700_000))];
    let found = fates(&node, &login, &files)?;
    assert_eq!(found["good.bin"], "clean");
    ensure!(found["large.bin"].starts_with("EP0898: "), "{found:?}");
    apply(
        &node,
        &format!(
            "endpoint: {{name: av, target: {{scanner: {{url: 'icap://127.0.0.1:{}/nothing', \
             allow_private: true}}}}}}\n",
            icap.port()
        ),
    )?;
    let found = fates(&node, &login, &[("other.bin", noise(99, 1000))])?;
    ensure!(found["other.bin"].starts_with("EP0898: "), "no such service: {found:?}");
    node.stop()
}

/// What a client of FTP hears when it reads files, or writes them.
const HEARD: &str = "
def heard(what):
    try:
        what()
        return 'fine'
    except ftplib.Error as error:
        return str(error)
for name in ('good.bin', 'bad.bin', 'none.bin'):
    print('get', name, heard(lambda: get(ftp, name)))
for name, content in (('a.txt', b'words'), ('b.txt', MARK)):
    print('put', name, heard(lambda: put(ftp, name, content)))
";

#[test]
fn a_client_waits_for_what_a_scanner_says_of_its_file() -> Result<()> {
    let mut clamd = Clamd::start()?;
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    let rules = |unsure: &str| {
        format!(
            "endpoint: {{name: av, target: {{scanner: {{url: 'clamd:{}'}}}}}}
---
rule:
  name: reads
  when: {{before: [ftp RETR, sftp open]}}
  if: '!command.writes'
  do: [{{scan: {{endpoint: av, unsure: {unsure}}}}}]
---
rule:
  name: writes
  when: {{after: [ftp STOR]}}
  if: command.code == 226
  do: [{{scan: {{endpoint: av, reply: wait, unsure: {unsure}}}, timeout: 20s}}]
",
            clamd.socket().display()
        )
    };
    apply(&node, &rules("fail"))?;
    let open = rules("continue");
    node.start()?;
    std::fs::create_dir_all(login.on_disk(&node, ""))?;
    std::fs::write(login.on_disk(&node, "good.bin"), noise(92, 700_000))?;
    std::fs::write(login.on_disk(&node, "bad.bin"), infected(700_000))?;
    let mark = MARK.escape_ascii().to_string();
    let heard = || login.ftplib(&node, Clear, &format!("MARK = b'{mark}'\n{HEARD}"));
    let found = heard()?;
    for line in [
        "get good.bin fine",
        "get bad.bin 550 The scanner of this server has found something in the file.",
        "get none.bin 550 ",
        "put a.txt fine",
        "put b.txt 550 The scanner of this server has found something in the file.",
    ] {
        ensure!(found.lines().any(|it| it.starts_with(line)), "{line}: {found}");
    }
    ensure!(!found.contains("none.bin 550 The scanner"), "{found}");
    let to = node.scratch().join("got.bin");
    let get = |name: &str| login.sftp_batch(&node, &format!("get {name} {}\n", text(&to)?));
    get("good.bin")?;
    let refused = format!("{:?}", get("bad.bin").err().context("it was read")?);
    ensure!(refused.contains("ermission denied") || refused.contains("scanner"), "{refused}");
    // Its client writes a file that is not there yet.
    let local = local_file(&node, "new.txt", b"new")?;
    login.sftp_batch(&node, &format!("put {} new.txt\n", text(&local)?))?;

    clamd.kill()?;
    let found = heard()?;
    for line in ["get good.bin 451 The file cannot be scanned", "put a.txt 451 The file cannot be"]
    {
        ensure!(found.lines().any(|it| it.starts_with(line)), "{line}: {found}");
    }
    apply(&node, &open)?;
    node.until("the rules to go on without a scanner", || {
        let found = heard()?;
        let fine = ["get good.bin fine", "put a.txt fine"];
        Ok(fine.iter().all(|line| found.contains(line)).then_some(()))
    })?;
    node.stop()
}

/// What the node may take more than before, in KiB, however long the file is.
const SCAN_KIB: u64 = 16 * 1024;

/// A scanner that finds every file clean, and says of each how many bytes it was shown.
fn counting(serve: fn(&mut TcpStream) -> Result<Option<u64>>) -> Result<(u16, Receiver<u64>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        // It ends with the test.
        for mut stream in listener.incoming().flatten() {
            if let Ok(Some(count)) = serve(&mut stream) {
                let _ = tell.send(count);
            }
        }
    });
    Ok((port, told))
}

/// As clamd.
fn clamd_counts(stream: &mut TcpStream) -> Result<Option<u64>> {
    let mut command = [0; 10];
    stream.read_exact(&mut command)?;
    ensure!(command == *b"zINSTREAM\0", "{command:?}");
    let mut count = 0;
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length).into();
        if length == 0 {
            stream.write_all(b"stream: OK\0")?;
            return Ok(Some(count));
        }
        count += skip(stream, length)?;
    }
}

/// As a server of ICAP that wants to see the begin of a file first.
fn icap_counts(stream: &mut TcpStream) -> Result<Option<u64>> {
    let mut reading = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(reading.read_line(&mut head)? > 0, "{head}");
    }
    if head.starts_with("OPTIONS") {
        let can = "ISTag: \"1\"\r\nOptions-TTL: 3600\r\nPreview: 1024\r\nAllow: 204";
        write!(stream, "ICAP/1.0 200 OK\r\n{can}\r\n\r\n")?;
        return Ok(None);
    }
    let heads = head.split("res-body=").nth(1).and_then(|rest| rest.split("\r\n").next());
    skip(&mut reading, heads.context("the place of the body")?.trim().parse()?)?;
    let (mut count, mut is_preview) = (0, true);
    loop {
        let mut line = String::new();
        reading.read_line(&mut line)?;
        let (length, ends) = line.trim_end().split_once(';').unwrap_or((line.trim_end(), ""));
        let length = u64::from_str_radix(length, 16)?;
        count += length;
        skip(&mut reading, length + 2)?;
        if length > 0 {
            continue;
        }
        if !is_preview || ends.contains("ieof") {
            write!(stream, "ICAP/1.0 204 No Content\r\nISTag: \"1\"\r\n\r\n")?;
            return Ok(Some(count));
        }
        is_preview = false;
        write!(stream, "ICAP/1.0 100 Continue\r\n\r\n")?;
    }
}

/// Reads so many bytes.
fn skip(stream: &mut impl Read, length: u64) -> Result<u64> {
    let read = std::io::copy(&mut stream.take(length), &mut std::io::sink())?;
    ensure!(read == length, "the file was cut off");
    Ok(length)
}

pub(crate) fn status_kib(pid: u32, line: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let found = status.lines().find_map(|it| it.strip_prefix(line)).context("no such line")?;
    Ok(found.trim().trim_end_matches(" kB").parse()?)
}

/// `SCAN_MIB=1024` is the full length.
fn is_scanned_in_little_memory(url: &str, told: &Receiver<u64>) -> Result<()> {
    let mib = std::env::var("SCAN_MIB").map_or(Ok(192), |mib| mib.parse::<u64>())?;
    let mut node = Node::new(program(), None)?;
    Login::create(&node, "acme")?;
    let away = node.scratch().join("away");
    std::fs::create_dir(&away)?;
    let documents = format!(
        "endpoint: {{name: away, target: {{directory: {{path: {}}}}}}}
---
endpoint: {{name: av, target: {{scanner: {{url: '{url}', allow_private: true}}}}}}
---
rule:
  name: look
  when: {{call: {{parameters: {{name: {{}}}}}}}}
  as: acme
  do: [{{fetch: {{endpoint: away, path: '{{params.name}}'}}}}, {{scan: {{endpoint: av}}}}]
",
        text(&away)?
    );
    apply(&node, &documents)?;
    node.start()?;
    let mut looked = 0;
    let mut look = |name: &str, size: u64| -> Result<()> {
        std::fs::File::create(away.join(name))?.set_len(size)?;
        node.cli(&["rule", "run", "look", "--param", &format!("name={name}")])?;
        let shown = told.recv_timeout(std::time::Duration::from_secs(500))?;
        assert_eq!(shown, size, "the scanner has seen the whole file");
        looked += 1;
        node.until("the job", || Ok((node.events("job.done")?.len() == looked).then_some(())))
    };
    // What a job takes at all is there after the first ones.
    for number in 0..3 {
        look(&format!("short-{number}"), 4 << 20)?;
    }
    let pid = node.pid()?;
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    let before = status_kib(pid, "VmRSS:")?;
    look("long", mib << 20)?;
    let taken = status_kib(pid, "VmHWM:")?.saturating_sub(before);
    println!("{mib} MiB scanned: {taken} KiB");
    ensure!(taken <= SCAN_KIB, "{taken} KiB for {mib} MiB");
    node.stop()
}

#[test]
fn a_long_file_is_scanned_by_clamd_in_little_memory() -> Result<()> {
    let (port, told) = counting(clamd_counts)?;
    is_scanned_in_little_memory(&format!("clamd://127.0.0.1:{port}"), &told)
}

#[test]
fn a_long_file_is_scanned_by_a_server_of_icap_in_little_memory() -> Result<()> {
    let (port, told) = counting(icap_counts)?;
    is_scanned_in_little_memory(&format!("icap://127.0.0.1:{port}/avscan"), &told)
}
