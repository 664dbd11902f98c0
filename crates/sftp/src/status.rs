//! The one mapping from what a session was told to what SFTP says
//! (draft-ietf-secsh-filexfer-02 §7).

use entrepot_sftp_proto::Status;
use entrepot_vfs::{Refused, VfsError};

/// The code for an error.
pub(crate) fn status(error: &VfsError) -> Status {
    match error {
        VfsError::NotFound | VfsError::NotDirectory | VfsError::LinkLoop => Status::NoSuchFile,
        VfsError::Denied { .. } | VfsError::LinkOutside => Status::PermissionDenied,
        VfsError::Unsupported => Status::OpUnsupported,
        VfsError::Exists
        | VfsError::NotEmpty
        | VfsError::IsDirectory
        | VfsError::OtherMount
        | VfsError::NoSpace
        | VfsError::Quota { .. }
        | VfsError::Busy { .. }
        | VfsError::NoRecord
        | VfsError::Conflict
        | VfsError::BadHandle
        | VfsError::Gone
        | VfsError::Incomplete { .. }
        | VfsError::Io { .. }
        | VfsError::NotLink
        | VfsError::Ended { .. } => Status::Failure,
    }
}

/// The code for what a rule refused: denied for good, or a failure for now.
pub(crate) fn status_of_rule(refused: &Refused) -> Status {
    if refused.is_for_good() { Status::PermissionDenied } else { Status::Failure }
}

/// True if the sentence is also sent to the standard error of OpenSSH's client, which prints of a
/// STATUS only its own word for the code. Not for answers that clients provoke in the normal
/// course: asking whether a name exists, making directories that do.
pub(crate) fn is_told(error: &VfsError) -> bool {
    !matches!(
        error,
        VfsError::NotFound
            | VfsError::Exists
            | VfsError::IsDirectory
            | VfsError::NotDirectory
            | VfsError::Unsupported
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_the_code_clients_act_on() {
        let busy = VfsError::Busy { why: "full".to_owned() };
        let quota = VfsError::Quota { what: "bytes", limit: 1 };
        let denied = VfsError::Denied { what: "write".to_owned() };
        for (error, code, told) in [
            (VfsError::NotFound, 2, false),
            (VfsError::NotDirectory, 2, false),
            (denied, 3, true),
            (VfsError::LinkOutside, 3, true),
            (VfsError::LinkLoop, 2, true),
            (VfsError::NotLink, 4, true),
            (VfsError::Exists, 4, false),
            (VfsError::NoSpace, 4, true),
            (quota, 4, true),
            (busy, 4, true),
            (VfsError::Conflict, 4, true),
            (VfsError::Unsupported, 8, false),
        ] {
            assert_eq!(status(&error).code(), code, "{error}");
            assert_eq!(is_told(&error), told, "{error}");
        }
    }
}
