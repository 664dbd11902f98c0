//! What the node has is shared: one account that holds all it can get leaves enough for others.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::python::{Files, Greedy};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::s3::S3Server;
use entrepot_testkit::server::{Node, run};

use crate::program;

/// A sample of `/metrics`.
pub(crate) fn metric(node: &Node, name: &str) -> Result<u64> {
    let url = format!("{}/metrics", node.ops_url()?);
    let page =
        String::from_utf8(run(Command::new("curl").args(["-sf", "-m", "20", &url]))?.stdout)?;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value: f64 = line.with_context(|| format!("no {name} in\n{page}"))?.parse()?;
    Ok(value as u64)
}

/// File descriptors of the server.
fn descriptors(node: &Node) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{}/fd", node.pid()?))?.count())
}

#[test]
fn one_account_that_opens_all_it_can_leaves_descriptors_for_others() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.limit_descriptors(512);
    let greedy = Login::create(&node, "greedy")?;
    let others = [Login::create(&node, "one")?, Login::create(&node, "other")?];
    node.start()?;
    let content = noise(1, 300_000);
    let local = local_file(&node, "a", &content)?;
    let put = format!("put {} a\n", text(&local)?);
    greedy.sftp_batch(&node, &put)?;
    let mut holder = Greedy::start(&node, &greedy)?;
    let files = Files { mode: "r", path: "a", count: 1000, bytes: 1, offset: 0 };
    let got = holder.open(&files)?;
    ensure!((64..256).contains(&got.files), "{got:?}");
    ensure!(got.refusal.contains("too many files of this account"), "{got:?}");
    let more = holder.open(&Files { mode: "w", path: "new-{}", ..files })?;
    ensure!(more.files == 0 && more.refusal.contains("too many files"), "{more:?}");
    // A second session of the account gets nothing more, whatever it is told.
    let second = Greedy::start(&node, &greedy).and_then(|mut it| it.open(&files));
    ensure!(second.as_ref().map_or(0, |got| got.files) == 0, "{second:?}");
    let used = descriptors(&node)?;
    ensure!(used < 400, "{used} descriptors are in use");
    for other in &others {
        other.sftp_batch(&node, &put)?;
        ensure!(std::fs::read(other.on_disk(&node, "a"))? == content, "the upload differs");
    }
    ensure!(metric(&node, "entrepot_budget_used{kind=\"descriptors\"}")? >= got.files as u64);
    ensure!(metric(&node, "entrepot_budget_refused_total{kind=\"descriptors\"}")? >= 1);
    ensure!(metric(&node, "entrepot_budget_limit{kind=\"descriptors\"}")? < 512);
    run(Command::new("curl").args(["-sf", "-m", "20", &format!("{}/ready", node.ops_url()?)]))?;
    node.json(&["session", "list"])?;
    drop(holder);
    node.until("what it held to be free", || {
        let used = metric(&node, "entrepot_budget_used{kind=\"descriptors\"}")?;
        Ok((used == 0).then_some(()))
    })?;
    let again = Greedy::start(&node, &greedy)?.open(&Files { count: 60, ..files })?;
    ensure!(again.files == 60, "{again:?}");
    ensure!(!node.log().contains("cannot accept"), "{}", node.log());
    Ok(())
}

#[test]
fn a_node_raises_its_limit_of_descriptors_and_does_not_start_with_too_few() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.limit_descriptors(100);
    node.spawn()?;
    ensure!(!node.wait()?.success(), "it started");
    let log = node.log();
    ensure!(log.contains("EP0270") && log.contains("LimitNOFILE"), "{log}");
    node.limit_soft_descriptors(300);
    node.start()?;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.pid()?))?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let mut words = line.context("no such limit")?.split_whitespace().skip(3);
    let (soft, hard) = (words.next(), words.next());
    ensure!(soft == hard && soft != Some("300"), "{limits}");
    Ok(())
}

/// Memory of the server without the pages of its program, of which a debug build has a hundred MiB.
fn memory_mib(node: &Node) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid()?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("no RssAnon")?;
    Ok(kib.parse::<u64>()? >> 10)
}

#[test]
fn a_thousand_files_on_an_object_store_stay_within_the_memory_of_an_account() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let greedy = Login::create(&node, "greedy")?;
    let other = Login::create(&node, "other")?;
    let s3 = S3Server::start()?;
    let mounts = "---\nmount: {name: greedy-b, account: greedy, path: /b, endpoint: bucket}\n\
         ---\nmount: {name: other-b, account: other, path: /b, endpoint: bucket}\n";
    let documents = s3.endpoint("bucket") + mounts;
    node.cli_with_input(&["apply", "-"], &documents)?;
    node.start()?;
    let content = noise(3, 9_000_000);
    let local = local_file(&node, "big", &content)?;
    let put = |name: &str| Ok::<_, anyhow::Error>(format!("put {} b/{name}\n", text(&local)?));
    greedy.sftp_batch(&node, &put("big")?)?;
    // In a wrong order: nothing of it can be sent before the first byte comes.
    let mut writer = Greedy::start(&node, &greedy)?;
    let files = Files { mode: "w", path: "b/new-{}", count: 1000, bytes: 400_000, offset: 1 };
    let got = writer.open(&files)?;
    ensure!(got.files == 1000, "{got:?}");
    let memory = memory_mib(&node)?;
    ensure!(memory < 192, "{memory} MiB with 400 MB out of order");
    ensure!(metric(&node, "entrepot_spooled_uploads_total")? > 100);
    // And in order, less than a part each.
    let mut in_order = Greedy::start(&node, &greedy)?;
    let got = in_order.open(&Files { path: "b/more-{}", count: 500, offset: 0, ..files })?;
    ensure!(got.files == 500, "{got:?}");
    let memory = memory_mib(&node)?;
    ensure!(memory < 192, "{memory} MiB with 200 MB more in order");
    other.sftp_batch(&node, &put("of-other")?)?;
    ensure!(std::fs::read(s3.objects().join("of-other"))? == content, "the upload differs");
    drop((writer, in_order));
    // What the allocator keeps of all that is not counted against the readers.
    node.stop()?;
    node.start()?;
    let mut reader = Greedy::start(&node, &greedy)?;
    let ahead = Files { mode: "r", path: "b/big", count: 1000, bytes: 30_000, offset: 100 };
    let got = reader.open(&ahead)?;
    ensure!(got.files == 1000, "{got:?}");
    let memory = memory_mib(&node)?;
    ensure!(memory < 192, "{memory} MiB with 1000 readers");
    Ok(())
}

/// An endpoint `far` at a node, by SFTP or FTP, seen by two accounts; a rule delivers there too.
fn far_documents(far: &Node, there: &Login, protocol: &str) -> Result<String> {
    let target = match protocol {
        "sftp" => {
            let keys = &far.addresses()?["listeners"]["sftp"]["host_keys"];
            format!("      port: {}\n      host_keys: {keys}\n", far.sftp_port()?)
        }
        _ => format!("      port: {}\n      tls: 'off'\n", far.ftp_port()?),
    };
    let (user, password) = (&there.account, &there.password);
    Ok(format!(
        "endpoint:\n  name: far\n  target:\n    {protocol}:\n      host: 127.0.0.1\n{target}      \
         user: {user}\n      password: '{password}'\n      allow_private: true\n---\n\
         mount: {{name: greedy-far, account: greedy, path: /far, endpoint: far}}\n---\n\
         mount: {{name: other-far, account: other, path: /far, endpoint: far}}\n---\n\
         rule:\n  name: to-far\n  when: {{event: file.uploaded}}\n  \
         if: file.path.startsWith('/out/')\n  do:\n    \
         - deliver: {{endpoint: far, path: 'delivered/{{name}}'}}\n"
    ))
}

/// One account keeps as many files open at a server as it gets, and waits for more.
fn places_are_shared(protocol: &str, share: usize) -> Result<()> {
    let mut far = Node::new(program(), None)?;
    let there = Login::create(&far, "gate")?;
    far.add_ftp()?;
    far.start()?;
    let mut node = Node::new(program(), None)?;
    let greedy = Login::create(&node, "greedy")?;
    let other = Login::create(&node, "other")?;
    node.cli_with_input(&["apply", "-"], &far_documents(&far, &there, protocol)?)?;
    node.start()?;
    let mut holder = Greedy::start(&node, &greedy)?;
    let files = Files { mode: "w", path: "far/f-{}", count: 40, bytes: 10, offset: 0 };
    holder.begin_to_open(&files)?;
    // It has all it gets when no more of them are open after many looks.
    let mut last = (0, 0);
    far.until("the files to be open there", || {
        let open = far.json(&["session", "list"])?.as_array().map_or(0, Vec::len);
        last = if open == last.0 { (open, last.1 + 1) } else { (open, 0) };
        Ok((open >= share && last.1 >= 20).then_some(()))
    })?;
    let content = noise(4, 500_000);
    let local = local_file(&node, "a", &content)?;
    let back = node.scratch().join("back");
    let (local, shown) = (text(&local)?, text(&back)?);
    let batch = format!(
        "put {local} far/of-other\nls far\nget far/of-other {shown}\nmkdir out\n\
         put {local} out/delivered\n"
    );
    other.sftp_batch(&node, &batch)?;
    ensure!(std::fs::read(&back)? == content, "what came back differs");
    node.until("the delivery", || Ok((!node.events("file.delivered")?.is_empty()).then_some(())))?;
    ensure!(std::fs::read(there.on_disk(&far, "delivered/delivered"))? == content);
    ensure!(node.events("job.failed")?.is_empty());
    Ok(())
}

#[test]
fn files_that_one_account_keeps_open_at_an_sftp_server_leave_places_for_others() -> Result<()> {
    places_are_shared("sftp", 16)
}

#[test]
fn files_that_one_account_keeps_open_at_an_ftp_server_leave_places_for_others() -> Result<()> {
    places_are_shared("ftp", 3)
}

#[test]
fn sessions_of_one_account_leave_some_for_others() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let (greedy, other) = (Login::create(&node, "greedy")?, Login::create(&node, "other")?);
    let file = node.home().join("entrepot.toml");
    let text = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("{text}\n[limits]\nsessions = 16\n"))?;
    node.start()?;
    let mut held = Vec::new();
    while let Ok(session) = Greedy::start(&node, &greedy) {
        held.push(session);
        ensure!(held.len() < 16, "one account has all sessions");
    }
    ensure!(held.len() >= 4, "{} sessions", held.len());
    other.sftp_batch(&node, "ls\n")?;
    node.until("the refusal and its reason in the audit log", || {
        let refused = node.events("login.refused")?;
        let reason = refused.last().and_then(|event| event["reason"].as_str());
        let told = reason.is_some_and(|it| it.contains("too many sessions of this account"));
        Ok(told.then_some(()))
    })
}
