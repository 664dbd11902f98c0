//! `bench as2`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use entrepot_as2_proto::As2Name;
use entrepot_net::tls::TlsVersion;
use entrepot_nouns::endpoint::{As2Cipher, As2Compression, As2Digest, As2ReceiptKind};

use super::units::{milliseconds, size, time, tls_version, word};

#[derive(Debug, Args)]
pub(crate) struct BenchAs2Args {
    /// URL that takes messages, such as `https://as2.example:4443/as2`. Any certificate of TLS is
    /// taken.
    #[arg(long, required_unless_present = "loopback", conflicts_with = "loopback")]
    pub(crate) target: Option<String>,
    /// Measure a node of this program that is made for it, with keys of its own, and removed. Its
    /// files are counted against the receipts.
    #[arg(long)]
    pub(crate) loopback: bool,
    /// The folder of that node; it is made, and removed afterwards.
    #[arg(long, requires = "loopback", default_value = "bench-as2")]
    pub(crate) folder: PathBuf,
    /// Have pyas2lib receive the same messages beside that node, in turn with it: the program of
    /// the Python that has it, such as `target/clients-venv/bin/python3` of `scripts/need test`.
    #[arg(long, value_name = "PYTHON", requires = "loopback")]
    #[arg(conflicts_with_all = ["soak", "message"])]
    pub(crate) pyas2lib: Option<PathBuf>,
    /// Processes of it. Unset: one for each processor.
    #[arg(long, requires = "pyas2lib", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) pyas2lib_processes: Option<u16>,
    /// AS2 name of who sends.
    #[arg(long, value_parser = as2_name, default_value = "BENCH-PARTNER")]
    pub(crate) from: As2Name,
    /// AS2 name of who receives.
    #[arg(long, value_parser = as2_name, default_value = "BENCH-STATION")]
    pub(crate) to: As2Name,
    /// Our certificate (PEM), which is sent along with signatures.
    #[arg(long, requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key (PEM, PKCS #8), which signs. Without one messages are not signed.
    #[arg(long, requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// Certificate of the receiver (PEM): messages are encrypted for it, and receipts have to be
    /// signed by it. More than one: for the first, by any.
    #[arg(long)]
    pub(crate) partner_certificate: Vec<PathBuf>,
    /// Send this message again and again: the lines of its header, an empty line, its body. Its
    /// fields stay, but for those of the connection; each gets a Message-ID of its own.
    #[arg(long)]
    pub(crate) message: Option<PathBuf>,
    /// The header of that message, where it is in a file of its own.
    #[arg(long, requires = "message")]
    pub(crate) headers: Option<PathBuf>,
    /// Bytes of a file; `K`, `M`, `G` are powers of 1,024.
    #[arg(long, default_value = "1M", value_parser = size)]
    pub(crate) size: u64,
    /// The name that each message proposes for its file. Unset: none, so that receivers call files
    /// by their Message-IDs.
    #[arg(long)]
    pub(crate) file_name: Option<String>,
    /// `aes-128-cbc`, `aes-256-cbc`, `aes-128-gcm`, `aes-256-gcm`, `triple-des-cbc`, `none`.
    #[arg(long, default_value = "aes-128-cbc", value_parser = word::<As2Cipher>)]
    pub(crate) cipher: As2Cipher,
    /// Of signature and receipt: `sha-1`, `sha-256`, `sha-384`, `sha-512`.
    #[arg(long, default_value = "sha-256", value_parser = word::<As2Digest>)]
    pub(crate) digest: As2Digest,
    /// `none`, `before-signing`, `after-signing`. The file is random, and grows a little.
    #[arg(long, default_value = "none", value_parser = word::<As2Compression>)]
    pub(crate) compression: As2Compression,
    /// The receipt to ask for: `signed`, `unsigned`, `none`.
    #[arg(long, default_value = "signed", value_parser = word::<As2ReceiptKind>)]
    pub(crate) receipt: As2ReceiptKind,
    /// Build each message, in place of one for each iteration: the client works as a sender does.
    #[arg(long, conflicts_with = "message")]
    pub(crate) each: bool,
    /// Messages of an iteration.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) messages: u64,
    /// Messages under way at a time, each on a connection of its own.
    #[arg(long, default_value_t = 8)]
    pub(crate) concurrency: usize,
    /// How often all of it is done.
    #[arg(long, default_value_t = 3)]
    pub(crate) iterations: u32,
    /// Messages a second at most; those that had to wait for a connection count as late. Unset: as
    /// fast as answers come.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Send for so long, such as `10m`, in place of iterations, and fail if memory, latency or
    /// handles of the server grow, or a message is lost.
    #[arg(long, value_parser = time)]
    pub(crate) soak: Option<Duration>,
    /// What a message may take before it counts as hung.
    #[arg(long, value_parser = milliseconds, default_value = "60000ms")]
    pub(crate) deadline: Duration,
    /// The version of TLS to speak.
    #[arg(long, value_parser = tls_version, default_value = "1.3")]
    pub(crate) tls_version: TlsVersion,
    /// The user that signs in with each message (HTTP Basic).
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// File with the password in its first line.
    #[arg(long, requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// Environment variable with the password.
    #[arg(long, requires = "user", conflicts_with = "password_file")]
    pub(crate) password_env: Option<String>,
    /// Process id of the server, if it is local: what it spends is reported.
    #[arg(long, conflicts_with = "loopback")]
    pub(crate) server_pid: Option<u32>,
    /// Folder of the server's own control group: finer than `--server-pid`, for CPU time.
    #[arg(long)]
    pub(crate) server_group: Option<PathBuf>,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
}

/// Reads an AS2 name.
fn as2_name(text: &str) -> Result<As2Name, String> {
    let wrong = || format!("'{text}' is no AS2 name: up to 128 printable characters of ASCII");
    As2Name::new(text).ok_or_else(wrong)
}
