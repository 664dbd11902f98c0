//! The passkeys of the account on its page: added, listed, removed. A new one is a dangerous
//! change, for it lets in without a password.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_admin::{OwnPasskeyOrder, PasskeyRow};
use entrepot_auth::{ChallengePurpose, NewPasskey, PasskeyError};
use entrepot_nouns::{Name, PasskeyAlgorithm, Secret, Timestamp};
use serde_json::{Value, json};

use super::page_form::BrowserForm;
use super::passkey_form::{PasskeyForm, ask, form_with, origin};
use crate::answers::see_other;
use crate::api::served::Api;
use crate::files::date;
use crate::html::escape;
use crate::login::{Browser, challenge_cookie};
use crate::problem::Problem;

const PROVE: &str = "<p><a href=\"/prove?to=/account\">Confirm that it is you</a> to add a \
                     passkey.</p>\n";
/// Fields of a new passkey.
const NEW: [&str; 5] =
    ["credential", "client_data", "authenticator_data", "public_key", "algorithm"];

/// The part of the account's page that is about passkeys.
pub(super) fn section(browser: &Browser, passkeys: &[PasskeyRow]) -> String {
    let hidden = browser.signed_in.viewer().hidden();
    let mut html = String::from(
        "<h2>Passkeys</h2>\n<p class=\"muted\">This computer, a phone or a security key signs you \
         in, and asks for its own code, finger or face in place of your password. To add one, the \
         browser needs scripts.</p>\n",
    );
    if !passkeys.is_empty() {
        html.push_str(
            "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">Name</th>\
             <th scope=\"col\">Host</th><th scope=\"col\">Last used</th><th scope=\"col\"></th>\
             </tr></thead>\n<tbody>\n",
        );
        for passkey in passkeys {
            html.push_str(&row(passkey, &hidden));
        }
        html.push_str("</tbody>\n</table></div>\n");
    }
    if browser.context.origin.is_none() || is_elsewhere(browser) {
        return html;
    }
    if browser.sign_in.is_proven {
        let fields = format!(
            "{hidden}\n<p><label class=\"above\" for=\"called\">What you call it</label>\
             <input id=\"called\" name=\"called\" maxlength=\"100\" required></p>"
        );
        let form =
            PasskeyForm { action: "/account/passkeys", button: "Add a passkey", fields: &fields };
        html.push_str(&form_with(&NEW, "/account/passkeys/begin", &form));
    } else {
        html.push_str(PROVE);
    }
    html
}

fn row(passkey: &PasskeyRow, hidden: &str) -> String {
    let shown = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), date);
    let name = escape(passkey.name.as_str());
    format!(
        "<tr><td class=\"n\">{}<br><span class=\"muted\">{name}</span></td><td>{}</td><td>{}</td>\
         <td><form class=\"bare\" method=\"post\" action=\"/account/passkeys/remove\">{hidden}\
         <input type=\"hidden\" name=\"name\" value=\"{name}\">\
         <button class=\"bad\">Remove</button></form></td></tr>\n",
        escape(&passkey.note),
        escape(&passkey.host),
        shown(passkey.used_at)
    )
}

/// A passkey would go on letting in somebody whom the other service lets in no more.
fn is_elsewhere(browser: &Browser) -> bool {
    browser.sign_in.known.grant.is_decided_elsewhere()
}

fn must_be_here(browser: &Browser) -> Result<(), Problem> {
    if !is_elsewhere(browser) {
        return Ok(());
    }
    let why = "another service checks the logins of this account, so it has no passkeys here; add \
               one to your account of that service";
    Err(Problem::new(StatusCode::CONFLICT, "EP1022", why))
}

/// Tells the script what to make.
pub(super) async fn begin(browser: Browser) -> Result<Response, Problem> {
    browser.sign_in.must_be_proven()?;
    must_be_here(&browser)?;
    let host = origin(&browser.context)?;
    let principal = browser.signed_in.principal();
    let gate = browser.context.shared().gate();
    let purpose = ChallengePurpose::Add(principal.id);
    let challenge = gate.challenge(principal.site, purpose).await?;
    let name = principal.account.name.as_str();
    let ways = PasskeyAlgorithm::ALL.map(|it| json!({"type": "public-key", "alg": it.number()}));
    let known = |credential: &str| json!({"type": "public-key", "id": credential});
    let ids = principal.passkeys.iter().map(|passkey| known(&passkey.public.credential));
    let options = json!({
        "rp": {"id": host.host(), "name": "Entrepot"},
        "user": {"id": URL_SAFE_NO_PAD.encode(principal.id.0.as_bytes()), "name": name,
            "displayName": name},
        "pubKeyCredParams": ways,
        "excludeCredentials": ids.collect::<Vec<Value>>(),
        "authenticatorSelection": {"residentKey": "required", "requireResidentKey": true,
            "userVerification": "required"},
        "attestation": "none",
    });
    Ok(ask(&browser.context, &challenge, options))
}

/// Adds the passkey that the script made.
pub(super) async fn create(
    State(api): State<Api>,
    submitted: BrowserForm,
) -> Result<Response, Problem> {
    let BrowserForm { browser, mut form } = submitted;
    browser.sign_in.must_be_proven()?;
    must_be_here(&browser)?;
    let page = origin(&browser.context)?;
    let number = form.text("algorithm")?.parse();
    let new = NewPasskey {
        credential: form.text("credential")?,
        client_data: form.text("client_data")?,
        authenticator_data: form.text("authenticator_data")?,
        public_key: form.text("public_key")?,
        algorithm: number.map_err(|_| Problem::malformed("'algorithm' is no number"))?,
    };
    let nothing = || Secret::new(b"");
    let cookie = challenge_cookie(&form.headers, &browser.context.connection);
    let cookie = cookie.unwrap_or_else(nothing);
    let principal = browser.signed_in.principal();
    let gate = browser.context.shared().gate();
    let public = gate.new_passkey(&principal, &cookie, &page, &new).await.map_err(refused)?;
    let note = form.text("called")?;
    api.admin.add_own_passkey(&principal, OwnPasskeyOrder { public, note }).await?;
    Ok(see_other("/account"))
}

fn refused(error: PasskeyError) -> Problem {
    match error {
        PasskeyError::Refused(why) => {
            let why = format!("the passkey was not added: {why}");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "EP1021", why)
        }
        PasskeyError::Later(error) => Problem::from(error),
    }
}

/// Removes a passkey.
pub(super) async fn remove(
    State(api): State<Api>,
    submitted: BrowserForm,
) -> Result<Response, Problem> {
    let BrowserForm { browser, mut form } = submitted;
    let name: Result<Name, _> = form.text("name")?.parse();
    let name = name.map_err(|_| Problem::malformed("'name' is no name of a passkey"))?;
    api.admin.remove_own_passkey(&browser.signed_in.principal(), name).await?;
    Ok(see_other("/account"))
}
