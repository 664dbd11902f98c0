//! `deliver`: copies the file to an endpoint.
//!
//! Exactly once in effect, whatever is repeated:
//! 1. The transfer's id follows from job and step. Each lease stages under a name of its own and
//!    throws away what earlier ones left: a holder that is late finds nothing to publish.
//! 2. The file appears at the target whole, by one publish, and only while the lease is confirmed.
//! 3. `file.delivered` is one event however often it is recorded: its id follows from job and step.
//! 4. A later attempt first looks whether that event is known, then whether the target already
//!    has these very bytes; only otherwise it writes.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::BytesMut;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::event::FileFact;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::{DeliverSpec, Existing};
use entrepot_nouns::{
    Digests, Displaced, Endpoint, Fact, StorePath, Timestamp, TransferId, TransferState, crash,
};
use entrepot_storage::{AnyStore, Publish, StagedFile, StoreError, make_directories_above};

use super::{Expected, Input, Step, StepError, fetch, source};
use crate::foresight::{Foresee, Foreseen, Foresight, InputFile};
use crate::ids::{self, StepKey};
use crate::limits::{BLOCK_BYTES, LEASES_SEARCHED};
use crate::meters::Meters;
use crate::pause::Pause;
use crate::run::Run;
use crate::{pattern, rules};

/// One delivery under way.
struct Delivery {
    key: StepKey,
    transfer: TransferId,
    endpoint: Stored<Endpoint>,
    store: AnyStore,
    target: StorePath,
    existing: Existing,
    started_at: Timestamp,
}

/// What is at the target now.
struct Delivered {
    size: u64,
    digests: Digests,
    identity: Option<String>,
    displaced: Option<Displaced>,
}

#[async_trait]
impl Step for DeliverSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let target = pattern::store_path(&self.path, run.values())?;
        let endpoint = run.endpoint(&self.endpoint).await?;
        let transfer = ids::delivery(run.job.id, key);
        let recorded = run.again() && is_recorded(run, transfer).await?;
        let store = match run.shared.file_access.store(&endpoint).await {
            Err(_) if recorded => return Ok(()),
            store => store?,
        };
        let cleared = if run.again() {
            discard_earlier(run, key, Aim { store: &store, target: &target }).await?
        } else {
            Ok(())
        };
        if recorded {
            return Ok(());
        }
        let started_at = run.shared.recorder.env().now();
        let (key, existing) = (key.clone(), self.existing);
        let delivery = Delivery { key, transfer, endpoint, store, target, existing, started_at };
        cleared.map_err(|error| delivery.failed(&error))?;
        let delivered = match delivery.found(run).await? {
            Some(delivered) => {
                run.shared.meters.deliveries_found.fetch_add(1, Ordering::Relaxed);
                delivered
            }
            None => delivery.write(run).await?,
        };
        delivery.record(run, delivered).await
    }
}

#[async_trait]
impl Foresee for DeliverSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let target = pattern::store_path(&self.path, foresight.values())?;
        let endpoint = foresight.endpoint(&self.endpoint).await?;
        let found = foresight.look_at_endpoint(&endpoint, &target).await;
        let InputFile { file, open } = foresight.input()?;
        let name = self.endpoint.as_str();
        let what = format!("copies {file} to '{target}' at endpoint '{name}'");
        let (there, unseen) = match (found, self.existing) {
            (LookedFor::Nothing, _) => (", where nothing is", None),
            (LookedFor::File { .. }, Existing::Refuse) => {
                return Err(StepError::refused(name, target.as_str()));
            }
            (LookedFor::File { .. }, Existing::Replace) => (" in place of the file there", None),
            (LookedFor::Directory, _) => {
                let error = &StoreError::IsDirectory;
                return Err(StepError::at_endpoint(name, target.as_str(), error));
            }
            (LookedFor::Unknown { why }, _) => ("", Some(why)),
        };
        let what = format!("{what}{there}");
        Ok(Foreseen { what, result: None, open: unseen.or(open) })
    }
}

/// Whether the database knows that this delivery was made.
async fn is_recorded(run: &Run<'_>, transfer: TransferId) -> Result<bool, StepError> {
    let (db, site) = (&run.shared.db, run.job.site);
    let known = run.hold.insist(|| db.transfer(site, transfer)).await?;
    Ok(known.is_some_and(|known| known.state == TransferState::Completed))
}

/// What the target must have if an earlier attempt has written it.
async fn expected(run: &mut Run<'_>) -> Result<Expected, StepError> {
    let known = Expected::of(&run.job.event).filter(Expected::has_digest);
    if let (Some(expected), None) = (known, &run.noted.file) {
        return Ok(expected);
    }
    Input::open(run).await?.described(run).await
}

/// Where a delivery goes.
struct Aim<'a> {
    store: &'a AnyStore,
    target: &'a StorePath,
}

/// Discards what earlier leases left staged, also on other nodes. A store that does not show all it
/// has is left to the sweeper.
async fn discard_earlier(
    run: &Run<'_>,
    key: &StepKey,
    Aim { store, target }: Aim<'_>,
) -> Result<Result<(), StoreError>, StepError> {
    let earlier = (1..run.job.epoch).rev().take(LEASES_SEARCHED);
    let earlier: Vec<TransferId> = earlier.map(|epoch| ids::staging(run.job, key, epoch)).collect();
    // Leases that ended in good order left nothing.
    if run.job.attempts > 1 || run.job.repeated || run.job.life() > 0 {
        earlier.iter().for_each(|id| store.may_be_staged(*id, target));
    }
    let staged = match run.hold.waiting(store.staged()).await? {
        Err(StoreError::Denied(_) | StoreError::Unsupported(_)) => return Ok(Ok(())),
        Err(error) => return Ok(Err(error)),
        Ok(staged) => staged,
    };
    for file in staged.iter().filter(|file| earlier.contains(&file.id)) {
        if let Err(error) = run.hold.waiting(store.discard_staged(file.id)).await? {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

impl Delivery {
    fn failed(&self, error: &StoreError) -> StepError {
        let name = self.endpoint.noun.name.as_str();
        StepError::at_endpoint(name, self.target.as_str(), error)
    }

    fn refused(&self) -> StepError {
        StepError::refused(self.endpoint.noun.name.as_str(), self.target.as_str())
    }

    /// What an earlier attempt published without living to say so. On the first attempt nothing
    /// of ours can be there, and any file counts as another's.
    async fn found(&self, run: &mut Run<'_>) -> Result<Option<Delivered>, StepError> {
        if !run.again() && self.existing == Existing::Replace {
            return Ok(None);
        }
        let meta = match run.hold.waiting(self.store.stat(&self.target)).await? {
            Err(StoreError::NotFound) => return Ok(None),
            other => other.map_err(|error| self.failed(&error))?,
        };
        let refuse = || match self.existing {
            Existing::Replace => Ok(None),
            Existing::Refuse => Err(self.refused()),
        };
        if !run.again() {
            return refuse();
        }
        let expected = expected(run).await?;
        if meta.size != expected.size {
            return refuse();
        }
        let opened = run.hold.waiting(self.store.open(&self.target)).await?;
        let file = opened.map_err(|error| self.failed(&error))?;
        let digests = source::digest_at_endpoint(run, file.as_ref(), Some(expected)).await?;
        let digests = digests.map_err(|error| self.failed(&error))?;
        if !expected.is(meta.size, &digests) {
            return refuse();
        }
        let identity = meta.identity.map(|identity| identity.0);
        Ok(Some(Delivered { size: meta.size, digests, identity, displaced: None }))
    }

    /// Writes anew: hidden, whole, synced, then visible.
    async fn write(&self, run: &mut Run<'_>) -> Result<Delivered, StepError> {
        let input = Input::open(run).await?;
        run.reached(Pause::SourceOpen)?;
        self.make_directories(run).await?;
        let own = ids::staging(run.job, &self.key, run.job.epoch);
        let staging = self.store.stage(own, &self.target);
        let staged = run.hold.waiting(staging).await?.map_err(|error| self.failed(&error))?;
        crash::point("delivery.staged");
        run.reached(Pause::Staged)?;
        let delivered = self.fill_and_publish(run, &input, staged.as_ref()).await;
        if let Err(StepError::Transient { .. } | StepError::Permanent { .. } | StepError::Lost) =
            delivered
        {
            // Best effort: the next attempt discards it too, and the sweeper after all.
            let _ = staged.discard().await;
        }
        let delivered = delivered?;
        if let Some(verified) = input.verified() {
            run.verified = Some(verified);
        }
        Ok(delivered)
    }

    async fn fill_and_publish(
        &self,
        run: &Run<'_>,
        input: &Input,
        staged: &dyn StagedFile,
    ) -> Result<Delivered, StepError> {
        let digests = self.copy(run, input, staged).await?;
        let size = input.source.size();
        input.check(size, &digests)?;
        if !run.hold.waiting(input.source.is_as_opened()).await?? {
            return Err(input.changed());
        }
        run.reached(Pause::Written)?;
        let synced = run.hold.waiting(staged.sync()).await?;
        synced.map_err(|error| self.failed(&error))?;
        crash::point("delivery.synced");
        run.reached(Pause::Synced)?;
        // From here on as an upload of a session: one change of a name at a time, and counted.
        let holding = run.shared.file_access.hold_name(&self.endpoint, &self.target, size);
        let held = run.hold.waiting(holding).await??;
        run.hold.fence().await?;
        let existing = self.existing.into();
        let how = Publish { existing, accessed: None, modified: None, mode: None, size };
        let published = match (staged.publish(&how).await, self.existing) {
            (Err(StoreError::Exists), Existing::Refuse) => return Err(self.refused()),
            (published, _) => published.map_err(|error| self.failed(&error))?,
        };
        if let Some(held) = held {
            held.published();
        }
        crash::point("delivery.published");
        run.reached(Pause::Published)?;
        let identity = published.identity.map(|identity| identity.0);
        Ok(Delivered { size, digests, identity, displaced: published.displaced })
    }

    /// Copies with two buffers: one is written while the other is filled.
    async fn copy(
        &self,
        run: &Run<'_>,
        input: &Input,
        staged: &dyn StagedFile,
    ) -> Result<Digests, StepError> {
        let source = &input.source;
        let mut digest = Expected::digest(input.expected);
        let mut spare = BytesMut::with_capacity(BLOCK_BYTES);
        let first = source.read_at(0, BytesMut::with_capacity(BLOCK_BYTES), BLOCK_BYTES);
        let mut block = run.hold.waiting(first).await??.freeze();
        while !block.is_empty() {
            let offset = digest.length();
            digest.update(&block);
            if digest.length() > source.size() {
                break;
            }
            let next = source.read_at(digest.length(), spare, BLOCK_BYTES);
            let both = async { tokio::join!(staged.write_at(offset, block.clone()), next) };
            let (written, read) = run.hold.waiting(both).await?;
            written.map_err(|error| self.failed(&error))?;
            Meters::add(&run.shared.meters.delivery_bytes, block.len() as u64);
            run.reached(Pause::BlockWritten)?;
            // The store is done with the block; if it kept no part of it, its room is used again.
            spare = block.try_into_mut().unwrap_or_default();
            spare.clear();
            spare.reserve(BLOCK_BYTES);
            block = read?.freeze();
        }
        if digest.length() != source.size() {
            return Err(input.changed());
        }
        Ok(digest.finish())
    }

    /// Makes the directories above the target that are not there.
    async fn make_directories(&self, run: &Run<'_>) -> Result<(), StepError> {
        let Some(parent) = self.target.parent().filter(|parent| !parent.is_root()) else {
            return Ok(());
        };
        if !self.store.caps().directories || self.store.stat(&parent).await.is_ok() {
            return Ok(());
        }
        run.hold.fence().await?;
        let made = make_directories_above(&self.store, &self.target).await;
        made.map_err(|error| self.failed(&error))
    }

    /// `file.delivered`, once; durable when this returns.
    async fn record(&self, run: &Run<'_>, delivered: Delivered) -> Result<(), StepError> {
        let protocol = fetch::protocol(&self.endpoint.noun.target);
        let file = FileFact {
            transfer: self.transfer,
            path: self.target.to_string(),
            size: delivered.size,
            digests: delivered.digests,
            protocol,
            started_at: self.started_at,
            identity: delivered.identity,
            displaced: delivered.displaced,
            temporary: false,
            as2: None,
        };
        let endpoint = self.endpoint.noun.name.clone();
        let fact = Fact::FileDelivered { file, endpoint, rule: run.job.rule.clone() };
        let mut scope = rules::caused_by(&run.job.event);
        scope.job = Some(run.job.id);
        let mut event = run.shared.recorder.event(&scope, fact);
        event.id = ids::told_by_step(run.job.id, "delivered", &self.key);
        run.seal(&event).await?;
        Meters::add(&run.shared.meters.deliveries, 1);
        crash::point("delivery.recorded");
        run.reached(Pause::Recorded)
    }
}
