//! The API tokens of the account on its page: made, listed, revoked. A new one is a dangerous
//! change, for it lets in without a password.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{OwnTokenOrder, TokenRow, TokenState};
use entrepot_nouns::{AccountType, Name, Timestamp, TokenScope};

use super::page_form::BrowserForm;
use crate::answers::see_other;
use crate::api::served::Api;
use crate::files::date;
use crate::html::escape;
use crate::login::Browser;
use crate::page::Page;
use crate::problem::Problem;

const PROVE: &str = "<p><a href=\"/prove?to=/account\">Confirm that it is you</a> to make an API \
                     token.</p>\n";

/// The part of the account's page that is about tokens.
pub(super) fn section(browser: &Browser, tokens: &[TokenRow]) -> String {
    let hidden = browser.signed_in.viewer().hidden();
    let mut html = String::from(
        "<h2>API tokens</h2>\n<p class=\"muted\">A program shows one in place of name and \
         password: <code>Authorization: Bearer ept_…</code></p>\n",
    );
    if !tokens.is_empty() {
        html.push_str(
            "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">Name</th>\
             <th scope=\"col\">May</th><th scope=\"col\">State</th><th scope=\"col\">Until</th>\
             <th scope=\"col\">Last used</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n",
        );
        for token in tokens {
            html.push_str(&row(token, &hidden));
        }
        html.push_str("</tbody>\n</table></div>\n");
    }
    if browser.sign_in.is_proven {
        html.push_str(&new_token(browser, &hidden));
    } else {
        html.push_str(PROVE);
    }
    html
}

fn row(token: &TokenRow, hidden: &str) -> String {
    let shown = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), date);
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    let name = escape(token.name.as_str());
    let mut html = format!(
        "<tr><td class=\"n\">{name}<br><span class=\"muted\">{}</span></td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>",
        escape(&token.note),
        scopes.join(", "),
        token.state.as_str(),
        shown(token.not_after),
        shown(token.used_at)
    );
    if matches!(token.state, TokenState::Active | TokenState::Pending) {
        // To write into a string cannot fail.
        let _ = write!(
            html,
            "<form class=\"bare\" method=\"post\" action=\"/account/tokens/revoke\">{hidden}\
             <input type=\"hidden\" name=\"name\" value=\"{name}\">\
             <button class=\"bad\">Revoke</button></form>"
        );
    }
    html.push_str("</td></tr>\n");
    html
}

/// The scopes that could mean something for the account.
fn scopes(browser: &Browser) -> impl Iterator<Item = TokenScope> {
    let is_admin = browser.signed_in.principal().account.account_type == AccountType::Admin;
    let of_files = [TokenScope::FilesRead, TokenScope::FilesWrite];
    TokenScope::ALL.into_iter().filter(move |scope| is_admin || of_files.contains(scope))
}

fn new_token(browser: &Browser, hidden: &str) -> String {
    let mut html = format!(
        "<form class=\"narrow\" method=\"post\" action=\"/account/tokens\">{hidden}\n\
         <p><label class=\"above\" for=\"note\">What it is for</label>\
         <input id=\"note\" name=\"note\" maxlength=\"200\" required></p>\n\
         <fieldset><legend>It may</legend>\n"
    );
    for scope in scopes(browser) {
        let _ = writeln!(
            html,
            "<p><label><input type=\"checkbox\" name=\"scope\" value=\"{scope}\"> {scope}</label>\
             </p>"
        );
    }
    html.push_str(
        "</fieldset>\n<p><label class=\"above\" for=\"days\">Days until it ends; empty: as long \
         as your policy allows by default</label>\
         <input id=\"days\" name=\"days\" inputmode=\"numeric\" pattern=\"[0-9]{1,4}\"></p>\n\
         <p><button>Make an API token</button></p>\n</form>\n",
    );
    html
}

/// Makes a token and shows it, once.
pub(super) async fn create(
    State(api): State<Api>,
    submitted: BrowserForm,
) -> Result<Response, Problem> {
    let BrowserForm { browser, mut form } = submitted;
    let env = browser.context.shared().env();
    browser.sign_in.must_be_proven()?;
    let words: Vec<TokenScope> = form
        .all("scope")?
        .iter()
        .map(|word| word.parse())
        .collect::<Result<_, String>>()
        .map_err(Problem::malformed)?;
    let days = form.text("days")?;
    let days: Option<u32> = if days.is_empty() {
        None
    } else {
        let days = days.parse().map_err(|_| Problem::malformed("'days' is no number of days"))?;
        Some(days)
    };
    let order = OwnTokenOrder { scopes: words, days, note: form.text("note")? };
    let token = api.admin.create_own_token(&browser.signed_in.principal(), order).await?;
    let mut page = Page::of("Your API token", browser.signed_in.viewer());
    page.push(&format!(
        "<p role=\"status\">Keep it now: it is shown here and never again.</p>\n\
         <p class=\"secret\" id=\"token\">{}</p>\n<p><a href=\"/account\">Back</a></p>\n",
        escape(token.expose())
    ));
    Ok(page.answer(StatusCode::CREATED, env))
}

/// Revokes a token.
pub(super) async fn revoke(
    State(api): State<Api>,
    submitted: BrowserForm,
) -> Result<Response, Problem> {
    let BrowserForm { browser, mut form } = submitted;
    let name: Result<Name, _> = form.text("name")?.parse();
    let name = name.map_err(|_| Problem::malformed("'name' is no name of a token"))?;
    api.admin.revoke_own_token(&browser.signed_in.principal(), name).await?;
    Ok(see_other("/account"))
}
