//! How clients want to be answered: the Accept field (RFC 9110 §12.5.1).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// How a client wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A page for people.
    Html,
    /// What programs read.
    Json,
}

impl Wanted {
    pub(crate) fn of(fields: &HeaderMap) -> Wanted {
        let accepted = fields.get_all(ACCEPT).iter();
        let is_html = accepted
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.contains("text/html"));
        if is_html { Wanted::Html } else { Wanted::Json }
    }
}
