//! Renaming: a file is copied, then its old name is removed; a directory goes object by object
//! ([`super::folder`]).

use entrepot_nouns::{Displaced, StorePath};
use object_store::{CopyMode, CopyOptions};

use super::bucket::Bucket;
use super::errors::store_error;
use super::folder;
use crate::error::{Result, StoreError};
use crate::store::{Existing, Renamed};

/// Renames a file or a directory.
pub(super) async fn rename(
    bucket: &Bucket,
    from: &StorePath,
    to: &StorePath,
    existing: Existing,
) -> Result<Renamed> {
    let object = match bucket.file(from).await {
        Err(StoreError::IsDirectory) => {
            rename_directory(bucket, from, to).await?;
            return Ok(Renamed::default());
        }
        other => other?.0,
    };
    let displaced = match bucket.file(to).await {
        Ok(_) if existing == Existing::Refuse => return Err(StoreError::Exists),
        Ok((_, identity)) => Some(Displaced { identity: identity.map(|identity| identity.0) }),
        Err(StoreError::NotFound) => None,
        Err(error) => return Err(error),
    };
    if from == to {
        return Ok(Renamed::default());
    }
    folder::check_copy(bucket, &object)?;
    let (source, target) = (bucket.key(from)?, bucket.key(to)?);
    let _beside = bucket.moves.read().await;
    bucket.running.check(&source)?;
    bucket.running.check(&target)?;
    let options = CopyOptions { mode: CopyMode::Overwrite, ..CopyOptions::default() };
    let copied = bucket.backend.objects.copy_opts(&source, &target, options).await;
    copied.map_err(store_error)?;
    bucket.hold_directory(from.parent()).await?;
    bucket.delete(&source).await?;
    Ok(Renamed { displaced })
}

async fn rename_directory(bucket: &Bucket, from: &StorePath, to: &StorePath) -> Result<()> {
    if from.is_root() {
        return Err(StoreError::Denied("this is the root of the endpoint".to_owned()));
    }
    if from == to {
        return Ok(());
    }
    // Once before anybody is kept from changing something there.
    bucket.check_free(to).await?;
    if to.as_str().strip_prefix(from.as_str()).is_some_and(|rest| rest.starts_with('/')) {
        let why = "a directory cannot be moved into itself";
        return Err(StoreError::Denied(why.to_owned()));
    }
    let _claim = bucket.running.begin(&bucket.folder(from)?, &bucket.folder(to)?)?;
    // Those who did not see it yet end first.
    drop(bucket.moves.write().await);
    bucket.check_free(to).await?;
    folder::rename(bucket, from, to).await
}
