//! The node that `bench as2 --loopback` measures: a process of its own, in a folder of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use entrepot_admin::Document;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::listen::free_address;
use entrepot_nouns::{Env, Name};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::as2_parties::{Parties, own_key};
use crate::args::{BenchAs2Args, InitArgs};
use crate::as2_certificate::{self, MessageCertificate};
use crate::ask::ask;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::init;

/// Longest wait until the node listens.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(50);
/// The account, mount and endpoint of the messages, and the name of their folder.
const NAME: &str = "bench";

/// A node that receives messages, until it is ended.
pub(super) struct Loopback {
    child: Child,
    folder: PathBuf,
    /// Where the payloads of messages become files.
    files: PathBuf,
    url: String,
    parties: Parties,
    found: u64,
}

impl Loopback {
    /// Makes a node and starts it.
    pub(super) async fn start(args: &BenchAs2Args, env: &Env) -> Result<Loopback, Failure> {
        if args.folder.exists() {
            let folder = args.folder.display();
            return Err(Failure::usage(format!("'{folder}' exists: name a folder to be made")));
        }
        let made = Self::make(args, env).await;
        if made.is_err() {
            remove(&args.folder);
        }
        made
    }

    async fn make(args: &BenchAs2Args, env: &Env) -> Result<Loopback, Failure> {
        let config = new_node(&args.folder).await?;
        let partner = as2_certificate::make("partner")?;
        let station = as2_certificate::make("station")?;
        let address = free_address(([127, 0, 0, 1], 0).into());
        let address = address.map_err(|error| Failure::start(error.to_string()))?;
        let documents = documents(args, &partner, &station, address.port());
        ask(&config, json!({"request": "apply", "documents": documents, "prune": false})).await?;
        let log = args.folder.join("server.log");
        let cannot = |error| Failure::file(format!("cannot write '{}': {error}", log.display()));
        let log = File::create(&log).map_err(cannot)?;
        let program = std::env::current_exe().map_err(|error| Failure::start(error.to_string()))?;
        let child = Command::new(program)
            .arg("-c")
            .arg(&config.file)
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::start(format!("cannot start the node: {error}")))?;
        let own = own_key(&partner.public, partner.private.expose())?;
        let station = own_key(&station.public, station.private.expose())?;
        let mut loopback = Loopback {
            child,
            folder: args.folder.clone(),
            files: config.data.join("files").join(NAME),
            url: format!("http://127.0.0.1:{}/as2", address.port()),
            parties: Parties { own: Some(own), partner: vec![Arc::clone(&station.certificate)] },
            found: 0,
        };
        loopback.wait_until_it_listens(address.port(), env).await?;
        Ok(loopback)
    }

    async fn wait_until_it_listens(&mut self, port: u16, env: &Env) -> Result<(), Failure> {
        let began = env.elapsed();
        let policy = DialPolicy { allow_private: true };
        while dial::tcp("127.0.0.1", port, &policy, PATIENCE).await.is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = std::fs::read_to_string(self.folder.join("server.log"));
                let log = log.unwrap_or_default();
                return Err(Failure::start(format!("the node ended with {status}: {log}")));
            }
            if env.elapsed().saturating_sub(began) > PATIENCE {
                return Err(Failure::start("the node does not listen"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Where messages go.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The process of the node.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// What both sides have.
    pub(super) fn parties(&self) -> &Parties {
        &self.parties
    }

    /// Counts the files that came, and removes them.
    pub(super) fn sweep(&mut self) -> Result<(), Failure> {
        let files = self.files.display();
        let cannot = |error| Failure::file(format!("cannot empty '{files}': {error}"));
        let entries = match std::fs::read_dir(&self.files) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(cannot(error)),
        };
        for entry in entries {
            let entry = entry.map_err(cannot)?;
            // What is hidden is not published: files on their way.
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            std::fs::remove_file(entry.path()).map_err(cannot)?;
            self.found += 1;
        }
        Ok(())
    }

    /// Holds the files against the receipts: each message that was acknowledged is there once. One
    /// whose answer got lost may be there.
    pub(super) fn reconcile(&self, delivered: u64, missed: u64) -> Result<(), Failure> {
        if (delivered..=delivered.saturating_add(missed)).contains(&self.found) {
            return Ok(());
        }
        let why = format!(
            "{delivered} messages were acknowledged and {missed} were not, but {} files are there",
            self.found
        );
        Err(Failure::new("EP1217", Exit::Findings, why))
    }

    /// Stops the node and removes its folder.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        let stopped = self.child.kill().await;
        remove(&self.folder);
        stopped.map_err(|error| Failure::start(format!("the node cannot be stopped: {error}")))
    }
}

/// A node of a bench holds nothing that anybody wants.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        eprintln!("the folder of the bench stays: {error}");
    }
}

/// A node of its own, on SQLite, without listeners for the world.
pub(super) async fn new_node(folder: &Path) -> Result<Config, Failure> {
    let made = InitArgs {
        folder: folder.to_owned(),
        data: "data".into(),
        sftp: ([127, 0, 0, 1], 0).into(),
        ftp: None,
        https: None,
        ops: ([127, 0, 0, 1], 0).into(),
        database: "sqlite".to_owned(),
        node: None::<Name>,
        master_key: None,
    };
    init::make(&made).await
}

/// A partner whose messages become files, and where they come.
fn documents(
    args: &BenchAs2Args,
    partner: &MessageCertificate,
    station: &MessageCertificate,
    port: u16,
) -> Vec<Document> {
    let private = String::from_utf8_lossy(station.private.expose()).into_owned();
    let as2 = json!({
        "partner": args.from.as_str(), "station": args.to.as_str(), "account": NAME,
        "keys": ["bench-station"], "certificates": ["bench-partner"],
        "require": {
            "signature": "optional", "encryption": "optional", "digest": "sha-1",
            "triple_des": "accepted",
        },
    });
    let nouns = [
        json!({"account": {"name": NAME, "type": "partner"}}),
        json!({"mount": {"name": NAME, "account": NAME, "path": "/", "endpoint": "files",
            "prefix": NAME}}),
        json!({"key": {"name": "bench-station", "type": "as2", "public": station.public,
            "private": private}}),
        json!({"key": {"name": "bench-partner", "type": "as2", "public": partner.public}}),
        json!({"endpoint": {"name": NAME, "target": {"as2": as2}}}),
        json!({"listener": {"name": "as2", "protocol": "http",
            "address": format!("127.0.0.1:{port}"), "http": {"serve": ["as2"]}}}),
    ];
    let document = |noun: Value| Document { file: "<bench>".to_owned(), text: noun.to_string() };
    nouns.map(document).into()
}
