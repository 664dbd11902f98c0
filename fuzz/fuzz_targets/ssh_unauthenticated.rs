#![no_main]

#[path = "../node.rs"]
mod node;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (runtime, world) = &*node::NODE;
    runtime.block_on(async {
        entrepot_sftp::fuzzing::connection(world.context(), world.config(), bytes).await;
    });
});
