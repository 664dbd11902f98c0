//! `wait`: lets the job rest. What it decides is recorded with the step, so that a restart, or
//! another node, waits no longer and no shorter; the rest itself is the time from which on the job
//! may be claimed for its next step, and nothing of the node is held meanwhile.
//!
//! A job that waits for an event looks itself whether one has come, in the audit log behind the
//! event that it is about; it is woken when one of that kind does.

use async_trait::async_trait;
use entrepot_db::{CameKind, EventFilter, EventRest, EventRow, RestsFor, WaitKey};
use entrepot_nouns::Timestamp;
use entrepot_nouns::rule::{AwaitedEvent, WaitSpec};
use serde_json::{Value as Json, json};

use super::{Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::limits::AWAITED_BYTES;
use crate::noted::UNTIL;
use crate::pause::Pause;
use crate::rules;
use crate::run::Run;

/// When the job goes on that comes to this step at `now`; `value` gives what an expression gives.
fn instant(
    spec: &WaitSpec,
    now: Timestamp,
    value: impl FnOnce(&str) -> Result<Json, StepError>,
) -> Result<Timestamp, StepError> {
    let Some(expression) = &spec.until else {
        return Ok(spec.period.map_or(now, |period| now.plus(period.duration())));
    };
    let given = value(expression)?;
    let instant = given.as_str().and_then(|text| text.parse().ok());
    instant.ok_or_else(|| {
        let text = format!("'wait.until' gives {given}, which is no point in time");
        StepError::permanent("EP0803", text)
    })
}

/// What a look found.
struct Looked {
    /// The first event that the job waits for.
    found: Option<EventRow>,
    /// The last event that was looked at.
    up_to: i64,
}

/// Looks at the events behind `after` that have been taken over by now.
async fn look(run: &Run<'_>, awaited: &AwaitedEvent, after: i64) -> Result<Looked, StepError> {
    let noted = run.noted.clone().without_file();
    let mut kinds = vec![awaited.kind.clone()];
    if awaited.kind == "file.uploaded" {
        // These count as such where they are arrivals.
        kinds.extend(["file.recovered", "file.renamed"].map(str::to_owned));
    }
    let mut filter = EventFilter { kinds, after_sequence: Some(after), ..EventFilter::default() };
    let mut up_to = after;
    loop {
        let (db, site) = (&run.shared.db, run.job.site);
        let page = run.hold.insist(|| db.event_page(site, &filter)).await?;
        for row in page.rows {
            up_to = row.sequence;
            let is_it = rules::kinds(&row.event.fact).any(|kind| kind == awaited.kind)
                && awaited
                    .condition
                    .as_ref()
                    .is_none_or(|text| run.holds_for(&row.event, text, &noted));
            if is_it {
                return Ok(Looked { found: Some(row), up_to });
            }
        }
        if page.next.is_none() {
            return Ok(Looked { found: None, up_to });
        }
        filter.after_sequence = page.next;
    }
}

async fn wait_for(
    spec: &WaitSpec,
    awaited: &AwaitedEvent,
    run: &mut Run<'_>,
) -> Result<(), StepError> {
    let (job, life) = (run.job.id, run.job.life());
    let key = WaitKey { job, step: run.address()?.clone(), life };
    let (db, site) = (&run.shared.db, run.job.site);
    let came = CameKind { site, kind: awaited.kind.clone() };
    run.hold.fence().await?;
    let wait = run.hold.insist(|| db.wait_for_event(&key, &came, run.job.event_id)).await?;
    run.reached(Pause::Recorded)?;
    let Looked { found, up_to } = look(run, awaited, wait.after).await?;
    if let Some(EventRow { event, .. }) = found {
        let whole = json!(event);
        let told = if whole.to_string().len() <= AWAITED_BYTES {
            whole
        } else {
            json!({"id": event.id, "kind": event.fact.kind(), "at": event.at})
        };
        run.leave("event", told);
        return run.hold.insist(|| db.end_event_wait(&key)).await;
    }
    let now = run.shared.recorder.env().now();
    let within = spec.within();
    let until = run.begun_at().unwrap_or(now).plus(within.duration());
    if now >= until {
        run.hold.insist(|| db.end_event_wait(&key)).await?;
        let which = if awaited.condition.is_some() { " for which 'if' holds" } else { "" };
        let text = format!("no event '{}'{which} came within {within}", awaited.kind);
        return Err(StepError::permanent("EP0881", text));
    }
    if up_to > wait.after {
        run.hold.insist(|| db.looked_for_event(&key, up_to)).await?;
    }
    run.rest(RestsFor::Event(EventRest { wait: key, told: wait.told }), Some(until)).await
}

#[async_trait]
impl Step for WaitSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        if let Some(awaited) = &self.event {
            return wait_for(self, awaited, run).await;
        }
        let now = run.shared.recorder.env().now();
        let until = instant(self, now, |expression| run.value(expression, &run.noted))?;
        run.result = Some(json!({ UNTIL: until }));
        Ok(())
    }
}

#[async_trait]
impl Foresee for WaitSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        if let Some(AwaitedEvent { kind, .. }) = &self.event {
            let what = format!("rests until an event '{kind}' comes, {} at most", self.within());
            return Ok(Foreseen::open(what, "it ends as events come"));
        }
        let now = foresight.event().at;
        let noted = foresight.noted.clone();
        let until = instant(self, now, |expression| foresight.value("until", expression, &noted))?;
        let what = match self.period {
            Some(period) => format!("rests for {period}"),
            None => format!("rests until {until}"),
        };
        let result = Some(json!({ UNTIL: until }));
        Ok(Foreseen { what, result, open: None })
    }
}
