//! Commands of peers as rules see them: which ones a rule looks at, and what one was.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::TransferId;
use crate::limits::COMMAND_ARGUMENT;
use crate::name::Name;
use crate::transfer::Digests;

/// In whose words clients give commands, as rules name it: their protocol, whatever it travels
/// over.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CommandProtocol {
    /// FTP, under TLS or not.
    Ftp,
    /// SFTP, `scp` and the hash commands.
    Sftp,
    /// HTTP, under TLS or not: what is done to files, also by WebDAV and by share links.
    Http,
    /// Messages of AS2.
    As2,
}

impl CommandProtocol {
    /// All of them: `*` in a pattern stands for each.
    pub const ALL: [CommandProtocol; 4] =
        [CommandProtocol::Ftp, CommandProtocol::Sftp, CommandProtocol::Http, CommandProtocol::As2];

    /// As rules write it.
    pub fn as_str(self) -> &'static str {
        match self {
            CommandProtocol::Ftp => "ftp",
            CommandProtocol::Sftp => "sftp",
            CommandProtocol::Http => "http",
            CommandProtocol::As2 => "as2",
        }
    }

    /// The protocol of a name.
    pub fn of_name(name: &str) -> Option<CommandProtocol> {
        CommandProtocol::ALL.into_iter().find(|protocol| protocol.as_str() == name)
    }

    /// The operations that rules are asked about, of protocols that have no commands of their own:
    /// one word for each thing that can be done, by whatever request. Empty: the protocol has a
    /// table of commands.
    pub fn operations(self) -> &'static [&'static str] {
        match self {
            CommandProtocol::Ftp | CommandProtocol::Sftp => &[],
            CommandProtocol::Http => {
                &["list", "login", "mkdir", "read", "remove", "rename", "write"]
            }
            CommandProtocol::As2 => &["write"],
        }
    }
}

/// A command, or many: `ftp DELE`, `ftp SITE CHMOD`, `sftp remove`, `http write`, `ftp *`, `* *`.
/// The words of the protocol, in any case; `*` is every protocol whose sessions ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommandPattern {
    protocol: Option<CommandProtocol>,
    /// `None` stands for any verb.
    verb: Option<String>,
    /// The first word of the argument.
    word: Option<String>,
}

/// What is no pattern of commands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' names no command that can be asked about: write 'ftp DELE', 'ftp SITE CHMOD', \
     'sftp remove', 'http write', 'as2 write' or 'ftp *'"
)]
pub struct NoCommand(String);

impl CommandPattern {
    /// Whether it stands for this command.
    pub fn is_for(&self, protocol: CommandProtocol, verb: &str, argument: &str) -> bool {
        let word = argument.split(' ').next().unwrap_or_default();
        let is = |pattern: &Option<String>, word: &str| {
            pattern.as_ref().is_none_or(|it| usual(it).eq_ignore_ascii_case(usual(word)))
        };
        self.protocol.is_none_or(|it| it == protocol)
            && is(&self.verb, verb)
            && is(&self.word, word)
    }

    /// The protocol it names; `None`: each whose sessions ask.
    pub fn protocol(&self) -> Option<CommandProtocol> {
        self.protocol
    }

    /// The command it names, in the case it was written in; `None`: any.
    pub fn verb(&self) -> Option<&str> {
        self.verb.as_deref()
    }

    /// The word it names behind SITE.
    pub fn word(&self) -> Option<&str> {
        self.word.as_deref()
    }

    /// Whether it stands for any command of this protocol.
    pub fn may_be_of(&self, protocol: CommandProtocol) -> bool {
        self.protocol.is_none_or(|it| it == protocol)
    }
}

/// Words that mean the same (RFC 775, what an older server of FTP called its own, and what SFTP
/// does by handle, by extension, or to a link itself).
const ALIASES: [(&str, &str); 14] = [
    ("EXPAND-PATH", "REALPATH"),
    ("FSETSTAT", "SETSTAT"),
    ("FSTAT", "STAT"),
    ("FSTATVFS", "STATVFS"),
    ("LSETSTAT", "SETSTAT"),
    ("LSTAT", "STAT"),
    ("POSIX-RENAME", "RENAME"),
    ("XCUP", "CDUP"),
    ("XCWD", "CWD"),
    ("XMKD", "MKD"),
    ("XPWD", "PWD"),
    ("XRMD", "RMD"),
    ("INTERNALSHUTDOWN", "SHUTDOWN"),
    ("LIMITBANDWIDTH", "LIMIT"),
];

fn usual(word: &str) -> &str {
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(word));
    alias.map_or(word, |(_, usual)| usual)
}

impl FromStr for CommandPattern {
    type Err = NoCommand;

    fn from_str(text: &str) -> Result<Self, NoCommand> {
        let no = || NoCommand(text.chars().take(64).collect());
        let words: Vec<&str> = text.split(' ').collect();
        let (protocol, verb, word) = match words.as_slice() {
            [protocol, verb] => (*protocol, *verb, None),
            [protocol, verb, word] if verb.eq_ignore_ascii_case("SITE") => {
                (*protocol, *verb, Some(*word))
            }
            _ => return Err(no()),
        };
        let protocol = match protocol {
            "*" => None,
            name => Some(CommandProtocol::of_name(name).ok_or_else(no)?),
        };
        let plain = |word: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=16).contains(&word.len()) && word.bytes().all(fits)
        };
        let verb = (verb != "*").then(|| verb.to_owned());
        if !verb.as_deref().is_none_or(plain) || !word.is_none_or(plain) {
            return Err(no());
        }
        Ok(CommandPattern { protocol, verb, word: word.map(str::to_owned) })
    }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = self.protocol.map_or("*", CommandProtocol::as_str);
        write!(f, "{protocol} {}", self.verb.as_deref().unwrap_or("*"))?;
        self.word.as_ref().map_or(Ok(()), |word| write!(f, " {word}"))
    }
}

impl Serialize for CommandPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CommandPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How a command reached this server.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandOrigin {
    /// The protocol in whose words it came.
    pub protocol: CommandProtocol,
    /// The listener that accepted the connection.
    pub listener: Name,
    /// The peer's IP address, without a port.
    pub address: String,
}

/// A command of a peer, as it came; when it is over also what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandFact {
    /// The protocol in whose words it came.
    pub protocol: CommandProtocol,
    /// In the words of the protocol: `DELE`.
    pub verb: String,
    /// As sent; `***` of what is secret, cut to [`crate::limits::COMMAND_ARGUMENT`] characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub argument: String,
    /// The virtual path it is about, whole, where it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether it may change files or the server.
    #[serde(default)]
    pub writes: bool,
    /// The peer's IP address, without a port.
    pub address: String,
    /// The listener that accepted the connection.
    pub listener: Name,
    /// The reply code of FTP, or the status of SFTP or HTTP, that answered it, also where a rule
    /// refused it.
    /// Absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// Bytes of the file that it moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The transfer it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferId>,
    /// Of the file that it published, as far as known.
    #[serde(flatten)]
    pub digests: Digests,
    /// From its arrival to its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl CommandFact {
    /// One that has arrived; nothing is known of its end.
    pub fn new(origin: CommandOrigin, verb: &str, argument: &str) -> CommandFact {
        let CommandOrigin { protocol, listener, address } = origin;
        CommandFact {
            protocol,
            verb: verb.to_owned(),
            argument: argument.chars().take(COMMAND_ARGUMENT).collect(),
            path: None,
            writes: false,
            address,
            listener,
            code: None,
            bytes: None,
            transfer: None,
            digests: Digests::default(),
            duration_ms: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_patterns() {
        let [ftp, sftp, http, as2] = CommandProtocol::ALL;
        for (pattern, protocol, verb, argument, fits) in [
            ("ftp DELE", ftp, "DELE", "a", true),
            ("ftp dele", ftp, "DELE", "a", true),
            ("ftp DELE", ftp, "RMD", "a", false),
            ("ftp DELE", sftp, "DELE", "a", false),
            ("* *", ftp, "NOOP", "", true),
            ("ftp *", ftp, "NOOP", "", true),
            ("* DELE", ftp, "DELE", "", true),
            ("ftp SITE CHMOD", ftp, "SITE", "chmod 644 x", true),
            ("ftp SITE CHMOD", ftp, "SITE", "UTIME x", false),
            ("ftp SITE", ftp, "SITE", "UTIME x", true),
            ("ftp RMD", ftp, "XRMD", "a", true),
            ("ftp XMKD", ftp, "MKD", "a", true),
            ("ftp XMKD", ftp, "RMD", "a", false),
            ("ftp SITE SHUTDOWN", ftp, "SITE", "internalshutdown", true),
            ("sftp remove", sftp, "remove", "a", true),
            ("sftp REMOVE", sftp, "remove", "a", true),
            ("sftp remove", ftp, "remove", "a", false),
            ("sftp rename", sftp, "posix-rename", "a b", true),
            ("sftp setstat", sftp, "fsetstat", "", true),
            ("sftp *", sftp, "open", "a", true),
            ("* *", sftp, "open", "a", true),
            ("http write", http, "write", "PUT /a", true),
            ("http WRITE", http, "write", "PUT /a", true),
            ("http write", http, "read", "GET /a", false),
            ("http write", as2, "write", "", false),
            ("as2 write", as2, "write", "", true),
            ("as2 write", http, "write", "PUT /a", false),
            ("http *", http, "login", "anna", true),
            ("http *", as2, "write", "", false),
            ("* *", http, "list", "GET /", true),
            ("* *", as2, "write", "", true),
            ("* remove", http, "remove", "DELETE /a", true),
            ("* remove", sftp, "remove", "a", true),
            ("* write", as2, "write", "", true),
        ] {
            let parsed: CommandPattern = pattern.parse().unwrap();
            assert_eq!(parsed.is_for(protocol, verb, argument), fits, "{pattern} {verb}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{pattern}");
        }
        for bad in
            ["", "DELE", "ftp", "ftp DELE x", "https write", "internal *", "ftp  DELE", "ftp ü"]
        {
            assert!(bad.parse::<CommandPattern>().is_err(), "{bad}");
        }
    }
}
