//! Share links: administrators see all of their site, every other account its own.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{LinkAddress, LinkOrder, LinkRow, Request, Response as Answer};
use entrepot_nouns::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{Fields, Page, change_answer, json_answer, unexpected};
use super::call::{Call, IDEMPOTENCY_KEY};
use super::paging::page;
use crate::problem::Problem;

/// A link that was made, with its addresses.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct MadeLink {
    /// The link, its fields beside its addresses.
    #[serde(flatten)]
    pub(crate) link: LinkRow,
    /// One for everybody, or one for each person: shown here and never again.
    pub(crate) addresses: Vec<LinkAddress>,
}

pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let owner: Option<Name> = call.query.one("owner")?;
    let (after, limit) = (call.query.cursor()?, call.query.limit()?);
    call.query.finish()?;
    let Answer::Links { links } = call.ask(Request::Links { owner }).await? else {
        return Err(unexpected());
    };
    let page = page(links, |row| row.name.to_string(), after, limit)?;
    Page::of(&page.rows, page.next)?.answer(&fields)
}

pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    if call.headers.contains_key(IDEMPOTENCY_KEY) {
        let why = "the answer holds a secret, which is stored nowhere: leave Idempotency-Key out";
        return Err(Problem::malformed(why));
    }
    let link: LinkOrder = call.json()?;
    let request = Request::CreateLink { link: Box::new(link) };
    let Answer::MadeLink { link, addresses } = call.ask(request).await? else {
        return Err(unexpected());
    };
    json_answer(StatusCode::CREATED, &MadeLink { link: *link, addresses })
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let name: Name = call.word()?;
    shown(call.ask(Request::Link { name }).await?)
}

pub(crate) async fn revoke(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let name: Name = call.word()?;
    shown(call.ask(Request::RevokeLink { name }).await?)
}

pub(crate) async fn delete(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::DeleteLink { name: call.word()? }).await?)
}

fn shown(answer: Answer) -> Result<Response, Problem> {
    match answer {
        Answer::Link { link } => json_answer(StatusCode::OK, &link),
        _ => Err(unexpected()),
    }
}
