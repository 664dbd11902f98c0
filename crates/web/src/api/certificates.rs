//! Certificates of listeners that are from authorities (ACME).

use axum::response::Response;
use entrepot_admin::{Request, Response as Answer};

use super::answer::{Fields, Page, change_answer, unexpected};
use super::call::Call;
use super::paging::page;
use crate::problem::Problem;

pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let (after, limit) = (call.query.cursor()?, call.query.limit()?);
    call.query.finish()?;
    let Answer::Certificates { certificates } = call.ask(Request::Certificates).await? else {
        return Err(unexpected());
    };
    let page = page(certificates, |row| row.listener.to_string(), after, limit)?;
    Page::of(&page.rows, page.next)?.answer(&fields)
}

pub(crate) async fn renew(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::RenewCertificate { listener: call.word()? }).await?)
}
