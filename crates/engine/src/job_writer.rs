//! One writer for all jobs of a node: what they write while a transaction is being committed is one
//! transaction after it, so that a busy node waits once for its disk where it has many jobs.

use entrepot_db::{Db, DbError, JobWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::limits::{JOB_WRITES, JOB_WRITES_WAITING};

/// Takes writes of jobs, and says when they are made.
pub(crate) struct JobWriter(mpsc::Sender<WaitingWrite>);

/// The writes that wait.
pub(crate) struct WaitingWrites(mpsc::Receiver<WaitingWrite>);

/// A write, and who waits for it.
struct WaitingWrite {
    write: JobWrite,
    made: oneshot::Sender<Result<bool, DbError>>,
}

impl JobWriter {
    pub(crate) fn new() -> (JobWriter, WaitingWrites) {
        let (sender, receiver) = mpsc::channel(JOB_WRITES_WAITING);
        (JobWriter(sender), WaitingWrites(receiver))
    }

    /// Makes a write, durably; false if the job is not held as it says. A write that nobody waits
    /// for any more may still be made.
    pub(crate) async fn write(&self, write: JobWrite) -> Result<bool, DbError> {
        let ended = || DbError::Unavailable("the engine has stopped".to_owned());
        let (made, answer) = oneshot::channel();
        self.0.send(WaitingWrite { write, made }).await.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// Makes the writes that come, until `stop`; those that wait by then too.
pub(crate) async fn run(db: Db, mut waiting: WaitingWrites, stop: CancellationToken) {
    loop {
        let mut batch = Vec::new();
        let taken = tokio::select! {
            biased;
            taken = waiting.0.recv_many(&mut batch, JOB_WRITES) => taken,
            () = stop.cancelled() => 0,
        };
        if taken == 0 {
            return;
        }
        write(&db, batch).await;
    }
}

async fn write(db: &Db, batch: Vec<WaitingWrite>) {
    let (writes, waiting): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|waiting| (waiting.write, waiting.made)).unzip();
    match db.write_jobs(&writes).await {
        Ok(held) => {
            for (made, held) in waiting.into_iter().zip(held) {
                // Whoever is gone has lost the job, or was stopped.
                let _ = made.send(Ok(held));
            }
        }
        Err(DbError::Unavailable(why)) => {
            for made in waiting {
                let _ = made.send(Err(DbError::Unavailable(why.clone())));
            }
        }
        // The database answers and does not want one of them: the others are not its fault.
        Err(_) => {
            for (write, made) in writes.into_iter().zip(waiting) {
                let held = db.write_jobs(std::slice::from_ref(&write)).await;
                let _ = made.send(held.map(|held| held == [true]));
            }
        }
    }
}
