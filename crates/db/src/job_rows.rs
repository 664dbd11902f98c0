//! What a node writes of the jobs that it holds, one statement for all writes of a kind.
//!
//! PostgreSQL counts jobs by a trigger that runs once a statement: one for a hundred jobs costs
//! little more than one for one of them.

use std::collections::HashSet;

use entrepot_nouns::JobId;

use crate::Dialect;
use crate::error::Result;
use crate::moment::era_postgres;
use crate::sql::{Sql, Value, sql};
use crate::tx::Work;

/// An array a column; the last five name the hold.
macro_rules! set {
    ($set:literal, $arrays:literal, $columns:literal, $more:expr) => {
        sql!(
            "UPDATE jobs SET ",
            $set,
            " FROM UNNEST(",
            $arrays,
            ") AS told (",
            $columns,
            ", id, epoch, node_id, incarnation, era) WHERE jobs.id = told.id ",
            "AND jobs.epoch = told.epoch AND jobs.node_id = told.node_id ",
            "AND jobs.incarnation = told.incarnation AND jobs.era = told.era ",
            "AND jobs.state = 'running'",
            $more,
            " RETURNING jobs.id",
        )
    };
}

/// As `EXTEND_POSTGRES` for many jobs.
pub(crate) const EXTEND: Sql = set!(
    "leased_until = told.until, claim_at = told.until",
    "$1::BIGINT[], $2::UUID[], $3::BIGINT[], $4::UUID[], $5::BIGINT[], $6::TEXT[]",
    "until",
    concat!(" AND jobs.era = ", era_postgres!())
);
/// As `ADVANCE` for many jobs.
pub(crate) const ADVANCE: Sql = set!(
    "step = told.step, address = told.address, lane = told.lane",
    "$1::BIGINT[], $2::TEXT[], $3::TEXT[], $4::UUID[], $5::BIGINT[], $6::UUID[], $7::BIGINT[], \
     $8::TEXT[]",
    "step, address, lane",
    ""
);
/// As `END` for many jobs.
pub(crate) const END: Sql = set!(
    "state = told.state, due_at = COALESCE(told.due_at, jobs.due_at), claim_at = told.due_at, \
     error = told.error, changed_at = told.at, node = NULL, leased_until = NULL, \
     address = COALESCE(told.address, jobs.address)",
    "$1::TEXT[], $2::BIGINT[], $3::TEXT[], $4::BIGINT[], $5::TEXT[], $6::UUID[], $7::BIGINT[], \
     $8::UUID[], $9::BIGINT[], $10::TEXT[]",
    "state, due_at, error, at, address",
    ""
);

/// What is written of a job if it is held as the last five values say.
pub(crate) struct HeldWrite {
    pub(crate) job: JobId,
    pub(crate) sql: Sql,
    /// The same for many jobs, where there are many at a time.
    pub(crate) set: Option<Sql>,
    pub(crate) values: Vec<Value>,
}

/// Writes all of them: for each whether the job was held.
pub(crate) async fn write(
    work: &mut Work,
    dialect: Dialect,
    writes: Vec<HeldWrite>,
) -> Result<Vec<bool>> {
    let mut jobs = HashSet::new();
    let are_of_different_jobs = writes.iter().all(|write| jobs.insert(write.job));
    if dialect == Dialect::Postgres && are_of_different_jobs {
        return write_sets(work, writes).await;
    }
    // One statement would make one write of each job.
    let statements = writes.into_iter().map(|write| (write.sql, write.values)).collect();
    Ok(work.many(statements).await?.into_iter().map(|rows| rows > 0).collect())
}

async fn write_sets(work: &mut Work, writes: Vec<HeldWrite>) -> Result<Vec<bool>> {
    let ids: Vec<JobId> = writes.iter().map(|write| write.job).collect();
    let mut sets: Vec<(Sql, usize, Vec<Value>)> = Vec::new();
    let mut others = Vec::new();
    for HeldWrite { job, sql, set, values } in writes {
        let Some(set) = set else {
            others.push((job, (sql, values)));
            continue;
        };
        match sets.iter_mut().find(|(found, ..)| found.text() == set.text()) {
            None => sets.push((set, values.len(), values)),
            Some((.., all)) => all.extend(values),
        }
    }
    let mut held = HashSet::new();
    for (set, width, values) in sets {
        held.extend(work.rows(set, width, values, |row| row.id(0).map(JobId)).await?);
    }
    let (others, statements): (Vec<JobId>, Vec<_>) = others.into_iter().unzip();
    let changed = work.many(statements).await?;
    held.extend(others.into_iter().zip(changed).filter(|(_, rows)| *rows > 0).map(|(id, _)| id));
    Ok(ids.iter().map(|id| held.contains(id)).collect())
}
