//! What a node keeps on its machine for itself, and no endpoint may reach: an account with a mount
//! there would read the master key or write the journal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use entrepot_nouns::EndpointTarget;

/// The node's own files. Without any every endpoint is accepted.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    kept: Vec<PathBuf>,
    served: Option<PathBuf>,
}

impl OwnFiles {
    /// Keeps files, and folders with all in them, for the node; but endpoints may lie in the folder
    /// `served`, though it is in one of those. All paths are absolute.
    pub fn new(kept: Vec<PathBuf>, served: PathBuf) -> OwnFiles {
        OwnFiles { kept, served: Some(served) }
    }

    /// Why an endpoint may not have this target. Symbolic links are followed as they are now.
    pub fn why_not(&self, target: &EndpointTarget) -> Option<String> {
        let (path, holds) = match target {
            EndpointTarget::Directory(target) => (Path::new(&target.path), true),
            EndpointTarget::Sql(target) => {
                let file = target.url.strip_prefix("sqlite:")?;
                (Path::new(file.split_once('?').map_or(file, |(path, _)| path)), false)
            }
            _ => return None,
        };
        let real = resolved(path);
        let served = self.served.as_deref().map(resolved);
        let is_served = |kept: &Path| {
            served
                .as_ref()
                .is_some_and(|served| served.starts_with(kept) && real.starts_with(served))
        };
        self.kept.iter().find_map(|kept| {
            let shown = kept.display();
            let kept = resolved(kept);
            if real.starts_with(&kept) && !is_served(&kept) {
                Some(format!("the node keeps its own files in '{shown}': name another place"))
            } else if holds && kept.starts_with(&real) {
                Some(format!("the node's own '{shown}' lies in it: name a folder without it"))
            } else {
                None
            }
        })
    }
}

/// The path without links and dots, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let mut missing: Vec<OsString> = Vec::new();
    let mut there = path;
    loop {
        if let Ok(real) = there.canonicalize() {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        let Some(parent) = there.parent() else { return path.to_owned() };
        // Of what is not there, `..` leads to where its name was looked for.
        missing.extend(there.file_name().map(OsString::from));
        there = parent;
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::endpoint::{DirectoryTarget, SqlTarget};

    use super::*;

    #[test]
    fn no_endpoint_reaches_what_the_node_keeps() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for made in ["data/files", "data/journal", "elsewhere"] {
            std::fs::create_dir_all(at(made)).unwrap();
        }
        std::fs::write(at("key"), "").unwrap();
        std::os::unix::fs::symlink(at("data"), at("elsewhere/link")).unwrap();
        let own = OwnFiles::new(vec![at("data"), at("key")], at("data/files"));
        let directory = |path: &str| {
            let path = at(path).display().to_string();
            own.why_not(&EndpointTarget::Directory(DirectoryTarget::new(path)))
        };
        for good in ["data/files", "data/files/a/b", "elsewhere", "elsewhere/new", "database"] {
            assert_eq!(directory(good), None, "{good}");
        }
        for bad in [
            "data",
            "data/journal",
            "data/new/deep",
            "elsewhere/link",
            "elsewhere/link/x",
            "",
            "key",
        ] {
            assert!(directory(bad).is_some(), "{bad}");
        }
        assert!(directory("data/files/../journal").is_some());
        let root = EndpointTarget::Directory(DirectoryTarget::new("/"));
        assert!(own.why_not(&root).unwrap().contains("lies in it"));
        assert_eq!(OwnFiles::default().why_not(&root), None);

        let sqlite = |path: &str| {
            let url = format!("sqlite:{}?mode=rwc", at(path).display());
            let target: SqlTarget =
                serde_json::from_value(serde_json::json!({ "url": url })).unwrap();
            own.why_not(&EndpointTarget::Sql(target))
        };
        assert!(sqlite("data/entrepot.db").is_some());
        assert_eq!(sqlite("data/files/rows.db"), None);
        assert_eq!(sqlite("rows.db"), None);
    }
}
