//! `/account`: where an account is signed in, its passkeys and its API tokens. Signing out, too.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use entrepot_auth::SignInInfo;
use entrepot_nouns::SessionId;

use super::page_form::BrowserForm;
use super::{own_passkeys_page, own_tokens_page, passkey_form};
use crate::answers::see_other;
use crate::api::served::Api;
use crate::files::date;
use crate::html::escape;
use crate::login::{self, Browser, unset_cookie};
use crate::page::Page;
use crate::problem::Problem;

pub(super) async fn show(State(api): State<Api>, browser: Browser) -> Result<Response, Problem> {
    let principal = browser.signed_in.principal();
    let gate = browser.context.shared().gate();
    let name = &principal.account.name;
    let sign_ins = gate.sign_ins(principal.site, Some(name)).await?;
    let tokens = api.admin.own_tokens(&principal).await?;
    let mut page = Page::of("Account", browser.signed_in.viewer());
    page.push(&signed_in_browsers(&browser, &sign_ins));
    let passkeys = api.admin.own_passkeys(&principal).await?;
    page.push(&own_passkeys_page::section(&browser, &passkeys));
    page.script(passkey_form::SCRIPT);
    page.push(&own_tokens_page::section(&browser, &tokens));
    Ok(page.answer(StatusCode::OK, browser.context.shared().env()))
}

fn signed_in_browsers(browser: &Browser, sign_ins: &[SignInInfo]) -> String {
    let hidden = browser.signed_in.viewer().hidden();
    let mut html = String::from(
        "<h2>Signed in</h2>\n<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">Browser\
         </th><th scope=\"col\">Address</th><th scope=\"col\">Since</th>\
         <th scope=\"col\">Last seen</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n",
    );
    for SignInInfo { id, user_agent, address, opened_at, seen_at, .. } in sign_ins {
        let end = if *id == browser.sign_in.known.id {
            "this browser".to_owned()
        } else {
            format!(
                "<form class=\"bare\" method=\"post\" action=\"/account/sign-ins/end\">{hidden}\
                 <input type=\"hidden\" name=\"id\" value=\"{id}\">\
                 <button class=\"quiet\">Sign out</button></form>"
            )
        };
        let (opened, seen) = (date(*opened_at), date(*seen_at));
        // To write into a string cannot fail.
        let _ = writeln!(
            html,
            "<tr><td class=\"n\">{}</td><td>{}</td><td>{opened}</td><td>{seen}</td>\
             <td>{end}</td></tr>",
            escape(user_agent),
            escape(address)
        );
    }
    html.push_str("</tbody>\n</table></div>\n");
    html
}

/// Signs another browser of the same account out.
pub(super) async fn end_sign_in(submitted: BrowserForm) -> Result<Response, Problem> {
    let BrowserForm { browser, mut form } = submitted;
    let id: Result<SessionId, _> = form.text("id")?.parse();
    let id = id.map_err(|_| Problem::malformed("'id' is none of a browser"))?;
    let principal = browser.signed_in.principal();
    let gate = browser.context.shared().gate();
    let own = gate.sign_ins(principal.site, Some(&principal.account.name)).await?;
    if own.iter().any(|sign_in| sign_in.id == id) {
        gate.end_sign_in(principal.site, id, "signed out from another browser").await?;
    }
    Ok(see_other("/account"))
}

/// Signs the browser out.
pub(super) async fn sign_out(submitted: BrowserForm) -> Result<Response, Problem> {
    let browser = submitted.browser;
    login::sign_out(&browser.context, &browser.sign_in).await?;
    let mut response = see_other("/sign-in");
    if let Some(gone) = unset_cookie(&browser.context.connection) {
        response.headers_mut().insert(SET_COOKIE, gone);
    }
    Ok(response)
}
