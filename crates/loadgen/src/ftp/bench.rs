//! What `bench ftp` measures, and against what.

use std::path::PathBuf;
use std::time::Duration;

use entrepot_ftp_proto::client::Mode;
use entrepot_net::tls::TlsVersion;
use entrepot_nouns::Secret;

/// What is measured, and against what.
#[derive(Clone, Debug)]
pub struct FtpBench {
    /// Host name or address.
    pub host: String,
    /// TCP port of its control connection.
    pub port: u16,
    /// The one account that all sessions log in to.
    pub user: String,
    /// The password that each of them sends.
    pub password: Secret,
    /// Remote folder to work in; it must exist. Empty: where the login leads.
    pub folder: String,
    /// When TLS begins. Then data is under TLS too.
    pub tls: Tls,
    /// The only version of TLS; none: 1.3, but 1.2 for [`Workload::Stor`], because few servers
    /// give a ticket for each of many uploads, and a ticket of TLS 1.3 is used once.
    pub tls_version: Option<TlsVersion>,
    /// Bytes of the large file.
    pub size: u64,
    /// Bytes of a small file.
    pub small_size: u64,
    /// Logins or small transfers of each user.
    pub count: u64,
    /// Users at a time.
    pub concurrency: usize,
    /// What a login or a small transfer may take; a large file gets more, by its size.
    pub deadline: Duration,
    /// Process id of a local server, for its CPU time.
    pub server_pid: Option<u32>,
    /// Folder of its control group, where it has one of its own: finer than the process tree.
    pub server_group: Option<PathBuf>,
    /// Rounds of each workload.
    pub rounds: u32,
}

/// When TLS begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Never: passwords and files go in clear text.
    #[default]
    Off,
    /// By AUTH TLS.
    Explicit,
    /// With the connection.
    Implicit,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Connecting, USER, PASS, QUIT and its answer, again and again.
    Logins,
    /// The same small file down, by each user.
    Retr,
    /// New small files up, by each user.
    Stor,
    /// Both in turn.
    Mixed,
    /// As `Retr`, of the file `bench-exec`: for servers that run a command after each transfer of
    /// that name and let the client wait for it.
    Exec,
    /// Logged in and silent: for the memory and the threads of a session.
    IdleSessions,
    /// One large file down, by one user.
    Download,
    /// One large file up, by one user.
    Upload,
}

/// A workload and who connects for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind of load.
    pub workload: Workload,
    /// The server connects (PORT, EPRT).
    pub active: bool,
}

impl Step {
    /// What is measured where nothing is named.
    pub const USUAL: [Step; 7] = [
        Step { workload: Workload::Logins, active: false },
        Step { workload: Workload::Retr, active: false },
        Step { workload: Workload::Stor, active: false },
        Step { workload: Workload::Retr, active: true },
        Step { workload: Workload::Stor, active: true },
        Step { workload: Workload::Download, active: false },
        Step { workload: Workload::Upload, active: false },
    ];

    /// Who connects for data, as the client machine has it.
    pub(super) fn mode(self) -> Mode {
        if self.active { Mode::Active } else { Mode::Passive }
    }

    /// Its name in reports, such as `retr-active-tls`; `tls`: the version, if it runs under TLS.
    pub fn name(self, tls: Option<TlsVersion>) -> String {
        let mut name = self.workload.as_str().to_owned();
        if self.active {
            name.push_str("-active");
        }
        name.push_str(match tls {
            None => "",
            Some(TlsVersion::Tls12) => "-tls12",
            Some(TlsVersion::Tls13) => "-tls",
        });
        name
    }
}

impl FtpBench {
    /// The version of TLS that a step runs under.
    pub(super) fn version_of(&self, step: Step) -> Option<TlsVersion> {
        let usual = match step.workload {
            Workload::Stor => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        };
        (self.tls != Tls::Off).then(|| self.tls_version.unwrap_or(usual))
    }
}

impl Workload {
    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Workload::Logins => "logins",
            Workload::Retr => "retr",
            Workload::Stor => "stor",
            Workload::Mixed => "mixed",
            Workload::Exec => "exec",
            Workload::IdleSessions => "idle-sessions",
            Workload::Download => "download",
            Workload::Upload => "upload",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Workload::Logins => "login",
            Workload::IdleSessions => "session",
            Workload::Retr | Workload::Stor | Workload::Mixed | Workload::Exec => "file",
            Workload::Download | Workload::Upload => "GiB",
        }
    }

    /// Whether a file must be there.
    pub(super) fn reads(self) -> bool {
        !matches!(self, Workload::Stor | Workload::Upload) && self.moves_files()
    }

    /// Whether anything but the login is done.
    pub(super) fn moves_files(self) -> bool {
        !matches!(self, Workload::Logins | Workload::IdleSessions)
    }

    pub(super) fn is_large(self) -> bool {
        matches!(self, Workload::Download | Workload::Upload)
    }
}
