//! The part `audit` of the process file: where the signed heads of the journal are sent.

use std::path::{Path, PathBuf};

use entrepot_nouns::Name;
use serde::Deserialize;

use crate::failure::Failure;

/// The port of syslog over TLS (RFC 5425 §4.1).
const SYSLOG_PORT: u16 = 6514;

/// A sink as the process file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SinkConfig {
    /// Unique; how far it has come is kept under it.
    pub(crate) name: Name,
    pub(crate) target: SinkTarget,
}

/// Where heads go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SinkTarget {
    /// A file, a line a head.
    File(PathBuf),
    /// A collector that speaks syslog over TLS.
    Syslog {
        host: String,
        port: u16,
        /// A file of PEM with the authorities that sign it; unset: those of the machine.
        authorities: Option<PathBuf>,
    },
    /// An endpoint of the site `main`: a bucket that locks its objects, a directory, a server.
    Endpoint(Name),
}

/// A table `[[audit.sinks]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SinkTable {
    name: Name,
    file: Option<PathBuf>,
    syslog: Option<String>,
    endpoint: Option<Name>,
    authorities: Option<PathBuf>,
}

impl SinkTable {
    /// Checks it; `base` is the folder of the process file.
    pub(crate) fn checked(self, base: &Path) -> Result<SinkConfig, Failure> {
        let wrong = |problem: &str| {
            Failure::config(format!("audit.sinks: the sink '{}' {problem}", self.name))
        };
        if self.authorities.is_some() && self.syslog.is_none() {
            return Err(wrong("has 'authorities', which only 'syslog' has"));
        }
        let target = match (&self.file, &self.syslog, &self.endpoint) {
            (Some(file), None, None) => SinkTarget::File(base.join(file)),
            (None, None, Some(endpoint)) => SinkTarget::Endpoint(endpoint.clone()),
            (None, Some(address), None) => {
                let (host, port) = match address.rsplit_once(':') {
                    Some((host, port)) if !host.ends_with(':') => {
                        let port = port.parse().map_err(|_| wrong("has no port that is one"))?;
                        (host, port)
                    }
                    _ => (address.as_str(), SYSLOG_PORT),
                };
                let authorities = self.authorities.as_ref().map(|file| base.join(file));
                SinkTarget::Syslog { host: host.to_owned(), port, authorities }
            }
            _ => return Err(wrong("needs one of 'file', 'syslog' and 'endpoint'")),
        };
        Ok(SinkConfig { name: self.name, target })
    }
}
