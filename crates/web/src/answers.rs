//! Answers that lead a client elsewhere.

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};

/// Leads the client to another address.
pub(crate) fn redirect(status: StatusCode, there: &str) -> Response {
    let mut response = status.into_response();
    // An address that we have encoded has no byte that a field cannot have.
    if let Ok(there) = HeaderValue::from_str(there) {
        response.headers_mut().insert(LOCATION, there);
    }
    response
}

/// Has a browser load another page, whatever the method of its request was.
pub(crate) fn see_other(there: &str) -> Response {
    redirect(StatusCode::SEE_OTHER, there)
}
