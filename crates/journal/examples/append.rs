//! How long appending takes: `cargo run --release -p entrepot-journal --example append DIR`.

use std::time::{Duration, Instant};

use entrepot_journal::{Journal, Options, RecordKind};
use entrepot_nouns::Env;

#[tokio::main]
async fn main() {
    let dir = std::env::args().nth(1).expect("give a directory, on the disk to be measured");
    let dir = std::path::Path::new(&dir).join("journal-bench");
    let node = "bench".parse().expect("a name");
    let options = Options { limit_bytes: 1 << 40, ..Options::default() };
    let (journal, _) = Journal::open(&dir, &node, Env::real(), options).expect("opens");
    let payload = vec![b'x'; 450];
    let (mut last, mut busy) = (0, Duration::ZERO);
    const COUNT: u32 = 200_000;
    for round in 0..COUNT / 1000 {
        let started = Instant::now();
        for _ in 0..1000 {
            last = journal.append(RecordKind::Event, &payload).expect("appends");
        }
        busy += started.elapsed();
        if round % 10 == 9 {
            journal.sync(last).await.expect("syncs");
        }
    }
    println!("append, 450 bytes: {:.2} us", busy.as_secs_f64() * 1e6 / f64::from(COUNT));
    for tasks in [1, 16, 256] {
        let (syncs, started) = (journal.meters().syncs(), Instant::now());
        let mut group = tokio::task::JoinSet::new();
        let each = 20_000 / tasks;
        for _ in 0..tasks {
            let (journal, payload) = (journal.clone(), payload.clone());
            group.spawn(async move {
                for _ in 0..each {
                    journal.append_durable(RecordKind::Intent, &payload).await.expect("appends");
                }
            });
        }
        group.join_all().await;
        let rate = f64::from(each * tasks) / started.elapsed().as_secs_f64();
        let syncs = journal.meters().syncs() - syncs;
        println!("durable, {tasks} tasks: {rate:.0} records/s, {syncs} syncs");
    }
    journal.close().await.expect("closes");
    std::fs::remove_dir_all(&dir).expect("removes");
}
