//! Hundreds of uploads of very different sizes at once, with downloads beside them. Here a failure
//! is counted and does not end the measurement: none is the aim.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use entrepot_nouns::Env;
use entrepot_sftp_proto::OpenFlags;
use entrepot_sftp_proto::client::{Answer, Extent, NotBegun};
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;

use super::bench::SftpBench;
use super::error::BenchError;
use super::link::Link;
use crate::limits::{CONNECTING, MIXED_GROUPS_MB, MIXED_LEAST_MB, MIXED_MOST_MB};
use crate::report::{Direction, SizeGroup};

/// One file of the mix.
#[derive(Clone, Debug)]
struct Item {
    direction: Direction,
    path: String,
    /// Megabytes before they are divided.
    megabytes: u64,
    bytes: u64,
}

/// One transfer that was tried.
pub(super) struct Tried {
    item: Item,
    pub(super) time: Duration,
    pub(super) result: Result<(), BenchError>,
}

impl Tried {
    pub(super) fn bytes(&self) -> u64 {
        if self.result.is_ok() { self.item.bytes } else { 0 }
    }
}

/// Sizes spread evenly; neighbours differ much, so that large and small begin side by side.
fn megabytes(number: u64, count: u64) -> u64 {
    let spread = MIXED_MOST_MB - MIXED_LEAST_MB;
    let shuffled = number.wrapping_mul(7_919) % count.max(1);
    MIXED_LEAST_MB + spread * shuffled / count.saturating_sub(1).max(1)
}

fn items(bench: &SftpBench, direction: Direction, count: u64) -> Vec<Item> {
    let word = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    (0..count)
        .map(|number| {
            let megabytes = megabytes(number, count);
            let bytes = megabytes * 1_000_000 / bench.mix.scale.max(1);
            let path = format!("{}/bench-mixed-{word}-{number}", bench.folder);
            Item { direction, path, megabytes, bytes }
        })
        .collect()
}

/// Puts the files there that will be downloaded.
pub(super) async fn prepare(
    bench: &SftpBench,
    env: &Env,
    pattern: &Bytes,
) -> Result<(), BenchError> {
    let link = Link::open(bench, env).await?;
    for item in items(bench, Direction::Down, bench.mix.downloads) {
        upload(&link, &item, pattern).await?;
    }
    link.close().await;
    Ok(())
}

/// All at once: everybody is logged in before the first byte goes.
pub(super) async fn run(bench: &SftpBench, env: &Env, pattern: &Bytes) -> Vec<Tried> {
    let mut all = items(bench, Direction::Up, bench.mix.uploads);
    all.extend(items(bench, Direction::Down, bench.mix.downloads));
    let start = Arc::new(Barrier::new(all.len()));
    let connecting = Arc::new(Semaphore::new(CONNECTING));
    let mut tasks = JoinSet::new();
    for item in all {
        let (bench, env, pattern) = (bench.clone(), env.clone(), pattern.clone());
        let (start, connecting) = (start.clone(), connecting.clone());
        tasks.spawn(async move {
            let link = {
                let _turn = connecting.acquire().await;
                Link::open(&bench, &env).await
            };
            start.wait().await;
            let began = env.elapsed();
            let result = match &link {
                Ok(link) if item.direction == Direction::Up => upload(link, &item, &pattern).await,
                Ok(link) => download(link, &item).await,
                Err(_) => Ok(()),
            };
            let time = env.elapsed().saturating_sub(began);
            let result = match link {
                Ok(link) => {
                    link.close().await;
                    result
                }
                Err(error) => Err(error),
            };
            Tried { item, time, result }
        });
    }
    let mut tried = Vec::new();
    while let Some(one) = tasks.join_next().await {
        tried.extend(one.ok());
    }
    tried
}

async fn upload(link: &Link, item: &Item, pattern: &Bytes) -> Result<(), BenchError> {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
    let handle = link.open_file(&item.path, flags).await?;
    link.put(&handle, pattern, item.bytes).await?;
    link.ask(&item.path, |client| client.close(&handle)).await.map(drop)
}

async fn download(link: &Link, item: &Item) -> Result<(), BenchError> {
    let handle = link.open_file(&item.path, OpenFlags::READ).await?;
    let whole = Extent::whole(item.bytes);
    let answer = link.ask(&item.path, |client| Ok::<_, NotBegun>(client.get(&handle, whole)));
    match answer.await? {
        Answer::Transferred { bytes } if bytes == item.bytes => {}
        Answer::Transferred { bytes } => {
            return Err(BenchError::Length { sent: item.bytes, got: bytes });
        }
        _ => return Err(BenchError::HungUp),
    }
    link.ask(&item.path, |client| client.close(&handle)).await.map(drop)
}

/// The table: by direction and size before it was divided.
pub(super) fn groups(tried: &[Tried]) -> Vec<SizeGroup> {
    let mut groups = Vec::new();
    for direction in [Direction::Up, Direction::Down] {
        for (least, most) in MIXED_GROUPS_MB {
            let inside = |one: &&Tried| {
                one.item.direction == direction && (least..most).contains(&one.item.megabytes)
            };
            let these: Vec<&Tried> = tried.iter().filter(inside).collect();
            let good = these.iter().filter(|one| one.result.is_ok());
            let seconds: Vec<f64> = good.map(|one| one.time.as_secs_f64()).collect();
            if these.is_empty() {
                continue;
            }
            groups.push(SizeGroup {
                direction,
                least_megabytes: least,
                most_megabytes: most,
                count: these.len() as u64,
                failed: (these.len() - seconds.len()) as u64,
                // JSON has no infinity.
                min_seconds: seconds.iter().copied().min_by(f64::total_cmp).unwrap_or_default(),
                average_seconds: seconds.iter().sum::<f64>() / (seconds.len() as f64).max(1.0),
                max_seconds: seconds.iter().copied().fold(0.0, f64::max),
            });
        }
    }
    groups
}

/// Removes what was sent; what is not there need not be removed.
pub(super) async fn clean(bench: &SftpBench, env: &Env) -> Result<(), BenchError> {
    let link = Link::open(bench, env).await?;
    let mut all = items(bench, Direction::Up, bench.mix.uploads);
    all.extend(items(bench, Direction::Down, bench.mix.downloads));
    for item in all {
        match link.ask(&item.path, |client| client.remove(&item.path)).await {
            Ok(_) | Err(BenchError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    link.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_spread_over_all_groups() {
        let all: Vec<u64> = (0..500).map(|number| megabytes(number, 500)).collect();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&10), Some(&950)));
        for (least, most) in MIXED_GROUPS_MB {
            assert!(all.iter().any(|size| (least..most).contains(size)), "{least}");
        }
        assert_eq!(megabytes(0, 1), 10);
    }

    #[test]
    fn a_group_in_which_all_failed_is_read_back_from_its_report() {
        let item = Item { direction: Direction::Up, path: "a".into(), megabytes: 10, bytes: 1 };
        let failed = Tried { item, time: Duration::from_secs(1), result: Err(BenchError::HungUp) };
        let groups = groups(&[failed]);
        assert_eq!((groups.len(), groups[0].failed), (1, 1));
        let report = serde_json::to_string(&groups).unwrap();
        assert_eq!(serde_json::from_str::<Vec<SizeGroup>>(&report).unwrap(), groups);
    }
}
