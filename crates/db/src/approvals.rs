//! What steps of jobs ask people, and what those answer. The answers are counted by the statement
//! that writes them, so that two at the same time are two.

use entrepot_nouns::approval::{Approval, ApprovalAnswer, ApprovalVerdict};
use entrepot_nouns::{JobId, SiteId, StepAddress, Timestamp};

use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::{Batch, Tx};
use crate::{Db, page};

/// Which question of which job: each life of the job asks anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalKey {
    /// The job that asks.
    pub job: JobId,
    /// The step of it.
    pub step: StepAddress,
    /// The life of the job.
    pub life: i64,
}

impl ApprovalKey {
    /// The question that this is.
    pub fn of(approval: &Approval) -> ApprovalKey {
        ApprovalKey { job: approval.job, step: approval.step.clone(), life: approval.life }
    }

    /// The values of its columns, in their order.
    pub(crate) fn values(&self) -> [Value; 3] {
        [self.job.0.into(), Value::text(&*self.step.0), self.life.into()]
    }
}

/// What became of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerOutcome {
    /// It is kept, and counted in the question.
    Counted,
    /// The account had answered before.
    Before,
    /// Nothing is left to answer: it was decided, or the time is over.
    Closed,
}

macro_rules! columns {
    ($after:literal) => {
        sql!(
            "SELECT asked.job, asked.address, asked.life, asked.rule, asked.question, ",
            "asked.approvers, asked.need, asked.yes, asked.asked_at, asked.ends_at, ",
            "asked.decided_at FROM job_approvals AS asked ",
            $after,
        )
    };
}

statements! {
    ASK = sql!(
        "INSERT INTO job_approvals (job, address, life, site, rule, question, approvers, need, ",
        "yes, asked_at, ends_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10) ",
        "ON CONFLICT (job, address, life) DO NOTHING",
    );
    FIND = columns!("WHERE asked.job = $1 AND asked.address = $2 AND asked.life = $3");
    OPEN = columns!(
        "JOIN jobs ON jobs.id = asked.job WHERE asked.site = $1 AND asked.decided_at IS NULL \
         AND jobs.state IN ('ready', 'running') \
         AND jobs.epoch - jobs.attempts - jobs.handed_over = asked.life \
         ORDER BY asked.asked_at LIMIT $2"
    );
    OPEN_OF_JOB = columns!(
        "JOIN jobs ON jobs.id = asked.job WHERE asked.job = $1 AND asked.decided_at IS NULL \
         AND jobs.state IN ('ready', 'running') \
         AND jobs.epoch - jobs.attempts - jobs.handed_over = asked.life \
         ORDER BY asked.asked_at, asked.address"
    );
    ANSWERS = sql!(
        "SELECT account, verdict, why, answered_at FROM job_approval_answers ",
        "WHERE job = $1 AND address = $2 AND life = $3 ORDER BY answered_at, account",
    );
    ANSWER = sql!(
        "INSERT INTO job_approval_answers (job, address, life, account, verdict, why, ",
        "answered_at) VALUES ($1, $2, $3, $4, $5, $6, $7) ",
        "ON CONFLICT (job, address, life, account) DO NOTHING",
    );
    COUNT_YES = sql!(
        "UPDATE job_approvals SET yes = yes + 1, decided_at = ",
        "CASE WHEN yes + 1 >= need THEN CAST($1 AS BIGINT) ELSE decided_at END ",
        "WHERE job = $2 AND address = $3 AND life = $4 AND decided_at IS NULL ",
        "AND ends_at > CAST($1 AS BIGINT)",
    );
    REFUSE = sql!(
        "UPDATE job_approvals SET decided_at = CAST($1 AS BIGINT) ",
        "WHERE job = $2 AND address = $3 AND life = $4 AND decided_at IS NULL ",
        "AND ends_at > CAST($1 AS BIGINT)",
    );
    CLOSE = sql!(
        "UPDATE job_approvals SET decided_at = $1 ",
        "WHERE job = $2 AND address = $3 AND life = $4 AND decided_at IS NULL",
    );
    FORGET_SQLITE = sql!("DELETE FROM job_approvals WHERE job = $1");
    FORGET_ANSWERS_SQLITE = sql!("DELETE FROM job_approval_answers WHERE job = $1");
}

/// As `FORGET_SQLITE`, an array a column.
pub(crate) const FORGET_POSTGRES: Sql =
    sql!("DELETE FROM job_approvals WHERE job = ANY($1::UUID[])");
/// As `FORGET_ANSWERS_SQLITE`, an array a column.
pub(crate) const FORGET_ANSWERS_POSTGRES: Sql =
    sql!("DELETE FROM job_approval_answers WHERE job = ANY($1::UUID[])");

/// The questions of jobs that are deleted, and their answers.
pub(crate) const FORGET: [Batch; 2] = [
    Batch { sqlite: FORGET_SQLITE, postgres: FORGET_POSTGRES, width: 1 },
    Batch { sqlite: FORGET_ANSWERS_SQLITE, postgres: FORGET_ANSWERS_POSTGRES, width: 1 },
];

fn read_approval(row: &Row<'_>) -> Result<Approval> {
    Ok(Approval {
        job: JobId(row.id(0)?),
        step: StepAddress(row.text(1)?),
        life: row.int(2)?,
        rule: row.name(3)?,
        text: row.text(4)?,
        by: row.json(5)?,
        need: row.small(6)?,
        yes: row.small(7)?,
        asked_at: row.time(8)?,
        until: row.time(9)?,
        decided_at: row.maybe_int(10)?.map(Timestamp),
        answers: Vec::new(),
    })
}

fn read_answer(row: &Row<'_>) -> Result<ApprovalAnswer> {
    Ok(ApprovalAnswer {
        account: row.name(0)?,
        verdict: row.word(1)?,
        why: row.maybe_text(2)?,
        at: row.time(3)?,
    })
}

impl Db {
    /// Asks; a question that was asked before stays as it is.
    pub async fn ask_approval(&self, site: SiteId, asked: &Approval) -> Result<()> {
        let mut values = ApprovalKey::of(asked).values().to_vec();
        values.extend([
            site.0.into(),
            (&asked.rule).into(),
            Value::text(&*asked.text),
            Value::text(to_json(&asked.by)?),
            i64::from(asked.need).into(),
            asked.asked_at.into(),
            asked.until.into(),
        ]);
        self.execute(ASK, values).await.map(drop)
    }

    /// A question, answered or not, with its answers.
    pub async fn approval(&self, key: &ApprovalKey) -> Result<Option<Approval>> {
        let found = self.read(FIND, key.values().to_vec(), read_approval).await?;
        Ok(self.with_answers(found).await?.pop())
    }

    /// The questions of a site for which jobs rest, the oldest first; a page at most.
    pub async fn open_approvals(&self, site: SiteId, limit: u32) -> Result<Vec<Approval>> {
        let values = vec![site.0.into(), page(limit)];
        let found = self.read(OPEN, values, read_approval).await?;
        self.with_answers(found).await
    }

    /// The questions for which a job rests, the oldest first: one, or one of each list of a
    /// `parallel`.
    pub async fn approvals_of_job(&self, job: JobId) -> Result<Vec<Approval>> {
        let found = self.read(OPEN_OF_JOB, vec![job.0.into()], read_approval).await?;
        self.with_answers(found).await
    }

    /// Leaves nothing to answer of what these steps asked in this life of a job.
    pub async fn close_approvals(
        &self,
        job: JobId,
        life: i64,
        steps: &[StepAddress],
        now: Timestamp,
    ) -> Result<()> {
        for step in steps {
            self.close_approval(&ApprovalKey { job, step: step.clone(), life }, now).await?;
        }
        Ok(())
    }

    /// Leaves nothing to answer, if nothing was decided; false if something was.
    pub async fn close_approval(&self, key: &ApprovalKey, now: Timestamp) -> Result<bool> {
        let mut values = vec![now.into()];
        values.extend(key.values());
        Ok(self.execute(CLOSE, values).await? > 0)
    }

    async fn with_answers(&self, mut found: Vec<Approval>) -> Result<Vec<Approval>> {
        for approval in &mut found {
            let key = ApprovalKey::of(approval).values().to_vec();
            approval.answers = self.read(ANSWERS, key, read_answer).await?;
        }
        Ok(found)
    }
}

impl Tx {
    /// Counts an answer to a question. Unless it counts, the transaction is to be dropped.
    pub async fn answer_approval(
        &mut self,
        key: &ApprovalKey,
        answer: &ApprovalAnswer,
    ) -> Result<AnswerOutcome> {
        let mut values = key.values().to_vec();
        values.extend([
            (&answer.account).into(),
            answer.verdict.as_str().into(),
            Value::maybe_text(answer.why.as_deref()),
            answer.at.into(),
        ]);
        if self.work.execute(ANSWER, values).await? == 0 {
            return Ok(AnswerOutcome::Before);
        }
        let count = match answer.verdict {
            ApprovalVerdict::Approved => COUNT_YES,
            ApprovalVerdict::Refused => REFUSE,
        };
        let mut values = vec![answer.at.into()];
        values.extend(key.values());
        let counted = self.work.execute(count, values).await? > 0;
        Ok(if counted { AnswerOutcome::Counted } else { AnswerOutcome::Closed })
    }
}
