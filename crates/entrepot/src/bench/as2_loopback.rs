//! The node that `bench as2 --loopback` measures: a process of its own, in a folder of its own.

use std::path::PathBuf;

use entrepot_net::dial::{self, DialPolicy};
use entrepot_nouns::Env;
use serde_json::{Value, json};

use super::as2_parties::{Parties, own_key};
use super::node_process::{NodeProcess, PATIENCE, apply, free_address, in_new_folder, new_node};
use crate::args::BenchAs2Args;
use crate::as2_certificate::{self, MessageCertificate};
use crate::failure::{Exit, Failure};

/// The account, mount and endpoint of the messages, and the name of their folder.
const NAME: &str = "bench";

/// A node that receives messages, until it is ended.
pub(super) struct Loopback {
    node: NodeProcess,
    /// Where the payloads of messages become files.
    files: PathBuf,
    url: String,
    parties: Parties,
    partner: MessageCertificate,
    station: MessageCertificate,
    found: u64,
}

impl Loopback {
    /// Makes a node and starts it.
    pub(super) async fn start(args: &BenchAs2Args, env: &Env) -> Result<Loopback, Failure> {
        in_new_folder(&args.folder, Self::make(args, env)).await
    }

    async fn make(args: &BenchAs2Args, env: &Env) -> Result<Loopback, Failure> {
        let config = new_node(&args.folder).await?;
        let partner = as2_certificate::make("partner")?;
        let station = as2_certificate::make("station")?;
        let address = free_address()?;
        let port = address.port();
        apply(&config, &nouns(args, &partner, &station, port)).await?;
        let policy = DialPolicy { allow_private: true };
        let listens = async || Ok(dial::tcp("127.0.0.1", port, &policy, PATIENCE).await.is_ok());
        let node = NodeProcess::start(&config, &args.folder, env, listens).await?;
        let own = own_key(&partner.public, partner.private.expose())?;
        let trusted = own_key(&station.public, station.private.expose())?.certificate;
        Ok(Loopback {
            node,
            files: config.data.join("files").join(NAME),
            url: format!("http://{address}/as2"),
            parties: Parties { own: Some(own), partner: vec![trusted] },
            partner,
            station,
            found: 0,
        })
    }

    /// Where messages go.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The process of the node.
    pub(super) fn pid(&self) -> Option<u32> {
        self.node.pid()
    }

    /// What both sides have.
    pub(super) fn parties(&self) -> &Parties {
        &self.parties
    }

    /// Whose messages come: what signs them, and what receipts are checked by.
    pub(super) fn partner(&self) -> &MessageCertificate {
        &self.partner
    }

    /// Who takes them: what they are encrypted for, and what signs receipts.
    pub(super) fn station(&self) -> &MessageCertificate {
        &self.station
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
    pub(super) async fn end(self) -> Result<(), Failure> {
        self.node.end().await
    }
}

/// A partner whose messages become files, and where they come.
fn nouns(
    args: &BenchAs2Args,
    partner: &MessageCertificate,
    station: &MessageCertificate,
    port: u16,
) -> [Value; 6] {
    let private = String::from_utf8_lossy(station.private.expose()).into_owned();
    let as2 = json!({
        "partner": args.from.as_str(), "station": args.to.as_str(), "account": NAME,
        "keys": ["bench-station"], "certificates": ["bench-partner"],
        "require": {
            "signature": "optional", "encryption": "optional", "digest": "sha-1",
            "triple_des": "accepted",
        },
    });
    [
        json!({"account": {"name": NAME, "type": "partner"}}),
        json!({"mount": {"name": NAME, "account": NAME, "path": "/", "endpoint": "files",
            "prefix": NAME}}),
        json!({"key": {"name": "bench-station", "type": "as2", "public": station.public,
            "private": private}}),
        json!({"key": {"name": "bench-partner", "type": "as2", "public": partner.public}}),
        json!({"endpoint": {"name": NAME, "target": {"as2": as2}}}),
        json!({"listener": {"name": "as2", "protocol": "http",
            "address": format!("127.0.0.1:{port}"), "http": {"serve": ["as2"]}}}),
    ]
}
