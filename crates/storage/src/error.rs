//! What can go wrong with the bytes of an endpoint, and whose fault it is.

/// Why a store refused. The variants are what a protocol must be able to tell apart; each has a
/// code with a page in `docs/errors`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing has that name (or what has it is no file and no directory: links, devices, pipes
    /// and sockets do not exist for a store).
    #[error("there is no such file or directory")]
    NotFound,
    /// The name is taken and the caller asked not to replace.
    #[error("the name is taken: choose another one, or allow replacing")]
    Exists,
    /// The directory has entries.
    #[error("the directory is not empty: remove what is in it first")]
    NotEmpty,
    /// A file was needed and this is a directory.
    #[error("this is a directory: name a file")]
    IsDirectory,
    /// A directory was needed and this is a file.
    #[error("this is not a directory: name a directory")]
    NotDirectory,
    /// The disk, quota or size limit of the endpoint is used up.
    #[error("the endpoint is full: make room there, then send again")]
    NoSpace,
    /// The operating system or the far side does not permit it.
    #[error("not permitted: {0}")]
    Denied(String),
    /// This kind of store cannot do it; see [`crate::Caps`].
    #[error("this endpoint cannot do it: {0}")]
    Unsupported(&'static str),
    /// It may work later: the far side does not answer, or a disk error left the endpoint in a
    /// state that a person must look at.
    #[error("the endpoint is not available now, try again later: {0}")]
    Unavailable(String),
    /// The disk or the far side failed. What was asked is not done.
    #[error("the endpoint failed: {0}; look at its disk or server, then send again")]
    Io(String),
    /// All places at the server are taken, or the share of the caller.
    #[error("no connection to the server is free: {0}; try again later")]
    NoPlace(String),
    /// The memory that the caller may use for what waits in it is used up: what was asked is not
    /// done, and can be asked again when some is free.
    #[error("the memory for uploads of this account is used up: try again later")]
    NoMemory,
    /// The path would have left the root of the endpoint.
    #[error("the path leads out of the endpoint: use names below its root")]
    Escape,
}

/// Short for a result of this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// The operator's code; `docs/errors/<code>.md` says what happened, why and what to do.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::NotFound => "EP0501",
            StoreError::Exists => "EP0502",
            StoreError::NotEmpty => "EP0503",
            StoreError::IsDirectory => "EP0504",
            StoreError::NotDirectory => "EP0505",
            StoreError::NoSpace => "EP0506",
            StoreError::Denied(_) => "EP0507",
            StoreError::Unsupported(_) => "EP0508",
            StoreError::Unavailable(_) => "EP0509",
            StoreError::Io(_) => "EP0510",
            StoreError::NoMemory => "EP0531",
            StoreError::NoPlace(_) => "EP0532",
            StoreError::Escape => "EP0511",
        }
    }

    /// True if the same call may succeed later without anybody changing it.
    pub fn is_temporary(&self) -> bool {
        use StoreError::{NoMemory, NoPlace, NoSpace, Unavailable};
        matches!(self, Unavailable(_) | NoSpace | NoMemory | NoPlace(_))
    }
}

impl From<rustix::io::Errno> for StoreError {
    /// The meaning of an error number where no call says better.
    fn from(errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match errno {
            Errno::NOENT | Errno::LOOP | Errno::NXIO => StoreError::NotFound,
            Errno::EXIST => StoreError::Exists,
            Errno::NOTEMPTY => StoreError::NotEmpty,
            Errno::ISDIR => StoreError::IsDirectory,
            Errno::NOTDIR => StoreError::NotDirectory,
            Errno::NOSPC | Errno::DQUOT => StoreError::NoSpace,
            Errno::FBIG => StoreError::Denied("the file is larger than may be".to_owned()),
            Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY | Errno::BUSY => {
                StoreError::Denied(describe(errno))
            }
            Errno::NAMETOOLONG => StoreError::Denied("the name is too long here".to_owned()),
            Errno::XDEV => StoreError::Unsupported("a move between two file systems"),
            Errno::OPNOTSUPP | Errno::NOSYS => {
                StoreError::Unsupported("the file system lacks this call")
            }
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::STALE | Errno::AGAIN => {
                StoreError::Unavailable(describe(errno))
            }
            _ => StoreError::Io(describe(errno)),
        }
    }
}

/// The system's own words for `errno`.
fn describe(errno: rustix::io::Errno) -> String {
    std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn error_numbers_keep_their_meaning() {
        assert_eq!(StoreError::from(Errno::NOSPC), StoreError::NoSpace);
        assert_eq!(StoreError::from(Errno::DQUOT), StoreError::NoSpace);
        assert_eq!(StoreError::from(Errno::LOOP), StoreError::NotFound);
        assert_eq!(StoreError::from(Errno::IO).code(), "EP0510");
        assert!(StoreError::NoSpace.is_temporary());
    }
}
