//! What differs between two nouns, field by field, without showing a secret.

use entrepot_nouns::{AnyNoun, Kind};
use serde_json::{Map, Value};

use crate::planned_change::FieldChange;
use crate::secrets;

/// The body of a noun as JSON, as it is stored.
pub(crate) fn body(noun: &AnyNoun) -> Map<String, Value> {
    // Nouns are maps of text, numbers and lists: they always have a JSON form.
    match serde_json::to_value(noun) {
        Ok(Value::Object(mut outer)) => match outer.remove(noun.kind().as_str()) {
            Some(Value::Object(body)) => body,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}

/// The body of a noun for people and programs that read it: as it is stored, with what documents
/// leave out because it is as usual and readers look for.
pub fn shown_body(noun: &AnyNoun) -> Map<String, Value> {
    let mut body = body(noun);
    if matches!(noun.kind(), Kind::Account | Kind::Model | Kind::Rule | Kind::Listener) {
        body.entry("enabled").or_insert(Value::Bool(true));
    }
    body
}

/// Fields that differ, in the order of the newer one. Nothing for `old` means it is created.
pub(crate) fn diff(old: Option<&AnyNoun>, new: &AnyNoun) -> Vec<FieldChange> {
    let old = old.map(body).unwrap_or_default();
    let mut changes = Vec::new();
    compare(&mut changes, "", &old, &body(new));
    changes.retain(|change| change.field != "name");
    changes
}

fn compare(
    changes: &mut Vec<FieldChange>,
    path: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    for key in new.keys().chain(gone) {
        let field = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (old.get(key), new.get(key)) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => compare(changes, &field, a, b),
            (None, Some(Value::Object(b))) => compare(changes, &field, &Map::new(), b),
            (a, b) if a == b => {}
            (a, b) => changes.push(FieldChange {
                field: secrets::shown_field(&field),
                old: a.map(|value| secrets::shown(key, value)),
                new: b.map(|value| secrets::shown(key, value)),
            }),
        }
    }
}

/// Applies a JSON merge patch (RFC 7396).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merge_patch_of_the_rfc() {
        // RFC 7396 appendix A.
        let cases = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ];
        for (mut target, patch, result) in cases {
            merge(&mut target, &patch);
            assert_eq!(target, result, "{patch}");
        }
    }
}
