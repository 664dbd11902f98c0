//! What the adapter answers. Every code and nearly every word of a reply is made here.

use std::net::SocketAddr;

use crate::entry::Stat;
use crate::time::Time;

/// Why something is refused; the code follows from it and the verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing has this name, or its existence is not shown. 550.
    NotFound,
    /// No right. 550, for a new name 553.
    Denied,
    /// There is something of this name. 550, for a new name 553.
    Exists,
    /// The directory is not empty. 550.
    NotEmpty,
    /// It is a directory. 550, as target of a rename 553.
    IsDirectory,
    /// It is no directory. 550, for MLSD 501.
    NotDirectory,
    /// The name is against the rules of the store. 553.
    Name,
    /// Another upload writes it, or it changed meanwhile. 450.
    Busy,
    /// The disk is full. 552.
    NoSpace,
    /// Over quota. 552.
    Quota,
    /// For the moment there is no room: journal, spool, queue. 452.
    NoRoomNow,
    /// The store is down or failed. 451.
    Store,
    /// The store cannot do that. 504.
    Unsupported,
    /// REST lies beyond the end, or no SIZE came before. 554.
    Offset,
    /// Refused by policy. 534.
    Policy,
    /// No digests of this file. 556.
    DigestDenied,
    /// Too many digests at once. 450.
    DigestBusy,
    /// No port, or no data connection came. 425.
    NoData,
    /// The node drains or is overloaded: 421 and the session ends.
    Closing,
}

/// A refusal: a reason with our words or the adapter's, or what a hook's rule said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    why: Option<Why>,
    code: u16,
    sentence: Option<String>,
}

impl Refusal {
    /// With our words.
    pub fn new(why: Why) -> Refusal {
        Refusal { why: Some(why), code: 0, sentence: None }
    }

    /// With the adapter's words: what happened and what to do.
    pub fn because(why: Why, sentence: impl Into<String>) -> Refusal {
        Refusal { why: Some(why), code: 0, sentence: Some(sentence.into()) }
    }

    /// What a rule said. A code that is no 4xx or 5xx becomes 451; 421 ends the session.
    pub fn told(code: u16, sentence: impl Into<String>) -> Refusal {
        let code = if (400..600).contains(&code) { code } else { 451 };
        Refusal { why: None, code, sentence: Some(sentence.into()) }
    }

    /// The reason, unless a rule said it.
    pub fn why(&self) -> Option<Why> {
        self.why
    }

    /// The code for this verb.
    pub fn code(&self, verb: &str) -> u16 {
        let new_name = matches!(verb, "STOR" | "APPE" | "STOU" | "RNTO" | "COMB");
        match self.why {
            None => self.code,
            Some(Why::Denied | Why::Exists | Why::IsDirectory) if new_name => 553,
            Some(Why::NotDirectory) if verb == "MLSD" => 501,
            Some(Why::NotFound | Why::Denied | Why::Exists | Why::NotEmpty) => 550,
            Some(Why::IsDirectory | Why::NotDirectory) => 550,
            Some(Why::Name) => 553,
            Some(Why::Busy | Why::DigestBusy) => 450,
            Some(Why::NoSpace | Why::Quota) => 552,
            Some(Why::NoRoomNow) => 452,
            Some(Why::Store) => 451,
            Some(Why::Unsupported) => 504,
            Some(Why::Offset) => 554,
            Some(Why::Policy) => 534,
            Some(Why::DigestDenied) => 556,
            Some(Why::NoData) => 425,
            Some(Why::Closing) => 421,
        }
    }

    /// The text of the reply: ours for the reason, unless the adapter gave another.
    pub fn sentence(&self) -> &str {
        match (&self.sentence, self.why) {
            (Some(sentence), _) => sentence,
            (None, Some(why)) => words(why),
            (None, None) => "Refused.",
        }
    }
}

fn words(why: Why) -> &'static str {
    match why {
        Why::NotFound => "No such file or directory.",
        Why::Denied => "You have no right to do that here.",
        Why::Exists => "There is something of that name already.",
        Why::NotEmpty => "The directory is not empty.",
        Why::IsDirectory => "That is a directory.",
        Why::NotDirectory => "That is not a directory.",
        Why::Name => "That name is not allowed here.",
        Why::Busy => "The file is in use or changed meanwhile: try again later.",
        Why::NoSpace => "The disk is full.",
        Why::Quota => "Your quota is used up.",
        Why::NoRoomNow => "There is no room for that now: try again later.",
        Why::Store => "The store failed: try again later.",
        Why::Unsupported => "The store cannot do that.",
        Why::Offset => "The offset lies beyond the end: ask SIZE first.",
        Why::Policy => "The policy of this server forbids that.",
        Why::DigestDenied => "No digest of that file is given.",
        Why::DigestBusy => "Too many digests at once: try again later.",
        Why::NoData => "No data connection could be made.",
        Why::Closing => "The server is closing: come back later.",
    }
}

/// A login that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Where it begins, an absolute path.
    pub directory: String,
    /// False: every verb that writes is 550.
    pub may_write: bool,
    /// SITE LIMIT and SHUTDOWN may be used.
    pub administrator: bool,
    /// Transfers need PROT P, on top of what the settings say.
    pub protect_data: bool,
    /// Said in the 230, a line for each `\n`.
    pub message: Option<String>,
}

impl Login {
    /// One that may write, at the root.
    pub fn at_root() -> Login {
        Login {
            directory: "/".to_owned(),
            may_write: true,
            administrator: false,
            protect_data: false,
            message: None,
        }
    }
}

/// How a transfer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Whole; an upload is published and journalled. 226.
    Complete,
    /// The data connection was not made, by the client or by us. 425.
    NoConnection,
    /// The data connection was cut, ended without close_notify, or stalled. 426.
    Cut,
    /// TLS on the data connection failed. 522.
    TlsFailed,
    /// TLS on the data connection does not resume the session of the control connection. 522.
    NotResumed,
    /// The data connection shows another certificate than the control connection. 522.
    OtherCertificate,
    /// By ABOR. 426, then 226.
    Aborted,
    /// A drain's limit was reached: 421, and the session ends.
    Drained,
    /// All else: disk full, a hook that said no.
    Refused(Refusal),
}

/// An answer. What does not fit the open request is 451 and the session goes on: a bug of the
/// adapter, never of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To `Before`: let it run.
    Proceed,
    /// It is done; the reply is the verb's.
    Done,
    /// It is not done.
    Refused(Refusal),
    /// To `User`: 331, as to every name.
    NeedPassword,
    /// 230, or 232 to `User`.
    LoggedIn(Login),
    /// The password was right; 332 asks for an account or code.
    NeedAccount,
    /// 530, the same for every reason and name.
    Denied,
    /// TLS stands on the control connection.
    TlsStands,
    /// To `Size`, `Space`, `TreeSize`, `Progress`.
    Number(u64),
    /// To `Change` with permission bits: it is done, and these are the bits now.
    Mode(u32),
    /// To `Change` with permission bits: none are kept there, and nothing was changed.
    NoModes,
    /// To `Modified`: the last change of the content.
    Modified(Time),
    /// To `Entry`: what MLST shows.
    Entry(Stat),
    /// To `Hash`: the digest of these bytes of the file.
    Digest {
        /// The digest itself, not its hexadecimal form.
        digest: Vec<u8>,
        /// What was hashed, the end exclusive.
        start: u64,
        /// The first byte not hashed any more.
        end: u64,
    },
    /// To `StatPath`: what STAT shows.
    Listing {
        /// It is a directory (212) and these are its entries, or a file (213).
        directory: bool,
        /// Names and what they are.
        entries: Vec<(String, Stat)>,
        /// For the 180 days.
        now: Time,
    },
    /// To `Passive`: what to tell the client. For PASV an IPv4 address.
    Passive(SocketAddr),
    /// A transfer begins: nothing stands against it that is known beforehand.
    TransferStarted {
        /// The data connection stands already: 125 instead of 150.
        connected: bool,
        /// Bytes that will be sent, if known: some clients read them from the 150.
        size: Option<u64>,
        /// The name STOU chose.
        name: Option<String>,
    },
    /// A transfer ended, started or not.
    TransferEnded(End),
}
