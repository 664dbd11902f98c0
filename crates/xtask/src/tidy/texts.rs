//! Rules on texts: every error code has a page, and every page a code; a large crate has a README;
//! nothing cites a document that is not in the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::finding::Finding;
use super::workspace::SourceFile;

pub(super) fn check(root: &Path, files: &[SourceFile]) -> Result<Vec<Finding>> {
    let mut used = BTreeSet::new();
    for file in files {
        if !file.name.starts_with("crates/xtask/") {
            codes(&file.text, &mut used);
        }
    }
    let mut pages = BTreeSet::new();
    let folder = root.join("docs/errors");
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            codes(&name, &mut pages);
        }
    }
    let mut findings = readmes(root, files);
    findings.extend(files.iter().flat_map(citations));
    let missing = used.difference(&pages).map(|code| Finding {
        file: format!("docs/errors/{code}.md"),
        line: 1,
        rule: "error-pages",
        what: "the code has no page".to_owned(),
    });
    let stale = pages.difference(&used).map(|code| Finding {
        file: format!("docs/errors/{code}.md"),
        line: 1,
        rule: "error-pages",
        what: "no source uses this code".to_owned(),
    });
    findings.extend(missing.chain(stale));
    Ok(findings)
}

/// Crates above this size say in a README what they guarantee and what they must not know.
const README_LINES: usize = 3000;

fn readmes(root: &Path, files: &[SourceFile]) -> Vec<Finding> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        if let Some((name, _)) =
            file.name.strip_prefix("crates/").and_then(|it| it.split_once("/src/"))
        {
            *lines.entry(name).or_default() += file.text.lines().count();
        }
    }
    let large = lines.into_iter().filter(|(_, lines)| *lines > README_LINES);
    let without =
        large.filter(|(name, _)| !root.join(format!("crates/{name}/README.md")).is_file());
    let found = without.map(|(name, lines)| Finding {
        file: format!("crates/{name}/README.md"),
        line: 1,
        rule: "readme",
        what: format!("a crate of {lines} lines has no README"),
    });
    found.collect()
}

/// Names of documents that are not in the repository.
const FOREIGN: &[&str] = &["`DESIGN`", "DESIGN.md", "STYLE.md", "facts/"];

fn citations(file: &SourceFile) -> Vec<Finding> {
    if file.name.starts_with("crates/xtask/") {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let found = lines.filter_map(|(at, line)| {
        let name = FOREIGN.iter().find(|name| line.contains(**name))?;
        Some(Finding {
            file: file.name.clone(),
            line: at + 1,
            rule: "citations",
            what: format!("{name} is not in the repository"),
        })
    });
    found.collect()
}

/// Collects every `EP` followed by exactly four digits.
fn codes(text: &str, found: &mut BTreeSet<String>) {
    for (at, _) in text.match_indices("EP") {
        let digits = text.get(at + 2..at + 6);
        let whole = digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let longer = text.as_bytes().get(at + 6).is_some_and(u8::is_ascii_digit);
        if whole && !longer {
            found.extend(text.get(at..at + 6).map(str::to_owned));
        }
    }
}
