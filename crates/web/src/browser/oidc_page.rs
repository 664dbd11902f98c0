//! Signing in by a provider of OpenID Connect, and proving by one who is signed in: addresses that
//! lead to the provider, and the one that it sends browsers back to.

use axum::extract::{Path, Query};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use entrepot_auth::{
    OidcError, OidcLogin, OidcPurpose, OidcRefusal, OidcReturn, OidcStart, PageOrigin, Verdict,
};
use entrepot_nouns::Secret;
use serde::Deserialize;

use super::page_form::target;
use super::sign_in_page;
use crate::answers::see_other;
use crate::context::RequestContext;
use crate::login::{Browser, oidc_cookie, set_oidc_cookie, unset_oidc_cookie};
use crate::pending::PendingSignIn;
use crate::problem::Problem;

/// Where the browser goes when it has come back.
#[derive(Deserialize)]
pub(super) struct Next {
    to: Option<String>,
}

/// What a provider sends a browser back with (RFC 6749 §4.1.2, RFC 9207 §2).
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Brought {
    state: String,
    code: String,
    iss: String,
    error: String,
}

/// Leads a browser to a provider that is to sign it in.
pub(super) async fn begin(
    context: RequestContext,
    Path(provider): Path<String>,
    Query(next): Query<Next>,
) -> Result<Response, Problem> {
    lead(&context, &provider, OidcPurpose::SignIn, next).await
}

/// Leads a browser to a provider that is to prove who is signed in.
pub(super) async fn prove(
    browser: Browser,
    Path(provider): Path<String>,
    Query(next): Query<Next>,
) -> Result<Response, Problem> {
    lead(&browser.context, &provider, OidcPurpose::Prove, next).await
}

async fn lead(
    context: &RequestContext,
    provider: &str,
    purpose: OidcPurpose,
    next: Next,
) -> Result<Response, Problem> {
    let page = page_of(context)?;
    let to = target(context, next.to);
    let start = OidcStart { site: context.site, provider, page, purpose, to: &to };
    let leading = context.shared().gate().begin_oidc(&start).await.map_err(problem)?;
    let mut response = see_other(&leading.url);
    if let Some(cookie) = set_oidc_cookie(&context.connection, &leading.cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Takes what a browser brings back from a provider.
pub(super) async fn back(
    context: RequestContext,
    browser: Result<Browser, Problem>,
    Path(provider): Path<String>,
    Query(brought): Query<Brought>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let cookie = oidc_cookie(&headers, &context.connection);
    let cookie = cookie.unwrap_or_else(|| Secret::new(b""));
    let back = OidcReturn {
        provider: &provider,
        page: page_of(&context)?,
        cookie: &cookie,
        state: &brought.state,
        code: &brought.code,
        issuer: &brought.iss,
        error: &brought.error,
    };
    let mut response = match check(&context, &back).await? {
        Checked::Pending(pending, to) => {
            sign_in_page::ask_code(&context, &target(&context, Some(to)), *pending)
        }
        Checked::LoggedIn(login) => {
            let to = target(&context, Some(login.to));
            let Verdict::Granted(grant) = login.verdict else {
                return Err(problem(OidcError::NoAccount));
            };
            match login.purpose {
                OidcPurpose::SignIn => {
                    sign_in_page::signed_in(&context, &headers, &grant, &to).await?
                }
                OidcPurpose::Prove => {
                    let cookie = &browser?.sign_in.cookie;
                    if !context.shared().gate().prove_sign_in(cookie, &grant).await? {
                        return Err(problem(OidcError::NoAccount));
                    }
                    see_other(&to)
                }
            }
        }
    };
    if let Some(cookie) = unset_oidc_cookie(&context.connection) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// What the gate made of a return.
enum Checked {
    LoggedIn(Box<OidcLogin>),
    /// A code must follow, then this address.
    Pending(Box<PendingSignIn>, String),
}

async fn check(context: &RequestContext, back: &OidcReturn<'_>) -> Result<Checked, Problem> {
    let (connection, shared) = (&context.connection, context.shared());
    let peer = connection.as_peer(shared, context.site);
    let mut attempt = connection.attempt(shared, peer.clone()).await;
    let checking = connection.checking();
    let login = attempt.oidc(back).await;
    drop(checking);
    match login {
        Ok(login) if matches!(login.verdict, Verdict::Partial { .. }) => {
            // What it has proved waits for the code, which may come on another connection.
            let begun = std::mem::replace(&mut *attempt, shared.gate().attempt(peer));
            let (site, address) = (context.site, context.peer().ip());
            let pending = PendingSignIn { attempt: begun, user: login.user, site, address };
            Ok(Checked::Pending(Box::new(pending), login.to))
        }
        Ok(login) => Ok(Checked::LoggedIn(Box::new(login))),
        Err(OidcRefusal { error, end }) => {
            drop(attempt);
            if end {
                connection.end_after_refusals();
            }
            Err(problem(error))
        }
    }
}

/// The page that a browser comes from, or returns to.
fn page_of(context: &RequestContext) -> Result<&PageOrigin, Problem> {
    context.origin.as_ref().ok_or_else(|| problem(OidcError::Host))
}

fn problem(error: OidcError) -> Problem {
    let (code, why) = (error.code(), error.to_string());
    let status = match error {
        OidcError::NoProvider => StatusCode::NOT_FOUND,
        OidcError::Unreachable => StatusCode::BAD_GATEWAY,
        OidcError::BeginAgain | OidcError::Host => StatusCode::BAD_REQUEST,
        OidcError::Declined(_) | OidcError::Unproven | OidcError::NoAccount => {
            StatusCode::FORBIDDEN
        }
        OidcError::Later(error) => return Problem::from(error),
    };
    Problem::new(status, code, why)
}
