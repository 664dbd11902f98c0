//! Where a file is: from an event back to the first of its chain, and from there on through jobs to
//! what they brought about.

use std::collections::HashSet;
use std::pin::Pin;

use entrepot_db::{Db, EventFilter, event_paths};
use entrepot_nouns::explanation::{EventName, Remark, RemarkReason};
use entrepot_nouns::trace::{Trace, TraceState, TraceSubject, TracedEvent, TracedJob};
use entrepot_nouns::{
    AdminRight, Direction, Event, EventId, Fact, Job, JobId, JobState, SiteId, Timestamp, Transfer,
    TransferId, TransferState,
};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::explain::is_arrival;
use crate::limits;
use crate::query::what_is_paused;
use crate::request::Response;

/// What was found under the name that was asked for.
enum Found {
    /// The event to begin with.
    Event(Box<Event>),
    /// A job whose event need not be kept any more.
    Job(Box<Job>),
    /// Nothing that makes a chain: what is known all the same.
    Nothing { state: TraceState, summary: String, remarks: Vec<Remark> },
}

impl Admin {
    /// The answer shows jobs besides events, so it needs the right to see them too.
    pub(crate) async fn trace(&self, actor: &Actor, subject: TraceSubject) -> Result<Response> {
        actor.must(AdminRight::See)?;
        let found = match &subject {
            TraceSubject::Path(path) => self.traced_path(actor, path).await?,
            TraceSubject::FileName(name) => self.traced_name(actor, name).await?,
            TraceSubject::Digest(digest) => self.traced_digest(actor, digest).await?,
            TraceSubject::Sequence(sequence) => {
                let event = self.event_of(actor, &EventName::Sequence(*sequence)).await?;
                Found::Event(Box::new(event))
            }
            TraceSubject::Id(_) => self.traced_id(actor, &subject).await?,
        };
        let (event, asked_job) = match found {
            Found::Event(event) => (event, None),
            Found::Job(job) => (Box::new(job.event), Some(job.id)),
            Found::Nothing { state, summary, remarks } => {
                let trace = Trace { state, summary, chain: None, remarks };
                return Ok(Response::Trace { trace: Box::new(trace) });
            }
        };
        let db = &self.parts().db;
        let asked = Asked { event: event.id, job: asked_job };
        let first = first(db, actor.site, *event).await?;
        let mut walk = Walk { db, site: actor.site, asked, seen: HashSet::new(), cut: false };
        let address = address_of(db, actor.site, &first).await?;
        let mut chain = walk.event(first).await?;
        chain.address = address;
        let mut remarks = Vec::new();
        if walk.cut {
            let text = format!(
                "the chain has more than {} events and jobs, of which the rest is left out",
                limits::TRACED_ROWS
            );
            remarks.push(Remark { reason: RemarkReason::NotSearched, text });
        }
        let (state, summary) = summary(&chain);
        let trace = Trace { state, summary, chain: Some(chain), remarks };
        Ok(Response::Trace { trace: Box::new(trace) })
    }

    async fn traced_path(&self, actor: &Actor, path: &str) -> Result<Found> {
        let found = self.events_about(actor, path).await?;
        let arrival = found.events.iter().position(|event| is_arrival(&event.fact));
        let mut events = found.events;
        if !events.is_empty() {
            return Ok(Found::Event(Box::new(events.swap_remove(arrival.unwrap_or_default()))));
        }
        let summary = found.remarks.first().map(|remark| remark.text.clone());
        let summary = summary.unwrap_or_else(|| format!("no file arrived at '{path}'"));
        let remarks = found.remarks.into_iter().skip(1).collect();
        Ok(Found::Nothing { state: TraceState::Unknown, summary, remarks })
    }

    /// The newest arrival of a file of this name, in whatever folder or at whatever endpoint.
    async fn traced_name(&self, actor: &Actor, name: &str) -> Result<Found> {
        let mut filter = EventFilter {
            path_contains: Some(name.to_owned()),
            newest_first: true,
            ..EventFilter::default()
        };
        let mut best: Option<Event> = None;
        for _ in 0..limits::EXPLAIN_PAGES {
            let page = self.parts().db.event_page(actor.site, &filter).await?;
            for row in page.rows {
                let paths = event_paths(&row.event.fact);
                if !paths.iter().any(|path| path.rsplit('/').next() == Some(name)) {
                    continue;
                }
                if is_arrival(&row.event.fact) {
                    return Ok(Found::Event(Box::new(row.event)));
                }
                best.get_or_insert(row.event);
            }
            filter.before_sequence = page.next;
            if page.next.is_none() {
                break;
            }
        }
        // It may have come long before the events that were searched.
        let named = self.parts().db.transfers_named(actor.site, name, limits::TRACED_TRANSFERS);
        if let Some(found) = self.traced_transfer(actor, &named.await?).await? {
            return Ok(found);
        }
        if let Some(event) = best {
            return Ok(Found::Event(Box::new(event)));
        }
        let summary = format!(
            "no event names a file '{name}': it never arrived, or its events are older than those \
             that are searched"
        );
        Ok(Found::Nothing { state: TraceState::Unknown, summary, remarks: Vec::new() })
    }

    /// The newest arrival of a file with this content, or else whatever was done with one.
    async fn traced_digest(&self, actor: &Actor, digest: &[u8; 32]) -> Result<Found> {
        let db = &self.parts().db;
        let found = db.transfers_with_digest(actor.site, digest, limits::TRACED_TRANSFERS).await?;
        if let Some(found) = self.traced_transfer(actor, &found).await? {
            return Ok(found);
        }
        if let Some(transfer) = found.first() {
            return self.traced_id(actor, &TraceSubject::Id(transfer.id.0)).await;
        }
        let summary = "no transfer is of a file with this digest".to_owned();
        Ok(Found::Nothing { state: TraceState::Unknown, summary, remarks: Vec::new() })
    }

    /// What leads to the beginning of a chain among transfers, the newest first: an arrival, or
    /// else what a job did. A file that was only read leads to nothing.
    async fn traced_transfer(
        &self,
        actor: &Actor,
        transfers: &[Transfer],
    ) -> Result<Option<Found>> {
        let arrival = transfers.iter().find(|it| it.direction == Direction::In);
        let Some(best) = arrival.or_else(|| transfers.iter().find(|it| it.job.is_some())) else {
            return Ok(None);
        };
        self.traced_id(actor, &TraceSubject::Id(best.id.0)).await.map(Some)
    }

    /// An id of an event, a transfer or a job.
    async fn traced_id(&self, actor: &Actor, subject: &TraceSubject) -> Result<Found> {
        let TraceSubject::Id(id) = *subject else { return Err(missing(subject)) };
        let (db, site) = (&self.parts().db, actor.site);
        if let Some(row) = db.event(EventId(id)).await?
            && row.event.site == site
        {
            return Ok(Found::Event(Box::new(row.event)));
        }
        if let Some(job) = db.job(site, JobId(id)).await? {
            return Ok(Found::Job(Box::new(job)));
        }
        let transfer = TransferId(id);
        let filter = EventFilter { transfer: Some(transfer), ..EventFilter::default() };
        let mut events = db.events(site, &filter).await?;
        if let Some(row) = events.pop() {
            return Ok(Found::Event(Box::new(row.event)));
        }
        let known = db.transfer(site, transfer).await?.ok_or_else(|| missing(subject))?;
        // What a job fetched is known by the job alone.
        if let Some(job) = known.job
            && let Some(job) = db.job(site, job).await?
        {
            return Ok(Found::Job(Box::new(job)));
        }
        let (state, since) = (known.state.as_str(), known.changed_at);
        let summary = match known.error {
            Some(error) => format!("the transfer of '{}' is {state}: {error}", known.path),
            None => format!("the transfer of '{}' is {state} since {since}", known.path),
        };
        let state = match known.state {
            TransferState::Completed => TraceState::Arrived,
            _ => TraceState::Arriving,
        };
        Ok(Found::Nothing { state, summary, remarks: Vec::new() })
    }
}

fn missing(subject: &TraceSubject) -> AdminError {
    let name = subject.to_string();
    AdminError::NotFound { what: "event, transfer or job", name, hint: String::new() }
}

/// The first event of the chain that `event` stands in, as far as it is kept.
async fn first(db: &Db, site: SiteId, event: Event) -> Result<Event> {
    let mut first = event;
    for _ in 0..limits::TRACED_DEPTH {
        let before = match first.job {
            // Without the job nothing leads back down.
            Some(job) => db.job(site, job).await?.map(|job| job.event),
            None => upload_before(db, site, &first).await?,
        };
        match before.filter(|before| before.site == site && before.id != first.id) {
            Some(before) => first = before,
            None => break,
        }
    }
    Ok(first)
}

/// The upload under a temporary name, of a file to which its client has given the final one.
async fn upload_before(db: &Db, site: SiteId, event: &Event) -> Result<Option<Event>> {
    let Fact::FileRenamed { from, arrival: true, .. } = &event.fact else { return Ok(None) };
    let filter = EventFilter {
        path_contains: Some(from.clone()),
        session: event.session,
        until: Some(event.at),
        newest_first: true,
        ..EventFilter::default()
    };
    let page = db.event_page(site, &filter).await?;
    let is_it = |event: &Event| match &event.fact {
        Fact::FileUploaded { file } | Fact::FileRecovered { file } => file.path == *from,
        _ => false,
    };
    Ok(page.rows.into_iter().map(|row| row.event).find(is_it))
}

/// From where the client of an event came.
async fn address_of(db: &Db, site: SiteId, event: &Event) -> Result<Option<String>> {
    if let Some(command) = event.fact.command() {
        return Ok(Some(command.address.clone()));
    }
    let Some(session) = event.session else { return Ok(None) };
    let filter = EventFilter {
        kinds: vec!["session.opened".to_owned()],
        session: Some(session),
        limit: 1,
        ..EventFilter::default()
    };
    let found = db.events(site, &filter).await?;
    Ok(found.into_iter().find_map(|row| match row.event.fact {
        Fact::SessionOpened { address, .. } => Some(address),
        _ => None,
    }))
}

/// What is marked as asked for.
struct Asked {
    event: EventId,
    job: Option<JobId>,
}

/// The way down from the first event.
struct Walk<'a> {
    db: &'a Db,
    site: SiteId,
    asked: Asked,
    /// The events of the chain so far.
    seen: HashSet<EventId>,
    /// The chain was longer than what is shown.
    cut: bool,
}

impl Walk<'_> {
    fn event(
        &mut self,
        event: Event,
    ) -> Pin<Box<dyn Future<Output = Result<TracedEvent>> + Send + '_>> {
        Box::pin(async move {
            self.seen.insert(event.id);
            let (mut jobs, mut renamed) = (Vec::new(), Vec::new());
            for job in self.db.jobs_of_event(self.site, event.id).await? {
                if self.is_full() {
                    break;
                }
                jobs.push(self.job(job).await?);
            }
            if let Some(rename) = self.rename_of(&event).await? {
                renamed.push(self.event(rename).await?);
            }
            let asked = event.id == self.asked.event && self.asked.job.is_none();
            Ok(TracedEvent { event, asked, address: None, jobs, renamed })
        })
    }

    fn is_full(&mut self) -> bool {
        self.cut = self.cut || self.seen.len() >= limits::TRACED_ROWS;
        self.cut
    }

    async fn job(&mut self, job: Job) -> Result<TracedJob> {
        let steps = self.db.job_steps(job.id).await?;
        let filter = EventFilter { job: Some(job.id), ..EventFilter::default() };
        let mut events = Vec::new();
        for row in self.db.events(self.site, &filter).await? {
            if self.is_full() {
                break;
            }
            if !self.seen.contains(&row.event.id) {
                events.push(self.event(row.event).await?);
            }
        }
        let approval = self.db.approvals_of_job(job.id).await?.into_iter().next();
        let (is_rule, endpoint) = what_is_paused(self.db, &job).await?;
        let paused = is_rule.then(|| "until the rule is resumed, for it is paused".to_owned());
        let paused =
            paused.or(endpoint.map(|name| format!("for endpoint '{name}', which is paused")));
        let waits = approval.map(|asked| asked.waits()).or(paused).or_else(|| waits(&job));
        Ok(TracedJob {
            asked: self.asked.job == Some(job.id),
            waits,
            id: job.id,
            rule: job.rule,
            rule_version: job.rule_version,
            state: job.state,
            at: job.at,
            attempts: job.attempts,
            node: job.node,
            created_at: job.created_at,
            changed_at: job.changed_at,
            error: job.error,
            steps,
            events,
        })
    }

    /// The rename to the final name, of a file that came under a temporary one.
    async fn rename_of(&self, event: &Event) -> Result<Option<Event>> {
        let path = match &event.fact {
            Fact::FileUploaded { file } | Fact::FileRecovered { file } if file.temporary => {
                &file.path
            }
            _ => return Ok(None),
        };
        let filter = EventFilter {
            path_contains: Some(path.clone()),
            kinds: vec!["file.renamed".to_owned()],
            since: Some(event.at),
            ..EventFilter::default()
        };
        let page = self.db.event_page(self.site, &filter).await?;
        let is_it =
            |event: &Event| matches!(&event.fact, Fact::FileRenamed { from, .. } if from == path);
        Ok(page.rows.into_iter().map(|row| row.event).find(is_it))
    }
}

/// What a job waits for.
fn waits(job: &Job) -> Option<String> {
    if job.state != JobState::Ready {
        return None;
    }
    let due = job.due_at;
    Some(match &job.error {
        Some(error) => {
            let next = job.attempts.saturating_add(1);
            format!("for attempt {next}, at {due}, because the last one failed: {error}")
        }
        None => format!("for a worker, since {due}"),
    })
}

/// What the sentence at the end is made of.
#[derive(Default)]
struct Ends<'t> {
    jobs: Vec<&'t TracedJob>,
    /// The last delivery.
    delivered: Option<&'t Event>,
    quarantined: Option<&'t Event>,
}

impl<'t> Ends<'t> {
    fn add(&mut self, traced: &'t TracedEvent) {
        if let Fact::FileDelivered { .. } = &traced.event.fact {
            self.delivered = Some(&traced.event);
        }
        if let Fact::FileQuarantined { .. } = &traced.event.fact {
            self.quarantined = Some(&traced.event);
        }
        for job in &traced.jobs {
            self.jobs.push(job);
            job.events.iter().for_each(|event| self.add(event));
        }
        traced.renamed.iter().for_each(|event| self.add(event));
    }

    fn first(&self, state: JobState) -> Option<&'t TracedJob> {
        self.jobs.iter().copied().find(|job| job.state == state)
    }
}

/// Where the file is, in one sentence.
fn summary(chain: &TracedEvent) -> (TraceState, String) {
    let mut ends = Ends::default();
    ends.add(chain);
    if let Some(job) = ends.first(JobState::Failed) {
        return (TraceState::Failed, failed(job));
    }
    if let Some(job) = ends.first(JobState::Running) {
        let node = job.node.as_ref().map_or("a node", |node| node.as_str());
        let at = job.at.as_ref().map(|at| format!(", at step {at}")).unwrap_or_default();
        let text = format!("rule {} works on it on {node} since {}{at}", job.rule, job.changed_at);
        return (TraceState::Running, text);
    }
    if let Some(job) = ends.first(JobState::Ready) {
        let waits = job.waits.as_deref().unwrap_or("for a worker");
        return (TraceState::Waiting, format!("rule {} waits {waits}", job.rule));
    }
    if let Some(job) = ends.first(JobState::Cancelled) {
        let text = format!("the job {} of rule {} was ended by hand", job.id, job.rule);
        return (TraceState::Cancelled, text);
    }
    if let Some(Event { fact: Fact::FileQuarantined { held, reason }, at, .. }) = ends.quarantined {
        let (path, id) = (&held.file.path, held.file.transfer);
        let text = format!(
            "'{path}' is in quarantine since {at} ({reason}); 'entrepot transfer show {id}' says \
             whether an admin has decided"
        );
        return (TraceState::Waiting, text);
    }
    if let Some(Event { fact: Fact::FileDelivered { file, endpoint, .. }, at, .. }) = ends.delivered
    {
        let text = format!("delivered to '{}' at endpoint '{endpoint}', {at}", file.path);
        return (TraceState::Delivered, text);
    }
    if ends.jobs.is_empty() {
        return arrived(chain);
    }
    let last = ends.jobs.iter().map(|job| job.changed_at).max();
    let at = last.unwrap_or_else(Timestamp::default);
    (TraceState::Done, format!("all rules have done their work, the last one {at}"))
}

fn failed(job: &TracedJob) -> String {
    let error = job.error.as_deref().unwrap_or("nothing is known of why");
    let step = job.steps.iter().rev().find(|step| step.state == entrepot_nouns::StepState::Failed);
    let step = step.map(|step| format!(" at step {}", step.address)).unwrap_or_default();
    format!("rule {} failed{step}, {}, because: {error} (job {})", job.rule, job.changed_at, job.id)
}

/// Of a file that no rule started on.
fn arrived(chain: &TracedEvent) -> (TraceState, String) {
    let Event { fact, at, id, .. } = &chain.event;
    match fact {
        Fact::FileInterrupted { file, kept, reason } => {
            let goes_on = if *kept { "its client may resume it" } else { "what came was dropped" };
            let path = &file.path;
            let text = format!("the upload of '{path}' broke off at {at} ({reason}); {goes_on}");
            (TraceState::Arriving, text)
        }
        Fact::FileUploaded { file } | Fact::FileRecovered { file } if file.temporary => {
            let text = format!(
                "'{}' arrived at {at} under a temporary name, and its client has not given it the \
                 final one",
                file.path
            );
            (TraceState::Arriving, text)
        }
        Fact::FileHeld { held } => {
            let path = &held.file.path;
            let text = format!(
                "'{path}' is whole since {at} and hidden: its mount holds it, and no rule on \
                 'file.held' released it"
            );
            (TraceState::Waiting, text)
        }
        fact => {
            let kind = fact.kind();
            let text =
                format!("'{kind}' of {at} started no rule; 'entrepot rule explain {id}' says why");
            (TraceState::Arrived, text)
        }
    }
}
