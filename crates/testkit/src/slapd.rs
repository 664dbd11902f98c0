//! A throw-away directory service: OpenLDAP's `slapd` with one database.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::ports::free_port;
use crate::server::{run, until};

const SLAPD: &str = "/usr/sbin/slapd";
const SLAPADD: &str = "/usr/sbin/slapadd";
/// The entry above all others.
const SUFFIX: &str = "dc=example,dc=com";

/// A running `slapd`; it ends, and its entries with it, when this is dropped.
pub struct Slapd {
    child: Child,
    port: u16,
    tls_port: u16,
    certificate: String,
    folder: tempfile::TempDir,
}

impl Slapd {
    /// Starts it with these entries (LDIF) below `dc=example,dc=com`, which those may read who have
    /// logged in. Its certificate is for `localhost`, signed by itself.
    ///
    /// # Errors
    /// The package to install; what `slapd` says if it does not start.
    pub fn start(entries: &str) -> Result<Slapd> {
        ensure!(
            Path::new(SLAPD).exists(),
            "'{SLAPD}' is missing: install the Debian package slapd"
        );
        let folder = tempfile::tempdir().context("a scratch folder")?;
        let certificate = make_certificate(folder.path())?;
        let config = write_config(folder.path())?;
        let ldif = folder.path().join("entries.ldif");
        let above = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n");
        fs::write(&ldif, format!("{above}\n{entries}"))?;
        run(Command::new(SLAPADD).arg("-f").arg(&config).arg("-l").arg(&ldif))?;
        let [port, tls_port] = [free_port()?, free_port()?];
        let log = fs::File::create(folder.path().join("log"))?;
        let mut slapd = Command::new(SLAPD);
        slapd.arg("-f").arg(&config).args(["-d", "stats", "-h"]);
        slapd.arg(format!("ldap://127.0.0.1:{port} ldaps://127.0.0.1:{tls_port}"));
        let child = slapd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let mut slapd = Slapd { child, port, tls_port, certificate, folder };
        until("slapd to listen", || {
            if let Some(status) = slapd.child.try_wait()? {
                anyhow::bail!("slapd did not start ({status}):\n{}", slapd.log());
            }
            Ok([port, tls_port].iter().all(|port| connects(*port)).then_some(()))
        })?;
        Ok(slapd)
    }

    /// Its port on 127.0.0.1, in clear text or by StartTLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its port under TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Its certificate (PEM).
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// What it says of each connection and request.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        // A process that is gone is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connects(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn make_certificate(folder: &Path) -> Result<String> {
    let (key, certificate) = (folder.join("key.pem"), folder.join("certificate.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    run(openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate))?;
    Ok(fs::read_to_string(certificate)?)
}

fn write_config(folder: &Path) -> Result<PathBuf> {
    let shown = folder.display();
    let database = folder.join("database");
    fs::create_dir(&database)?;
    let text = format!(
        "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\n\
         include /etc/ldap/schema/inetorgperson.schema\nmodulepath /usr/lib/ldap\n\
         moduleload back_mdb\nTLSCertificateFile {shown}/certificate.pem\n\
         TLSCertificateKeyFile {shown}/key.pem\ndatabase mdb\nsuffix \"{SUFFIX}\"\n\
         directory {shown}/database\naccess to attrs=userPassword by anonymous auth by * none\n\
         access to * by users read by * none\n"
    );
    let path = folder.join("slapd.conf");
    fs::write(&path, text)?;
    Ok(path)
}
