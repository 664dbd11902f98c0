//! Signing in with a passkey, and proving by one who is signed in. A passkey names its account, so
//! nothing is typed.

use axum::http::HeaderMap;
use axum::response::Response;
use entrepot_auth::{ChallengePurpose, PageOrigin, PasskeyAnswer, PasskeyLogin, Verdict};
use entrepot_nouns::Secret;
use serde_json::json;

use super::page_form::{BrowserForm, OpenForm};
use super::passkey_form::{answer, ask, origin};
use super::{prove_page, sign_in_page};
use crate::answers::see_other;
use crate::context::RequestContext;
use crate::login::challenge_cookie;
use crate::problem::Problem;

const WRONG: &str = "The passkey was not taken. It may have been removed, belong to another host, \
                     or have taken too long; try again, or sign in otherwise.";

/// Gives the script a challenge.
pub(super) async fn begin(context: RequestContext) -> Result<Response, Problem> {
    let host = origin(&context)?;
    let gate = context.shared().gate();
    let challenge = gate.challenge(context.site, ChallengePurpose::LogIn).await?;
    let options = json!({"rpId": host.host(), "userVerification": "required"});
    Ok(ask(&context, &challenge, options))
}

/// Takes the answer of a browser that signs in.
pub(super) async fn sign_in(mut form: OpenForm) -> Result<Response, Problem> {
    let (to, page) = (form.target()?, origin(&form.context)?);
    let answer = answer(&mut form)?;
    let OpenForm { context, headers, .. } = form;
    match check(&context, &headers, &page, &answer).await {
        Verdict::Granted(grant) => sign_in_page::signed_in(&context, &headers, &grant, &to).await,
        Verdict::Busy => Ok(sign_in_page::refused(&context, &to, sign_in_page::BUSY).await),
        Verdict::Partial { .. } | Verdict::Refused { .. } => {
            Ok(sign_in_page::refused(&context, &to, WRONG).await)
        }
    }
}

/// Takes the answer of a browser that proves who is signed in.
pub(super) async fn prove(submitted: BrowserForm) -> Result<Response, Problem> {
    let BrowserForm { browser, mut form } = submitted;
    let (to, page) = (form.target()?, origin(&form.context)?);
    let answer = answer(&mut form)?;
    let verdict = check(&browser.context, &form.headers, &page, &answer).await;
    let gate = browser.context.shared().gate();
    if let Verdict::Granted(grant) = verdict
        && gate.prove_sign_in(&browser.sign_in.cookie, &grant).await?
    {
        return Ok(see_other(&to));
    }
    Ok(prove_page::refused(&browser, &to).await)
}

async fn check(
    context: &RequestContext,
    headers: &HeaderMap,
    page: &PageOrigin,
    answer: &PasskeyAnswer,
) -> Verdict {
    let (connection, shared) = (&context.connection, context.shared());
    let nothing = || Secret::new(b"");
    let cookie = challenge_cookie(headers, connection).unwrap_or_else(nothing);
    let peer = connection.as_peer(shared, context.site);
    let mut attempt = connection.attempt(shared, peer).await;
    let checking = connection.checking();
    let verdict = attempt.passkey(&PasskeyLogin { cookie: &cookie, page, answer }).await;
    drop((checking, attempt));
    if matches!(verdict, Verdict::Refused { end: true, .. }) {
        connection.end_after_refusals();
    }
    verdict
}
