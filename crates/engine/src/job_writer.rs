//! One writer for all jobs of a node: what they write while a transaction is being committed is one
//! transaction after it, with the claim of the next jobs, so that a busy node waits once for its
//! disk where it has many jobs.

use entrepot_db::{Db, DbError, JobChange, JobClaim, JobWrite};
use entrepot_nouns::Job;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::limits::{JOB_WRITES, JOB_WRITES_WAITING};

/// Takes writes of jobs and claims, and says when they are made.
pub(crate) struct JobWriter(mpsc::Sender<Waiting>);

/// What waits to be written.
pub(crate) struct WaitingWrites(mpsc::Receiver<Waiting>);

/// Something to be written, and who waits for it.
enum Waiting {
    Write(Box<JobWrite>, Answer<bool>),
    Claim(JobClaim, Answer<Vec<Job>>),
}

/// Takes what became of it.
struct Answer<T>(oneshot::Sender<Result<T, DbError>>);

impl<T> Answer<T> {
    fn give(self, answer: Result<T, DbError>) {
        // Whoever is gone has lost the job, or was stopped.
        let _ = self.0.send(answer);
    }
}

impl JobWriter {
    pub(crate) fn new() -> (JobWriter, WaitingWrites) {
        let (sender, receiver) = mpsc::channel(JOB_WRITES_WAITING);
        (JobWriter(sender), WaitingWrites(receiver))
    }

    /// Makes a write, durably; false if the job is not held as it says. A write that nobody waits
    /// for any more may still be made.
    pub(crate) async fn write(&self, write: JobWrite) -> Result<bool, DbError> {
        self.ask(|answer| Waiting::Write(Box::new(write), answer)).await
    }

    /// Claims jobs, durably, behind the writes that wait. What nobody waits for any more may still
    /// be claimed: its lease runs out.
    pub(crate) async fn claim(&self, claim: JobClaim) -> Result<Vec<Job>, DbError> {
        self.ask(|answer| Waiting::Claim(claim, answer)).await
    }

    async fn ask<T>(&self, waiting: impl FnOnce(Answer<T>) -> Waiting) -> Result<T, DbError> {
        let ended = || DbError::Unavailable("the engine has stopped".to_owned());
        let (made, answer) = oneshot::channel();
        self.0.send(waiting(Answer(made))).await.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// What goes into one transaction.
#[derive(Default)]
struct Together {
    writes: Vec<JobWrite>,
    written: Vec<Answer<bool>>,
    claim: Option<(JobClaim, Answer<Vec<Job>>)>,
}

/// Makes the writes and claims that come, until `stop`; those that wait by then too.
pub(crate) async fn run(db: Db, mut waiting: WaitingWrites, stop: CancellationToken) {
    loop {
        let mut taken = Vec::new();
        let count = tokio::select! {
            biased;
            count = waiting.0.recv_many(&mut taken, JOB_WRITES) => count,
            () = stop.cancelled() => 0,
        };
        if count == 0 {
            return;
        }
        let mut together = Together::default();
        for waiting in taken {
            match waiting {
                Waiting::Write(write, answer) => {
                    together.writes.push(*write);
                    together.written.push(answer);
                }
                Waiting::Claim(claim, answer) => {
                    // Only one task claims: an earlier claim is one that it has given up.
                    if let Some((_, given_up)) = together.claim.replace((claim, answer)) {
                        given_up.give(Ok(Vec::new()));
                    }
                }
            }
        }
        write(&db, together).await;
    }
}

async fn write(db: &Db, Together { writes, written, claim }: Together) {
    match db.write_jobs(&writes, claim.as_ref().map(|(claim, _)| claim)).await {
        Ok(made) => {
            for (answer, held) in written.into_iter().zip(made.held) {
                answer.give(Ok(held));
            }
            if let Some((_, answer)) = claim {
                answer.give(Ok(made.claimed));
            }
        }
        Err(error) => {
            let waiting = writes.into_iter().zip(written).collect();
            match error {
                DbError::Unavailable(why) => keep_leases(db, waiting, &why).await,
                // The database answers, and does not want one of them: the others are not its
                // fault.
                _ => one_by_one(db, waiting).await,
            }
            // A disk may be full for what others write, and still take this.
            if let Some((claim, answer)) = claim {
                answer.give(db.claim_jobs(&claim).await);
            }
        }
    }
}

async fn one_by_one(db: &Db, waiting: Vec<(JobWrite, Answer<bool>)>) {
    for (write, answer) in waiting {
        let made = db.write_jobs(std::slice::from_ref(&write), None).await;
        answer.give(made.map(|made| made.held == [true]));
    }
}

/// Where the database cannot take all of them: leases are kept if it takes that, for a disk may be
/// full for how jobs end, and a job whose end waits for room is not to be done again.
async fn keep_leases(db: &Db, waiting: Vec<(JobWrite, Answer<bool>)>, why: &str) {
    let is_lease = |write: &JobWrite| matches!(write.change, JobChange::Extend(_));
    let (leases, others): (Vec<_>, Vec<_>) =
        waiting.into_iter().partition(|(write, _)| is_lease(write));
    let unavailable = |why: &str| DbError::Unavailable(why.to_owned());
    let (writes, written): (Vec<_>, Vec<_>) = leases.into_iter().unzip();
    let made = if others.is_empty() || writes.is_empty() {
        // It has just refused them.
        Err(unavailable(why))
    } else {
        db.write_jobs(&writes, None).await
    };
    others.into_iter().for_each(|(_, answer)| answer.give(Err(unavailable(why))));
    match made {
        Ok(made) => {
            written.into_iter().zip(made.held).for_each(|(answer, held)| answer.give(Ok(held)));
        }
        Err(error) => {
            let why = match error {
                DbError::Unavailable(why) => why,
                other => other.to_string(),
            };
            written.into_iter().for_each(|answer| answer.give(Err(unavailable(&why))));
        }
    }
}
