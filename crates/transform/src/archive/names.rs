//! Names of entries.

use std::collections::HashSet;
use std::fmt;

use crate::error::TransformError;
use crate::limits::{ENTRY_COMPONENT_BYTES, ENTRY_DEPTH, ENTRY_NAME_BYTES};

/// The path of an entry below the folder that it is extracted to: no step leads up or out of it,
/// on any system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryName(String);

impl EntryName {
    /// Reads the name of a file. `./` before it counts for nothing.
    pub fn new(name: &str) -> Result<EntryName, TransformError> {
        let refuse = |why: &str| {
            let shown: String = name.chars().take(100).collect();
            Err(TransformError::bad(format!("the entry '{}' {why}", shown.escape_debug())))
        };
        let mut path = name;
        while let Some(rest) = path.strip_prefix("./") {
            path = rest;
        }
        if path.len() > ENTRY_NAME_BYTES || path.split('/').count() > ENTRY_DEPTH {
            return refuse("has a name that is too long");
        }
        if path.starts_with('/') {
            return refuse("has an absolute name");
        }
        if path.chars().any(|c| c.is_control() || c == '\\') {
            return refuse("has control characters or '\\' in its name");
        }
        let drive = path.as_bytes();
        if drive.get(1) == Some(&b':') && drive.first().is_some_and(u8::is_ascii_alphabetic) {
            return refuse("has the name of a drive");
        }
        for component in path.split('/') {
            if matches!(component, "" | "." | "..") {
                return refuse("has a name that leads elsewhere");
            }
            if component.len() > ENTRY_COMPONENT_BYTES {
                return refuse("has a name that is too long");
            }
        }
        Ok(EntryName(path.to_owned()))
    }

    /// As it stands in a path, by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names of an archive up to now: no two are the same where case does not count, and no file
/// is also a folder.
#[derive(Default)]
pub(super) struct Names {
    files: HashSet<String>,
    folders: HashSet<String>,
}

impl Names {
    pub(super) fn add_file(&mut self, name: &EntryName) -> Result<(), TransformError> {
        let folded = name.as_str().to_lowercase();
        self.add_folders_above(&folded)?;
        if self.folders.contains(&folded) || !self.files.insert(folded) {
            return Err(twice(name.as_str()));
        }
        Ok(())
    }

    pub(super) fn add_folder(&mut self, name: &EntryName) -> Result<(), TransformError> {
        let folded = name.as_str().to_lowercase();
        self.add_folders_above(&folded)?;
        self.add_one_folder(&folded)
    }

    fn add_folders_above(&mut self, folded: &str) -> Result<(), TransformError> {
        for (at, _) in folded.match_indices('/') {
            self.add_one_folder(folded.get(..at).unwrap_or_default())?;
        }
        Ok(())
    }

    fn add_one_folder(&mut self, folded: &str) -> Result<(), TransformError> {
        if self.files.contains(folded) {
            return Err(twice(folded));
        }
        self.folders.insert(folded.to_owned());
        Ok(())
    }
}

fn twice(name: &str) -> TransformError {
    TransformError::bad(format!("the name '{name}' is there twice, if case does not count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_but_below() {
        for good in ["a", "a/b.txt", "./a", "././a/b", "ä/ö", "..a", "a..", "a b", "ab:c"] {
            assert!(EntryName::new(good).is_ok(), "{good}");
        }
        let long = ["x"; 40].join("/");
        let wide = "x".repeat(256);
        for bad in [
            "",
            ".",
            "..",
            "./",
            "/a",
            "a/../b",
            "../a",
            "a//b",
            "a/",
            "a/.",
            "a\\b",
            "..\\a",
            "C:/a",
            "c:a",
            "a\0b",
            "a\nb",
            "\u{202e}\u{7}",
            &long,
            &wide,
        ] {
            assert!(EntryName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(EntryName::new("./a/b").unwrap().as_str(), "a/b");
    }

    #[test]
    fn no_two_names_meet() {
        let meet = |list: &[&str]| {
            let mut names = Names::default();
            list.iter().try_for_each(|name| names.add_file(&EntryName::new(name)?)).is_err()
        };
        assert!(!meet(&["a", "b/a", "b/c", "ab"]));
        for same in [["a", "a"], ["a", "A"], ["Ä/x", "ä/X"], ["a", "a/b"], ["A/b/c", "a/B"]] {
            assert!(meet(&same), "{same:?}");
        }
        let mut names = Names::default();
        names.add_folder(&EntryName::new("a/b").unwrap()).unwrap();
        names.add_folder(&EntryName::new("a/b").unwrap()).unwrap();
        assert!(names.add_file(&EntryName::new("A").unwrap()).is_err());
    }
}
