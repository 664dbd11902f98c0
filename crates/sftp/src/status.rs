//! The one mapping from errors of the account's files, and from refusals by rules, to statuses of
//! SFTP (draft-ietf-secsh-filexfer-02 §7).

use entrepot_sftp_proto::Status;
use entrepot_vfs::{CommandRefusal, RefusalClass, VfsError};

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
        | VfsError::TooMany { .. }
        | VfsError::Conflict
        | VfsError::BadHandle
        | VfsError::Gone
        | VfsError::Incomplete { .. }
        | VfsError::Io { .. }
        | VfsError::NotLink
        | VfsError::OffsetMismatch { .. }
        | VfsError::UploadInUse
        | VfsError::OtherNode { .. }
        | VfsError::DigestMismatch { .. }
        | VfsError::BadPart { .. }
        | VfsError::Changed { .. }
        | VfsError::TooManyEntries { .. }
        | VfsError::Ended { .. } => Status::Failure,
    }
}

/// The status of a request that a rule refused. The draft has none for "try again later".
pub(crate) fn status_of_rule(refused: &CommandRefusal) -> Status {
    match refused.class {
        RefusalClass::Denied => Status::PermissionDenied,
        RefusalClass::NotNow | RefusalClass::RuleFailed => Status::Failure,
    }
}

/// The number of [`status_of_rule`], as events record it.
pub(crate) fn code_of_rule(refused: &CommandRefusal) -> u16 {
    event_code(status_of_rule(refused))
}

/// The number of a status, as events record it.
pub(crate) fn event_code(status: Status) -> u16 {
    u16::try_from(status.code()).unwrap_or(u16::MAX)
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
            (VfsError::TooMany { what: "files" }, 4, true),
            (VfsError::Conflict, 4, true),
            (VfsError::Unsupported, 8, false),
        ] {
            assert_eq!(status(&error).code(), code, "{error}");
            assert_eq!(is_told(&error), told, "{error}");
        }
    }

    #[test]
    fn a_rule_that_forbids_is_permission_denied_and_every_other_refusal_a_failure() {
        for (class, code) in
            [(RefusalClass::Denied, 3), (RefusalClass::NotNow, 4), (RefusalClass::RuleFailed, 4)]
        {
            let ftp_code = Some(553);
            let refused = CommandRefusal { class, text: String::new(), rule: None, ftp_code };
            assert_eq!(code_of_rule(&refused), code, "{class:?}: the code of FTP does not count");
        }
    }
}
