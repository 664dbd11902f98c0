//! Links debug programs to lie at a fixed address. Anywhere else 600,000 addresses in them are set
//! right at each start, which is half of the time of a command, and the end-to-end tests start
//! thousands of them. What is released lies anywhere, as usual.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
