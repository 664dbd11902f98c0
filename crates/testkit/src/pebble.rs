//! A throw-away authority that speaks ACME: Let's Encrypt's `pebble`, which checks names on ports
//! of the test's choice.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::clients::installed;
use crate::ports::free_port;
use crate::server::{run, until};

/// The ports of 127.0.0.1 that take the place of 80 and 443 of all names.
#[derive(Clone, Copy, Debug)]
pub struct CheckedPorts {
    /// Of http-01.
    pub http: u16,
    /// Of tls-alpn-01.
    pub tls: u16,
}

/// A running `pebble`; it ends, and its accounts with it, when this is dropped.
pub struct Pebble {
    child: Child,
    port: u16,
    management: u16,
    folder: tempfile::TempDir,
}

impl Pebble {
    /// Starts one that looks at every name for every certificate.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(checked: CheckedPorts) -> Result<Pebble> {
        let program = installed("clients/pebble/pebble")?;
        let folder = tempfile::tempdir().context("a scratch folder")?;
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        fs::write(folder.path().join("own.pem"), own.cert.pem())?;
        fs::write(folder.path().join("own-key.pem"), own.signing_key.serialize_pem())?;
        let [port, management] = [free_port()?, free_port()?];
        let config = folder.path().join("config.json");
        fs::write(&config, configuration(folder.path(), [port, management], checked))?;
        let log = fs::File::create(folder.path().join("log"))?;
        let mut pebble = Command::new(program);
        pebble.arg("-config").arg(&config);
        // Neither pauses nor old checks.
        pebble.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
        pebble.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = pebble.spawn().context("pebble")?;
        let mut pebble = Pebble { child, port, management, folder };
        until("pebble to listen", || {
            if let Some(status) = pebble.child.try_wait()? {
                bail!("pebble did not start ({status}):\n{}", pebble.log());
            }
            let ports = [port, management].into_iter();
            Ok(ports
                .map(|port| TcpStream::connect(("127.0.0.1", port)))
                .all(|it| it.is_ok())
                .then_some(()))
        })?;
        Ok(pebble)
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    /// A file with the certificate of the directory's own server.
    pub fn own_certificate(&self) -> PathBuf {
        self.folder.path().join("own.pem")
    }

    /// A file with the certificate above all that it signs.
    ///
    /// # Errors
    /// It does not say.
    pub fn root(&self) -> Result<PathBuf> {
        let mut curl = Command::new("curl");
        curl.args(["-sSf", "--cacert"]).arg(self.own_certificate());
        let root = run(curl.arg(format!("https://localhost:{}/roots/0", self.management)))?.stdout;
        let file = self.folder.path().join("root.pem");
        fs::write(&file, root)?;
        Ok(file)
    }

    /// What it says of each request and check.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        // A process that is gone is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(folder: &Path, [port, management]: [u16; 2], checked: CheckedPorts) -> String {
    let config = json!({"pebble": {
        "listenAddress": format!("127.0.0.1:{port}"),
        "managementListenAddress": format!("127.0.0.1:{management}"),
        "certificate": folder.join("own.pem"),
        "privateKey": folder.join("own-key.pem"),
        "httpPort": checked.http,
        "tlsPort": checked.tls,
        "retryAfter": {"authz": 1, "order": 1},
        "profiles": {"default": {"description": "for tests", "validityPeriod": 7_776_000}},
    }});
    config.to_string()
}
