//! Requests that may take long, whatever the store: `check-file` and `copy-data`. They are carried
//! out in the channel's own task, and given up when the channel is gone.

use std::sync::Arc;

use bytes::Bytes;
use entrepot_nouns::VPath;
use entrepot_sftp_proto::Handle;
use entrepot_sftp_proto::reply::{self, Hashes};
use entrepot_vfs::{EntryKind, HashAlgorithm, HashRange, VfsError};

use super::channel_state::ChannelState;
use super::long_request::{Check, Copy, Long, Target, What};
use super::open::Open;
use crate::limits::HASH_ANSWER_BYTES;
use crate::out::Out;
use crate::problem::Problem;

impl ChannelState {
    /// Carries out and answers what takes long.
    pub(super) async fn long(&mut self, long: Long, out: &mut impl Out) {
        let Long { id, command, what } = long;
        let gone = self.gone.clone();
        let _running = self.shared.meter.running();
        let carried_out = async {
            match what {
                What::Check(check) => self.check_file(id, &check).await,
                What::Copy(copy) => {
                    self.settle(copy.to, out).await;
                    self.copy_data(&copy).await.map(|()| reply::ok(id))
                }
            }
        };
        let answer = tokio::select! {
            answer = carried_out => answer,
            () = gone.cancelled() => {
                self.broken = Some("the client closed the channel");
                return;
            }
        };
        self.conclude(id, command, answer, out).await;
    }

    async fn check_file(&mut self, id: u32, check: &Check) -> Result<Bytes, Problem> {
        let algorithm = check.algorithms.split(',').find_map(HashAlgorithm::named);
        let range = HashRange {
            algorithm: algorithm.ok_or(Problem::Algorithms)?,
            offset: check.offset,
            len: (check.len > 0).then_some(check.len),
            block: (check.block > 0).then_some(u64::from(check.block)),
        };
        let hashes = match &check.target {
            Target::Path(sent) => {
                let path = self.shared.path(sent)?;
                self.hash_path(&path, &range).await?
            }
            Target::Handle(handle) => self.hash_open(*handle, &range).await?,
        };
        let dialect = self.shared.software.check_file.unwrap_or(check.dialect);
        let hashes = Hashes {
            algorithm: range.algorithm.name(),
            hash_bytes: range.algorithm.bytes(),
            bytes: &hashes,
        };
        Ok(reply::check_file(id, dialect, &hashes))
    }

    async fn hash_path(&mut self, path: &VPath, range: &HashRange) -> Result<Vec<u8>, Problem> {
        self.notice(path);
        let found = self.shared.session.vfs().stat(path).await?;
        if found.kind == EntryKind::Directory {
            return Err(VfsError::IsDirectory.into());
        }
        check_answer(range, found.size)?;
        Ok(self.shared.hash_path(path, range).await?)
    }

    async fn hash_open(&mut self, handle: Handle, range: &HashRange) -> Result<Vec<u8>, Problem> {
        let shared = Arc::clone(&self.shared);
        let _one = shared.hashing.lock().await;
        let handle = self.standing_for(handle);
        match self.handles.get_mut(handle) {
            Some(Open::Download(open)) => {
                check_answer(range, open.file.attributes().size)?;
                Ok(open.file.hash(range).await?)
            }
            Some(Open::Upload(open)) => {
                check_answer(range, open.file.size())?;
                Ok(open.file.hash(range).await?)
            }
            Some(Open::Shared(_)) => {
                let file = self.published(handle).await?;
                check_answer(range, file.attributes().size)?;
                Ok(file.hash(range).await?)
            }
            Some(Open::Listing(_) | Open::Removed(_)) | None => Err(Problem::Handle),
        }
    }

    /// `copy-data` (OpenSSH `PROTOCOL` §4.10): the source's bytes as they were when it was opened.
    async fn copy_data(&mut self, copy: &Copy) -> Result<(), Problem> {
        let to = match self.handles.get(copy.to) {
            Some(Open::Shared(_)) => self.upload_behind(copy.to).await?,
            _ => copy.to,
        };
        let (from, to) = self.handles.pair_mut(copy.from, to).ok_or(Problem::Handle)?;
        let (Open::Download(from), Open::Upload(to)) = (from, to) else {
            return Err(Problem::Handle);
        };
        if from.path == to.path {
            return Err(Problem::SameFile);
        }
        let len = (copy.len > 0).then_some(copy.len);
        let at = to.place_of(copy.to_offset);
        to.file.copy_from(&from.file, copy.offset, len, at).await?;
        Ok(())
    }
}

fn check_answer(range: &HashRange, size: u64) -> Result<(), Problem> {
    if range.answer_bytes(size) > HASH_ANSWER_BYTES { Err(Problem::TooManyBlocks) } else { Ok(()) }
}
