//! The nouns of configuration, all in the same way: list, get, create, replace, patch, delete.

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use entrepot_admin::{FieldFilter, Request, Response as Answer, SortOrder};
use entrepot_nouns::{AnyNoun, Kind, Name};
use serde_json::{Map, Value};

use super::answer::{
    Fields, Page, ROW_FIELDS, change_answer, json_answer, not_modified, noun_answer, noun_fields,
    unexpected,
};
use super::call::{Call, typed};
use super::query::refused;
use crate::problem::Problem;

/// The word of a kind in an address.
pub(crate) fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Site => "sites",
        Kind::Policy => "policies",
        Kind::Key => "keys",
        Kind::Endpoint => "endpoints",
        Kind::Account => "accounts",
        Kind::Mount => "mounts",
        Kind::Model => "models",
        Kind::Rule => "rules",
        Kind::Listener => "listeners",
    }
}

pub(crate) async fn list(mut call: Call, kind: Kind) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let filter: Vec<FieldFilter> = call.query.all("filter")?;
    let sort = call.query.one::<String>("sort")?.map(SortOrder);
    let (after, limit) = (call.query.cursor()?, Some(call.query.limit()?));
    call.query.finish()?;
    match call.ask(Request::List { kind, filter, sort, after, limit }).await? {
        Answer::Nouns { nouns, next } => {
            let rows: Vec<Map<String, Value>> = nouns.iter().map(noun_fields).collect();
            Page::of(&rows, next)?.answer(&fields)
        }
        _ => Err(unexpected()),
    }
}

pub(crate) async fn show(mut call: Call, kind: Kind) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    call.query.finish()?;
    let answer = call.ask(Request::Show { kind, name: call.word()? }).await?;
    if let Answer::Noun { noun, .. } = &answer
        && call.has(noun.version())
    {
        return Ok(not_modified(noun.version()));
    }
    if fields.is_all() {
        return noun_answer(StatusCode::OK, answer);
    }
    let Answer::Noun { noun, .. } = answer else { return Err(unexpected()) };
    json_answer(StatusCode::OK, &fields.of(Value::Object(noun_fields(&noun))))
}

pub(crate) async fn create(mut call: Call, kind: Kind) -> Result<Response, Problem> {
    let noun = Box::new(noun(kind, call.json()?)?);
    let address = format!("/api/v1/{}/{}", plural(kind), noun.name());
    let answer = call.change(Request::Create { noun }).await?;
    let is_made = matches!(answer, Answer::Noun { .. });
    let status = if is_made { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = noun_answer(status, answer)?;
    if is_made && let Ok(address) = HeaderValue::try_from(address) {
        response.headers_mut().insert(LOCATION, address);
    }
    Ok(response)
}

pub(crate) async fn replace(mut call: Call, kind: Kind) -> Result<Response, Problem> {
    let name: Name = call.word()?;
    let mut body: Map<String, Value> = call.json()?;
    body.entry("name").or_insert_with(|| Value::from(name.as_str()));
    let noun = Box::new(noun(kind, body)?);
    if *noun.name() != name {
        return Err(refused(format!("the address is of '{name}', the body of '{}'", noun.name())));
    }
    let request = Request::Replace { noun, if_match: call.if_match() };
    let answer = call.change(request).await?;
    noun_answer(StatusCode::OK, answer)
}

pub(crate) async fn patch(mut call: Call, kind: Kind) -> Result<Response, Problem> {
    let (name, mut patch): (Name, Value) = (call.word()?, call.json()?);
    without_row(&mut patch);
    let request = Request::Change { kind, name, patch, if_match: call.if_match() };
    let answer = call.change(request).await?;
    noun_answer(StatusCode::OK, answer)
}

pub(crate) async fn delete(mut call: Call, kind: Kind) -> Result<Response, Problem> {
    let request = Request::Delete { kind, name: call.word()?, if_match: call.if_match() };
    let answer = call.change(request).await?;
    change_answer(answer)
}

/// The noun that a body describes.
fn noun(kind: Kind, body: Map<String, Value>) -> Result<AnyNoun, Problem> {
    let mut body = Value::Object(body);
    without_row(&mut body);
    typed(Value::Object(Map::from_iter([(kind.as_str().to_owned(), body)])))
}

/// What was read may be sent back: fields of the row say nothing in a request.
fn without_row(body: &mut Value) {
    if let Value::Object(fields) = body {
        fields.retain(|name, _| !ROW_FIELDS.contains(&name.as_str()));
    }
}
