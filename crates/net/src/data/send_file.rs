//! sendfile(2): a file goes to a socket without passing through this program.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::{Errno, ReadWriteFlags};

use super::DataSocket;
use super::buffer::UploadBuffer;
use crate::limits::DATA_STEP_BYTES;

/// `f_type` of tmpfs and ramfs (statfs(2)).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What is left to send of a file.
#[derive(Debug)]
pub struct FileRange {
    file: Arc<OwnedFd>,
    offset: u64,
    left: u64,
    cache: Cache,
}

/// What is known of the page cache where the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    /// Bytes up to here were in it a moment ago; a look tells of more.
    WarmTo(u64),
    /// All is in memory.
    IsFile,
    /// The file system does not tell.
    Unknown,
}

impl FileRange {
    /// `length` bytes of `file` from `offset`.
    pub fn new(file: Arc<OwnedFd>, offset: u64, length: u64) -> Self {
        FileRange { file, offset, left: length, cache: Cache::WarmTo(0) }
    }

    /// The file is in memory: no step waits for a disk, and none is asked whether it would.
    pub fn note_in_memory(&mut self) {
        self.cache = Cache::IsFile;
    }

    /// Bytes that are not sent yet; 0 at the end of the range.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Where the next byte is in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn step(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX).min(DATA_STEP_BYTES)
    }

    /// True if the next step is likely not to wait for a disk: sendfile has no RWF_NOWAIT, so its
    /// last byte is asked for.
    fn is_warm(&mut self) -> bool {
        let end = self.offset + u64::try_from(self.step()).unwrap_or(0);
        match self.cache {
            Cache::IsFile => return true,
            Cache::WarmTo(to) if end <= to => return true,
            Cache::Unknown => return false,
            Cache::WarmTo(_) => {}
        }
        let mut byte = [0];
        let mut slices = [io::IoSliceMut::new(&mut byte)];
        let at = end.saturating_sub(1);
        match rustix::io::preadv2(&self.file, &mut slices, at, ReadWriteFlags::NOWAIT) {
            Ok(_) => {
                self.cache = Cache::WarmTo(end);
                true
            }
            Err(Errno::AGAIN) => false,
            Err(_) => {
                let kind = rustix::fs::fstatfs(&self.file).map(|stat| stat.f_type);
                let kind = kind.ok().and_then(|kind| u64::try_from(kind).ok());
                let in_memory = kind.is_some_and(|kind| IN_MEMORY.contains(&kind));
                self.cache = if in_memory { Cache::IsFile } else { Cache::Unknown };
                in_memory
            }
        }
    }

    /// Reads the next step on a thread that may wait, so that sendfile finds it in the cache.
    async fn warm(&mut self) -> io::Result<()> {
        let (file, from, length) = (Arc::clone(&self.file), self.offset, self.step());
        let reading = tokio::task::spawn_blocking(move || read_through(&file, from, length));
        reading.await.map_err(io::Error::other)??;
        if self.cache != Cache::Unknown {
            self.cache = Cache::WarmTo(from + u64::try_from(length).unwrap_or(0));
        }
        Ok(())
    }
}

fn read_through(file: &OwnedFd, from: u64, length: usize) -> io::Result<()> {
    let mut buffer = UploadBuffer::default();
    let end = from + u64::try_from(length).unwrap_or(0);
    let mut at = from;
    while at < end {
        let count = rustix::io::pread(file, buffer.space(), at)?;
        if count == 0 {
            break;
        }
        at += u64::try_from(count).unwrap_or(0);
    }
    Ok(())
}

impl DataSocket {
    /// Sends a step of a file, at most 1 MiB and what the throttles let pass; answers how much,
    /// 0 at the end of the range. May be dropped while it waits: nothing is lost.
    pub(super) async fn send_step(&mut self, range: &mut FileRange) -> io::Result<usize> {
        if range.left == 0 {
            return Ok(0);
        }
        if !range.is_warm() {
            range.warm().await?;
        }
        let sent = std::future::poll_fn(|cx| self.poll_send(range, cx)).await?;
        if sent == 0 {
            let short = "the file became shorter while it was sent";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, short));
        }
        range.left = range.left.saturating_sub(u64::try_from(sent).unwrap_or(u64::MAX));
        self.meter().sent(sent);
        Ok(sent)
    }

    fn poll_send(
        &mut self,
        range: &mut FileRange,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let most = ready!(self.poll_may_write(cx))?.min(range.step());
        let FileRange { file, offset, .. } = range;
        let sent = self.get_mut().get_mut().poll_write_by(cx, |socket| {
            Ok(rustix::fs::sendfile(socket, &*file, Some(&mut *offset), most)?)
        });
        if sent.is_pending() {
            self.wait_to_write(cx);
        }
        self.unless_cut(sent)
    }
}
