//! A request of WebDAV, and what its answers have in common.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use entrepot_dav_proto::{BadBody, BadHeader, limits, multistatus};
use entrepot_nouns::VPath;
use entrepot_vfs::{EntryKind, Vfs};
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;

use crate::context::RequestContext;
use crate::files::path::{self, FilePath};
use crate::login::SignedIn;
use crate::problem::Problem;

/// What the addresses begin with.
const ROOT: &str = "/dav";
/// A request of WebDAV.
pub(super) struct DavRequest {
    pub(super) context: RequestContext,
    pub(super) signed_in: SignedIn,
    pub(super) target: FilePath,
    pub(super) fields: HeaderMap,
    /// The host that the request names, and the only one that a Destination may name.
    pub(super) host: Option<String>,
}

impl DavRequest {
    pub(super) fn vfs(&self) -> &Vfs {
        self.signed_in.vfs()
    }

    pub(super) fn path(&self) -> &VPath {
        &self.target.path
    }

    /// A field as text; what is no text is as if it were empty.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.to_str().unwrap_or_default())
    }
}

/// The path in an address or a Destination.
pub(super) fn target_of(address: &str) -> Result<FilePath, Problem> {
    let encoded = address.strip_prefix(ROOT).ok_or_else(Problem::nothing_here)?;
    if !encoded.is_empty() && !encoded.starts_with('/') {
        return Err(Problem::nothing_here());
    }
    Ok(path::decode(encoded)?)
}

/// A folder that is not there is a conflict of the state of the tree (RFC 4918 §9.3.1, §9.7.1).
pub(super) fn without_parent(problem: Problem) -> Problem {
    if problem.status == StatusCode::NOT_FOUND {
        return Problem { status: StatusCode::CONFLICT, ..problem };
    }
    problem
}

/// A body of XML, as a whole.
pub(super) async fn read(asked: &DavRequest, body: Body) -> Result<Vec<u8>, Problem> {
    let patience = asked.context.connection.config.body_time();
    let whole = Limited::new(body, limits::BODY_BYTES).collect();
    match timeout(patience, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(BadBody::TooLarge.into())
        }
        Ok(Err(error)) => Err(Problem::malformed(format!("the body broke off ({error})"))),
        Err(_) => {
            let why = "nothing more of the body came in time";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "EP1007", why))
        }
    }
}

impl From<BadBody> for Problem {
    fn from(error: BadBody) -> Problem {
        let status = match error {
            BadBody::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            BadBody::Syntax | BadBody::DocumentType | BadBody::Meaning => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, "EP1013", error.to_string())
    }
}

impl From<BadHeader> for Problem {
    fn from(error: BadHeader) -> Problem {
        // RFC 4918 §9.8.4: another server's resource.
        let status = if error == BadHeader::OTHER_SERVER {
            StatusCode::BAD_GATEWAY
        } else {
            StatusCode::BAD_REQUEST
        };
        Problem::new(status, "EP1013", error.to_string())
    }
}

/// A path as these addresses name it; that of a collection ends with a slash.
pub(super) fn href(path: &VPath, kind: EntryKind) -> String {
    let mut address = path::address_below(ROOT, path);
    if kind == EntryKind::Directory && !address.ends_with('/') {
        address.push('/');
    }
    address
}

pub(super) fn xml(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/xml; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// An answer that names the precondition which does not hold (RFC 4918 §16).
pub(super) fn unmet(status: StatusCode, condition: &str) -> Response {
    xml(status, multistatus::error_body(condition))
}
