//! Stores that take bytes only in order: a bounded window puts them so, or the write is refused.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::endpoint::MemoryTarget;
use entrepot_nouns::{StorePath, Timestamp, TransferId};
use entrepot_storage::fault::SimDisk;
use entrepot_storage::{
    AnyStore, Caps, Existing, Identity, Listing, Meta, Publish, Published, ReadFile, Renamed,
    Result, Space, Staged, StagedFile, Store, StoreError,
};

use super::{CONTINUE, How, NEW, World, content, digest, name, path, put, read, write};
use crate::{VfsError, limits};

/// A store in memory that is as particular as a bucket.
struct InOrder(AnyStore);

struct File(Box<dyn StagedFile>);

#[async_trait]
impl Store for InOrder {
    fn caps(&self) -> Caps {
        Caps {
            random_write: false,
            resume: false,
            local: false,
            durable_staging: false,
            ..self.0.caps()
        }
    }
    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        self.0.stat(path).await
    }
    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        self.0.list(path).await
    }
    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        self.0.open(path).await
    }
    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        Ok(Box::new(File(self.0.stage(id, target).await?)))
    }
    async fn resume(&self, _: TransferId, _: &StorePath) -> Result<Box<dyn StagedFile>> {
        Err(StoreError::Unsupported("resuming"))
    }
    async fn staged(&self) -> Result<Vec<Staged>> {
        self.0.staged().await
    }
    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        self.0.discard_staged(id).await
    }
    async fn remove(&self, path: &StorePath) -> Result<()> {
        self.0.remove(path).await
    }
    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        self.0.make_directory(path).await
    }
    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        self.0.remove_directory(path).await
    }
    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        self.0.rename(from, to, existing).await
    }
    async fn set_times(
        &self,
        _: &StorePath,
        _: Option<Timestamp>,
        _: Option<Timestamp>,
    ) -> Result<()> {
        Err(StoreError::Unsupported("times"))
    }
    async fn space(&self) -> Result<Space> {
        self.0.space().await
    }
}

#[async_trait]
impl StagedFile for File {
    fn identity(&self) -> Option<Identity> {
        self.0.identity()
    }
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn try_write_at(&self, _: u64, _: &[u8]) -> Result<bool> {
        Ok(false)
    }
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        if offset != self.0.size() {
            return Err(StoreError::Unsupported("a write out of order"));
        }
        self.0.write_at(offset, data).await
    }
    async fn read_at(&self, _: u64, _: BytesMut, _: usize) -> Result<BytesMut> {
        Err(StoreError::Unsupported("reading back"))
    }
    async fn set_len(&self, _: u64) -> Result<()> {
        Err(StoreError::Unsupported("cutting"))
    }
    async fn sync(&self) -> Result<()> {
        self.0.sync().await
    }
    async fn publish(&self, how: &Publish) -> Result<Published> {
        self.0.publish(how).await
    }
    async fn discard(&self) -> Result<()> {
        self.0.discard().await
    }
}

#[tokio::test]
async fn writes_come_in_order_or_are_refused() {
    let world = World::new().await;
    let memory = entrepot_storage::memory::open(&MemoryTarget::default(), &world.env).unwrap();
    let store: AnyStore = Arc::new(InOrder(memory));
    let stores = HashMap::from([(name("files"), store.clone())]);
    let disk = SimDisk::new(&world.env);
    let node = world.start_on(&disk, &How::default(), stores).await.unwrap();
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let whole = content(1, 60_000);
    let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
    for at in [1, 0, 3, 5, 4, 2] {
        write(&mut upload, at * 10_000, &whole[at as usize * 10_000..][..10_000]).await.unwrap();
    }
    let uploaded = upload.finish().await.unwrap();
    assert_eq!(uploaded.digests.blake3, Some(digest(&whole)));
    assert_eq!(read(vfs, "/f").await.unwrap(), whole);

    let mut twice = vfs.create(&path("/f"), NEW).await.unwrap();
    write(&mut twice, 0, b"once").await.unwrap();
    assert_eq!(write(&mut twice, 2, b"again").await, Err(VfsError::Unsupported));
    assert_eq!(twice.finish().await, Err(VfsError::Unsupported));
    let mut hole = vfs.create(&path("/h"), NEW).await.unwrap();
    write(&mut hole, 10, b"behind a hole").await.unwrap();
    // What nobody wrote is zeros, as everywhere.
    hole.finish().await.unwrap();
    assert!(read(vfs, "/h").await.unwrap() == [&[0; 10][..], b"behind a hole"].concat());
    let mut far = vfs.create(&path("/f"), NEW).await.unwrap();
    let block = vec![0; 1 << 20];
    let mut at = 1u64 << 20;
    while write(&mut far, at, &block).await.is_ok() {
        at += 1 << 20;
    }
    assert_eq!(at >> 20, 17, "the window holds 16 MiB");
    drop(far);
    assert_eq!(read(vfs, "/f").await.unwrap(), whole, "the old version stays");

    // What lies before the place where a client goes on, and behind its last byte, is copied.
    let mut tail = vfs.create(&path("/f"), CONTINUE).await.unwrap();
    write(&mut tail, 40_000, b"changed").await.unwrap();
    write(&mut tail, 50_000, b"here too").await.unwrap();
    let uploaded = tail.finish().await.unwrap();
    let mut wanted = whole.clone();
    wanted[40_000..40_007].copy_from_slice(b"changed");
    wanted[50_000..50_008].copy_from_slice(b"here too");
    assert_eq!((uploaded.size, uploaded.digests.blake3), (60_000, Some(digest(&wanted))));
    assert!(read(vfs, "/f").await.unwrap() == wanted);
    let mut cut = vfs.create(&path("/f"), CONTINUE).await.unwrap();
    write(&mut cut, 0, b"short").await.unwrap();
    cut.set_len(5).await.unwrap();
    cut.finish().await.unwrap();
    assert!(read(vfs, "/f").await.unwrap() == b"short");
    let mut far = vfs.create(&path("/f"), NEW).await.unwrap();
    write(&mut far, limits::HOLE_BYTES + 1, b"x").await.unwrap();
    assert!(matches!(far.finish().await, Err(VfsError::Quota { .. })));
    let mut again = vfs.create(&path("/f"), CONTINUE).await.unwrap();
    write(&mut again, 0, &whole[..20_000]).await.unwrap();
    write(&mut again, 20_000, &whole[20_000..]).await.unwrap();
    assert!(again.finish().await.unwrap().replaced);
    put(vfs, "/g", b"more").await.unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(store.staged().await.unwrap().is_empty());
}
