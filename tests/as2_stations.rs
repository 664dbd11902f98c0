//! A station of AS2 whose files lie in a bucket, and whose partner picks up what to send in a
//! folder and in a bucket: all that was put arrives, once, and nothing is left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{noise, text};
use entrepot_testkit::s3::S3Server;
use entrepot_testkit::server::Node;
use serde_json::{Value, json};

use crate::as2_send::key;
use crate::hooks::apply;
use crate::program;

/// How many files are put, how large they are, and how many a second.
struct Load {
    files: usize,
    bytes: usize,
    rate: f64,
}

impl Load {
    /// In full with `STATIONS` in the environment, a number of files: 6000 take a minute to put.
    fn asked() -> Result<Load> {
        match std::env::var("STATIONS") {
            Ok(files) => Ok(Load { files: files.parse()?, bytes: 1 << 20, rate: 100.0 }),
            Err(_) => Ok(Load { files: 24, bytes: 20_000, rate: 20.0 }),
        }
    }
}

/// A node that is a station and its own partner.
struct Stations {
    node: Node,
    s3: S3Server,
    /// Where files lie until they are sent.
    pick_ups: [PathBuf; 2],
    /// What all files have in common.
    block: Vec<u8>,
}

impl Stations {
    fn start(bytes: usize) -> Result<Stations> {
        let s3 = S3Server::start()?;
        let mut node = Node::new(program(), None)?;
        let folder = node.scratch().join("pick-up");
        let pick_ups = [folder.join("out"), s3.objects().join("out")];
        for pick_up in &pick_ups {
            std::fs::create_dir_all(pick_up)?;
        }
        let plain = ["protocol=http", "address=127.0.0.1:0", r#"http={"serve":["as2"]}"#];
        node.cli(&[&["listener", "create", "as2"], &plain[..]].concat())?;
        node.start()?;
        let url = format!("http://127.0.0.1:{}/as2", node.port_of("as2")?);
        let mut documents = vec![
            s3.endpoint("bucket"),
            json!({"account": {"name": "globex", "type": "partner"}}).to_string(),
            json!({"mount": {"name": "globex", "account": "globex", "path": "/",
                "endpoint": "bucket", "prefix": "globex"}})
            .to_string(),
            json!({"endpoint": {"name": "folder",
                "target": {"directory": {"path": folder}}}})
            .to_string(),
        ];
        for name in ["acme", "globex"] {
            let (ours, theirs) = key(&node, &format!("{name}-as2"))?;
            documents.extend([ours.to_string(), theirs.to_string()]);
        }
        documents.push(partner("to-globex", ["Globex Corp", "ACME"], "acme", json!({"url": url})));
        let station = json!({"account": "globex", "folder": "/in"});
        documents.push(partner("from-acme", ["ACME", "Globex Corp"], "globex", station));
        documents.extend(["folder", "bucket"].map(rule));
        apply(&node, &documents.join("\n---\n"))?;
        Ok(Stations { node, s3, pick_ups, block: noise(31, bytes) })
    }

    /// The file of this number. No two are alike.
    fn content(&self, number: usize) -> Vec<u8> {
        [format!("order {number}\n").as_bytes(), &self.block].concat()
    }

    /// Puts files into both pick-ups in turn, each when it is due.
    fn put(&self, load: &Load) -> Result<()> {
        let began = Instant::now();
        for number in 0..load.files {
            let due = Duration::from_secs_f64(number as f64 / load.rate);
            self.node.work_for(due.saturating_sub(began.elapsed()));
            let pick_up = &self.pick_ups[number % self.pick_ups.len()];
            // Whole from the beginning, as an object is.
            let staged = pick_up.with_file_name("staged");
            std::fs::write(&staged, self.content(number))?;
            std::fs::rename(staged, pick_up.join(format!("{number}.edi")))?;
        }
        Ok(())
    }

    /// Files that have arrived, by name, and their number.
    fn arrived(&self) -> Result<BTreeMap<String, PathBuf>> {
        files(&self.s3.objects().join("globex/in"))
    }

    /// Waits until nothing is left to be sent. As long as more arrives it is well, however busy
    /// the machine is.
    fn until_all_is_sent(&self, load: &Load) -> Result<()> {
        let mut here = self.arrived()?.len();
        while here < load.files {
            here = self.node.until("more to arrive", || {
                Ok(Some(self.arrived()?.len()).filter(|now| *now > here))
            })?;
        }
        self.node.until("the jobs to end", || {
            let jobs = |state: &str| self.node.json(&["job", "list", "--state", state]);
            Ok((jobs("ready")? == json!([]) && jobs("running")? == json!([])).then_some(()))
        })
    }
}

/// One direction between the two.
fn partner(name: &str, [partner, station]: [&str; 2], us: &str, more: Value) -> String {
    let them = if us == "acme" { "globex" } else { "acme" };
    let mut target = json!({"partner": partner, "station": station, "keys": [format!("{us}-as2")],
        "certificates": [format!("{them}-as2-public")], "allow_private": true});
    let (Some(target_fields), Value::Object(more)) = (target.as_object_mut(), more) else {
        return String::new();
    };
    target_fields.extend(more);
    json!({"endpoint": {"name": name, "target": {"as2": target}}}).to_string()
}

/// A rule that sends what lies in `out` of an endpoint, and deletes it when it was confirmed.
fn rule(endpoint: &str) -> String {
    json!({"rule": {"name": format!("send-{endpoint}"),
        "when": {"watch": {"endpoint": endpoint, "path": "/out", "every": "1s", "stable": "1s"}},
        "do": [{"as2": {"endpoint": "to-globex"}}, {"delete": {}}],
        "retry": {"attempts": 20, "first_delay_seconds": 1, "longest_delay_seconds": 5}}})
    .to_string()
}

/// What lies in a folder, but for what stores keep of their own there.
fn files(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let path = entry?.path();
        let name = text(&path)?.rsplit('/').next().context("a name")?.to_owned();
        if !name.starts_with('.') {
            found.insert(name, path);
        }
    }
    Ok(found)
}

/// The Message-IDs of events, each of which must be of another message.
fn messages(events: &[Value]) -> Result<Vec<&str>> {
    let ids = events.iter().filter_map(|event| event["as2"]["message_id"].as_str());
    let mut ids: Vec<&str> = ids.collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    ensure!(ids.len() == count, "a message has two events");
    Ok(ids)
}

#[test]
fn all_that_is_put_into_a_folder_and_a_bucket_arrives_in_the_bucket_of_the_partner() -> Result<()> {
    let load = Load::asked()?;
    let mut stations = Stations::start(load.bytes)?;
    stations.put(&load)?;
    stations.until_all_is_sent(&load)?;
    let arrived = stations.arrived()?;
    let put: Vec<String> = (0..load.files).map(|number| format!("{number}.edi")).collect();
    let differences = put.iter().filter(|name| !arrived.contains_key(*name)).count();
    assert_eq!((arrived.len(), differences), (load.files, 0));
    for (number, name) in put.iter().enumerate() {
        let path = arrived.get(name).context("it is there")?;
        ensure!(std::fs::read(path)? == stations.content(number), "{name} is another file");
    }
    for pick_up in &stations.pick_ups {
        let left = files(pick_up)?;
        ensure!(left.is_empty(), "{left:?} are left");
    }
    let node = &stations.node;
    let failed = node.events("job.failed")?;
    ensure!(failed.is_empty(), "{failed:?}");
    let (sent, uploaded) = node.until("the events of all", || {
        let events = (node.events("file.delivered")?, node.events("file.uploaded")?);
        Ok((events.0.len() >= load.files && events.1.len() >= load.files).then_some(events))
    })?;
    assert_eq!((sent.len(), uploaded.len()), (load.files, load.files));
    // What was sent is what was received, and confirmed.
    assert_eq!(messages(&sent)?, messages(&uploaded)?);
    assert_eq!(messages(&sent)?.len(), load.files);
    ensure!(sent.iter().all(|event| event["as2"]["receipt"]["body"].is_string()), "no receipt");
    assert_eq!(stations.s3.orphan_parts()?, 0);
    stations.node.stop()
}
