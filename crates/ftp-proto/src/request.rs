//! What the server machine asks of its adapter, with checked and typed arguments.

use std::fmt;
use std::net::SocketAddr;

use zeroize::Zeroizing;

use crate::listing::Format;
use crate::settings::Algorithm;
use crate::time::Time;

/// A password or an account's second word. Its `Debug` shows nothing; dropping it wipes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn new(text: &str) -> Secret {
        Secret(Zeroizing::new(text.to_owned()))
    }

    /// The words. What was not UTF-8 was read as ISO 8859-1.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A command as a hook sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// In capitals, as in [`crate::table`]; `SITE` has its word in the argument.
    pub verb: &'static str,
    /// As sent (of PASS, ACCT and AUTH data `***`).
    pub argument: String,
    /// The absolute path that it is about, if it names one and somebody is logged in: of a rename
    /// or copy the new one.
    pub path: Option<String>,
    /// More absolute paths that it reads or changes: parts of COMB, the source of a copy, the name
    /// behind a time of MDTM.
    pub others: Vec<String>,
    /// Whether it may change files or the server.
    pub writes: bool,
}

/// Where the data connection of a transfer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// The client connects to the address last given by [`crate::Answer::Passive`].
    Passive,
    /// We connect here, from the control connection's local address. Already checked.
    Active(SocketAddr),
}

/// The data connection of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Which side connects, and where.
    pub data: Data,
    /// PROT P: TLS, we are its server either way.
    pub protected: bool,
    /// MODE Z with this level: a zlib stream.
    pub compression: Option<u8>,
}

/// How a STOR, APPE or STOU is to end up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreHow {
    /// STOR: a new file in the place of the old one.
    Replace,
    /// REST n and STOR or APPE: the first n bytes stay. n is above 0.
    ResumeAt(u64),
    /// APPE: behind what is there.
    Append,
    /// STOU: under a name that is chosen and reserved, in the directory of the path; the last
    /// component, if the client gave one, is a prefix.
    Unique {
        /// The client's word, if any.
        prefix: Option<String>,
    },
}

/// What a path of LIST, NLST or STAT may mean; looked up in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The whole argument as a name, if something that looked like options was taken off it.
    pub literal: Option<String>,
    /// The name, as an absolute path.
    pub path: String,
    /// The name as the client wrote it: how a single file is shown.
    pub name: String,
    /// Its last component is a pattern for the names in the directory above.
    pub pattern: bool,
}

impl Target {
    /// Directory and pattern, if it is one.
    pub fn pattern(&self) -> Option<(&str, &str)> {
        self.pattern.then(|| crate::path::split(&self.path))
    }
}

/// Bytes of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte, counted from 0.
    pub start: u64,
    /// The first not any more.
    pub end: u64,
}

/// What MFMT, MFCT, MFF, MDTM and SITE UTIME change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Last change of the content.
    pub modified: Option<Time>,
    /// When it was last read.
    pub accessed: Option<Time>,
    /// When it was made.
    pub created: Option<Time>,
    /// Permission bits, without those for set-uid, set-gid and sticky.
    pub mode: Option<u32>,
}

/// A request. Those marked *notice* take no answer; of the others at most one is open at a
/// time, besides a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A command is about to run: [`crate::Answer::Proceed`] or a refusal. Only if
    /// [`crate::Settings::hooked`].
    Before(Command),
    /// *Notice*: a command was answered. Only if hooked.
    After {
        /// The verb, in capitals as in the table.
        verb: &'static str,
        /// The code of its last reply.
        code: u16,
    },
    /// HOST: choose the site (RFC 7151). `Done` or a refusal.
    Host(String),
    /// USER, if asked for: `NeedPassword`, `LoggedIn` (by certificate) or a refusal.
    User(String),
    /// PASS: `LoggedIn`, `NeedAccount` or `Denied`.
    Password {
        /// The argument of USER.
        user: String,
        /// The argument of PASS.
        password: Secret,
    },
    /// ACCT: `LoggedIn` or `Denied` before the login, `Done` or a refusal after it.
    Account(Secret),
    /// *Notice*: the login has ended, no account is logged in.
    Logout,
    /// The 234 is written: make TLS stand, then `TlsStands`. If it fails drop the connection.
    StartTls,
    /// The last reply inside TLS is written: close_notify both ways, then `Done`; clear text
    /// from here on.
    ClearControl,
    /// *Notice*: write what is to be written and close.
    Close,
    /// CWD, CDUP: `Done` if it is a directory that may be entered.
    ChangeDir(String),
    /// MKD; with parents by SITE MKDIR. `Done`.
    MakeDir {
        /// The new one.
        path: String,
        /// Missing ones above it are made too.
        parents: bool,
    },
    /// RMD of an empty directory. `Done`.
    RemoveDir(String),
    /// RMDA: with all that is in it. `Done`.
    RemoveTree(String),
    /// DELE of a file. `Done`.
    Delete(String),
    /// RNFR: `Done` if it is there and may be renamed.
    RenameFrom(String),
    /// RNTO, right behind its RNFR. `Done`.
    Rename {
        /// The path that RNFR named.
        from: String,
        /// The path that RNTO names.
        to: String,
    },
    /// SITE COPY. `Done`.
    Copy {
        /// What is read.
        from: String,
        /// What is written.
        to: String,
    },
    /// COMB: the parts become one file, published whole, and are deleted. `Done`.
    Combine {
        /// The new file.
        target: String,
        /// Their paths, in the order in which they are put together.
        parts: Vec<String>,
    },
    /// SIZE: `Number`; in ASCII the size on the wire, or a refusal.
    Size {
        /// Of a file.
        path: String,
        /// TYPE A with conversion.
        ascii: bool,
    },
    /// MDTM without a time: `Modified`.
    Modified(String),
    /// MLST of one name: `Entry`.
    Entry(String),
    /// MFMT, MFCT, MFF, MDTM with a time, SITE UTIME, SITE CHMOD. `Done`; of permission bits `Mode`
    /// or `NoModes`.
    Change {
        /// Of a file or directory.
        path: String,
        /// What to change; what is `None` stays.
        changes: Changes,
    },
    /// HASH and the X verbs: `Digest`.
    Hash {
        /// Of a file.
        path: String,
        /// The digest that OPTS HASH or the verb has chosen.
        algorithm: Algorithm,
        /// Of these bytes; `None`: all. An end beyond the file is cut to it.
        range: Option<ByteRange>,
    },
    /// AVBL: `Number` of bytes that may be stored there.
    Space(String),
    /// DSIZ: `Number` of bytes in all files below.
    TreeSize(String),
    /// ALLO: reserve for the next store. `Done`, 552 if there is no room.
    Allocate(u64),
    /// STAT with a path: `Listing` of at most [`crate::limits::STAT_LINES`].
    StatPath(Target),
    /// STAT in a transfer: `Number` of bytes so far.
    Progress,
    /// PASV, EPSV: `Passive` once a port listens, 425 if there is none. Ends what was expected.
    Passive {
        /// EPSV: the reply has only the port.
        extended: bool,
    },
    /// *Notice*: the expectation of PASV ends without a transfer.
    DropData,
    /// RETR. See [`crate::server`] for the answers of a transfer.
    Retrieve {
        /// Of a file.
        path: String,
        /// The first byte: of the file, in ASCII of its wire form.
        offset: u64,
        /// At most so many; `None`: to the end (RANG).
        length: Option<u64>,
        /// Convert by [`crate::ascii::ToNetwork`].
        ascii: bool,
        /// The data connection.
        channel: Channel,
    },
    /// STOR, APPE, STOU. See [`crate::server`] for the answers of a transfer.
    Store {
        /// Of the file; for STOU of its directory.
        path: String,
        /// In which way.
        how: StoreHow,
        /// Convert by [`crate::ascii::FromNetwork`].
        ascii: bool,
        /// What ALLO said.
        allocated: Option<u64>,
        /// The data connection.
        channel: Channel,
    },
    /// LIST, NLST, MLSD. See [`crate::server`] for the answers of a transfer.
    List {
        /// What is listed, as far as the argument decides it.
        target: Target,
        /// How its lines look.
        format: Format,
        /// `-R`: all below too.
        recursive: bool,
        /// The data connection.
        channel: Channel,
    },
    /// ABOR in a transfer: stop it, then `TransferEnded` (with how it ended if it was too late).
    Abort,
    /// SITE LIMIT: bytes a second, for all; `None`: back to the default. `Done`.
    Limit {
        /// Of all uploads together; 0: no limit.
        write: Option<u64>,
        /// Of all downloads together; 0: no limit.
        read: Option<u64>,
    },
    /// SITE SHUTDOWN, confirmed: drain the node. `Done`.
    Shutdown,
}
