//! The files of the workspace, each read once for all checks; Rust files are parsed too.

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
pub(crate) fn metadata() -> Result<Metadata> {
    let locked = vec!["--locked".to_owned()];
    Ok(MetadataCommand::new().other_options(locked).exec()?)
}

/// All Rust files of ours, in order of their names.
pub(super) fn source_files(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    for top in ["crates", "tests", "fuzz"] {
        collect(&root.join(top), "rs", &mut paths)?;
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let (name, text) = named_text(root, path)?;
        SourceFile::parse(&name, &text)
    };
    paths.iter().map(read).collect()
}

/// A document in Markdown.
pub(super) struct Document {
    /// The path from the root of the workspace, with `/` on every system.
    pub(super) name: String,
    pub(super) text: String,
}

/// All documents of ours: those of the root, of `docs` and of the crates.
pub(super) fn documents(root: &Path) -> Result<Vec<Document>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_file() && path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    for top in ["crates", "docs", "fuzz"] {
        collect(&root.join(top), "md", &mut paths)?;
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let (name, text) = named_text(root, path)?;
        Ok(Document { name, text })
    };
    paths.iter().map(read).collect()
}

fn named_text(root: &Path, path: &Path) -> Result<(String, String)> {
    let name = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
    Ok((name, std::fs::read_to_string(path)?))
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            collect(&path, extension, found)?;
        } else if path.extension().is_some_and(|its| its == extension) {
            found.push(path);
        }
    }
    Ok(())
}
