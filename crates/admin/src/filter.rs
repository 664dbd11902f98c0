//! Which nouns a list shows, and in which order.

use std::cmp::Ordering;
use std::str::FromStr;

use entrepot_nouns::Name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A condition on one field. As text `FIELD:VALUE`, or `FIELD:BEGINNING*`. A list passes if one
/// of its items does; secrets are compared as they are shown, `***`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldFilter {
    /// Path of the field, such as `quota.files`.
    pub field: String,
    /// The text of its value, or the beginning of it.
    pub value: String,
    /// Which of both.
    pub comparison: Comparison,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It has the value.
    Equal,
    /// It begins with the value.
    Prefix,
}

impl FromStr for FieldFilter {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text.split_once(':').filter(|(field, _)| !field.is_empty());
        let (field, value) =
            parts.ok_or_else(|| format!("'{text}' is not of the form FIELD:VALUE"))?;
        let (value, comparison) = match value.strip_suffix('*') {
            Some(beginning) => (beginning, Comparison::Prefix),
            None => (value, Comparison::Equal),
        };
        Ok(FieldFilter { field: field.to_owned(), value: value.to_owned(), comparison })
    }
}

impl TryFrom<String> for FieldFilter {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl From<FieldFilter> for String {
    fn from(filter: FieldFilter) -> String {
        let star = if filter.comparison == Comparison::Prefix { "*" } else { "" };
        format!("{}:{}{star}", filter.field, filter.value)
    }
}

impl FieldFilter {
    pub(crate) fn passes(&self, value: &Value) -> bool {
        let text_passes = |text: &str| match self.comparison {
            Comparison::Equal => text == self.value,
            Comparison::Prefix => text.starts_with(&self.value),
        };
        match value {
            Value::String(text) => text_passes(text),
            Value::Bool(_) | Value::Number(_) => text_passes(&value.to_string()),
            Value::Array(items) => items.iter().any(|item| self.passes(item)),
            Value::Null | Value::Object(_) => false,
        }
    }
}

/// The order of a list, by one field and then by name. As text the path of the field, with `-` in
/// front for the opposite order. Nouns without the field come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SortOrder(pub String);

impl SortOrder {
    pub(crate) fn field(&self) -> &str {
        self.0.strip_prefix('-').unwrap_or(&self.0)
    }

    pub(crate) fn is_by_name(&self) -> bool {
        self.0 == "name"
    }

    pub(crate) fn compare(&self, one: SortKey<'_>, other: SortKey<'_>) -> Ordering {
        let order = compare(one.value, other.value).then_with(|| one.name.cmp(other.name));
        if self.0.starts_with('-') { order.reverse() } else { order }
    }
}

/// What decides the place of a noun in a list.
#[derive(Clone, Copy)]
pub(crate) struct SortKey<'a> {
    /// What it has in the field.
    pub(crate) value: &'a Value,
    pub(crate) name: &'a Name,
}

/// Values of one field in their order; those of different types by type.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Number(one), Value::Number(other)) => {
            let exact = one.as_i64().zip(other.as_i64()).map(|(one, other)| one.cmp(&other));
            let near = || one.as_f64().partial_cmp(&other.as_f64());
            exact.or_else(near).unwrap_or(Ordering::Equal)
        }
        _ => rank(one).cmp(&rank(other)),
    }
}

/// Values of one type have an order.
pub(crate) fn is_sortable(value: &Value) -> bool {
    rank(value) < 4
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) | Value::Object(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_condition_as_text_goes_round_and_compares() {
        for (text, passing, failing) in [
            ("type:partner", json!("partner"), json!("partners")),
            ("name:ac*", json!("acme"), json!("bacme")),
            ("enabled:true", json!(true), json!("tru")),
            ("quota.files:7", json!(7), json!(77)),
            ("groups:staff", json!(["a", "staff"]), json!(["a"])),
            ("note:a:b", json!("a:b"), json!(null)),
        ] {
            let filter: FieldFilter = text.parse().unwrap();
            assert_eq!(String::from(filter.clone()), text);
            assert!(filter.passes(&passing), "{text}");
            assert!(!filter.passes(&failing), "{text}");
        }
        assert!("name".parse::<FieldFilter>().is_err() && ":x".parse::<FieldFilter>().is_err());
    }

    #[test]
    fn values_are_in_order_and_names_decide_between_equal_ones() {
        let (a, b): (Name, Name) = ("a".parse().unwrap(), "b".parse().unwrap());
        let sorted = [json!(null), json!(false), json!(2), json!(10), json!("a"), json!("b")];
        let up = SortOrder("size".to_owned());
        let down = SortOrder("-size".to_owned());
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                let one = SortKey { value: one, name: &a };
                let other = SortKey { value: other, name: &b };
                let order = at.cmp(&other_at).then(Ordering::Less);
                assert_eq!(up.compare(one, other), order);
                assert_eq!(down.compare(one, other), order.reverse());
            }
        }
        assert_eq!(down.field(), "size");
    }
}
