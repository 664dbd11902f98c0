//! What arrives is passed on: to a directory, an object store, an SFTP server.

use std::net::TcpListener;

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};
use entrepot_testkit::server::Node;
use entrepot_testkit::sshd::Sshd;
use serde_json::{Value, json};

use crate::program;

fn apply(node: &Node, documents: &str) -> Result<String> {
    node.cli_with_input(&["apply", "-"], documents)
}

fn rule(name: &str, endpoint: &str, path: &str) -> String {
    format!(
        "---\nrule:\n  name: {name}\n  when: {{event: file.uploaded}}\n  \
         if: file.path.startsWith('/out/')\n  do:\n    - deliver: {{endpoint: {endpoint}, \
         path: '{path}'}}\n"
    )
}

fn deliveries(node: &Node, count: usize) -> Result<Vec<Value>> {
    node.until("the deliveries", || {
        let events = node.events("file.delivered")?;
        Ok((events.len() >= count).then_some(events))
    })
}

#[test]
fn an_upload_is_delivered_to_a_directory_once() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let inbox = node.scratch().join("inbox");
    std::fs::create_dir(&inbox)?;
    let endpoint = directory("partner", &inbox)?;
    apply(&node, &(endpoint + &rule("to-partner", "partner", "{account}/{stem}-x.{extension}")))?;
    node.start()?;
    let content = noise(9, 700_000);
    let local = local_file(&node, "a.xml", &content)?;
    let batch = format!("mkdir out\nput {0} out/a.xml\nput {0} elsewhere.xml\n", text(&local)?);
    login.sftp_batch(&node, &batch)?;
    let events = deliveries(&node, 1)?;
    assert_eq!(events.len(), 1, "one file, one rule, one delivery");
    assert_eq!(events[0]["endpoint"], "partner");
    ensure!(std::fs::read(inbox.join("acme/a-x.xml"))? == content);
    let jobs = node.until("the job to end", || {
        let jobs = node.json(&["job", "list", "--state", "done"])?;
        Ok((jobs.as_array().map_or(0, Vec::len) == 1).then_some(jobs))
    })?;
    assert_eq!(jobs[0]["rule"], "to-partner");
    Ok(())
}

#[test]
fn an_upload_is_delivered_to_an_object_store() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let s3 = S3Server::start()?;
    let endpoint = format!(
        "endpoint:\n  name: bucket\n  target:\n    object:\n      \
         bucket: {BUCKET}\n      prefix: from-entrepot\n      url: {}\n      \
         access_key_id: {}\n      secret_key: {}\n      allow_private: true\n",
        s3.url(),
        ACCESS_KEY_ID,
        SECRET_KEY
    );
    apply(&node, &(endpoint + &rule("to-bucket", "bucket", "{name}")))?;
    node.cli(&["endpoint", "change", "bucket", "target.object.requests.parts_at_once=2"])?;
    let shown = node.cli(&["endpoint", "show", "bucket"])?;
    for (field, value) in [("parts_at_once", "2"), ("idle_timeout", "1m"), ("attempts", "5")] {
        let line = shown.lines().find(|line| line.contains(field)).unwrap_or_default();
        assert!(line.starts_with("target.object.requests.") && line.ends_with(value), "{shown}");
    }
    let exported = node.cli(&["export"])?;
    ensure!(!exported.contains(SECRET_KEY), "an export shows a secret in the clear");
    node.start()?;
    let content = noise(10, 12 << 20);
    let local = local_file(&node, "big.bin", &content)?;
    login.sftp_batch(&node, &format!("mkdir out\nput {} out/big.bin\n", text(&local)?))?;
    deliveries(&node, 1)?;
    ensure!(
        std::fs::read(s3.objects().join("from-entrepot/big.bin"))? == content,
        "the object differs"
    );
    Ok(())
}

/// The endpoint `remote`, which is the folder of a server, and the key that logs in there.
pub(crate) fn remote(sshd: &Sshd) -> Result<String> {
    let key = std::fs::read_to_string(sshd.user_key())?;
    let indented: String = key.lines().map(|line| format!("      {line}\n")).collect();
    let public = std::fs::read_to_string(sshd.user_key().with_extension("pub"))?;
    Ok(format!(
        "key:\n  name: ours\n  type: ssh-user\n  public: '{}'\n  private: |\n{indented}---\n\
         endpoint:\n  name: remote\n  target:\n    sftp:\n      host: 127.0.0.1\n      \
         port: {}\n      user: root\n      key: ours\n      host_keys: ['{}']\n      \
         root: {}\n      allow_private: true\n",
        public.trim(),
        sshd.port(),
        sshd.host_key(),
        text(sshd.folder())?
    ))
}

#[test]
fn an_upload_is_delivered_to_an_sftp_server() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let sshd = Sshd::start()?;
    let documents = remote(&sshd)?;
    apply(&node, &(documents + &rule("to-remote", "remote", "in/{name}")))?;
    node.start()?;
    let content = noise(11, 5_000_000);
    let local = local_file(&node, "r.bin", &content)?;
    login.sftp_batch(&node, &format!("mkdir out\nput {} out/r.bin\n", text(&local)?))?;
    deliveries(&node, 1)?;
    ensure!(std::fs::read(sshd.folder().join("in/r.bin"))? == content, "the file differs");
    Ok(())
}

/// The other node has looked through the server before, and does not do so again.
#[test]
fn what_a_node_that_died_left_at_an_sftp_server_is_removed_by_the_other() -> Result<()> {
    let postgres = Postgres::launch()?;
    let url = postgres.create_database()?;
    let mut first = Node::new_called(program(), &url, "n1")?;
    let login = Login::create(&first, "acme")?;
    let sshd = Sshd::start()?;
    apply(&first, &(remote(&sshd)? + &rule("to-remote", "remote", "{name}")))?;
    let mut second = Node::joined(&first, &url, "n2")?;
    second.start()?;
    first.set("ENTREPOT_CRASH_AT", "delivery.staged");
    let local = local_file(&first, "r.bin", &noise(12, 100_000))?;
    let batch = format!("-mkdir out\nput {} out/", text(&local)?);
    for count in 1..=2 {
        second.cli(&["node", "drain", "n2"])?;
        first.start()?;
        // The client may not live to hear of it.
        let _ = login.sftp_batch(&first, &format!("{batch}{count}.bin\n"));
        ensure!(!first.wait()?.success(), "the first node lives");
        ensure!(std::fs::read_dir(sshd.folder())?.count() == count, "nothing was left");
        second.cli(&["node", "undrain", "n2"])?;
        deliveries(&second, count)?;
    }
    let left = std::fs::read_dir(sshd.folder())?.map(|entry| Ok(entry?.file_name()));
    let mut left = left.collect::<Result<Vec<_>>>()?;
    left.sort();
    assert_eq!(left, ["1.bin", "2.bin"]);
    Ok(())
}

/// More files than a pool has places are for a partner that takes connections and says nothing.
#[test]
fn a_partner_that_never_answers_holds_up_no_other() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let (sshd, silent) = (Sshd::start()?, TcpListener::bind("127.0.0.1:0")?);
    let port = |port: u16| format!("port: {port}\n");
    let dead = remote(&sshd)?.replace(&port(sshd.port()), &port(silent.local_addr()?.port()));
    let inbox = node.scratch().join("inbox");
    std::fs::create_dir(&inbox)?;
    let to_dead = rule("to-dead", "remote", "{name}").replace("/out/", "/dead/");
    let live = format!("---\n{}{}", directory("partner", &inbox)?, rule("to", "partner", "{name}"));
    apply(&node, &(dead + &to_dead + &live))?;
    node.start()?;
    let local = local_file(&node, "a", b"a")?;
    let put = |folder: &str, count: usize| -> Result<()> {
        let local = text(&local)?;
        let puts: String = (0..count).map(|at| format!("put {local} {folder}/{at}\n")).collect();
        login.sftp_batch(&node, &format!("mkdir {folder}\n{puts}"))?;
        Ok(())
    };
    let running = |count: usize| {
        node.until("so many jobs of the silent partner to run", || {
            let jobs = node.json(&["job", "list", "--state", "running"])?;
            let jobs = jobs.as_array().context("jobs")?;
            let of_dead = jobs.iter().filter(|job| job["lane"]["endpoint"] == "remote").count();
            Ok((of_dead == count).then_some(()))
        })
    };
    put("dead", 40)?;
    running(13)?;
    put("out", 20)?;
    deliveries(&node, 20)?;
    running(13)?;
    node.cli(&["node", "pools", "--target", "50"])?;
    running(25)
}

/// What the partner has put there is fetched, handed to an account, and then removed.
#[test]
fn a_file_is_fetched_from_an_sftp_server_and_removed_there_at_the_end() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    Login::create(&node, "acme")?;
    let sshd = Sshd::start()?;
    let rule = "---
rule:
  name: from-partner
  when: {cron: '* * * * * *'}
  as: acme
  do:
    - fetch: {endpoint: remote, path: out/list.csv, after: delete}
    - check: {that: file.size > 0, message: '{name} is empty'}
    - copy: {to: '/from-partner/{stem}-{size}.{extension}'}
  retry: {attempts: 1}
";
    apply(&node, &(remote(&sshd)? + rule))?;
    let content = noise(12, 3_000_000);
    std::fs::create_dir(sshd.folder().join("out"))?;
    let there = sshd.folder().join("out/list.csv");
    std::fs::write(sshd.folder().join("out/part"), &content)?;
    node.start()?;
    std::fs::rename(sshd.folder().join("out/part"), &there)?;
    node.until("the file to go", || Ok((!there.exists()).then_some(())))?;
    let copied = node.files().join("acme/from-partner/list-3000000.csv");
    ensure!(std::fs::read(copied)? == content, "the file differs");
    let fetched = node.until("the events", || {
        let events = node.events("file.fetched")?;
        let uploaded = node.events("file.uploaded")?;
        Ok((!events.is_empty() && !uploaded.is_empty()).then_some((events, uploaded)))
    })?;
    let (fetched, uploaded) = fetched;
    ensure!(fetched.len() == 1 && fetched[0]["size"] == 3_000_000, "{fetched:?}");
    ensure!(uploaded[0]["account"] == "acme" && uploaded[0]["job"] == fetched[0]["job"]);
    let transfers = node.cli(&["transfer", "list"])?;
    ensure!(transfers.contains("out/list.csv"), "{transfers}");
    let work = node.home().join("data/work");
    node.until("the work folder to be empty", || {
        // The store keeps a folder of its own for what is not whole yet.
        let is_ours =
            |entry: &std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
        let left = std::fs::read_dir(&work)?.flatten().filter(is_ours).count();
        Ok((left == 0).then_some(()))
    })?;
    Ok(())
}

#[test]
fn a_failing_delivery_is_retried_then_dead_and_can_be_retried_by_hand() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let inbox = node.scratch().join("missing/inbox");
    let documents = format!(
        "endpoint: {{name: partner, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: to-partner\n  when: {{event: file.uploaded}}\n  do:\n    \
         - deliver: {{endpoint: partner}}\n    - delete: {{}}\n  \
         retry: {{attempts: 2, first_delay_seconds: 1, longest_delay_seconds: 1}}\n",
        text(&inbox)?
    );
    apply(&node, &documents)?;
    node.start()?;
    let local = local_file(&node, "a.bin", b"content")?;
    login.sftp_batch(&node, &format!("put {} a.bin\n", text(&local)?))?;
    let failed = node.until("the dead letter", || {
        let jobs = node.json(&["job", "list", "--state", "failed"])?;
        Ok(jobs.get(0).cloned())
    })?;
    ensure!(login.on_disk(&node, "a.bin").exists(), "a later step ran after a failed one");
    assert_eq!(failed["attempts"], 2);
    std::fs::create_dir_all(&inbox)?;
    node.cli(&["job", "retry", failed["id"].as_str().unwrap_or_default()])?;
    deliveries(&node, 1)?;
    let retried = node.events("job.retried")?;
    assert_eq!(retried.len(), 1, "who retries a job is in the audit log");
    assert_eq!(retried[0]["job"], failed["id"]);
    assert_eq!(std::fs::read(inbox.join("a.bin"))?, b"content");
    node.until("the source to be deleted", || {
        Ok((!login.on_disk(&node, "a.bin").exists()).then_some(()))
    })?;
    Ok(())
}

/// An endpoint that is a folder.
pub(crate) fn directory(name: &str, path: &std::path::Path) -> Result<String> {
    let path = text(path)?;
    Ok(format!("endpoint: {{name: {name}, target: {{directory: {{path: {path}}}}}}}\n---\n"))
}

/// A rule that gives up at its first failure.
fn both(steps: &str) -> String {
    format!(
        "rule:\n  name: both\n  when: {{event: file.uploaded}}\n  do: {steps}\n  \
         retry: {{attempts: 1, first_delay_seconds: 1, longest_delay_seconds: 1}}\n"
    )
}

#[test]
fn a_waiting_job_keeps_the_rule_that_it_was_made_of_until_it_is_moved() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let scratch = node.scratch().to_path_buf();
    let folder = |name: &str| scratch.join(name);
    let mut documents = String::new();
    for name in ["first", "not/late", "added", "other"] {
        if name != "not/late" {
            std::fs::create_dir_all(folder(name))?;
        }
        documents += &directory(name.trim_start_matches("not/"), &folder(name))?;
    }
    let keep = "{name: keep, deliver: {endpoint: first, existing: refuse}}";
    let send = |to: &str| format!("{{name: send, deliver: {{endpoint: {to}}}}}");
    documents += &both(&format!("[{keep}, {}]", send("late")));
    apply(&node, &documents)?;
    node.start()?;
    for name in ["a.bin", "b.bin"] {
        let local = local_file(&node, name, b"content")?;
        login.sftp_batch(&node, &format!("put {} {name}\n", text(&local)?))?;
    }
    let failed = node.until("both dead letters", || {
        let jobs = node.json(&["job", "list", "--state", "failed"])?;
        let jobs = jobs.as_array().cloned().unwrap_or_default();
        Ok((jobs.len() == 2).then_some(jobs))
    })?;
    let id = |name: &str| -> Result<String> {
        let path = format!("/{name}");
        let found = failed.iter().find(|job| job["event"]["path"] == *path);
        Ok(found.and_then(|job| job["id"].as_str()).context("no such job")?.to_owned())
    };
    let (one, other) = (id("a.bin")?, id("b.bin")?);
    let shown = node.json(&["job", "show", &one])?;
    assert_eq!((&shown["at"], &shown["steps"][0]["address"]), (&json!("send"), &json!("keep")));
    assert_eq!(
        (&shown["steps"][0]["state"], &shown["steps"][1]["state"]),
        (&json!("done"), &json!("failed"))
    );
    // The rule as it is now has another first step, and sends elsewhere.
    let added = "{deliver: {endpoint: added}}";
    apply(&node, &both(&format!("[{added}, {keep}, {}]", send("other"))))?;
    std::fs::create_dir_all(folder("not/late"))?;
    node.cli(&["job", "retry", &one])?;
    node.until("the job to end as it began", || {
        Ok((node.json(&["job", "show", &one])?["state"] == "done").then_some(()))
    })?;
    ensure!(folder("not/late").join("a.bin").exists(), "it went where the old rule says");
    ensure!(!folder("added").join("a.bin").exists(), "a step ran that the job does not know");
    // A rule that lost a step that the job has done does not fit.
    apply(&node, &both(&format!("[{added}, {}]", send("other"))))?;
    let refused = format!(
        "{:#}",
        node.cli(&["job", "retry", &other, "--current"]).err().context("it was moved")?
    );
    ensure!(refused.contains("EP0116") && refused.contains("'keep'"), "{refused}");
    apply(&node, &both(&format!("[{added}, {keep}, {}]", send("other"))))?;
    node.cli(&["job", "retry", &other, "--current"])?;
    node.until("the job to end by the new rule", || {
        Ok((node.json(&["job", "show", &other])?["state"] == "done").then_some(()))
    })?;
    let got = |place: &&str| folder(place).join("b.bin").exists();
    let places: Vec<&str> =
        ["first", "not/late", "added", "other"].into_iter().filter(got).collect();
    assert_eq!(places, ["first", "added", "other"]);
    let mut told = node.events("job.retried")?;
    told.retain(|event| event["rule_version"].is_string());
    assert_eq!(told.len(), 1);
    Ok(())
}

/// Puts a file into the account's view, over SFTP.
fn put(node: &Node, login: &Login, path: &str, content: &[u8]) -> Result<()> {
    let local = local_file(node, "upload", content)?;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    login.sftp_batch(node, &format!("-mkdir {folder}\nput {} {path}\n", text(&local)?))?;
    Ok(())
}

/// What lies below a folder, as paths, once there are so many.
fn below(node: &Node, folder: &std::path::Path, count: usize) -> Result<Vec<String>> {
    node.until("the files", || {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next)?.flatten() {
                if entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    found.push(text(entry.path().strip_prefix(folder)?)?.to_owned());
                }
            }
        }
        found.sort();
        Ok((found.len() >= count).then_some(found))
    })
}

/// The page `docs/howto/routes.md`, done: all its rules at once, each by a file of its own.
#[test]
fn the_recipes_of_the_page_work() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let acme = Login::create(&node, "acme")?;
    Login::create(&node, "treasury")?;
    let courier = Login::create(&node, "courier")?;
    let away = node.scratch().join("routes");
    let folder = |name: &str| away.join(name);
    for name in ["partner", "archive", "bank/out", "bank/drop"] {
        std::fs::create_dir_all(folder(name))?;
    }
    let page = include_str!("../docs/howto/routes.md").replace("/srv/routes", text(&away)?);
    let recipes = crate::hooks::blocks(&page, "yaml").join("---\n");
    ensure!(recipes.contains("'30 3 * * MON-FRI', zone: Europe/Zurich"));
    // By the clock of the page nothing would happen for hours.
    let soon = recipes.replace("'30 3 * * MON-FRI'", "'* * * * * *'");
    ensure!(soon.contains("every: 30s, stable: 10s"));
    let soon = soon.replace("every: 30s, stable: 10s", "every: 1s, stable: 1s");
    apply(&node, &soon)?;
    node.start()?;
    std::fs::write(folder("bank/out/statement.csv"), b"1;2\n")?;
    std::fs::write(folder("bank/drop/d.xml"), b"<d/>")?;
    put(&node, &acme, "out/a", b"pass me on")?;
    put(&node, &acme, "invoices/i", b"an invoice")?;
    put(&node, &acme, "data/small", b"small")?;
    put(&node, &acme, "orders/o.xml", b"<o/>")?;
    put(&node, &acme, "orders/o.txt", b"no order")?;
    put(&node, &acme, "both/b", b"b")?;
    put(&node, &acme, "logs/l", b"a log")?;
    courier.sftp_batch(&node, "mkdir treasury\n")?;
    put(&node, &courier, "acme/c", b"c")?;
    let date = &entrepot_nouns::Env::real().now().to_string()[..10].to_owned();
    let partner = below(&node, &folder("partner"), 4)?;
    assert_eq!(partner, ["a", "both/b", "orders/o.xml", "small/small"]);
    let archive = below(&node, &folder("archive"), 5)?;
    let wanted = [
        format!("{date}/acme/i"),
        format!("bank/{date}-statement.csv"),
        "both/b".to_owned(),
        format!("logs/{date}/l.gz"),
        "small/small".to_owned(),
    ];
    assert_eq!(archive, wanted);
    let views = [
        (
            "acme",
            vec!["both/b", "data/small", "invoices/i", "logs/l", "rejected/o.txt", "sent/a"],
            7,
        ),
        ("treasury", vec!["drop/d.xml"], 2),
        ("courier", vec!["treasury/from-acme/c"], 1),
    ];
    for (account, wanted, count) in views {
        let found = node.until("the account's files to be as they should", || {
            let found = below(&node, &node.files().join(account), count)?;
            let there = wanted.iter().all(|path| found.iter().any(|it| it == path));
            Ok((there && found.len() == count).then_some(found))
        })?;
        ensure!(!found.iter().any(|path| path == "acme/c"), "{found:?}");
    }
    let statement = node.files().join(format!("treasury/statements/statement-{date}.csv"));
    assert_eq!(std::fs::read(statement)?, b"1;2\n");
    node.until("the bank's files to go", || {
        let gone = |name: &str| !folder(name).exists();
        Ok((gone("bank/out/statement.csv") && gone("bank/drop/d.xml")).then_some(()))
    })?;
    ensure!(recipes.matches("rule:\n").count() == 10, "ten recipes");
    a_day_is_sent_again(&node, date, &folder("partner"))
}

/// The recipe that is started by hand.
fn a_day_is_sent_again(node: &Node, date: &str, partner: &std::path::Path) -> Result<()> {
    let wrong = node.cli(&["rule", "run", "send-again", "--param", "day=yesterday"]).err();
    ensure!(format!("{:?}", wrong.context("it ran")?).contains("day"), "the parameter is checked");
    node.cli(&["rule", "run", "send-again", "--param", &format!("day={date}")])?;
    let partner = below(node, partner, 5)?;
    ensure!(partner.contains(&format!("again/{date}-i")), "{partner:?}");
    Ok(())
}
