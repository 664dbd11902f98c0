//! The Rust files of the workspace, each read and parsed once for all checks.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

/// A Rust file with its syntax tree.
pub(super) struct SourceFile {
    /// The path from the root of the workspace, with `/` on every system.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) tree: syn::File,
}

impl SourceFile {
    pub(super) fn parse(name: &str, text: &str) -> Result<SourceFile> {
        let tree = syn::parse_file(text).with_context(|| format!("cannot parse {name}"))?;
        Ok(SourceFile { name: name.to_owned(), text: text.to_owned(), tree })
    }
}

/// What cargo knows of the workspace and of all that it depends on.
pub(super) fn metadata() -> Result<Metadata> {
    let locked = vec!["--locked".to_owned()];
    Ok(MetadataCommand::new().other_options(locked).exec()?)
}

/// All Rust files of ours, in order of their names.
pub(super) fn source_files(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    for top in ["crates", "tests", "fuzz"] {
        collect(&root.join(top), &mut paths)?;
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
        SourceFile::parse(&name, &std::fs::read_to_string(path)?)
    };
    paths.iter().map(read).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}
