//! The nodes of the installation.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{Request, Response as Answer};

use super::answer::{Fields, Page, change_answer, json_answer, unexpected};
use super::call::Call;
use super::paging::page;
use crate::problem::Problem;

pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let (after, limit) = (call.query.cursor()?, call.query.limit()?);
    call.query.finish()?;
    let Answer::Nodes { nodes } = call.ask(Request::Nodes).await? else {
        return Err(unexpected());
    };
    let page = page(nodes, |node| node.name.to_string(), after, limit)?;
    Page::of(&page.rows, page.next)?.answer(&fields)
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::Node { name: call.word()? }).await? {
        Answer::Node { node } => json_answer(StatusCode::OK, &node),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn drain(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::DrainNode { name: call.word()? }).await?)
}

pub(crate) async fn set_pools(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let (name, places) = (call.word()?, call.json()?);
    change_answer(call.ask(Request::SetNodePools { name, places }).await?)
}

pub(crate) async fn undrain(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::UndrainNode { name: call.word()? }).await?)
}

pub(crate) async fn remove(mut call: Call) -> Result<Response, Problem> {
    let lost = call.query.flag("lost")?;
    call.query.finish()?;
    change_answer(call.ask(Request::RemoveNode { name: call.word()?, lost }).await?)
}
