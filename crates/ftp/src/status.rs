//! The one mapping from errors of the account's files, and from refusals by rules, to replies of
//! FTP (RFC 959 §4.2).

use entrepot_ftp_proto::{Refusal, Why};
use entrepot_vfs::{CommandRefusal, RefusalClass, VfsError};

/// The refusal for an error: a reason, from which the code follows, and its sentence.
pub(crate) fn refusal(error: &VfsError) -> Refusal {
    if let VfsError::Io { problem } = error {
        tracing::warn!(%problem, "a request failed");
    }
    Refusal::because(why(error), sentence(&error.to_string()))
}

/// The error of a call as the refusal that the client gets for it.
pub(crate) fn refused<T>(result: Result<T, VfsError>) -> Result<T, Refusal> {
    result.map_err(|error| refusal(&error))
}

fn why(error: &VfsError) -> Why {
    match error {
        VfsError::NotFound | VfsError::LinkLoop | VfsError::NotLink => Why::NotFound,
        VfsError::Denied { .. } | VfsError::LinkOutside => Why::Denied,
        VfsError::Exists => Why::Exists,
        VfsError::NotEmpty => Why::NotEmpty,
        VfsError::IsDirectory => Why::IsDirectory,
        VfsError::NotDirectory => Why::NotDirectory,
        VfsError::OtherMount => Why::Name,
        VfsError::NoSpace => Why::NoSpace,
        VfsError::Quota { .. } => Why::Quota,
        VfsError::Busy { .. }
        | VfsError::TooMany { .. }
        | VfsError::Conflict
        | VfsError::UploadInUse => Why::Busy,
        VfsError::NoRecord => Why::NoRoomNow,
        VfsError::Unsupported => Why::Unsupported,
        VfsError::BadHandle
        | VfsError::Gone
        | VfsError::Incomplete { .. }
        | VfsError::OffsetMismatch { .. }
        | VfsError::OtherNode { .. }
        | VfsError::DigestMismatch { .. }
        | VfsError::BadPart { .. }
        | VfsError::Changed { .. }
        | VfsError::TooManyEntries { .. }
        | VfsError::Io { .. } => Why::Store,
        VfsError::Ended { .. } => Why::Closing,
    }
}

/// The reply to a command that a rule refused.
pub(crate) fn refusal_of_rule(refused: &CommandRefusal) -> Refusal {
    Refusal::told(code_of_rule(refused), refused.text.as_str())
}

/// The code of that reply: the one that the author of the rule names, else that of the class.
pub(crate) fn code_of_rule(refused: &CommandRefusal) -> u16 {
    match (refused.ftp_code, refused.class) {
        (Some(code), _) => code,
        (None, RefusalClass::Denied) => 550,
        (None, RefusalClass::NotNow) => 450,
        (None, RefusalClass::RuleFailed) => 451,
    }
}

/// With a capital letter and a full stop, as replies are.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(std::iter::once('.')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_the_code_clients_act_on() {
        let busy = VfsError::Busy { why: "full".to_owned() };
        let quota = VfsError::Quota { what: "bytes", limit: 1 };
        let denied = VfsError::Denied { what: "write".to_owned() };
        for (error, verb, code) in [
            (VfsError::NotFound, "RETR", 550),
            (denied.clone(), "DELE", 550),
            (denied, "STOR", 553),
            (VfsError::IsDirectory, "DELE", 550),
            (VfsError::IsDirectory, "RNTO", 553),
            (VfsError::NotDirectory, "MLSD", 501),
            (VfsError::OtherMount, "RNTO", 553),
            (VfsError::NoSpace, "STOR", 552),
            (quota, "STOR", 552),
            (busy, "STOR", 450),
            (VfsError::TooMany { what: "files" }, "RETR", 450),
            (VfsError::NoRecord, "STOR", 452),
            (VfsError::Conflict, "APPE", 450),
            (VfsError::Io { problem: String::new() }, "STOR", 451),
            (VfsError::Unsupported, "MFMT", 504),
        ] {
            assert_eq!(refusal(&error).code(verb), code, "{error}");
        }
        assert_eq!(refusal(&VfsError::NotFound).sentence(), "There is no such file or directory.");
    }

    #[test]
    fn a_rule_chooses_the_code_or_else_its_class_does() {
        for (class, ftp_code, code) in [
            (RefusalClass::Denied, None, 550),
            (RefusalClass::NotNow, None, 450),
            (RefusalClass::RuleFailed, None, 451),
            (RefusalClass::Denied, Some(553), 553),
            (RefusalClass::NotNow, Some(421), 421),
        ] {
            let refused = CommandRefusal { class, text: "No.".to_owned(), rule: None, ftp_code };
            let reply = refusal_of_rule(&refused);
            assert_eq!((reply.code("STOR"), reply.sentence()), (code, "No."), "{refused:?}");
        }
    }
}
