//! Endpoints: places we reach.

mod as2;
mod object;
mod service;
mod tn3270;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference, check_users, users};
use crate::secret::{Sealed, Secret};

pub use as2::{
    As2Cipher, As2Compression, As2Digest, As2KeyTransport, As2Legacy, As2Login, As2MicCheck,
    As2Micalg, As2Protection, As2ReceiptKind, As2ReceiptTime, As2Security, As2Send, As2Signature,
    As2Target, As2Timeout,
};
pub use object::{ObjectProvider, ObjectRequests, ObjectTarget};
pub(crate) use service::header_flaw;
pub use service::{
    MailTarget, MailTls, OauthClient, OauthProof, ScannerAddress, ScannerMethod, ScannerTarget,
    ScannerTls, WebTarget, WebhookTarget,
};
pub use tn3270::{Tn3270Target, Tn3270Tls};

/// A place we reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Unique among the endpoints of its site; never changes.
    pub name: Name,
    /// What and where it is.
    pub target: EndpointTarget,
    /// Jobs whose next step uses it wait until it is paused no more; what runs goes on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Steps of rules that use it at the same time, over all nodes; unset: as many as its share of
    /// the places of each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Accounts of type admin, or groups, who may change the endpoint and whatever names it: rules,
    /// mounts and models. Empty: everybody who may change the configuration. Commands on the
    /// machine of a node may always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Name>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What an endpoint is. In a document a mapping with one key: `directory`, `memory`, `object`,
/// `sftp`, `ftp` or `sql` where files lie, `web`, `webhook`, `mail` or `scanner` for a server that
/// steps of rules talk to, `as2` for a partner of AS2, `tn3270` for a mainframe host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndpointTarget {
    /// A directory of this machine.
    Directory(DirectoryTarget),
    /// Kept in memory until the process ends; for tests and scratch.
    Memory(MemoryTarget),
    /// A bucket of an object store.
    Object(ObjectTarget),
    /// An SFTP server.
    Sftp(SftpTarget),
    /// An FTP server, with or without TLS.
    Ftp(FtpTarget),
    /// Rows of a database, shown as files.
    Sql(SqlTarget),
    /// A server that takes requests of HTTP.
    Web(WebTarget),
    /// A receiver of web hooks.
    Webhook(WebhookTarget),
    /// A server that takes mail.
    Mail(MailTarget),
    /// A scanner that looks for malware.
    Scanner(ScannerTarget),
    /// A partner of AS2.
    As2(Box<As2Target>),
    /// A mainframe host.
    Tn3270(Tn3270Target),
}

/// What an endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointUse {
    /// Files lie there: mounts show them, and rules deliver there.
    Files,
    /// Steps `http` send requests there.
    Web,
    /// Steps `webhook` tell it of events.
    Webhook,
    /// Steps `mail` hand messages over.
    Mail,
    /// Steps `scan` show files to it.
    Scanner,
    /// Messages of AS2 come from it, and steps `as2` send it some.
    As2,
    /// Models call its applications.
    Host,
}

impl EndpointUse {
    /// The kinds of endpoints that are for it, for a sentence such as "needs one of kind …".
    pub fn kinds(self) -> &'static str {
        match self {
            EndpointUse::Files => "directory, memory, object, sftp, ftp or sql",
            EndpointUse::Web => "web",
            EndpointUse::Webhook => "webhook",
            EndpointUse::Mail => "mail",
            EndpointUse::Scanner => "scanner",
            EndpointUse::As2 => "as2",
            EndpointUse::Host => "tn3270",
        }
    }
}

/// A directory of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectoryTarget {
    /// Absolute path. Made at first use if its parent exists.
    pub path: String,
    /// Other nodes, or other installations of this program, change files there too: what happened
    /// to a file is then on stable storage before the client is answered. What a node did cannot be
    /// seen from the directory after its machine failed, if another one has changed the name since.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: bool,
}

impl DirectoryTarget {
    /// A directory that one node alone changes.
    pub fn new(path: impl Into<String>) -> DirectoryTarget {
        DirectoryTarget { path: path.into(), shared: false }
    }
}

/// A store in memory.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryTarget {
    /// Most bytes it takes, then it is full. Unset: 64 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// An SFTP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SftpTarget {
    /// Host name or address.
    pub host: String,
    /// TCP port of its SSH server; unset: 22.
    #[serde(default = "ssh_port")]
    pub port: u16,
    /// Login name there.
    pub user: String,
    /// Pinned host keys, OpenSSH form or `SHA256:…` fingerprints; one must match.
    pub host_keys: Vec<String>,
    /// Directory below which everything lies; unset: the login directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root: String,
    /// A key of ours (by name, type `ssh-user` with a private half) to log in with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Name>,
    /// The password, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_sealed: Option<Sealed>,
    /// Accepted in documents and requests only: sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// Allow private addresses, for servers inside one's own network.
    #[serde(default)]
    pub allow_private: bool,
    /// How a file gets its name there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub publish: PublishBy,
}

/// How a file gets its name on an SFTP or FTP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PublishBy {
    /// In one step: on SFTP servers by `posix-rename@openssh.com`, by RENAME where nothing has the
    /// name; on FTP servers by RNTO. On a server that cannot replace so nothing is replaced.
    #[default]
    Rename,
    /// The same; but where the server cannot replace in one step, the old file is moved aside,
    /// the new one renamed, and the old one removed. For a moment there is none of that name. If
    /// the rename fails, the old file gets its name back.
    RemoveAndRename,
    /// Written under its own name, over what has it, for servers that rename nothing. Whoever
    /// looks sees it unfinished.
    Direct,
}

/// An FTP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FtpTarget {
    /// Host name or address.
    pub host: String,
    /// Port; unset: 21, with implicit TLS 990.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Login name there.
    pub user: String,
    /// The password, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_sealed: Option<Sealed>,
    /// Accepted in documents and requests only: sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// When TLS begins; with TLS data is always protected.
    #[serde(default)]
    pub tls: FtpTls,
    /// Pinned certificates of the server, as PEM or SHA-256 fingerprint; unset: its certificate is
    /// checked by `authorities`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<String>,
    /// Authorities that sign its certificate, PEM; unset: those this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Who connects for data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: FtpMode,
    /// Directory below which everything lies; unset: the login directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root: String,
    /// Allow private addresses, for servers inside one's own network.
    #[serde(default)]
    pub allow_private: bool,
    /// How a file gets its name there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub publish: PublishBy,
    /// Most sessions at a time, at least 2; unset: 8. Each file that moves has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u16>,
}

/// When TLS begins on an FTP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FtpTls {
    /// By AUTH TLS; a server that refuses it is not logged in to.
    #[default]
    Explicit,
    /// At once, on a port of its own.
    Implicit,
    /// Never: password and files go in clear text.
    Off,
}

/// Who connects for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FtpMode {
    /// We do, to the address of the control connection, whatever the server names.
    #[default]
    Passive,
    /// The server does, to a port of ours.
    Active,
}

impl FtpTarget {
    /// `user` at `host`, without a password yet; all else as where a document leaves it away.
    pub fn new(host: &str, user: &str) -> FtpTarget {
        FtpTarget {
            host: host.to_owned(),
            port: None,
            user: user.to_owned(),
            password_sealed: None,
            password: None,
            tls: FtpTls::default(),
            certificates: Vec::new(),
            authorities: None,
            mode: FtpMode::default(),
            root: String::new(),
            allow_private: false,
            publish: PublishBy::default(),
            connections: None,
        }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.tls == FtpTls::Implicit { 990 } else { 21 })
    }

    fn check(&self) -> Result<(), FieldError> {
        if self.host.is_empty() {
            return Err(FieldError::new("target.ftp.host", "name the server"));
        }
        let trusts = !self.certificates.is_empty() || self.authorities.is_some();
        if self.tls == FtpTls::Off && trusts {
            let what = "there are certificates but no TLS: leave 'tls' away or set it to explicit";
            return Err(FieldError::new("target.ftp.tls", what));
        }
        if self.connections.is_some_and(|most| most < 2) {
            let what = "give at least 2: a file may be copied from the server to itself";
            return Err(FieldError::new("target.ftp.connections", what));
        }
        if self.password.is_none() && self.password_sealed.is_none() {
            return Err(FieldError::new("target.ftp.password", "give a password"));
        }
        Ok(())
    }
}

/// Rows of a database, shown as the files of one directory; and queries, each shown as a file.
///
/// Statements name their values `$1` (the name of the file), `$2` (its content) and `$3` (the time
/// of its last change, in seconds since 1970 or what a column of times takes).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SqlTarget {
    /// `sqlite:/absolute/path` or `postgres://user@host/database`, without a password.
    pub url: String,
    /// The password (PostgreSQL), sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_sealed: Option<Sealed>,
    /// Accepted in documents and requests only: sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// Authorities that sign the server's certificate (PostgreSQL), PEM; unset: those this machine
    /// trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Allow private addresses, for servers inside one's own network.
    #[serde(default)]
    pub allow_private: bool,
    /// `SELECT` with the columns `name`, `size` (bytes) and `modified`, a row for each file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// `SELECT` with one column, the content of file `$1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Stores file `$1` with content `$2` and time `$3`, also over an older one. Unset: read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<String>,
    /// Removes file `$1`. Unset: nothing is removed or renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    /// What `$2` is for SQLite, which takes anything; PostgreSQL knows by the column.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content: SqlContent,
    /// Files made of queries, as CSV with a line of column names: name → `SELECT`.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub reports: std::collections::BTreeMap<String, String>,
}

/// As what SQLite stores the content of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SqlContent {
    /// A BLOB: any bytes.
    #[default]
    Bytes,
    /// TEXT; what is not UTF-8 is refused.
    Text,
}

impl SqlTarget {
    fn check(&self) -> Result<(), FieldError> {
        let file = self.url.strip_prefix("sqlite:");
        let server = self.url.starts_with("postgres://") || self.url.starts_with("postgresql://");
        if !server && !file.is_some_and(|file| file.starts_with('/')) {
            let what = "give sqlite:/absolute/path or postgres://user@host/database";
            return Err(FieldError::new("target.sql.url", what));
        }
        let account = self.url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        if account.is_some_and(|(account, _)| account.contains(':')) {
            let what = "leave the password out of the URL: it has a field of its own";
            return Err(FieldError::new("target.sql.url", what));
        }
        if self.list.is_some() != self.read.is_some() {
            return Err(FieldError::new("target.sql", "give both 'list' and 'read', or none"));
        }
        if self.list.is_none() && self.reports.is_empty() {
            return Err(FieldError::new("target.sql", "give 'list' and 'read', or 'reports'"));
        }
        let changes = self.write.is_some() || self.delete.is_some();
        if self.list.is_none() && changes {
            return Err(FieldError::new("target.sql", "'write' and 'delete' need 'list'"));
        }
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
        match self.reports.keys().find(|name| !is_name(name)) {
            Some(_) => Err(FieldError::new("target.sql.reports", "a report needs a plain name")),
            None => Ok(()),
        }
    }
}

/// The one secret that a target has.
pub struct TargetSecret<'a> {
    /// Its field in a document.
    pub field: &'static str,
    /// As it comes in.
    pub plain: &'a mut Option<Secret>,
    /// As it is kept.
    pub sealed: &'a mut Option<Sealed>,
}

impl TargetSecret<'_> {
    /// The last word of [`TargetSecret::field`], under which it is sealed.
    pub fn word(&self) -> &'static str {
        self.field.rsplit('.').next().unwrap_or_default()
    }
}

fn ssh_port() -> u16 {
    22
}

impl EndpointTarget {
    /// The word, lower case.
    pub fn as_str(&self) -> &'static str {
        match self {
            EndpointTarget::Directory(_) => "directory",
            EndpointTarget::Memory(_) => "memory",
            EndpointTarget::Object(_) => "object",
            EndpointTarget::Sftp(_) => "sftp",
            EndpointTarget::Ftp(_) => "ftp",
            EndpointTarget::Sql(_) => "sql",
            EndpointTarget::Web(_) => "web",
            EndpointTarget::Webhook(_) => "webhook",
            EndpointTarget::Mail(_) => "mail",
            EndpointTarget::Scanner(_) => "scanner",
            EndpointTarget::As2(_) => "as2",
            EndpointTarget::Tn3270(_) => "tn3270",
        }
    }

    /// What it is for.
    pub fn usage(&self) -> EndpointUse {
        match self {
            EndpointTarget::Directory(_)
            | EndpointTarget::Memory(_)
            | EndpointTarget::Object(_)
            | EndpointTarget::Sftp(_)
            | EndpointTarget::Ftp(_)
            | EndpointTarget::Sql(_) => EndpointUse::Files,
            EndpointTarget::Web(_) => EndpointUse::Web,
            EndpointTarget::Webhook(_) => EndpointUse::Webhook,
            EndpointTarget::Mail(_) => EndpointUse::Mail,
            EndpointTarget::Scanner(_) => EndpointUse::Scanner,
            EndpointTarget::As2(_) => EndpointUse::As2,
            EndpointTarget::Tn3270(_) => EndpointUse::Host,
        }
    }

    /// The field that holds a secret, if this kind has one.
    pub fn secret(&mut self) -> Option<TargetSecret<'_>> {
        let (field, plain, sealed) = match self {
            EndpointTarget::Directory(_)
            | EndpointTarget::Memory(_)
            | EndpointTarget::Scanner(_)
            | EndpointTarget::Tn3270(_) => return None,
            EndpointTarget::Object(object) => {
                let (plain, sealed) = (&mut object.secret_key, &mut object.secret_key_sealed);
                ("target.object.secret_key", plain, sealed)
            }
            EndpointTarget::Sftp(sftp) => {
                ("target.sftp.password", &mut sftp.password, &mut sftp.password_sealed)
            }
            EndpointTarget::Ftp(ftp) => {
                ("target.ftp.password", &mut ftp.password, &mut ftp.password_sealed)
            }
            EndpointTarget::Sql(sql) => {
                ("target.sql.password", &mut sql.password, &mut sql.password_sealed)
            }
            EndpointTarget::Web(web) => {
                ("target.web.password", &mut web.password, &mut web.password_sealed)
            }
            EndpointTarget::Mail(mail) => {
                ("target.mail.password", &mut mail.password, &mut mail.password_sealed)
            }
            EndpointTarget::As2(as2) => {
                ("target.as2.password", &mut as2.password, &mut as2.password_sealed)
            }
            EndpointTarget::Webhook(hook) => {
                let (plain, sealed) = (&mut hook.secret_key, &mut hook.secret_key_sealed);
                ("target.webhook.secret_key", plain, sealed)
            }
        };
        Some(TargetSecret { field, plain, sealed })
    }

    /// True if the document says that others change files there too.
    pub fn is_shared(&self) -> bool {
        matches!(self, EndpointTarget::Directory(DirectoryTarget { shared: true, .. }))
    }

    /// True if operations never wait for a network.
    pub fn is_local(&self) -> bool {
        matches!(self, EndpointTarget::Directory(_) | EndpointTarget::Memory(_))
    }
}

impl EndpointTarget {
    /// The key whose certificate proves to the server who we are, and where it is named.
    pub fn client_key(&self) -> Option<(&'static str, &Name)> {
        match self {
            EndpointTarget::Web(web) => Some(("target.web.key", web.key.as_ref()?)),
            EndpointTarget::Webhook(hook) => Some(("target.webhook.key", hook.key.as_ref()?)),
            _ => None,
        }
    }
}

impl Noun for Endpoint {
    const KIND: Kind = Kind::Endpoint;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        let mut found: Vec<Reference> = match &self.target {
            EndpointTarget::Sftp(sftp) => {
                let key = sftp.key.iter();
                key.map(|name| Reference::new("target.sftp.key", Kind::Key, name)).collect()
            }
            EndpointTarget::As2(as2) => as2.references(),
            target => {
                let key = target.client_key().into_iter();
                key.map(|(field, name)| Reference::new(field, Kind::Key, name)).collect()
            }
        };
        found.extend(users("users", &self.users));
        found
    }
    fn check(&self) -> Result<(), FieldError> {
        if self.at_once == Some(0) {
            let what = "give at least 1, or leave it away: its share of the node's places";
            return Err(FieldError::new("at_once", what));
        }
        check_users("users", &self.users)?;
        match &self.target {
            EndpointTarget::Directory(directory) if !directory.path.starts_with('/') => {
                Err(FieldError::new(
                    "target.directory.path",
                    "give an absolute path, such as /srv/files",
                ))
            }
            EndpointTarget::Object(object) => object.check(),
            EndpointTarget::Sftp(sftp) if sftp.host_keys.is_empty() => Err(FieldError::new(
                "target.sftp.host_keys",
                "pin the server's host key: ssh-keyscan prints it, compare it with its owner",
            )),
            EndpointTarget::Sftp(sftp) => {
                let password = sftp.password.is_some() || sftp.password_sealed.is_some();
                if sftp.key.is_none() && !password {
                    return Err(FieldError::new("target.sftp", "give a key or a password"));
                }
                Ok(())
            }
            EndpointTarget::Ftp(ftp) => ftp.check(),
            EndpointTarget::Sql(sql) => sql.check(),
            EndpointTarget::Web(web) => web.check(),
            EndpointTarget::Webhook(hook) => hook.check(),
            EndpointTarget::Mail(mail) => mail.check(),
            EndpointTarget::Scanner(scanner) => scanner.check(),
            EndpointTarget::As2(as2) => as2.check(),
            EndpointTarget::Tn3270(host) => host.check(),
            _ => Ok(()),
        }
    }
}
