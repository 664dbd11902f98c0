//! Rules on texts: every error code has a page, and every page a code.

use std::collections::BTreeSet;
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
    Ok(missing.chain(stale).collect())
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
