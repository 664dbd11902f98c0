//! Development tasks: `cargo xtask tidy` checks the rules of ARCHITECTURE.md, `cargo xtask dist`
//! makes what is installed.

mod dist;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["dist", arguments @ ..] => dist::run_with(arguments),
        _ => Err(anyhow::anyhow!("usage: cargo xtask tidy | dist")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
