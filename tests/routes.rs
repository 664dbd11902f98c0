//! What arrives is passed on: to a directory, an object store, an SFTP server.

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};
use entrepot_testkit::server::Node;
use serde_json::Value;

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
