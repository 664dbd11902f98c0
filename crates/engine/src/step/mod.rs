//! The steps of rules, one a file. Each may be begun again after any crash and ends in the same
//! place: its effect happens once, however often it is tried.

mod approve;
pub(crate) mod as2;
mod call;
mod change;
mod checksum;
mod copy;
mod delete;
mod deliver;
mod each;
pub(crate) mod exec;
mod exec_foreseen;
mod exec_run;
mod extract;
mod fetch;
mod fetch_foreseen;
pub(crate) mod find;
pub(crate) mod flow;
mod held;
pub(crate) mod http;
mod join;
mod made;
pub(crate) mod mail;
mod many;
mod mkdir;
mod openpgp;
mod pack;
mod parallel;
pub(crate) mod procedure;
mod rename;
pub(crate) mod scan;
pub(crate) mod source;
pub(crate) mod split;
mod talk_foreseen;
mod text;
mod wait;
mod webhook;

pub use as2::As2Tester;

use async_trait::async_trait;
use entrepot_nouns::rule::{self, AfterCrash, RefuseSpec, StepSpec};
use entrepot_nouns::{StepState, VPath};
use entrepot_storage::StoreError;
use serde_json::Value as Json;

use crate::ids::StepKey;
use crate::pattern::PatternError;
use crate::run::Run;

pub(crate) use source::{Expected, Input, Seen, changed, is_same_time};

/// One action of a rule.
#[async_trait]
pub(crate) trait Step: Send + Sync {
    /// Brings its effect about, or finds that an earlier attempt did. `key` tells the steps of one
    /// job apart and is the same on every attempt.
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError>;

    /// Does, when all steps of `do` have ended well, what must not be done before: `result` is what
    /// the step left. Tried again as the steps are.
    async fn leave(&self, _run: &Run<'_>, _result: &Json) -> Result<(), StepError> {
        Ok(())
    }
}

/// The table of steps: the one that a [`StepSpec`] is, as whatever is wanted of it.
macro_rules! the_step {
    ($spec:expr) => {
        match $spec {
            StepSpec::Deliver(deliver) => deliver,
            StepSpec::Fetch(fetch) => fetch,
            StepSpec::Copy(copy) => copy,
            StepSpec::Mkdir(mkdir) => mkdir,
            StepSpec::Move(rename) => rename,
            StepSpec::Delete(delete) => delete,
            StepSpec::Release(release) => release,
            StepSpec::Quarantine(quarantine) => quarantine,
            StepSpec::Exec(exec) => exec,
            StepSpec::Refuse(refuse) => refuse,
            StepSpec::If(branch) => branch,
            StepSpec::Each(each) => each,
            StepSpec::Parallel(parallel) => parallel,
            StepSpec::Set(set) => set,
            StepSpec::Check(check) => check,
            StepSpec::Stop(stop) => stop,
            StepSpec::Wait(wait) => wait,
            StepSpec::Call(call) => call,
            StepSpec::Approve(approve) => approve,
            StepSpec::Http(http) => http,
            StepSpec::Mail(mail) => mail,
            StepSpec::Scan(scan) => scan,
            StepSpec::Webhook(webhook) => webhook,
            StepSpec::As2(as2) => as2,
            StepSpec::Procedure(procedure) => procedure,
            StepSpec::Gzip(gzip) => gzip,
            StepSpec::Zstd(zstd) => zstd,
            StepSpec::Zip(zip) => zip,
            StepSpec::Tar(tar) => tar,
            StepSpec::Extract(extract) => extract,
            StepSpec::Encrypt(encrypt) => encrypt,
            StepSpec::Decrypt(decrypt) => decrypt,
            StepSpec::Sign(sign) => sign,
            StepSpec::Verify(verify) => verify,
            StepSpec::Checksum(checksum) => checksum,
            StepSpec::Transcode(transcode) => transcode,
            StepSpec::Split(split) => split,
            StepSpec::Join(join) => join,
        }
    };
}
pub(crate) use the_step;

/// The step that `spec` is.
pub(crate) fn of(spec: &StepSpec) -> &dyn Step {
    the_step!(spec)
}

/// Runs a step as its rule says of it, whatever it does: how long it may take, and what becomes of
/// it if it was begun before and nobody knows how it ended.
pub(crate) async fn run(
    step: &rule::Step,
    run: &mut Run<'_>,
    key: &StepKey,
) -> Result<StepState, StepError> {
    if step.after_crash != AfterCrash::Run && !run.begin_once().await? {
        return begun_before(step.after_crash);
    }
    let running = of(&step.spec).run(run, key);
    let Some(most) = step.timeout else { return running.await.map(|()| StepState::Done) };
    let ended = tokio::time::timeout(most.duration(), running).await;
    ended.unwrap_or_else(|_| {
        Err(StepError::transient("EP0818", format!("the step had not ended after {most}")))
    })?;
    Ok(StepState::Done)
}

fn begun_before(then: AfterCrash) -> Result<StepState, StepError> {
    let text = "it was begun, and nobody knows how it ended: its node died or was stopped";
    tracing::warn!(code = "EP0844", "a step does not run again: {text}");
    match then {
        AfterCrash::Ask => Err(StepError::permanent("EP0844", text)),
        AfterCrash::Skip | AfterCrash::Run => Ok(StepState::Skipped),
    }
}

#[async_trait]
impl Step for RefuseSpec {
    /// A job has no command any more that could be refused; rules are checked for that.
    async fn run(&self, _run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        Err(StepError::permanent("EP0812", "only a rule 'before' a command can refuse it"))
    }
}

/// Why a step did not end well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StepError {
    /// May pass: tried again.
    #[error("{code}: {text}")]
    Transient {
        /// Of the error catalogue.
        code: &'static str,
        /// What an operator reads as the error of the job.
        text: String,
    },
    /// Will not pass: the job fails at once.
    #[error("{code}: {text}")]
    Permanent {
        /// Of the error catalogue.
        code: &'static str,
        /// What an operator reads as the error of the job.
        text: String,
    },
    /// The lease is lost: another node has the job.
    #[error("EP0807: the lease was lost")]
    Lost,
    /// The engine stops.
    #[error("the engine stops")]
    Stopped,
    /// Steps that ran beside it have decided what becomes of the job: it goes no further.
    #[error("the steps beside it have decided")]
    Decided,
    /// Its branch waits for what others do.
    #[error("the job rests here when the steps beside it have ended or rest")]
    Rests,
    /// The job waits for a place in another lane.
    #[error("the job goes on in another lane")]
    HandedOver,
    /// A test ends the job here, as a crash would.
    #[error("dropped by a test")]
    Dropped,
}

impl StepError {
    pub(crate) fn transient(code: &'static str, text: impl Into<String>) -> Self {
        StepError::Transient { code, text: text.into() }
    }

    pub(crate) fn permanent(code: &'static str, text: impl Into<String>) -> Self {
        StepError::Permanent { code, text: text.into() }
    }

    /// Of an endpoint named `endpoint`, about `path` there.
    pub(crate) fn at_endpoint(endpoint: &str, path: &str, error: &StoreError) -> Self {
        let text = format!("'{path}' at endpoint '{endpoint}': {error}");
        match error {
            StoreError::IsDirectory
            | StoreError::NotDirectory
            | StoreError::NotEmpty
            | StoreError::Unsupported(_)
            | StoreError::Escape => StepError::permanent("EP0812", text),
            // A name of ours, left by an earlier attempt; `refused` says what the rule refuses.
            StoreError::Exists
            | StoreError::NotFound
            | StoreError::NoSpace
            | StoreError::Denied(_)
            | StoreError::Unavailable(_)
            | StoreError::NoPlace(_)
            | StoreError::NoMemory
            | StoreError::Io(_) => StepError::transient("EP0805", text),
        }
    }

    /// The name at the endpoint is taken and the rule refuses to replace.
    pub(crate) fn refused(endpoint: &str, path: &str) -> Self {
        let text = format!("'{path}' is already at endpoint '{endpoint}' and the rule refuses");
        StepError::permanent("EP0809", text)
    }

    /// There is no such file in the account's view.
    pub(crate) fn missing(path: &VPath) -> Self {
        let text = format!("'{path}' is not there any more, somebody moved or removed it");
        StepError::permanent(MISSING, text)
    }

    /// The name is taken in the account's view.
    pub(crate) fn taken(path: &VPath) -> Self {
        StepError::permanent(TAKEN, format!("'{path}' is already there and the rule refuses"))
    }

    /// True of [`StepError::taken`].
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, StepError::Permanent { code: TAKEN, .. })
    }

    /// True of [`StepError::missing`].
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, StepError::Permanent { code: MISSING, .. })
    }
}

/// The code of a name that is taken.
const TAKEN: &str = "EP0809";

/// The code of a file that is not there.
const MISSING: &str = "EP0810";

impl From<PatternError> for StepError {
    fn from(error: PatternError) -> Self {
        StepError::permanent("EP0812", error.to_string())
    }
}
