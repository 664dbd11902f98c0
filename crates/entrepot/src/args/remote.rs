//! Options that name a server whose API carries commands out.

use std::path::PathBuf;

use clap::Args;

/// Heading of these options.
const SERVER: &str = "A server elsewhere";

/// The server, who we are there, and by what it is known.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RemoteArgs {
    /// Ask the API of this server (`https://host:port`) instead of the node of this machine.
    #[arg(long, global = true, help_heading = SERVER, value_name = "URL")]
    #[arg(env = "ENTREPOT_SERVER", id = "api_server")]
    pub(crate) server: Option<String>,
    /// The API token to sign in with, or `@` and a file that holds it.
    #[arg(long, global = true, help_heading = SERVER, value_name = "TOKEN|@FILE")]
    #[arg(env = "ENTREPOT_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Sign in as this account instead; its password is the first line of standard input.
    #[arg(long, global = true, help_heading = SERVER, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Authorities that sign the server's certificate, PEM; unset: those this machine trusts.
    #[arg(long, global = true, help_heading = SERVER, value_name = "FILE", env = "ENTREPOT_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate that the server shows: its SHA-256 fingerprint, or `@` and a file of PEM.
    #[arg(long, global = true, help_heading = SERVER, value_name = "FINGERPRINT|@FILE")]
    #[arg(env = "ENTREPOT_SERVER_CERTIFICATE", conflicts_with = "ca", value_delimiter = ',')]
    pub(crate) server_certificate: Vec<String>,
}
