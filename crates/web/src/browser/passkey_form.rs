//! Forms that the script of passkeys fills, and what it is told before. The forms are hidden
//! without the script.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use entrepot_auth::limits::CHALLENGE_TIME;
use entrepot_auth::{Challenge, PageOrigin, PasskeyAnswer};
use serde_json::{Value, json};

use super::page_form::OpenForm;
use crate::context::RequestContext;
use crate::html::escape;
use crate::login::set_challenge_cookie;
use crate::problem::Problem;

/// What fills and sends the forms.
pub(super) const SCRIPT: &str = include_str!("passkey.js");
/// Where the script asks for a challenge to sign in with.
pub(super) const ASK: &str = "/sign-in/passkey/begin";

/// Fields of an answer to such a challenge.
const ANSWER: [&str; 5] =
    ["credential", "client_data", "authenticator_data", "signature", "user_handle"];

/// A form that sends an answer.
pub(super) struct PasskeyForm<'a> {
    /// Where it is sent.
    pub(super) action: &'a str,
    /// What its button says.
    pub(super) button: &'a str,
    /// Further fields, as HTML.
    pub(super) fields: &'a str,
}

impl PasskeyForm<'_> {
    /// As HTML, if passkeys can be used at the host that the request names.
    pub(super) fn html(&self, context: &RequestContext) -> String {
        if context.origin.is_none() {
            return String::new();
        }
        form_with(&ANSWER, ASK, self)
    }
}

/// A form with these empty fields, which the script fills after it has asked `begin`.
pub(super) fn form_with(names: &[&str], begin: &str, form: &PasskeyForm<'_>) -> String {
    let PasskeyForm { action, button, fields } = form;
    let mut html = format!(
        "<form class=\"narrow\" method=\"post\" action=\"{action}\" data-passkey=\"{begin}\" \
         hidden>{fields}\n"
    );
    for name in names {
        // To write into a string cannot fail.
        let _ = write!(html, "<input type=\"hidden\" name=\"{name}\">");
    }
    let _ = writeln!(html, "\n<p><button>{}</button></p>\n</form>", escape(button));
    html
}

/// What the script filled in.
pub(super) fn answer(form: &mut OpenForm) -> Result<PasskeyAnswer, Problem> {
    Ok(PasskeyAnswer {
        credential: form.text("credential")?,
        client_data: form.text("client_data")?,
        authenticator_data: form.text("authenticator_data")?,
        signature: form.text("signature")?,
        user_handle: form.text("user_handle")?,
    })
}

/// The page that asks.
///
/// # Errors
/// It was loaded from an IP address, which no passkey belongs to.
pub(super) fn origin(context: &RequestContext) -> Result<PageOrigin, Problem> {
    context.origin.clone().ok_or_else(|| {
        let why = "a passkey belongs to the name of a host: load the page by such a name, and \
                   not by an IP address";
        Problem::new(StatusCode::BAD_REQUEST, "EP1020", why)
    })
}

/// Tells the script what to ask the authenticator for, and has the browser keep the challenge.
pub(super) fn ask(context: &RequestContext, challenge: &Challenge, mut options: Value) -> Response {
    options["challenge"] = challenge.challenge.as_str().into();
    options["timeout"] = json!(CHALLENGE_TIME.as_millis() as u64);
    let mut response = Response::new(Body::from(options.to_string()));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = set_challenge_cookie(&context.connection, &challenge.cookie) {
        fields.insert(SET_COOKIE, cookie);
    }
    response
}
