//! `sshfs`: a mount on which programs work that know nothing of SFTP.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};

use super::matrix::{Client, Did, How, Seat, Task};
use super::text;
use crate::server::run;

/// The home of an account, mounted while the value lives.
pub struct Mount {
    sshfs: Child,
    folder: PathBuf,
}

impl Mount {
    /// Mounts the account's home in a folder `name` of the scratch folder.
    ///
    /// # Errors
    /// It could not be mounted.
    pub fn new(seat: Seat<'_>, name: &str) -> Result<Mount> {
        let folder = seat.node.scratch().join(name);
        std::fs::create_dir_all(&folder)?;
        let before = std::fs::metadata(&folder)?.dev();
        // In the foreground, so that its end can be awaited.
        let sshfs = sshfs(seat, &folder)?.arg("-f").spawn().context("cannot run sshfs")?;
        let mut mount = Mount { sshfs, folder };
        seat.node.until("the mount", || {
            let ended = mount.sshfs.try_wait()?;
            ensure!(ended.is_none(), "sshfs ended: {ended:?}");
            Ok((std::fs::metadata(&mount.folder)?.dev() != before).then_some(()))
        })?;
        Ok(mount)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Unmounts once every file that was closed is published: `sshfs` answers `close` before it
    /// tells the server.
    ///
    /// # Errors
    /// A file stays open at the server, or it could not be unmounted.
    pub fn end(mut self, seat: Seat<'_>) -> Result<()> {
        let staging = seat.node.files().join(".entrepot-staging");
        seat.node.until("the last file to be published", || {
            let open = std::fs::read_dir(&staging).is_ok_and(|mut files| files.next().is_some());
            Ok((!open).then_some(()))
        })?;
        run(Command::new("fusermount3").arg("-u").arg(&self.folder))?;
        self.sshfs.wait()?;
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if matches!(self.sshfs.try_wait(), Ok(None)) {
            let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(&self.folder).status();
            let _ = self.sshfs.kill();
            let _ = self.sshfs.wait();
        }
    }
}

/// Why nothing can be mounted on this machine: a sandbox may have no `/dev/fuse`, or forbid mounts.
///
/// # Errors
/// It is the server or `ssh` that fails.
pub fn cannot_mount(seat: Seat<'_>) -> Result<Option<String>> {
    let folder = seat.node.scratch().join("probe");
    std::fs::create_dir_all(&folder)?;
    let output = sshfs(seat, &folder)?.output().context("cannot run sshfs")?;
    if output.status.success() {
        run(Command::new("fusermount3").arg("-u").arg(&folder))?;
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(said.contains("fuse"), "sshfs ended with {}: {said}", output.status);
    Ok(Some(said))
}

fn sshfs(Seat { node, login }: Seat<'_>, folder: &Path) -> Result<Command> {
    let mut command = Command::new("sshfs");
    // Git trusts only files of the user it runs as.
    command.args(["-o", "idmap=user"]).args(login.ssh_options(node)?);
    command.args(["-p", &node.sftp_port()?.to_string()]);
    command.arg(format!("{}@127.0.0.1:", login.account)).arg(folder);
    Ok(command)
}

/// `sshfs` as a client: programs of the shell on its mount, which is made for each task.
pub struct Sshfs;

impl Client for Sshfs {
    fn name(&self) -> &'static str {
        "sshfs"
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let mount = Mount::new(seat, "sshfs")?;
        let at = |remote: &str| mount.folder().join(remote);
        let output = match *task {
            Task::Move { how, local, remote } => {
                let there = at(remote);
                let (up, down) = ([local, &there], [there.as_path(), local]);
                match how {
                    How::Put => run(Command::new("cp").arg("--").args(up))?,
                    How::Get => run(Command::new("cp").arg("--").args(down))?,
                    How::ResumeUp => run(&mut append(up)?)?,
                    How::ResumeDown => run(&mut append(down)?)?,
                    How::PutTree => run(Command::new("cp").args(["-r", "--"]).args(up))?,
                    How::GetTree => run(Command::new("cp").args(["-r", "--"]).args(down))?,
                    How::PutTimes => run(Command::new("cp").args(["-p", "--"]).args(up))?,
                    How::GetTimes => run(Command::new("cp").args(["-p", "--"]).args(down))?,
                }
            }
            Task::RenameOver { from, to } => {
                run(Command::new("mv").args(["-f", "--"]).args([at(from), at(to)]))?
            }
            Task::List { remote } => run(Command::new("ls").args(["-1", "--"]).arg(at(remote)))?,
            Task::Hash { .. } => return Ok(Did::Cannot("it asks for no digest")),
        };
        mount.end(seat)?;
        Ok(Did::Done(String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

/// Goes on behind what the target has.
fn append([source, target]: [&Path; 2]) -> Result<Command> {
    let mut command = Command::new("rsync");
    command.args(["--append", "--", text(source)?, text(target)?]);
    Ok(command)
}
