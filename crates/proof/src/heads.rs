//! Signs the head of the journal while the node runs.
//!
//! Only records that are durable are covered, so a head that exists outlives every crash: a
//! journal that is shorter than a signed head, or has another root at its length, was altered.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use entrepot_crypto::merkle::Hash;
use entrepot_crypto::{Checkpoint, NoteSigner, NoteVerifier};
use entrepot_db::{Db, StoredHead};
use entrepot_journal::{Journal, JournalError, Medium, Reader, Record, Recorder, Scope};
use entrepot_nouns::{Env, Fact, Name, NodeId, SiteId};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::error::{ProofError, Result};
use crate::leaves;
use crate::limits::{HEAD_INTERVAL, LEAVES};
use crate::tree::TreeFiles;

/// What heads are made with.
pub struct HeadParts {
    /// Keeps the heads.
    pub db: Db,
    /// The journal, its node and the clock.
    pub recorder: Recorder,
    /// Where the journal's files are, which the hashes lie beside.
    pub medium: Arc<dyn Medium>,
    /// The key of the node; its name is [`origin`].
    pub signer: NoteSigner,
}

/// Signs heads, and knows what has been signed. Cheap to clone.
#[derive(Clone)]
pub struct Heads {
    shared: Arc<Shared>,
}

struct Shared {
    db: Db,
    recorder: Recorder,
    signer: NoteSigner,
    tree: Arc<Mutex<TreeFiles>>,
    /// The last head that was signed; kept in the database if that was there.
    signed: watch::Sender<Option<StoredHead>>,
    /// Someone waits for a head.
    wanted: Notify,
    /// Counters of what sends heads elsewhere.
    sinks: Mutex<Vec<Arc<SinkMeters>>>,
}

/// How heads that are sent elsewhere do.
#[derive(Debug, Default)]
pub struct SinkMeters {
    /// What the sink is called, here and in the database.
    pub name: String,
    /// Heads sent since the start.
    pub sent: AtomicU64,
    /// Attempts that failed since the start.
    pub failures: AtomicU64,
    /// Records that signed heads cover and the last head that was sent does not.
    pub behind: AtomicU64,
}

/// The name of the log of a node's journal, and of the key that signs its heads. A node of the same
/// name that is made anew has another journal, and so another log.
pub fn origin(node: &Name, id: NodeId) -> String {
    format!("entrepot/{node}/{id}")
}

/// Compares the end of the journal with what the database knows of it, before anything is recorded
/// in this run. If the journal is shorter than it was, that is recorded, and the node goes on with
/// numbers that it has not used.
///
/// # Errors
/// Those of the database and of the journal.
pub async fn check_end(db: &Db, recorder: &Recorder) -> Result<()> {
    let (journal, node) = (recorder.journal(), recorder.node_id());
    let signed = db.last_head(node).await?.map_or(0, |head| head.size);
    let known = signed.max(db.projected_up_to(node).await?);
    let last = journal.usage().appended;
    if last >= known {
        return Ok(());
    }
    let problem = format!(
        "the journal ends at record {last}, but its records up to {known} were signed or are in \
         the database"
    );
    tracing::error!(code = "EP0626", "the journal was cut or replaced: {problem}");
    journal.skip_past(known).await?;
    let fact = Fact::JournalAltered { up_to: known, problem };
    recorder.record_durable(&Scope::site(SiteId::MAIN), fact).await?;
    Ok(())
}

impl Heads {
    /// Opens the tree beside the journal. Nothing is signed before [`Heads::run`].
    ///
    /// # Errors
    /// [`ProofError::Tree`].
    pub fn open(parts: HeadParts) -> Result<Self> {
        let HeadParts { db, recorder, medium, signer } = parts;
        let tree = Arc::new(Mutex::new(TreeFiles::open(&*medium)?));
        let (signed, wanted) = (watch::Sender::new(None), Notify::new());
        let sinks = Mutex::default();
        let shared = Shared { db, recorder, signer, tree, signed, wanted, sinks };
        Ok(Heads { shared: Arc::new(shared) })
    }

    /// The counters of a sink, which are listed from then on.
    pub fn sink_meters(&self, name: &str) -> Arc<SinkMeters> {
        let meters = SinkMeters { name: name.to_owned(), ..SinkMeters::default() };
        let meters = Arc::new(meters);
        self.shared.sinks.lock().push(meters.clone());
        meters
    }

    /// The counters of all sinks.
    pub fn sinks(&self) -> Vec<Arc<SinkMeters>> {
        self.shared.sinks.lock().clone()
    }

    /// The key that verifies the heads of this node.
    pub fn verifier(&self) -> &NoteVerifier {
        self.shared.signer.verifier()
    }

    /// Signs heads until `cancel`, and then one that covers all that is durable.
    pub async fn run(self, cancel: CancellationToken) {
        let Some(mut reader) = self.begin(&cancel).await else { return };
        // The last record in the tree: the reader may have passed marks that are not in it yet.
        let mut done = reader.position();
        let mut kept = true;
        loop {
            let records = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                records = reader.next_batch(LEAVES) => records,
                () = self.shared.wanted.notified() => Ok(Vec::new()),
                () = tokio::time::sleep(HEAD_INTERVAL), if !kept => Ok(Vec::new()),
            };
            let result = match records {
                Ok(records) => self.take(&mut reader, done, &records).await,
                Err(JournalError::Closed | JournalError::Suspect { .. }) => return,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = result {
                warn(&error);
                if !self.pause(&cancel, HEAD_INTERVAL).await {
                    return;
                }
                let Some(again) = self.begin(&cancel).await else { return };
                reader = again;
                done = reader.position();
                continue;
            }
            done = reader.position();
            kept = self.sign_and_keep().await;
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = self.shared.wanted.notified() => {}
                () = tokio::time::sleep(HEAD_INTERVAL) => {}
            }
        }
        match self.take(&mut reader, done, &[]).await {
            Ok(()) => _ = self.sign_and_keep().await,
            Err(error) => warn(&error),
        }
    }

    /// A reader behind what the tree has, once the tree is known to agree with the last head.
    /// `None`: the node ends, or what is here is not the journal of that head.
    async fn begin(&self, cancel: &CancellationToken) -> Option<Reader> {
        loop {
            match self.agree().await {
                Ok(reader) => return Some(reader),
                Err(ProofError::Forked { size }) => {
                    let error = ProofError::Forked { size };
                    tracing::error!(code = error.code(), "no head is signed any more: {error}");
                    self.record(size, &error);
                    return None;
                }
                Err(error) => warn(&error),
            }
            if !self.pause(cancel, HEAD_INTERVAL).await {
                return None;
            }
        }
    }

    /// Makes the tree agree with the last head, from the journal if its files do not.
    async fn agree(&self) -> Result<Reader> {
        let last = self.shared.db.last_head(self.node_id()).await?;
        let journal = self.shared.recorder.journal();
        let Some(last) = last else {
            self.on_tree(|tree| tree.cut(0)).await?;
            return Ok(journal.reader(0));
        };
        let checkpoint = Checkpoint::open(&last.note, self.verifier())
            .map_err(|_| ProofError::Forked { size: last.size })?;
        let (size, root) = (checkpoint.size, checkpoint.root);
        if !self.on_tree(move |tree| Ok(tree.root(size).ok() == Some(root))).await? {
            self.rebuild(journal, size).await?;
            if !self.on_tree(move |tree| Ok(tree.root(size).ok() == Some(root))).await? {
                return Err(ProofError::Forked { size });
            }
        }
        // What lies behind the head may not have been durable: it is read again.
        self.on_tree(move |tree| tree.cut(size)).await?;
        Ok(journal.reader(size))
    }

    /// Computes the tree again up to a head, from the first record on.
    async fn rebuild(&self, journal: &Journal, size: u64) -> Result<()> {
        self.on_tree(|tree| tree.cut(0)).await?;
        let mut reader = journal.reader(0);
        while reader.position() < size {
            let leaves = leaves::next(&mut reader)?;
            if leaves.is_empty() {
                // The journal ends before the head.
                return Err(ProofError::Forked { size });
            }
            self.on_tree(move |tree| tree.append(&leaves)).await?;
        }
        Ok(())
    }

    /// Appends these records, and all others that are durable now.
    async fn take(&self, reader: &mut Reader, after: u64, records: &[Record]) -> Result<()> {
        let mut leaves = leaves::hashes(records, after, reader.position())?;
        loop {
            let part: Vec<Hash> = std::mem::take(&mut leaves);
            self.on_tree(move |tree| tree.append(&part)).await?;
            leaves = leaves::next(reader)?;
            if leaves.is_empty() {
                return Ok(());
            }
        }
    }

    /// Signs the head of the tree as it is, and keeps it in the database; false if it could not,
    /// and must be asked again.
    async fn sign_and_keep(&self) -> bool {
        let made = self.on_tree(|tree| {
            tree.sync()?;
            Ok((tree.size(), tree.root(tree.size())?))
        });
        let (size, root) = match made.await {
            Ok(made) => made,
            Err(error) => {
                warn(&error);
                return false;
            }
        };
        if self.shared.signed.borrow().as_ref().is_some_and(|head| head.size == size) {
            return true;
        }
        let at = self.env().now();
        let checkpoint = Checkpoint {
            origin: origin(self.node(), self.node_id()),
            size,
            root,
            extensions: vec![format!("time {at}")],
        };
        let note = self.shared.signer.sign(&checkpoint.text());
        let head = StoredHead { size, at, note };
        match self.shared.db.insert_head(self.node_id(), &head).await {
            Ok(()) => {
                self.shared.signed.send_replace(Some(head));
                true
            }
            Err(error) => {
                warn(&error.into());
                false
            }
        }
    }

    fn record(&self, size: u64, error: &ProofError) {
        let fact = Fact::JournalAltered { up_to: size, problem: error.to_string() };
        let recorded = self.shared.recorder.record(&Scope::site(SiteId::MAIN), fact);
        if let Err(error) = recorded {
            warn(&error.into());
        }
    }

    /// Waits; false if the node ends.
    async fn pause(&self, cancel: &CancellationToken, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = cancel.cancelled() => false,
            () = tokio::time::sleep(time) => true,
        }
    }

    /// Works on the tree's files, which may wait for the disk.
    pub(crate) async fn on_tree<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut TreeFiles) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let tree = self.shared.tree.clone();
        let worked = tokio::task::spawn_blocking(move || work(&mut tree.lock())).await;
        worked.unwrap_or_else(|_| {
            let ended = std::io::Error::other("the thread that worked on it has ended");
            Err(ProofError::tree("tree", &ended))
        })
    }

    /// A head that covers the record `sequence`: an older one, or the next, which is asked for.
    /// `None` if the database knows none.
    pub(crate) async fn covering(&self, sequence: u64) -> Result<Option<StoredHead>> {
        let mut signed = self.shared.signed.subscribe();
        if let Some(head) = self.shared.db.head_covering(self.node_id(), sequence).await? {
            return Ok(Some(head));
        }
        self.shared.wanted.notify_one();
        let covers =
            |head: &Option<StoredHead>| head.as_ref().is_some_and(|head| head.size >= sequence);
        let waited = tokio::time::timeout(crate::limits::RECEIPT_WAIT, signed.wait_for(covers));
        Ok(waited.await.ok().and_then(|head| head.ok()?.clone()))
    }

    pub(crate) fn db(&self) -> &Db {
        &self.shared.db
    }

    pub(crate) fn journal(&self) -> &Journal {
        self.shared.recorder.journal()
    }

    pub(crate) fn node(&self) -> &Name {
        self.shared.recorder.node()
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    pub(crate) fn signer(&self) -> &NoteSigner {
        &self.shared.signer
    }

    pub(crate) fn node_id(&self) -> NodeId {
        self.shared.recorder.node_id()
    }

    pub(crate) fn env(&self) -> &Env {
        self.shared.recorder.env()
    }
}

fn warn(error: &ProofError) {
    tracing::warn!(code = error.code(), "the head of the journal is not signed now: {error}");
}
