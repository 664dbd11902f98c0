//! `/prove`: a browser that is signed in shows its password once more, and a code where the account
//! asks for one, or goes to a provider, before a dangerous change.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use entrepot_auth::Verdict;
use entrepot_nouns::{AuthMethod, Secret};
use serde::Deserialize;

use super::oidc_links::links;
use super::page_form::{BrowserForm, target};
use super::passkey_form::{PasskeyForm, SCRIPT};
use crate::answers::see_other;
use crate::html::escape;
use crate::login::Browser;
use crate::page::Page;
use crate::problem::Problem;

/// Where the browser goes when it has proved who it is.
#[derive(Deserialize)]
pub(super) struct Next {
    to: Option<String>,
}

pub(super) async fn show(browser: Browser, Query(next): Query<Next>) -> Response {
    let to = target(&browser.context, next.to);
    page(&browser, &to, StatusCode::OK).await
}

/// Takes the password, and a code.
pub(super) async fn submit(submitted: BrowserForm) -> Result<Response, Problem> {
    let BrowserForm { browser, mut form } = submitted;
    let to = form.target()?;
    let mut given = vec![(AuthMethod::Password, Secret::new(form.text("password")?))];
    let code = form.text("code")?;
    if !code.is_empty() {
        given.push((AuthMethod::Totp, Secret::new(code.trim())));
    }
    let (context, gate) = (&browser.context, browser.context.shared().gate());
    let connection = &context.connection;
    let user = browser.signed_in.principal().account.name.to_string();
    let peer = connection.as_peer(context.shared(), context.site);
    let mut attempt = connection.attempt(context.shared(), peer).await;
    let checking = connection.checking();
    let verdict = attempt.answers(&user, &given).await;
    drop((checking, attempt));
    match verdict {
        Verdict::Granted(grant) => {
            if gate.prove_sign_in(&browser.sign_in.cookie, &grant).await? {
                return Ok(see_other(&to));
            }
        }
        Verdict::Refused { end: true, .. } => {
            connection.end_after_refusals();
        }
        Verdict::Partial { .. } | Verdict::Busy | Verdict::Refused { .. } => {}
    }
    Ok(refused(&browser, &to).await)
}

/// The page once more, after something that was not right.
pub(super) async fn refused(browser: &Browser, to: &str) -> Response {
    page(browser, to, StatusCode::FORBIDDEN).await
}

async fn page(browser: &Browser, to: &str, status: StatusCode) -> Response {
    let (context, viewer) = (&browser.context, browser.signed_in.viewer());
    let hidden = viewer.hidden();
    let asked = asked(browser).await;
    let mut page = Page::of("Confirm that it is you", viewer);
    if status != StatusCode::OK {
        page.alert("That was not right. Try again.");
    }
    page.push("<p>What comes next can do harm, so we ask once more.</p>\n");
    if !browser.signed_in.principal().passkeys.is_empty() {
        let there = escape(to);
        let fields = format!("{hidden}<input type=\"hidden\" name=\"to\" value=\"{there}\">");
        let (action, button) = ("/prove/passkey", "Confirm with a passkey");
        page.push(&PasskeyForm { action, button, fields: &fields }.html(&browser.context));
        page.script(SCRIPT);
    }
    if browser.signed_in.principal().takes_oidc()
        && let Ok(providers) = context.shared().gate().oidc_providers(context.site).await
    {
        let offered = providers.offered(context.origin.as_ref());
        page.push(&links(&offered, "/prove/oidc/", to));
    }
    page.push(&format!(
        "<form class=\"narrow\" method=\"post\" action=\"/prove\">{hidden}\n\
         <input type=\"hidden\" name=\"to\" value=\"{}\">\n\
         <p><label class=\"above\" for=\"password\">Password</label>\
         <input id=\"password\" name=\"password\" type=\"password\" \
         autocomplete=\"current-password\" required autofocus></p>\n",
        escape(to)
    ));
    if asked.contains(&AuthMethod::Totp) {
        page.push(
            "<p><label class=\"above\" for=\"code\">Code of your generator, or a recovery code\
             </label><input id=\"code\" name=\"code\" autocomplete=\"one-time-code\" required>\
             </p>\n",
        );
    }
    page.push("<p><button>Confirm</button></p>\n</form>\n");
    page.answer(status, browser.context.shared().env())
}

/// What the account is asked for.
async fn asked(browser: &Browser) -> Vec<AuthMethod> {
    let context = &browser.context;
    let peer = context.connection.as_peer(context.shared(), context.site);
    let user = browser.signed_in.principal().account.name.to_string();
    context.shared().gate().attempt(peer).asked(&user).await
}
