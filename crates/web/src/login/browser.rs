//! Browsers that have signed in: a cookie with every request, and with every change something that
//! only a page of ours can have told the browser.

use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use entrepot_auth::SignIn;
use entrepot_auth::limits::{CHALLENGE_TIME, OIDC_BEGUN_TIME};
use entrepot_nouns::Secret;

use crate::connection::Connection;
use crate::context::RequestContext;
use crate::hooks::open_session;
use crate::limits::{CREDENTIAL_BYTES, PROOF_TIME};
use crate::problem::Problem;
use crate::sessions::{Holder, UsedSession};

/// Carries what a form has in its field `csrf`, for requests that are no forms.
pub(crate) const CSRF_FIELD: HeaderName = HeaderName::from_static("x-csrf-token");

/// Under TLS: no other host, path or clear text can set or see it (RFC 6265bis §4.1.3.2).
const HOST_COOKIE: &str = "__Host-entrepot";
/// In clear text, which comes from this machine or from a proxy: browsers take the name above only
/// with `Secure`.
const CLEAR_COOKIE: &str = "entrepot";

/// The same for what a browser keeps between being asked for a passkey and its answer.
const HOST_CHALLENGE: &str = "__Host-entrepot-challenge";
const CLEAR_CHALLENGE: &str = "entrepot-challenge";

/// The same for what it keeps while it is at a provider of OpenID Connect.
const HOST_OIDC: &str = "__Host-entrepot-oidc";
const CLEAR_OIDC: &str = "entrepot-oidc";

/// A browser that has signed in, as a request of it shows.
#[derive(Debug)]
pub(crate) struct BrowserSignIn {
    pub(crate) cookie: Secret,
    /// As the gate knows it.
    pub(crate) known: SignIn,
    /// It proved who it is lately, as dangerous changes ask for.
    pub(crate) is_proven: bool,
}

impl BrowserSignIn {
    /// Refuses a dangerous change if it did not prove lately who it is.
    ///
    /// # Errors
    /// It did not.
    pub(crate) fn must_be_proven(&self) -> Result<(), Problem> {
        if self.is_proven {
            return Ok(());
        }
        let why = "this change asks for the password, a passkey or a provider \
                   once more: go to /prove, then try again";
        Err(Problem::new(StatusCode::FORBIDDEN, "EP1018", why))
    }
}

fn name(connection: &Connection) -> &'static str {
    if connection.is_encrypted() { HOST_COOKIE } else { CLEAR_COOKIE }
}

fn challenge_name(connection: &Connection) -> &'static str {
    if connection.is_encrypted() { HOST_CHALLENGE } else { CLEAR_CHALLENGE }
}

fn oidc_name(connection: &Connection) -> &'static str {
    if connection.is_encrypted() { HOST_OIDC } else { CLEAR_OIDC }
}

/// The cookie of a request that signs a browser in.
pub(super) fn cookie(fields: &HeaderMap, connection: &Connection) -> Option<Secret> {
    named_cookie(fields, name(connection))
}

/// The challenge that the browser of a request was asked to answer, sealed.
pub(crate) fn challenge_cookie(fields: &HeaderMap, connection: &Connection) -> Option<Secret> {
    named_cookie(fields, challenge_name(connection))
}

/// What the browser of a request was led to a provider with, sealed.
pub(crate) fn oidc_cookie(fields: &HeaderMap, connection: &Connection) -> Option<Secret> {
    named_cookie(fields, oidc_name(connection))
}

/// Of several cookies of the name the first.
fn named_cookie(fields: &HeaderMap, name: &str) -> Option<Secret> {
    let lines = fields.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(known, _)| known.trim() == name)?;
    let value = value.trim();
    (value.len() <= CREDENTIAL_BYTES).then(|| Secret::new(value))
}

/// Has the browser keep the cookie until it is closed or signs out.
pub(crate) fn set_cookie(connection: &Connection, cookie: &Secret) -> Option<HeaderValue> {
    let value = std::str::from_utf8(cookie.expose()).ok()?;
    let text = attributes(connection, name(connection), value);
    let mut field = HeaderValue::from_str(&text).ok()?;
    field.set_sensitive(true);
    Some(field)
}

/// Has the browser keep a sealed challenge for as long as it may be answered.
pub(crate) fn set_challenge_cookie(
    connection: &Connection,
    sealed: &Secret,
) -> Option<HeaderValue> {
    brief_cookie(connection, challenge_name(connection), sealed, CHALLENGE_TIME)
}

/// Has the browser keep what it is led to a provider with for as long as it may be there.
pub(crate) fn set_oidc_cookie(connection: &Connection, sealed: &Secret) -> Option<HeaderValue> {
    brief_cookie(connection, oidc_name(connection), sealed, OIDC_BEGUN_TIME)
}

/// Has the browser forget what it was led to a provider with.
pub(crate) fn unset_oidc_cookie(connection: &Connection) -> Option<HeaderValue> {
    let text = attributes(connection, oidc_name(connection), "");
    HeaderValue::from_str(&format!("{text}; Max-Age=0")).ok()
}

fn brief_cookie(
    connection: &Connection,
    name: &str,
    sealed: &Secret,
    time: Duration,
) -> Option<HeaderValue> {
    let value = std::str::from_utf8(sealed.expose()).ok()?;
    let text = attributes(connection, name, value);
    let seconds = time.as_secs();
    let mut field = HeaderValue::from_str(&format!("{text}; Max-Age={seconds}")).ok()?;
    field.set_sensitive(true);
    Some(field)
}

/// Has the browser forget the cookie.
pub(crate) fn unset_cookie(connection: &Connection) -> Option<HeaderValue> {
    let text = attributes(connection, name(connection), "");
    HeaderValue::from_str(&format!("{text}; Max-Age=0")).ok()
}

fn attributes(connection: &Connection, name: &str, value: &str) -> String {
    let secure = if connection.is_encrypted() { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}")
}

/// The session of the browser with this cookie; `None`: it is signed in no more.
pub(super) async fn find_or_open(
    context: &RequestContext,
    cookie: Secret,
) -> Result<Option<(UsedSession, BrowserSignIn)>, Problem> {
    let (connection, shared) = (&context.connection, context.shared());
    let key = shared.sessions.key(context.site, Holder::Browser, &cookie, context.peer().ip());
    let peer = connection.as_peer(shared, context.site);
    // Asked with every request: it may have been ended elsewhere, and is noted as used.
    let Some(sign_in) = shared.gate().signed_in(&cookie, peer).await? else {
        shared.sessions.end(&key, "the browser is signed out");
        return Ok(None);
    };
    let grant = sign_in.grant.clone();
    let session = shared.sessions.find_or_open(&key, open_session(context, grant)).await?;
    let is_proven = sign_in.proven_within(PROOF_TIME, shared.env().now());
    Ok(Some((session, BrowserSignIn { cookie, known: sign_in, is_proven })))
}

/// Signs a browser out by its own wish.
pub(crate) async fn sign_out(
    context: &RequestContext,
    sign_in: &BrowserSignIn,
) -> Result<(), Problem> {
    let shared = context.shared();
    shared.gate().end_sign_in(context.site, sign_in.known.id, "signed out").await?;
    let address = context.peer().ip();
    let key = shared.sessions.key(context.site, Holder::Browser, &sign_in.cookie, address);
    shared.sessions.end(&key, "signed out");
    Ok(())
}
