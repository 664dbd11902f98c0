//! OpenSSH's server as a peer: as endpoint for our client and beside us in benchmarks.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::is_root;
use crate::ports::free_port;
use crate::server::{run, until};

/// Where Debian has it.
const SSHD: &str = "/usr/sbin/sshd";

/// A running `sshd` on a free port of loopback with a host key, a user key and a scratch folder
/// of its own. `root` (or the user who runs the test) logs in with the user key. It stops when it
/// is dropped.
pub struct Sshd {
    child: Child,
    port: u16,
    host_key: String,
    user_key: PathBuf,
    user: String,
    files: PathBuf,
    _folder: tempfile::TempDir,
}

impl Sshd {
    /// Starts it with the subsystem `internal-sftp`.
    ///
    /// # Errors
    /// The package to install if there is no `sshd`; what `sshd` says if it does not start.
    pub fn start() -> Result<Sshd> {
        Sshd::start_with("internal-sftp", &[])
    }

    /// Starts it with another command as subsystem `sftp` (`internal-sftp -P posix-rename` offers
    /// one extension less) and further lines of `sshd_config`.
    ///
    /// # Errors
    /// As [`Sshd::start`].
    pub fn start_with(subsystem: &str, lines: &[&str]) -> Result<Sshd> {
        if !Path::new(SSHD).exists() {
            bail!("'{SSHD}' is missing: install the Debian package openssh-server");
        }
        let folder = tempfile::tempdir().context("a scratch folder")?;
        let host_key = make_key(folder.path(), "host_key")?;
        let user_key = make_key(folder.path(), "user_key")?;
        std::fs::copy(user_key.with_extension("pub"), folder.path().join("authorized_keys"))?;
        if is_root() {
            // The folder that sshd empties itself into before login.
            std::fs::create_dir_all("/run/sshd").context("/run/sshd")?;
        }
        let files = folder.path().join("files");
        std::fs::create_dir(&files)?;
        let public = std::fs::read_to_string(host_key.with_extension("pub"))?.trim().to_owned();
        let port = free_port()?;
        let config = write_config(folder.path(), port, subsystem, lines)?;
        let (child, user) = (launch(&config)?, whoami()?);
        Ok(Sshd { child, port, host_key: public, user_key, user, files, _folder: folder })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its public host key, one OpenSSH line.
    pub fn host_key(&self) -> &str {
        &self.host_key
    }

    /// The private key that logs in; the public half lies beside it as `.pub`.
    pub fn user_key(&self) -> &Path {
        &self.user_key
    }

    /// Who logs in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// An empty folder, absolute; it is removed with the server.
    pub fn folder(&self) -> &Path {
        &self.files
    }

    /// Process id of the listening process; sessions are its children.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the last session has ended: until then it may still write what it was sent.
    ///
    /// # Errors
    /// One goes on for longer than tests wait.
    pub fn settle(&self) -> Result<()> {
        until("the sessions of sshd to end", || Ok(children(self.pid()).is_empty().then_some(())))
    }

    /// Ends all connections and takes no new ones, as a crash does.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(&mut self) -> Result<()> {
        kill_children(self.child.id());
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // Nothing is left to tell the error to; a process that is gone is what we want.
        let _ = self.kill();
    }
}

/// Kills the children of a process, and theirs, and waits until they have let go of their
/// connections.
pub(crate) fn kill_children(pid: u32) {
    let mut killed = Vec::new();
    for pid in children(pid) {
        for pid in children(pid).into_iter().chain([pid]) {
            // One that has just ended is what we want.
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).output();
            killed.push(pid);
        }
    }
    // A process that cannot be looked at for so long is noticed by the test that killed it.
    let _ = until("killed processes to end", || {
        Ok(killed.iter().all(|pid| has_ended(*pid)).then_some(()))
    });
}

/// True if there is no such process any more, or nothing but its exit code.
fn has_ended(pid: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state stands behind the name, which is in parentheses.
    status.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The direct children of a process.
fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    text.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn whoami() -> Result<String> {
    let output = Command::new("id").arg("-un").output().context("id")?;
    ensure!(output.status.success(), "id failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn make_key(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path))
        .context("ssh-keygen: install the Debian package openssh-client")?;
    Ok(path)
}

fn write_config(folder: &Path, port: u16, subsystem: &str, lines: &[&str]) -> Result<PathBuf> {
    let shown = folder.display();
    let mut text = format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {shown}/host_key\nPidFile none\n\
         AuthorizedKeysFile {shown}/authorized_keys\nStrictModes no\nUsePAM no\n\
         PermitRootLogin prohibit-password\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nUseDNS no\nPrintMotd no\nMaxStartups 1000\n\
         MaxSessions 100\nLogLevel INFO\nSubsystem sftp {subsystem}\n"
    );
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let path = folder.join("sshd_config");
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Starts the process and waits until it says that it listens.
fn launch(config: &Path) -> Result<Child> {
    let mut child = Command::new(SSHD)
        .args(["-D", "-e", "-f"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("sshd")?;
    let stderr = child.stderr.take().context("sshd has no standard error")?;
    let mut lines = BufReader::new(stderr).lines();
    let mut said = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if line.contains("Server listening on") {
            // Its words are read on, or it would wait once the pipe is full.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(child);
        }
        said.push_str(&line);
        said.push('\n');
    }
    child.wait()?;
    bail!("sshd did not start:\n{said}");
}
