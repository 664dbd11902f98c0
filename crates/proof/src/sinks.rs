//! Copies of the signed heads outside of the installation: whoever takes a node over, key and all,
//! cannot change what was sent before, and `journal verify --heads` compares with it.
//!
//! Heads are read from the database, in order, and the database keeps how far each sink has come.
//! So a sink that was away gets what it missed, nothing waits in memory, and nothing of the node
//! ever waits for a sink.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use entrepot_db::StoredHead;
use entrepot_journal::Scope;
use entrepot_nouns::{Fact, SiteId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::error::{ProofError, Result};
use crate::heads::{Heads, SinkMeters};
use crate::limits::{SINK_BATCH, SINK_FIRST_PAUSE, SINK_LONGEST_PAUSE, SINK_POLL};

/// A head as it is sent: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentHead {
    /// The last record that it covers.
    pub size: u64,
    /// When it was signed.
    pub at: Timestamp,
    /// The signed note (C2SP `tlog-checkpoint`).
    pub note: String,
}

/// Where heads are sent.
#[async_trait]
pub trait HeadSink: Send + Sync {
    /// Sends heads, in order, and returns when they are safe there. The same heads may come again.
    ///
    /// # Errors
    /// A sentence; they are sent again later.
    async fn send(&self, heads: &[SentHead]) -> std::result::Result<(), String>;

    /// How often it is looked whether there are heads to send.
    fn interval(&self) -> Duration {
        SINK_POLL
    }
}

/// Sends the heads of a node to one sink.
pub struct SinkTask {
    /// The heads of this node.
    pub heads: Heads,
    /// Where they go.
    pub sink: Box<dyn HeadSink>,
    /// Its counters, with what it is called.
    pub meters: Arc<SinkMeters>,
}

impl SinkTask {
    /// Sends each head, until `cancel` and then what is signed by then, if the sink takes it.
    pub async fn run(self, cancel: CancellationToken) {
        let mut pause = self.sink.interval();
        let mut refused = false;
        loop {
            let ended = tokio::select! {
                biased;
                () = cancel.cancelled() => true,
                () = tokio::time::sleep(pause) => false,
            };
            match self.send().await {
                Ok(()) => {
                    if refused {
                        tracing::info!(sink = %self.meters.name, "heads are sent again");
                    }
                    (pause, refused) = (self.sink.interval(), false);
                }
                Err(error) => {
                    self.meters.failures.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(code = error.code(), sink = %self.meters.name, "{error}");
                    if !refused {
                        self.record(&error);
                    }
                    pause = if refused {
                        (pause * 2).min(SINK_LONGEST_PAUSE)
                    } else {
                        SINK_FIRST_PAUSE
                    };
                    refused = true;
                }
            }
            if ended {
                return;
            }
        }
    }

    /// Sends what was not sent yet.
    async fn send(&self) -> Result<()> {
        let (db, node) = (self.heads.db(), self.heads.node_id());
        loop {
            let position = db.sink_position(node, &self.meters.name).await?;
            let heads = db.heads_after(node, position, SINK_BATCH).await?;
            let last = heads.last().map_or(position, |head| head.size);
            let newest = db.last_head(node).await?.map_or(last, |head| head.size);
            self.meters.behind.store(newest.saturating_sub(position), Ordering::Relaxed);
            if heads.is_empty() {
                return Ok(());
            }
            let sent: Vec<SentHead> = heads.into_iter().map(SentHead::from).collect();
            self.sink.send(&sent).await.map_err(|problem| {
                let sink = self.meters.name.clone();
                ProofError::Sink { sink, problem }
            })?;
            db.move_sink(node, &self.meters.name, last).await?;
            self.meters.sent.fetch_add(sent.len() as u64, Ordering::Relaxed);
            self.meters.behind.store(newest.saturating_sub(last), Ordering::Relaxed);
        }
    }

    fn record(&self, error: &ProofError) {
        let fact = Fact::SinkFailed { sink: self.meters.name.clone(), problem: error.to_string() };
        let recorder = self.heads.recorder();
        if let Err(error) = recorder.record(&Scope::site(SiteId::MAIN), fact) {
            tracing::warn!(code = error.code(), "what befell a sink is not recorded: {error}");
        }
    }
}

impl From<StoredHead> for SentHead {
    fn from(head: StoredHead) -> Self {
        SentHead { size: head.size, at: head.at, note: head.note }
    }
}

/// The heads of a file of lines as sinks write them. Other lines, such as syslog puts before a
/// message, are read from their first brace on.
///
/// # Errors
/// [`ProofError::Sink`] with the first line that has none.
pub fn read_heads(name: &str, text: &str) -> Result<Vec<SentHead>> {
    let mut heads = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let json = line.find('{').and_then(|at| line.get(at..)).unwrap_or_default();
        heads.push(serde_json::from_str(json).map_err(|error| ProofError::Sink {
            sink: name.to_owned(),
            problem: format!("line {number} is no head: {error}"),
        })?);
    }
    heads.sort_by_key(|head: &SentHead| head.size);
    Ok(heads)
}
