//! The server as a service: what a service manager and a container runtime are told.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::{Node, PATIENCE};
use entrepot_testkit::{is_root, not_run};

use crate::balanced::asked;
use crate::program;

/// What arrives next.
fn heard(socket: &UnixDatagram) -> Result<String> {
    let mut text = [0; 256];
    let count = socket.recv(&mut text).context("nothing came")?;
    Ok(String::from_utf8(text[..count].to_vec())?)
}

#[test]
fn a_service_manager_is_told_of_the_start_of_life_and_of_the_end() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let path = node.scratch().join("notify");
    let socket = UnixDatagram::bind(&path)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    node.set("NOTIFY_SOCKET", text(&path)?);
    node.set("WATCHDOG_USEC", &Duration::from_millis(300).as_micros().to_string());
    node.spawn()?;
    assert_eq!(heard(&socket)?, "READY=1");
    ensure!(node.addresses()?["ready"] == true, "it is ready when it says so");
    for _ in 0..3 {
        assert_eq!(heard(&socket)?, "WATCHDOG=1");
    }
    node.stop()?;
    let mut last = String::new();
    while last != "STOPPING=1" {
        last = heard(&socket)?;
        ensure!(last == "WATCHDOG=1" || last == "STOPPING=1", "{last}");
    }
    Ok(())
}

#[test]
fn health_is_an_exit_code() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let code = |node: &Node, arguments: &[&str]| -> Result<(Option<i32>, String)> {
        let output = node.command(arguments).output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8(said)?))
    };
    let (before, said) = code(&node, &["health"])?;
    ensure!(before == Some(1) && said.contains("EP0907"), "{said}");
    node.start()?;
    assert_eq!(code(&node, &["health"])?, (Some(0), "ready\n".to_owned()));
    assert_eq!(code(&node, &["health", "--live"])?, (Some(0), "live\n".to_owned()));
    node.stop()?;
    assert_eq!(code(&node, &["health", "--live"])?.0, Some(1));
    Ok(())
}

/// The first sync of the journal that fails in the test, some way behind those of the start.
const FAILING_SYNC: &str = "journal.sync:40";
/// As docs/cli.md has it.
const JOURNAL_FAILED: i32 = 8;

#[test]
fn a_node_whose_journal_fails_ends_to_be_started_again() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.set("ENTREPOT_FAIL_AT", FAILING_SYNC);
    node.start()?;
    let local = local_file(&node, "a", b"content")?;
    let mut acknowledged = Vec::new();
    let put = |count: usize| -> Result<String> { Ok(format!("put {} f{count}\n", text(&local)?)) };
    while login.sftp_batch(&node, &put(acknowledged.len())?).is_ok() {
        acknowledged.push(format!("/f{}", acknowledged.len()));
        ensure!(acknowledged.len() < 100, "no sync has failed");
    }
    // Balancers have a moment to see it.
    let (status, reasons) = asked(&node, "/ready")?;
    ensure!(status == "404" && reasons.contains("journal-failed: "), "{status} {reasons}");
    ensure!(asked(&node, "/metrics")?.1.contains("entrepot_journal_suspect 1"));
    let ended = node.wait()?;
    assert_eq!(ended.code(), Some(JOURNAL_FAILED), "{}", node.log());
    ensure!(node.log().contains("[EP0433]"), "{}", node.log());
    node.unset();
    node.start()?;
    let failed = node.until("the event", || {
        let failed = node.events("journal.failed")?;
        Ok((!failed.is_empty()).then_some(failed))
    })?;
    ensure!(failed.len() == 1 && failed[0]["problem"].to_string().contains("journal.sync"));
    login.sftp_batch(&node, &format!("put {} again\n", text(&local)?))?;
    acknowledged.push("/again".to_owned());
    node.until("each acknowledged file in the audit log", || {
        let mut events = node.events("file.uploaded")?;
        events.extend(node.events("file.recovered")?);
        let of = |path: &String| events.iter().filter(|event| event["path"] == **path).count();
        Ok(acknowledged.iter().all(|path| of(path) == 1).then_some(()))
    })?;
    node.stop()?;
    node.start()?;
    assert_eq!(node.events("journal.failed")?.len(), 1, "it is told once");
    Ok(())
}

#[test]
fn the_process_file_is_read_again_on_request_and_on_sighup() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let file = node.home().join("entrepot.toml");
    let first = std::fs::read_to_string(&file)?;
    node.start()?;
    let changed = first.replace("level = \"info\"", "level = \"error\"");
    ensure!(changed != first, "the process file names the level");
    std::fs::write(&file, changed + "\n[limits]\nworkers = 2\n")?;
    let said = node.cli(&["reload"])?;
    ensure!(said.contains("from the next start on: limits.workers"), "{said}");
    let again = "the process file was read again";
    ensure!(!node.log().contains(again), "that is of level info: {}", node.log());
    // A file that cannot be taken changes nothing, and the server goes on.
    std::fs::write(&file, "level = 3")?;
    let pid = rustix::process::Pid::from_raw(i32::try_from(node.pid()?)?).context("pid")?;
    rustix::process::kill_process(pid, rustix::process::Signal::HUP)?;
    node.until("the refusal in the log", || Ok(node.log().contains("EP0201").then_some(())))?;
    std::fs::write(&file, first)?;
    rustix::process::kill_process(pid, rustix::process::Signal::HUP)?;
    node.until("the next reload", || Ok((node.log().matches(again).count() == 1).then_some(())))?;
    ensure!(node.is_running());
    Ok(())
}

/// A field of `/proc/PID/status`, of every thread.
fn of_all_threads(pid: u32, field: &str) -> Result<Vec<String>> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let values = status.filter_map(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")))?;
        Some(line.trim().to_owned())
    });
    Ok(values.collect())
}

#[test]
fn the_server_gives_up_what_it_does_not_need() -> Result<()> {
    let (node, login) = crate::node_with("acme")?;
    let pid = node.pid()?;
    ensure!(of_all_threads(pid, "NoNewPrivs")?.iter().all(|value| value == "1"));
    // Files of all owners (bits 0 to 4), if it is root's, and ports below 1024 (bit 10).
    let needed: u64 = 0b1_1111 | 1 << 10;
    for field in ["CapPrm", "CapEff"] {
        let kept = of_all_threads(pid, field)?;
        ensure!(!kept.is_empty());
        for kept in kept {
            assert_eq!(u64::from_str_radix(&kept, 16)? & !needed, 0, "{field}: {kept}");
        }
    }
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let cores = limits.lines().find(|line| line.starts_with("Max core file size"));
    let cores = cores.context("no limit of core files")?.split_whitespace();
    assert_eq!(cores.skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
    if !is_root() {
        return not_run("the server's Landlock", "without root nothing may write to /usr anyway");
    }
    ensure!(node.log().contains("the server runs under Landlock"), "{}", node.log());
    let folder = tempfile::Builder::new().prefix("entrepot-").tempdir_in("/usr/local/share")?;
    let target = format!("target={{\"directory\":{{\"path\":\"{}\"}}}}", text(folder.path())?);
    node.cli(&["endpoint", "create", "system", &target])?;
    node.cli(&["mount", "create", "system", "account=acme", "path=/system", "endpoint=system"])?;
    let local = entrepot_testkit::clients::local_file(&node, "new", b"new")?;
    let batch = format!("put {} here\nput {0} system/there\n", local.display());
    let sent = login.sftp_batch(&node, &batch);
    ensure!(!sent.is_ok_and(|output| output.status.success()), "it wrote to /usr");
    ensure!(login.on_disk(&node, "here").exists(), "it writes where it may");
    let names = std::fs::read_dir(folder.path())?.flatten().map(|entry| entry.path());
    assert_eq!(names.filter(|path| path.is_file()).count(), 0);
    Ok(())
}
