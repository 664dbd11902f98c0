//! A file opened to read: one RETR for a reader that goes straight on, another wherever it jumps.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::BytesMut;
use entrepot_ftp_proto::client::{Moves, Op};
use entrepot_nouns::{StorePath, Timestamp};

use super::errors::Failed;
use super::lookup::find;
use super::pool::{Lease, Pool};
use crate::error::{Result, StoreError};
use crate::limits::FTP_RESTARTS;
use crate::store::{Meta, ReadFile, is_past_all};

/// A file of the server opened to read. It has a session while bytes come.
pub(super) struct FtpRead {
    pool: Arc<Pool>,
    path: StorePath,
    meta: Meta,
    /// When it was changed, if others may change it meanwhile.
    unchanged_since: Option<Timestamp>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The download that runs.
    lease: Option<Lease>,
    /// Its next byte.
    at: u64,
    restarts: u32,
}

fn changed() -> StoreError {
    StoreError::Io("the file changed while it was read".to_owned())
}

impl FtpRead {
    pub(super) fn new(pool: Arc<Pool>, path: StorePath, meta: Meta) -> Self {
        let unchanged_since = Some(meta.modified);
        FtpRead { pool, path, meta, unchanged_since, state: tokio::sync::Mutex::default() }
    }

    /// Of a part that nobody else writes: servers may be late with its time, its size is enough.
    pub(super) fn of_part(pool: Arc<Pool>, path: StorePath, meta: Meta) -> Self {
        FtpRead { unchanged_since: None, ..FtpRead::new(pool, path, meta) }
    }

    async fn begin(&self, state: &mut State) -> Result<(), Failed> {
        let mut lease = self.pool.lease_for_file().await.map_err(Failed::Store)?;
        let path = lease.path(&self.path);
        lease.begin(Op::Retrieve { path, offset: state.at }).await?;
        state.lease = Some(lease);
        Ok(())
    }

    /// The file must be what it was when it was opened.
    async fn check_unchanged(&self, lease: &mut Lease) -> Result<()> {
        let now = find(lease, &self.path).await?;
        let same_time = |now: &Meta| self.unchanged_since.is_none_or(|time| time == now.modified);
        let same = |now: Meta| now.size == self.meta.size && same_time(&now);
        if now.is_some_and(same) { Ok(()) } else { Err(changed()) }
    }

    /// Some bytes behind what came; the last ones only when the server has said that it is all.
    async fn some(&self, state: &mut State, buf: &mut BytesMut, most: usize) -> Result<(), Failed> {
        if state.lease.is_none() {
            self.begin(state).await?;
        }
        let Some(lease) = &mut state.lease else { return Ok(()) };
        let left = usize::try_from(self.meta.size - state.at).unwrap_or(usize::MAX);
        let count = lease.receive(buf, most.min(left)).await?;
        state.at += u64::try_from(count).unwrap_or(0);
        if count == 0 {
            lease.finish(Moves::Download).await?;
            let (has, said) = (state.at, self.meta.size);
            return Err(Failed::Short(format!("the server sent {has} bytes of {said}")));
        }
        Ok(())
    }

    /// Behind the last byte: nothing more comes, and the server says that it was all.
    async fn end(&self, state: &mut State) -> Result<()> {
        let Some(mut lease) = state.lease.take() else { return Ok(()) };
        if lease.receive(&mut BytesMut::new(), 1).await? > 0 {
            return Err(changed());
        }
        lease.finish(Moves::Download).await?;
        self.check_unchanged(&mut lease).await
    }

    /// After a cut: again from where it was, if the file is still the same.
    async fn recover(&self, state: &mut State, failed: Failed) -> Result<()> {
        state.lease = None;
        if !failed.was_cut() || state.restarts >= FTP_RESTARTS {
            return Err(failed.into());
        }
        state.restarts += 1;
        tracing::info!(path = %self.path, at = state.at, "a download is begun again");
        let mut lease = self.pool.lease().await?;
        self.check_unchanged(&mut lease).await
    }
}

#[async_trait]
impl ReadFile for FtpRead {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn try_read_at(&self, offset: u64, _buf: &mut [u8]) -> Result<Option<usize>> {
        Ok((offset >= self.meta.size).then_some(0))
    }

    async fn read_at(&self, offset: u64, mut buf: BytesMut, len: usize) -> Result<BytesMut> {
        if is_past_all(offset) || offset >= self.meta.size || len == 0 {
            return Ok(buf);
        }
        let mut state = self.state.lock().await;
        if state.at != offset {
            // A download that is left in the middle takes its session with it.
            *state = State { at: offset, restarts: state.restarts, ..State::default() };
        }
        let wanted = u64::try_from(len).unwrap_or(u64::MAX);
        let until = offset.saturating_add(wanted).min(self.meta.size);
        while state.at < until {
            let most = usize::try_from(until - state.at).unwrap_or(usize::MAX);
            if let Err(failed) = self.some(&mut state, &mut buf, most).await {
                self.recover(&mut state, failed).await?;
            }
        }
        if state.at == self.meta.size {
            let ended = self.end(&mut state).await;
            if ended.is_err() {
                // What came of it may not be taken for the file.
                *state = State::default();
            }
            ended?;
        }
        Ok(buf)
    }
}
