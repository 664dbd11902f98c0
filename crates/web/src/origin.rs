//! Requests that a page of another site makes a browser send. A browser adds the credentials of
//! HTTP Basic, and cookies, by itself; so what changes something is only taken from our own pages,
//! and from programs that are no browsers.

use axum::http::header::ORIGIN;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};

use crate::problem::Problem;

/// Refuses a request that changes something if a page of another site made it (Fetch Metadata, and
/// the Origin field of RFC 6454 §7 for older browsers).
///
/// # Errors
/// It was.
pub(crate) fn check(method: &Method, fields: &HeaderMap, host: &Authority) -> Result<(), Problem> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let is_ours = match (fields.get("sec-fetch-site"), fields.get(ORIGIN)) {
        // `none`: the person typed the address.
        (Some(site), _) => matches!(site.as_bytes(), b"same-origin" | b"none"),
        (None, Some(origin)) => {
            let origin = origin.to_str().unwrap_or_default();
            let from = origin.split_once("://").map(|(_, from)| from);
            from.is_some_and(|from| from.eq_ignore_ascii_case(host.as_str()))
        }
        (None, None) => true,
    };
    if is_ours {
        return Ok(());
    }
    let why = "a page of another site made this request; begin from a page of this server";
    Err(Problem::new(StatusCode::FORBIDDEN, "EP1005", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_sites_change_nothing() {
        let host: Authority = "files.example:8443".parse().unwrap();
        let sent = |method: Method, named: &[(&'static str, &str)]| {
            let mut fields = HeaderMap::new();
            for (name, value) in named {
                fields.insert(*name, value.parse().unwrap());
            }
            check(&method, &fields, &host).is_ok()
        };
        let evil = ("origin", "https://evil.example");
        assert!(sent(Method::POST, &[]), "curl");
        assert!(sent(Method::GET, &[evil]), "a link");
        assert!(sent(Method::POST, &[("origin", "https://files.example:8443")]));
        assert!(sent(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(!sent(Method::PUT, &[evil]));
        assert!(!sent(Method::POST, &[("origin", "null")]));
        assert!(!sent(Method::DELETE, &[("sec-fetch-site", "cross-site")]));
        assert!(!sent(Method::POST, &[("sec-fetch-site", "same-site")]), "a neighbour");
        assert!(!sent(Method::POST, &[("origin", "https://files.example")]), "another port");
    }
}
