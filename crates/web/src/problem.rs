//! Errors as clients see them: `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use entrepot_nouns::Env;
use serde_json::{Map, Value, json};

use crate::accept::Wanted;
use crate::html::escape;
use crate::limits::RETRY_AFTER_SECONDS;
use crate::page::Page;
use crate::pages;
use crate::request_id::RequestId;

/// The media type of problems.
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Asked of clients that have not signed in. The realm is a constant, so that a browser keeps one
/// password for all of the listener.
const CHALLENGE: HeaderValue =
    HeaderValue::from_static("Basic realm=\"entrepot\", charset=\"UTF-8\"");

/// The other way: an API token (RFC 6750 §3).
const BEARER_CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"entrepot\"");

/// Asked of browsers in place of both, which would show a dialog of their own for HTTP Basic. As
/// draft-broyer-http-cookie-auth has it: there is a form to sign in with.
pub(crate) const FORM_CHALLENGE: HeaderValue =
    HeaderValue::from_static("Cookie realm=\"entrepot\", form-action=\"/sign-in\"");

/// Why a request was refused or failed: one object of problem+json, with the fields `type`,
/// `title`, `status`, `detail`, `code` and `request`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// `EPnnnn`, the page in `docs/errors`, where `type` leads and where `title` comes from.
    pub(crate) code: String,
    /// A sentence that says what happened and what to do.
    pub(crate) detail: String,
    /// Fields of the answer besides those that follow from the status.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Members of the object besides those of every problem.
    pub(crate) members: Option<Box<Map<String, Value>>>,
}

impl Problem {
    /// Of a status and a code, with a sentence.
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Problem {
        let detail = detail.into();
        let (headers, members) = (Vec::new(), None);
        Problem { status, code: code.to_owned(), detail, headers, members }
    }

    /// The address, or the method at it, does not exist.
    pub(crate) fn nothing_here() -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "EP1011", "nothing is served at this address")
    }

    /// What was sent cannot be read, for this reason.
    pub(crate) fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "EP1013", detail)
    }

    /// Nothing was checked, because too many passwords wait for that.
    pub(crate) fn busy_with_sign_ins() -> Problem {
        let why = "too many sign in at this moment; try again later";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1003", why)
    }

    /// With one more field in the answer.
    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.headers.push((name, value));
        self
    }

    /// With one more member in the object.
    #[must_use]
    pub(crate) fn and(mut self, name: &str, value: Value) -> Problem {
        let members = self.members.get_or_insert_default();
        members.insert(name.to_owned(), value);
        self
    }

    /// The answer, which names its request: an object for programs, a page for people.
    pub(crate) fn answer(self, request: RequestId, wanted: Wanted, env: &Env) -> Response {
        let Problem { status, code, detail, headers, members } = self;
        if status.is_server_error() {
            tracing::warn!(code, %request, %status, "a request failed: {detail}");
        } else {
            tracing::debug!(code, %request, %status, "a request was refused: {detail}");
        }
        let title = pages::title(&code);
        let mut response = match wanted {
            Wanted::Json => {
                let mut problem = json!({
                    "type": format!("/docs/errors/{code}"),
                    "title": title,
                    "status": status.as_u16(),
                    "detail": detail,
                    "code": code,
                    "request": request.to_string(),
                });
                if let Value::Object(problem) = &mut problem {
                    problem.extend(members.into_iter().flat_map(|members| *members));
                }
                let mut response = Response::new(Body::from(problem.to_string()));
                *response.status_mut() = status;
                response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
                response
            }
            Wanted::Html => {
                let mut page = Page::new(title);
                page.alert(&detail);
                let code = escape(&code);
                page.push(&format!(
                    "<p><a href=\"/docs/errors/{code}\">{code}</a>, request {request}</p>\n\
                     <p><a href=\"/files/\">Files</a></p>\n"
                ));
                page.answer(status, env)
            }
        };
        let fields = response.headers_mut();
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let is_challenged = headers.iter().any(|(name, _)| name == WWW_AUTHENTICATE);
        match status {
            StatusCode::UNAUTHORIZED if !is_challenged => {
                fields.append(WWW_AUTHENTICATE, CHALLENGE);
                fields.append(WWW_AUTHENTICATE, BEARER_CHALLENGE);
            }
            StatusCode::SERVICE_UNAVAILABLE
                if !headers.iter().any(|(name, _)| name == RETRY_AFTER) =>
            {
                fields.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
            }
            _ => {}
        }
        fields.extend(headers);
        response
    }
}

/// For handlers: they give back a problem, and the answer is made when its request is known.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(Unanswered(self));
        response
    }
}

/// A problem that a handler has given back.
#[derive(Clone)]
pub(crate) struct Unanswered(pub(crate) Problem);
