//! Requests that may take long, whatever the store: `check-file` and `copy-data`. They are carried
//! out in the channel's own task, and given up when the channel is gone.

use std::sync::Arc;

use bytes::Bytes;
use entrepot_model::VPath;
use entrepot_sftp_proto::reply::{self, Hashes};
use entrepot_sftp_proto::request::{CheckDialect, CheckTarget};
use entrepot_sftp_proto::{Handle, Request};
use entrepot_vfs::{Begun, EntryKind, HashAlgorithm, HashRange, VfsError};

use super::files::Open;
use super::{Core, Problem};
use crate::limits::HASH_ANSWER_BYTES;
use crate::out::Out;

/// A long request that waits for the channel's own task.
pub(super) struct Long {
    id: u32,
    /// Rules were asked about it.
    begun: Option<Begun>,
    what: What,
}

enum What {
    Check(Check),
    Copy(Copy),
}

struct Check {
    target: Target,
    algorithms: String,
    offset: u64,
    len: u64,
    block: u32,
    dialect: CheckDialect,
}

enum Target {
    Path(String),
    Handle(Handle),
}

struct Copy {
    from: Handle,
    offset: u64,
    len: u64,
    to: Handle,
    to_offset: u64,
}

impl Long {
    /// The request, if it is a long one.
    pub(super) fn of((id, begun): (u32, Option<Begun>), request: &Request<'_>) -> Option<Long> {
        let what = match *request {
            Request::CheckFile { target, algorithms, offset, len, block, dialect } => {
                let target = match target {
                    CheckTarget::Path(path) => Target::Path(path.to_owned()),
                    CheckTarget::Handle(handle) => Target::Handle(handle),
                };
                let algorithms = algorithms.to_owned();
                What::Check(Check { target, algorithms, offset, len, block, dialect })
            }
            Request::CopyData { from, offset, len, to, to_offset } => {
                What::Copy(Copy { from, offset, len, to, to_offset })
            }
            _ => return None,
        };
        Some(Long { id, begun, what })
    }
}

impl Core {
    /// Carries out and answers what takes long.
    pub(super) async fn long(&mut self, long: Long, out: &mut impl Out) {
        let Long { id, begun, what } = long;
        let gone = self.gone.clone();
        let _running = self.account.meter.running();
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
        self.conclude((id, begun), answer, out).await;
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
                let path = self.account.path(sent)?;
                self.hash_path(&path, &range).await?
            }
            Target::Handle(handle) => self.hash_open(*handle, &range).await?,
        };
        let dialect = self.account.software.check_file.unwrap_or(check.dialect);
        let hashes = Hashes {
            algorithm: range.algorithm.name(),
            hash_bytes: range.algorithm.bytes(),
            bytes: &hashes,
        };
        Ok(reply::check_file(id, dialect, &hashes))
    }

    async fn hash_path(&mut self, path: &VPath, range: &HashRange) -> Result<Vec<u8>, Problem> {
        self.notice(path);
        let found = self.account.session.vfs().stat(path).await?;
        if found.kind == EntryKind::Directory {
            return Err(VfsError::IsDirectory.into());
        }
        check_answer(range, found.size)?;
        Ok(self.account.hash_path(path, range).await?)
    }

    async fn hash_open(&mut self, handle: Handle, range: &HashRange) -> Result<Vec<u8>, Problem> {
        let account = Arc::clone(&self.account);
        let _one = account.hashing.lock().await;
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
        let at = if to.append { to.file.size() } else { copy.to_offset };
        to.file.copy_from(&from.file, copy.offset, len, at).await?;
        Ok(())
    }
}

fn check_answer(range: &HashRange, size: u64) -> Result<(), Problem> {
    match range.answer_bytes(size) > HASH_ANSWER_BYTES {
        true => Err(Problem::TooManyBlocks),
        false => Ok(()),
    }
}
