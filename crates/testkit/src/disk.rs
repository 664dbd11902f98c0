//! A disk that forgets: a file system of FUSE, in memory, for the whole program to work on.
//!
//! It keeps two states: what processes see, and what would be there after a power cut. `fsync` of
//! a file moves its bytes from the one to the other, `fsync` of a directory all changes of names up
//! to the last one in it. A cut keeps besides these what its seed says: a number of the later
//! changes of names, in their order, as the log of a real file system does, and any of the pages
//! not synced. It can also have little room, and fail a sync.

mod face;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use fuser::{BackgroundSession, Config, MountOption};

use self::face::Face;
use self::state::State;
use crate::not_run;
use crate::server::run;

/// A mounted disk; unmounted when dropped.
pub struct Disk {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
    session: Option<BackgroundSession>,
}

impl Disk {
    /// Mounts an empty disk at a folder that exists; `None`: this machine mounts nothing of FUSE,
    /// and `test` is among the tests that were not run.
    ///
    /// # Errors
    /// As [`not_run`].
    pub fn mount(folder: &Path, test: &str) -> Result<Option<Disk>> {
        let state = Arc::new(Mutex::new(State::new()));
        let mut disk = Disk { folder: folder.to_owned(), state, session: None };
        match disk.attach() {
            Ok(()) => Ok(Some(disk)),
            Err(error) => {
                not_run(test, &format!("FUSE cannot be mounted: {error:#}"))?;
                Ok(None)
            }
        }
    }

    fn attach(&mut self) -> Result<()> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forgets".to_owned())];
        let face = Face::new(Arc::clone(&self.state));
        let session = fuser::spawn_mount(face, &self.folder, &config).context("mount")?;
        self.session = Some(session);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all that was written so far survive.
    pub fn settle(&self) {
        self.state().settle();
    }

    /// From now on at most so many bytes fit, those that are there included.
    pub fn limit(&self, bytes: u64) {
        self.state().limit(bytes);
    }

    /// The next sync of a file whose name begins so fails, and its bytes are not on the disk though
    /// a later sync succeeds, as Linux has it.
    pub fn fail_sync_of(&self, prefix: &str) {
        self.state().fail_sync_of(prefix);
    }

    /// From now on it says that it has synced what it has not: a test that cannot notice that
    /// proves nothing of the program.
    pub fn lie(&self) {
        self.state().lie();
    }

    /// Turns the power off: every call fails from now on, nothing more is written.
    pub fn power_off(&self) {
        self.state().power_off();
    }

    /// Turns it on again, with what survived: that depends on `seed`. No process may have a file
    /// open.
    ///
    /// # Errors
    /// If the disk cannot be unmounted or mounted.
    pub fn power_on(&mut self, seed: u64) -> Result<()> {
        if let Some(session) = self.session.take() {
            unmount(&self.folder, session).context("unmount")?;
        }
        self.state().power_on(seed);
        self.attach()
    }
}

fn unmount(folder: &Path, session: BackgroundSession) -> Result<()> {
    match session.umount_and_join() {
        // The kernel ends a request that is on its way while the disk is unmounted with
        // `ECONNABORTED`, and the session ends with it in place of `ENODEV`: unmounted all the
        // same.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
        // Whoever looks at the folder in this moment keeps it mounted, as a listing of what lies
        // above it does.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => unmount_again(folder),
        ended => Ok(ended?),
    }
}

/// The session ends by itself when the kernel has let go of the disk.
fn unmount_again(folder: &Path) -> Result<()> {
    for _ in 0..100 {
        if run(Command::new("umount").arg(folder)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    run(Command::new("umount").arg(folder)).map(drop)
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Files that are open would keep it from being unmounted; calls on them fail from now on.
        self.power_off();
        if let Some(session) = self.session.take() {
            let _ = session.umount_and_join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    fn write(path: &Path, text: &str, synced: bool) -> Result<()> {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        if synced {
            file.sync_all()?;
        }
        Ok(())
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_may_not() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let test = "the disk that forgets";
        let Some(mut disk) = Disk::mount(folder.path(), test)? else { return Ok(()) };
        let at = |name: &str| folder.path().join(name);
        let (mut names_lost, mut bytes_lost, mut names_kept) = (0, 0, 0);
        for seed in 0..20 {
            write(&at("safe"), "safe", true)?;
            write(&at("bytes"), "none", false)?;
            File::open(folder.path())?.sync_all()?;
            write(&at("late"), "late", true)?;
            fs::rename(at("safe"), at("moved"))?;
            disk.power_off();
            assert!(fs::read(at("bytes")).is_err(), "no power");
            disk.power_on(seed)?;
            let (safe, moved) = (fs::read(at("safe")).ok(), fs::read(at("moved")).ok());
            assert_eq!(safe.or(moved).as_deref(), Some(&b"safe"[..]), "one name of the two");
            assert_ne!(at("safe").exists(), at("moved").exists());
            names_lost += u32::from(!at("late").exists());
            names_kept += u32::from(at("late").exists());
            bytes_lost += u32::from(fs::read(at("bytes"))? != b"none");
            for entry in fs::read_dir(folder.path())? {
                fs::remove_file(entry?.path())?;
            }
        }
        assert!(names_lost > 0 && names_kept > 0 && bytes_lost > 0, "it forgets nothing");
        Ok(())
    }

    #[test]
    fn it_waits_for_whoever_looks_at_it() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let Some(mut disk) = Disk::mount(folder.path(), "a disk in use")? else { return Ok(()) };
        write(&folder.path().join("a"), "a", true)?;
        File::open(folder.path())?.sync_all()?;
        let looks = File::open(folder.path())?;
        let looking = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(looks);
        });
        disk.power_on(1)?;
        assert_eq!(fs::read(folder.path().join("a"))?, b"a");
        assert!(looking.join().is_ok());
        Ok(())
    }

    #[test]
    fn it_is_full_and_it_fails_a_sync() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let Some(mut disk) = Disk::mount(folder.path(), "a full disk")? else { return Ok(()) };
        let path = folder.path().join("a");
        disk.limit(100_000);
        let large = write(&path, &"x".repeat(200_000), false).expect_err("it is full");
        let large = large.downcast::<std::io::Error>()?;
        assert_eq!(large.kind(), std::io::ErrorKind::StorageFull);
        write(&path, "short", true)?;
        File::open(folder.path())?.sync_all()?;
        disk.fail_sync_of("a");
        assert!(write(&path, "other", true).is_err());
        write(&folder.path().join("b"), "b", true)?;
        disk.power_off();
        disk.power_on(1)?;
        assert_ne!(fs::read(&path)?, b"other", "what failed to sync is not there");
        Ok(())
    }
}
