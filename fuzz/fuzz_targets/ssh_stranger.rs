#![no_main]

use std::sync::LazyLock;

use tokio::runtime::Runtime;

#[path = "../world.rs"]
mod world;

use world::OrStop as _;

static NODE: LazyLock<(Runtime, world::World)> = LazyLock::new(|| {
    let runtime = Runtime::new().or_stop();
    let world = runtime.block_on(world::World::start());
    (runtime, world)
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (runtime, world) = &*NODE;
    runtime.block_on(async {
        entrepot_sftp::fuzzing::connection(world.context(), world.config(), bytes).await;
    });
});
