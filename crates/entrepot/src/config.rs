//! The process file, `entrepot.toml`: what a node must know before it can open its database.
//! Everything else is a noun in the database.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use entrepot_nouns::Name;
use entrepot_spawn::Allowed;
use serde::Deserialize;

use crate::failure::Failure;

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
    /// Which programs may be started at all, and how many at a time.
    pub(crate) exec: ExecLimits,
    /// A file of passwords that nobody may set, one a line.
    pub(crate) refused_passwords: Option<PathBuf>,
}

/// What rules and login hooks may start: said by the operator of the machine, not by rules.
#[derive(Clone, Debug)]
pub(crate) struct ExecLimits {
    pub(crate) allowed: Allowed,
    pub(crate) children: usize,
    pub(crate) queue: usize,
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
    passwords: Passwords,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Passwords {
    refused: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Exec {
    allow: Vec<PathBuf>,
    children: usize,
    queue: usize,
}

impl Default for Exec {
    fn default() -> Self {
        Exec {
            allow: Vec::new(),
            children: entrepot_spawn::limits::CHILDREN,
            queue: entrepot_spawn::limits::QUEUE,
        }
    }
}

impl Exec {
    fn checked(self) -> Result<ExecLimits, Failure> {
        let allowed = Allowed::new(self.allow)
            .map_err(|error| Failure::config(format!("exec.allow: {error}")))?;
        let (children, queue) = (self.children.clamp(1, 1024), self.queue.clamp(0, 65_536));
        Ok(ExecLimits { allowed, children, queue })
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Ops {
    address: Option<SocketAddr>,
    socket: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    drain_seconds: u64,
    journal_mib: u64,
    workers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { drain_seconds: 30, journal_mib: 1024, workers: 4 }
    }
}

fn default_data() -> PathBuf {
    PathBuf::from("data")
}

fn default_node() -> Name {
    // The invariant: the literal is a name.
    "node1".parse().expect("a literal name")
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
            ops_socket: parsed.ops.socket.map_or_else(|| data.join("ops.sock"), |s| base.join(s)),
            log: parsed.log,
            drain_seconds: parsed.limits.drain_seconds,
            journal_limit_bytes: parsed.limits.journal_mib.clamp(1, 1 << 20) << 20,
            workers: parsed.limits.workers.clamp(1, 256),
            exec: parsed.exec.checked()?,
            refused_passwords: parsed.passwords.refused.map(|file| base.join(file)),
            data,
        })
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
            ("master_key = 'plain'", "master_key: use 'file:PATH' or 'env:NAME'"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(want), "{text:?} gave {message:?}");
        }
    }
}
