//! Share links: what an account of type `link` stands for.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{LINK_FILES, LINK_TITLE_BYTES};
use crate::mount::{Right, Rights};
use crate::name::Name;
use crate::noun::FieldError;
use crate::path::{StorePath, VPath};

/// One thing that a share link lets its recipients do.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LinkAction {
    /// List and read files.
    Download,
    /// Add files. Alone it shows nothing of what is there, and no file replaces another.
    Upload,
}

impl LinkAction {
    /// The word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            LinkAction::Download => "download",
            LinkAction::Upload => "upload",
        }
    }

    fn rights(self) -> &'static [Right] {
        match self {
            LinkAction::Download => &[Right::List, Right::Read],
            LinkAction::Upload => &[Right::Write],
        }
    }
}

impl fmt::Display for LinkAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for LinkAction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = [LinkAction::Download, LinkAction::Upload].into_iter();
        let found = all.find(|action| action.as_str() == text);
        found.ok_or_else(|| format!("'{text}' is none of download, upload"))
    }
}

/// What a share link opens, of whom, and how often. Its end, its password and whether it counts
/// are fields of its account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkTerms {
    /// The account whose files it opens, with no more rights than that account has when the link
    /// is used.
    pub owner: Name,
    /// The folder that it opens, as the owner sees it.
    pub folder: VPath,
    /// Only these files of the folder. Empty: the whole folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What recipients may do.
    pub allows: BTreeSet<LinkAction>,
    /// Most downloads. Unset: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downloads: Option<u32>,
    /// Most files that recipients may add. Unset: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploads: Option<u32>,
    /// Largest file that they may add, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<u64>,
    /// Most bytes that they may add, all files together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_bytes: Option<u64>,
    /// Shown to recipients above the files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Who made it: an account, or `cli:` and a user of the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub made_by: String,
}

impl LinkTerms {
    /// True if recipients may do this.
    pub fn allows(&self, action: LinkAction) -> bool {
        self.allows.contains(&action)
    }

    /// The rights on files that recipients have at most.
    pub fn rights(&self) -> Rights {
        self.allows.iter().flat_map(|action| action.rights()).copied().collect()
    }

    /// The largest file that may be added, whatever was added before.
    pub fn largest_upload(&self) -> Option<u64> {
        self.file_size_bytes.into_iter().chain(self.upload_bytes).min()
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let refused = |field: &str, problem: &str| Err(FieldError::new(field, problem));
        if self.allows.is_empty() {
            return refused("link.allows", "name at least one of download, upload");
        }
        if self.files.len() > LINK_FILES {
            return refused("link.files", "there are too many; share a folder instead");
        }
        let mut seen = HashSet::new();
        for name in &self.files {
            let is_name = name.parse::<StorePath>().is_ok_and(|path| path.as_str() == name)
                && !name.is_empty()
                && !name.contains('/');
            if !is_name || !seen.insert(name) {
                let problem = format!("'{name}' is no name of a file in the folder, or is twice");
                return Err(FieldError::new("link.files", problem));
            }
        }
        if !self.files.is_empty() && self.allows(LinkAction::Upload) {
            return refused("link.files", "a link to chosen files takes no uploads; leave one out");
        }
        if self.downloads == Some(0) || self.downloads.is_some_and(|_| !self.may_download()) {
            return refused("link.downloads", "at least 1, and only where it allows downloads");
        }
        let has_upload_limits =
            self.uploads.is_some() || self.file_size_bytes.is_some() || self.upload_bytes.is_some();
        if self.uploads == Some(0) || has_upload_limits && !self.allows(LinkAction::Upload) {
            return refused("link.uploads", "at least 1, and only where it allows uploads");
        }
        if self.title.len() > LINK_TITLE_BYTES {
            return refused("link.title", "it is too long");
        }
        Ok(())
    }

    fn may_download(&self) -> bool {
        self.allows(LinkAction::Download)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(rest: &str) -> Option<String> {
        let text = format!(r#"{{"owner": "anna", "folder": "/out", {rest}}}"#);
        let terms: LinkTerms = serde_json::from_str(&text).unwrap();
        terms.check().err().map(|error| error.field)
    }

    #[test]
    fn a_link_allows_something_and_limits_only_that() {
        assert_eq!(wrong(r#""allows": ["download"], "downloads": 3"#), None);
        assert_eq!(wrong(r#""allows": ["upload"], "uploads": 3, "upload_bytes": 9"#), None);
        assert_eq!(wrong(r#""allows": ["upload", "download"], "downloads": 1"#), None);
        assert_eq!(wrong(r#""allows": []"#).unwrap(), "link.allows");
        assert_eq!(wrong(r#""allows": ["upload"], "downloads": 1"#).unwrap(), "link.downloads");
        assert_eq!(wrong(r#""allows": ["download"], "downloads": 0"#).unwrap(), "link.downloads");
        assert_eq!(wrong(r#""allows": ["download"], "uploads": 1"#).unwrap(), "link.uploads");
        assert_eq!(wrong(r#""allows": ["download"], "files": ["a.txt", "b"]"#), None);
        assert_eq!(wrong(r#""allows": ["upload"], "files": ["a.txt"]"#).unwrap(), "link.files");
        for bad in ["", "..", ".", "a/b", "a\\u0000"] {
            let files = format!(r#""allows": ["download"], "files": ["{bad}"]"#);
            assert_eq!(wrong(&files).unwrap(), "link.files", "{bad}");
        }
        let twice = r#""allows": ["download"], "files": ["a", "a"]"#;
        assert_eq!(wrong(twice).unwrap(), "link.files");
    }

    #[test]
    fn who_may_only_upload_sees_nothing() {
        let text = r#"{"owner": "anna", "folder": "/in", "allows": ["upload"],
                       "file_size_bytes": 9, "upload_bytes": 7}"#;
        let terms: LinkTerms = serde_json::from_str(text).unwrap();
        let rights: Vec<Right> = terms.rights().iter().collect();
        assert_eq!(rights, [Right::Write]);
        assert_eq!(terms.largest_upload(), Some(7));
        assert_eq!("upload".parse(), Ok(LinkAction::Upload));
        assert!("view".parse::<LinkAction>().is_err());
    }
}
