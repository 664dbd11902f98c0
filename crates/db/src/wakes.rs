//! What lets jobs go on that rest, in the transaction of what they rest for.

use entrepot_nouns::{BehindFailed, JobId, Timestamp};

use crate::sql::{Sql, Value, sql, statements};
use crate::waits::EventRest;

/// Jobs of the same order as the row of `jobs` that are left, and that it has to wait for: those
/// that have failed only if `$failed`.
macro_rules! others {
    ($failed:literal) => {
        concat!(
            "FROM jobs AS other WHERE other.order_key = jobs.order_key AND other.id <> jobs.id ",
            "AND other.state IN ('ready', 'running', 'failed') AND (other.state <> 'failed' OR ",
            $failed,
            ") ",
        )
    };
}

macro_rules! is_first {
    ($failed:literal) => {
        concat!(
            "(jobs.order_key IS NULL OR NOT EXISTS (SELECT 1 ",
            others!($failed),
            "AND (other.ordered_at, other.event_id) < (jobs.ordered_at, jobs.event_id)) ",
            "AND NOT EXISTS (SELECT 1 ",
            others!($failed),
            "AND other.admitted))",
        )
    };
}

pub(crate) use {is_first, others};

statements! {
    /// The row is looked at whatever its state: on PostgreSQL that waits for whoever is letting the
    /// job rest at this moment, and then sees that it rests.
    WAKE = sql!(
        "UPDATE jobs SET claim_at = CASE WHEN state = 'ready' AND claim_at > $1 AND EXISTS ",
        "(SELECT 1 FROM job_steps WHERE job_steps.job = jobs.id AND job_steps.state = 'begun' ",
        "AND job_steps.address = jobs.address) THEN $1 ELSE claim_at END WHERE id = $2",
    );
    /// Runs behind [`HAND_OVER`], which waits for whoever is waking the job at this moment.
    WAKE_IF_ENDED = sql!(
        "UPDATE jobs SET claim_at = $1 WHERE id = $2 AND state = 'ready' ",
        "AND EXISTS (SELECT 1 FROM jobs AS other WHERE other.id = $3 ",
        "AND other.state IN ('done', 'failed', 'cancelled'))",
    );
    /// As [`WAKE_IF_ENDED`], where whoever answers a question wakes the job.
    WAKE_IF_DECIDED = sql!(
        "UPDATE jobs SET claim_at = $1 WHERE id = $2 AND state = 'ready' ",
        "AND EXISTS (SELECT 1 FROM job_approvals AS asked WHERE asked.job = $3 ",
        "AND asked.address = $4 AND asked.life = $5 AND asked.decided_at IS NOT NULL)",
    );
    /// As [`WAKE_IF_ENDED`], where whoever takes an event over wakes the job.
    WAKE_IF_TOLD = sql!(
        "UPDATE jobs SET claim_at = $1 WHERE id = $2 AND state = 'ready' ",
        "AND EXISTS (SELECT 1 FROM job_waits AS awaited WHERE awaited.job = $3 ",
        "AND awaited.address = $4 AND awaited.life = $5 AND awaited.told <> $6)",
    );
    /// As [`WAKE_IF_ENDED`], of a job that waits for its turn.
    WAKE_IF_FIRST = sql!(
        "UPDATE jobs SET claim_at = $1 WHERE id = $2 AND state = 'ready' AND ",
        is_first!("$3"),
    );
    /// As [`WAKE`], wherever the job is; an admitted one that waits for its next attempt is let be.
    NEXT = sql!(
        "UPDATE jobs SET claim_at = CASE WHEN state = 'ready' AND NOT admitted ",
        "AND claim_at > $1 THEN $1 ELSE claim_at END WHERE id = ",
        "(SELECT other.id FROM jobs AS ended JOIN jobs AS other ",
        "ON other.order_key = ended.order_key WHERE ended.id = $2 AND other.id <> ended.id ",
        "AND other.state IN ('ready', 'running') ",
        "ORDER BY other.ordered_at, other.event_id LIMIT 1)",
    );
}

/// Of a job that rests at a step: that has happened.
pub(crate) fn rested(rests: JobId, now: Timestamp) -> (Sql, Vec<Value>) {
    (WAKE, vec![now.into(), rests.0.into()])
}

/// Of a job that is being laid to rest until another one has ended: it has, by now.
pub(crate) fn if_ended(rests: JobId, now: Timestamp, other: JobId) -> (Sql, Vec<Value>) {
    (WAKE_IF_ENDED, vec![now.into(), rests.0.into(), other.0.into()])
}

/// Of a job that is being laid to rest until a question is decided: it is, by now.
pub(crate) fn if_decided(
    rests: JobId,
    now: Timestamp,
    asked: impl IntoIterator<Item = Value>,
) -> (Sql, Vec<Value>) {
    let mut values = vec![now.into(), rests.0.into()];
    values.extend(asked);
    (WAKE_IF_DECIDED, values)
}

/// Of a job that is being laid to rest until an event comes: one has come since it looked.
pub(crate) fn if_told(rests: JobId, now: Timestamp, rest: &EventRest) -> (Sql, Vec<Value>) {
    let mut values = vec![now.into(), rests.0.into()];
    values.extend(rest.wait.values());
    values.push(rest.told.into());
    (WAKE_IF_TOLD, values)
}

/// Of a job that is being laid to rest until its turn comes: it has come, by now.
pub(crate) fn if_first(rests: JobId, now: Timestamp, failed: BehindFailed) -> (Sql, Vec<Value>) {
    (WAKE_IF_FIRST, vec![now.into(), rests.0.into(), waits_for_failed(failed)])
}

/// Of the job whose turn it is behind one that has ended.
pub(crate) fn next(ended: JobId, now: Timestamp) -> (Sql, Vec<Value>) {
    (NEXT, vec![now.into(), ended.0.into()])
}

/// Whether jobs wait behind one that has failed.
pub(crate) fn waits_for_failed(failed: BehindFailed) -> Value {
    Value::Bool(failed == BehindFailed::Stop)
}
