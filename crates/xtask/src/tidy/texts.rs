//! Rules on texts: every error code has a page, and every page a code; a large crate has a README;
//! nothing cites a document that is not in the repository; links of documents lead to files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::finding::Finding;
use super::workspace::{Document, SourceFile};

pub(super) fn check(
    root: &Path,
    files: &[SourceFile],
    documents: &[Document],
) -> Result<Vec<Finding>> {
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
    findings.extend(files.iter().flat_map(|file| citations(&file.name, &file.text)));
    for document in documents {
        findings.extend(citations(&document.name, &document.text));
        findings.extend(dead_links(root, document));
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
const FOREIGN: &[&str] = &["DESIGN", "STYLE", "facts/", "reviews/"];

fn citations(name: &str, text: &str) -> Vec<Finding> {
    if name.starts_with("crates/xtask/") {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let found = lines.filter_map(|(at, line)| {
        let foreign = FOREIGN.iter().find(|foreign| line.contains(**foreign))?;
        Some(Finding {
            file: name.to_owned(),
            line: at + 1,
            rule: "citations",
            what: format!("{foreign} is not in the repository"),
        })
    });
    found.collect()
}

/// Links of a document, `[text](path)`, to files that are not there.
fn dead_links(root: &Path, document: &Document) -> Vec<Finding> {
    let folder = root.join(&document.name);
    let folder = folder.parent().unwrap_or(root);
    let lines = document.text.lines().enumerate();
    let found = lines.flat_map(|(at, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let dead = targets.filter(|target| {
            let path = target.split('#').next().unwrap_or_default();
            !path.is_empty() && !path.contains("://") && !folder.join(path).exists()
        });
        dead.map(move |target| Finding {
            file: document.name.clone(),
            line: at + 1,
            rule: "links",
            what: format!("the link to '{target}' leads nowhere"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_and_foreign_documents_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "See [a](src/main.rs#l1), [b](https://example.com) and [c](#here).\n\
                    As DESIGN says, [gone](src/gone.rs).";
        let document = Document { name: "README.md".to_owned(), text: text.to_owned() };
        let dead = dead_links(root, &document);
        assert_eq!(dead.iter().map(|it| it.line).collect::<Vec<_>>(), [2]);
        assert!(dead.iter().all(|it| it.what.contains("src/gone.rs")));
        let foreign = citations(&document.name, &document.text);
        assert_eq!(foreign.iter().map(|it| it.line).collect::<Vec<_>>(), [2]);
    }
}
