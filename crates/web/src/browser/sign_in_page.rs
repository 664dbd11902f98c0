//! `/sign-in`: a passkey, a provider, or a name and a password, then a code where the account asks
//! for one. A browser that has shown them is given a cookie.

use axum::extract::Query;
use axum::http::header::{SET_COOKIE, USER_AGENT, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use entrepot_auth::{Attempt, Grant, Verdict};
use entrepot_nouns::{AuthMethod, Secret};
use serde::Deserialize;

use super::oidc_links::links;
use super::page_form::{OpenForm, target};
use super::passkey_form::{PasskeyForm, SCRIPT};
use crate::answers::see_other;
use crate::context::RequestContext;
use crate::html::escape;
use crate::login::{Browser, set_cookie};
use crate::page::Page;
use crate::pending::PendingSignIn;
use crate::problem::{FORM_CHALLENGE, Problem};

const WRONG: &str = "The name or the password is wrong, or the account may not sign in here now.";
const WRONG_CODE: &str = "The code is wrong or was used before.";
const BEGIN_AGAIN: &str = "That took too long, or too many codes were wrong. Begin again.";
const NO_WAY: &str =
    "This account signs in with a key or a certificate, which this page cannot ask for.";
pub(super) const BUSY: &str = "Too many sign in at this moment. Try again in a few seconds.";

/// Where the browser goes when it is signed in.
#[derive(Deserialize)]
pub(super) struct Next {
    to: Option<String>,
}

/// What is wrong, if something is.
enum Said {
    Nothing,
    Refused(&'static str),
    Busy,
}

/// The page; a browser that is signed in goes on.
pub(super) async fn show(
    context: RequestContext,
    browser: Result<Browser, Problem>,
    Query(next): Query<Next>,
) -> Response {
    let to = target(&context, next.to);
    if browser.is_ok() { see_other(&to) } else { page(&context, &to, &Said::Nothing).await }
}

/// Takes the name and the password.
pub(super) async fn submit(mut form: OpenForm) -> Result<Response, Problem> {
    let to = form.target()?;
    let (user, password) = (form.text("name")?, Secret::new(form.text("password")?));
    let OpenForm { context, headers, .. } = form;
    let (connection, shared) = (&context.connection, context.shared());
    let peer = connection.as_peer(shared, context.site);
    let mut attempt = connection.attempt(shared, peer.clone()).await;
    let checking = connection.checking();
    let verdict = attempt.password(&user, &password).await;
    drop(checking);
    if let Verdict::Partial { next } = &verdict
        && next.contains(&AuthMethod::Totp)
    {
        // What it has proved waits for the code, which may come on another connection.
        let begun: Attempt = std::mem::replace(&mut *attempt, shared.gate().attempt(peer));
        drop(attempt);
        let (site, address) = (context.site, context.peer().ip());
        let pending = PendingSignIn { attempt: begun, user, site, address };
        return Ok(code_page(&context, &to, pending, &Said::Nothing));
    }
    drop(attempt);
    match verdict {
        Verdict::Granted(grant) => signed_in(&context, &headers, &grant, &to).await,
        Verdict::Partial { .. } => Ok(page(&context, &to, &Said::Refused(NO_WAY)).await),
        Verdict::Busy => Ok(page(&context, &to, &Said::Busy).await),
        Verdict::Refused { end, .. } => {
            if end {
                connection.end_after_refusals();
            }
            Ok(page(&context, &to, &Said::Refused(WRONG)).await)
        }
    }
}

/// Takes the code of an account that asks for one.
pub(super) async fn submit_code(mut form: OpenForm) -> Result<Response, Problem> {
    let to = form.target()?;
    let (word, code) = (form.text("step")?, Secret::new(form.text("code")?.trim()));
    let OpenForm { context, headers, .. } = form;
    let (site, address) = (context.site, context.peer().ip());
    let Some(mut pending) = context.shared.pending.take(&word, site, address) else {
        return Ok(page(&context, &to, &Said::Refused(BEGIN_AGAIN)).await);
    };
    let checking = context.connection.checking();
    let verdict = pending.attempt.code(&pending.user, &code).await;
    drop(checking);
    match verdict {
        Verdict::Granted(grant) => signed_in(&context, &headers, &grant, &to).await,
        Verdict::Partial { .. } => Ok(page(&context, &to, &Said::Refused(NO_WAY)).await),
        Verdict::Busy => Ok(code_page(&context, &to, pending, &Said::Busy)),
        Verdict::Refused { end: true, .. } => {
            context.connection.end_after_refusals();
            Ok(page(&context, &to, &Said::Refused(BEGIN_AGAIN)).await)
        }
        Verdict::Refused { .. } => {
            Ok(code_page(&context, &to, pending, &Said::Refused(WRONG_CODE)))
        }
    }
}

/// Gives the browser its cookie and sends it on.
pub(super) async fn signed_in(
    context: &RequestContext,
    headers: &HeaderMap,
    grant: &Grant,
    to: &str,
) -> Result<Response, Problem> {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let opened = context.shared().gate().open_sign_in(grant, agent).await?;
    let mut response = see_other(to);
    if let Some(cookie) = set_cookie(&context.connection, &opened.cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// The page once more, with what was wrong.
pub(super) async fn refused(context: &RequestContext, to: &str, why: &'static str) -> Response {
    let said = if why == BUSY { Said::Busy } else { Said::Refused(why) };
    page(context, to, &said).await
}

async fn page(context: &RequestContext, to: &str, said: &Said) -> Response {
    let mut page = Page::new("Sign in");
    let status = say(&mut page, said);
    let fields = format!("<input type=\"hidden\" name=\"to\" value=\"{}\">", escape(to));
    let (action, button) = ("/sign-in/passkey", "Sign in with a passkey");
    page.push(&PasskeyForm { action, button, fields: &fields }.html(context));
    page.script(SCRIPT);
    let providers = context.shared().gate().oidc_providers(context.site).await;
    // While the database is away, nobody signs in by one.
    if let Ok(providers) = providers {
        let offered = providers.offered(context.origin.as_ref());
        page.push(&links(&offered, "/sign-in/oidc/", to));
    }
    page.push(&format!(
        "<form class=\"narrow\" method=\"post\" action=\"/sign-in\">\n\
         <input type=\"hidden\" name=\"to\" value=\"{}\">\n\
         <p><label class=\"above\" for=\"name\">Name</label>\
         <input id=\"name\" name=\"name\" autocomplete=\"username\" autocapitalize=\"none\" \
         spellcheck=\"false\" required autofocus></p>\n\
         <p><label class=\"above\" for=\"password\">Password</label>\
         <input id=\"password\" name=\"password\" type=\"password\" \
         autocomplete=\"current-password\" required></p>\n\
         <p><button>Sign in</button></p>\n</form>\n",
        escape(to)
    ));
    answer(page, context, status)
}

/// Asks for the code of an account that has proved the rest.
pub(super) fn ask_code(context: &RequestContext, to: &str, pending: PendingSignIn) -> Response {
    code_page(context, to, pending, &Said::Nothing)
}

fn code_page(context: &RequestContext, to: &str, pending: PendingSignIn, said: &Said) -> Response {
    let mut page = Page::new("Enter a code");
    let status = say(&mut page, said);
    let word = context.shared.pending.keep(pending);
    page.push(&format!(
        "<form class=\"narrow\" method=\"post\" action=\"/sign-in/code\">\n\
         <input type=\"hidden\" name=\"to\" value=\"{}\">\n\
         <input type=\"hidden\" name=\"step\" value=\"{word}\">\n\
         <p><label class=\"above\" for=\"code\">Code of your generator, or a recovery code</label>\
         <input id=\"code\" name=\"code\" autocomplete=\"one-time-code\" autocapitalize=\"none\" \
         spellcheck=\"false\" required autofocus></p>\n\
         <p><button>Sign in</button></p>\n</form>\n\
         <p><a href=\"/sign-in\">Begin again</a></p>\n",
        escape(to)
    ));
    answer(page, context, status)
}

fn say(page: &mut Page, said: &Said) -> StatusCode {
    match said {
        Said::Nothing => StatusCode::OK,
        Said::Refused(why) => {
            page.alert(why);
            StatusCode::UNAUTHORIZED
        }
        Said::Busy => {
            page.alert(BUSY);
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

fn answer(page: Page, context: &RequestContext, status: StatusCode) -> Response {
    let mut response = page.answer(status, context.shared().env());
    if status == StatusCode::UNAUTHORIZED {
        let challenge: HeaderValue = FORM_CHALLENGE;
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}
