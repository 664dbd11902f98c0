//! Arguments of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use entrepot_net::tls::TlsVersion;

use super::bench_as2::BenchAs2Args;
use super::host::BenchHostArgs;
use super::units::{bits, milliseconds, size, tls_version};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// An SFTP server, this one or any other.
    Sftp(BenchSftpArgs),
    /// An FTP server, this one or any other.
    Ftp(BenchFtpArgs),
    /// A server of HTTPS, this one or any other that takes PUT.
    Https(Box<BenchHttpsArgs>),
    /// Serve SFTP from memory and do nothing else: the floor of what `bench sftp` measures.
    BareSftp(BareSftpArgs),
    /// Serve FTP from memory and do nothing else: the floor of what `bench ftp` measures.
    BareFtp(BareFtpArgs),
    /// Serve HTTPS from memory and do nothing else: the floor of what `bench https` measures.
    BareHttps(BareHttpsArgs),
    /// A receiver of AS2, this one or any other: messages are sent and every receipt is checked.
    As2(Box<BenchAs2Args>),
    /// Procedures of host applications, called over HTTP by many clients at once: screens a second,
    /// and what each costs. Without a target a node and the sample application are started.
    Host(Box<BenchHostArgs>),
    /// The rules of this server: events become jobs and are worked, on a node made for it.
    Rules(BenchRulesArgs),
    /// Make one HTML page with tables and plots of reports of several servers.
    Page(BenchPageArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchPageArgs {
    /// Reports as `--report` writes them, which the file's name then names, or files with
    /// `{"server": NAME, "step": WHAT, "plot": NAME, "report": REPORT}` in each line.
    #[arg(required = true)]
    pub(crate) reports: Vec<PathBuf>,
    /// The page to write.
    #[arg(long, required_unless_present = "plots")]
    pub(crate) out: Option<PathBuf>,
    /// A folder for the plots against users, each an SVG of its own, such as `retr-rate.svg`.
    #[arg(long)]
    pub(crate) plots: Option<PathBuf>,
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
    /// Folder of the server's own control group, for its CPU time: finer than `--server-pid`, whose
    /// memory is reported all the same.
    #[arg(long)]
    pub(crate) server_group: Option<PathBuf>,
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
    /// Logged in and silent: memory and threads of a session.
    IdleSessions,
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

/// What to measure of a server of HTTPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpsWorkload {
    /// One large file up each stream, by PUT.
    Upload,
    /// One large file down each stream.
    Download,
    /// Small files up, by PUT.
    Put,
    /// A small file down, again and again.
    Get,
    /// The answer at `--path`, again and again.
    Fetch,
    /// Users who sign in, think, look at their folder and upload.
    Users,
    /// One large file up each stream, by tus, with `--cuts`.
    Tus,
}

/// Versions of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpVersionWord {
    /// Each stream has a connection.
    #[value(name = "1.1")]
    Http1,
    /// Streams share connections.
    #[value(name = "2")]
    Http2,
}

#[derive(Debug, Args)]
pub(crate) struct BenchHttpsArgs {
    /// URL of the folder to work in, such as `https://localhost:8443/files/bench/`; `{n}` stands
    /// for the number of the user. Any certificate is taken.
    #[arg(long)]
    pub(crate) target: String,
    /// The version of HTTP to speak.
    #[arg(long, value_enum, default_value = "1.1")]
    pub(crate) http: HttpVersionWord,
    /// The version of TLS to speak.
    #[arg(long, value_parser = tls_version, default_value = "1.3")]
    pub(crate) tls_version: TlsVersion,
    /// The account that signs in with each request (HTTP Basic); `{n}` as in `--target`.
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// File with the password in its first line.
    #[arg(long, requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// Environment variable with the password.
    #[arg(long, requires = "user", conflicts_with = "password_file")]
    pub(crate) password_env: Option<String>,
    /// What to measure; if unset upload, download, put and get.
    #[arg(long = "workload", value_enum)]
    pub(crate) workloads: Vec<HttpsWorkload>,
    /// Path, with its query, that `fetch` reads.
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
    /// Path at which uploads of tus are created.
    #[arg(long, default_value = "/uploads")]
    pub(crate) tus_path: String,
    /// Bytes of a large file; `K`, `M`, `G` are powers of 1,024.
    #[arg(long, default_value = "1G", value_parser = size)]
    pub(crate) size: u64,
    /// Bytes of a small file.
    #[arg(long, default_value = "10K", value_parser = size)]
    pub(crate) small_size: u64,
    /// Small files or answers of each stream.
    #[arg(long, default_value_t = 1000)]
    pub(crate) count: u64,
    /// Streams: requests at a time.
    #[arg(long, default_value_t = 1)]
    pub(crate) concurrency: usize,
    /// Connections that streams of HTTP/2 share; if unset one for large files, else one each.
    #[arg(long)]
    pub(crate) connections: Option<usize>,
    /// What a small request may take before it counts as hung, such as `30000ms`.
    #[arg(long, value_parser = milliseconds, default_value = "30000ms")]
    pub(crate) deadline: std::time::Duration,
    /// How often `tus` cuts the connection of each upload.
    #[arg(long, default_value_t = 3)]
    pub(crate) cuts: u64,
    /// Users who come in `users`.
    #[arg(long, default_value_t = 600)]
    pub(crate) users: usize,
    /// How many of them upload; the others look at their folder.
    #[arg(long, default_value_t = 200)]
    pub(crate) uploading: usize,
    /// What each of them does after its sign-in, so many times.
    #[arg(long, default_value_t = 4)]
    pub(crate) tests: u64,
    /// Mean time between two tests of a user.
    #[arg(long, value_parser = milliseconds, default_value = "5000ms")]
    pub(crate) think_time: std::time::Duration,
    /// The time in which all users have come.
    #[arg(long, value_parser = milliseconds, default_value = "30000ms")]
    pub(crate) ramp: std::time::Duration,
    /// What the sizes of `users`, 10, 25, 50 and 100 MB, are divided by.
    #[arg(long, default_value_t = 1)]
    pub(crate) scale: u64,
    /// Put a line with this round trip between client and server, such as `50ms`.
    #[arg(long, value_parser = milliseconds)]
    pub(crate) delay: Option<std::time::Duration>,
    /// Bits a second that the line carries each way; `M`, `G` are powers of 1,000.
    #[arg(long, value_parser = bits, requires = "delay")]
    pub(crate) rate: Option<u64>,
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

#[derive(Debug, Args)]
pub(crate) struct BareSftpArgs {
    /// Where to listen. Whoever reaches it can fill the memory.
    #[arg(long, default_value = "127.0.0.1:2022")]
    pub(crate) address: std::net::SocketAddr,
    /// Private host key, OpenSSH form; one is made if unset.
    #[arg(long)]
    pub(crate) host_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BareFtpArgs {
    /// Where to listen, in clear text. Whoever reaches it can fill the memory.
    #[arg(long, default_value = "127.0.0.1:2121")]
    pub(crate) address: std::net::SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct BareHttpsArgs {
    /// Where to listen. Whoever reaches it can fill the memory.
    #[arg(long, default_value = "127.0.0.1:8443")]
    pub(crate) address: std::net::SocketAddr,
    /// Serve HTTP/1.1 in clear text.
    #[arg(long)]
    pub(crate) clear: bool,
}

/// What the jobs of a rule do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RulesWorkload {
    /// Two steps that touch nothing: what a job itself costs.
    Steps,
    /// A delivery from a local folder to another one.
    Deliver,
    /// A program that does nothing; CPU time is that of the node, without the program's.
    Exec,
    /// No jobs: `--count` files rest in a watched folder, which is listed once a second. A unit is
    /// a listing, and the bytes are those that the node has taken since before it saw the first
    /// file. Only if it is named.
    Watch,
    /// No jobs: events of uploads before `--rules` rules of which each looks for another folder,
    /// until all are in the database. A unit is an event. Only if it is named.
    Match,
    /// One upload after the other on an idle node: the times are those from the moment when the
    /// event is durable, as when the client is answered, until its job, which does nothing, is
    /// done. Only if it is named.
    Latency,
    /// No jobs but those of `--waiting`: the metrics of the node are read two hundred times. Only
    /// if it is named.
    Scrape,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRulesArgs {
    /// What to measure; all if unset.
    #[arg(long = "workload", value_enum)]
    pub(crate) workloads: Vec<RulesWorkload>,
    /// Jobs of each workload; of `watch` the files, of which there is the most to see with 100,000.
    #[arg(long, default_value_t = 5_000)]
    pub(crate) count: usize,
    /// Bytes of a file; `K`, `M`, `G` are powers of 1,024.
    #[arg(long, default_value = "1K", value_parser = size)]
    pub(crate) size: u64,
    /// Jobs of the same rule that wait meanwhile for their next attempt, which is far away.
    #[arg(long, default_value_t = 0)]
    pub(crate) waiting: usize,
    /// Rules of `match`.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) rules: usize,
    /// Places of each pool of the node.
    #[arg(long, default_value_t = 25)]
    pub(crate) places: usize,
    /// The database of the node: `sqlite`, or a URL of PostgreSQL without anything in it.
    #[arg(long, default_value = "sqlite")]
    pub(crate) database: String,
    /// The folder of the node; it is made, and removed after each measurement.
    #[arg(long, default_value = "bench-rules")]
    pub(crate) folder: PathBuf,
    /// How often each workload is measured; the table shows the median.
    #[arg(long, default_value_t = 1)]
    pub(crate) rounds: u32,
    /// Write the report as JSON into this file.
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
}
