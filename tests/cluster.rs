//! On PostgreSQL: the same path, an outage under load, a restore, and two nodes of which one dies.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::Node;

use serde_json::Value;

use crate::balanced::asked;
use crate::program;

/// How long the database is away under load.
const OUTAGE: Duration = Duration::from_secs(30);
/// Uploads of each part; ten a second during the outage.
const PARTS: [(&str, usize); 5] =
    [("before", 50), ("during", 104), ("going on", 104), ("to the end", 104), ("after", 50)];

#[test]
fn a_database_outage_loses_nothing_and_doubles_nothing() -> Result<()> {
    let postgres = Postgres::launch()?;
    let mut node = Node::new(program(), Some(&postgres.create_database()?))?;
    let login = Login::create(&node, "acme")?;
    node.start()?;
    let local = local_file(&node, "a", b"content")?;
    let ledger = node.scratch().join("ledger");
    let put = |name: usize, pause: &str| -> Result<String> {
        let (local, ledger) = (text(&local)?.to_owned(), text(&ledger)?.to_owned());
        Ok(format!("put {local} {name}\n!echo {name} >> {ledger}{pause}\n"))
    };
    // One session lives through the outage: it gets what to upload part by part.
    let mut child = login.sftp(&node)?.spawn()?;
    let mut input = child.stdin.take().expect("piped");
    let acknowledged = || std::fs::read_to_string(&ledger).unwrap_or_default().lines().count();
    let mut wanted = 0;
    let mut away = None;
    for (part, count) in PARTS {
        match part {
            "during" => {
                postgres.kill()?;
                away = Some(Instant::now());
            }
            "after" => {
                ensure!(away.is_some_and(|since| since.elapsed() >= OUTAGE), "a short outage");
                postgres.start()?;
            }
            _ => {}
        }
        let pause = if ["before", "after"].contains(&part) { "" } else { "; sleep 0.1" };
        for number in wanted..wanted + count {
            input.write_all(put(number, pause)?.as_bytes())?;
        }
        // One by one: how long all of them take says only how busy the machine is.
        for _ in 0..count {
            wanted += 1;
            node.until("the next upload", || Ok((acknowledged() >= wanted).then_some(())))?;
        }
    }
    drop(input);
    ensure!(child.wait()?.success());
    let events = node.until("the audit log to catch up", || {
        // The database may still be coming back.
        let events = node.events("file.uploaded").unwrap_or_default();
        Ok((events.len() >= wanted).then_some(events))
    })?;
    assert_eq!(events.len(), wanted, "each upload has one event");
    let mut paths: Vec<_> = events.iter().filter_map(|event| event["path"].as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), wanted);
    let login_again = login.sftp_batch(&node, "ls\n");
    ensure!(login_again.is_ok(), "no login after the outage");
    Ok(())
}

/// A program of the rule ends when it may, however busy the machine is.
const WORK: &str = "#!/bin/sh\nuntil [ -e \"$0.may-end\" ]; do sleep 0.2; done\n";
/// Files, and so jobs, of the test of two nodes.
const FILES: usize = 12;

/// A rule that delivers what arrives to a directory.
fn delivering(node: &Node) -> Result<std::path::PathBuf> {
    let inbox = node.scratch().join("inbox");
    std::fs::create_dir(&inbox)?;
    let documents = format!(
        "endpoint: {{name: partner, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: to-partner\n  when: {{event: file.uploaded}}\n  do:\n    \
         - deliver: {{endpoint: partner, path: '{{name}}', existing: refuse}}\n",
        text(&inbox)?
    );
    node.cli_with_input(&["apply", "-"], &documents)?;
    Ok(inbox)
}

/// A rule that takes its time, then delivers what arrives to a directory.
fn slow_rule(node: &Node) -> Result<std::path::PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let (inbox, work) = (node.scratch().join("inbox"), node.scratch().join("bin/work"));
    std::fs::create_dir(&inbox)?;
    std::fs::create_dir(node.scratch().join("bin"))?;
    std::fs::write(&work, WORK)?;
    std::fs::set_permissions(&work, std::fs::Permissions::from_mode(0o755))?;
    let documents = format!(
        "endpoint: {{name: partner, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: to-partner\n  when: {{event: file.uploaded}}\n  do:\n    \
         - exec: {{argv: [{}], timeout_seconds: 600}}\n    \
         - deliver: {{endpoint: partner, path: '{{name}}', existing: refuse}}\n",
        text(&inbox)?,
        text(&work)?
    );
    node.cli_with_input(&["apply", "-"], &documents)?;
    Ok(inbox)
}

/// The jobs in a state, by id.
fn jobs_in(node: &Node, state: &str) -> Result<Vec<Value>> {
    let jobs = node.json(&["job", "list", "--state", state, "--limit", "1000"])?;
    Ok(jobs.as_array().cloned().unwrap_or_default())
}

/// The jobs that a node works on.
fn held_by(node: &Node, name: &str) -> Result<BTreeSet<String>> {
    let running = jobs_in(node, "running")?.into_iter().filter(|job| job["node"] == name);
    Ok(running.filter_map(|job| job["id"].as_str().map(str::to_owned)).collect())
}

/// The state of a node, as another one lists it.
fn state_of(node: &Node, name: &str) -> Result<String> {
    let shown = node.json(&["node", "show", name])?;
    Ok(shown["state"].as_str().context("a state")?.to_owned())
}

#[test]
fn the_jobs_of_a_node_that_is_killed_are_done_once_by_the_other() -> Result<()> {
    let postgres = Postgres::launch()?;
    let url = postgres.create_database()?;
    let mut first = Node::new_called(program(), &url, "n1")?;
    let login = Login::create(&first, "acme")?;
    let inbox = slow_rule(&first)?;
    let before = first.cli(&["export"])?;
    let mut second = Node::joined(&first, &url, "n2")?;
    ensure!(first.cli(&["export"])? == before, "the second node changed the configuration");
    let allow = format!("[exec]\nallow = ['{}']", text(&first.scratch().join("bin"))?);
    first.configure(&allow)?;
    second.configure(&format!("{allow}\n[limits]\nworkers = 32"))?;
    first.start()?;
    let batch: Result<String> = (0..FILES)
        .map(|file| {
            let local = local_file(&first, &format!("f{file}"), format!("file {file}").as_bytes())?;
            Ok(format!("put {} f{file}\n", text(&local)?))
        })
        .collect();
    login.sftp_batch(&first, &batch?)?;
    first.until("all jobs to be known", || {
        let known = first.json(&["job", "list", "--limit", "1000"])?;
        Ok((known.as_array().map_or(0, Vec::len) == FILES).then_some(()))
    })?;
    second.start()?;
    let held = second.until("the first node to work", || {
        Ok(Some(held_by(&second, "n1")?).filter(|held| !held.is_empty()))
    })?;
    first.kill()?;
    second.until("the jobs of the first node to be taken over", || {
        let ended = |state| jobs_in(&second, state);
        let done: BTreeSet<String> =
            ended("done")?.iter().filter_map(|job| job["id"].as_str().map(str::to_owned)).collect();
        let taken: BTreeSet<String> = held_by(&second, "n2")?.union(&done).cloned().collect();
        Ok(held.is_subset(&taken).then_some(()))
    })?;
    assert_eq!(state_of(&second, "n1")?, "silent");
    std::fs::write(first.scratch().join("bin/work.may-end"), "")?;
    second.until("all jobs to be done", || {
        Ok((jobs_in(&second, "done")?.len() == FILES).then_some(()))
    })?;
    // The first node comes back with what it had not told.
    first.start()?;
    assert_eq!(state_of(&second, "n1")?, "serving");
    second.until("both journals to be in the database", || {
        let nodes = second.json(&["node", "list"])?;
        let behind = |node: &Value| node["unprojected"].as_u64() != Some(0);
        Ok((!nodes.as_array().context("nodes")?.iter().any(behind)).then_some(()))
    })?;
    for kind in ["file.uploaded", "file.delivered", "job.done"] {
        let events = second.events(kind)?;
        let ids: BTreeSet<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
        assert_eq!((events.len(), ids.len()), (FILES, FILES), "{kind}");
    }
    ensure!(second.events("job.failed")?.is_empty());
    for file in 0..FILES {
        let found = std::fs::read_to_string(inbox.join(format!("f{file}")))?;
        assert_eq!(found, format!("file {file}"));
    }
    assert_eq!(
        std::fs::read_dir(&inbox)?.flatten().filter(|it| it.path().is_file()).count(),
        FILES
    );
    Ok(())
}

/// A restore of an older copy under a running node: everything that was acknowledged is there
/// again, once, and no file is delivered twice.
#[test]
fn a_restored_database_gets_back_what_it_misses() -> Result<()> {
    let postgres = Postgres::launch()?;
    let url = postgres.create_database()?;
    let mut node = Node::new(program(), Some(&url))?;
    let login = Login::create(&node, "acme")?;
    delivering(&node)?;
    node.start()?;
    let local = local_file(&node, "a", b"content")?;
    let upload = |node: &Node, names: std::ops::Range<usize>| -> Result<()> {
        let local = text(&local)?;
        let batch: String = names.map(|name| format!("put {local} f{name}\n")).collect();
        login.sftp_batch(node, &batch).map(drop)
    };
    let done = |node: &Node, count: usize| {
        // The database may be away, or the node may still wait for it.
        node.until("the jobs to be done", || {
            let jobs = jobs_in(node, "done").unwrap_or_default();
            Ok((jobs.len() >= count).then_some(()))
        })
    };
    upload(&node, 0..5)?;
    done(&node, 5)?;
    postgres.copy_database("test_0", "backup")?;
    upload(&node, 5..10)?;
    done(&node, 10)?;
    postgres.restore_database("test_0", "backup")?;
    upload(&node, 10..12)?;
    node.until("the fallback to be noticed", || {
        let events = node.events("database.fell-back").unwrap_or_default();
        Ok((!events.is_empty()).then_some(()))
    })?;
    done(&node, 12)?;
    for kind in ["file.uploaded", "file.delivered", "job.done"] {
        let events = node.until(kind, || {
            let events = node.events(kind)?;
            Ok((events.len() >= 12).then_some(events))
        })?;
        let ids: BTreeSet<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
        assert_eq!((events.len(), ids.len()), (12, 12), "{kind}");
    }
    let transfers = node.json(&["transfer", "list", "--limit", "1000"])?;
    assert_eq!(transfers.as_array().map(Vec::len), Some(24));
    ensure!(node.events("job.failed")?.is_empty() && node.events("job.retrying")?.is_empty());
    ensure!(node.cli(&["journal", "verify"])?.contains("intact"));
    Ok(())
}

/// Two machines that are set up alike: the second one says what to do, and changes nothing.
#[test]
fn a_second_machine_does_not_pass_for_the_first() -> Result<()> {
    let postgres = Postgres::launch()?;
    let url = postgres.create_database()?;
    let mut first = Node::new_called(program(), &url, "n1")?;
    first.start()?;
    let before = first.cli(&["export"])?;
    // `init` on a database in use makes nothing.
    let refused = Node::new_called(program(), &url, "n2").err().context("it was not refused")?;
    ensure!(format!("{refused:#}").contains("EP0713"), "{refused:#}");
    // Its process file, copied, without its journal.
    let mut copy = Node::joined(&first, &url, "n2")?;
    let file = copy.home().join("entrepot.toml");
    let own = std::fs::read_to_string(&file)?;
    std::fs::remove_dir_all(copy.home().join("data/journal"))?;
    std::fs::write(&file, own.replace("\"n2\"", "\"n1\""))?;
    let refused = copy.start().err().context("it was not refused")?;
    ensure!(format!("{refused:#}").contains("EP0710"), "{refused:#}");
    // Its own name, with a new journal: the old one may hold what the database does not have.
    std::fs::write(&file, &own)?;
    let refused = copy.start().err().context("it was not refused")?;
    ensure!(format!("{refused:#}").contains("node remove n2 --lost"), "{refused:#}");
    first.cli(&["node", "remove", "n2"])?;
    copy.start()?;
    ensure!(first.cli(&["export"])? == before, "the configuration changed");
    // The other node is drained from here: it takes no newcomers until it may again.
    first.cli(&["node", "drain", "n2"])?;
    let listens = |node: &Node| -> Result<bool> { Ok(node.sftp_port().is_ok()) };
    copy.until("the listener to close", || Ok((!listens(&copy)?).then_some(())))?;
    assert_eq!(state_of(&first, "n2")?, "drained");
    ensure!(copy.is_running() && listens(&first)?);
    first.cli(&["node", "undrain", "n2"])?;
    copy.until("the listener to open", || Ok(listens(&copy)?.then_some(())))?;
    copy.stop()?;
    assert_eq!(state_of(&first, "n2")?, "stopped");
    for (kind, count) in [("node.drained", 1), ("node.undrained", 1), ("node.removed", 1)] {
        assert_eq!(first.events(kind)?.len(), count, "{kind}");
    }
    Ok(())
}

/// Waits until the node has written its copy of the configuration with this account.
fn copied(node: &Node, account: &str) -> Result<()> {
    let file = node.home().join("data/configuration.json");
    node.until("the copy of the configuration", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Ok(text.contains(&format!("\\\"name\\\":\\\"{account}\\\"")).then_some(()))
    })
}

/// The number that a metric has.
fn metric(node: &Node, name: &str) -> Result<String> {
    let (_, text) = asked(node, "/metrics")?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    Ok(line.with_context(|| format!("no {name}"))?.to_owned())
}

/// What a node says and does whose database is away.
fn serves_from_its_copy(node: &Node) -> Result<()> {
    ensure!(node.log().contains("EP0722"), "{}", node.log());
    assert_eq!(asked(node, "/ready")?.0, "200");
    assert_eq!(metric(node, "entrepot_configuration_from_copy")?, "1.0");
    let change = node.command(&["account", "change", "acme", "home=/in"]).output()?;
    let said = String::from_utf8_lossy(&change.stderr).into_owned();
    ensure!(change.status.code() == Some(5) && said.contains("EP0719"), "{said}");
    let shown = node.json(&["account", "list"])?.to_string();
    ensure!(shown.contains("betty"), "{shown}");
    let doctor = node.command(&["doctor"]).output()?;
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(doctor.contains("starts also while the database is away"), "{doctor}");
    Ok(())
}

#[test]
fn a_node_starts_while_its_database_is_away() -> Result<()> {
    let postgres = Postgres::launch()?;
    let url = postgres.create_database()?;
    let mut node = Node::new_called(program(), &url, "n1")?;
    let login = Login::create(&node, "acme")?;
    let inbox = delivering(&node)?;
    // It never served: what it would serve is known to the database alone.
    postgres.stop()?;
    let refused = node.start().err().context("it was not refused")?;
    ensure!(format!("{refused:#}").contains("EP0701"), "{refused:#}");
    postgres.start()?;
    node.start()?;
    copied(&node, "acme")?;
    // A change is in the copy as well.
    Login::create(&node, "betty")?;
    copied(&node, "betty")?;
    let local = local_file(&node, "a", b"content")?;
    let put = |name: &str| -> Result<String> { Ok(format!("put {} {name}\n", text(&local)?)) };
    login.sftp_batch(&node, &put("before")?)?;
    node.stop()?;
    let keys = std::fs::read_to_string(node.home().join("data/configuration.json"))?;
    postgres.stop()?;
    node.start()?;
    let back = node.scratch().join("back");
    login.sftp_batch(&node, &format!("{}get before {}\n", put("during")?, text(&back)?))?;
    assert_eq!(std::fs::read(&back)?, b"content");
    serves_from_its_copy(&node)?;
    // Once more without a database: what the first of these starts recorded stays.
    node.kill()?;
    node.start()?;
    login.sftp_batch(&node, &put("again")?)?;
    ensure!(!inbox.join("during").exists(), "jobs are in the database");
    postgres.start()?;
    for kind in ["file.uploaded", "job.done", "file.delivered"] {
        let events = node.until(kind, || {
            let events = node.events(kind).unwrap_or_default();
            Ok((events.len() >= 3).then_some(events))
        })?;
        let ids: BTreeSet<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
        assert_eq!((events.len(), ids.len()), (3, 3), "{kind}");
    }
    for name in ["before", "during", "again"] {
        assert_eq!(std::fs::read(inbox.join(name))?, b"content");
    }
    node.until("the database to answer itself", || {
        Ok((metric(&node, "entrepot_configuration_from_copy")? == "0.0").then_some(()))
    })?;
    assert_eq!(state_of(&node, "n1")?, "serving");
    node.cli(&["account", "change", "acme", "enabled=false"])?;
    node.until("the change to count", || {
        Ok(login.sftp_batch(&node, "ls\n").is_err().then_some(()))
    })?;
    ensure!(node.cli(&["journal", "verify"])?.contains("intact"));
    // A copy that was changed by hand is not served from.
    node.stop()?;
    postgres.stop()?;
    let changed = keys.replace("betty", "bette");
    std::fs::write(node.home().join("data/configuration.json"), changed)?;
    let refused = node.start().err().context("it was not refused")?;
    ensure!(format!("{refused:#}").contains("EP0720"), "{refused:#}");
    Ok(())
}

/// Also those that nobody has asked for since the configuration changed last.
#[test]
fn accounts_log_in_while_the_database_is_away() -> Result<()> {
    let postgres = Postgres::launch()?;
    let mut node = Node::new(program(), Some(&postgres.create_database()?))?;
    let login = Login::create(&node, "acme")?;
    node.start()?;
    copied(&node, "acme")?;
    let local = local_file(&node, "a", b"content")?;
    let put = format!("put {} a\n", text(&local)?);
    postgres.kill()?;
    node.until("the first login of the account", || {
        Ok(login.sftp_batch(&node, &put).is_ok().then_some(()))
    })?;
    assert_eq!(metric(&node, "entrepot_configuration_from_copy")?, "1.0");
    let change = node.command(&["account", "change", "acme", "enabled=false"]).output()?;
    let said = String::from_utf8_lossy(&change.stderr).into_owned();
    ensure!(change.status.code() == Some(5) && said.contains("EP0719"), "{said}");
    postgres.start()?;
    node.until("the database to answer itself", || {
        Ok((metric(&node, "entrepot_configuration_from_copy")? == "0.0").then_some(()))
    })?;
    node.until("the event", || Ok((node.events("file.uploaded")?.len() == 1).then_some(())))?;
    node.cli(&["account", "change", "acme", "enabled=false"])?;
    node.until("the change to count", || Ok(login.sftp_batch(&node, "ls\n").is_err().then_some(())))
}

/// Its name was given to another node meanwhile: it sees that when the database is there.
#[test]
fn a_node_that_started_alone_ends_where_another_one_has_its_name() -> Result<()> {
    let postgres = Postgres::launch()?;
    let url = postgres.create_database()?;
    let mut first = Node::new_called(program(), &url, "n1")?;
    let login = Login::create(&first, "acme")?;
    let mut other = Node::joined(&first, &url, "n2")?;
    other.start()?;
    copied(&other, "acme")?;
    other.stop()?;
    first.start()?;
    first.cli(&["node", "remove", "n2"])?;
    let mut newer = Node::joined(&first, &url, "n2")?;
    newer.start()?;
    postgres.stop()?;
    other.start()?;
    login.sftp_batch(&other, "ls\n")?;
    postgres.start()?;
    let ended = other.wait()?;
    let log = other.log();
    let named = log.contains("EP0710") || log.contains("EP0711");
    ensure!(!ended.success() && named, "{ended} {log}");
    assert_eq!(state_of(&first, "n2")?, "serving");
    Ok(())
}
