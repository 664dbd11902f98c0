//! API tokens, passkeys, browsers that are signed in, and recovery codes: what lets accounts in
//! besides their passwords and keys.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{Request, Response as Answer, ShownOnce, TokenOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer::{
    Fields, Page, change_answer, json_answer, noun_answer, noun_fields, unexpected,
};
use super::call::Call;
use super::paging::page;
use crate::problem::Problem;

pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let account = call.query.one("account")?;
    let (after, limit) = (call.query.cursor()?, call.query.limit()?);
    call.query.finish()?;
    let Answer::Tokens { tokens } = call.ask(Request::Tokens { account }).await? else {
        return Err(unexpected());
    };
    let page = page(tokens, |token| token.name.to_string(), after, limit)?;
    Page::of(&page.rows, page.next)?.answer(&fields)
}

/// A token that was made.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct MadeToken {
    /// It is shown here and never again.
    pub(crate) token: ShownOnce,
    /// Its key, as `GET /api/v1/keys/{name}` shows it.
    pub(crate) key: Map<String, Value>,
}

pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let token: TokenOrder = call.json()?;
    match call.ask(Request::CreateToken { token }).await? {
        Answer::Token { token, noun } => {
            let made = MadeToken { token, key: noun_fields(&noun) };
            json_answer(StatusCode::CREATED, &made)
        }
        _ => Err(unexpected()),
    }
}

pub(crate) async fn revoke(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    noun_answer(StatusCode::OK, call.ask(Request::RevokeToken { name: call.word()? }).await?)
}

pub(crate) async fn passkeys(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let account = call.query.one("account")?;
    let (after, limit) = (call.query.cursor()?, call.query.limit()?);
    call.query.finish()?;
    let Answer::Passkeys { passkeys } = call.ask(Request::Passkeys { account }).await? else {
        return Err(unexpected());
    };
    let page = page(passkeys, |passkey| passkey.name.to_string(), after, limit)?;
    Page::of(&page.rows, page.next)?.answer(&fields)
}

pub(crate) async fn remove_passkey(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::RemovePasskey { name: call.word()? }).await?)
}

pub(crate) async fn sign_ins(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let account = call.query.one("account")?;
    let (after, limit) = (call.query.cursor()?, call.query.limit()?);
    call.query.finish()?;
    let Answer::SignIns { sign_ins } = call.ask(Request::SignIns { account }).await? else {
        return Err(unexpected());
    };
    let page = page(sign_ins, |sign_in| sign_in.id.to_string(), after, limit)?;
    Page::of(&page.rows, page.next)?.answer(&fields)
}

pub(crate) async fn end_sign_in(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::EndSignIn { id: call.word()? }).await?)
}

/// Recovery codes that were made.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct MadeCodes {
    /// They are shown here and never again; each is good for one login.
    pub(crate) codes: Vec<ShownOnce>,
}

pub(crate) async fn recovery_codes(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::MakeRecoveryCodes { account: call.word()? }).await? {
        Answer::RecoveryCodes { codes } => json_answer(StatusCode::CREATED, &MadeCodes { codes }),
        _ => Err(unexpected()),
    }
}
