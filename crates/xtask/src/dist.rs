//! `cargo xtask dist`: what is handed to those who install Entrepot, in `target/dist`: a Debian
//! package, an archive of the same files, what a container image is made of, a list of what is in
//! the program (SBOM), and checksums of all of it.

mod command;
mod debian;
mod layout;
mod sbom;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::tidy::workspace_metadata;
use command::{Arguments, output, output_told};
use layout::Dist;

/// Makes all of it.
pub(crate) fn run_with(arguments: &[&str]) -> Result<()> {
    let arguments = Arguments::read(arguments)?;
    let metadata = workspace_metadata()?;
    let root = metadata.workspace_root.as_std_path();
    std::env::set_current_dir(root)?;
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => PathBuf::from(output_told("scripts/build-dist")?.trim()),
    };
    let dist = Dist {
        version: arguments.version.clone().map_or_else(|| version_of(&program), Ok)?,
        architecture: debian_architecture()?,
        out: arguments.out.unwrap_or_else(|| metadata.target_directory.join("dist").into()),
        program,
    };
    if dist.out.exists() {
        std::fs::remove_dir_all(&dist.out)?;
    }
    std::fs::create_dir_all(&dist.out)?;
    let tree = dist.out.join("tree");
    dist.lay_out(&tree)?;
    let mut made = vec![debian::package(&dist, &tree)?, dist.archive(&tree)?];
    made.push(dist.container(&tree)?);
    made.push(sbom::write_list(&dist)?);
    std::fs::remove_dir_all(&tree)?;
    dist.checksums(&made)?;
    println!("made in {}:", dist.out.display());
    made.iter().for_each(|name| println!("  {name}"));
    Ok(())
}

/// What the program says of itself: `entrepot 0.1.0`.
fn version_of(program: &Path) -> Result<String> {
    let said = output(program, ["--version"])?;
    let version = said.trim().strip_prefix("entrepot ").context("it is no entrepot")?;
    Ok(version.to_owned())
}

fn debian_architecture() -> Result<String> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64".to_owned()),
        "aarch64" => Ok("arm64".to_owned()),
        other => anyhow::bail!("packages are made on x86-64 and arm64, not on {other}"),
    }
}
