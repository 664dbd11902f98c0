//! The open sessions of this node.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{RateOrder, Request, Response as Answer, SessionRow};
use entrepot_nouns::{Name, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{Fields, Page, change_answer, json_answer, unexpected};
use super::call::Call;
use super::paging::page;
use crate::problem::Problem;

pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let account: Option<Name> = call.query.one("account")?;
    let protocol: Option<String> = call.query.one("protocol")?;
    let (after, limit) = (call.query.cursor()?, call.query.limit()?);
    call.query.finish()?;
    let mut sessions = all(&call).await?;
    sessions.retain(|row| {
        let of_account = account.as_ref().is_none_or(|name| row.session.account == *name);
        let of_protocol =
            protocol.as_ref().is_none_or(|word| row.session.protocol.as_str() == word);
        of_account && of_protocol
    });
    let page = page(sessions, |row| row.session.id.to_string(), after, limit)?;
    Page::of(&page.rows, page.next)?.answer(&fields)
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let id: SessionId = call.word()?;
    call.query.finish()?;
    let found = all(&call).await?.into_iter().find(|row| row.session.id == id);
    match found {
        Some(row) => json_answer(StatusCode::OK, &row),
        None => Err(entrepot_admin::AdminError::NoSession { id }.into()),
    }
}

pub(crate) async fn end(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::EndSession { id: call.word()? }).await?)
}

/// Rates of a session or of the node, bytes a second; an unset direction has no limit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimits {
    /// Bytes a second from the client.
    #[serde(default)]
    pub(crate) upload: Option<u64>,
    /// Bytes a second to the client.
    #[serde(default)]
    pub(crate) download: Option<u64>,
}

pub(crate) async fn limit(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let RateLimits { upload, download } = call.json()?;
    let rates = RateOrder::Set { upload, download };
    change_answer(call.ask(Request::LimitSession { id: call.word()?, rates }).await?)
}

pub(crate) async fn unlimit(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let rates = RateOrder::Reset;
    change_answer(call.ask(Request::LimitSession { id: call.word()?, rates }).await?)
}

async fn all(call: &Call) -> Result<Vec<SessionRow>, Problem> {
    match call.ask(Request::Sessions).await? {
        Answer::Sessions { sessions } => Ok(sessions),
        _ => Err(unexpected()),
    }
}
