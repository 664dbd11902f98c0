//! Answers of the API.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use entrepot_admin::{Cursor, Response as Answer, shown_body};
use entrepot_nouns::{AnyNoun, NounVersion, Stored};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::query::Query;
use crate::problem::Problem;

/// Fields of a noun in an answer that belong to its row: they are ignored in a request.
pub(crate) const ROW_FIELDS: [&str; 5] = ["id", "site_id", "revision", "changed_at", "warnings"];

/// A JSON answer.
pub(crate) fn json_answer(status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_vec(body).map_err(|error| {
        let problem = format!("an answer has no JSON form ({error}); please report this");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "EP0113", problem)
    })?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// An answer without a body.
pub(crate) fn done() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The administration has answered something else than what was asked.
pub(crate) fn unexpected() -> Problem {
    let problem = "the administration answered something else; please report this";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "EP0113", problem)
}

/// `204` for what is done, `200` with the changes of a dry run.
pub(crate) fn change_answer(answer: Answer) -> Result<Response, Problem> {
    match answer {
        Answer::Done => Ok(done()),
        Answer::Plan { changes, warnings } => {
            let plan = json!({ "changes": changes, "warnings": warnings });
            json_answer(StatusCode::OK, &plan)
        }
        _ => Err(unexpected()),
    }
}

/// A noun as clients see it: its fields, without secrets, and those of its row.
pub(crate) fn noun_fields(stored: &Stored<AnyNoun>) -> Map<String, Value> {
    let mut fields = shown_body(&stored.noun);
    fields.insert("id".to_owned(), json!(stored.id));
    fields.insert("site_id".to_owned(), json!(stored.site));
    fields.insert("revision".to_owned(), json!(stored.revision));
    fields.insert("changed_at".to_owned(), json!(stored.changed_at));
    fields
}

/// A noun with its version as `ETag`.
pub(crate) fn noun_answer(status: StatusCode, answer: Answer) -> Result<Response, Problem> {
    match answer {
        Answer::Noun { noun, warnings } => {
            let mut fields = noun_fields(&noun);
            if !warnings.is_empty() {
                fields.insert("warnings".to_owned(), json!(warnings));
            }
            let mut response = json_answer(status, &fields)?;
            response.headers_mut().insert(ETAG, entity_tag(noun.version()));
            Ok(response)
        }
        plan @ Answer::Plan { .. } => change_answer(plan),
        _ => Err(unexpected()),
    }
}

/// The client has this version already.
pub(crate) fn not_modified(version: NounVersion) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response.headers_mut().insert(ETAG, entity_tag(version));
    response
}

fn entity_tag(version: NounVersion) -> HeaderValue {
    // The invariant: a version is digits and a dot.
    let tag = HeaderValue::try_from(format!("\"{version}\""));
    tag.unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// A page of a list, with the cursor of the next one.
#[derive(Serialize)]
pub(crate) struct Page {
    pub(crate) items: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<Cursor>,
}

impl Page {
    /// Of these rows.
    pub(crate) fn of(rows: &[impl Serialize], next: Option<Cursor>) -> Result<Page, Problem> {
        let items: Result<Vec<Value>, _> = rows.iter().map(serde_json::to_value).collect();
        Ok(Page { items: items.map_err(|_| unexpected())?, next })
    }

    /// The page, with the fields that the client wants.
    pub(crate) fn answer(mut self, wanted: &Fields) -> Result<Response, Problem> {
        self.items = self.items.into_iter().map(|item| wanted.of(item)).collect();
        json_answer(StatusCode::OK, &self)
    }
}

/// Which fields of each object the client wants; empty: all.
pub(crate) struct Fields(Vec<String>);

impl Fields {
    /// As the query names them: `fields=name,quota.files`.
    pub(crate) fn wanted(query: &mut Query) -> Result<Fields, Problem> {
        let lists: Vec<String> = query.all("fields")?;
        let words = lists.iter().flat_map(|list| list.split(',')).map(str::trim);
        Ok(Fields(words.filter(|word| !word.is_empty()).map(str::to_owned).collect()))
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// The object with the wanted fields only.
    pub(crate) fn of(&self, object: Value) -> Value {
        if self.0.is_empty() {
            return object;
        }
        let mut kept = Value::Object(Map::new());
        for path in &self.0 {
            let found = path.split('.').try_fold(&object, |value, word| value.get(word));
            if let Some(value) = found {
                put(&mut kept, path, value.clone());
            }
        }
        kept
    }
}

fn put(target: &mut Value, path: &str, value: Value) {
    let Value::Object(fields) = target else { return };
    match path.split_once('.') {
        None => drop(fields.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let inner = fields.entry(first).or_insert_with(|| Value::Object(Map::new()));
            put(inner, rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wanted_fields_are_left() {
        let object = json!({"name": "a", "quota": {"files": 1, "bytes": 2}, "note": "x"});
        let of = |text: &str| {
            let mut query = Query::parse(text).unwrap();
            Fields::wanted(&mut query).unwrap().of(object.clone())
        };
        assert_eq!(of(""), object);
        assert_eq!(of("fields=name"), json!({"name": "a"}));
        let some = json!({"quota": {"files": 1}, "note": "x"});
        assert_eq!(of("fields=quota.files,note,absent&fields=name.x"), some);
    }
}
