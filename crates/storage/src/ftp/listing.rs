//! A directory being listed, line by line as it comes.

use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::BytesMut;
use entrepot_ftp_proto::Time;
use entrepot_ftp_proto::client::{Form, Moves, Op, Parser};
use entrepot_nouns::StorePath;

use super::lookup::meta_of;
use super::pool::Lease;
use crate::error::{Result, StoreError};
use crate::limits::{FTP_LIST_BYTES, LIST_PAGE};
use crate::parts::names;
use crate::store::{Entry, Listing};

/// A listing. It has its session until its end.
pub(super) struct FtpListing {
    lease: Option<Lease>,
    moves: Moves,
    parser: Parser,
    buffer: BytesMut,
    left: VecDeque<Entry>,
    /// Entries that were understood.
    entries: u64,
}

impl FtpListing {
    /// Asks for a directory.
    pub(super) async fn begin(mut lease: Lease, path: &StorePath) -> Result<Self> {
        let name = lease.path(path);
        let moves = match lease.begin(Op::List { path: name }).await {
            Ok(moves) => moves,
            Err(failed) if failed.is_absent() => return Err(StoreError::NotFound),
            Err(failed) => return Err(failed.into()),
        };
        let form = match moves {
            Moves::Long => Form::Long { now: Time::from_seconds(lease.now().seconds()) },
            _ => Form::Facts,
        };
        Ok(FtpListing {
            lease: Some(lease),
            moves,
            parser: Parser::new(form),
            buffer: BytesMut::new(),
            left: VecDeque::new(),
            entries: 0,
        })
    }

    /// The next entry, of ours too.
    pub(super) async fn next_entry(&mut self) -> Result<Option<Entry>> {
        while self.left.is_empty()
            && let Some(lease) = &mut self.lease
        {
            self.buffer.clear();
            let mut found = Vec::new();
            if lease.receive(&mut self.buffer, FTP_LIST_BYTES).await? == 0 {
                lease.finish(self.moves).await?;
                found.extend(self.parser.finish());
                self.lease = None;
            } else {
                let pushed = self.parser.push(&self.buffer, &mut found);
                pushed.map_err(|error| StoreError::Io(error.to_string()))?;
            }
            self.entries += u64::try_from(found.len()).unwrap_or(0);
            if self.lease.is_none() && self.entries == 0 && self.parser.lines() > 0 {
                return Err(StoreError::Unsupported(
                    "the server's listing is in no form that is known",
                ));
            }
            let known = found.iter().filter_map(|entry| {
                let plain = !matches!(entry.name.as_str(), "." | "..");
                Some(Entry { name: entry.name.clone(), meta: meta_of(entry).filter(|_| plain)? })
            });
            self.left.extend(known);
        }
        Ok(self.left.pop_front())
    }
}

#[async_trait]
impl Listing for FtpListing {
    async fn next_page(&mut self, max: usize) -> Result<Vec<Entry>> {
        let mut page = Vec::new();
        while page.len() < max.min(LIST_PAGE)
            && let Some(entry) = self.next_entry().await?
        {
            if names::is_shown(&entry.name) {
                page.push(entry);
            }
        }
        Ok(page)
    }
}
