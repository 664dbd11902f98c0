//! Arguments of what is done at a terminal of a host.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use entrepot_host::HostAddress;

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Type, press keys and look at screens. Each ACTION is one step; without any, standard input
    /// has one a line: type TEXT, secret FILE, key NAME, move ROW,COLUMN, wait [ROW,COLUMN] [TEXT],
    /// screen, fields, quit.
    Terminal(HostTerminalArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HostTerminalArgs {
    /// The host: a name or an address, with a port if it is not 23; `tls://` before it if TLS
    /// begins with the first byte.
    pub(crate) host: HostAddress,
    /// What is done, in this order, such as `'type LOANS'` or `'key ENTER'`.
    #[arg(value_name = "ACTION")]
    pub(crate) actions: Vec<String>,
    /// The terminal that the host sees: 3278 or 3279, and the model from 2 to 5.
    #[arg(long, default_value = "IBM-3278-2-E")]
    pub(crate) terminal: String,
    /// A logical unit to ask for; several are tried one after another.
    #[arg(long = "lu", value_name = "NAME")]
    pub(crate) lus: Vec<String>,
    /// The code page of the host, such as 037, 1047 or 1140.
    #[arg(long, default_value = "037")]
    pub(crate) code_page: String,
    /// Seconds that connecting and each wait may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) patience: u32,
    /// Trust certificates that these authorities sign (PEM), in place of those of this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust the certificate with this SHA-256 fingerprint, whatever it says.
    #[arg(long = "pin", value_name = "FINGERPRINT", conflicts_with = "ca")]
    pub(crate) pins: Vec<String>,
}
