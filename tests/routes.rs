//! What arrives is passed on: to a directory, an object store, an SFTP server.

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};
use entrepot_testkit::server::Node;
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
    let endpoint = format!(
        "endpoint: {{name: partner, target: {{directory: {{path: {}}}}}}}\n",
        text(&inbox)?
    );
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

#[test]
fn an_upload_is_delivered_to_an_sftp_server() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let sshd = entrepot_testkit::sshd::Sshd::start()?;
    let key = std::fs::read_to_string(sshd.user_key())?;
    let indented: String = key.lines().map(|line| format!("      {line}\n")).collect();
    let public = std::fs::read_to_string(sshd.user_key().with_extension("pub"))?;
    let documents = format!(
        "key:\n  name: ours\n  type: ssh-user\n  public: '{}'\n  private: |\n{indented}---\n\
         endpoint:\n  name: remote\n  target:\n    sftp:\n      host: 127.0.0.1\n      \
         port: {}\n      user: root\n      key: ours\n      host_keys: ['{}']\n      \
         root: {}\n      allow_private: true\n",
        public.trim(),
        sshd.port(),
        sshd.host_key(),
        text(sshd.folder())?
    );
    apply(&node, &(documents + &rule("to-remote", "remote", "in/{name}")))?;
    node.start()?;
    let content = noise(11, 5_000_000);
    let local = local_file(&node, "r.bin", &content)?;
    login.sftp_batch(&node, &format!("mkdir out\nput {} out/r.bin\n", text(&local)?))?;
    deliveries(&node, 1)?;
    ensure!(std::fs::read(sshd.folder().join("in/r.bin"))? == content, "the file differs");
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
fn directory(name: &str, path: &std::path::Path) -> Result<String> {
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
