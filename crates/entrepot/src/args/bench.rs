//! Arguments of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use entrepot_net::tls::TlsVersion;

use super::units::{bits, milliseconds, size, tls_version};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// An SFTP server, this one or any other.
    Sftp(BenchSftpArgs),
    /// An FTP server, this one or any other.
    Ftp(BenchFtpArgs),
    /// Make one HTML page with tables and plots of reports of several servers.
    Page(BenchPageArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchPageArgs {
    /// Reports as `--report` writes them, which the file's name then names, or files with
    /// `{"server": NAME, "step": WHAT, "report": REPORT}` in each line.
    #[arg(required = true)]
    pub(crate) reports: Vec<PathBuf>,
    /// The page to write.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Title and heading of the page.
    #[arg(long, default_value = "Side by side")]
    pub(crate) title: String,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// One large file up a stream.
    Upload,
    /// One large file down a stream.
    Download,
    /// Many small files up.
    SmallFiles,
    /// Logins, one after another.
    Handshakes,
    /// Logged in and silent.
    IdleSessions,
    /// Uploads of many sizes at once, downloads beside them.
    Mixed,
}

#[derive(Debug, Args)]
pub(crate) struct BenchSftpArgs {
    /// Host and port of the server.
    #[arg(long)]
    pub(crate) target: String,
    /// The account to log in to.
    #[arg(long, default_value = "root")]
    pub(crate) user: String,
    /// Private key, OpenSSH form.
    #[arg(long, conflicts_with = "password_stdin")]
    pub(crate) key: Option<PathBuf>,
    /// Read the password from standard input.
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// What to measure; all but `mixed` if unset.
    #[arg(long = "workload", value_enum)]
    pub(crate) workloads: Vec<Workload>,
    /// Remote folder to work in.
    #[arg(long, default_value = ".")]
    pub(crate) folder: String,
    /// Cipher, as OpenSSH names it.
    #[arg(long, default_value = "aes128-gcm@openssh.com")]
    pub(crate) cipher: String,
    /// Bytes of a large file; `K`, `M`, `G` are powers of 1,024.
    #[arg(long, default_value = "1G", value_parser = size)]
    pub(crate) size: u64,
    /// Bytes of a small file.
    #[arg(long, default_value = "1K", value_parser = size)]
    pub(crate) small_size: u64,
    /// Number of small files, logins or idle sessions.
    #[arg(long, default_value_t = 2000)]
    pub(crate) count: u64,
    /// Streams, sessions or logins at a time.
    #[arg(long, default_value_t = 1)]
    pub(crate) concurrency: usize,
    /// Process id of the server, if it is local: its CPU time and memory are reported.
    #[arg(long)]
    pub(crate) server_pid: Option<u32>,
    /// Rounds; the report gives medians.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: u32,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
    /// Uploads at once of `mixed`.
    #[arg(long, default_value_t = 500)]
    pub(crate) uploads: u64,
    /// Downloads beside them.
    #[arg(long, default_value_t = 100)]
    pub(crate) downloads: u64,
    /// What the sizes of `mixed`, 10 to 950 MB, are divided by.
    #[arg(long, default_value_t = 50)]
    pub(crate) scale: u64,
    /// Put a line with this round trip between client and server, such as `50ms`.
    #[arg(long, value_parser = milliseconds)]
    pub(crate) delay: Option<std::time::Duration>,
    /// Bits a second that the line carries each way; `M`, `G` are powers of 1,000.
    #[arg(long, value_parser = bits, requires = "delay")]
    pub(crate) rate: Option<u64>,
}

/// What to measure of an FTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FtpWorkload {
    /// Connections with login and goodbye.
    Logins,
    /// A small file down, again and again.
    Retr,
    /// Small files up.
    Stor,
    /// Both in turn.
    Mixed,
    /// The small file `bench-exec` down, for servers that run a command after each transfer of it.
    Exec,
    /// One large file down.
    Download,
    /// One large file up.
    Upload,
}

/// When TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FtpTls {
    /// By AUTH TLS.
    Explicit,
    /// With the connection.
    Implicit,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("secret").required(true))]
pub(crate) struct BenchFtpArgs {
    /// Host and port of the server.
    #[arg(long)]
    pub(crate) target: String,
    /// The account to log in to.
    #[arg(long)]
    pub(crate) user: String,
    /// File with the password in its first line.
    #[arg(long, group = "secret")]
    pub(crate) password_file: Option<PathBuf>,
    /// Environment variable with the password.
    #[arg(long, group = "secret")]
    pub(crate) password_env: Option<String>,
    /// Read the password from standard input.
    #[arg(long, group = "secret")]
    pub(crate) password_stdin: bool,
    /// Use TLS on all connections, whatever the certificate: `explicit` where nothing follows.
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "explicit")]
    pub(crate) tls: Option<FtpTls>,
    /// The only version of TLS; if unset 1.3, but 1.2 for `stor`: few servers give enough tickets.
    #[arg(long, requires = "tls", value_parser = tls_version)]
    pub(crate) tls_version: Option<TlsVersion>,
    /// What to measure; if unset all but `mixed`, small files passive and active.
    #[arg(long = "workload", value_enum)]
    pub(crate) workloads: Vec<FtpWorkload>,
    /// The server connects for data; without it we do.
    #[arg(long, requires = "workloads")]
    pub(crate) active: bool,
    /// Remote folder to work in; where the login leads if unset.
    #[arg(long, default_value = "")]
    pub(crate) folder: String,
    /// Bytes of the large file; `K`, `M`, `G` are powers of 1,024.
    #[arg(long, default_value = "1G", value_parser = size)]
    pub(crate) size: u64,
    /// Bytes of a small file.
    #[arg(long, default_value = "1K", value_parser = size)]
    pub(crate) small_size: u64,
    /// Logins or small transfers of each user.
    #[arg(long, default_value_t = 100)]
    pub(crate) count: u64,
    /// Users at a time; a large file has one.
    #[arg(long, default_value_t = 100)]
    pub(crate) concurrency: usize,
    /// What a login or a small transfer may take before it counts as hung, such as `30000ms`.
    #[arg(long, value_parser = milliseconds, default_value = "30000ms")]
    pub(crate) deadline: std::time::Duration,
    /// Process id of the server, if it is local: its CPU time, with its children's, is reported.
    #[arg(long)]
    pub(crate) server_pid: Option<u32>,
    /// Folder of the server's own control group: finer than `--server-pid`, in its place.
    #[arg(long)]
    pub(crate) server_group: Option<PathBuf>,
    /// Rounds; the report gives medians.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: u32,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
}
