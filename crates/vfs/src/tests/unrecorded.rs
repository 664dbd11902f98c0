//! Uploads that have their name when the journal takes no record of it any more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_journal::RecordKind;
use entrepot_storage::AnyStore;
use entrepot_storage::fault::{
    DiskCall, Fault, FaultStore, SimDisk, SimError, SimStore, StoreCall,
};

use super::{How, NEW, Node, World, content, name, path, put, read, write};
use crate::{Create, CreateIntent, Result, Uploaded, VfsError};

const RESUME: Create = Create { intent: CreateIntent::Resume, ..NEW };

/// A node whose files lie behind a store that can be told to fail.
struct Bench {
    world: World,
    own: SimDisk,
    store: AnyStore,
    faulty: FaultStore,
    node: Node,
}

impl Bench {
    async fn new(before: Option<&[u8]>) -> Bench {
        let world = World::new().await;
        let own = SimDisk::new(&world.env);
        let store = SimStore::open_in(&SimDisk::new(&world.env), "files", &world.env).unwrap();
        let faulty = FaultStore::new(store.clone());
        let node = start(&world, &own, Arc::new(faulty.clone())).await;
        if let Some(old) = before {
            let session = world.session(&node, "alice").await;
            put(session.vfs(), "/f", old).await.unwrap();
            session.close("done", 0, 0).await;
        }
        Bench { world, own, store, faulty, node }
    }

    /// Sends a file; between its intent and its record `meanwhile` happens to the journal.
    async fn send(&self, bytes: &[u8], meanwhile: impl AsyncFnOnce(&Bench)) -> Result<Uploaded> {
        let session = self.world.session(&self.node, "alice").await;
        let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
        write(&mut upload, 0, bytes).await.unwrap();
        let publishes =
            || self.faulty.log().iter().filter(|call| **call == StoreCall::Publish).count();
        let before = publishes();
        self.faulty.fail(Some(StoreCall::Publish), 1, Fault::Delay(Duration::from_secs(60)));
        let finish = tokio::spawn(upload.finish());
        while publishes() == before {
            tokio::task::yield_now().await;
        }
        meanwhile(self).await;
        let sent = finish.await.unwrap();
        session.close("done", 0, 0).await;
        sent
    }

    /// What everybody sees under the name.
    async fn seen(&self) -> Option<Vec<u8>> {
        let session = self.world.session(&self.node, "bob").await;
        read(session.vfs(), "/f").await.ok()
    }

    /// The same node, started again.
    async fn again(self) -> Bench {
        let Bench { world, own, store, faulty, node } = self;
        node.service.stop().await;
        // A journal that is not well cannot end in good order.
        let _ = node.journal.close().await;
        drop(node);
        let node = start(&world, &own, store.clone()).await;
        Bench { world, own, store, faulty, node }
    }
}

async fn start(world: &World, own: &SimDisk, store: AnyStore) -> Node {
    let stores = HashMap::from([(name("files"), store.clone())]);
    let how = How { journal_bytes: 64 * 1024, ..How::default() };
    let mut node = world.start_on(own, &how, stores).await.unwrap();
    node.files = Some(store);
    node
}

async fn fill(bench: &Bench) {
    while bench.node.journal.append(RecordKind::Closed, &[b'x'; 200]).is_ok() {}
}

async fn fail_its_disk(bench: &Bench) {
    bench.own.fail(Some(DiskCall::SyncFile), 1, SimError::Io);
    assert!(bench.node.journal.append_durable(RecordKind::Closed, b"x").await.is_err());
}

const BEFORE: [Option<&[u8]>; 2] = [None, Some(b"old")];

#[tokio::test(start_paused = true)]
async fn a_full_journal_takes_the_name_back_and_the_upload_goes_on_when_there_is_room() {
    for before in BEFORE {
        let bench = Bench::new(before).await;
        let whole = content(1, 50_000);
        assert_eq!(bench.send(&whole, fill).await, Err(VfsError::NoRecord));
        assert_eq!(bench.seen().await.as_deref(), before, "visible without a record");
        let last = bench.node.journal.usage().appended;
        bench.node.journal.sync(last).await.unwrap();
        bench.node.journal.release(last).unwrap();
        let session = bench.world.session(&bench.node, "alice").await;
        let upload = session.vfs().create(&path("/f"), RESUME).await.unwrap();
        assert_eq!(upload.size(), 50_000);
        let sent = upload.finish().await.unwrap();
        assert_eq!(sent.replaced, before.is_some());
        assert_eq!(bench.seen().await, Some(whole));
        assert_eq!(bench.node.staged().await, 0);
        drop(session);
        // Its first intent came to nothing, and is not taken for the second one.
        let bench = bench.again().await;
        let arrivals = bench.node.arrivals().await;
        assert_eq!(arrivals.iter().filter(|file| file.transfer == sent.transfer).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_is_not_well_takes_the_name_back() {
    for before in BEFORE {
        let bench = Bench::new(before).await;
        let sent = bench.send(&content(1, 50_000), fail_its_disk).await;
        assert!(matches!(sent, Err(VfsError::Busy { .. })), "{sent:?}");
        assert_eq!(bench.seen().await.as_deref(), before, "visible without a record");
        let bench = bench.again().await;
        assert_eq!((bench.node.report.unpublished, bench.node.report.recovered), (1, 0));
        assert_eq!(bench.seen().await.as_deref(), before);
        let session = bench.world.session(&bench.node, "alice").await;
        let upload = session.vfs().create(&path("/f"), super::CONTINUE).await.unwrap();
        let kept = if before.is_none() { 50_000 } else { 3 };
        assert_eq!(upload.size(), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_back_is_recorded_by_the_next_start() {
    for before in BEFORE {
        let bench = Bench::new(before).await;
        bench.faulty.fail(Some(StoreCall::TakeBack), 1, Fault::Io);
        let whole = content(1, 50_000);
        assert!(bench.send(&whole, fail_its_disk).await.is_err());
        assert_eq!(bench.seen().await.as_ref(), Some(&whole));
        let bench = bench.again().await;
        assert_eq!(bench.node.report.recovered, 1);
        assert_eq!(bench.seen().await, Some(whole));
        assert_eq!(bench.node.staged().await, 0);
    }
}
