//! Arguments of `transfer`, `event` and `job`: what happened, and what happens.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use entrepot_nouns::{JobId, JobState, Name, SessionId, TransferId, TransferState};

use super::units::word;

#[derive(Debug, Subcommand)]
pub(crate) enum TransferCommand {
    /// Transfers, newest first.
    List(TransferListArgs),
    /// One transfer, by its id.
    Show {
        /// Its id, as `transfer list` shows it.
        id: TransferId,
    },
    /// Let a file be seen that its mount holds, also one in quarantine.
    Release {
        /// The id of its transfer, as `transfer list --state held` shows it.
        id: TransferId,
    },
    /// Delete a file for good that its mount holds.
    Discard {
        /// The id of its transfer, as `transfer list --state quarantined` shows it.
        id: TransferId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TransferListArgs {
    /// Of this account.
    #[arg(long)]
    pub(crate) account: Option<Name>,
    /// In this state.
    #[arg(long, value_parser = word::<TransferState>)]
    pub(crate) state: Option<TransferState>,
    /// Path holds this text.
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Show no more than so many, the newest; at most 10000.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    /// The newest events, in the order in which they happened.
    List(EventListArgs),
    /// The newest events, then each new one as it happens, until interrupted.
    Follow(EventListArgs),
    /// Write events to a file, a line of JSON each, compressed by zstd; in the order in which they
    /// came into the database.
    Export(EventExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EventExportArgs {
    /// The file, which must not be there yet; it appears whole or not at all.
    pub(crate) file: PathBuf,
    /// At or after, RFC 3339.
    #[arg(long)]
    pub(crate) since: Option<entrepot_nouns::Timestamp>,
    /// Before, RFC 3339.
    #[arg(long)]
    pub(crate) until: Option<entrepot_nouns::Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct EventListArgs {
    /// Of these kinds, such as `file.uploaded`.
    #[arg(long = "kind")]
    pub(crate) kinds: Vec<String>,
    /// Of this account.
    #[arg(long)]
    pub(crate) account: Option<Name>,
    /// Path holds this text.
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Of this session.
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Of this transfer.
    #[arg(long)]
    pub(crate) transfer: Option<TransferId>,
    /// Of this job.
    #[arg(long)]
    pub(crate) job: Option<JobId>,
    /// At or after, RFC 3339.
    #[arg(long)]
    pub(crate) since: Option<entrepot_nouns::Timestamp>,
    /// Before, RFC 3339.
    #[arg(long)]
    pub(crate) until: Option<entrepot_nouns::Timestamp>,
    /// Show no more than so many, the newest; at most 10000.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct JobListArgs {
    /// In this state.
    #[arg(long, value_parser = word::<JobState>)]
    pub(crate) state: Option<JobState>,
    /// Of this rule.
    #[arg(long)]
    pub(crate) rule: Option<Name>,
    /// Show no more than so many, the newest; at most 10000.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Jobs, newest first.
    List(JobListArgs),
    /// One job, whole.
    Show {
        /// Its id, as `job list` shows it.
        id: JobId,
    },
    /// Make a failed or cancelled job ready again.
    Retry {
        /// Its id, as `job list` shows it.
        id: JobId,
        /// Go on by the rule as it is now, instead of by the document that the job was made of.
        /// Refused if the rule has not each step that the job went past or failed at, under the
        /// same address and with the same word.
        #[arg(long)]
        current: bool,
    },
    /// End a job that is not done.
    Cancel {
        /// Its id, as `job list` shows it.
        id: JobId,
    },
    /// What jobs ask people, and wait for.
    Approvals,
    /// Say yes to what a job asks: it goes on when enough people have.
    Approve {
        /// Its id, as `job approvals` shows it.
        id: JobId,
        /// The step that asks, where the job asks several things that you may answer.
        #[arg(long)]
        step: Option<String>,
        /// Why, for the audit log.
        #[arg(long)]
        why: Option<String>,
    },
    /// Say no to what a job asks: it fails.
    Refuse {
        /// Its id, as `job approvals` shows it.
        id: JobId,
        /// The step that asks, where the job asks several things that you may answer.
        #[arg(long)]
        step: Option<String>,
        /// Why: the job fails with these words.
        #[arg(long)]
        why: String,
    },
}
