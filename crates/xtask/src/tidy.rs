//! The rules that a machine checks (ARCHITECTURE.md, "Rules"). Each finding names file, line and
//! rule; the list of allowed crate edges is data, so that a new edge is a reviewed diff.

mod edges;
mod source;
mod texts;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// One broken rule.
pub(crate) struct Finding {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.file, self.line, self.rule, self.what)
    }
}

/// Checks the whole workspace and fails with the list of findings.
pub(crate) fn run() -> Result<()> {
    let root = workspace_root()?;
    let mut findings = edges::check(&root)?;
    let files = rust_files(&root)?;
    for file in &files {
        findings.extend(source::check(&root, file)?);
    }
    findings.extend(texts::check(&root)?);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} source files, no findings", files.len());
        return Ok(());
    }
    bail!("tidy: {} findings", findings.len())
}

fn workspace_root() -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    Ok(metadata.workspace_root.into_std_path_buf())
}

fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for top in ["crates", "tests", "fuzz"] {
        walk(&root.join(top), &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_tidy() {
        super::run().unwrap();
    }
}
