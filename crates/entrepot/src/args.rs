//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use entrepot_model::{JobId, JobState, Name, SessionId, TransferId, TransferState};

/// Managed file transfer: SFTP in front, rules behind, every fact durable.
#[derive(Debug, Parser)]
#[command(name = "entrepot", version, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// The process file.
    #[arg(long, short, global = true, env = "ENTREPOT_CONFIG", default_value = "entrepot.toml")]
    pub(crate) config: PathBuf,
    /// The site whose nouns and facts are meant.
    #[arg(long, global = true, env = "ENTREPOT_SITE", value_name = "NAME")]
    pub(crate) site: Option<Name>,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server until it is told to stop.
    Serve,
    /// Make a process file, a data directory, a master key and a first listener.
    Init(InitArgs),
    /// Start a server in ./demo, move a file through the whole path and tell the story.
    Demo,
    /// Make the configuration as the documents say, all or nothing.
    Apply(ApplyArgs),
    /// Show what `apply` would do.
    Plan(ApplyArgs),
    /// Print the configuration as documents.
    Export(ExportArgs),
    /// Take over accounts, folders and keys of another server.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Tenants.
    #[command(subcommand)]
    Site(NounCommand),
    /// Whoever may act.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Virtual paths given to accounts.
    #[command(subcommand)]
    Mount(NounCommand),
    /// Places we reach.
    #[command(subcommand)]
    Endpoint(NounCommand),
    /// When, if, do, else.
    #[command(subcommand)]
    Rule(NounCommand),
    /// Named key material.
    #[command(subcommand)]
    Key(NounCommand),
    /// Places they reach us.
    #[command(subcommand)]
    Listener(NounCommand),
    /// Limits and posture.
    #[command(subcommand)]
    Policy(NounCommand),
    /// Live sessions.
    #[command(subcommand)]
    Session(SessionCommand),
    /// This node as a whole.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Transfers, newest first.
    Transfers(TransferArgs),
    /// The audit log.
    Events(EventArgs),
    /// Durable runs of rules.
    #[command(subcommand)]
    Jobs(JobCommand),
    /// The journal of this node.
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Check configuration, permissions, clock, disk and database, and say what to do.
    Doctor,
    /// Send files to an SFTP server.
    Put(PutArgs),
    /// Fetch files from an SFTP server.
    Get(GetArgs),
    /// Measure a server.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Tell a running server to stop in good order.
    Stop,
    /// The helper that starts programs for the server.
    #[command(hide = true)]
    Spawner,
    /// Print a completion script.
    Completion {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Folder for the process file and the data.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Address of the first SFTP listener.
    #[arg(long, default_value = "0.0.0.0:2022")]
    pub(crate) sftp: SocketAddr,
    /// Address of a listener of FTP; unset: none.
    #[arg(long)]
    pub(crate) ftp: Option<SocketAddr>,
    /// Address of metrics and health.
    #[arg(long, default_value = "127.0.0.1:9422")]
    pub(crate) ops: SocketAddr,
    /// `sqlite` or a PostgreSQL URL.
    #[arg(long, default_value = "sqlite")]
    pub(crate) database: String,
    /// Name of this node.
    #[arg(long, default_value = "node1")]
    pub(crate) node: Name,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Documents, or folders of `*.yaml` and `*.yml`; `-` is standard input.
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Also delete what the documents do not name.
    #[arg(long)]
    pub(crate) prune: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only these kinds.
    pub(crate) kinds: Vec<entrepot_model::Kind>,
    /// Write one file a kind into this folder instead of printing.
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// From the sshd of this machine: those who are confined to SFTP, their folders and keys, and
    /// the host keys. What is there already is left as it is; run it again as often as you like.
    Openssh(ImportOpensshArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportOpensshArgs {
    /// The configuration of sshd.
    #[arg(long = "sshd-config", value_name = "FILE", default_value = "/etc/ssh/sshd_config")]
    pub(crate) config_file: PathBuf,
    /// Folder of the files `passwd` and `group`.
    #[arg(long, value_name = "FOLDER", default_value = "/etc")]
    pub(crate) users: PathBuf,
    /// The listener that shows the host keys.
    #[arg(long, default_value = "sftp")]
    pub(crate) listener: Name,
    /// Only report.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NounCommand {
    /// All of them.
    List,
    /// One of them, whole.
    Show {
        /// Which.
        name: Name,
    },
    /// Make one.
    Create(FieldArgs),
    /// Change fields of one.
    Change(FieldArgs),
    /// Delete one that nothing refers to.
    Delete {
        /// Which.
        name: Name,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    #[command(flatten)]
    Noun(NounCommand),
    /// Make a code generator for an account and show once what it is set up with; from then on
    /// its code is asked for after the password or key.
    Totp {
        /// Which account.
        name: Name,
        /// Replace the generator that it has.
        #[arg(long)]
        replace: bool,
        /// Take the generator away.
        #[arg(long, conflicts_with = "replace")]
        remove: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct FieldArgs {
    /// Its name.
    pub(crate) name: Name,
    /// Fields, `path=value`: the value is read as JSON if it is JSON, else as text; an empty
    /// value removes the field. Example: `quota.files=100 rights=read-only`.
    pub(crate) fields: Vec<String>,
    /// Read the account's password from standard input.
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// Read a field's value from a file: `private=host_key`.
    #[arg(long, value_name = "FIELD=FILE")]
    pub(crate) from_file: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Who is connected.
    List,
    /// End a session now.
    End {
        /// Which.
        id: SessionId,
    },
    /// Set how fast one session may go, until it ends; limits that it shares with others stay.
    Limit {
        /// Which.
        id: SessionId,
        /// Bytes a second from the client, such as `500K`; unset: no limit of its own.
        #[arg(long, value_parser = size)]
        upload: Option<u64>,
        /// Bytes a second to the client; unset: no limit of its own.
        #[arg(long, value_parser = size)]
        download: Option<u64>,
        /// As the policies say again.
        #[arg(long, conflicts_with_all = ["upload", "download"])]
        reset: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Set how fast everything together may go, of all sites, until the server ends.
    Limit {
        /// Bytes a second from clients, such as `50M`; unset: no limit.
        #[arg(long, value_parser = size)]
        upload: Option<u64>,
        /// Bytes a second to clients; unset: no limit.
        #[arg(long, value_parser = size)]
        download: Option<u64>,
        /// As the policy of the site `main` says again.
        #[arg(long, conflicts_with_all = ["upload", "download"])]
        reset: bool,
    },
    /// Stop the server in good order: running transfers may end, nothing new begins. As `stop`.
    Drain,
}

#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// Show one transfer, whole.
    pub(crate) id: Option<TransferId>,
    /// Of this account.
    #[arg(long)]
    pub(crate) account: Option<Name>,
    /// In this state.
    #[arg(long, value_parser = word::<TransferState>)]
    pub(crate) state: Option<TransferState>,
    /// Path holds this text.
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Most rows.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// Of these kinds, such as `file.uploaded`.
    #[arg(long = "kind")]
    pub(crate) kinds: Vec<String>,
    /// Of this account.
    #[arg(long)]
    pub(crate) account: Option<Name>,
    /// Path holds this text.
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Of this session.
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Of this transfer.
    #[arg(long)]
    pub(crate) transfer: Option<TransferId>,
    /// Of this job.
    #[arg(long)]
    pub(crate) job: Option<JobId>,
    /// At or after, RFC 3339.
    #[arg(long)]
    pub(crate) since: Option<entrepot_model::Timestamp>,
    /// Before, RFC 3339.
    #[arg(long)]
    pub(crate) until: Option<entrepot_model::Timestamp>,
    /// Go on printing new events until interrupted.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Most rows.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Jobs, newest first.
    List {
        /// In this state.
        #[arg(long, value_parser = word::<JobState>)]
        state: Option<JobState>,
        /// Of this rule.
        #[arg(long)]
        rule: Option<Name>,
        /// Most rows.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// One job, whole.
    Show {
        /// Which.
        id: JobId,
    },
    /// Make a failed or cancelled job ready again.
    Retry {
        /// Which.
        id: JobId,
    },
    /// End a job that is not done.
    Cancel {
        /// Which.
        id: JobId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Check the chain of every segment; exit code 6 if a record was changed, dropped or swapped.
    Verify {
        /// Folder of a journal; unset: the one of the process file.
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// Files, and folders with `--recursive`.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// `sftp://user@host:port/path`, or the same with `ftp` or `ftps`; `/~/path` lies below the
    /// home. A path that is a directory, or ends in a slash, keeps the files' names.
    #[arg(value_name = "URL")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// `sftp://user@host:port/path`, or the same with `ftp` or `ftps`; `/~/path` lies below the
    /// home.
    #[arg(value_name = "URL")]
    pub(crate) from: String,
    /// File or folder to write to.
    #[arg(default_value = ".")]
    pub(crate) local: PathBuf,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// How to log in to a server, and how to move.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Private key for SFTP, OpenSSH form; without one the password is asked for.
    #[arg(long, short)]
    pub(crate) identity: Option<PathBuf>,
    /// Read the password from standard input.
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// A host key that is right: its `SHA256:…` fingerprint, or its whole line.
    #[arg(long, value_name = "KEY")]
    pub(crate) accept_host_key: Vec<String>,
    /// Host keys that are right, as OpenSSH keeps them; unset: `~/.ssh/known_hosts`.
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,
    /// The certificate that an FTP server shows: its SHA-256 fingerprint, or PEM.
    #[arg(long, value_name = "CERTIFICATE")]
    pub(crate) accept_certificate: Vec<String>,
    /// Authorities that sign an FTP server's certificate, PEM; unset: those this machine trusts.
    #[arg(long, value_name = "FILE")]
    pub(crate) authorities: Option<PathBuf>,
    /// Give an `ftp://` server password and files in clear text, without TLS.
    #[arg(long)]
    pub(crate) clear_text: bool,
    /// Let an FTP server connect for data.
    #[arg(long)]
    pub(crate) active: bool,
    /// Go on where an earlier run was cut.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Folders with all that is in them.
    #[arg(long, short)]
    pub(crate) recursive: bool,
}

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
    /// Its title.
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
    /// Login name.
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
    /// Login name.
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

/// Reads `50ms` or `50`.
fn milliseconds(text: &str) -> Result<std::time::Duration, String> {
    let number = text.strip_suffix("ms").unwrap_or(text).parse();
    number
        .map(std::time::Duration::from_millis)
        .map_err(|_| format!("'{text}' is no round trip such as 50ms"))
}

/// Reads `100M`, `1G`.
fn bits(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (text.get(..at), 1_000),
        Some((at, 'M' | 'm')) => (text.get(..at), 1_000_000),
        Some((at, 'G' | 'g')) => (text.get(..at), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number
        .filter(|number| *number > 0)
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("'{text}' is no rate such as 100M or 1G"))
}

/// Reads a word of an enum through its document form.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|e| e.to_string())
}

/// Reads `10`, `64K`, `1M`, `2G`.
fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (text.get(..at), 10),
        Some((at, 'M' | 'm')) => (text.get(..at), 20),
        Some((at, 'G' | 'g')) => (text.get(..at), 30),
        _ => (Some(text), 0),
    };
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("'{text}' is no size such as 64K, 1M or 2G"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lines() {
        assert_eq!(bits("1G"), Ok(1_000_000_000));
        assert_eq!(bits("150M"), Ok(150_000_000));
        assert_eq!(milliseconds("50ms"), Ok(std::time::Duration::from_millis(50)));
        assert!(bits("0").is_err() && bits("fast").is_err() && milliseconds("5s").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(size("10"), Ok(10));
        assert_eq!(size("64K"), Ok(65_536));
        assert_eq!(size("2G"), Ok(2 << 30));
        for bad in ["", "K", "1T", "-1", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
