//! The journal's files on a simulated disk.

use std::io;
use std::sync::Arc;

use entrepot_journal::{Medium, MediumFile};
use entrepot_storage::fault::{SimDisk, SimFile, SimFolder};

/// A folder of the disk; with `lies`, syncs of files succeed without effect.
pub(super) struct SimMedium {
    folder: SimFolder,
    lies: bool,
}

impl SimMedium {
    pub(super) fn open(disk: &SimDisk, lies: bool) -> io::Result<Self> {
        let folder = disk.folder("journal")?;
        for name in ["archive", "torn"] {
            match folder.make_directory(name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        folder.sync_dir("")?;
        Ok(SimMedium { folder, lies })
    }
}

impl Medium for SimMedium {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.folder.list(folder)
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(OnDisk(self.folder.create(name)?, self.lies)))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(OnDisk(self.folder.open(name)?, self.lies)))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }
    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        self.folder.sync_dir(folder)
    }
    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        Ok(Some(Box::new(())))
    }
    fn describe(&self) -> String {
        "a simulated disk".to_owned()
    }
}

struct OnDisk(SimFile, bool);

impl MediumFile for OnDisk {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, into)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn reserve(&self, _: u64) -> io::Result<()> {
        // Room is a matter of speed; here files grow as they are written.
        Ok(())
    }
    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }
    fn sync(&self) -> io::Result<()> {
        if self.1 { Ok(()) } else { self.0.sync() }
    }
}
