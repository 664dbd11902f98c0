//! Files kept in memory until the process ends: the directory store over a disk in memory.

use std::sync::Arc;

use entrepot_nouns::Env;
use entrepot_nouns::endpoint::MemoryTarget;

use crate::error::Result;
use crate::fs::Fs;
use crate::limits::MEMORY_BYTES;
use crate::ram::RamDisk;
use crate::store::AnyStore;

/// A new, empty store in memory; [`crate::StoreError::NoSpace`] when its size is used up.
/// A file counts its length, holes too.
///
/// # Errors
/// None in practice; the type is that of every kind.
pub fn open(target: &MemoryTarget, env: &Env) -> Result<AnyStore> {
    let disk = RamDisk::new(target.size_bytes.unwrap_or(MEMORY_BYTES), env);
    Ok(Arc::new(Fs::new(disk, env.clone())?))
}
