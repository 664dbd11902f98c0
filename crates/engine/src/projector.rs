//! The journal into the database: every record once, in order, in batches of one transaction
//! each, with the jobs of the rules that its events start. The journal is released only behind
//! a commit, and the position to restart from is the one that was committed with the batch.

use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{DbError, Projection};
use entrepot_journal::{JournalError, Reader, Record, RecordKind};
use entrepot_nouns::{Event, Fact, Job, Name, SiteId, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::Shared;
use crate::backoff::Away;
use crate::ids;
use crate::limits::{BATCH_BYTES, BATCH_ENOUGH, BATCH_LINGER, BATCH_RECORDS, POISON_ATTEMPTS};
use crate::meters::Meters;
use crate::rules::Rules;

/// Projects until `cancel`, then what is durable at that moment.
pub(crate) async fn run(shared: Arc<Shared>, cancel: CancellationToken) {
    let mut projector = Projector { shared, rules: Arc::new(Rules::none()), cancel };
    let Some(mut position) = projector.start_position().await else { return };
    let journal = projector.shared.recorder.journal().clone();
    if let Err(error) = journal.skip_past(position).await {
        let error = error.to_string();
        projector.stalled("EP0801", "the journal cannot go on where the database is", &error);
    }
    let mut reader = journal.reader(position);
    let mut away = Away::new();
    loop {
        match projector.next(&mut reader).await {
            Ok(records) if records.is_empty() => break,
            Ok(records) => {
                away = Away::new();
                match projector.project(records).await {
                    Some(up_to) => position = up_to,
                    None => return,
                }
            }
            Err(error) => {
                let error = error.to_string();
                projector.stalled("EP0801", "the journal cannot be read", &error);
                if !projector.pause(away.next(projector.shared.recorder.env())).await {
                    return;
                }
                reader = journal.reader(position);
            }
        }
    }
    // The engine stops: what is durable now is still projected. `pause` waits no more, so the first
    // obstacle ends this.
    while let Ok(records) = reader.read_now(BATCH_RECORDS) {
        if records.is_empty() || projector.project(records).await.is_none() {
            return;
        }
    }
}

/// A batch ready for the database.
struct Batch {
    up_to: u64,
    events: Vec<(u64, Event)>,
    jobs: Vec<Job>,
}

struct Projector {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
    cancel: CancellationToken,
}

impl Projector {
    /// Where the database is; waits for it. `None`: told to stop.
    async fn start_position(&self) -> Option<u64> {
        let mut away = Away::new();
        let node = self.shared.recorder.node();
        loop {
            match self.shared.db.projected_up_to(node).await {
                Ok(position) => {
                    self.shared.projected.send_replace(position);
                    return Some(position);
                }
                Err(error) => {
                    self.stalled("EP0801", "the database is away", &error.to_string());
                    let pause = away.next(self.shared.recorder.env());
                    if !self.pause(pause).await {
                        return None;
                    }
                }
            }
        }
    }

    /// The next records, at least one; empty: told to stop.
    async fn next(&self, reader: &mut Reader) -> Result<Vec<Record>, JournalError> {
        let mut records = loop {
            let records = reader.read_now(BATCH_RECORDS)?;
            if !records.is_empty() {
                break records;
            }
            // Numbers that are the journal's own have passed too.
            self.caught_up(reader.position());
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Ok(Vec::new()),
                () = self.shared.nudge.notified() => {}
                records = reader.next_batch(BATCH_RECORDS) => break records?,
            }
        };
        if records.len() < BATCH_ENOUGH && self.pause(BATCH_LINGER).await {
            records.extend(reader.read_now(BATCH_RECORDS.saturating_sub(records.len()))?);
        }
        Ok(records)
    }

    fn caught_up(&self, position: u64) {
        self.shared.projected.send_if_modified(|projected| {
            let ahead = position > *projected;
            *projected = position.max(*projected);
            ahead
        });
    }

    /// Projects `records`, and waits for the database where it must. `None`: the engine stopped
    /// meanwhile.
    async fn project(&mut self, records: Vec<Record>) -> Option<u64> {
        let mut last = None;
        for part in by_bytes(records) {
            let batch = self.prepare(part).await?;
            self.shared.meters.set_oldest(batch.events.first().map(|(_, event)| event.at));
            self.commit(&batch).await?;
            self.committed(&batch);
            last = Some(batch.up_to);
        }
        self.shared.meters.set_oldest(None);
        last
    }

    /// Parses and matches. What rules could not be asked is journalled here, once, before the
    /// batch is committed: it is projected like everything else.
    async fn prepare(&mut self, records: Vec<Record>) -> Option<Batch> {
        self.refresh().await?;
        let env = self.shared.recorder.env();
        let node = self.shared.recorder.node();
        let mut batch = Batch { up_to: 0, events: Vec::with_capacity(records.len()), jobs: vec![] };
        let mut refusals = Vec::new();
        for record in records {
            batch.up_to = record.sequence;
            if record.kind != RecordKind::Event {
                continue;
            }
            let event = match serde_json::from_slice::<Event>(&record.payload) {
                Ok(event) => event,
                Err(error) => {
                    Meters::add(&self.shared.meters.poison, 1);
                    stand_in(node, record.sequence, &error.to_string(), env.now())
                }
            };
            let matched = self.rules.matching(&event, env.now(), &self.shared.meters);
            batch.jobs.extend(matched.jobs);
            refusals.extend(matched.refusals);
            batch.events.push((record.sequence, event));
        }
        self.journal_refusals(&refusals).await;
        Some(batch)
    }

    /// Reads the rules as they are now; waits for the database. `None`: the engine stopped
    /// meanwhile.
    async fn refresh(&mut self) -> Option<()> {
        let mut away = Away::new();
        loop {
            match self.rules.clone().refreshed(&self.shared.db).await {
                Ok(rules) => {
                    self.rules = rules;
                    return Some(());
                }
                Err(error) => {
                    self.stalled("EP0801", "the rules cannot be read", &error.to_string());
                    let pause = away.next(self.shared.recorder.env());
                    if !self.pause(pause).await {
                        return None;
                    }
                }
            }
        }
    }

    async fn journal_refusals(&self, refusals: &[Event]) {
        for event in refusals {
            if let Err(error) = self.shared.recorder.seal(event).await {
                let event = event.cause.map(|cause| cause.to_string());
                tracing::error!(code = "EP0803", %error, event, "a refusal was not recorded");
            }
        }
    }

    /// Commits `batch`, again and again while the database is away. `None`: the engine stopped
    /// meanwhile.
    async fn commit(&self, batch: &Batch) -> Option<()> {
        match self.attempt(batch).await? {
            Ok(()) => return Some(()),
            Err(error) => self.stalled("EP0801", "a batch was refused", &error.to_string()),
        }
        // The database answers and does not want this batch: find out which record.
        for (sequence, event) in &batch.events {
            let jobs = batch.jobs.iter().filter(|job| job.event_id == event.id);
            let single = Batch {
                up_to: *sequence,
                events: vec![(*sequence, event.clone())],
                jobs: jobs.cloned().collect(),
            };
            self.commit_single(&single, event).await?;
        }
        let rest = Batch { up_to: batch.up_to, events: Vec::new(), jobs: Vec::new() };
        self.commit_whole(&rest).await
    }

    /// Commits one event. Only if the database keeps refusing it while it takes an empty
    /// projection in between, the event is replaced by one that says so; its record stays in
    /// the journal.
    async fn commit_single(&self, single: &Batch, event: &Event) -> Option<()> {
        let mut away = Away::new();
        let mut refused = 0;
        let before =
            Batch { up_to: single.up_to.saturating_sub(1), events: Vec::new(), jobs: Vec::new() };
        loop {
            let error = match self.attempt(single).await? {
                Ok(()) => return Some(()),
                Err(error) => error.to_string(),
            };
            self.stalled("EP0802", "an event was refused", &error);
            refused = match self.attempt(&before).await? {
                Ok(()) => refused + 1,
                Err(_) => 0,
            };
            if refused >= POISON_ATTEMPTS {
                let env = self.shared.recorder.env();
                let text = format!("event '{}' was refused: {error}", event.id);
                let mut event =
                    stand_in(self.shared.recorder.node(), single.up_to, &text, env.now());
                event.site = single.events.first().map_or(event.site, |(_, event)| event.site);
                let events = vec![(single.up_to, event)];
                let replaced = Batch { up_to: single.up_to, events, jobs: Vec::new() };
                if self.attempt(&replaced).await?.is_ok() {
                    Meters::add(&self.shared.meters.poison, 1);
                    return Some(());
                }
                // So it is not this event: the database takes none.
                refused = 0;
            }
            let pause = away.next(self.shared.recorder.env());
            if !self.pause(pause).await {
                return None;
            }
        }
    }

    /// Commits a batch that nothing can be wrong with.
    async fn commit_whole(&self, batch: &Batch) -> Option<()> {
        let mut away = Away::new();
        loop {
            match self.attempt(batch).await? {
                Ok(()) => return Some(()),
                Err(error) => self.stalled("EP0801", "a batch was refused", &error.to_string()),
            }
            let pause = away.next(self.shared.recorder.env());
            if !self.pause(pause).await {
                return None;
            }
        }
    }

    /// One answer of the database; waits while it is away. `None`: the engine stopped meanwhile.
    async fn attempt(&self, batch: &Batch) -> Option<Result<(), DbError>> {
        let mut away = Away::new();
        let projection = Projection {
            node: self.shared.recorder.node(),
            up_to: batch.up_to,
            events: &batch.events,
            jobs: &batch.jobs,
        };
        loop {
            match self.shared.db.project(&projection).await {
                Err(DbError::Unavailable(error)) => {
                    self.stalled("EP0801", "the database is away", &error.to_string());
                    let pause = away.next(self.shared.recorder.env());
                    if !self.pause(pause).await {
                        return None;
                    }
                }
                answer => return Some(answer),
            }
        }
    }

    fn committed(&self, batch: &Batch) {
        let meters = &self.shared.meters;
        let before = self.shared.projected.send_replace(batch.up_to);
        Meters::add(&meters.batches, 1);
        Meters::add(&meters.records, batch.up_to.saturating_sub(before));
        if !batch.jobs.is_empty() {
            Meters::add(&meters.jobs_made, batch.jobs.len() as u64);
            self.shared.jobs.notify_one();
        }
        if let Err(error) = self.shared.recorder.journal().release(batch.up_to) {
            tracing::error!(code = "EP0801", %error, "the journal was not released");
        }
    }

    fn stalled(&self, code: &str, what: &str, error: &str) {
        Meters::add(&self.shared.meters.stalls, 1);
        tracing::warn!(code, error, "{what}");
    }

    /// Waits; false, and at once, as soon as the engine stops.
    async fn pause(&self, pause: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }
}

/// Parts of at most [`BATCH_BYTES`], each at least one record.
fn by_bytes(records: Vec<Record>) -> Vec<Vec<Record>> {
    let mut parts: Vec<Vec<Record>> = Vec::new();
    let mut bytes = 0usize;
    for record in records {
        bytes = bytes.saturating_add(record.payload.len());
        match parts.last_mut() {
            Some(part) if bytes <= BATCH_BYTES => part.push(record),
            _ => {
                bytes = record.payload.len();
                parts.push(vec![record]);
            }
        }
    }
    parts
}

/// Says in the database that a record of the journal could not be taken over. No rule named
/// `entrepot.journal` needs to exist.
fn stand_in(node: &Name, sequence: u64, error: &str, now: Timestamp) -> Event {
    tracing::error!(code = "EP0802", sequence, error, "a journal record cannot be projected");
    let error = format!(
        "EP0802: record {sequence} of the journal of node '{node}' cannot be projected, it stays \
         in the journal: {error}"
    );
    Event {
        id: ids::unreadable(node, sequence),
        at: now,
        site: SiteId::MAIN,
        node: node.clone(),
        account: None,
        session: None,
        job: None,
        cause: None,
        depth: 0,
        fact: Fact::JobFailed { rule: projector_name(node), attempts: 0, error },
    }
}

/// The name that stands for the projection where a rule is named.
fn projector_name(node: &Name) -> Name {
    "entrepot.journal".parse().unwrap_or_else(|_| node.clone())
}
