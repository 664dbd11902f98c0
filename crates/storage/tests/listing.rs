//! Listing a very large directory: every name once, a page at a time, in bounded memory.
//! `ENTREPOT_LIST_ENTRIES=1000000` asks for more than the test does by itself.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::time::Instant;

use entrepot_nouns::Env;
use entrepot_storage::{fs, limits};

/// Bytes of this process in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[tokio::test]
async fn a_very_large_directory_is_listed_in_bounded_memory() {
    let entries = std::env::var("ENTREPOT_LIST_ENTRIES");
    let entries: u64 = entries.map_or(100_000, |entries| entries.parse().unwrap());
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("d")).unwrap();
    let mut wanted = 0u64;
    for number in 0..entries {
        let name = format!("file-{number:07}.dat");
        wanted = wanted.wrapping_add(hash(&name));
        std::fs::File::create(root.path().join("d").join(name)).unwrap();
    }
    let store = fs::open(root.path(), &Env::real()).await.unwrap();
    let (before, begun) = (resident(), Instant::now());
    let mut listing = store.list(&"d".parse().unwrap()).await.unwrap();
    let (mut found, mut sum, mut most) = (0u64, 0u64, 0);
    loop {
        let page = listing.next_page(usize::MAX).await.unwrap();
        assert!(page.len() <= limits::LIST_PAGE);
        if page.is_empty() {
            break;
        }
        found += page.len() as u64;
        sum = page.iter().fold(sum, |sum, entry| sum.wrapping_add(hash(&entry.name)));
        most = most.max(resident().saturating_sub(before));
    }
    assert_eq!((found, sum), (entries, wanted));
    println!("{entries} entries: {:?}, {} KiB more in memory", begun.elapsed(), most / 1024);
    assert!(most < 8 << 20, "{most} bytes more in memory");
}
