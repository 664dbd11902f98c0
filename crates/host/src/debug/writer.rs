//! The task that writes what was recorded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use entrepot_nouns::{Env, Name, SiteId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::record::{DebugRecords, Recorded, Shared};
use super::render::rendered;
use crate::model::Model;

/// Where files of records go.
pub trait DebugFiles: Send + Sync + 'static {
    /// Writes a file, and removes the oldest ones of the model where there are more than `most`.
    ///
    /// # Errors
    /// It cannot be written.
    fn keep(&self, place: &DebugPlace, text: &str, most: usize) -> std::io::Result<()>;
}

/// Which file it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugPlace {
    /// The site that owns the model.
    pub site: SiteId,
    /// What the model is called within its site.
    pub model: Name,
    /// The name of the file. In the order of names the oldest is the first.
    pub file: String,
}

/// Writes the records of the sessions of a model.
#[derive(Debug)]
pub struct DebugWriter {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Recorded>,
}

impl DebugWriter {
    /// The records of the sessions of a model, and who writes them.
    pub fn with_records(model: Arc<Model>, env: Env) -> (DebugRecords, DebugWriter) {
        let (records, queue) = DebugRecords::new(model, env);
        let shared = records.shared();
        (records, DebugWriter { shared, queue })
    }

    /// Writes until `ended`, and then what is left.
    pub async fn run(
        mut self,
        site: SiteId,
        model: Name,
        files: Arc<dyn DebugFiles>,
        ended: CancellationToken,
    ) {
        let place = DebugPlace { site, model, file: String::new() };
        loop {
            let recorded = tokio::select! {
                biased;
                recorded = self.queue.recv() => recorded,
                () = ended.cancelled() => {
                    self.queue.close();
                    self.queue.recv().await
                }
            };
            let Some(recorded) = recorded else { return };
            self.write(&place, Arc::clone(&files), recorded).await;
        }
    }

    async fn write(&self, place: &DebugPlace, files: Arc<dyn DebugFiles>, recorded: Recorded) {
        let shared = Arc::clone(&self.shared);
        let mut place = place.clone();
        let model = place.model.clone();
        let written = tokio::task::spawn_blocking(move || {
            let most = shared.files.load(Ordering::Relaxed) as usize;
            let file = rendered(&shared.model, recorded);
            let header = &file.header;
            let (session, part) = (header.session, header.part);
            place.file = format!("{}-{session:06}-{part:03}.jsonl", header.ended_at.compact());
            files.keep(&place, &file.to_string(), most)
        });
        let problem = match written.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::error!(code = "EP1319", %model, "a record of a session: {problem}");
    }
}
