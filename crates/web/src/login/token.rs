//! An API token with every request (RFC 6750). The session that it opens has the rights that the
//! scopes of the token leave to its account, and ends with the token.

use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use entrepot_auth::Verdict;
use entrepot_nouns::Secret;
use entrepot_vfs::Session;

use crate::context::RequestContext;
use crate::hooks::open_session;
use crate::problem::Problem;
use crate::sessions::{Holder, UsedSession};

/// RFC 6750 §3.1: wrong, expired and revoked tokens are refused in the same words.
const INVALID: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"entrepot\", error=\"invalid_token\"");

/// The session that this token has opened from this address, or a new one.
pub(super) async fn find_or_open(
    context: &RequestContext,
    token: &Secret,
) -> Result<UsedSession, Problem> {
    let (sessions, address) = (&context.shared.sessions, context.peer().ip());
    let key = sessions.key(context.site, Holder::Token, token, address);
    let session = sessions.find_or_open(&key, open(context, token)).await?;
    // A session may be used for longer than the precision of the last use that lists promise.
    context.shared().gate().note_token_use(token, context.site, address);
    Ok(session)
}

async fn open(context: &RequestContext, token: &Secret) -> Result<Session, Problem> {
    let (connection, shared) = (&context.connection, context.shared());
    let peer = connection.as_peer(shared, context.site);
    let mut attempt = connection.attempt(shared, peer).await;
    let checking = connection.checking();
    let verdict = attempt.api_token(token).await;
    drop(attempt);
    let session = match verdict {
        Verdict::Granted(grant) => open_session(context, grant).await,
        Verdict::Busy => Err(Problem::busy_with_sign_ins()),
        Verdict::Partial { .. } => Err(invalid()),
        Verdict::Refused { end, .. } => {
            if end {
                connection.end_after_refusals();
            }
            Err(invalid())
        }
    };
    drop(checking);
    session
}

fn invalid() -> Problem {
    let why = "the API token is wrong, expired or revoked, or may not be used from here now";
    Problem::new(StatusCode::UNAUTHORIZED, "EP1016", why).with(WWW_AUTHENTICATE, INVALID)
}
