//! Rules on dependencies: each is used by the crate that names it, and each has a licence under
//! which Entrepot may be passed on.

use std::collections::BTreeSet;

use anyhow::Result;
use cargo_metadata::{DependencyKind, Metadata, Package};

use super::finding::Finding;
use super::workspace::SourceFile;

/// Licences that ask for no more than a notice (SPDX identifiers).
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(super) fn check(metadata: &Metadata, files: &[SourceFile]) -> Result<Vec<Finding>> {
    let mut findings = unused(metadata, files);
    findings.extend(unused_by_all(metadata)?);
    findings.extend(metadata.packages.iter().filter_map(licence));
    Ok(findings)
}

/// Dependencies that no file of their crate names.
fn unused(metadata: &Metadata, files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest = manifest(metadata, package);
        let own: Vec<&SourceFile> = targets(metadata, package, files);
        for dependency in &package.dependencies {
            let name = match &dependency.rename {
                Some(name) => name.replace('-', "_"),
                None => library(metadata, &dependency.name),
            };
            let places = own.iter().filter(|file| {
                // What only tests use is no dependency of the program.
                dependency.kind != DependencyKind::Normal || file.name.contains("/src/")
            });
            if !places.map(|file| &file.text).any(|text| names(text, &name)) {
                let what = format!("nothing uses the dependency '{}'", dependency.name);
                findings.push(finding(&manifest, what));
            }
        }
    }
    findings
}

/// The name by which code uses a package: that of its library, which may differ from its own.
fn library(metadata: &Metadata, package: &str) -> String {
    let named = metadata.packages.iter().filter(|found| found.name.as_str() == package);
    let mut targets = named.flat_map(|found| &found.targets);
    let library = targets.find(|target| target.is_lib() || target.is_proc_macro());
    library.map_or(package, |target| &target.name).replace('-', "_")
}

/// The files of a package: those below its folder, and those of targets elsewhere.
fn targets<'a>(
    metadata: &Metadata,
    package: &Package,
    files: &'a [SourceFile],
) -> Vec<&'a SourceFile> {
    let root = &metadata.workspace_root;
    let below = |path: &cargo_metadata::camino::Utf8Path| {
        // A target may be named by a path with `..` in it.
        let folder = path.parent()?.canonicalize_utf8().ok()?;
        Some(format!("{}/", folder.strip_prefix(root).ok()?))
    };
    let mut folders: BTreeSet<String> = below(&package.manifest_path).into_iter().collect();
    folders.extend(package.targets.iter().filter_map(|target| below(&target.src_path)));
    let is_own = |file: &&SourceFile| folders.iter().any(|folder| file.name.starts_with(folder));
    files.iter().filter(is_own).collect()
}

/// True if a text names a crate: as a path, in a `use`, or in an attribute.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let before = text.as_bytes().get(at.wrapping_sub(1)).copied().is_some_and(is_part);
        let behind = text.get(at + name.len()..).unwrap_or_default();
        let used =
            behind.starts_with("::") || behind.starts_with(';') || behind.starts_with(" as ");
        !before && used
    })
}

/// Dependencies of the workspace that none of its crates has.
fn unused_by_all(metadata: &Metadata) -> Result<Vec<Finding>> {
    let text = std::fs::read_to_string(metadata.workspace_root.join("Cargo.toml"))?;
    let of_workspace = text
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()));
    let packages = metadata.workspace_packages();
    let has = |name: &str| {
        let mut dependencies = packages.iter().flat_map(|package| &package.dependencies);
        dependencies.any(|dependency| dependency.name == name)
    };
    let found = of_workspace.filter(|name| !has(name)).map(|name| {
        finding("Cargo.toml", format!("no crate uses the workspace's dependency '{name}'"))
    });
    Ok(found.collect())
}

fn licence(package: &Package) -> Option<Finding> {
    let licence = package.license.as_deref().unwrap_or_default();
    if permits(licence) {
        return None;
    }
    let what = format!("the licence of '{}' is not on the list: '{licence}'", package.name);
    Some(finding("Cargo.lock", what))
}

/// True if an SPDX expression can be fulfilled by licences of the list. `OR` binds less than `AND`;
/// parentheses do not nest in practice, and an expression that this cannot read is refused.
fn permits(expression: &str) -> bool {
    if let Some((before, rest)) = expression.split_once('(') {
        let Some((inner, behind)) = rest.split_once(')') else { return false };
        let value = if permits(inner) { "MIT" } else { "none" };
        return permits(&format!("{before}{value}{behind}"));
    }
    expression.split(" OR ").flat_map(|part| part.split('/')).any(|alternative| {
        alternative.split(" AND ").all(|licence| LICENCES.contains(&licence.trim()))
    })
}

fn manifest(metadata: &Metadata, package: &Package) -> String {
    let path = package.manifest_path.strip_prefix(&metadata.workspace_root);
    path.map_or_else(|_| package.manifest_path.to_string(), ToString::to_string)
}

fn finding(file: &str, what: String) -> Finding {
    Finding { file: file.to_owned(), line: 1, rule: "dependencies", what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_expression_is_permitted_if_one_alternative_is() {
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR LGPL-2.1-or-later",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "ISC AND (Apache-2.0 OR ISC)",
        ] {
            assert!(permits(fine), "{fine}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-2.0 OR GPL-3.0) AND MIT", "MIT OR ("] {
            assert!(!permits(bad), "{bad}");
        }
    }

    #[test]
    fn a_crate_is_named_by_a_path_a_use_or_a_derive() {
        for text in ["use serde::Serialize;", "#[derive(serde::Serialize)]", "use libc as c;"] {
            assert!(names(text, "serde") || names(text, "libc"), "{text}");
        }
        assert!(!names("use serde_json::Value; my_serde::x()", "serde"));
    }
}
