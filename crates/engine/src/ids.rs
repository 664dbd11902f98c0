//! Identifiers that follow from what they are for, so that doing a thing twice names it once:
//! BLAKE3 of purpose and parts, in a UUID version 8 (RFC 9562 §5.8).

use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::{EventId, Job, JobId, NodeId, Timestamp, TransferId};
use uuid::Uuid;

fn derived(purpose: &str, parts: &[&[u8]]) -> Uuid {
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    for part in [b"entrepot".as_slice(), purpose.as_bytes()].iter().chain(parts) {
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let hash = digest.finish().blake3.unwrap_or_default();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(hash.split_at(16).0);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The one job that this event makes of this rule.
pub(crate) fn job(event: EventId, rule: Uuid) -> JobId {
    JobId(derived("job", &[event.0.as_bytes(), rule.as_bytes()]))
}

/// The event of one instant of the schedule of a rule, the same whichever node makes it.
pub(crate) fn planned(rule: Uuid, instant: Timestamp) -> EventId {
    EventId(derived("planned", &[rule.as_bytes(), &instant.micros().to_le_bytes()]))
}

/// The transfer of one deliver step of a job, the same on every attempt.
pub(crate) fn delivery(job: JobId, step: u32) -> TransferId {
    TransferId(derived("delivery", &[job.0.as_bytes(), &step.to_le_bytes()]))
}

/// The name under which the lease of `epoch` of a job stages that delivery, in the era of its
/// present lease. Each lease has its own: who lost it and does not know yet must not publish, or
/// discard, what the next holder is writing; nor may who had the same epoch before the database
/// fell back.
pub(crate) fn staging(job: &Job, step: u32, epoch: i64) -> TransferId {
    let era = job.holder.as_ref().map_or("", |holder| &holder.era);
    let (id, step, epoch) = (job.id.0, step.to_le_bytes(), epoch.to_le_bytes());
    let parts: [&[u8]; 4] = [id.as_bytes(), &step, &epoch, era.as_bytes()];
    TransferId(derived("staging", &parts))
}

/// The event of one step of a job, or of its end, told at most once.
pub(crate) fn told(job: JobId, what: &str, number: u32) -> EventId {
    EventId(derived(what, &[job.0.as_bytes(), &number.to_le_bytes()]))
}

/// The event that says why this event did not start this rule.
pub(crate) fn not_started(event: EventId, rule: Uuid) -> EventId {
    EventId(derived("not-started", &[event.0.as_bytes(), rule.as_bytes()]))
}

/// The event that stands for a record of the journal which cannot be read.
pub(crate) fn unreadable(node: NodeId, sequence: u64) -> EventId {
    EventId(derived("unreadable", &[node.0.as_bytes(), &sequence.to_le_bytes()]))
}
