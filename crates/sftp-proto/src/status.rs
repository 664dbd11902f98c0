//! Status codes (draft-ietf-secsh-filexfer-02 §7).

/// What a STATUS answer says. Codes above 8 belong to later versions and are never sent; 6 and 7
/// are made up by clients on their own side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Status {
    /// What was asked is done.
    Ok = 0,
    /// The end of a file or of a listing.
    Eof = 1,
    /// The name, or a directory above it, is missing.
    NoSuchFile = 2,
    /// Rights, a read-only mount or a policy refuse it.
    PermissionDenied = 3,
    /// Every other failure.
    Failure = 4,
    /// The packet or a name in it is malformed.
    BadMessage = 5,
    /// The request is unknown, or this store cannot do it.
    OpUnsupported = 8,
}

impl Status {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        // A field-less enum of u32: the cast is its definition.
        self as u32
    }

    /// The status a number on the wire stands for; `None` for 6, 7 and later versions' codes.
    pub fn from_code(code: u32) -> Option<Status> {
        Some(match code {
            0 => Status::Ok,
            1 => Status::Eof,
            2 => Status::NoSuchFile,
            3 => Status::PermissionDenied,
            4 => Status::Failure,
            5 => Status::BadMessage,
            8 => Status::OpUnsupported,
            _ => return None,
        })
    }

    /// The word of the draft, as clients print it.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "Success",
            Status::Eof => "End of file",
            Status::NoSuchFile => "No such file",
            Status::PermissionDenied => "Permission denied",
            Status::Failure => "Failure",
            Status::BadMessage => "Bad message",
            Status::OpUnsupported => "Operation unsupported",
        }
    }
}
