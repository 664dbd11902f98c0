//! Rules that start by the clock.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::document::is_default;
use crate::name::Name;
use crate::period::Period;

/// When a rule starts by the clock. In a document also the expression alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Cron {
    /// Minute, hour, day of the month, month, day of the week; before them seconds, if there are
    /// six. Day and weekday: one of them is enough, `+MON` asks for both.
    pub expression: String,
    /// The time zone of its clock, such as `Europe/Berlin`.
    #[serde(default = "utc", skip_serializing_if = "is_utc")]
    pub zone: String,
    /// The policy with the calendar of the days on which it starts, by the clock of its zone.
    /// Unset: on any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Name>,
    /// What happens with instants at which no node was running.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missed: Missed,
    /// With `missed: last`: an instant that is longer ago is not made up for. As text: `30s`,
    /// `15m`, `4h`, `7d`.
    #[serde(default = "hour", skip_serializing_if = "is_hour")]
    pub late: Period,
    /// What happens at an instant when the run before it has not ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overlap: Overlap,
}

/// What happens with instants at which no node was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// One run for the newest of them.
    #[default]
    Last,
    /// One run for each, the oldest first; for the newest 100 if there are more.
    All,
    /// They are passed over, with an event that says so.
    None,
}

/// What happens at an instant when the run before it has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// That instant is passed over, with an event that says so.
    #[default]
    Skip,
    /// The run begins when the other one has ended; of several that wait only the newest does.
    Queue,
    /// The run begins at once.
    Parallel,
}

fn utc() -> String {
    "UTC".to_owned()
}

const fn hour() -> Period {
    Period::from_seconds(3_600)
}

fn is_utc(zone: &str) -> bool {
    zone == "UTC"
}

// The signature is what serde's `skip_serializing_if` asks for.
fn is_hour(late: &Period) -> bool {
    *late == hour()
}

impl Cron {
    /// In UTC, with everything else as it is by default.
    pub fn new(expression: impl Into<String>) -> Cron {
        Cron {
            expression: expression.into(),
            zone: utc(),
            calendar: None,
            missed: Missed::default(),
            late: hour(),
            overlap: Overlap::default(),
        }
    }
}

/// The fields, as a mapping has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CronFields {
    expression: String,
    #[serde(default = "utc")]
    zone: String,
    #[serde(default)]
    calendar: Option<Name>,
    #[serde(default)]
    missed: Missed,
    #[serde(default = "hour")]
    late: Period,
    #[serde(default)]
    overlap: Overlap,
}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cron, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}

/// Reads the expression alone, or a mapping. An untagged enum would not say what is wrong in it.
struct EitherForm;

impl<'de> Visitor<'de> for EitherForm {
    type Value = Cron;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an expression such as '0 3 * * *', or a mapping with 'expression'")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Cron, E> {
        Ok(Cron::new(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cron, A::Error> {
        let CronFields { expression, zone, calendar, missed, late, overlap } =
            CronFields::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Cron { expression, zone, calendar, missed, late, overlap })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_has_its_default_and_is_not_written() {
        let short: Cron = serde_json::from_value(json!("0 3 * * *")).unwrap();
        let long: Cron = serde_json::from_value(json!({"expression": "0 3 * * *"})).unwrap();
        assert_eq!(short, long);
        assert_eq!(serde_json::to_value(&short).unwrap(), json!({"expression": "0 3 * * *"}));
        let all = json!({
            "expression": "*/5 * * * * *", "zone": "Europe/Berlin", "calendar": "bank",
            "missed": "all", "late": "4h", "overlap": "queue",
        });
        let read: Cron = serde_json::from_value(all.clone()).unwrap();
        assert_eq!((read.missed, read.overlap), (Missed::All, Overlap::Queue));
        assert_eq!(serde_json::to_value(&read).unwrap(), all);
    }

    #[test]
    fn what_is_no_field_or_no_value_of_one_is_named() {
        for (bad, word) in [
            (json!({"expression": "0 3 * * *", "calendars": "bank"}), "calendars"),
            (json!({"expression": "0 3 * * *", "missed": "some"}), "some"),
            (json!({"expression": "0 3 * * *", "late": "soon"}), "soon"),
            (json!({"zone": "UTC"}), "expression"),
            (json!(3), "expression"),
        ] {
            let error = serde_json::from_value::<Cron>(bad.clone()).unwrap_err().to_string();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
