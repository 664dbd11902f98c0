//! The end of a node whose journal failed to sync, and the word of it to the next start.
//!
//! What such a sync left on the disk is unknown, and a second sync that succeeds says nothing of
//! it: the kernel may have dropped the pages that it could not write. Records that were not
//! acknowledged may be there or not, and the running process counts on some of them. So the process
//! ends, with an exit code of its own, and the next start reads the journal, proves what is there,
//! and writes it anew. The event can only be recorded then; until then a small file remembers it,
//! if the disk takes that.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use entrepot_journal::{JournalError, Scope};
use entrepot_nouns::{Fact, SiteId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};
use crate::parts::Parts;

/// For so long the node goes on to answer balancers, that it takes nobody, before it ends.
pub(crate) const NOTICE: Duration = Duration::from_secs(3);

/// What is remembered until it can be recorded.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct FailedSync {
    at: Timestamp,
    problem: String,
}

fn file(data: &Path) -> PathBuf {
    data.join("journal-failed.json")
}

/// Remembers that the journal failed.
pub(crate) fn remember(data: &Path, at: Timestamp, error: &JournalError) {
    let failed = FailedSync { at, problem: error.to_string() };
    // The very disk may be broken: then only the log says it.
    let written = serde_json::to_vec(&failed).map_err(std::io::Error::other);
    if let Err(error) = written.and_then(|text| std::fs::write(file(data), text)) {
        tracing::error!(code = "EP0433", %error, "the next start will not record the failed sync");
    }
}

/// Records what an earlier run has left, if it has.
pub(crate) async fn record(data: &Path, parts: &Parts) {
    let file = file(data);
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => {
            tracing::warn!(code = "EP0433", %error, file = %file.display(), "cannot be read");
            return;
        }
    };
    let failed = serde_json::from_slice(&text).unwrap_or_else(|error| FailedSync {
        at: parts.env.now(),
        problem: format!("'{}' of the last run cannot be read: {error}", file.display()),
    });
    let FailedSync { at, problem } = failed;
    tracing::warn!(code = "EP0433", %at, problem, "the last run ended because its journal failed");
    let fact = Fact::JournalFailed { failed_at: at, problem };
    match parts.recorder.record_durable(&Scope::site(SiteId::MAIN), fact).await {
        Ok(_) => drop(std::fs::remove_file(&file)),
        Err(error) => tracing::error!(code = error.code(), %error, "it is not recorded"),
    }
}

/// How the server ends after that.
pub(crate) fn end(error: &JournalError) -> Failure {
    let why = format!(
        "the server ended because a write to its journal's disk failed, and must be started again, \
         which proves what the journal has: {error}"
    );
    Failure::new("EP0433", Exit::Journal, why)
}
