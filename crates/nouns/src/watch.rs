//! Rules that start on files of a folder that others write to: on any endpoint, looked at every so
//! often.

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::limits::{FILE_PATTERN_BYTES, FILE_PATTERNS, WATCH_LIMIT};
use crate::name::Name;
use crate::noun::FieldError;
use crate::path::VPath;
use crate::period::Period;
use crate::time::Timestamp;
use crate::web_hook::WebHook;

/// A rule starts once for each version of each file that appears in a folder of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The endpoint that has the folder.
    pub endpoint: Name,
    /// The folder there, such as `/out`.
    #[serde(default = "VPath::root", skip_serializing_if = "VPath::is_root")]
    pub path: VPath,
    /// Only files that one of these patterns fits; empty: all. `*` stands for any letters, `?` for
    /// one; a pattern with a slash is compared with the path below the folder, else with the name.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    pub matching: Vec<FilePattern>,
    /// Files and folders that are left alone: by default those with a temporary name.
    #[serde(default = "temporary", skip_serializing_if = "is_temporary")]
    pub ignore: Vec<FilePattern>,
    /// How often the folder is listed. As text: `30s`, `15m`.
    #[serde(default = "half_a_minute", skip_serializing_if = "is_half_a_minute")]
    pub every: Period,
    /// Whoever keeps the files tells when some have come, by a web hook that is posted to
    /// `/hooks/RULE`: then the folder is listed at once. `every` finds what nobody told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<WebHook>,
    /// A file is whole when two looks so far apart found the same size and time; `0s`: at once.
    #[serde(default = "ten_seconds", skip_serializing_if = "is_ten_seconds")]
    pub stable: Period,
    /// Also the folders in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recursive: bool,
    /// A file is whole when one of this name lies beside it, such as `{name}.done` or `{stem}.ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_file: Option<DoneFile>,
    /// Files that were last changed longer ago are left alone; unset: none is too old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Period>,
    /// On what it starts.
    #[serde(default = "all_changes", skip_serializing_if = "is_all_changes")]
    pub on: Vec<WatchChange>,
    /// How its job makes a file its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub take: WatchTake,
    /// Most files that are taken at one look; the others follow at the next one.
    #[serde(default = "most", skip_serializing_if = "is_most")]
    pub limit: u32,
}

/// Why a file counts as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WatchChange {
    /// No file of this path was taken before.
    New,
    /// A file of this path was taken before, and has another size or time now.
    Changed,
    /// A file of this path was taken before, and a whole listing does not have it any more.
    Removed,
}

/// A file that a rule found in the folder that it watches, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenFile {
    /// Below the watched folder.
    pub path: String,
    /// Its size in bytes when it was found last; unset: it is to be found anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was changed last, by the clock of its server.
    pub modified: Timestamp,
    /// It is not listed any more since then; it is forgotten some time after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_at: Option<Timestamp>,
}

/// How a job makes a file of a watched folder its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WatchTake {
    /// By the event that it was found, which is one on all nodes. Others may take it meanwhile.
    #[default]
    Lease,
    /// It also gets another name in its folder first, under which nobody else looks for it.
    Rename,
}

/// What the names begin with that [`WatchTake::Rename`] gives.
pub const TAKEN: &str = ".taken-";

impl WatchChange {
    /// The word in documents and events.
    pub fn as_str(self) -> &'static str {
        match self {
            WatchChange::New => "new",
            WatchChange::Changed => "changed",
            WatchChange::Removed => "removed",
        }
    }
}

const TEMPORARY: [&str; 5] = [".*", "*.tmp", "*.part", "*.partial", "*.filepart"];

pub(crate) fn temporary() -> Vec<FilePattern> {
    // The invariant: each of them is a pattern, which a test reads.
    TEMPORARY.iter().filter_map(|text| FilePattern::try_from((*text).to_owned()).ok()).collect()
}

const fn half_a_minute() -> Period {
    Period::from_seconds(30)
}

const fn ten_seconds() -> Period {
    Period::from_seconds(10)
}

const fn most() -> u32 {
    WATCH_LIMIT
}

fn all_changes() -> Vec<WatchChange> {
    vec![WatchChange::New, WatchChange::Changed]
}

// The signatures are what serde's `skip_serializing_if` asks for.
pub(crate) fn is_temporary(ignore: &[FilePattern]) -> bool {
    ignore.iter().map(|pattern| pattern.text.as_str()).eq(TEMPORARY)
}

fn is_half_a_minute(every: &Period) -> bool {
    *every == half_a_minute()
}

fn is_ten_seconds(stable: &Period) -> bool {
    *stable == ten_seconds()
}

fn is_all_changes(on: &[WatchChange]) -> bool {
    on == all_changes()
}

fn is_most(limit: &u32) -> bool {
    *limit == most()
}

impl Watch {
    /// Of a folder, with everything else as it is by default.
    pub fn new(endpoint: Name, path: VPath) -> Watch {
        Watch {
            endpoint,
            path,
            matching: Vec::new(),
            ignore: temporary(),
            every: half_a_minute(),
            hook: None,
            stable: ten_seconds(),
            recursive: false,
            done_file: None,
            max_age: None,
            on: all_changes(),
            take: WatchTake::default(),
            limit: most(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let flaw =
            |field: &str, text: String| Err(FieldError::new(format!("when.watch.{field}"), text));
        let day = Period::from_seconds(86_400);
        if self.every < Period::from_seconds(1) || self.every > day {
            return flaw("every", "from 1s to 1d".to_owned());
        }
        if self.stable > day {
            return flaw("stable", "at most 1d".to_owned());
        }
        if self.on.is_empty() {
            return flaw("on", "name 'new', 'changed', 'removed' or several".to_owned());
        }
        if self.limit == 0 || self.limit > WATCH_LIMIT {
            return flaw("limit", format!("from 1 to {WATCH_LIMIT}"));
        }
        for (field, patterns) in [("match", &self.matching), ("ignore", &self.ignore)] {
            if patterns.len() > FILE_PATTERNS {
                return flaw(field, format!("at most {FILE_PATTERNS} patterns"));
            }
        }
        let Some(hook) = &self.hook else { return Ok(()) };
        if !hook.headers.is_empty() {
            return flaw("hook.headers", "nothing of the message is kept here".to_owned());
        }
        hook.check("when.watch.hook")
    }

    /// Which files it is about. What a job has taken is never one of them.
    pub fn files(&self) -> FileChoice<'_> {
        FileChoice { matching: &self.matching, ignore: &self.ignore, recursive: self.recursive }
    }

    /// Whether it starts on nothing but files that are gone.
    pub fn is_for_removed(&self) -> bool {
        self.on.iter().all(|change| *change == WatchChange::Removed)
    }
}

/// Which files below a folder of an endpoint are meant.
#[derive(Clone, Copy, Debug)]
pub struct FileChoice<'a> {
    pub(crate) matching: &'a [FilePattern],
    pub(crate) ignore: &'a [FilePattern],
    pub(crate) recursive: bool,
}

impl FileChoice<'_> {
    /// Whether a file is, by its name and its path below the folder.
    pub fn takes(&self, name: &str, below: &str) -> bool {
        let fits = |pattern: &FilePattern| pattern.fits(name, below);
        (self.matching.is_empty() || self.matching.iter().any(fits)) && !self.leaves(name, below)
    }

    /// Whether files of a folder below it can be.
    pub fn enters(&self, name: &str, below: &str) -> bool {
        self.recursive && !self.leaves(name, below)
    }

    /// Why the file at a path below the folder is none of them; nothing if it is one.
    pub fn why_not(&self, below: &str) -> Option<String> {
        let (folders, name) = below.rsplit_once('/').unwrap_or(("", below));
        let ends = folders.match_indices('/').map(|(at, _)| at).chain([folders.len()]);
        for folder in ends.filter_map(|end| folders.get(..end)).filter(|it| !it.is_empty()) {
            let (_, last) = folder.rsplit_once('/').unwrap_or(("", folder));
            if !self.recursive {
                return Some("it lies in a folder below, and 'recursive' is not set".to_owned());
            }
            if self.leaves(last, folder) {
                return Some(format!("'ignore' fits the folder '{folder}'"));
            }
        }
        if name.starts_with(TAKEN) {
            return Some("a job has given it its name".to_owned());
        }
        if self.leaves(name, below) {
            return Some("'ignore' fits it".to_owned());
        }
        (!self.takes(name, below)).then(|| "it fits no pattern of 'match'".to_owned())
    }

    /// Whether a file or folder is left alone. What a job has taken always is.
    fn leaves(&self, name: &str, below: &str) -> bool {
        name.starts_with(TAKEN) || self.ignore.iter().any(|pattern| pattern.fits(name, below))
    }
}

/// A pattern for names of files: `*` stands for any letters but the slash, `**` for any at all,
/// `?` for one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct FilePattern {
    text: String,
    regex: Regex,
}

impl PartialEq for FilePattern {
    fn eq(&self, other: &FilePattern) -> bool {
        self.text == other.text
    }
}

impl Eq for FilePattern {}

impl TryFrom<String> for FilePattern {
    type Error = String;

    fn try_from(text: String) -> Result<FilePattern, String> {
        if text.is_empty() || text.len() > FILE_PATTERN_BYTES {
            return Err(format!("a pattern has 1 to {FILE_PATTERN_BYTES} bytes"));
        }
        if text.starts_with('/') {
            return Err(format!("'{text}' begins with a slash: it is compared below the folder"));
        }
        let regex = glob(&text)?;
        Ok(FilePattern { text, regex })
    }
}

/// The expression of a pattern in which `*` stands for any letters but the slash, `**` for any at
/// all, `?` for one.
pub(crate) fn glob(text: &str) -> Result<Regex, String> {
    let mut expression = r"(?s)\A".to_owned();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (taken, meaning) = match letter {
            '*' if rest.starts_with("**") => ("**".len(), ".*".to_owned()),
            '*' => (1, "[^/]*".to_owned()),
            '?' => (1, "[^/]".to_owned()),
            letter => (letter.len_utf8(), regex::escape(letter.encode_utf8(&mut [0; 4]))),
        };
        expression.push_str(&meaning);
        rest = rest.get(taken..).unwrap_or_default();
    }
    expression.push_str(r"\z");
    Regex::new(&expression).map_err(|error| error.to_string())
}

/// As a rule's `glob(path, pattern)`: compared with the whole path.
///
/// # Errors
/// It is too long; a sentence.
pub fn path_glob(text: &str) -> Result<Regex, String> {
    if text.len() > FILE_PATTERN_BYTES {
        return Err(format!("a pattern has at most {FILE_PATTERN_BYTES} bytes"));
    }
    glob(text)
}

impl From<FilePattern> for String {
    fn from(pattern: FilePattern) -> String {
        pattern.text
    }
}

impl FilePattern {
    /// Whether it fits a file of this name, which lies at `path`. In linear time, whatever partners
    /// call their files.
    pub fn fits(&self, name: &str, path: &str) -> bool {
        self.regex.is_match(if self.text.contains('/') { path } else { name })
    }
}

/// The name of the file that says that another one is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct DoneFile(String);

impl TryFrom<String> for DoneFile {
    type Error = String;

    fn try_from(text: String) -> Result<DoneFile, String> {
        let rest = text.replacen("{name}", "", 1);
        let rest = if rest == text { text.replacen("{stem}", "", 1) } else { rest };
        if rest == text || rest.contains(['{', '}', '/']) || text == "{name}" {
            return Err(format!("'{text}' is no name such as {{name}}.done or {{stem}}.ok"));
        }
        Ok(DoneFile(text))
    }
}

impl From<DoneFile> for String {
    fn from(done: DoneFile) -> String {
        done.0
    }
}

impl DoneFile {
    /// Of a file of this name.
    pub fn of(&self, name: &str) -> String {
        let stem = match name.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => name,
        };
        self.0.replacen("{name}", name, 1).replacen("{stem}", stem, 1)
    }

    /// Whether a file of this name can be one that says that another one is whole.
    pub fn is(&self, name: &str) -> bool {
        let (before, after) = self
            .0
            .split_once("{name}")
            .or_else(|| self.0.split_once("{stem}"))
            .unwrap_or((self.0.as_str(), ""));
        name.len() > before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pattern(text: &str) -> FilePattern {
        FilePattern::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn why_a_file_is_not_meant_is_said_where_it_is_not() {
        let (xml, odd) = ([pattern("*.xml")], [pattern("odd"), pattern("*.part")]);
        for (below, recursive, said) in [
            ("a.xml", false, None),
            ("sub/deep/a.xml", true, None),
            ("a.csv", false, Some("it fits no pattern of 'match'")),
            ("a.part", false, Some("'ignore' fits it")),
            (".taken-1-a.xml", false, Some("a job has given it its name")),
            ("sub/a.xml", false, Some("it lies in a folder below, and 'recursive' is not set")),
            ("sub/odd/a.xml", true, Some("'ignore' fits the folder 'sub/odd'")),
        ] {
            let choice = FileChoice { matching: &xml, ignore: &odd, recursive };
            assert_eq!(choice.why_not(below).as_deref(), said, "{below}");
        }
    }

    #[test]
    fn patterns_fit_names_and_with_a_slash_paths() {
        for (text, path, wanted) in [
            ("*.pgp", "a.pgp", true),
            ("*.pgp", "in/a.pgp", true),
            ("*.pgp", "a.pgp.part", false),
            ("PAY*.p?p", "PAY1.php", true),
            ("PAY*.p?p", "PAY1.pp", false),
            ("*a*b*c", "xaxbxbxc", true),
            ("*a*b*c", "xaxbxbxd", false),
            ("in/*.xml", "in/a.xml", true),
            ("in/*.xml", "in/sub/a.xml", false),
            ("in/**.xml", "in/sub/a.xml", true),
            ("**/x", "a/b/x", true),
            ("**/*.xml", "a/b/c.xml", true),
            ("a.c", "abc", false),
            ("?", "ä", true),
            ("?", "", false),
            ("*", "", true),
            ("a[1]", "a[1]", true),
        ] {
            let name = path.rsplit('/').next().unwrap_or_default();
            assert_eq!(pattern(text).fits(name, path), wanted, "{text} {path}");
        }
        let bomb = "*a".repeat(120);
        assert!(!pattern(&bomb).fits(&"a".repeat(119), ""));
        for bad in ["", "/a", &"x".repeat(FILE_PATTERN_BYTES + 1)] {
            assert!(FilePattern::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_done_file_belongs_to_one_name() {
        let done = |text: &str| DoneFile::try_from(text.to_owned());
        let behind = done("{name}.done").unwrap();
        assert_eq!(behind.of("a.xml"), "a.xml.done");
        assert!(behind.is("a.xml.done") && !behind.is(".done") && !behind.is("a.xml"));
        assert_eq!(done("{stem}.ok").unwrap().of("a.tar.gz"), "a.tar.ok");
        assert!(done("ok-{name}").unwrap().is("ok-a"));
        for bad in ["", "done", "{name}", "{nmae}.done", "x/{name}", "{name}{stem}"] {
            assert!(done(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_watch_has_defaults_and_limits() {
        let watch = |more: serde_json::Value| -> Result<Watch, String> {
            let mut fields = json!({"endpoint": "bank", "path": "/out"});
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let watch: Watch = serde_json::from_value(fields).map_err(|error| error.to_string())?;
            watch.check().map_err(|error| error.field)?;
            Ok(watch)
        };
        let plain = watch(json!({})).unwrap();
        assert_eq!(plain, Watch::new("bank".parse().unwrap(), "/out".parse().unwrap()));
        let back = serde_json::to_value(&plain).unwrap();
        assert_eq!(back, json!({"endpoint": "bank", "path": "/out"}));
        assert!(plain.files().takes("a.xml", "a.xml") && plain.ignore.len() == TEMPORARY.len());
        for left in [".hidden", "a.part", "a.filepart", "a.tmp"] {
            assert!(!plain.files().takes(left, left), "{left} was taken");
        }
        let own = watch(json!({"match": ["*.xml"], "ignore": ["old*"]})).unwrap();
        assert!(own.files().takes("a.xml", "a.xml") && own.files().takes(".a.xml", ".a.xml"));
        assert!(!own.files().takes("old.xml", "old.xml") && !own.files().takes("a.csv", "a.csv"));
        for (bad, field) in [
            (json!({"every": "0s"}), "when.watch.every"),
            (json!({"every": "2d"}), "when.watch.every"),
            (json!({"stable": "2d"}), "when.watch.stable"),
            (json!({"on": []}), "when.watch.on"),
            (json!({"limit": 0}), "when.watch.limit"),
        ] {
            assert_eq!(watch(bad.clone()).unwrap_err(), field, "{bad}");
        }
        for bad in [json!({"path": "out"}), json!({"match": ["/x"]}), json!({"evry": "1s"})] {
            assert!(watch(bad.clone()).is_err(), "{bad}");
        }
    }
}
