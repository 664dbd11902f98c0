//! Identifiers that follow from what they are for, so that doing a thing twice names it once.

use entrepot_crypto::derived_id as derived;
use entrepot_db::{As2QueuedReceipt, Decision};
use entrepot_nouns::event::As2Receipt;
use entrepot_nouns::watch::WatchChange;
use entrepot_nouns::{
    EventId, Expect, Job, JobId, NodeId, ReplayId, SiteId, StepAddress, Timestamp, TransferId,
};
use uuid::Uuid;

/// The one job that this event makes of this rule.
pub(crate) fn job(event: EventId, rule: Uuid) -> JobId {
    JobId(derived("job", &[event.0.as_bytes(), rule.as_bytes()]))
}

/// The one job that this event makes of this rule in a replay.
pub(crate) fn replayed(event: EventId, rule: Uuid, replay: ReplayId) -> JobId {
    JobId(derived("replayed", &[event.0.as_bytes(), rule.as_bytes(), replay.0.as_bytes()]))
}

/// What the jobs of a rule have in common that run one after the other. Of a fixed length, however
/// long the value is.
pub(crate) fn order(site: SiteId, rule: Uuid, value: &str) -> String {
    let parts: [&[u8]; 3] = [site.0.as_bytes(), rule.as_bytes(), value.as_bytes()];
    derived("order", &parts).simple().to_string()
}

/// The event of one instant of the schedule of a rule, the same whichever node makes it.
pub(crate) fn planned(rule: Uuid, instant: Timestamp) -> EventId {
    EventId(derived("planned", &[rule.as_bytes(), &instant.micros().to_le_bytes()]))
}

/// What a rule expects and when, but for how many files and when it warns: numbers that are counted
/// under one of these are none of another.
pub(crate) fn terms(rule: Uuid, expect: &Expect) -> Uuid {
    let terms = Expect { count: 1, warn: None, ..expect.clone() };
    // It always has a JSON form; without one, all terms of a rule would be the same.
    let terms = serde_json::to_vec(&terms).unwrap_or_default();
    derived("terms", &[rule.as_bytes(), &terms])
}

/// The event of what is decided about a window of a rule, the same whichever node makes it.
pub(crate) fn expected(rule: Uuid, begins: Timestamp, decision: Decision) -> EventId {
    let what = match decision {
        Decision::Soon => "expected soon",
        Decision::Met => "expected met",
        Decision::Missed => "expected missed",
        Decision::Late => "expected late",
        Decision::Extra => "expected extra",
    };
    EventId(derived(what, &[rule.as_bytes(), &begins.micros().to_le_bytes()]))
}

/// A version of a file in a watched folder.
pub(crate) struct WatchedVersion<'a> {
    pub(crate) rule: Uuid,
    /// The endpoint and the folder.
    pub(crate) place: &'a str,
    /// Below the folder.
    pub(crate) path: &'a str,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
    /// How often the file was to be found anew.
    pub(crate) round: u32,
    pub(crate) change: WatchChange,
}

/// The event that such a version was found, the same whichever node finds it.
pub(crate) fn found(version: &WatchedVersion<'_>) -> EventId {
    let parts: [&[u8]; 6] = [
        version.rule.as_bytes(),
        version.place.as_bytes(),
        version.path.as_bytes(),
        &version.size.to_le_bytes(),
        &version.modified.micros().to_le_bytes(),
        &version.round.to_le_bytes(),
    ];
    // The id tells versions apart: whether there was another one before is no part of it.
    let what = if version.change == WatchChange::Removed { "removed" } else { "found" };
    EventId(derived(what, &parts))
}

/// Tells the steps of one job apart, and is the same on every attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepKey(Vec<u8>);

impl StepKey {
    /// Of the step at this address.
    pub(crate) fn at(address: &StepAddress) -> StepKey {
        StepKey(address.0.as_bytes().to_vec())
    }

    /// Of a step of a job of a program that numbered them.
    pub(crate) fn numbered(number: u32) -> StepKey {
        StepKey(number.to_le_bytes().to_vec())
    }
}

/// The transfer of one deliver step of a job, the same on every attempt.
pub(crate) fn delivery(job: JobId, step: &StepKey) -> TransferId {
    TransferId(derived("delivery", &[job.0.as_bytes(), &step.0]))
}

/// The name under which the lease of `epoch` of a job stages that delivery, in the era of its
/// present lease. Each lease has its own: who lost it and does not know yet must not publish, or
/// discard, what the next holder is writing; nor may who had the same epoch before the database
/// fell back.
pub(crate) fn staging(job: &Job, step: &StepKey, epoch: i64) -> TransferId {
    let era = job.holder.as_ref().map_or("", |holder| &holder.era);
    let (id, epoch) = (job.id.0, epoch.to_le_bytes());
    let parts: [&[u8]; 4] = [id.as_bytes(), &step.0, &epoch, era.as_bytes()];
    TransferId(derived("staging", &parts))
}

/// The file that a step made under one lease of a job, for later steps.
pub(crate) fn work_file(job: JobId, step: &StepAddress, epoch: i64) -> Uuid {
    derived("work", &[job.0.as_bytes(), step.0.as_bytes(), &epoch.to_le_bytes()])
}

/// By what a receiver knows what one step of a job sends, the same on every attempt.
pub(crate) fn sent_by_step(job: JobId, step: &StepKey) -> Uuid {
    derived("sent", &[job.0.as_bytes(), &step.0])
}

/// The event that one step of a job brings about, told at most once.
pub(crate) fn told_by_step(job: JobId, what: &str, step: &StepKey) -> EventId {
    EventId(derived(what, &[job.0.as_bytes(), &step.0]))
}

/// The event that a partner has refused a message of AS2 by this receipt.
pub(crate) fn rejected(job: JobId, message_id: &str, receipt: &As2Receipt) -> EventId {
    let parts: [&[u8]; 3] = [job.0.as_bytes(), message_id.as_bytes(), receipt.body.as_bytes()];
    EventId(derived("as2-rejected", &parts))
}

/// The event that a receipt of AS2 has left, or never will, since its message came then; told at
/// most once.
pub(crate) fn of_receipt(receipt: &As2QueuedReceipt, what: &str) -> EventId {
    let since = receipt.since.micros().to_le_bytes();
    EventId(derived(what, &[receipt.receipt.message_id.as_bytes(), &since]))
}

/// The event of an attempt of a job, or of its end, told at most once.
pub(crate) fn told(job: JobId, what: &str, number: u32) -> EventId {
    EventId(derived(what, &[job.0.as_bytes(), &number.to_le_bytes()]))
}

/// The event that says why this event did not start this rule.
pub(crate) fn not_started(event: EventId, rule: Uuid) -> EventId {
    EventId(derived("not-started", &[event.0.as_bytes(), rule.as_bytes()]))
}

/// The event that a key ends in so many days, the same whichever node sees it first.
pub(crate) fn expiring(key: Uuid, not_after: Timestamp, days: u32) -> EventId {
    let (end, days) = (not_after.micros().to_le_bytes(), days.to_le_bytes());
    EventId(derived("expiring", &[key.as_bytes(), &end, &days]))
}

/// The event that stands for a record of the journal which cannot be read.
pub(crate) fn unreadable(node: NodeId, sequence: u64) -> EventId {
    EventId(derived("unreadable", &[node.0.as_bytes(), &sequence.to_le_bytes()]))
}
