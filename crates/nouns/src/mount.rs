//! Mounts: which part of which endpoint an account sees under which path.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::document::is_default;
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::path::{StorePath, VPath};

/// One thing that may be done below a mount.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Right {
    /// See names, sizes and times.
    List = 1,
    /// Download files, and ask for their digests.
    Read = 2,
    /// Create new files.
    Write = 4,
    /// Replace existing files, truncate, change times.
    Overwrite = 8,
    /// Remove files; for directories see [`Right::Directories`].
    Delete = 16,
    /// Rename within the mount.
    Rename = 32,
    /// Make and remove directories.
    Directories = 64,
}

impl Right {
    /// All rights, in the order in which documents list them.
    pub const ALL: [Right; 7] = [
        Right::List,
        Right::Read,
        Right::Write,
        Right::Overwrite,
        Right::Delete,
        Right::Rename,
        Right::Directories,
    ];
}

/// A set of rights; in documents a list of words, or the word `all`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// Every right there is: what an account or mount has that does not say.
    pub fn all() -> Self {
        Right::ALL.into_iter().collect()
    }

    /// True if it holds every right.
    // The signature is what serde's `skip_serializing_if` asks for.
    pub fn is_all(&self) -> bool {
        *self == Rights::all()
    }

    /// The empty set: nothing may be done, not even listed.
    pub fn none() -> Self {
        Rights(0)
    }

    /// List and read.
    pub fn read_only() -> Self {
        [Right::List, Right::Read].into_iter().collect()
    }

    /// True if `right` is among them.
    pub fn has(self, right: Right) -> bool {
        self.0 & right as u8 != 0
    }

    /// What both sets hold.
    #[must_use]
    pub fn and(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }

    /// The rights one by one.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.has(*right))
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Rights(rights.into_iter().fold(0, |set, right| set | right as u8))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for Rights {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.is_all() { to.serialize_str("all") } else { to.collect_seq(self.iter()) }
    }
}

impl<'de> Deserialize<'de> for Rights {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Rights;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "'all', 'read-only' or a list of list, read, write, overwrite, delete, \
                     rename, directories",
                )
            }
            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Rights, E> {
                match word {
                    "all" => Ok(Rights::all()),
                    "read-only" => Ok(Rights::read_only()),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<Rights, A::Error> {
                let mut rights = Vec::new();
                while let Some(right) = seq.next_element::<Right>()? {
                    rights.push(right);
                }
                Ok(rights.into_iter().collect())
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// Most that may lie below a mount. Unset: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Bytes of all published files and of staging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Number of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Bytes of one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<u64>,
}

/// What a mount offers beyond rights, each off unless it is named.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum MountOption {
    /// Files may be given second names within the mount (`hardlink@openssh.com`), where the store
    /// has them. Who may create files and read may do it.
    HardLinks,
    /// Listings show one's own unfinished uploads, for clients that resume by what is listed.
    ListPartials,
    /// Symbolic links within the mount exist: they are listed, followed and, by who may create
    /// files, made, where the store has them.
    Symlinks,
}

/// The directory in which a mount keeps what was removed. No path of a session can name it.
pub const TRASH_NAME: &str = ".entrepot-trash";

/// True for the name of that directory. Letter case is ignored: the file system may ignore it too.
pub fn is_trash_name(name: &str) -> bool {
    name.eq_ignore_ascii_case(TRASH_NAME)
}

/// What the names begin with under which files lie there that are held; behind it the id of the
/// transfer.
pub const HELD_PREFIX: &str = "held-";

/// What is removed below a mount is kept for some time, and can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrashOptions {
    /// For how many days, 1 to 3650. What was removed before a change keeps the days that held
    /// then.
    pub days: u16,
    /// Most bytes that are kept, 1 to 2^50: beyond them what was removed first is deleted for
    /// good. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl TrashOptions {
    /// The longest that anything can be kept, in days.
    pub const MOST_DAYS: u16 = 3650;
    /// The largest limit of bytes.
    pub const MOST_BYTES: u64 = 1 << 50;

    /// For how long.
    pub fn time(self) -> Duration {
        days(self.days)
    }

    fn check(&self) -> Result<(), FieldError> {
        check_days("trash.days", self.days)?;
        check_bytes("trash.bytes", self.bytes)
    }
}

/// What uploads, renames and copies replace below a mount is kept, and can be put back. At least
/// one of the fields is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionOptions {
    /// Most versions of a file, 1 to 1000, beside the file itself: beyond them the oldest are
    /// deleted for good. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u16>,
    /// For how many days, 1 to 3650. What was replaced before a change keeps the days that held
    /// then. Unset: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u16>,
    /// Most bytes of versions of all files below the mount, 1 to 2^50: beyond them the oldest are
    /// deleted for good. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl VersionOptions {
    /// The largest number of versions that can be asked for.
    pub const MOST_KEPT: u16 = 1000;

    /// For how long; `None`: for ever.
    pub fn time(self) -> Option<Duration> {
        self.days.map(days)
    }

    fn check(&self) -> Result<(), FieldError> {
        if *self == VersionOptions::default() {
            let problem = "at least one of keep, days and bytes was expected";
            return Err(FieldError::new("versions", problem.to_owned()));
        }
        if !self.keep.is_none_or(|keep| (1..=VersionOptions::MOST_KEPT).contains(&keep)) {
            let problem = format!("1 to {} versions were expected", VersionOptions::MOST_KEPT);
            return Err(FieldError::new("versions.keep", problem));
        }
        self.days.map_or(Ok(()), |days| check_days("versions.days", days))?;
        check_bytes("versions.bytes", self.bytes)
    }
}

fn days(count: u16) -> Duration {
    Duration::from_secs(u64::from(count) * 86_400)
}

fn check_days(field: &'static str, days: u16) -> Result<(), FieldError> {
    if (1..=TrashOptions::MOST_DAYS).contains(&days) {
        return Ok(());
    }
    let problem = format!("1 to {} days were expected", TrashOptions::MOST_DAYS);
    Err(FieldError::new(field, problem))
}

fn check_bytes(field: &'static str, bytes: Option<u64>) -> Result<(), FieldError> {
    if bytes.is_none_or(|bytes| (1..=TrashOptions::MOST_BYTES).contains(&bytes)) {
        return Ok(());
    }
    let problem = format!("1 to {} bytes were expected", TrashOptions::MOST_BYTES);
    Err(FieldError::new(field, problem))
}

/// Permission bits of files and directories that clients may change; the others stay as they are.
/// Of read, write and execute for owner, group and others at most: set-uid, set-gid and sticky are
/// never set. In documents octal digits in quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ModeMask(u32);

impl ModeMask {
    /// The bits that clients may change, as chmod(2) numbers them: 0 to 0o777.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// True if clients may change none: they are shown modes that follow from their rights.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Default for ModeMask {
    fn default() -> Self {
        ModeMask(0o777)
    }
}

impl fmt::Debug for ModeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

/// A text is no [`ModeMask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("octal digits from 0000 to 0777 were expected")]
pub struct NoModeMask;

impl FromStr for ModeMask {
    type Err = NoModeMask;
    fn from_str(text: &str) -> Result<Self, NoModeMask> {
        let is_octal = text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        let bits = u32::from_str_radix(text, 8).ok().filter(|_| is_octal);
        bits.filter(|bits| *bits <= 0o777).map(ModeMask).ok_or(NoModeMask)
    }
}

impl Serialize for ModeMask {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{:04o}", self.0))
    }
}

impl<'de> Deserialize<'de> for ModeMask {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = ModeMask;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("octal digits in quotes from '0000' to '0777'")
            }
            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<ModeMask, E> {
                let problem = |_| E::invalid_value(serde::de::Unexpected::Str(word), &self);
                word.parse().map_err(problem)
            }
        }
        from.deserialize_str(Visitor)
    }
}

/// A virtual path → endpoint + prefix + rights + quota, given to an account or group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Unique among the mounts of its site; never changes.
    pub name: Name,
    /// The account or group that gets it.
    pub account: Name,
    /// Where it appears. Of two mounts the deeper path wins; of an account and its group the
    /// account.
    pub path: VPath,
    /// Where the files lie.
    pub endpoint: Name,
    /// Directory of the endpoint that appears as `path`. `{account}` stands for the account's
    /// name, so that a group's mount gives each member a folder of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// What may be done there.
    #[serde(default = "Rights::all")]
    pub rights: Rights,
    /// How much may lie there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// What is uploaded stays hidden until the step `release` of a rule on `file.held` lets it be
    /// seen, so that it can be looked at first. What is there is not touched until then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hold: bool,
    /// Also compute SHA-256 of each upload, beside BLAKE3.
    #[serde(default)]
    pub sha256: bool,
    /// What it offers beyond rights.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub options: BTreeSet<MountOption>,
    /// Which permission bits clients may change, where the store keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_mask: Option<ModeMask>,
    /// Whether what is removed can be put back, and how long. Unset: it cannot. Its room counts
    /// towards the quota until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trash: Option<TrashOptions>,
    /// Whether what is replaced can be put back, how much of it and how long. Unset: it cannot.
    /// Its room counts towards the quota until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<VersionOptions>,
}

impl Mount {
    /// True if it offers `option`.
    pub fn offers(&self, option: MountOption) -> bool {
        self.options.contains(&option)
    }

    /// Which permission bits clients may change.
    pub fn mode_mask(&self) -> ModeMask {
        self.mode_mask.unwrap_or_default()
    }

    /// The prefix for this account, checked.
    pub fn prefix_for(&self, account: &Name) -> Result<StorePath, crate::path::PathError> {
        self.prefix.replace("{account}", account.as_str()).trim_matches('/').parse()
    }
}

impl Noun for Mount {
    const KIND: Kind = Kind::Mount;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        vec![
            Reference::new("account", Kind::Account, &self.account),
            Reference::new("endpoint", Kind::Endpoint, &self.endpoint),
        ]
    }
    fn check(&self) -> Result<(), FieldError> {
        let prefix = self.prefix_for(&self.account);
        let prefix = prefix.map_err(|e| FieldError::new("prefix", e.to_string()))?;
        if prefix.components().any(is_trash_name) {
            let problem = format!("the name '{TRASH_NAME}' is reserved for what was removed");
            return Err(FieldError::new("prefix", problem));
        }
        self.trash.as_ref().map_or(Ok(()), TrashOptions::check)?;
        self.versions.as_ref().map_or(Ok(()), VersionOptions::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_in_documents() {
        let all: Rights = serde_json::from_str("\"all\"").unwrap();
        assert!(all.is_all());
        let some: Rights = serde_json::from_str("[\"list\",\"write\"]").unwrap();
        assert!(some.has(Right::Write) && !some.has(Right::Read));
        assert_eq!(serde_json::to_string(&some).unwrap(), "[\"list\",\"write\"]");
        assert!(serde_json::from_str::<Rights>("[\"fly\"]").is_err());
        assert!(serde_json::from_str::<Rights>("\"most\"").is_err());
    }

    #[test]
    fn masks_in_documents_are_octal_and_never_set_uid() {
        let mask: ModeMask = serde_json::from_str("\"0750\"").unwrap();
        assert_eq!((mask.bits(), format!("{mask:?}")), (0o750, "0750".to_owned()));
        assert_eq!(serde_json::to_string(&mask).unwrap(), "\"0750\"");
        assert!(serde_json::from_str::<ModeMask>("\"0\"").unwrap().is_empty());
        assert_eq!(serde_json::from_str::<ModeMask>("\"777\"").unwrap(), ModeMask::default());
        for wrong in ["\"1777\"", "\"4755\"", "\"0888\"", "\"+7\"", "\"\"", "755", "\"rwx\""] {
            assert!(serde_json::from_str::<ModeMask>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_cannot_climb() {
        let mount = |prefix: &str| Mount {
            name: "m".parse().unwrap(),
            account: "acme".parse().unwrap(),
            path: VPath::root(),
            endpoint: "e".parse().unwrap(),
            prefix: prefix.to_owned(),
            rights: Rights::all(),
            quota: None,
            hold: false,
            sha256: false,
            options: BTreeSet::new(),
            mode_mask: None,
            trash: None,
            versions: None,
        };
        let acme = "acme".parse().unwrap();
        assert_eq!(mount("homes/{account}").prefix_for(&acme).unwrap().as_str(), "homes/acme");
        assert!(mount("../{account}").check().is_err());
        assert!(
            mount("a/.Entrepot-Trash/b").check().is_err(),
            "the trash of another mount is shown"
        );
        for (days, is_right) in [(0, false), (1, true), (3650, true), (3651, false)] {
            let trash = Some(TrashOptions { days, bytes: None });
            let versions = Some(VersionOptions { days: Some(days), ..VersionOptions::default() });
            for mount in [Mount { trash, ..mount("homes") }, Mount { versions, ..mount("homes") }] {
                assert_eq!(mount.check().is_ok(), is_right, "{days}");
            }
        }
        for (field, document) in [
            ("versions", "{}"),
            ("versions.keep", r#"{"keep":0}"#),
            ("versions.keep", r#"{"keep":1001}"#),
            ("versions.bytes", r#"{"bytes":0,"keep":3}"#),
            ("trash.bytes", r#"{"days":3,"bytes":1125899906842625}"#),
        ] {
            let mut mount = mount("homes");
            if field.starts_with("trash") {
                mount.trash = Some(serde_json::from_str(document).unwrap());
            } else {
                mount.versions = Some(serde_json::from_str(document).unwrap());
            }
            assert_eq!(mount.check().unwrap_err().field, field, "{document}");
        }
        assert!(serde_json::from_str::<VersionOptions>(r#"{"keep":3,"weeks":1}"#).is_err());
        let kept = VersionOptions { keep: Some(1), ..VersionOptions::default() };
        assert!(Mount { versions: Some(kept), ..mount("homes") }.check().is_ok());
    }
}
