//! The public surface, so that growth shows in a diff.

use std::path::{Path, PathBuf};

/// The sources outside tests, in the order of their names.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut entries: Vec<PathBuf> = entries.collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() && !entry.ends_with("tests") {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

/// The `pub` items of each file, below its name.
fn surface() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&folder, &mut files);
    let mut lines = Vec::new();
    for file in files {
        let items = items(&std::fs::read_to_string(&file).unwrap());
        if !items.is_empty() {
            lines.push(format!("{}:", file.strip_prefix(&folder).unwrap().display()));
            lines.extend(items.into_iter().map(|item| format!("    {item}")));
        }
    }
    lines
}

fn items(text: &str) -> Vec<String> {
    let mut items = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let Some(rest) = line.strip_prefix("pub ") else { continue };
        let words = rest.trim_start_matches("async ");
        let words = if words.starts_with("const fn ") { &words["const ".len()..] } else { words };
        let Some((kind, rest)) = words.split_once(' ') else { continue };
        if ["fn", "struct", "enum", "trait", "type"].contains(&kind) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            items.push(format!("{kind} {}", &rest[..end]));
        }
    }
    items
}

#[test]
fn the_public_surface_is_the_one_that_was_agreed() {
    let wanted = include_str!("surface.txt");
    let found = surface().join("\n") + "\n";
    assert!(
        found == wanted,
        "the public surface changed: if that is meant, put this into src/tests/surface.txt\n{found}"
    );
}
