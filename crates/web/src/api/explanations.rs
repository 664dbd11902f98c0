//! Why an event started which rules, and which not.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{Request, Response as Answer, RuleQuestion, RuleSubject};

use super::answer::{json_answer, unexpected};
use super::call::Call;
use super::query::refused;
use crate::problem::Problem;

pub(crate) async fn show(mut call: Call) -> Result<Response, Problem> {
    let query = &mut call.query;
    let about = match (query.one("event")?, query.one("path")?) {
        (Some(event), None) => RuleSubject::Event(event),
        (None, Some(path)) => RuleSubject::Path(path),
        _ => return Err(refused("name either an 'event' or a 'path'".to_owned())),
    };
    let question = RuleQuestion { about, rule: query.one("rule")? };
    query.finish()?;
    match call.ask(Request::ExplainRules { question }).await? {
        Answer::Explanation { explanation } => json_answer(StatusCode::OK, &explanation),
        _ => Err(unexpected()),
    }
}
