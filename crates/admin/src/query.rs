//! What is only read.

use entrepot_db::{EventFilter, JobFilter, TransferFilter};
use entrepot_nouns::{Fact, Job, JobId, Kind, Name, SiteId, TransferId};

use crate::error::{AdminError, Result};
use crate::limits;
use crate::near;
use crate::parts::AdminParts;
use crate::reader;
use crate::request::{EventQuery, JobQuery, NumberedEvent, Response, TransferQuery};
use crate::secrets;

fn rows(limit: Option<u32>) -> u32 {
    limit.unwrap_or(limits::QUERY_ROWS_DEFAULT).min(limits::QUERY_ROWS)
}

/// A page of the nouns of a kind, by name, without their secrets.
pub(crate) async fn nouns(
    parts: &AdminParts,
    site: SiteId,
    kind: Kind,
    after: Option<&Name>,
    limit: Option<u32>,
) -> Result<Response> {
    let limit = limit.unwrap_or(limits::LIST_ROWS_DEFAULT).clamp(1, limits::QUERY_ROWS);
    // One more tells whether there is another page.
    let mut nouns = reader::page(&parts.db, site, kind, after, limit + 1).await?;
    let has_more = nouns.len() > limit as usize;
    nouns.truncate(limit as usize);
    for stored in &mut nouns {
        stored.noun = secrets::redacted(stored.noun.clone());
    }
    let next = nouns.last().filter(|_| has_more).map(|last| last.noun.name().clone());
    Ok(Response::Nouns { nouns, next })
}

/// Transfers, newest first.
pub(crate) async fn transfers(
    parts: &AdminParts,
    site: SiteId,
    query: TransferQuery,
) -> Result<Response> {
    let transfers = parts.db.transfers(site, &transfer_filter(query)).await?;
    Ok(Response::Transfers { transfers })
}

/// The transfer of this id.
pub(crate) async fn transfer(parts: &AdminParts, site: SiteId, id: TransferId) -> Result<Response> {
    let transfer = parts.db.transfer(site, id).await?;
    let transfer = transfer.ok_or_else(|| missing("transfer", id.to_string()))?;
    Ok(Response::Transfer { transfer: Box::new(transfer) })
}

/// Jobs, newest first.
pub(crate) async fn jobs(parts: &AdminParts, site: SiteId, query: JobQuery) -> Result<Response> {
    let JobQuery { state, rule, limit } = query;
    let filter = JobFilter { state, rule, limit: rows(limit) };
    Ok(Response::Jobs { jobs: parts.db.jobs(site, &filter).await? })
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

/// The newest events, or those after a sequence number; in both cases oldest first.
pub(crate) async fn events(
    parts: &AdminParts,
    site: SiteId,
    query: EventQuery,
) -> Result<Response> {
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

/// One job, with the event that started it.
pub(crate) async fn job(parts: &AdminParts, site: SiteId, id: JobId) -> Result<Job> {
    let job = parts.db.job(site, id).await?;
    job.ok_or_else(|| missing("job", id.to_string()))
}
