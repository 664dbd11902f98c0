//! Files of what was recorded of sessions with hosts: `data/host-debug/SITE/MODEL`, for their
//! owner only.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use entrepot_host::{DebugFiles, DebugPlace};
use entrepot_nouns::SiteId;

/// The files of all models.
pub(crate) struct DebugFolder(PathBuf);

impl DebugFolder {
    /// Names the folder in the data folder; it is made with the first file.
    pub(crate) fn new(data: &Path) -> DebugFolder {
        DebugFolder(data.join("host-debug"))
    }
}

impl DebugFiles for DebugFolder {
    fn keep(&self, place: &DebugPlace, text: &str, most: usize) -> io::Result<()> {
        let site = match place.site {
            SiteId::MAIN => "main".to_owned(),
            other => other.to_string(),
        };
        let folder = self.0.join(site).join(place.model.as_str());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // Nobody reads half a file.
        let staging = folder.join(format!(".{}", place.file));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&staging)?;
        let written = file.write_all(text.as_bytes());
        if let Err(error) =
            written.and_then(|()| std::fs::rename(&staging, folder.join(&place.file)))
        {
            // What was written of it is of no use, and the disk may be full.
            let _ = std::fs::remove_file(&staging);
            return Err(error);
        }
        remove_oldest(&folder, most)
    }
}

/// In the order of their names the oldest are the first.
fn remove_oldest(folder: &Path, most: usize) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if Path::new(&name).extension().is_some_and(|end| end == "jsonl") {
            names.push(name);
        }
    }
    names.sort();
    let beyond = names.len().saturating_sub(most);
    for name in names.into_iter().take(beyond) {
        match std::fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_newest_files_stay_and_are_for_their_owner() {
        let data = tempfile::tempdir().unwrap();
        let folder = DebugFolder::new(data.path());
        for number in 1..=5 {
            let file = format!("20261129-00000{number}-000000-000001-001.jsonl");
            let place = DebugPlace { site: SiteId::MAIN, model: "loans".parse().unwrap(), file };
            folder.keep(&place, "text", 2).unwrap();
        }
        let path = data.path().join("host-debug/main/loans");
        let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
        let mut names: Vec<String> =
            entries.map(|it| it.file_name().into_string().unwrap()).collect();
        names.sort();
        let wanted = ["4", "5"].map(|at| format!("20261129-00000{at}-000000-000001-001.jsonl"));
        assert_eq!(names, wanted);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(&names[0]))), (0o700, 0o600));
        assert_eq!(std::fs::read_to_string(path.join(&names[0])).unwrap(), "text");
    }
}
