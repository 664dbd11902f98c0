//! A throw-away server of mail: aiosmtpd.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// The interpreter that the system's packages belong to.
const PYTHON: &str = "/usr/bin/python3";
const PACKAGE: &str = "/usr/lib/python3/dist-packages/aiosmtpd";

/// A running server that takes messages from `us` with the password `pa ss`, under STARTTLS only.
/// It refuses `nobody@example.com`.
pub struct Maild {
    child: Child,
    port: u16,
    certificate: String,
    folder: tempfile::TempDir,
}

impl Maild {
    /// Starts it.
    ///
    /// # Errors
    /// The package to install; it did not start.
    pub fn start() -> Result<Maild> {
        ensure!(
            Path::new(PACKAGE).exists(),
            "'{PACKAGE}' is missing: install the Debian package python3-aiosmtpd"
        );
        let folder = tempfile::tempdir().context("a scratch folder")?;
        let key = rcgen::KeyPair::generate()?;
        let names = vec!["localhost".to_owned()];
        let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?.pem();
        let both = folder.path().join("both.pem");
        std::fs::write(&both, format!("{certificate}{}", key.serialize_pem()))?;
        let mut child = Command::new(PYTHON)
            .args(["-c", include_str!("maild.py")])
            .args([folder.path(), &both])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let port = line.trim().parse().context("aiosmtpd did not start")?;
        Ok(Maild { child, port, certificate, folder })
    }

    /// Its port on `localhost`.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its certificate (PEM), for `localhost` and signed by itself.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The messages that it took so far, oldest first: a line for each recipient, an empty one,
    /// head and body.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn messages(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for number in 1.. {
            let file = self.folder.path().join(format!("{number}.eml"));
            if !file.exists() {
                break;
            }
            found.push(String::from_utf8_lossy(&std::fs::read(file)?).into_owned());
        }
        Ok(found)
    }
}

impl Drop for Maild {
    fn drop(&mut self) {
        // Nothing is left to tell the error to; a process that is gone is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
