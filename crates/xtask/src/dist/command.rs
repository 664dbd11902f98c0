//! The arguments of `dist`, and the tools of the system that it calls.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

/// What stands behind `cargo xtask dist`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    /// A program that was built already.
    pub(super) program: Option<PathBuf>,
    /// Where everything is made; what is there is replaced.
    pub(super) out: Option<PathBuf>,
    /// Overrides what the program says, for tests of an upgrade.
    pub(super) version: Option<String>,
}

impl Arguments {
    pub(super) fn read(arguments: &[&str]) -> Result<Arguments> {
        let mut read = Arguments::default();
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { bail!("{} needs a value", pair.concat()) };
            match *name {
                "--program" => read.program = Some(std::path::absolute(value)?),
                "--out" => read.out = Some(std::path::absolute(value)?),
                "--version" => read.version = Some((*value).to_owned()),
                _ => bail!("dist takes --program FILE, --out FOLDER and --version V, not {name}"),
            }
        }
        Ok(read)
    }
}

/// Runs a tool; what it prints is shown.
pub(super) fn run<S: AsRef<OsStr>>(
    tool: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<()> {
    let status = Command::new(tool).args(arguments).status();
    let status = status.with_context(|| format!("'{tool}' is missing: install it"))?;
    ensure!(status.success(), "{tool} ended with {status}");
    Ok(())
}

/// What a program prints.
pub(super) fn output<S: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String> {
    captured(Command::new(program).args(arguments))
}

/// What a tool prints that takes long, and tells how far it is on standard error.
pub(super) fn output_told(tool: &str) -> Result<String> {
    captured(Command::new(tool).stderr(Stdio::inherit()))
}

/// What a tool prints that runs in a folder.
pub(super) fn output_in<S: AsRef<OsStr>>(
    folder: &Path,
    tool: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String> {
    captured(Command::new(tool).args(arguments).current_dir(folder))
}

fn captured(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.success(), "{command:?} ended with {}: {said}", done.status);
    Ok(String::from_utf8(done.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_pairs_of_known_names() {
        let read = Arguments::read(&["--program", "/x/entrepot", "--version", "1.2"]).unwrap();
        assert_eq!(read.program.as_deref(), Some(Path::new("/x/entrepot")));
        assert_eq!((read.version.as_deref(), read.out), (Some("1.2"), None));
        assert!(Arguments::read(&["--program"]).is_err());
        assert!(Arguments::read(&["--target", "x"]).is_err());
        assert_eq!(Arguments::read(&[]).unwrap(), Arguments::default());
    }
}
