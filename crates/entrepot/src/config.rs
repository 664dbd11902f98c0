//! The process file, `entrepot.toml`: what a node must know before it can open its database.
//! Everything else is a noun in the database.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use entrepot_crypto::HashCost;
use entrepot_engine::limits::WORK_BYTES;
use entrepot_nouns::Name;
use entrepot_nouns::ftp::Ports;
use entrepot_spawn::Allowed;
use entrepot_storage::OwnFiles;
use entrepot_vfs::NodeLimits;
use serde::Deserialize;

use crate::audit_file::{SinkConfig, SinkTable};
use crate::failure::Failure;

/// Fewer sessions leave none for administrators.
const LEAST_SESSIONS: u64 = 16;
/// With less memory than this, hardly a part of an object can be made.
const LEAST_MEMORY_MIB: u64 = 32;

/// The process file as read, paths made absolute.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The file itself.
    pub(crate) file: PathBuf,
    /// Not of the file: the site that the command line is about; none: `main`.
    pub(crate) site: Option<Name>,
    /// Holds everything this node keeps: journal, database, master key, ops socket.
    pub(crate) data: PathBuf,
    /// Unique among the nodes of one database.
    pub(crate) node: Name,
    /// `sqlite:///path` or `postgres://…`.
    pub(crate) database: String,
    /// Where the master key comes from.
    pub(crate) master_key: MasterKeySource,
    /// `/metrics`, `/live`, `/ready`; none if unset.
    pub(crate) ops_address: Option<SocketAddr>,
    /// Where balancers ask for the line of the agent; nowhere if unset.
    pub(crate) agent_address: Option<SocketAddr>,
    /// Socket that the command line speaks to.
    pub(crate) ops_socket: PathBuf,
    /// How to log.
    pub(crate) log: Log,
    /// How long a stop waits for running transfers, in seconds.
    pub(crate) drain_seconds: u64,
    /// Most bytes of the journal that wait for the database.
    pub(crate) journal_limit_bytes: u64,
    /// Jobs worked at a time.
    pub(crate) workers: usize,
    /// Most bytes of the files that steps of rules make.
    pub(crate) work_bytes: u64,
    /// Sessions of all accounts at a time.
    pub(crate) sessions: u64,
    /// Bytes of memory for what waits in it, of all accounts together.
    pub(crate) memory_bytes: u64,
    /// Which programs may be started at all, and how many at a time.
    pub(crate) exec: ExecLimits,
    /// Whether Landlock keeps the server from writing to the system's folders.
    pub(crate) protect_system: bool,
    /// Ports for data connections of FTP on this node, whatever its listeners say.
    pub(crate) passive_ports: Option<Ports>,
    /// A file of passwords that nobody may set, one a line.
    pub(crate) refused_passwords: Option<PathBuf>,
    /// What the hashes of new passwords cost.
    pub(crate) hash_cost: HashCost,
    /// Where the signed heads of the journal are sent.
    pub(crate) sinks: Vec<SinkConfig>,
}

/// What rules and login hooks may start: said by the operator of the machine, not by rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecLimits {
    pub(crate) allowed: Allowed,
    pub(crate) children: usize,
    pub(crate) queue: usize,
    /// The user that programs run as: a name of `/etc/passwd`, or `UID:GID`.
    pub(crate) user: Option<String>,
    pub(crate) isolation: IsolationNeed,
    /// What programs may read and run under Landlock, beside the system's folders.
    pub(crate) read: Vec<PathBuf>,
    /// What programs may change under Landlock, beside their temporary folders.
    pub(crate) write: Vec<PathBuf>,
}

/// What becomes of programs where they cannot be kept apart from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IsolationNeed {
    /// They run all the same, with a warning at start.
    #[default]
    Preferred,
    /// The server does not start.
    Required,
}

/// Where the master key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MasterKeySource {
    /// A file that only its owner may read.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
}

/// Format and level of the log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: String,
}

impl Default for Log {
    fn default() -> Self {
        Log { format: LogFormat::Human, level: "info".to_owned() }
    }
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "default_data")]
    data: PathBuf,
    #[serde(default = "default_node")]
    node: Name,
    database: Option<String>,
    master_key: Option<String>,
    #[serde(default)]
    ops: Ops,
    #[serde(default)]
    log: Log,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    exec: Exec,
    #[serde(default)]
    sandbox: Sandbox,
    #[serde(default)]
    passwords: Passwords,
    #[serde(default)]
    ftp: Ftp,
    #[serde(default)]
    audit: Audit,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Ftp {
    passive_ports: Option<Ports>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Audit {
    sinks: Vec<SinkTable>,
}

impl Audit {
    fn checked(self, base: &Path) -> Result<Vec<SinkConfig>, Failure> {
        let mut sinks: Vec<SinkConfig> = Vec::new();
        for table in self.sinks {
            let sink = table.checked(base)?;
            if sinks.iter().any(|known| known.name == sink.name) {
                let name = sink.name;
                return Err(Failure::config(format!("audit.sinks: two are named '{name}'")));
            }
            sinks.push(sink);
        }
        Ok(sinks)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sandbox {
    protect_system: bool,
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox { protect_system: true }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Passwords {
    refused: Option<PathBuf>,
    hash_memory_mib: u32,
    hash_passes: u32,
}

impl Default for Passwords {
    fn default() -> Self {
        let HashCost { memory_kib, passes, .. } = HashCost::default();
        Passwords { refused: None, hash_memory_mib: memory_kib >> 10, hash_passes: passes }
    }
}

impl Passwords {
    fn hash_cost(&self) -> Result<HashCost, Failure> {
        HashCost::chosen(self.hash_memory_mib, self.hash_passes).map_err(|error| {
            Failure::config(format!("passwords.hash_memory_mib, passwords.hash_passes: {error}"))
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Exec {
    allow: Vec<PathBuf>,
    children: usize,
    queue: usize,
    user: Option<String>,
    isolation: IsolationNeed,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl Default for Exec {
    fn default() -> Self {
        Exec {
            allow: Vec::new(),
            children: entrepot_spawn::limits::CHILDREN,
            queue: entrepot_spawn::limits::QUEUE,
            user: None,
            isolation: IsolationNeed::default(),
            read: Vec::new(),
            write: Vec::new(),
        }
    }
}

impl Exec {
    fn checked(self) -> Result<ExecLimits, Failure> {
        let allowed = Allowed::new(self.allow)
            .map_err(|error| Failure::config(format!("exec.allow: {error}")))?;
        for (key, paths) in [("read", &self.read), ("write", &self.write)] {
            if let Some(path) = paths.iter().find(|path| !path.is_absolute()) {
                let path = path.display();
                return Err(Failure::config(format!("exec.{key}: '{path}' is no absolute path")));
            }
        }
        Ok(ExecLimits {
            allowed,
            children: self.children.clamp(1, 1024),
            queue: self.queue.clamp(0, 65_536),
            user: self.user,
            isolation: self.isolation,
            read: self.read,
            write: self.write,
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Ops {
    address: Option<SocketAddr>,
    agent: Option<SocketAddr>,
    socket: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    drain_seconds: u64,
    journal_mib: u64,
    workers: usize,
    work_gib: u64,
    sessions: u64,
    memory_mib: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let NodeLimits { sessions, memory_bytes, .. } = NodeLimits::default();
        let memory_mib = memory_bytes >> 20;
        Limits {
            drain_seconds: 30,
            journal_mib: 1024,
            workers: 25,
            work_gib: WORK_BYTES >> 30,
            sessions,
            memory_mib,
        }
    }
}

fn default_data() -> PathBuf {
    PathBuf::from("data")
}

fn default_node() -> Name {
    // The invariant: the literal is a name.
    "node1".parse().expect("a literal name")
}

/// The process file where none is named: the one in this folder, or that of an installed package.
pub(crate) fn usual_file() -> PathBuf {
    let (here, installed) = (Path::new("entrepot.toml"), Path::new("/etc/entrepot/entrepot.toml"));
    let found = if !here.exists() && installed.exists() { installed } else { here };
    found.to_owned()
}

impl Config {
    /// Reads and checks `file`.
    pub(crate) fn read(file: &Path) -> Result<Config, Failure> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::config(format!(
                "cannot read the process file '{}': {error}; make one with 'entrepot init'",
                file.display()
            ))
        })?;
        Self::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<Config, Failure> {
        let parsed: File = toml::from_str(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            let place = format!("{}:{line}:{column}", file.display());
            Failure::config(format!("{place}: {}", error.message()))
        })?;
        let base = absolute(file.parent().unwrap_or(Path::new(".")))?;
        let data = base.join(&parsed.data);
        let database = parsed.database.unwrap_or_else(|| "sqlite".to_owned());
        Ok(Config {
            file: base.join(file.file_name().unwrap_or_default()),
            site: None,
            node: parsed.node,
            database: database_url(&database, &base, &data)?,
            master_key: master_key(parsed.master_key.as_deref(), &base, &data)?,
            ops_address: parsed.ops.address,
            agent_address: parsed.ops.agent,
            ops_socket: parsed.ops.socket.map_or_else(|| data.join("ops.sock"), |s| base.join(s)),
            log: parsed.log,
            drain_seconds: parsed.limits.drain_seconds,
            journal_limit_bytes: parsed.limits.journal_mib.clamp(1, 1 << 20) << 20,
            workers: parsed.limits.workers.clamp(1, 256),
            work_bytes: parsed.limits.work_gib.clamp(1, 1 << 20) << 30,
            sessions: parsed.limits.sessions.max(LEAST_SESSIONS),
            memory_bytes: parsed.limits.memory_mib.clamp(LEAST_MEMORY_MIB, 1 << 20) << 20,
            exec: parsed.exec.checked()?,
            protect_system: parsed.sandbox.protect_system,
            passive_ports: parsed.ftp.passive_ports,
            hash_cost: parsed.passwords.hash_cost()?,
            refused_passwords: parsed.passwords.refused.map(|file| base.join(file)),
            sinks: parsed.audit.checked(&base)?,
            data,
        })
    }

    /// What no program may reach: everything that this node keeps, and what it starts from.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        let mut own = vec![self.data.clone(), self.file.clone(), self.ops_socket.clone()];
        if let Some(path) = self.database.strip_prefix("sqlite://") {
            own.extend(["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{path}{end}"))));
        }
        if let MasterKeySource::File(path) = &self.master_key {
            // Keys that a rotation has left beside it too.
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
            let beside = beside.into_iter().flatten().flatten();
            let of_keys =
                |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&*name);
            own.extend(beside.filter(of_keys).map(|entry| entry.path()));
            own.push(path.clone());
        }
        own
    }

    /// What no endpoint may reach: the same, but for the folder of files that `init` makes.
    pub(crate) fn kept_from_endpoints(&self) -> OwnFiles {
        OwnFiles::new(self.own_files(), self.data.join("files"))
    }

    /// Keys whose value differs in `new` and that count only from a start on.
    pub(crate) fn fixed_keys_that_differ(&self, new: &Config) -> Vec<String> {
        let differ = [
            ("node", self.node != new.node),
            ("data", self.data != new.data),
            ("database", self.database != new.database),
            ("master_key", self.master_key != new.master_key),
            ("ops.address", self.ops_address != new.ops_address),
            ("ops.agent", self.agent_address != new.agent_address),
            ("ftp.passive_ports", self.passive_ports != new.passive_ports),
            ("ops.socket", self.ops_socket != new.ops_socket),
            ("log.format", self.log.format != new.log.format),
            ("limits.drain_seconds", self.drain_seconds != new.drain_seconds),
            ("limits.journal_mib", self.journal_limit_bytes != new.journal_limit_bytes),
            ("limits.workers", self.workers != new.workers),
            ("limits.work_gib", self.work_bytes != new.work_bytes),
            ("exec", self.exec != new.exec),
            ("sandbox.protect_system", self.protect_system != new.protect_system),
            ("audit", self.sinks != new.sinks),
        ];
        let differ = differ.into_iter().filter(|(_, differs)| *differs);
        differ.map(|(key, _)| key.to_owned()).collect()
    }

    /// Folder of the journal.
    pub(crate) fn journal(&self) -> PathBuf {
        self.data.join("journal")
    }
}

fn absolute(folder: &Path) -> Result<PathBuf, Failure> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::path::absolute(folder)
        .map_err(|error| Failure::config(format!("'{}': {error}", folder.display())))
}

fn database_url(text: &str, base: &Path, data: &Path) -> Result<String, Failure> {
    if text == "sqlite" {
        return Ok(format!("sqlite://{}", data.join("entrepot.db").display()));
    }
    if let Some(path) = text.strip_prefix("sqlite://") {
        return Ok(format!("sqlite://{}", base.join(path).display()));
    }
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Ok(text.to_owned());
    }
    Err(Failure::config(
        "database: use 'sqlite', 'sqlite:///path/file.db' or 'postgres://user@host/name'",
    ))
}

fn master_key(text: Option<&str>, base: &Path, data: &Path) -> Result<MasterKeySource, Failure> {
    let Some(text) = text else { return Ok(MasterKeySource::File(data.join("master.key"))) };
    match text.split_once(':') {
        Some(("file", path)) => Ok(MasterKeySource::File(base.join(path))),
        Some(("env", name)) if !name.is_empty() => {
            Ok(MasterKeySource::Environment(name.to_owned()))
        }
        _ => Err(Failure::config("master_key: use 'file:PATH' or 'env:NAME'")),
    }
}

/// Line and column, both from 1, of a byte offset.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("/etc/entrepot/entrepot.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_lie_beside_the_file() {
        let config = parse("").unwrap();
        assert_eq!(config.data, Path::new("/etc/entrepot/data"));
        assert_eq!(config.database, "sqlite:///etc/entrepot/data/entrepot.db");
        let key = MasterKeySource::File("/etc/entrepot/data/master.key".into());
        assert_eq!(config.master_key, key);
        assert_eq!(config.node.as_str(), "node1");
    }

    #[test]
    fn each_mistake_is_one_sentence_with_its_place() {
        for (text, want) in [
            ("dta = 'x'", "entrepot.toml:1:1: unknown field `dta`"),
            ("node = 'a b'", "entrepot.toml:1:8: 'a b' is not a name"),
            ("\n[ops]\naddress = '1'", "entrepot.toml:3:11: invalid socket address"),
            ("data = ", "entrepot.toml:1:8:"),
            ("database = 'mysql://x'", "database: use 'sqlite'"),
            ("[exec]\nallow = ['scan']", "exec.allow: 'scan' is no absolute path"),
            ("[exec]\nwrite = ['out']", "exec.write: 'out' is no absolute path"),
            ("[exec]\nisolation = 'none'", "entrepot.toml:2:13: unknown variant `none`"),
            ("[passwords]\nhash_passes = 0", "64 MiB and 0 passes protect too little"),
            ("[passwords]\nhash_memory_mib = 2000", "passwords.hash_memory_mib, passwords.hash"),
            ("[ftp]\npassive_ports = '9-1'", "entrepot.toml:2:17: '9-1' is not a range of ports"),
            ("master_key = 'plain'", "master_key: use 'file:PATH' or 'env:NAME'"),
            (
                "[[audit.sinks]]\nname = 'a'",
                "the sink 'a' needs one of 'file', 'syslog' and 'endpoint'",
            ),
            (
                "[[audit.sinks]]\nname = 'a'\nfile = 'h'\n[[audit.sinks]]\nname = 'a'\nfile = 'i'",
                "two are named 'a'",
            ),
            ("[[audit.sinks]]\nname = 'a'\nsyslog = 'x:y'", "'a' has no port that is one"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(want), "{text:?} gave {message:?}");
        }
    }
}
