//! The seam: what every kind of store can do, in the words that `vfs` and the engine use.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::{Displaced, StorePath, Timestamp, TransferId, rule};

use crate::budget::{Holder, Share};
use crate::error::{Result, StoreError};
use crate::thread::Threads;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A file: bytes under a name.
    File,
    /// A directory, also one that exists only as a prefix of names.
    Directory,
    /// A symbolic link, told only by what [`Store::with_links`] gives.
    Link,
}

/// Tells one stored file from every other, over renames and restarts: inode and birth time on a
/// disk, upload id or entity tag on an object store. Opaque; recovery only compares it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub String);

/// What is known of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// File or directory.
    pub kind: EntryKind,
    /// Bytes of a file, or of what a link says; 0 for a directory.
    pub size: u64,
    /// Last change of the bytes.
    pub modified: Timestamp,
    /// Last access as far as the store keeps it, else the same as `modified`.
    pub accessed: Timestamp,
    /// Which file it is; `None` where the store cannot tell.
    pub identity: Option<Identity>,
    /// Permission bits with set-uid, set-gid and sticky (`07777`); `None` where there are none.
    pub mode: Option<u32>,
}

impl Meta {
    /// The file as events name it once another one has its name.
    pub fn displaced(&self) -> Displaced {
        Displaced { identity: self.identity.as_ref().map(|identity| identity.0.clone()) }
    }
}

/// Where permission bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeOrigin {
    /// They were named when the file or directory was made: what the umask of the process takes
    /// from all that is new is taken from them too, as by `open(2)` and `mkdir(2)`.
    Creation,
    /// They are to be so, as by `chmod(2)`.
    Request,
}

/// Permission bits that a file or directory is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeChange {
    /// The wanted bits.
    pub bits: u32,
    /// Those of them that count: the others stay as they are.
    pub mask: u32,
    /// Where they come from.
    pub origin: ModeOrigin,
}

impl ModeChange {
    /// What comes of the bits that are there. The owner of a file may always read it, and of a
    /// directory do everything: it is this process, which no client may shut out.
    pub fn of(self, now: u32, kind: EntryKind) -> u32 {
        let mask = match self.origin {
            ModeOrigin::Request => self.mask,
            // A new file has the read and write bits that the umask leaves it, and none to
            // execute: the right to read includes the right to execute.
            ModeOrigin::Creation => self.mask & (now | (now & 0o444) >> 2),
        };
        let least = match kind {
            EntryKind::Directory => 0o700,
            EntryKind::File | EntryKind::Link => 0o400,
        };
        now & !mask | self.bits & mask | least
    }
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The plain name, one component.
    pub name: String,
    /// What it is.
    pub meta: Meta,
}

/// What a store can do; upstream code asks here instead of asking for the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Writes may come in any order; else each must begin where the last ended.
    pub random_write: bool,
    /// `rename` shows the file under exactly one of the names at any time.
    pub atomic_rename: bool,
    /// Directories exist by themselves (else they are prefixes of names).
    pub directories: bool,
    /// Files have permission bits, which can be set.
    pub modes: bool,
    /// `resume` can continue a kept file.
    pub resume: bool,
    /// What is staged lies apart from what has the name; else the first byte written overwrites
    /// that, and nothing may be laid over it.
    pub staged_apart: bool,
    /// I/O never waits for a network.
    pub local: bool,
    /// What [`StagedFile::sync`] and [`StagedFile::sync_name`] made durable is staged still after
    /// a power cut, for `resume` by another process that knows no more than the id.
    pub durable_staging: bool,
}

/// Room at an endpoint, in bytes and files; `u64::MAX` where there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size of the whole.
    pub total_bytes: u64,
    /// Still free for this process.
    pub free_bytes: u64,
    /// Most files it can hold.
    pub total_files: u64,
    /// Files that can still be made.
    pub free_files: u64,
}

/// What to do when the name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Existing {
    /// The newcomer takes the name; until then the old version is whole and visible.
    Replace,
    /// Fail with [`crate::StoreError::Exists`].
    Refuse,
}

impl From<rule::Existing> for Existing {
    fn from(existing: rule::Existing) -> Self {
        match existing {
            rule::Existing::Replace => Existing::Replace,
            rule::Existing::Refuse => Existing::Refuse,
        }
    }
}

/// How a rename ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renamed {
    /// The file that had the new name and lost it; `None`: the name was free.
    pub displaced: Option<Displaced>,
}

impl Renamed {
    /// A file of that name was there and is gone.
    pub fn replaced(&self) -> bool {
        self.displaced.is_some()
    }
}

/// How to publish a staged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// What to do when the name is taken.
    pub existing: Existing,
    /// Time of last access to set; `None`: now.
    pub accessed: Option<Timestamp>,
    /// Time of last change to set; `None`: as it is.
    pub modified: Option<Timestamp>,
    /// Permission bits to set before the name is given; stores without them ignore it.
    pub mode: Option<ModeChange>,
    /// Bytes the file must have; anything else fails and publishes nothing.
    pub size: u64,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The file that had the name and lost it; `None`: the name was free.
    pub displaced: Option<Displaced>,
    /// Which file now bears the name; equal to what `stat` says of it.
    pub identity: Option<Identity>,
    /// The file as it now is.
    pub meta: Meta,
}

impl Published {
    /// A file of that name was there and is gone.
    pub fn replaced(&self) -> bool {
        self.displaced.is_some()
    }
}

/// What came of a publish that was to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBack {
    /// What had the name has it again, and the bytes are staged as before.
    Restored,
    /// Another file has got the name since, and keeps it. Nothing of this one is left.
    Overtaken,
}

/// A staged file found in a store, for recovery and sweeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The transfer it belongs to.
    pub id: TransferId,
    /// Bytes so far.
    pub size: u64,
    /// When it was written last.
    pub modified: Timestamp,
    /// Which file it is.
    pub identity: Option<Identity>,
}

/// The bytes of one endpoint. Every call takes checked paths below the root; nothing a caller
/// can say reaches outside of it. `remove`, `rename`, `make_directory`, `remove_directory` and
/// `publish` are durable when they return.
///
/// Links, devices, pipes and sockets do not exist for a store, nor does its staging area. None is
/// ever followed; see [`Store::with_links`].
#[async_trait]
pub trait Store: Send + Sync {
    /// What this store can do; fixed for its life.
    fn caps(&self) -> Caps;

    /// Where a row of calls is best made on one thread, because each would wait for a disk on a
    /// thread of its own.
    fn threads(&self) -> Option<Threads> {
        None
    }

    /// What is known of a name. The root always exists.
    async fn stat(&self, path: &StorePath) -> Result<Meta>;

    /// Begins to list a directory.
    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>>;

    /// Opens a file to read. What was opened stays readable as it was when it is replaced.
    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>>;

    /// A new, empty, hidden file on the same file system as `target`, to be published there.
    /// Fails early if `target` cannot be: its directory is missing, or it is a directory.
    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>>;

    /// A file that was staged before and kept. [`crate::StoreError::Unavailable`] while another
    /// handle of it is still at work.
    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>>;

    /// Tells of a staged file that an earlier process kept, in the words of its
    /// [`StagedFile::ticket`], for stores that do not find it by themselves: `resume`, `staged` and
    /// `discard_staged` then know it. Nothing is asked of the far side.
    fn adopt(&self, _id: TransferId, _target: &StorePath, _ticket: &str) -> Result<()> {
        Ok(())
    }

    /// Says that another process may have staged a file for `target`, for stores that look through
    /// the far side once only: `staged` and `discard_staged` then look for it. Nothing is asked of
    /// the far side.
    fn may_be_staged(&self, _id: TransferId, _target: &StorePath) {}

    /// All staged files of this store, for recovery and sweeping.
    async fn staged(&self) -> Result<Vec<Staged>>;

    /// Drops a staged file; not an error if there is none.
    async fn discard_staged(&self, id: TransferId) -> Result<()>;

    /// Removes a file.
    async fn remove(&self, path: &StorePath) -> Result<()>;

    /// Makes a directory; its parent must exist.
    async fn make_directory(&self, path: &StorePath) -> Result<()>;

    /// As [`Store::make_directory`], with permission bits where the store has them.
    async fn make_directory_with(&self, path: &StorePath, _mode: ModeChange) -> Result<()> {
        self.make_directory(path).await
    }

    /// Removes an empty directory.
    async fn remove_directory(&self, path: &StorePath) -> Result<()>;

    /// Gives a file or directory another name. A directory never replaces anything.
    async fn rename(&self, from: &StorePath, to: &StorePath, existing: Existing)
    -> Result<Renamed>;

    /// Gives a file a second name, which must be free. [`crate::StoreError::Unsupported`] where
    /// files have one name only.
    async fn link(&self, _from: &StorePath, _to: &StorePath) -> Result<()> {
        Err(crate::StoreError::Unsupported("second names of files"))
    }

    /// The same store, at work for somebody: whose turn it is where there are few places, and whose
    /// memory what waits is counted in. `None` where it makes no difference.
    fn for_user(&self, _user: &StoreUser) -> Option<AnyStore> {
        None
    }

    /// The same store, to which symbolic links exist as names: `stat` and `list` tell them,
    /// `remove` and `rename` take the link itself. Still none is followed. `None` where there are
    /// none.
    fn with_links(&self) -> Option<AnyStore> {
        None
    }

    /// What a symbolic link says; `None` if the name is not one's.
    async fn read_link(&self, _path: &StorePath) -> Result<Option<String>> {
        Err(crate::StoreError::Unsupported("symbolic links"))
    }

    /// Makes a symbolic link at a name, which must be free. Durable when it returns.
    async fn make_link(&self, _target: &str, _path: &StorePath) -> Result<()> {
        Err(crate::StoreError::Unsupported("symbolic links"))
    }

    /// Sets times of a file or directory; `None` leaves one as it is.
    async fn set_times(
        &self,
        path: &StorePath,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()>;

    /// Sets permission bits of a file or directory, durably; says what they are now. Of a file
    /// with several names it is [`crate::StoreError::Denied`].
    async fn set_mode(&self, _path: &StorePath, _change: ModeChange) -> Result<u32> {
        Err(crate::StoreError::Unsupported("permission bits"))
    }

    /// Room at the endpoint.
    async fn space(&self) -> Result<Space>;

    /// True if a failed change could not be undone: the store then takes no changes until a
    /// [`Store::probe`] has succeeded.
    fn is_sick(&self) -> bool {
        false
    }

    /// Tries whether a store that is sick works again, by a small hidden file; if so all that is
    /// visible is durable, and it takes changes again.
    async fn probe(&self) -> Result<()> {
        Ok(())
    }
}

/// A cursor over one directory; holds a bounded amount of memory however many entries there are.
#[async_trait]
pub trait Listing: Send + Sync {
    /// The next entries, at most `max` (and at most [`crate::limits::LIST_PAGE`]); empty at the
    /// end. No order is promised. An entry that vanishes meanwhile is left out.
    async fn next_page(&mut self, max: usize) -> Result<Vec<Entry>>;
}

/// A file opened to read.
#[async_trait]
pub trait ReadFile: Send + Sync {
    /// The file when it was opened.
    fn meta(&self) -> &Meta;

    /// Reads at `offset` if that needs no waiting: `None` means call [`ReadFile::read_at`].
    /// Never allocates. Fewer bytes than `buf` has room for only at the end of the file.
    fn try_read_at(&self, offset: u64, buf: &mut [u8]) -> Result<Option<usize>>;

    /// Appends at most `len` bytes at `offset` to `buf`; fewer only at the end of the file.
    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut>;

    /// The file as the kernel knows it, where it is one of this machine.
    fn kernel_file(&self) -> Option<KernelFile> {
        None
    }
}

/// A file as the kernel knows it.
#[derive(Clone, Debug)]
pub struct KernelFile {
    /// Open to read, and shared with the one that was opened.
    pub descriptor: Arc<OwnedFd>,
    /// Its bytes are in memory: no call on it waits for a device.
    pub in_memory: bool,
}

/// Bytes of a file to be copied into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRange {
    /// Where they begin in the source.
    pub from: u64,
    /// Where they go.
    pub at: u64,
    /// How many bytes are copied at most.
    pub len: u64,
}

/// A file being written: hidden until it is published. Dropping it keeps the staged bytes for
/// [`Store::resume`] where the store can.
#[async_trait]
pub trait StagedFile: Send + Sync {
    /// Which file it is, as `stat` will say of it once published (on object stores: the upload).
    fn identity(&self) -> Option<Identity>;

    /// Bytes so far.
    fn size(&self) -> u64;

    /// How many of them, from the first on, would be there to resume were it dropped now; `None`:
    /// all.
    fn kept(&self) -> Option<u64> {
        None
    }

    /// What another process must know to resume the bytes in [`StagedFile::kept`]; `None`: nothing.
    fn ticket(&self) -> Option<String> {
        None
    }

    /// Writes at `offset` if that needs no waiting; `false`: nothing counts as written, call
    /// [`StagedFile::write_at`] with the same bytes. Never allocates.
    fn try_write_at(&self, offset: u64, data: &[u8]) -> Result<bool>;

    /// Writes all of `data` at `offset`; a gap before it reads as zeros.
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()>;

    /// Copies at most [`crate::limits::COPY_BYTES`] of a range without passing them through this
    /// process, where the file system shares them if it can, and says how many; 0 only at the end
    /// of the source. `None`: cannot be done so, read and write them.
    async fn copy_in(&self, _source: &dyn ReadFile, _range: CopyRange) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Appends at most `len` bytes at `offset` to `buf`; fewer only at the end.
    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut>;

    /// Cuts or extends (with zeros) to `size` bytes.
    async fn set_len(&self, size: u64) -> Result<()>;

    /// Makes the bytes durable. After one failure every later call fails: the kernel may have
    /// dropped the pages, so a second success would prove nothing.
    async fn sync(&self) -> Result<()>;

    /// Makes the place of the staged file durable, so that after a power cut its synced bytes are
    /// found again. Nothing to do where [`Caps::durable_staging`] is not offered.
    async fn sync_name(&self) -> Result<()> {
        Ok(())
    }

    /// Makes the file visible under its target name, whole and durable; all bytes must have been
    /// synced. On an error the name is as before.
    async fn publish(&self, how: &Publish) -> Result<Published>;

    /// As [`StagedFile::publish`], and it can be undone until [`StagedFile::settle`], which must
    /// follow, or [`StagedFile::take_back`]: what had the name is kept, hidden.
    async fn publish_undoably(&self, how: &Publish) -> Result<Published> {
        self.publish(how).await
    }

    /// Nobody wants to undo it any more: what had the name before is dropped.
    async fn settle(&self) {}

    /// Undoes [`StagedFile::publish_undoably`], durably.
    /// [`crate::StoreError::Unsupported`] where names cannot be exchanged: then it stays published,
    /// as after any other error.
    async fn take_back(&self) -> Result<TakenBack> {
        Err(crate::StoreError::Unsupported("undoing a publish"))
    }

    /// Drops the staged bytes.
    async fn discard(&self) -> Result<()>;
}

/// For whom a store works.
#[derive(Clone, Debug)]
pub struct StoreUser {
    /// Whose turn it is.
    pub holder: Holder,
    /// The memory for what waits; `None`: it is bounded elsewhere.
    pub memory: Option<Share>,
}

impl StoreUser {
    /// The node itself.
    pub fn node() -> StoreUser {
        StoreUser { holder: Holder::Node, memory: None }
    }
}

/// A store whose kind is known only at run time.
pub type AnyStore = Arc<dyn Store>;

/// True behind the last byte that any file can have. Some take such an offset for something else:
/// the kernel the largest of all for "where the descriptor stands" (`preadv2(2)`), an SFTP server
/// for a negative one.
pub(crate) fn is_past_all(offset: u64) -> bool {
    i64::try_from(offset).is_err()
}

/// Makes the directories above a path that are not there, where the store has any.
///
/// # Errors
/// Those of [`Store::make_directory`].
pub async fn make_directories_above(store: &AnyStore, path: &StorePath) -> Result<()> {
    if !store.caps().directories {
        return Ok(());
    }
    let above = std::iter::successors(path.parent(), StorePath::parent);
    let mut above: Vec<StorePath> = above.filter(|directory| !directory.is_root()).collect();
    above.reverse();
    for directory in above {
        match store.make_directory(&directory).await {
            Ok(()) | Err(StoreError::Exists) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
