//! The list of all crates that are in the program, in CycloneDX 1.5: what scanners of
//! vulnerabilities and licences read.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use serde_json::{Value, json};

use super::layout::{Dist, write};

/// Writes the list of the program and says how its file is named.
pub(super) fn write_list(dist: &Dist) -> Result<String> {
    let metadata = of_this_machine()?;
    let list = Graph::of(&metadata)?.list(&dist.version);
    let name = format!("{}.cdx.json", dist.stem());
    let text = serde_json::to_string_pretty(&list)? + "\n";
    write(&dist.out.join(&name), text.as_bytes())?;
    Ok(name)
}

/// What cargo resolves for machines of this kind, without what other systems need.
fn of_this_machine() -> Result<Metadata> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let options = ["--locked", "--filter-platform", &target].map(str::to_owned);
    Ok(MetadataCommand::new().other_options(options).exec()?)
}

/// What is built into the program, by cargo's ids.
struct Graph<'a> {
    root: PackageId,
    packages: BTreeMap<&'a PackageId, &'a Package>,
    /// What each package that is in the program is made of.
    edges: BTreeMap<PackageId, BTreeSet<PackageId>>,
}

impl<'a> Graph<'a> {
    fn of(metadata: &'a Metadata) -> Result<Graph<'a>> {
        let packages: BTreeMap<_, _> = metadata.packages.iter().map(|it| (&it.id, it)).collect();
        let ours = metadata.workspace_packages().into_iter();
        let root = ours.into_iter().find(|package| package.name.as_str() == "entrepot");
        let root = root.context("the workspace has no package 'entrepot'")?.id.clone();
        let resolved = metadata.resolve.as_ref().context("cargo resolved nothing")?;
        let nodes: BTreeMap<_, _> = resolved.nodes.iter().map(|node| (&node.id, node)).collect();
        let (mut edges, mut open) = (BTreeMap::new(), vec![root.clone()]);
        while let Some(id) = open.pop() {
            if edges.contains_key(&id) {
                continue;
            }
            let node = nodes.get(&id).context("a package is not resolved")?;
            // What only builds or tests is not in the program.
            let normal = node.deps.iter().filter(|dependency| {
                dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
            });
            let normal: BTreeSet<PackageId> = normal.map(|found| found.pkg.clone()).collect();
            open.extend(normal.iter().cloned());
            edges.insert(id, normal);
        }
        Ok(Graph { root, packages, edges })
    }

    fn list(&self, version: &str) -> Value {
        let others = self.edges.keys().filter(|id| **id != self.root);
        let components: Vec<Value> = others
            .filter_map(|id| self.packages.get(id))
            .map(|package| component(package))
            .collect();
        let dependencies: Vec<Value> = self
            .edges
            .iter()
            .map(|(id, needs)| {
                let needs: Vec<String> = needs.iter().map(|id| self.reference(id)).collect();
                json!({"ref": self.reference(id), "dependsOn": needs})
            })
            .collect();
        json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "application",
                    "bom-ref": self.reference(&self.root),
                    "name": "entrepot",
                    "version": version,
                    "licenses": [{"expression": "Apache-2.0"}],
                },
            },
            "components": components,
            "dependencies": dependencies,
        })
    }

    fn reference(&self, id: &PackageId) -> String {
        self.packages.get(id).map_or_else(|| id.repr.clone(), |package| purl(package))
    }
}

fn component(package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": package.name.as_str(),
        "version": package.version.to_string(),
        "purl": purl(package),
    });
    if let Some(licence) = &package.license {
        // The old form of Cargo.toml has a slash for OR.
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    component
}

/// The package URL. A crate that is carried with patches has the version that it is made from, so
/// that advisories about that version are found.
fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name.as_str(), package.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_is_in_the_program_and_not_what_only_tests_it() {
        let metadata = of_this_machine().unwrap();
        let list = Graph::of(&metadata).unwrap().list("1.2.3");
        assert_eq!(list["metadata"]["component"]["version"], "1.2.3");
        let components = list["components"].as_array().unwrap();
        let has = |name: &str| components.iter().any(|component| component["name"] == name);
        assert!(has("tokio") && has("russh") && has("rustls") && has("entrepot-vfs"));
        assert!(!has("entrepot-testkit") && !has("proptest") && !has("xtask"));
        assert!(!has("windows-sys"), "that is for another system");
        for component in components {
            let purl = component["purl"].as_str().unwrap();
            assert!(purl.starts_with("pkg:cargo/") && purl.contains('@'), "{purl}");
        }
        let references: BTreeSet<&str> =
            components.iter().filter_map(|component| component["bom-ref"].as_str()).collect();
        assert_eq!(references.len(), components.len(), "each is there once");
        for dependency in list["dependencies"].as_array().unwrap() {
            for needed in dependency["dependsOn"].as_array().unwrap() {
                assert!(references.contains(needed.as_str().unwrap()), "{needed}");
            }
        }
    }
}
