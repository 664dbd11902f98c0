//! Others' FTP servers as peers of our client.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use entrepot_nouns::endpoint::{FtpTarget, FtpTls};

use crate::clients::python;
use crate::is_root;
use crate::ports::free_port;
use crate::server::until;

/// Where Debian has it.
const VSFTPD: &str = "/usr/sbin/vsftpd";

/// A running server on a free port of loopback, with a scratch folder of its own. Stops when
/// dropped.
pub struct Ftpd {
    child: Child,
    port: u16,
    user: &'static str,
    /// Nothing else is spoken.
    tls: FtpTls,
    certificate: Option<String>,
    files: PathBuf,
    _folder: tempfile::TempDir,
}

impl Ftpd {
    /// vsftpd: no MLSD, LIST as `ls -l` writes it. With TLS it wants data connections to resume the
    /// session of the control connection.
    ///
    /// # Errors
    /// The package to install if there is none; that it does not start.
    pub fn vsftpd(tls: FtpTls) -> Result<Ftpd> {
        Ftpd::vsftpd_with(tls, &[])
    }

    /// The same with further lines of its configuration.
    ///
    /// # Errors
    /// As [`Ftpd::vsftpd`].
    pub fn vsftpd_with(tls: FtpTls, lines: &[&str]) -> Result<Ftpd> {
        if !Path::new(VSFTPD).exists() {
            bail!("'{VSFTPD}' is missing: install the Debian package vsftpd");
        }
        let folder = tempfile::tempdir().context("a scratch folder")?;
        if is_root() {
            // It looks at its root as another user.
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(folder.path(), open)?;
        }
        let files = folder.path().join("files");
        let certificate = make_certificate(folder.path())?;
        std::fs::create_dir_all(&files)?;
        std::fs::create_dir_all(folder.path().join("empty"))?;
        let port = free_port()?;
        let config = vsftpd_config(folder.path(), (port, tls), lines)?;
        let mut child = Command::new(VSFTPD)
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("vsftpd")?;
        until("vsftpd to listen", || {
            if let Some(status) = child.try_wait()? {
                bail!("vsftpd did not start: {status}");
            }
            Ok(TcpStream::connect(("127.0.0.1", port)).ok())
        })?;
        let certificate = (tls != FtpTls::Off).then_some(certificate);
        Ok(Ftpd { child, port, user: "anonymous", tls, certificate, files, _folder: folder })
    }

    /// pyftpdlib: MLSD, no session reuse under TLS.
    ///
    /// # Errors
    /// The environment was not made, or it did not start.
    pub fn pyftpdlib(tls: FtpTls) -> Result<Ftpd> {
        let folder = tempfile::tempdir().context("a scratch folder")?;
        let (files, certificate) = (folder.path().join("files"), make_certificate(folder.path())?);
        std::fs::create_dir_all(&files)?;
        let (certificate, file) = match tls {
            FtpTls::Off => (None, PathBuf::new()),
            FtpTls::Explicit => (Some(certificate), folder.path().join("both.pem")),
            FtpTls::Implicit => bail!("pyftpdlib knows no implicit TLS"),
        };
        let mut child = Command::new(python::tool("python3")?)
            .args(["-c", include_str!("pyftpd.py")])
            .args([&files, &file])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let port = line.trim().parse().context("it did not start")?;
        Ok(Ftpd { child, port, user: "partner", tls, certificate, files, _folder: folder })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Who logs in.
    pub fn user(&self) -> &str {
        self.user
    }

    /// The password of [`Ftpd::user`]; it has a space on purpose.
    pub fn password(&self) -> &'static str {
        "pa ss"
    }

    /// Its certificate (PEM), for `localhost` and signed by itself, if it speaks TLS.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// What is shown as the directory `files` below the login directory of vsftpd, and as the login
    /// directory of pyftpdlib.
    pub fn folder(&self) -> &Path {
        &self.files
    }

    /// The base folder of an endpoint on it.
    fn root(&self) -> &'static str {
        if self.user == "anonymous" { "files" } else { "" }
    }

    /// An endpoint on it, to be given [`Ftpd::password`], under TLS or not as it was started.
    pub fn target(&self) -> FtpTarget {
        FtpTarget {
            port: Some(self.port),
            tls: self.tls,
            certificates: self.certificate().map(str::to_owned).into_iter().collect(),
            root: self.root().to_owned(),
            allow_private: true,
            ..FtpTarget::new("127.0.0.1", self.user)
        }
    }

    /// Ends all connections and takes no new ones, as a crash does.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(&mut self) -> Result<()> {
        crate::sshd::kill_children(self.child.id());
        // One that has ended is what we want.
        let _ = self.child.kill();
        self.child.wait()?;
        Ok(())
    }

    /// Ends the sessions that are open, and stays.
    pub fn kill_sessions(&self) {
        crate::sshd::kill_children(self.child.id());
    }
}

impl Drop for Ftpd {
    fn drop(&mut self) {
        // Nothing is left to tell the error to; a process that is gone is what we want.
        let _ = self.kill();
    }
}

/// Certificate and key in one file, as these servers want it. Answers with the certificate.
fn make_certificate(folder: &Path) -> Result<String> {
    let key = rcgen::KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?.pem();
    std::fs::write(folder.join("both.pem"), format!("{certificate}{}", key.serialize_pem()))?;
    Ok(certificate)
}

fn vsftpd_config(folder: &Path, (port, tls): (u16, FtpTls), lines: &[&str]) -> Result<PathBuf> {
    let here = folder.display();
    // It leaves root's rights for this user's.
    let owner = if is_root() {
        let mut chown = Command::new("chown");
        chown.arg("daemon").arg(folder.join("files"));
        ensure!(chown.status()?.success(), "chown");
        "ftp_username=daemon"
    } else {
        "run_as_launching_user=YES"
    };
    let mut text = format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\n\
         anonymous_enable=YES\nlocal_enable=NO\n{owner}\nanon_root={here}\nwrite_enable=YES\n\
         anon_upload_enable=YES\nanon_mkdir_write_enable=YES\nanon_other_write_enable=YES\n\
         anon_world_readable_only=NO\nanon_umask=022\nconnect_from_port_20=NO\nmax_clients=0\n\
         max_per_ip=0\nxferlog_enable=NO\nsecure_chroot_dir={here}/empty\nseccomp_sandbox=NO\n\
         use_localtime=NO\n"
    );
    if tls != FtpTls::Off {
        text.push_str(&format!(
            "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\n\
             force_anon_data_ssl=YES\nrequire_ssl_reuse=YES\nssl_ciphers=HIGH\n\
             rsa_cert_file={here}/both.pem\n"
        ));
    }
    if tls == FtpTls::Implicit {
        text.push_str("implicit_ssl=YES\n");
    }
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let path = folder.join(format!("vsftpd-{port}.conf"));
    std::fs::write(&path, text)?;
    Ok(path)
}
