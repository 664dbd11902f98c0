//! Jobs of a rule that follow each other in the order of their events.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::document::is_default;

/// Jobs of a rule with the same value run one after the other, in the order in which their events
/// happened, whatever node they run on. In a document also the value alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Order {
    /// The value, with placeholders of the event, such as `{account}`.
    pub by: String,
    /// What becomes of those behind a job that has failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: BehindFailed,
}

/// What becomes of jobs behind one that has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BehindFailed {
    /// They wait until somebody retries or cancels it.
    #[default]
    Stop,
    /// They go on without it.
    Skip,
}

/// The fields, as a mapping has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderFields {
    by: String,
    #[serde(default)]
    failed: BehindFailed,
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Order, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}

/// Reads the value alone, or a mapping. An untagged enum would not say what is wrong in it.
struct EitherForm;

impl<'de> Visitor<'de> for EitherForm {
    type Value = Order;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value such as '{account}', or a mapping with 'by'")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Order, E> {
        Ok(Order { by: text.to_owned(), failed: BehindFailed::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Order, A::Error> {
        let OrderFields { by, failed } = OrderFields::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Order { by, failed })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_alone_is_enough_and_what_is_wrong_is_named() {
        let short: Order = serde_json::from_value(json!("{account}")).unwrap();
        assert_eq!(serde_json::to_value(&short).unwrap(), json!({"by": "{account}"}));
        let skips: Order = serde_json::from_value(json!({"by": "x", "failed": "skip"})).unwrap();
        assert_eq!(skips.failed, BehindFailed::Skip);
        for (bad, word) in [
            (json!({"failed": "skip"}), "by"),
            (json!({"by": "x", "failed": "go"}), "go"),
            (json!({"by": "x", "lane": 1}), "lane"),
            (json!(3), "{account}"),
        ] {
            let error = serde_json::from_value::<Order>(bad).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
