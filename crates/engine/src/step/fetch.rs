//! `fetch`: makes a file of an endpoint the one that later steps work on.
//!
//! What becomes of it at the endpoint is done when the job is: until then the bytes that the job
//! has are on one disk of one node, and another node may have to fetch them again.

use async_trait::async_trait;
use bytes::BytesMut;
use entrepot_nouns::event::FileFact;
use entrepot_nouns::rule::{AfterFetch, FetchSpec};
use entrepot_nouns::watch::TAKEN;
use entrepot_nouns::{
    Digests, EndpointTarget, Event, Fact, Name, Protocol, StorePath, Timestamp, crash,
};
use entrepot_storage::{AnyStore, Existing, Meta, ReadFile, StoreError, make_directories_above};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::made::Making;
use super::{Step, StepError, changed, is_same_time};
use crate::ids::{self, StepKey};
use crate::limits::BLOCK_BYTES;
use crate::noted::FileValue;
use crate::pattern::{self, Values};
use crate::pause::Pause;
use crate::rules;
use crate::run::Run;

/// The file as it was where it was fetched: what the step leaves as `from`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Origin {
    endpoint: Name,
    path: StorePath,
    size: u64,
    /// When it was changed last, by the clock of the endpoint.
    modified: Timestamp,
    /// Where it is to be moved.
    to: Option<StorePath>,
}

/// The key of [`Origin`] in the result of the step.
const FROM: &str = "from";

#[async_trait]
impl Step for FetchSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = endpoint_name(self, &run.job.event)?;
        let named = pattern::store_path(&self.path, run.values())?;
        let (found, path) = (run.found_path(name, &named), run.at_endpoint(name, &named));
        let endpoint = run.endpoint(name).await?;
        let store = run.hold.waiting(run.shared.file_access.store(&endpoint)).await??;
        let started_at = run.shared.recorder.env().now();
        let opened = run.hold.waiting(store.open(&path)).await?;
        let at = Place { endpoint: name, path: &path };
        let file = opened.map_err(|error| match (error, &found) {
            (StoreError::NotFound, Some(found)) => StepError::missing(found),
            (error, _) => at.failed(&error),
        })?;
        run.reached(Pause::SourceOpen)?;
        let meta = file.meta().clone();
        let renamed = if path == named { Renamed::No } else { Renamed::Yes };
        if let Some(found) =
            found.as_ref().filter(|_| is_other(&run.job.event.fact, &meta, renamed))
        {
            return Err(changed(found));
        }
        let mut writer = Making::begin(run, key).await?;
        if let Err(error) = fill(run, &mut writer, file.as_ref(), &at).await {
            writer.discard().await;
            return Err(error);
        }
        if !is_still(run, &store, &path, &meta).await? || writer.size() != meta.size {
            writer.discard().await;
            if let Some(found) = &found {
                return Err(changed(found));
            }
            let text = format!("'{path}' at endpoint '{name}' was changed while it was fetched");
            return Err(StepError::transient("EP0805", text));
        }
        run.reached(Pause::Written)?;
        let plain = named.file_name().unwrap_or_default().to_owned();
        let made = writer.finish(run, plain).await?;
        // Its placeholders are of the file that was fetched.
        let noted = run.noted.clone().with_file(made.clone());
        let values = Values { event: &run.job.event, noted: Some(&noted) };
        let to = self.to.as_ref().map(|to| pattern::store_path(to, values)).transpose()?;
        run.reached(Pause::Published)?;
        crash::point("fetch.kept");
        let origin =
            Origin { endpoint: name.clone(), path, size: meta.size, modified: meta.modified, to };
        run.leave(FROM, serde_json::to_value(&origin).unwrap_or_default());
        let protocol = protocol(&endpoint.noun.target);
        record(run, key, Fetched { origin, made, protocol, started_at }).await?;
        run.reached(Pause::Recorded)
    }

    /// Removes or moves the file at its endpoint, unless it is another one by now.
    async fn leave(&self, run: &Run<'_>, result: &Json) -> Result<(), StepError> {
        let origin =
            result.get(FROM).and_then(|from| serde_json::from_value::<Origin>(from.clone()).ok());
        let Some(origin) = origin.filter(|_| self.after != AfterFetch::Keep) else { return Ok(()) };
        let endpoint = run.endpoint(&origin.endpoint).await?;
        let store = run.hold.waiting(run.shared.file_access.store(&endpoint)).await??;
        let place = Place { endpoint: &origin.endpoint, path: &origin.path };
        let failed = |error: &StoreError| place.failed(error);
        let aside = set_aside(run, &store, &origin).await?;
        let Some(from) = aside.map_err(|error| failed(&error))? else { return Ok(()) };
        run.hold.fence().await?;
        let done = match (&origin.to, self.after) {
            (Some(to), AfterFetch::Move) => {
                make_directories_above(&store, to).await.map_err(|error| failed(&error))?;
                store.rename(&from, to, Existing::Replace).await.map(drop)
            }
            _ => store.remove(&from).await,
        };
        match done {
            Ok(()) | Err(StoreError::NotFound) => {}
            Err(error) => return Err(failed(&error)),
        }
        run.reached(Pause::Changed)
    }
}

/// Where the fetched file is now; `None` if it is not there any more, or another one is. A file of
/// a watched folder may be replaced between a look and what follows it: where names change at once
/// it gets one that nobody else uses, and is looked at once more under that.
async fn set_aside(
    run: &Run<'_>,
    store: &AnyStore,
    origin: &Origin,
) -> Result<Result<Option<StorePath>, StoreError>, StepError> {
    let path = &origin.path;
    let hidden = path.parent().and_then(|it| it.join(&format!("{TAKEN}{}", run.job.id)).ok());
    let is_taken = path.file_name().is_some_and(|name| name.starts_with(TAKEN));
    let is_watched = matches!(run.job.event.fact, Fact::WatchFound { .. });
    let hidden = hidden.filter(|_| is_watched && !is_taken && store.caps().atomic_rename);
    if let Some(hidden) = hidden.as_ref().filter(|_| run.again())
        && run.hold.waiting(store.stat(hidden)).await?.is_ok()
    {
        return Ok(Ok(Some(hidden.clone())));
    }
    let is_it = |meta: &Meta| meta.size == origin.size && meta.modified == origin.modified;
    match run.hold.waiting(store.stat(path)).await? {
        // An earlier attempt did it, or its owner took it back.
        Err(StoreError::NotFound) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error)),
        Ok(meta) if !is_it(&meta) => {
            let (endpoint, path) = (origin.endpoint.as_str(), path.as_str());
            tracing::warn!(endpoint, path, "a fetched file was changed since, the new one stays");
            return Ok(Ok(None));
        }
        Ok(_) => {}
    }
    let Some(hidden) = hidden else { return Ok(Ok(Some(path.clone()))) };
    run.hold.fence().await?;
    let looked = match store.rename(path, &hidden, Existing::Refuse).await {
        Ok(_) => run.hold.waiting(store.stat(&hidden)).await?,
        Err(error) => Err(error),
    };
    let done = match looked {
        Ok(meta) if is_it(&meta) => return Ok(Ok(Some(hidden))),
        Ok(_) => match store.rename(&hidden, path, Existing::Refuse).await {
            // A still newer file has the name, and would have replaced this one.
            Err(StoreError::Exists) => store.remove(&hidden).await,
            renamed => renamed.map(drop),
        },
        Err(StoreError::NotFound) => Ok(()),
        Err(error) => Err(error),
    };
    Ok(done.map(|()| None))
}

struct Fetched {
    origin: Origin,
    made: FileValue,
    protocol: Protocol,
    started_at: Timestamp,
}

pub(super) fn protocol(target: &EndpointTarget) -> Protocol {
    match target {
        EndpointTarget::Sftp(_) => Protocol::Sftp,
        EndpointTarget::Ftp(_) => Protocol::Ftp,
        _ => Protocol::Internal,
    }
}

/// The endpoint that the file is fetched from.
pub(super) fn endpoint_name<'a>(
    spec: &'a FetchSpec,
    event: &'a Event,
) -> Result<&'a Name, StepError> {
    spec.endpoint.as_ref().or(event.fact.endpoint()).ok_or_else(|| {
        StepError::permanent("EP0812", "the event names no endpoint, say which one in 'fetch'")
    })
}

/// Where the file is that is fetched.
pub(super) struct Place<'a> {
    pub(super) endpoint: &'a Name,
    pub(super) path: &'a StorePath,
}

impl Place<'_> {
    /// Of a file that is not there nothing is to be expected any more.
    pub(super) fn failed(&self, error: &StoreError) -> StepError {
        let Place { endpoint, path } = self;
        match error {
            StoreError::NotFound => {
                let text = format!("'{path}' is not at endpoint '{endpoint}', somebody took it");
                StepError::permanent("EP0810", text)
            }
            error => StepError::at_endpoint(endpoint.as_str(), path.as_str(), error),
        }
    }
}

async fn fill(
    run: &Run<'_>,
    writer: &mut Making,
    file: &dyn ReadFile,
    at: &Place<'_>,
) -> Result<(), StepError> {
    loop {
        let room = BytesMut::with_capacity(BLOCK_BYTES);
        let read = file.read_at(writer.size(), room, BLOCK_BYTES);
        let block = run.hold.waiting(read).await?.map_err(|error| at.failed(&error))?;
        if block.is_empty() {
            return Ok(());
        }
        writer.write(run, block.freeze()).await?;
        run.reached(Pause::BlockWritten)?;
    }
}

/// Whether a file got another name since it was found; some stores change its time with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renamed {
    Yes,
    No,
}

/// Whether a file is not the version any more that was found in a watched folder.
fn is_other(fact: &Fact, meta: &Meta, renamed: Renamed) -> bool {
    match fact {
        Fact::WatchFound { size, modified, .. } => {
            let is_its_time = renamed == Renamed::Yes || is_same_time(*modified, meta.modified);
            *size != meta.size || !is_its_time
        }
        _ => false,
    }
}

/// Whether the file has still the size and time that it had when it was opened.
async fn is_still(
    run: &Run<'_>,
    store: &AnyStore,
    path: &StorePath,
    meta: &Meta,
) -> Result<bool, StepError> {
    let now = run.hold.waiting(store.stat(path)).await?;
    Ok(now.is_ok_and(|now| now.size == meta.size && now.modified == meta.modified))
}

/// `file.fetched`, once; durable when this returns.
async fn record(run: &Run<'_>, key: &StepKey, fetched: Fetched) -> Result<(), StepError> {
    let Fetched { origin, made, protocol, started_at } = fetched;
    let file = FileFact {
        transfer: ids::delivery(run.job.id, key),
        path: origin.path.to_string(),
        size: made.size,
        digests: Digests { blake3: made.blake3(), ..Digests::default() },
        protocol,
        started_at,
        identity: None,
        displaced: None,
        temporary: false,
        as2: None,
    };
    let rule = run.job.rule.clone();
    let fact = Fact::FileFetched { file, endpoint: origin.endpoint, rule };
    let mut scope = rules::caused_by(&run.job.event);
    scope.job = Some(run.job.id);
    let mut event = run.shared.recorder.event(&scope, fact);
    event.id = ids::told_by_step(run.job.id, "fetched", key);
    run.seal(&event).await
}
