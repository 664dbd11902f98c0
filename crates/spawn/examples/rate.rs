//! How many programs a second: `cargo run --example rate -- [runs] [at a time]`.

use std::process::ExitCode;
use std::time::Instant;

use entrepot_nouns::Env;
use entrepot_spawn::{Allowed, Program, Spawner, SpawnerOptions};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("spawner") {
        return entrepot_spawn::serve_as_helper();
    }
    let runs: usize = first.and_then(|text| text.parse().ok()).unwrap_or(4000);
    let at_once: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(8);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let allowed = Allowed::new(["/bin/true".into()]).unwrap();
        let spawner = Spawner::new(SpawnerOptions::new(allowed), Env::real());
        let begun = Instant::now();
        let tasks = (0..at_once).map(|_| {
            let spawner = spawner.clone();
            tokio::spawn(async move {
                for _ in 0..runs / at_once {
                    spawner.run(Program::new(vec!["/bin/true".to_owned()])).await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let seconds = begun.elapsed().as_secs_f64();
        println!("{:.0} runs/s, {at_once} at a time", runs as f64 / seconds);
        spawner.stop().await;
    });
    ExitCode::SUCCESS
}
