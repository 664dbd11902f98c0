//! The helper alone, for tests of this crate; `entrepot spawner` is the same.

use std::process::ExitCode;

fn main() -> ExitCode {
    entrepot_spawn::serve_as_helper()
}
