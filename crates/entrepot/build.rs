//! Links debug programs without PIE. The loader would make 600,000 relocations in them at each
//! start, which is half of the time of a command, and the end-to-end tests start thousands. What is
//! released stays independent of its position.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
