//! Reading the files of another server, none of them without bound.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use entrepot_nouns::source::wildcard;
use entrepot_openssh::Included;

/// Longest file that is read.
const FILE_BYTES: u64 = 4 << 20;

/// The text of a file.
///
/// # Errors
/// A sentence.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    String::from_utf8(bytes(path)?).map_err(|_| "it is no text".to_owned())
}

/// What a file holds.
///
/// # Errors
/// A sentence.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("it cannot be read: {error}");
    // What users own may be a pipe, whose opening would wait for them.
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(format!("it is longer than {FILE_BYTES} bytes"));
    }
    Ok(bytes)
}

/// True if somebody else than its owner may change a file, or put another in its place.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.mode());
    (mode(path) | path.parent().map_or(0, mode)) & 0o022 != 0
}

/// The files that a pattern of `Include` names, sorted; relative ones lie in `base`.
pub(crate) fn include(base: &Path, pattern: &str) -> Vec<Included> {
    let path = base.join(pattern);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|it| it.to_str()))
    else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fits = |path: &PathBuf| {
        path.file_name().and_then(|it| it.to_str()).is_some_and(|it| wildcard(name, it))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(fits).collect();
    files.sort();
    let read = |path: PathBuf| {
        let text = text(&path).ok()?;
        Some(Included { file: path.display().to_string(), text })
    };
    files.into_iter().filter_map(read).collect()
}
