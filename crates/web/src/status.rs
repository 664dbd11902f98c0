//! The one mapping from errors of files, of the administration and of the gate to statuses of HTTP
//! (RFC 9110 §15, RFC 4918 §11).

use axum::http::StatusCode;
use entrepot_admin::ProblemClass;
use entrepot_auth::AuthError;
use entrepot_vfs::{CommandRefusal, RefusalClass, VfsError};

use crate::problem::Problem;

impl From<VfsError> for Problem {
    fn from(error: VfsError) -> Problem {
        if let VfsError::Io { problem } = &error {
            tracing::warn!(%problem, "a request failed");
        }
        Problem::new(of_files(&error), error.code(), error.to_string())
    }
}

impl From<entrepot_admin::Problem> for Problem {
    fn from(problem: entrepot_admin::Problem) -> Problem {
        Problem::new(of_administration(problem.class), &problem.code, problem.message)
    }
}

impl From<entrepot_admin::AdminError> for Problem {
    fn from(error: entrepot_admin::AdminError) -> Problem {
        entrepot_admin::Problem::from(error).into()
    }
}

/// What the gate cannot say now, a client may ask again; what it refuses, not.
impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Problem {
        let status = match error {
            AuthError::Unavailable(_) | AuthError::Journal(_) => StatusCode::SERVICE_UNAVAILABLE,
            AuthError::Refused { .. } => StatusCode::FORBIDDEN,
            AuthError::Groups { .. } | AuthError::Mount { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, error.code(), error.to_string())
    }
}

impl From<CommandRefusal> for Problem {
    fn from(refusal: CommandRefusal) -> Problem {
        let code = match (refusal.class, &refusal.rule) {
            (RefusalClass::Denied | RefusalClass::NotNow, _) => "EP1030",
            (RefusalClass::RuleFailed, Some(_)) => "EP0883",
            (RefusalClass::RuleFailed, None) => "EP0826",
        };
        Problem::new(status_of_rule(&refusal), code, refusal.text)
    }
}

/// What a client is answered whose request a rule refuses: 403 where it need not try again.
pub(crate) fn status_of_rule(refusal: &CommandRefusal) -> StatusCode {
    match refusal.class {
        RefusalClass::Denied => StatusCode::FORBIDDEN,
        RefusalClass::NotNow | RefusalClass::RuleFailed => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn of_files(error: &VfsError) -> StatusCode {
    match error {
        VfsError::NotFound | VfsError::LinkLoop => StatusCode::NOT_FOUND,
        VfsError::Denied { .. } | VfsError::LinkOutside => StatusCode::FORBIDDEN,
        VfsError::Exists
        | VfsError::NotEmpty
        | VfsError::IsDirectory
        | VfsError::NotDirectory
        | VfsError::NotLink
        | VfsError::OtherMount
        | VfsError::Conflict => StatusCode::CONFLICT,
        VfsError::Quota { what: "bytes a file", .. } => StatusCode::PAYLOAD_TOO_LARGE,
        VfsError::Quota { .. } | VfsError::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        VfsError::Busy { .. } | VfsError::TooMany { .. } | VfsError::NoRecord => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        VfsError::Unsupported => StatusCode::NOT_IMPLEMENTED,
        VfsError::OffsetMismatch { .. } | VfsError::OtherNode { .. } => StatusCode::CONFLICT,
        VfsError::UploadInUse => StatusCode::LOCKED,
        VfsError::DigestMismatch { .. } | VfsError::BadPart { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        VfsError::Changed { .. } => StatusCode::CONFLICT,
        VfsError::TooManyEntries { .. } => StatusCode::FORBIDDEN,
        VfsError::Incomplete { .. } | VfsError::Gone => StatusCode::BAD_REQUEST,
        VfsError::BadHandle | VfsError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        VfsError::Ended { .. } => StatusCode::UNAUTHORIZED,
    }
}

/// The class of a problem that a server answered with this status: of the administration the one
/// that [`of_administration`] made it from.
pub(crate) fn class_of(status: StatusCode) -> ProblemClass {
    match status {
        StatusCode::NOT_FOUND => ProblemClass::NotFound,
        StatusCode::CONFLICT => ProblemClass::Conflict,
        StatusCode::PRECONDITION_FAILED => ProblemClass::Changed,
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => ProblemClass::Denied,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            ProblemClass::Unavailable
        }
        status if status.is_client_error() => ProblemClass::Invalid,
        _ => ProblemClass::Failed,
    }
}

fn of_administration(class: ProblemClass) -> StatusCode {
    match class {
        ProblemClass::NotFound => StatusCode::NOT_FOUND,
        ProblemClass::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        ProblemClass::Conflict => StatusCode::CONFLICT,
        ProblemClass::Changed => StatusCode::PRECONDITION_FAILED,
        ProblemClass::Denied => StatusCode::FORBIDDEN,
        ProblemClass::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ProblemClass::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_the_status_clients_act_on() {
        let denied = VfsError::Denied { what: "write".to_owned() };
        for (error, status) in [
            (VfsError::NotFound, 404),
            (denied, 403),
            (VfsError::Exists, 409),
            (VfsError::IsDirectory, 409),
            (VfsError::NoSpace, 507),
            (VfsError::Quota { what: "bytes", limit: 1 }, 507),
            (VfsError::Quota { what: "bytes a file", limit: 1 }, 413),
            (VfsError::Busy { why: "full".to_owned() }, 503),
            (VfsError::TooMany { what: "files" }, 503),
            (VfsError::Io { problem: String::new() }, 500),
            (VfsError::Ended { reason: "it was disabled".to_owned() }, 401),
        ] {
            assert_eq!(Problem::from(error.clone()).status.as_u16(), status, "{error}");
        }
        for (class, rule, status, code) in [
            (RefusalClass::Denied, Some("r"), 403, "EP1030"),
            (RefusalClass::NotNow, Some("r"), 503, "EP1030"),
            (RefusalClass::RuleFailed, Some("r"), 503, "EP0883"),
            (RefusalClass::RuleFailed, None, 503, "EP0826"),
        ] {
            let (text, rule) = ("Ask anna.".to_owned(), rule.map(|rule| rule.parse().unwrap()));
            let refusal = CommandRefusal { class, text, rule, ftp_code: Some(553) };
            let problem = Problem::from(refusal);
            assert_eq!((problem.status.as_u16(), &*problem.code), (status, code), "{class:?}");
            assert_eq!(problem.detail, "Ask anna.");
        }
        let failed = VfsError::Io { problem: "/srv/secret".to_owned() };
        assert!(!Problem::from(failed).detail.contains("secret"), "the inside is shown");
    }
}
