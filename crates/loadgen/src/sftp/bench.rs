//! What `bench sftp` measures, and against what.

use std::path::PathBuf;

use entrepot_nouns::Secret;
use serde::{Deserialize, Serialize};

use crate::wan::Wan;

/// What is measured, and against what.
#[derive(Clone, Debug)]
pub struct SftpBench {
    /// Host name or address.
    pub host: String,
    /// TCP port of its SSH server.
    pub port: u16,
    /// The one account that all sessions log in to.
    pub user: String,
    /// How to log in.
    pub login: Login,
    /// Remote folder to work in; it must exist.
    pub folder: String,
    /// Cipher, as OpenSSH names it.
    pub cipher: String,
    /// Bytes of a large file.
    pub size: u64,
    /// Bytes of a small file.
    pub small_size: u64,
    /// Small files, logins or idle sessions in all.
    pub count: u64,
    /// Streams, sessions or logins at a time.
    pub concurrency: usize,
    /// Process id of a local server, for its CPU time and memory.
    pub server_pid: Option<u32>,
    /// Folder of its control group, where it has one of its own: finer than the process tree.
    pub server_group: Option<PathBuf>,
    /// Rounds of each workload.
    pub rounds: u32,
    /// The mixed workload.
    pub mix: Mix,
    /// A line between us and the server; `None`: none but the real one.
    pub wan: Option<Wan>,
}

/// How to log in.
#[derive(Clone, Debug)]
pub enum Login {
    /// With a password.
    Password(Secret),
    /// With a private key, OpenSSH form.
    Key(Secret),
}

/// The mixed workload: how many files, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Uploads at once.
    pub uploads: u64,
    /// Downloads beside them.
    pub downloads: u64,
    /// The sizes, 10 to 950 MB, are divided by this.
    pub scale: u64,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One large file up each stream.
    Upload,
    /// One large file down each stream.
    Download,
    /// Many small files up, one after another in each session.
    SmallFiles,
    /// Logins, each with a new connection.
    Handshakes,
    /// Logged in, SFTP begun, and silent.
    IdleSessions,
    /// Hundreds of uploads of many sizes at once, downloads beside them.
    Mixed,
}

impl Workload {
    /// What is measured where nothing is named: all but the mixed one, which takes long.
    pub const USUAL: [Workload; 5] = [
        Workload::Upload,
        Workload::Download,
        Workload::SmallFiles,
        Workload::Handshakes,
        Workload::IdleSessions,
    ];

    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Workload::Upload => "upload",
            Workload::Download => "download",
            Workload::SmallFiles => "small-files",
            Workload::Handshakes => "handshakes",
            Workload::IdleSessions => "idle-sessions",
            Workload::Mixed => "mixed",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Workload::Upload | Workload::Download | Workload::Mixed => "GiB",
            Workload::SmallFiles => "file",
            Workload::Handshakes => "login",
            Workload::IdleSessions => "session",
        }
    }
}
