//! How long a site keeps what it records, and where it goes before it is deleted.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{ARCHIVE_KEEP_DAYS, KEEP_DAYS};
use crate::name::Name;
use crate::noun::FieldError;
use crate::path::StorePath;
use crate::time::Timestamp;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// How long something is kept. In documents `forever`, or a number of days, weeks or years of 365
/// days: `90d`, `26w`, `7y`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// It is never deleted.
    Forever,
    /// It is deleted when it is older than so many days.
    Days(u32),
}

impl Keep {
    /// What is older than this moment need not be kept at `now`; `None`: everything is kept.
    pub fn cutoff(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Keep::Forever => None,
            Keep::Days(days) => {
                Some(Timestamp(now.micros().saturating_sub(i64::from(days) * DAY * 1_000_000)))
            }
        }
    }

    fn check(self, field: &str, least: u32) -> Result<(), FieldError> {
        match self {
            Keep::Days(days) if !(least..=KEEP_DAYS).contains(&days) => {
                let problem = format!("it is {least}d to {KEEP_DAYS}d, or forever");
                Err(FieldError::new(format!("retention.{field}"), problem))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keep::Forever => f.pad("forever"),
            Keep::Days(days) => write!(f, "{days}d"),
        }
    }
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a time such as 90d, 26w, 7y or forever");
        if text == "forever" {
            return Ok(Keep::Forever);
        }
        let unit = text.chars().last().ok_or_else(wrong)?;
        let days = match unit {
            'd' => 1,
            'w' => 7,
            'y' => 365,
            _ => return Err(wrong()),
        };
        let number: u32 =
            text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
        number.checked_mul(days).map(Keep::Days).ok_or_else(wrong)
    }
}

impl Serialize for Keep {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How long a site keeps what it records. What is unset has the default that its field names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Events of the audit log. Unset: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Keep>,
    /// Transfers that have ended. Unset: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Keep>,
    /// Jobs that are done, have failed or were cancelled. Unset: 90 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Keep>,
    /// Segments of the archive of each node's journal; of the site `main` alone, for a journal
    /// belongs to all sites. Unset: 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<Keep>,
    /// Most MiB of such an archive: the oldest segments go first, though none before its third day.
    /// Of the site `main` alone. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_mib: Option<u64>,
    /// Where events are written before they are deleted. Unset: they are deleted without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<RetentionExport>,
}

/// Where events are written before they are deleted: files of NDJSON, compressed by zstd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionExport {
    /// An endpoint of the site `main`: a directory, a bucket or a server.
    pub endpoint: Name,
    /// The folder of the endpoint in which a folder of the site is made. Unset: its root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub folder: String,
}

impl Retention {
    /// How long events are kept.
    pub fn events(&self) -> Keep {
        self.events.unwrap_or(Keep::Forever)
    }

    /// How long transfers that have ended are kept.
    pub fn transfers(&self) -> Keep {
        self.transfers.unwrap_or(Keep::Forever)
    }

    /// How long jobs that have ended are kept.
    pub fn jobs(&self) -> Keep {
        self.jobs.unwrap_or(Keep::Days(90))
    }

    /// How long segments of the archive of a journal are kept.
    pub fn archive(&self) -> Keep {
        self.archive.unwrap_or(Keep::Days(30))
    }

    /// Checks what the types alone cannot, for the site of this name.
    ///
    /// # Errors
    /// The field that cannot be taken.
    pub(crate) fn check(&self, site: &Name) -> Result<(), FieldError> {
        for (field, keep) in
            [("events", self.events), ("transfers", self.transfers), ("jobs", self.jobs)]
        {
            keep.map_or(Ok(()), |keep| keep.check(field, 1))?;
        }
        self.archive.map_or(Ok(()), |keep| keep.check("archive", ARCHIVE_KEEP_DAYS))?;
        if site.as_str() != "main" {
            for (field, is_set) in
                [("archive", self.archive.is_some()), ("archive_mib", self.archive_mib.is_some())]
            {
                if is_set {
                    let problem = "journals belong to all sites: set it on the site 'main'";
                    return Err(FieldError::new(format!("retention.{field}"), problem));
                }
            }
        }
        let folder = self.export.as_ref().map_or("", |export| &export.folder);
        match folder.parse::<StorePath>() {
            Ok(_) => Ok(()),
            Err(error) => Err(FieldError::new("retention.export.folder", error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_go_round_and_nonsense_is_refused() {
        for (text, keep) in [
            ("forever", Keep::Forever),
            ("90d", Keep::Days(90)),
            ("2w", Keep::Days(14)),
            ("7y", Keep::Days(2555)),
        ] {
            assert_eq!(text.parse(), Ok(keep), "{text}");
            assert_eq!(keep.to_string().parse(), Ok(keep));
        }
        for text in ["", "d", "90", "-1d", "1.5y", "4294967295y", "9h", "für immer"] {
            assert!(text.parse::<Keep>().is_err(), "{text}");
        }
        let now = Timestamp::from_seconds(100 * DAY);
        assert_eq!(Keep::Days(90).cutoff(now), Some(Timestamp::from_seconds(10 * DAY)));
        assert_eq!(Keep::Forever.cutoff(now), None);
    }

    #[test]
    fn what_would_delete_too_much_is_refused() {
        let main: Name = "main".parse().unwrap();
        let check = |json: serde_json::Value, site: &Name| {
            serde_json::from_value::<Retention>(json).unwrap().check(site).map_err(|it| it.field)
        };
        assert_eq!(check(json!({}), &main), Ok(()));
        assert_eq!(check(json!({"events": "400d", "archive": "3d"}), &main), Ok(()));
        assert_eq!(check(json!({"events": "0d"}), &main), Err("retention.events".to_owned()));
        assert_eq!(check(json!({"archive": "2d"}), &main), Err("retention.archive".to_owned()));
        let north: Name = "north".parse().unwrap();
        assert_eq!(check(json!({"jobs": "9d"}), &north), Ok(()));
        let mib = check(json!({"archive_mib": 9}), &north);
        assert_eq!(mib, Err("retention.archive_mib".to_owned()));
        let export = json!({"export": {"endpoint": "vault", "folder": "../up"}});
        assert_eq!(check(export, &main), Err("retention.export.folder".to_owned()));
    }
}
