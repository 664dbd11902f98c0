//! What a small file costs: stages, writes, syncs and publishes COUNT files of 1 KiB in DIR and
//! prints CPU and wall time a file. `cargo run --release --example small_files -- DIR [COUNT]`

use entrepot_nouns::{Env, StorePath, TransferId};
use entrepot_storage::{Existing, Publish, StoreError, fs};
use rustix::time::{ClockId, clock_gettime};

fn cpu_us() -> i64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

#[tokio::main]
async fn main() -> Result<(), StoreError> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().unwrap_or_else(|| "/dev/shm/entrepot-small-files".to_owned());
    let count: u32 = args.next().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let env = Env::real();
    let store = fs::open(dir.as_ref(), &env).await?;
    let inbox: StorePath = "in".parse().unwrap_or_default();
    match store.make_directory(&inbox).await {
        Ok(()) | Err(StoreError::Exists) => {}
        Err(error) => return Err(error),
    }
    let data = [7; 1024];
    for round in ["new", "replaced", "replaced"] {
        let (cpu, wall) = (cpu_us(), env.elapsed());
        for number in 0..count {
            let path: StorePath = format!("in/{number}").parse().unwrap_or_default();
            let file = store.stage(env.new_id::<TransferId>(), &path).await?;
            if !file.try_write_at(0, &data)? {
                file.write_at(0, data.to_vec().into()).await?;
            }
            file.sync().await?;
            let existing = Existing::Replace;
            file.publish(&Publish {
                existing,
                accessed: None,
                modified: None,
                mode: None,
                size: 1024,
            })
            .await?;
        }
        let cpu = cpu_us() - cpu;
        let wall = env.elapsed().saturating_sub(wall).as_micros();
        let each = f64::from(count);
        let (cpu, wall) = (cpu as f64 / each, wall as f64 / each);
        println!("{count} files of 1 KiB, {round}: {cpu:.1} us CPU, {wall:.1} us each");
    }
    for number in 0..count {
        store.remove(&format!("in/{number}").parse().unwrap_or_default()).await?;
    }
    store.remove_directory(&inbox).await
}
