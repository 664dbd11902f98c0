//! Where the journal's files lie: the seam for tests of power cuts and failing disks.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};

/// A directory with two levels: `name`, or `folder/name`. Names are the journal's own: one plain
/// component each.
pub trait Medium: Send + Sync + 'static {
    /// Names of the files in the top level (`""`) or in a folder, in no order.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Makes a new file, open for reading and writing; fails if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>>;
    /// Renames a file, also between folders.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names in the top level (`""`) or in a folder durable.
    fn sync_dir(&self, folder: &str) -> io::Result<()>;
    /// Keeps other processes out until the guard is dropped; `None` if one is there already.
    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// What to call it in messages.
    fn describe(&self) -> String;
}

/// One file of a [`Medium`].
pub trait MediumFile: Send + Sync {
    /// Its size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Reads up to `into.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes the file at least `size` bytes long with room on the disk; new bytes are zero.
    fn reserve(&self, size: u64) -> io::Result<()>;
    /// Cuts the file to `size` bytes.
    fn truncate(&self, size: u64) -> io::Result<()>;
    /// Makes bytes and size durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
}

/// A directory of this machine.
pub struct FsMedium {
    dir: PathBuf,
}

/// Folders below the top level.
pub(crate) const ARCHIVE: &str = "archive";
pub(crate) const TORN: &str = "torn";
/// For the hashes of the tree over the records, which the journal itself knows nothing of.
pub(crate) const TREE: &str = "tree";

impl FsMedium {
    /// For `dir`, which is made with its folders if needed, readable by this user only.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(dir: &Path) -> io::Result<Self> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(dir)?;
        let medium = FsMedium { dir: dir.to_owned() };
        for folder in [ARCHIVE, TORN, TREE] {
            builder.create(dir.join(folder))?;
        }
        medium.sync_dir("")?;
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        Ok(medium)
    }

    /// For an existing `dir`, only to be read.
    pub fn existing(dir: &Path) -> Self {
        FsMedium { dir: dir.to_owned() }
    }

    /// Opens a file that is only read.
    pub(crate) fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(FsFile(File::open(self.dir.join(name))?)))
    }
}

impl Medium for FsMedium {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.dir.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound && !folder.is_empty() => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        Ok(Arc::new(FsFile(options.open(self.dir.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let path = self.dir.join(name);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            // Verification may run as a user who can only read.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => File::open(&path)?,
            other => other?,
        };
        Ok(Arc::new(FsFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        File::open(self.dir.join(folder))?.sync_all()
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.dir.join("lock"))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn describe(&self) -> String {
        self.dir.display().to_string()
    }
}

struct FsFile(File);

impl MediumFile for FsFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.0.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    /// Allocated blocks and a size that does not change make the later `fdatasync` cheap: it need
    /// not commit metadata. Measured on ext4 (virtual disk, 600 bytes and one `fdatasync` each):
    /// 155 µs reserved with `fallocate`, 155 µs over written zeros, 230 µs growing. Writing zeros
    /// would double what is written for nothing, so it is only the way out where `fallocate`
    /// is not known.
    fn reserve(&self, size: u64) -> io::Result<()> {
        use rustix::io::Errno;
        let have = self.size()?;
        if have >= size {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), have, size - have) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        let zeros = vec![0; 64 * 1024];
        let mut at = have;
        while at < size {
            let part = usize::try_from(size - at).unwrap_or(usize::MAX).min(zeros.len());
            self.0.write_all_at(zeros.get(..part).unwrap_or_default(), at)?;
            at += part as u64;
        }
        Ok(())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
