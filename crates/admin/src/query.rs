//! What is only read.

use entrepot_db::{EventFilter, JobFilter, TransferFilter};
use entrepot_model::{Fact, Job, JobId, SiteId};

use crate::admin::AdminParts;
use crate::error::{AdminError, Result};
use crate::limits;
use crate::near;
use crate::request::{EventQuery, JobQuery, NumberedEvent, Request, Response, TransferQuery};

fn rows(limit: Option<u32>) -> u32 {
    limit.unwrap_or(limits::QUERY_ROWS_DEFAULT).min(limits::QUERY_ROWS)
}

/// Answers a request that changes nothing and concerns no noun.
pub(crate) async fn answer(parts: &AdminParts, site: SiteId, request: Request) -> Result<Response> {
    match request {
        Request::Transfers { filter } => {
            let transfers = parts.db.transfers(site, &transfer_filter(filter)).await?;
            Ok(Response::Transfers { transfers })
        }
        Request::Transfer { id } => {
            let transfer = parts.db.transfer(site, id).await?;
            let transfer = transfer.ok_or_else(|| missing("transfer", id.to_string()))?;
            Ok(Response::Transfer { transfer: Box::new(transfer) })
        }
        Request::Events { filter } => events(parts, site, filter).await,
        Request::Jobs { filter } => {
            let JobQuery { state, rule, limit } = filter;
            let filter = JobFilter { state, rule, limit: rows(limit) };
            Ok(Response::Jobs { jobs: parts.db.jobs(site, &filter).await? })
        }
        Request::Job { id } => {
            let job = Box::new(job(parts, site, id).await?);
            Ok(Response::Job { job })
        }
        // Those are answered before.
        Request::List { .. }
        | Request::Show { .. }
        | Request::Create { .. }
        | Request::Change { .. }
        | Request::Delete { .. }
        | Request::Plan { .. }
        | Request::Apply { .. }
        | Request::Export { .. }
        | Request::RetryJob { .. }
        | Request::CancelJob { .. } => Err(AdminError::Internal {
            what: "answering",
            problem: "a request for a change came to the wrong place".to_owned(),
        }),
    }
}

/// Ids are not like each other.
fn missing(what: &'static str, id: String) -> AdminError {
    AdminError::NotFound { what, name: id, hint: String::new() }
}

fn transfer_filter(query: TransferQuery) -> TransferFilter {
    TransferFilter {
        account: query.account,
        state: query.state,
        direction: query.direction,
        path_contains: query.path,
        since: query.since,
        limit: rows(query.limit),
    }
}

async fn events(parts: &AdminParts, site: SiteId, query: EventQuery) -> Result<Response> {
    for kind in &query.kinds {
        if !Fact::KINDS.contains(&kind.as_str()) {
            let known = Fact::KINDS.join(", ");
            let hint = near::hint(kind, Fact::KINDS.iter().copied());
            let problem = format!("there is no event '{kind}'{hint}; known: {known}");
            return Err(AdminError::Query { problem });
        }
    }
    let newest_first = query.after.is_none();
    let filter = EventFilter {
        kinds: query.kinds,
        account: query.account,
        path_contains: query.path,
        session: query.session,
        transfer: query.transfer,
        job: query.job,
        since: query.since,
        until: query.until,
        after_sequence: query.after,
        newest_first,
        limit: rows(query.limit),
    };
    let rows = parts.db.events(site, &filter).await?;
    let mut events: Vec<NumberedEvent> = rows
        .into_iter()
        .map(|row| NumberedEvent { sequence: row.sequence, event: row.event })
        .collect();
    if newest_first {
        events.reverse();
    }
    Ok(Response::Events { events })
}

pub(crate) async fn job(parts: &AdminParts, site: SiteId, id: JobId) -> Result<Job> {
    let job = parts.db.job(site, id).await?;
    job.ok_or_else(|| missing("job", id.to_string()))
}
