//! One suite for every kind of store. A new kind is one line in `kinds`.

mod kinds;
mod modes;
mod names;
mod objects;
mod publish;
mod requests;
mod write;

pub(crate) use kinds::{at_url, each, on_server, on_server_with};

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use entrepot_nouns::{Env, StorePath, TransferId};
use entrepot_storage::*;

pub(crate) fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

/// A new transfer id.
pub(crate) fn id() -> TransferId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    TransferId(uuid::Uuid::from_u128(u128::from(NEXT.fetch_add(1, Ordering::SeqCst))))
}

pub(crate) fn env() -> Env {
    Env::real()
}

pub(crate) fn how(existing: Existing, size: usize) -> Publish {
    Publish { existing, accessed: None, modified: None, mode: None, size: size as u64 }
}

/// Bytes that differ everywhere and by seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Env::simulated(seed).fill_random(&mut bytes);
    bytes
}

/// Writes as an adapter does: inline if it goes, else awaited.
pub(crate) async fn write(file: &dyn StagedFile, offset: u64, data: &[u8]) -> Result<()> {
    if file.try_write_at(offset, data)? {
        return Ok(());
    }
    file.write_at(offset, Bytes::copy_from_slice(data)).await
}

pub(crate) async fn put_as(
    store: &dyn Store,
    name: &str,
    data: &[u8],
    existing: Existing,
) -> Result<Published> {
    let file = store.stage(id(), &path(name)).await?;
    write(&*file, 0, data).await?;
    file.sync().await?;
    let published = file.publish(&how(existing, data.len())).await;
    if published.is_err() {
        file.discard().await?;
    }
    published
}

pub(crate) async fn put(store: &dyn Store, name: &str, data: &[u8]) -> Result<Published> {
    put_as(store, name, data, Existing::Replace).await
}

/// Reads a whole file both ways and compares them.
pub(crate) async fn get(store: &dyn Store, name: &str) -> Result<Vec<u8>> {
    let file = store.open(&path(name)).await?;
    let size = usize::try_from(file.meta().size).unwrap();
    let mut all = BytesMut::new();
    while all.len() < size {
        let before = all.len();
        all = file.read_at(before as u64, all, 100_000).await?;
        assert!(all.len() > before, "a short read before the end");
    }
    let end = file.read_at(size as u64, BytesMut::new(), 10).await?;
    assert!(end.is_empty(), "bytes after the end");
    for far in [i64::MAX as u64 + 1, u64::MAX] {
        let nothing = file.read_at(far, BytesMut::new(), 10).await?;
        assert!(nothing.is_empty(), "bytes at offset {far}");
        let tried = file.try_read_at(far, &mut [0; 10])?;
        assert!(tried.is_none_or(|count| count == 0), "bytes at offset {far}");
    }
    let mut tried = vec![0; size + 7];
    if let Some(count) = file.try_read_at(0, &mut tried)? {
        assert_eq!(tried.get(..count).unwrap(), &all[..], "try_read_at differs from read_at");
    }
    Ok(all.to_vec())
}

/// The sorted names of a directory, listed in pages of `page`.
pub(crate) async fn names(store: &dyn Store, dir: &str, page: usize) -> Result<Vec<String>> {
    let mut listing = store.list(&path(dir)).await?;
    let mut names = Vec::new();
    loop {
        let entries = listing.next_page(page).await?;
        if entries.is_empty() {
            break;
        }
        assert!(entries.len() <= page, "a page of {} instead of {page}", entries.len());
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
    names.sort();
    Ok(names)
}
