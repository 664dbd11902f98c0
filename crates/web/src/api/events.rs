//! The audit log.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{Cursor, EventQuery, Request, Response as Answer};

use super::answer::{Fields, Page, unexpected};
use super::call::Call;
use super::query::{Query, refused};
use crate::problem::Problem;

/// The conditions of a list or stream of events.
pub(crate) fn conditions(query: &mut Query) -> Result<EventQuery, Problem> {
    Ok(EventQuery {
        kinds: query.all("kind")?,
        account: query.one("account")?,
        path: query.one("path")?,
        session: query.one("session")?,
        transfer: query.one("transfer")?,
        job: query.one("job")?,
        ..EventQuery::default()
    })
}

/// The newest first, or with `order=oldest` the oldest.
pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let query = &mut call.query;
    let mut filter = conditions(query)?;
    (filter.since, filter.until) = (query.one("since")?, query.one("until")?);
    let oldest_first = match query.one::<String>("order")?.as_deref() {
        None | Some("newest") => false,
        Some("oldest") => true,
        Some(other) => {
            return Err(refused(format!("'order' is newest or oldest, not '{other}'")));
        }
    };
    let limit = query.limit()?;
    filter.limit = Some(limit);
    let behind = query.cursor()?.map(|cursor| sequence(&cursor)).transpose()?;
    query.finish()?;
    if oldest_first {
        filter.after = behind.or(Some(0));
    } else {
        filter.before = behind;
    }
    let Answer::Events { mut events, next } = call.ask(Request::Events { filter }).await? else {
        return Err(unexpected());
    };
    if !oldest_first {
        events.reverse();
    }
    let next = next.map(|sequence| Cursor::new(sequence.to_string()));
    Page::of(&events, next)?.answer(&fields)
}

fn sequence(cursor: &Cursor) -> Result<i64, Problem> {
    cursor.as_str().parse().map_err(|_| {
        let problem = "the cursor is not of a list of events; begin the list anew, without one";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "EP1110", problem)
    })
}
