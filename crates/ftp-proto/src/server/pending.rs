//! Open requests: what the answer of the adapter is for.

use zeroize::Zeroizing;

use crate::settings::Algorithm;
use crate::time::Time;

/// An open request.
#[derive(Debug)]
pub(super) struct Pending {
    /// The verb whose reply its answer makes.
    pub(super) verb: &'static str,
    pub(super) then: Then,
}

/// The reply in which a digest is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestForm {
    /// `213 SHA-256 0-99 hex name`.
    Hash,
    /// The reply of XCRC and its like: `250 hex`.
    Plain,
    /// `251 name hex`.
    Md5,
}

/// The command that asks for a passive data connection, by which its reply differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassiveForm {
    Pasv,
    Epsv,
}

/// A time of change that MDTM had in front of a name.
#[derive(Debug)]
pub(super) struct TimeToSet {
    pub(super) path: String,
    pub(super) time: Time,
    /// The name as the client wrote it.
    pub(super) name: String,
}

/// What the answer to a request is for.
#[derive(Debug)]
pub(super) enum Then {
    /// A hook decides whether the command runs, with this argument.
    Run(Zeroizing<String>),
    Host(String),
    User(String),
    /// PASS or ACCT of this user.
    Password(String),
    Tls,
    /// TLS ends by REIN.
    Reset,
    /// TLS ends by CCC.
    Cleared,
    Directory(String),
    RenameFrom(String),
    Allocated(u64),
    /// `Done` makes this reply.
    Done(u16, String),
    /// SITE CHMOD, whose reply shows the bits that were set.
    Chmod,
    /// MFF with permission bits: the facts before and behind them, which are as they turn out.
    Facts {
        before: String,
        name: String,
        behind: String,
    },
    Number,
    Progress,
    Modified {
        set: Option<TimeToSet>,
    },
    Entry(String),
    /// A digest; `open`: a `213-` is out already.
    Digest {
        form: DigestForm,
        algorithm: Algorithm,
        name: String,
        open: bool,
    },
    Listing(String),
    Passive(PassiveForm),
}
