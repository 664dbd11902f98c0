//! The journal into the database: every record once, in order, in batches of one transaction
//! each, with the jobs of the rules that its events start. The journal is released only behind
//! a commit, and the position to restart from is the one that was committed with the batch.
//!
//! Each transaction reads that position first. A database that fell back, at a failover or by a
//! restore, has an older one: then what it misses is read from the journal and its archive again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Arrival, As2QueuedReceipt, CameKind, DbError, Projected, Projection};
use entrepot_journal::{JournalError, Reader, Record, RecordKind, Recorder, Scope};
use entrepot_nouns::{Event, Fact, Job, Name, SiteId};
use tokio_util::sync::CancellationToken;

use crate::backoff::Away;
use crate::ids;
use crate::limits::{
    BATCH_BYTES, BATCH_ENOUGH, BATCH_LINGER, BATCH_RECORDS, CURSOR_POLL, POISON_ATTEMPTS, SETTLE,
};
use crate::loops::{Looping, PathRuns};
use crate::meters::Meters;
use crate::rules::{self, Rules};
use crate::shared::Shared;

/// Projects until `cancel`, then what is durable at that moment.
pub(crate) async fn run(shared: Arc<Shared>, cancel: CancellationToken) {
    if !shared.membership.is_counted(&cancel).await {
        return;
    }
    let (rules, runs) = (Arc::new(Rules::none()), PathRuns::default());
    let mut projector = Projector { shared, rules, runs, cancel, position: 0 };
    if projector.start_position().await.is_none() {
        return;
    }
    let journal = projector.shared.recorder.journal().clone();
    if let Err(error) = journal.skip_past(projector.position).await {
        let error = error.to_string();
        projector.stalled("EP0801", "the journal cannot go on where the database is", &error);
    }
    let mut reader = journal.reader(projector.position);
    let mut away = Away::new();
    loop {
        match projector.next(&mut reader).await {
            Ok(Next::Stop) => break,
            Ok(Next::Records(records)) => {
                away = Away::new();
                match projector.project(records).await {
                    Some(Projected::Kept) => {}
                    Some(Projected::Behind(found)) => {
                        reader = projector.fall_back(found);
                    }
                    None => return,
                }
            }
            Ok(Next::FellBack(found)) => reader = projector.fall_back(found),
            Err(JournalError::Gone { first, .. }) if first > projector.position + 1 => {
                match projector.skip_gap(first).await {
                    Some(next) => reader = next,
                    None => return,
                }
            }
            Err(error) => {
                let error = error.to_string();
                projector.stalled("EP0801", "the journal cannot be read", &error);
                if !projector.pause(away.next(projector.shared.recorder.env())).await {
                    return;
                }
                reader = journal.reader(projector.position);
            }
        }
    }
    // The engine stops: what is durable now is still projected. `pause` waits no more, so the first
    // obstacle ends this.
    while let Ok(records) = reader.read_now(BATCH_RECORDS) {
        if records.is_empty() {
            return;
        }
        match projector.project(records).await {
            Some(Projected::Kept) => {}
            Some(Projected::Behind(found)) => reader = projector.fall_back(found),
            None => return,
        }
    }
}

/// What is to be done.
enum Next {
    /// Records, at least one.
    Records(Vec<Record>),
    /// The database is at this record, and was further.
    FellBack(u64),
    /// The engine stops.
    Stop,
}

/// A batch ready for the database.
struct Batch {
    /// The last record before it.
    after: u64,
    up_to: u64,
    events: Vec<(u64, Event)>,
    /// Their JSON, as the journal has it.
    bodies: Vec<Option<String>>,
    jobs: Vec<Job>,
    /// Files that rules expect.
    arrivals: Vec<Arrival>,
    /// Rules that ran too often.
    looping: Vec<Looping>,
    /// The database had it before it fell back.
    repeated: bool,
}

impl Batch {
    /// Of records that are no events.
    fn empty(after: u64, up_to: u64) -> Batch {
        let (events, jobs, arrivals) = (Vec::new(), Vec::new(), Vec::new());
        let (bodies, looping) = (Vec::new(), Vec::new());
        Batch { after, up_to, events, bodies, jobs, arrivals, looping, repeated: false }
    }
}

struct Projector {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
    runs: PathRuns,
    cancel: CancellationToken,
    /// The last record that is in the database.
    position: u64,
}

impl Projector {
    /// Where the database is; waits for it. `None`: the engine stops.
    async fn start_position(&mut self) -> Option<()> {
        let mut away = Away::new();
        let node = self.shared.recorder.node_id();
        loop {
            match self.shared.db.projected_up_to(node).await {
                Ok(position) => {
                    self.shared.projected.send_replace(position);
                    self.position = position;
                    return Some(());
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

    /// What comes next; waits for it.
    async fn next(&self, reader: &mut Reader) -> Result<Next, JournalError> {
        let behind = self.found_behind();
        tokio::pin!(behind);
        let mut records = loop {
            let records = reader.read_now(BATCH_RECORDS)?;
            if !records.is_empty() {
                break records;
            }
            // Numbers that are the journal's own have passed too.
            self.caught_up(reader.position());
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Ok(Next::Stop),
                () = self.shared.nudge.notified() => {}
                records = reader.next_batch(BATCH_RECORDS) => break records?,
                found = &mut behind => return Ok(Next::FellBack(found)),
            }
        };
        if records.len() < BATCH_ENOUGH && self.pause(BATCH_LINGER).await {
            records.extend(reader.read_now(BATCH_RECORDS.saturating_sub(records.len()))?);
        }
        Ok(Next::Records(records))
    }

    /// Looks now and then whether the database fell back while nothing was recorded.
    async fn found_behind(&self) -> u64 {
        loop {
            tokio::time::sleep(CURSOR_POLL).await;
            // A database that is away has not fallen back yet.
            if let Ok(found) = self.shared.db.projected_up_to(self.shared.recorder.node_id()).await
                && found < self.position
            {
                return found;
            }
        }
    }

    /// Goes back to where the database is: what it misses is read again.
    fn fall_back(&mut self, found: u64) -> Reader {
        let (reached, recorder) = (self.position, &self.shared.recorder);
        tracing::warn!(
            code = "EP0716",
            reached,
            found,
            "the database fell back: the records between are projected again"
        );
        let settled_at = recorder.env().elapsed().saturating_add(SETTLE);
        self.shared.membership.fell_back(reached, settled_at);
        self.position = found;
        self.shared.projected.send_replace(found);
        self.record(Fact::DatabaseFellBack { reached, found });
        recorder.journal().reader(found)
    }

    /// Goes on with the first record that the journal still has: those before it are gone from the
    /// archive, and the database does not have them. `None`: the engine stops.
    async fn skip_gap(&mut self, first: u64) -> Option<Reader> {
        let after = self.position;
        tracing::error!(
            code = "EP0717",
            after,
            until = first,
            "the journal no longer holds records that the database misses"
        );
        let up_to = first.saturating_sub(1);
        let gap = Batch::empty(after, up_to);
        match self.commit_whole(&gap).await? {
            Projected::Kept => self.position = up_to,
            Projected::Behind(found) => return Some(self.fall_back(found)),
        }
        self.record(Fact::DatabaseGap { after, until: first });
        Some(self.shared.recorder.journal().reader(up_to))
    }

    fn record(&self, fact: Fact) {
        if let Err(error) = self.shared.recorder.record(&Scope::site(SiteId::MAIN), fact) {
            tracing::error!(code = "EP0801", %error, "what befell the database is not recorded");
        }
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
    async fn project(&mut self, records: Vec<Record>) -> Option<Projected> {
        let was_projected = |record: &Record| self.shared.membership.was_projected(record.sequence);
        let (repeated, fresh): (Vec<_>, Vec<_>) = records.into_iter().partition(was_projected);
        for part in by_bytes(repeated).into_iter().chain(by_bytes(fresh)) {
            let batch = self.prepare(part).await?;
            self.shared.meters.set_oldest(batch.events.first().map(|(_, event)| event.at));
            if let Projected::Behind(found) = self.commit(&batch).await? {
                return Some(Projected::Behind(found));
            }
            self.position = batch.up_to;
            self.committed(&batch);
            self.pause_rules(&batch.looping).await;
        }
        self.shared.meters.set_oldest(None);
        Some(Projected::Kept)
    }

    /// Parses and matches. What rules could not be asked is journalled here, once, before the
    /// batch is committed: it is projected like everything else.
    async fn prepare(&mut self, records: Vec<Record>) -> Option<Batch> {
        self.refresh().await?;
        let env = self.shared.recorder.env().clone();
        let mut batch = Batch::empty(self.position, self.position);
        let mut refusals = Vec::new();
        for record in records {
            batch.up_to = record.sequence;
            batch.repeated = self.shared.membership.was_projected(record.sequence);
            if record.kind != RecordKind::Event {
                continue;
            }
            let (event, body) = match serde_json::from_slice::<Event>(&record.payload) {
                Ok(event) => (event, String::from_utf8(record.payload).ok()),
                Err(error) => {
                    Meters::add(&self.shared.meters.poison, 1);
                    let error = error.to_string();
                    (stand_in(&self.shared.recorder, record.sequence, &error), None)
                }
            };
            let matched = self.rules.matching(&event, env.now(), &self.shared.meters);
            let repeated = batch.repeated;
            if !repeated {
                self.count_runs(&event, &matched.jobs, &mut batch.looping);
            }
            batch.jobs.extend(matched.jobs.into_iter().map(|job| Job { repeated, ..job }));
            refusals.extend(matched.refusals);
            batch.arrivals.extend(self.rules.arrivals(&event, env.now()));
            batch.events.push((record.sequence, event));
            batch.bodies.push(body);
        }
        self.journal_refusals(&refusals).await;
        Some(batch)
    }

    /// Counts jobs by the path that they are for; `looping` gets the rules of those that are too
    /// many.
    fn count_runs(&mut self, event: &Event, jobs: &[Job], looping: &mut Vec<Looping>) {
        let Some(path) = rules::arrived(event) else { return };
        let now = self.shared.recorder.env().elapsed();
        for job in jobs {
            let Some(limit) = self.rules.loop_limit(job) else { continue };
            let is_told = |it: &Looping| it.site == job.site && it.rule == job.rule;
            if self.runs.count(job, path, now) > limit && !looping.iter().any(is_told) {
                looping.push(Looping::new(job, path, limit, event));
            }
        }
    }

    /// Pauses rules that ran too often. A database that is away now hears of it with their next
    /// job.
    async fn pause_rules(&mut self, looping: &[Looping]) {
        for rule in looping {
            match rule.pause(&self.shared).await {
                // Whoever resumes it has looked, and it may run as often again.
                Ok(_) => self.runs.forget(rule.site, &rule.rule),
                Err(error) => {
                    let rule = rule.rule.as_str();
                    tracing::warn!(code = "EP0801", rule, %error, "a rule is not paused yet");
                }
            }
        }
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
    async fn commit(&self, batch: &Batch) -> Option<Projected> {
        match self.attempt(batch).await? {
            Ok(projected) => return Some(projected),
            Err(error) => self.stalled("EP0801", "a batch was refused", &error.to_string()),
        }
        let (after, repeated) = (batch.after, batch.repeated);
        // The database answers and does not want this batch: find out which record.
        for (sequence, event) in &batch.events {
            let jobs = batch.jobs.iter().filter(|job| job.event_id == event.id);
            let arrivals = batch.arrivals.iter().filter(|come| come.event == event.id);
            let single = Batch {
                after,
                up_to: *sequence,
                events: vec![(*sequence, event.clone())],
                bodies: Vec::new(),
                jobs: jobs.cloned().collect(),
                arrivals: arrivals.cloned().collect(),
                looping: Vec::new(),
                repeated,
            };
            if let Projected::Behind(found) = self.commit_single(&single, event).await? {
                return Some(Projected::Behind(found));
            }
        }
        self.commit_whole(&Batch { repeated, ..Batch::empty(after, batch.up_to) }).await
    }

    /// Commits one event. Only if the database keeps refusing it while it takes an empty
    /// projection in between, the event is replaced by one that says so; its record stays in
    /// the journal.
    async fn commit_single(&self, single: &Batch, event: &Event) -> Option<Projected> {
        let mut away = Away::new();
        let mut refused = 0;
        let (after, repeated) = (single.after, single.repeated);
        let up_to = single.up_to.saturating_sub(1);
        let before = Batch { repeated, ..Batch::empty(after, up_to) };
        loop {
            let error = match self.attempt(single).await? {
                Ok(projected) => return Some(projected),
                Err(error) => error.to_string(),
            };
            self.stalled("EP0802", "an event was refused", &error);
            refused = match self.attempt(&before).await? {
                Ok(_) => refused + 1,
                Err(_) => 0,
            };
            if refused >= POISON_ATTEMPTS {
                let text = format!("event '{}' was refused: {error}", event.id);
                let mut event = stand_in(&self.shared.recorder, single.up_to, &text);
                event.site = single.events.first().map_or(event.site, |(_, event)| event.site);
                let events = vec![(single.up_to, event)];
                let replaced = Batch { events, repeated, ..Batch::empty(after, single.up_to) };
                if let Ok(projected) = self.attempt(&replaced).await? {
                    Meters::add(&self.shared.meters.poison, 1);
                    return Some(projected);
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
    async fn commit_whole(&self, batch: &Batch) -> Option<Projected> {
        let mut away = Away::new();
        loop {
            match self.attempt(batch).await? {
                Ok(projected) => return Some(projected),
                Err(error) => self.stalled("EP0801", "a batch was refused", &error.to_string()),
            }
            let pause = away.next(self.shared.recorder.env());
            if !self.pause(pause).await {
                return None;
            }
        }
    }

    /// One answer of the database; waits while it is away. `None`: the engine stopped meanwhile.
    async fn attempt(&self, batch: &Batch) -> Option<Result<Projected, DbError>> {
        let mut away = Away::new();
        let rules = self.rules.documents(&batch.jobs);
        let came = came(&batch.events);
        let projection = Projection {
            node: self.shared.recorder.node_id(),
            name: self.shared.recorder.node(),
            after: batch.after,
            up_to: batch.up_to,
            events: &batch.events,
            bodies: &batch.bodies,
            jobs: &batch.jobs,
            arrivals: &batch.arrivals,
            rules: &rules,
            came: &came,
            at: self.shared.recorder.env().now(),
            repeated: batch.repeated,
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
        if batch.events.iter().any(|(_, event)| As2QueuedReceipt::of(event).is_some()) {
            self.shared.as2_receipts.notify_one();
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

/// What events count as.
fn came(events: &[(u64, Event)]) -> HashSet<CameKind> {
    let of = |event: &Event| {
        let site = event.site;
        let mut kinds = rules::kinds(&event.fact).map(str::to_owned).collect::<Vec<_>>();
        if let Fact::As2ReceiptReceived { received } = &event.fact {
            kinds.push(rules::receipt_for(&received.message_id));
        }
        kinds.into_iter().map(move |kind| CameKind { site, kind })
    };
    events.iter().flat_map(|(_, event)| of(event)).collect()
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
fn stand_in(recorder: &Recorder, sequence: u64, error: &str) -> Event {
    let node = recorder.node();
    tracing::error!(code = "EP0802", sequence, error, "a journal record cannot be projected");
    let error = format!(
        "EP0802: record {sequence} of the journal of node '{node}' cannot be projected, it stays \
         in the journal: {error}"
    );
    let fact = Fact::JobFailed { rule: projector_name(node), attempts: 0, error };
    let id = ids::unreadable(recorder.node_id(), sequence);
    Event { id, ..recorder.event(&Scope::site(SiteId::MAIN), fact) }
}

/// The name that stands for the projection where a rule is named.
fn projector_name(node: &Name) -> Name {
    "entrepot.journal".parse().unwrap_or_else(|_| node.clone())
}
