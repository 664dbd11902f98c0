//! Arguments of what is done at a terminal of a host.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use entrepot_host::HostAddress;

use super::units::milliseconds;

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Type, press keys and look at screens. Each ACTION is one step; without any, standard input
    /// has one a line: type TEXT, secret FILE, key NAME, move ROW,COLUMN, wait [ROW,COLUMN] [TEXT],
    /// screen, fields, quit.
    Terminal(HostTerminalArgs),
    /// Stand for a host, from traces of x3270 (`.trc`), to any number of clients.
    Play(Box<HostPlayArgs>),
    /// Stand between terminals and their host, and write a trace of each session, without what was
    /// typed into hidden fields.
    Record(HostRecordArgs),
    /// Call a procedure of a model, and print what it gives, as JSON.
    Call(HostCallArgs),
    /// Show what was recorded of a session with a host, message by message: a model says in `debug`
    /// when a file is written. Without options it is a list.
    Debug(HostDebugArgs),
    /// Stand for a host with a sample application, the loans of a library: `--model` prints its
    /// model.
    Sample(HostSampleArgs),
    /// Models of host applications: their screens, how to get about, what can be called.
    #[command(subcommand)]
    Model(HostModelCommand),
}

#[derive(Debug, Args)]
pub(crate) struct HostSampleArgs {
    /// Where terminals connect; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Print the model of the application, and listen nowhere.
    #[arg(long)]
    pub(crate) model: bool,
    /// Begin TLS with the first byte; the fingerprint of the certificate, which is made at the
    /// start, is printed.
    #[arg(long, conflicts_with = "model")]
    pub(crate) tls: bool,
}

/// What `bench host` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchHostPart {
    /// A search of 28 screens, at all numbers of clients, on sessions of a pool and on new ones.
    Search,
    /// A change of a record, 6 screens, the same.
    Update,
    /// The search while sessions are recorded: nothing, what led to errors, everything.
    Debug,
    /// The search over TLS, to the server, to the host and both, on connections that are kept and
    /// on new ones.
    Security,
    /// Models of 10, 50 and 100 screens with sessions that rest at home and are then searched with,
    /// each on a node that has just started: its memory.
    Size,
    /// The search at a Trace Player that plays a recording of the sample application: what a screen
    /// costs it.
    Player,
    /// The search by as many processes of s3270, driven by its script interface, without a server.
    S3270,
}

#[derive(Debug, Args)]
pub(crate) struct BenchHostArgs {
    /// URL of a procedure of another server, such as
    /// `https://host:8443/api/v1/models/loans/procedures/find_loans`, in place of a node that is
    /// made and removed. Any certificate is taken.
    #[arg(long, requires = "user", requires = "screens", conflicts_with = "parts")]
    pub(crate) target: Option<String>,
    /// The account that signs in there with each request (HTTP Basic).
    #[arg(long, requires = "target")]
    pub(crate) user: Option<String>,
    /// File with its password in the first line; unset: standard input has it.
    #[arg(long, value_name = "FILE", requires = "target")]
    pub(crate) password_file: Option<PathBuf>,
    /// What the procedure there is given: `reader=NOVAK`.
    #[arg(long = "in", value_name = "NAME=VALUE", value_parser = named_value, requires = "target")]
    pub(crate) input: Vec<NamedValue>,
    /// Screens of the host that one call there takes.
    #[arg(long, value_name = "NUMBER", requires = "target")]
    pub(crate) screens: Option<u64>,
    /// Process id of that server, if it is local: its CPU time and memory are reported.
    #[arg(long, requires = "target")]
    pub(crate) server_pid: Option<u32>,
    /// What to measure; all if unset, `s3270` where it is installed.
    #[arg(long = "part", value_enum, value_delimiter = ',')]
    pub(crate) parts: Vec<BenchHostPart>,
    /// Numbers of clients at a time.
    #[arg(long, value_delimiter = ',', default_values_t = [5, 30, 75, 150, 200])]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=5000))]
    pub(crate) clients: Vec<u16>,
    /// Sessions of `size`, of which as many rest as there are no clients.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 200])]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=20_000))]
    pub(crate) sessions: Vec<u16>,
    /// Clients of `debug`, `security`, `size` and `player`.
    #[arg(long, default_value_t = 75)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=5000))]
    pub(crate) option_clients: u16,
    /// Transactions of each client.
    #[arg(long, default_value_t = 20)]
    pub(crate) transactions: u64,
    /// Each transaction has a new connection to the server; those of `security` have both.
    #[arg(long)]
    pub(crate) reconnect: bool,
    /// What one transaction may take before it counts as failed.
    #[arg(long, value_parser = milliseconds, default_value = "60000ms")]
    pub(crate) deadline: Duration,
    /// The folder of the node; it is made, and removed afterwards.
    #[arg(long, default_value = "bench-host")]
    pub(crate) folder: PathBuf,
    /// Rounds; the report gives medians.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: u32,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HostDebugArgs {
    /// The file, of `data/host-debug`.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show the message with this number, from 1, with its screen: where it is none, the screen
    /// that stood.
    #[arg(long, value_name = "NUMBER", conflicts_with = "walk")]
    pub(crate) step: Option<usize>,
    /// Go through the messages: a line of standard input is `next` or empty, `prev`, `error` (the
    /// next failure), a number, or `quit`.
    #[arg(long)]
    pub(crate) walk: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostModelCommand {
    /// Look for names that lead nowhere, screens that nothing reaches or that hide each other, and
    /// what nothing uses.
    Check(HostModelArgs),
    /// Call the procedures that the model's tests name, at recordings in place of the host, and
    /// compare what they give.
    Test(HostModelArgs),
    /// Print the JSON Schema of models, by which editors complete and check them.
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct HostModelArgs {
    /// The model, a file of YAML.
    #[arg(value_name = "FILE")]
    pub(crate) model: PathBuf,
}

/// By what a host is known under TLS.
#[derive(Debug, Args)]
pub(crate) struct HostTrustArgs {
    /// Trust certificates that these authorities sign (PEM), in place of those of this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust the certificate with this SHA-256 fingerprint, whatever it says.
    #[arg(long = "pin", value_name = "FINGERPRINT", conflicts_with = "ca")]
    pub(crate) pins: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HostRecordArgs {
    /// The host: a name or an address, with a port if it is not 23; `tls://` before it if TLS
    /// begins with the first byte.
    #[arg(long, value_name = "HOST")]
    pub(crate) to: HostAddress,
    /// Where terminals connect; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// The folder that traces are written into, a file for each session.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) into: PathBuf,
    /// The code page of the host, such as 037, 1047 or 1140.
    #[arg(long, default_value = "037")]
    pub(crate) code_page: String,
    /// Seconds that connecting to the host may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) patience: u32,
    #[command(flatten)]
    pub(crate) trust: HostTrustArgs,
}

/// How much of a key must be as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatchWord {
    /// Every byte, with the place of the cursor.
    Strict,
    /// The key and what was typed into fields; what is in hidden fields does not count.
    Fields,
    /// The key alone.
    Aid,
    /// Any key will do.
    Any,
}

/// What follows on another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NoMatchWord {
    /// The screen is sent again.
    Repeat,
    /// The rest of the trace is searched for the key, and the screen is sent again if it is not
    /// there.
    Forward,
    /// The same, and after the end from the begin on.
    Search,
    /// The connection is closed.
    Drop,
}

#[derive(Debug, Args)]
pub(crate) struct HostCallArgs {
    /// The model, a file of YAML.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Which procedure of the model is called.
    pub(crate) procedure: String,
    /// What the procedure is given: `reader=NOVAK`.
    #[arg(long = "in", value_name = "NAME=VALUE", value_parser = named_value)]
    pub(crate) input: Vec<NamedValue>,
    /// A variable of the model: `user=CLERK`.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = named_value)]
    pub(crate) variables: Vec<NamedValue>,
    /// A variable whose value is the first line of a file: a password stands in no list of
    /// processes.
    #[arg(long = "secret", value_name = "NAME=FILE", value_parser = named_value)]
    pub(crate) secrets: Vec<NamedValue>,
    /// The host, in place of the one that the model names.
    #[arg(long, value_name = "HOST")]
    pub(crate) address: Option<HostAddress>,
    /// Seconds that connecting and each screen may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) patience: u32,
    #[command(flatten)]
    pub(crate) trust: HostTrustArgs,
}

/// A name and what is given for it.
#[derive(Clone, Debug)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

fn named_value(text: &str) -> Result<NamedValue, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("'{text}' is not as in name=value"))?;
    Ok(NamedValue { name: name.to_owned(), value: value.to_owned() })
}

#[derive(Debug, Args)]
pub(crate) struct HostPlayArgs {
    /// What to play. Of several the first client gets the first, and so on around.
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// How much of a key must be as recorded.
    #[arg(long = "match", value_enum, default_value = "fields")]
    pub(crate) matching: MatchWord,
    /// What follows on another key.
    #[arg(long, value_enum, default_value = "repeat")]
    pub(crate) no_match: NoMatchWord,
    /// Behind the last screen any key brings the first one.
    #[arg(long = "loop")]
    pub(crate) loops: bool,
    /// Speak TN3270 also with clients that have TN3270E.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Answer so much later.
    #[arg(long, value_name = "MILLISECONDS", value_parser = milliseconds)]
    pub(crate) lag: Option<Duration>,
    /// Of a hundred answers so many are late.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, requires = "lag")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) lag_percent: u8,
    /// Which answers are late follows from it; unset: another one each time, which is printed.
    #[arg(long, value_name = "NUMBER", requires = "lag")]
    pub(crate) seed: Option<u64>,
    /// Close the connection in place of each N-th answer, counted over all clients.
    #[arg(long, value_name = "N")]
    pub(crate) cut_every: Option<NonZeroU64>,
    /// Clients at once; more are closed when they come.
    #[arg(long, value_name = "NUMBER", default_value_t = entrepot_host::limits::CLIENTS)]
    pub(crate) clients: usize,
    /// Close a client that sends nothing for so long.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) time_limit: Option<NonZeroU64>,
    /// Begin TLS with the first byte.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Ask clients for TLS (option STARTTLS), and go on in clear text with those without it.
    #[arg(long, conflicts_with = "tls")]
    pub(crate) start_tls: bool,
    /// The certificate for TLS with those above it (PEM); unset: one made at the start.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// The code page of the traces.
    #[arg(long, default_value = "037")]
    pub(crate) code_page: String,
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
    #[command(flatten)]
    pub(crate) trust: HostTrustArgs,
}
