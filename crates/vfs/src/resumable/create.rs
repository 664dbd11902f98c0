//! The beginning of an upload that is continued by id.

use std::time::Duration;

use entrepot_crypto::HashAlgorithm;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Digests, Right, Timestamp, TransferId, VPath};
use entrepot_storage::{EntryKind, StagedFile, StoreError};

use super::handle::ResumableUpload;
use super::record::{OnConflict, UploadId, UploadRecord, random};
use crate::book::KeptPartial;
use crate::error::{Result, VfsError};
use crate::limits;
use crate::notes::Partial;
use crate::place::{Last, MountedPath};
use crate::upload::may_begin;
use crate::vfs::Vfs;

/// What a client says of an upload before its first byte.
#[derive(Clone, Debug, PartialEq)]
pub struct NewResumable {
    /// Size of the whole file; `None`: it is said later, or by the finish. Needed for parts.
    pub size: Option<u64>,
    /// Bytes of each part but the last; `None`: the bytes come in order.
    pub part_bytes: Option<u64>,
    /// When the file was changed last; `None`: at the finish.
    pub modified: Option<Timestamp>,
    /// What happens when something has the name at the end.
    pub on_conflict: OnConflict,
    /// What the digests of the whole file must be, as far as the client knows them.
    pub expected: Digests,
    /// What the client wants to read again in [`ResumableStatus::metadata`]; it says nothing here.
    ///
    /// [`ResumableStatus::metadata`]: crate::ResumableStatus::metadata
    pub metadata: String,
}

/// An upload that was begun.
pub struct CreatedUpload {
    /// The upload, to be continued.
    pub upload: ResumableUpload,
    /// The secret by which the upload can be continued when the session of its owner has ended:
    /// see [`Service::open_ticket`](crate::Service::open_ticket). Not shown again.
    pub ticket: String,
}

impl Vfs {
    /// Begins an upload that is continued by id. Room for what is announced is taken at once.
    ///
    /// # Errors
    /// A right is missing, the name is taken and may not be, there is no room, the account has too
    /// many unfinished uploads, the node stops or cannot record.
    pub async fn create_resumable(&self, path: &VPath, how: NewResumable) -> Result<CreatedUpload> {
        check_parts(&how)?;
        may_begin(self)?;
        let (place, path) = self.place(path, Last::Followed).await?;
        let place = place.filter(|place| !place.is_root).ok_or(VfsError::IsDirectory)?;
        let takes_name = check_name(&place, how.on_conflict).await?;
        let (site, account) = {
            let principal = self.0.session.live.principal();
            (principal.site, principal.account.name.clone())
        };
        let plane = self.data_plane();
        if plane.book.all_by_id(site, &account).len() >= limits::UPLOADS_BY_ID {
            return Err(VfsError::TooMany { what: "unfinished uploads" });
        }
        let mut reservation = self.reservation(&place).await?;
        if takes_name {
            reservation.add_file()?;
        }
        reservation.grow_to(how.size.unwrap_or(0))?;

        let id = UploadId::new(plane.recorder.node(), &plane.env);
        let secret = hex(&random(&plane.env));
        let record = UploadRecord {
            id: id.clone(),
            size: how.size,
            part_bytes: how.part_bytes,
            present: Vec::new(),
            modified: how.modified,
            on_conflict: how.on_conflict,
            expected: how.expected,
            metadata: how.metadata,
            spooled: !is_staged_in_place(&place),
            ticket: ticket_hash(&secret),
        };
        let note = self.new_note(&path, &place, record)?;
        self.stage(&place, &note).await?;
        // Durable with the first byte that is acknowledged.
        plane.partials.keep(KeptPartial { note, reservation: Some(reservation), digest: None });
        let ticket = format!("{id}:{secret}");
        Ok(CreatedUpload { upload: self.resumable(&id), ticket })
    }

    fn new_note(&self, path: &VPath, place: &MountedPath, record: UploadRecord) -> Result<Partial> {
        let plane = self.data_plane();
        let now = plane.env.now();
        let principal = self.0.session.live.principal();
        let days = u64::from(principal.policy.partial_days);
        let transfer: TransferId = plane.env.new_id();
        Ok(Partial {
            transfer,
            site: principal.site,
            account: principal.account.name.clone(),
            path: path.clone(),
            endpoint: place.mount.endpoint.noun.name.clone(),
            mount: place.mount.mount.name.clone(),
            target: self.upload_place(place, transfer)?.path,
            protocol: self.0.protocol(),
            contiguous: 0,
            synced: 0,
            boot: plane.boot.clone(),
            started_at: now,
            at: now,
            until: now.plus(Duration::from_secs(days * 86_400)),
            ticket: None,
            digest: None,
            replaces: None,
            by_id: Some(Box::new(record)),
        })
    }

    /// Makes the hidden file that the bytes go into, under a durable name.
    async fn stage(&self, place: &MountedPath, note: &Partial) -> Result<()> {
        let _open = self.0.shares.open_file()?;
        let target = note.staged_target()?;
        let staged = if note.is_spooled() {
            let size = note.by_id.as_ref().and_then(|record| record.size).unwrap_or(0);
            let plane = self.data_plane();
            let spool = plane.stores.spool().ok_or(VfsError::Unsupported)?;
            if plane.book.spooled_bytes().saturating_add(size) > limits::SPOOL_BYTES {
                return Err(VfsError::busy("too much waits on the disk of the server already"));
            }
            spool.stage(note.transfer, &target).await?
        } else {
            place.stage(note.transfer, &target).await?
        };
        named(&*staged).await
    }
}

/// Makes the name in staging durable, or gives it up.
async fn named(staged: &dyn StagedFile) -> Result<()> {
    if let Err(error) = staged.sync_name().await {
        if let Err(error) = staged.discard().await {
            tracing::warn!(%error, "a staged file cannot be dropped");
        }
        return Err(error.into());
    }
    Ok(())
}

/// The part of a ticket that is kept: who reads the journal cannot continue an upload.
pub(super) fn ticket_hash(secret: &str) -> String {
    hex(&HashAlgorithm::Sha256.hash(secret.as_bytes()))
}

/// Whether acknowledged bytes can lie where the file is going to be.
fn is_staged_in_place(place: &MountedPath) -> bool {
    let caps = place.store.caps();
    caps.random_write && caps.resume && caps.staged_apart && caps.durable_staging
}

/// Fails if the name may not be taken; true if that makes one file more.
async fn check_name(place: &MountedPath, on_conflict: OnConflict) -> Result<bool> {
    let there = match place.store.stat(&place.path).await {
        Ok(meta) if meta.kind == EntryKind::Directory && on_conflict != OnConflict::KeepBoth => {
            return Err(VfsError::IsDirectory);
        }
        Ok(_) => true,
        Err(StoreError::NotFound) => false,
        Err(error) => return Err(error.into()),
    };
    match on_conflict {
        OnConflict::Refuse if there => Err(VfsError::Exists),
        OnConflict::Replace if there => place.need(Right::Overwrite).map(|()| false),
        OnConflict::Refuse | OnConflict::Replace | OnConflict::KeepBoth => {
            place.need(Right::Write).map(|()| true)
        }
    }
}

fn check_parts(how: &NewResumable) -> Result<()> {
    let bad = |why: String| Err(VfsError::BadPart { why });
    if how.metadata.len() > limits::UPLOAD_METADATA_BYTES {
        let most = limits::UPLOAD_METADATA_BYTES;
        return bad(format!("the metadata of an upload may have {most} bytes"));
    }
    if how.size.is_some_and(|size| size > limits::FILE_BYTES) {
        return Err(VfsError::Quota { what: "bytes a file", limit: limits::FILE_BYTES });
    }
    let Some(part_bytes) = how.part_bytes else { return Ok(()) };
    let Some(size) = how.size else {
        return bad("an upload by parts needs the size of the whole file".to_owned());
    };
    let least = limits::PART_BYTES_LEAST.max(size.div_ceil(limits::PARTS_MOST));
    if part_bytes < least {
        return bad(format!("parts of this upload must have at least {least} bytes"));
    }
    Ok(())
}
