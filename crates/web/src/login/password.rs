//! A name and a password with every request (RFC 7617), and the certificate of the client where it
//! has shown one: an account may ask for either, or for both. They are compared once: the session
//! that they open serves the requests after it.

use axum::http::StatusCode;
use entrepot_auth::{Attempt, Verdict};
use entrepot_nouns::Secret;
use entrepot_vfs::Session;

use crate::context::RequestContext;
use crate::hooks::open_session;
use crate::problem::Problem;
use crate::sessions::{Holder, UsedSession};

/// The session that this name and password have opened from this address, or a new one.
pub(super) async fn find_or_open(
    context: &RequestContext,
    user: &str,
    password: &Secret,
) -> Result<UsedSession, Problem> {
    let sessions = &context.shared.sessions;
    let certificate = context.connection.certificate(context.shared()).map(Into::into);
    let holder = Holder::User { name: user.to_owned(), certificate };
    let key = sessions.key(context.site, holder, password, context.peer().ip());
    sessions.find_or_open(&key, open(context, user, password)).await
}

/// By the certificate of the client, if the account takes it; then, or else, by the password.
async fn prove(
    context: &RequestContext,
    attempt: &mut Attempt,
    user: &str,
    password: &Secret,
) -> Verdict {
    if let Some(shown) = context.connection.certificate(context.shared()) {
        match attempt.tls_certificate(user, shown).await {
            granted @ Verdict::Granted(_) => return granted,
            partial @ Verdict::Partial { .. } if password.expose().is_empty() => return partial,
            // One that is not the account's counts as no try.
            Verdict::Partial { .. } | Verdict::Busy | Verdict::Refused { .. } => {}
        }
    }
    attempt.password(user, password).await
}

async fn open(context: &RequestContext, user: &str, password: &Secret) -> Result<Session, Problem> {
    let (connection, shared) = (&context.connection, context.shared());
    let peer = connection.as_peer(shared, context.site);
    let mut attempt = connection.attempt(shared, peer).await;
    let checking = connection.checking();
    let verdict = prove(context, &mut attempt, user, password).await;
    drop(attempt);
    let session = match verdict {
        Verdict::Granted(grant) => open_session(context, grant).await,
        Verdict::Partial { .. } => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "EP1002",
            "this account signs in with more than a password, which HTTP Basic cannot ask for; \
             use an API token of it, or an account without a second step",
        )),
        Verdict::Busy => Err(Problem::busy_with_sign_ins()),
        Verdict::Refused { end, .. } => {
            if end {
                connection.end_after_refusals();
            }
            let why = "the name or the password is wrong, or the account may not sign in here now";
            Err(Problem::new(StatusCode::UNAUTHORIZED, "EP1001", why))
        }
    };
    drop(checking);
    session
}
