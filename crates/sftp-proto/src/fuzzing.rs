//! Entry point of the fuzzer.
/// Being written.
pub fn fuzz(_: &[u8]) {}
