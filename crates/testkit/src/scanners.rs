//! Throw-away scanners: `clamd` with signatures of its own, and `c-icap` before it.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::ports::free_port;
use crate::server::until;

const CLAMD: &str = "/usr/sbin/clamd";
const C_ICAP: &str = "/usr/bin/c-icap";
const MODULE_FOLDERS: &[&str] =
    &["/usr/lib/x86_64-linux-gnu/c_icap", "/usr/lib/aarch64-linux-gnu/c_icap"];

/// What the signatures of [`Clamd`] find, wherever it stands in a file.
pub const MARK: &[u8] = b"a-mark-of-the-test";
/// As what it finds it.
pub const THREAT: &str = "Mark.UNOFFICIAL";

/// A running `clamd` that knows [`MARK`] and nothing else.
pub struct Clamd {
    child: Child,
    folder: tempfile::TempDir,
}

impl Clamd {
    /// Starts it; files of more than 2 MiB are too large for it.
    ///
    /// # Errors
    /// The package to install; what it says if it does not start.
    pub fn start() -> Result<Clamd> {
        ensure!(
            Path::new(CLAMD).exists(),
            "'{CLAMD}' is missing: install the Debian package clamav-daemon"
        );
        let folder = tempfile::tempdir().context("a scratch folder")?;
        let signatures = folder.path().join("signatures");
        std::fs::create_dir(&signatures)?;
        let mark: String = MARK.iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(signatures.join("own.ndb"), format!("Mark:0:*:{mark}\n"))?;
        let here = folder.path().display();
        let config = format!(
            "Foreground yes\nDatabaseDirectory {here}/signatures\nLocalSocket {here}/socket\n\
             StreamMaxLength 2M\n"
        );
        let file = folder.path().join("clamd.conf");
        std::fs::write(&file, config)?;
        let mut clamd = Command::new(CLAMD);
        let log = std::fs::File::create(folder.path().join("log"))?;
        let child = clamd.arg("-c").arg(&file).stdin(Stdio::null()).stdout(log).spawn()?;
        let mut clamd = Clamd { child, folder };
        until("clamd to listen", || {
            if let Some(status) = clamd.child.try_wait()? {
                bail!("clamd did not start ({status})");
            }
            Ok(UnixStream::connect(clamd.socket()).is_ok().then_some(()))
        })?;
        Ok(clamd)
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Ends it, as a machine that fails does.
    ///
    /// # Errors
    /// It cannot be ended.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Clamd {
    fn drop(&mut self) {
        // Nothing is left to tell the error to; a process that is gone is what we want.
        let _ = self.kill();
    }
}

/// A running `c-icap`: the service `avscan` asks a [`Clamd`] about files of any size, `limited`
/// about those of up to 100,000 bytes; larger ones it sends back as they are.
pub struct CIcap {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl CIcap {
    /// Starts it.
    ///
    /// # Errors
    /// The package to install; what it says if it does not start.
    pub fn start(clamd: &Clamd) -> Result<CIcap> {
        let modules = MODULE_FOLDERS.iter().map(Path::new);
        let modules = modules.into_iter().find(|folder| folder.join("virus_scan.so").exists());
        let modules = modules.filter(|_| Path::new(C_ICAP).exists()).context(
            "c-icap is missing: install the Debian packages c-icap and libc-icap-mod-virus-scan",
        )?;
        let folder = tempfile::tempdir().context("a scratch folder")?;
        let port = free_port()?;
        let (here, modules) = (folder.path().display(), modules.display());
        let config = format!(
            "PidFile {here}/pid\nCommandsSocket {here}/ctl\nPort 127.0.0.1:{port}\nTmpDir {here}\n\
             ServerLog {here}/log\nAccessLog {here}/access\n\
             LoadMagicFile /etc/c-icap/c-icap.magic\nModulesDir {modules}\n\
             ServicesDir {modules}\nTemplateDir /usr/share/c_icap/templates/\nStartServers 1\n\
             Service antivirus_module virus_scan.so\n\
             ServiceAlias avscan virus_scan?allow204=on&sizelimit=off&mode=simple\n\
             ServiceAlias limited virus_scan?allow204=on&mode=simple\n\
             virus_scan.ScanFileTypes TEXT DATA EXECUTABLE ARCHIVE GIF JPEG MSOFFICE\n\
             virus_scan.MaxObjectSize 100000\nModule common clamd_mod.so\n\
             clamd_mod.ClamdSocket {}\nvirus_scan.DefaultEngine clamd\n",
            clamd.socket().display()
        );
        let file = folder.path().join("c-icap.conf");
        std::fs::write(&file, config)?;
        let mut icap = Command::new(C_ICAP);
        icap.arg("-N").arg("-f").arg(&file).stdin(Stdio::null());
        let child = icap.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut icap = CIcap { child, port, _folder: folder };
        until("c-icap to listen", || {
            if let Some(status) = icap.child.try_wait()? {
                bail!("c-icap did not start ({status})");
            }
            Ok(TcpStream::connect(("127.0.0.1", port)).is_ok().then_some(()))
        })?;
        Ok(icap)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for CIcap {
    fn drop(&mut self) {
        // It ends its workers itself. Nothing is left to tell an error to.
        let mut end = Command::new("kill");
        let _ = end.arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
