// The node of the fuzz targets of the adapter, started once. Included by path.

use std::sync::LazyLock;

use tokio::runtime::Runtime;

#[path = "world.rs"]
mod world;

use world::{OrStop as _, World};

/// It, and what it runs on.
pub(crate) static NODE: LazyLock<(Runtime, World)> = LazyLock::new(|| {
    let runtime = Runtime::new().or_stop();
    let world = runtime.block_on(World::start());
    (runtime, world)
});
