//! What the channels of one SSH connection share: the session, its meter, and the limits that hold
//! for all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use entrepot_net::meter::SessionMeter;
use entrepot_nouns::{Env, VPath};
use entrepot_sftp_proto::ClientSoftware;
use entrepot_sftp_proto::limits::HANDLES;
use entrepot_vfs::{HashRange, Session, VfsError};

use crate::attributes::Ownership;
use crate::limits::{ANSWER_BYTES, LEAST_ANSWER_BYTES, THROTTLED_ANSWER_TIME};
use crate::problem::Problem;

/// What all channels of an SSH connection share after its login.
pub(crate) struct ConnectionShared {
    pub(crate) session: Session,
    pub(crate) meter: Arc<SessionMeter>,
    pub(crate) env: Env,
    pub(crate) owner: Ownership,
    /// The client is OpenSSH's: it prints what comes on standard error.
    pub(crate) is_openssh: bool,
    /// What the client does in its own way.
    pub(crate) software: ClientSoftware,
    /// Handles open on all channels.
    pub(crate) open: Arc<AtomicUsize>,
    /// Held while something is hashed: one at a time a connection.
    pub(crate) hashing: tokio::sync::Mutex<()>,
}

/// Counts an open handle until it is dropped.
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionShared {
    pub(crate) fn count(&self) -> Result<Counted, Problem> {
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&self.open));
        if before >= HANDLES { Err(Problem::TooManyHandles) } else { Ok(counted) }
    }

    pub(crate) fn path(&self, sent: &str) -> Result<VPath, Problem> {
        Ok(self.session.vfs().home().resolve(sent.as_bytes())?)
    }

    /// Hashes a published file.
    pub(crate) async fn hash_path(
        &self,
        path: &VPath,
        range: &HashRange,
    ) -> Result<Vec<u8>, VfsError> {
        let _one = self.hashing.lock().await;
        self.session.vfs().hash(path, range).await
    }

    /// Bytes of answers for one call: fewer where many sessions are open, and few for a throttled
    /// client, whose writes would stick.
    pub(crate) fn budget(&self) -> u64 {
        let share = self.meter.throttles().and_then(|throttles| throttles.download.least_share());
        let most = self.session.answer_bytes().clamp(LEAST_ANSWER_BYTES, ANSWER_BYTES);
        share.map_or(most, |share| {
            let taken = share.saturating_mul(THROTTLED_ANSWER_TIME.as_secs());
            taken.clamp(LEAST_ANSWER_BYTES, most)
        })
    }
}
