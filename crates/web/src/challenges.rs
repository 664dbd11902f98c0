//! Answers to authorities (ACME) that check whether a name leads here, before anybody signs in. Any
//! node answers, whichever of them has asked for the certificate.

use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method};
use axum::response::IntoResponse;
use axum::routing::get;
use entrepot_net::tls::{HandshakeError, TlsHello, TlsServer, TlsStream};

use crate::api::WebApi;
use crate::limits::CHALLENGE_LETTERS;
use crate::problem::Problem;
use crate::route_table::{Access, Served};
use crate::shared::ListenerShared;
use crate::stream::Socket;

/// Below it authorities fetch their answers (RFC 8555 §8.3).
const FOLDER: &str = "/.well-known/acme-challenge/";

/// True of addresses that are answered in clear text also where everything else is sent to HTTPS:
/// there may be no certificate yet.
pub(crate) fn is_asked(path: &str) -> bool {
    path.strip_prefix(FOLDER).is_some_and(is_token)
}

/// Tokens are of base64url, without padding (RFC 8555 §8.1).
fn is_token(token: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_';
    (1..=CHALLENGE_LETTERS).contains(&token.len()) && token.bytes().all(fits)
}

/// Where answers to http-01 are served.
pub(crate) fn served_routes(WebApi(api): &WebApi) -> Vec<Served> {
    let admin = api.admin.clone();
    let answer = move |Path(token): Path<String>| async move {
        if !is_token(&token) {
            return Err(Problem::nothing_here());
        }
        let answer = admin.acme_answer_to(&token).await?;
        let answer = answer.ok_or_else(Problem::nothing_here)?;
        let bytes = HeaderValue::from_static("application/octet-stream");
        Ok(([(CONTENT_TYPE, bytes)], answer).into_response())
    };
    let path = format!("{FOLDER}{{token}}");
    vec![Served::new(&path, &[Method::GET], Access::Everybody, get(answer))]
}

/// Shakes hands on a listener that answers tls-alpn-01; `None`: it was such a challenge, and the
/// connection carries nothing else.
pub(crate) async fn accept(
    shared: &ListenerShared,
    server: &TlsServer,
    stream: Socket,
) -> Result<Option<TlsStream<Socket>>, HandshakeError> {
    let hello = TlsHello::read(stream).await?;
    let Some(name) = hello.challenged_name() else {
        return hello.accept(server).await.map(Some);
    };
    match shared.admin().acme_answer_for(&name).await {
        Ok(Some(answer)) => match hello.answer(&answer).await {
            Ok(()) => tracing::info!(%name, "answered an authority that checks the name"),
            Err(error) => {
                let code = error.code();
                tracing::warn!(code, %name, %error, "an authority did not take its answer");
            }
        },
        Ok(None) => tracing::debug!(%name, "an authority checks a name that nobody asked for"),
        Err(error) => {
            tracing::warn!(code = error.code(), %name, %error, "an authority got no answer");
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_are_looked_up() {
        assert!(is_asked(
            "/.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"
        ));
        let long = format!("{FOLDER}{}", "a".repeat(CHALLENGE_LETTERS + 1));
        for path in [
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/a/b",
            "/.well-known/acme-challenge/a.b",
            "/.well-known/acme-challenge/%61",
            "/files/.well-known/acme-challenge/a",
            &long,
        ] {
            assert!(!is_asked(path), "{path}");
        }
    }
}
