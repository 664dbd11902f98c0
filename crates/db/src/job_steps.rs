//! What jobs remember: their steps, and the documents of the rules that they run.

use entrepot_nouns::noun::Stored;
use entrepot_nouns::{JobId, JobStep, Name, Rule, RuleVersion, SiteId, StepAddress, Timestamp};

use crate::Db;
use crate::error::{DbError, Result};
use crate::limits::VERSION_USED;
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::{Batch, Tx, Work};

/// The document of a rule, as jobs run it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleDocument {
    /// The site that owns the rule.
    pub site: SiteId,
    /// What it is known by.
    pub version: RuleVersion,
    /// The rule's name.
    pub rule: Name,
    /// The rule as JSON.
    pub document: String,
}

impl RuleDocument {
    /// The document of a rule as it is, known by what `version` says of the text. Whether it is
    /// paused is no part of it.
    pub fn of(rule: &Stored<Rule>, version: fn(&str) -> RuleVersion) -> Result<RuleDocument> {
        let document = to_json(&Rule { paused: false, ..rule.noun.clone() })?;
        let (site, version) = (rule.site, version(&document));
        Ok(RuleDocument { site, version, rule: rule.noun.name.clone(), document })
    }

    /// The rule that a document tells of.
    pub fn read(document: &str) -> Result<Rule> {
        serde_json::from_str(document)
            .map_err(|error| DbError::Corrupt(format!("the document of a rule: {error}")))
    }
}

macro_rules! upsert {
    ($values:literal) => {
        sql!(
            "INSERT INTO job_steps (job, address, epoch, state, started_at, ended_at, result, ",
            "error) ",
            $values,
            " ON CONFLICT (job, address, epoch) DO UPDATE SET state = excluded.state, ",
            "ended_at = excluded.ended_at, result = excluded.result, error = excluded.error",
        )
    };
}

/// At most once in [`VERSION_USED`] a row is written anew.
macro_rules! keep {
    ($values:literal) => {
        sql!(
            "INSERT INTO rule_versions (site, version, rule, document, used_at) ",
            $values,
            " ON CONFLICT (site, version) DO UPDATE SET used_at = excluded.used_at ",
            "WHERE rule_versions.used_at < excluded.used_at - 3600000000",
        )
    };
}

statements! {
    UPSERT_SQLITE = upsert!("VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
    STEPS = sql!(
        "SELECT address, epoch, state, started_at, ended_at, result, error FROM job_steps ",
        "WHERE job = $1 ORDER BY epoch, started_at, address",
    );
    FORGET_SQLITE = sql!("DELETE FROM job_steps WHERE job = $1");
    DOCUMENT = sql!("SELECT document FROM rule_versions WHERE site = $1 AND version = $2");
    KEEP_SQLITE = keep!("VALUES ($1, $2, $3, $4, $5)");
    /// Jobs of those versions were made before `$3`, and few jobs are as old.
    FORGET_VERSIONS = sql!(
        "DELETE FROM rule_versions WHERE site = $1 AND used_at < $2 AND NOT EXISTS ",
        "(SELECT 1 FROM jobs WHERE jobs.site = $1 AND jobs.created_at < $3 ",
        "AND jobs.rule_version = rule_versions.version)",
    );
    MOVE = sql!("UPDATE jobs SET rule_version = $1 WHERE site = $2 AND id = $3");
}

/// As `UPSERT_SQLITE`, an array a column.
pub(crate) const UPSERT_POSTGRES: Sql = upsert!(
    "SELECT * FROM UNNEST($1::UUID[], $2::TEXT[], $3::BIGINT[], $4::TEXT[], $5::BIGINT[], \
     $6::BIGINT[], $7::TEXT[], $8::TEXT[])"
);

/// As `FORGET_SQLITE`, an array a column.
pub(crate) const FORGET_POSTGRES: Sql = sql!("DELETE FROM job_steps WHERE job = ANY($1::UUID[])");

/// As `KEEP_SQLITE`, an array a column.
pub(crate) const KEEP_POSTGRES: Sql =
    keep!("SELECT * FROM UNNEST($1::UUID[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BIGINT[])");

/// What is remembered of steps: rows of [`row`].
pub(crate) const REMEMBER: Batch =
    Batch { sqlite: UPSERT_SQLITE, postgres: UPSERT_POSTGRES, width: 8 };

/// The documents of which jobs are made.
const KEEP: Batch = Batch { sqlite: KEEP_SQLITE, postgres: KEEP_POSTGRES, width: 5 };

/// The steps of jobs that are deleted.
pub(crate) const FORGET: Batch =
    Batch { sqlite: FORGET_SQLITE, postgres: FORGET_POSTGRES, width: 1 };

/// What is remembered of a step in one lease of its job.
pub(crate) fn row(job: JobId, step: &JobStep) -> Result<[Value; 8]> {
    let result = step.result.as_ref().map(to_json).transpose()?;
    Ok([
        job.0.into(),
        Value::text(&*step.address.0),
        step.epoch.into(),
        step.state.as_str().into(),
        step.started_at.into(),
        step.ended_at.into(),
        Value::maybe_text(result),
        Value::maybe_text(step.error.as_deref()),
    ])
}

fn read_step(row: &Row<'_>) -> Result<JobStep> {
    Ok(JobStep {
        address: StepAddress(row.text(0)?),
        epoch: row.int(1)?,
        state: row.word(2)?,
        started_at: row.time(3)?,
        ended_at: row.maybe_int(4)?.map(Timestamp),
        result: if row.maybe_text(5)?.is_some() { Some(row.json(5)?) } else { None },
        error: row.maybe_text(6)?,
    })
}

/// Keeps the documents of rules of which jobs are made now.
pub(crate) async fn keep(work: &mut Work, rules: &[RuleDocument], now: Timestamp) -> Result<()> {
    let row = |rule: &RuleDocument| {
        let (version, document) = (Value::text(&*rule.version.0), Value::text(&*rule.document));
        [rule.site.0.into(), version, (&rule.rule).into(), document, now.into()]
    };
    work.each(KEEP, rules.iter().flat_map(row).collect()).await
}

impl Db {
    /// What is remembered of the steps of a job, in the order in which they ran.
    pub async fn job_steps(&self, job: JobId) -> Result<Vec<JobStep>> {
        self.read(STEPS, vec![job.0.into()], read_step).await
    }

    /// The document of a rule that jobs of a site run, as JSON; `None` if it is not kept.
    pub async fn rule_document(
        &self,
        site: SiteId,
        version: &RuleVersion,
    ) -> Result<Option<String>> {
        let values = vec![site.0.into(), Value::text(&*version.0)];
        Ok(self.read(DOCUMENT, values, |row| row.text(0)).await?.pop())
    }

    /// Deletes the documents of which no job was made since `before` and that no job refers to.
    /// Says how many.
    pub async fn forget_rule_versions(&self, site: SiteId, before: Timestamp) -> Result<u64> {
        let made_before = before.plus(VERSION_USED);
        let values = vec![site.0.into(), before.into(), made_before.into()];
        self.execute(FORGET_VERSIONS, values).await
    }
}

impl Tx {
    /// Lets a job run this document of its rule from now on.
    pub async fn move_job(
        &mut self,
        job: JobId,
        rule: &RuleDocument,
        now: Timestamp,
    ) -> Result<()> {
        self.lock_events().await?;
        keep(&mut self.work, std::slice::from_ref(rule), now).await?;
        let values = vec![Value::text(&*rule.version.0), rule.site.0.into(), job.0.into()];
        self.work.execute(MOVE, values).await?;
        Ok(())
    }
}
