//! `data/addresses.json`: where the running server listens, for tools and people. It is there from
//! when the server is ready until it has stopped; a crash leaves it behind.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The file, and the node's own addresses, which stand in it beside those of the listeners.
#[derive(Clone)]
pub(crate) struct AddressesFile {
    path: PathBuf,
    own: OwnAddresses,
}

/// Addresses at which the node answers for itself.
#[derive(Clone, Copy, Default)]
pub(crate) struct OwnAddresses {
    /// Metrics and health.
    pub(crate) ops: Option<SocketAddr>,
    /// The line of the agent, for balancers.
    pub(crate) agent: Option<SocketAddr>,
}

impl AddressesFile {
    /// Names the file; nothing is written yet.
    pub(crate) fn new(data: &Path, own: OwnAddresses) -> AddressesFile {
        AddressesFile { path: data.join("addresses.json"), own }
    }

    /// Replaces the file. A server whose file cannot be written goes on, with a warning in the log.
    pub(crate) fn write(&self, listeners: &Value) {
        let OwnAddresses { ops, agent } = self.own;
        let all = json!({"ready": true, "ops": ops, "agent": agent, "listeners": listeners});
        let text = all.to_string();
        let temporary = self.path.with_extension("json.new");
        let written =
            std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, &self.path));
        if let Err(error) = written {
            tracing::warn!(
                %error, file = %self.path.display(), "cannot write where the server listens"
            );
        }
    }

    /// Removes the file, if it was written.
    pub(crate) fn remove(&self) {
        // A file that stays names addresses at which nothing answers, which a client notices.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_whole_and_removed_at_the_end() {
        let data = tempfile::tempdir().unwrap();
        let file = AddressesFile::new(
            data.path(),
            OwnAddresses { ops: Some("127.0.0.1:9422".parse().unwrap()), agent: None },
        );
        file.remove();
        file.write(&json!({"sftp": {"address": "127.0.0.1:2022"}}));
        file.write(&json!({}));
        let names = || -> Vec<_> {
            let entries = std::fs::read_dir(data.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(names(), ["addresses.json"], "nothing is left beside it");
        let text = std::fs::read_to_string(data.path().join("addresses.json")).unwrap();
        let written: Value = serde_json::from_str(&text).unwrap();
        let wanted =
            json!({"ready": true, "ops": "127.0.0.1:9422", "agent": null, "listeners": {}});
        assert_eq!(written, wanted);
        file.remove();
        assert!(names().is_empty());
    }
}
