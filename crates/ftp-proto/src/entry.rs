//! Files and directories as listings and facts show them (RFC 3659 §7.5).

use crate::time::Time;

/// File or directory; nothing else is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Something that RETR sends, whatever the store keeps it as.
    File,
    /// Something that CWD enters.
    Directory,
}

/// What one session may do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(pub u16);

impl Rights {
    /// `a`: APPE to the file.
    pub const APPEND: Rights = Rights(1);
    /// `c`: files may be made in the directory.
    pub const CREATE: Rights = Rights(2);
    /// `d`: DELE of the file, RMD of the directory.
    pub const DELETE: Rights = Rights(4);
    /// `e`: CWD into the directory.
    pub const ENTER: Rights = Rights(8);
    /// `f`: RNFR, so that it gets another name.
    pub const RENAME: Rights = Rights(16);
    /// `l`: LIST, NLST and MLSD of the directory.
    pub const LIST: Rights = Rights(32);
    /// `m`: MKD in the directory.
    pub const MAKE_DIR: Rights = Rights(64);
    /// `p`: what is in the directory may be deleted.
    pub const PURGE: Rights = Rights(128);
    /// `r`: RETR of the file.
    pub const READ: Rights = Rights(256);
    /// `w`: STOR over the file.
    pub const WRITE: Rights = Rights(512);

    /// These rights and those of `other`.
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Whether all of `other` are there.
    pub const fn has(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// The letters of the fact `perm` (RFC 3659 §7.5.5) that mean something for this kind.
    pub fn letters(self, kind: Kind) -> String {
        let (file, directory) = (b"adfrw", b"cdeflmp");
        let of_kind: &[u8] = if kind == Kind::File { file } else { directory };
        let of_letter = |letter: u8| match letter {
            b'a' => Rights::APPEND,
            b'c' => Rights::CREATE,
            b'd' => Rights::DELETE,
            b'e' => Rights::ENTER,
            b'f' => Rights::RENAME,
            b'l' => Rights::LIST,
            b'm' => Rights::MAKE_DIR,
            b'p' => Rights::PURGE,
            b'r' => Rights::READ,
            _ => Rights::WRITE,
        };
        let allowed = of_kind.iter().filter(|letter| self.has(of_letter(**letter)));
        allowed.map(|letter| char::from(*letter)).collect()
    }
}

/// An entry without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Decides which letters of `rights` are shown.
    pub kind: Kind,
    /// In bytes; of a directory 0.
    pub size: u64,
    /// Last change of the content, where the store knows.
    pub modified: Option<Time>,
    /// When it was made, where the store knows.
    pub created: Option<Time>,
    /// The permission bits shown; the type is added by `kind`.
    pub mode: u32,
    /// What this session may do.
    pub rights: Rights,
    /// Equal only for the same file: a keyed hash of device and inode.
    pub unique: Option<u64>,
}

/// What an entry of MLSD or MLST is to the directory that is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// In it, or asked for by name.
    Entry,
    /// Itself, shown as `type=cdir`.
    Current,
    /// Above it: `type=pdir`.
    Parent,
}
