//! What is only read.

use entrepot_db::{Db, EventFilter, JobFilter, RuleDocument, TransferFilter};
use entrepot_nouns::{
    Endpoint, Fact, Job, JobId, JobState, Name, Rule, SiteId, Transfer, TransferId,
};

use crate::cursor::Position;
use crate::error::{AdminError, Result};
use crate::fact_queries::{EventQuery, JobQuery, TransferQuery};
use crate::limits;
use crate::near;
use crate::parts::AdminParts;
use crate::request::{NumberedEvent, Response};
use crate::shown_job::ShownJob;

pub(crate) fn rows(limit: Option<u32>) -> u32 {
    limit.unwrap_or(limits::QUERY_ROWS_DEFAULT).min(limits::QUERY_ROWS)
}

/// Transfers, newest first.
pub(crate) async fn transfers(
    parts: &AdminParts,
    site: SiteId,
    query: TransferQuery,
) -> Result<Response> {
    let filter = transfer_filter(query)?;
    let transfers = parts.db.transfers(site, &filter).await?;
    let last = transfers.last().filter(|_| is_full(transfers.len(), filter.limit));
    let next = last.map(|last| Position::Row { at: last.changed_at, id: last.id.0 }.cursor());
    Ok(Response::Transfers { next: next.transpose()?, transfers })
}

/// The transfer of this id.
pub(crate) async fn transfer(parts: &AdminParts, site: SiteId, id: TransferId) -> Result<Response> {
    let transfer = known_transfer(parts, site, id).await?;
    Ok(Response::Transfer { transfer: Box::new(transfer) })
}

pub(crate) async fn known_transfer(
    parts: &AdminParts,
    site: SiteId,
    id: TransferId,
) -> Result<Transfer> {
    let transfer = parts.db.transfer(site, id).await?;
    transfer.ok_or_else(|| missing("transfer", id.to_string()))
}

/// Jobs, newest first.
pub(crate) async fn jobs(parts: &AdminParts, site: SiteId, query: JobQuery) -> Result<Response> {
    let JobQuery { state, rule, after, limit } = query;
    let after = after.as_ref().map(Position::row).transpose()?;
    let filter = JobFilter { state, rule, after, limit: rows(limit) };
    let jobs = parts.db.jobs(site, &filter).await?;
    let last = jobs.last().filter(|_| is_full(jobs.len(), filter.limit));
    let next = last.map(|last| Position::Row { at: last.created_at, id: last.id.0 }.cursor());
    Ok(Response::Jobs { next: next.transpose()?, jobs })
}

/// A page that holds as many rows as it may: another one may follow.
pub(crate) fn is_full(rows: usize, limit: u32) -> bool {
    rows > 0 && rows >= limit as usize
}

/// Ids are not like each other.
fn missing(what: &'static str, id: String) -> AdminError {
    AdminError::NotFound { what, name: id, hint: String::new() }
}

fn transfer_filter(query: TransferQuery) -> Result<TransferFilter> {
    Ok(TransferFilter {
        account: query.account,
        state: query.state,
        direction: query.direction,
        path_contains: query.path,
        since: query.since,
        after: query.after.as_ref().map(Position::row).transpose()?,
        limit: rows(query.limit),
    })
}

/// A page of the newest events, or of those after a sequence number; in both cases oldest first.
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
        before_sequence: query.before,
        newest_first,
        limit: rows(query.limit),
    };
    let page = parts.db.event_page(site, &filter).await?;
    let mut events: Vec<NumberedEvent> = page
        .rows
        .into_iter()
        .map(|row| NumberedEvent { sequence: row.sequence, event: row.event })
        .collect();
    if newest_first {
        events.reverse();
    }
    Ok(Response::Events { events, next: page.next })
}

/// One job, with the event that started it.
pub(crate) async fn job(parts: &AdminParts, site: SiteId, id: JobId) -> Result<Job> {
    let job = parts.db.job(site, id).await?;
    job.ok_or_else(|| missing("job", id.to_string()))
}

/// The answer to `Job`.
pub(crate) async fn shown_job(parts: &AdminParts, site: SiteId, id: JobId) -> Result<Response> {
    let job = job(parts, site, id).await?;
    let steps = parts.db.job_steps(id).await?;
    let approvals = parts.db.approvals_of_job(id).await?;
    let behind = job_ahead(parts, &job).await?;
    let (rule_paused, endpoint_paused) = what_is_paused(&parts.db, &job).await?;
    let shown = ShownJob { job, steps, approvals, behind, rule_paused, endpoint_paused };
    Ok(Response::Job { job: Box::new(shown) })
}

/// Whether a job waits until somebody resumes its rule, and the endpoint that it waits for because
/// that is paused.
pub(crate) async fn what_is_paused(db: &Db, job: &Job) -> Result<(bool, Option<Name>)> {
    if job.state != JobState::Ready {
        return Ok((false, None));
    }
    let rule = db.find::<Rule>(job.site, &job.rule).await?;
    let is_rule = rule.is_some_and(|rule| rule.noun.paused);
    let Some(name) = &job.lane.endpoint else { return Ok((is_rule, None)) };
    let endpoint = db.find::<Endpoint>(job.site, name).await?;
    Ok((is_rule, endpoint.filter(|found| found.noun.paused).map(|_| name.clone())))
}

/// The job that has to end before one that waits for its turn.
async fn job_ahead(parts: &AdminParts, job: &Job) -> Result<Option<JobId>> {
    if job.order.is_none() {
        return Ok(None);
    }
    let document = match &job.rule_version {
        Some(version) => parts.db.rule_document(job.site, version).await?,
        None => None,
    };
    let rule = document.and_then(|document| RuleDocument::read(&document).ok());
    let order = rule.and_then(|rule| rule.order);
    let failed = order.map(|order| order.failed).unwrap_or_default();
    Ok(parts.db.job_ahead(job.site, job.id, failed).await?)
}
