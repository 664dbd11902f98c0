//! What nobody wrote of a file is not read back to be hashed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::endpoint::MemoryTarget;
use entrepot_nouns::{StorePath, Timestamp, TransferId};
use entrepot_storage::fault::SimDisk;
use entrepot_storage::{
    AnyStore, Caps, Existing, Identity, Listing, Meta, Publish, Published, ReadFile, Renamed,
    Result, Space, Staged, StagedFile, Store,
};

use super::{CONTINUE, How, NEW, World, digest, name, path, put, read, write};

/// A store in memory that counts the bytes that are read back of its staged files.
struct Counting {
    store: AnyStore,
    read: Arc<AtomicU64>,
}

struct File {
    file: Box<dyn StagedFile>,
    read: Arc<AtomicU64>,
}

#[async_trait]
impl Store for Counting {
    fn caps(&self) -> Caps {
        self.store.caps()
    }
    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        self.store.stat(path).await
    }
    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        self.store.list(path).await
    }
    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        self.store.open(path).await
    }
    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        let file = self.store.stage(id, target).await?;
        Ok(Box::new(File { file, read: Arc::clone(&self.read) }))
    }
    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        self.store.resume(id, target).await
    }
    async fn staged(&self) -> Result<Vec<Staged>> {
        self.store.staged().await
    }
    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        self.store.discard_staged(id).await
    }
    async fn remove(&self, path: &StorePath) -> Result<()> {
        self.store.remove(path).await
    }
    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        self.store.make_directory(path).await
    }
    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        self.store.remove_directory(path).await
    }
    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        self.store.rename(from, to, existing).await
    }
    async fn set_times(
        &self,
        path: &StorePath,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        self.store.set_times(path, accessed, modified).await
    }
    async fn space(&self) -> Result<Space> {
        self.store.space().await
    }
}

#[async_trait]
impl StagedFile for File {
    fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }
    fn size(&self) -> u64 {
        self.file.size()
    }
    fn try_write_at(&self, offset: u64, data: &[u8]) -> Result<bool> {
        self.file.try_write_at(offset, data)
    }
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        self.file.write_at(offset, data).await
    }
    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        let before = buf.len();
        let buf = self.file.read_at(offset, buf, len).await?;
        self.read.fetch_add((buf.len() - before) as u64, Ordering::Relaxed);
        Ok(buf)
    }
    async fn set_len(&self, size: u64) -> Result<()> {
        self.file.set_len(size).await
    }
    async fn sync(&self) -> Result<()> {
        self.file.sync().await
    }
    async fn publish(&self, how: &Publish) -> Result<Published> {
        self.file.publish(how).await
    }
    async fn discard(&self) -> Result<()> {
        self.file.discard().await
    }
}

#[tokio::test]
async fn holes_are_hashed_as_zeros_and_not_read() {
    const MIB: u64 = 1 << 20;
    let world = World::new().await;
    let store = entrepot_storage::memory::open(&MemoryTarget::default(), &world.env).unwrap();
    let counter = Arc::new(AtomicU64::new(0));
    let counting = Counting { store, read: Arc::clone(&counter) };
    let stores: HashMap<_, AnyStore> = HashMap::from([(name("files"), Arc::new(counting) as _)]);
    let disk = SimDisk::new(&world.env);
    let node = world.start_on(&disk, &How::default(), stores).await.unwrap();
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let pieces = [(0, 5), (3 * MIB - 2, 9), (11 * MIB, 70_000), (20 * MIB + 1, 1)];
    for (last, grown) in [(4, 0), (3, 9 * MIB), (1, 2 * MIB), (2, 0)] {
        let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
        let mut whole = Vec::new();
        for (offset, len) in &pieces[..last] {
            let bytes = vec![7; *len];
            write(&mut upload, *offset, &bytes).await.unwrap();
            whole.resize(*offset as usize, 0);
            whole.extend(bytes);
        }
        if grown > 0 {
            upload.set_len(whole.len() as u64 + grown).await.unwrap();
            whole.resize(whole.len() + grown as usize, 0);
        }
        counter.store(0, Ordering::Relaxed);
        let uploaded = upload.finish().await.unwrap();
        assert_eq!(uploaded.digests.blake3, Some(digest(&whole)), "{last} pieces");
        let back = counter.load(Ordering::Relaxed);
        assert!(back <= 70_010, "{back} bytes were read back of {}", whole.len());
        assert!(read(vfs, "/f").await.unwrap() == whole);
    }
    // What lies over an older file is no hole.
    put(vfs, "/g", &[1; 5_000_000]).await.unwrap();
    let mut over = vfs.create(&path("/g"), CONTINUE).await.unwrap();
    write(&mut over, 9_000_000, b"end").await.unwrap();
    let uploaded = over.finish().await.unwrap();
    let whole = [vec![1; 5_000_000], vec![0; 4_000_000], b"end".to_vec()].concat();
    assert_eq!(uploaded.digests.blake3, Some(digest(&whole)));
}
