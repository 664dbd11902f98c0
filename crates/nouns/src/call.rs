//! Rules that are started by hand, with parameters.

use std::collections::BTreeMap;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::is_default;
use crate::limits::{PARAMETER_BYTES, PARAMETER_NAME_BYTES, PARAMETERS, PATTERN_BYTES};
use crate::noun::FieldError;

/// A rule starts when somebody says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// What who starts it may say, by name: `params.NAME` in conditions, `{params.NAME}` in steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Parameter>,
}

/// A value that is given when a rule is started by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What its values are.
    #[serde(rename = "type", default, skip_serializing_if = "is_default")]
    pub of: ParameterType,
    /// Its value where none is given; unset: one must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The only values that it may have; empty: any of its type.
    #[serde(rename = "enum", default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Value>,
    /// A regular expression that the whole of a string must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// What the values of a parameter are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text without NUL.
    #[default]
    String,
    /// A whole number of 64 bits with its sign.
    Int,
    /// A number that may have a point.
    Double,
    /// True or false.
    Bool,
}

impl ParameterType {
    /// The word in a document.
    pub fn as_str(self) -> &'static str {
        match self {
            ParameterType::String => "string",
            ParameterType::Int => "int",
            ParameterType::Double => "double",
            ParameterType::Bool => "bool",
        }
    }

    /// `given` as a value of this type. The text of a number or of a truth value stands for it, as
    /// on a command line.
    fn value(self, given: &Value) -> Option<Value> {
        match (self, given) {
            (ParameterType::String, Value::String(text)) => {
                (!text.contains('\0')).then(|| text.as_str().into())
            }
            (ParameterType::Int, Value::Number(number)) => number.as_i64().map(Value::from),
            (ParameterType::Int, Value::String(text)) => text.parse::<i64>().ok().map(Value::from),
            (ParameterType::Double, Value::Number(number)) => number.as_f64().map(Value::from),
            (ParameterType::Double, Value::String(text)) => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.map(Value::from)
            }
            (ParameterType::Bool, Value::Bool(flag)) => Some((*flag).into()),
            (ParameterType::Bool, Value::String(text)) => {
                text.parse::<bool>().ok().map(Value::from)
            }
            _ => None,
        }
    }
}

impl Parameter {
    /// A value that it may have, for trying the rule.
    pub fn example(&self) -> Value {
        let given = self.default.as_ref().or(self.allowed.first());
        given.and_then(|given| self.of.value(given)).unwrap_or_else(|| match self.of {
            ParameterType::String => "text".into(),
            ParameterType::Int => 1.into(),
            ParameterType::Double => 1.5.into(),
            ParameterType::Bool => true.into(),
        })
    }

    /// `given` as a value of it.
    ///
    /// # Errors
    /// Why it cannot be, behind the name of the parameter.
    fn value(&self, given: &Value) -> Result<Value, String> {
        let of = self.of.as_str();
        let value = self.of.value(given).ok_or_else(|| format!("{given} is no {of}"))?;
        if value.as_str().is_some_and(|text| text.len() > PARAMETER_BYTES) {
            return Err(format!("is longer than {PARAMETER_BYTES} bytes"));
        }
        if !self.allowed.is_empty() {
            let allowed = || self.allowed.iter().filter_map(|allowed| self.of.value(allowed));
            if !allowed().any(|allowed| allowed == value) {
                let allowed = allowed().map(|allowed| text(&allowed)).collect::<Vec<_>>();
                return Err(format!("'{}' is none of {}", text(&value), allowed.join(", ")));
            }
        }
        if let (Some(pattern), Some(text)) = (&self.pattern, value.as_str())
            && !whole(pattern)?.is_match(text)
        {
            return Err(format!("'{text}' does not match {pattern}"));
        }
        Ok(value)
    }
}

/// The regular expression that matches what `pattern` matches whole.
fn whole(pattern: &str) -> Result<Regex, String> {
    let anchored = regex::RegexBuilder::new(&format!(r"\A(?:{pattern})\z"));
    // The pattern alone, so that a bracket in it cannot close ours.
    Regex::new(pattern).map_err(|error| error.to_string())?;
    anchored.build().map_err(|error| error.to_string())
}

/// A value as placeholders show it.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Call {
    pub(crate) fn check(&self) -> Result<(), FieldError> {
        if self.parameters.len() > PARAMETERS {
            let text = format!("at most {PARAMETERS}");
            return Err(FieldError::new("when.call.parameters", text));
        }
        for (name, parameter) in &self.parameters {
            let flaw = |field: &str, text: String| {
                let field = format!("when.call.parameters.{name}{field}");
                Err(FieldError::new(field, text))
            };
            if !is_name(name) {
                return flaw("", "a name has letters, digits and '_' only".to_owned());
            }
            if let Some(pattern) = &parameter.pattern {
                if parameter.of != ParameterType::String {
                    return flaw(".pattern", "only a string matches a pattern".to_owned());
                }
                if pattern.len() > PATTERN_BYTES {
                    return flaw(".pattern", format!("at most {PATTERN_BYTES} bytes"));
                }
                if let Err(error) = whole(pattern) {
                    return flaw(".pattern", error);
                }
            }
            for (at, allowed) in parameter.allowed.iter().enumerate() {
                if let Err(error) = parameter.value(allowed) {
                    return flaw(&format!(".enum.{at}"), error);
                }
            }
            if let Some(Err(error)) = parameter.default.as_ref().map(|it| parameter.value(it)) {
                return flaw(".default", error);
            }
        }
        Ok(())
    }

    /// Says whether a step can start the rule with a CEL expression for each of these parameters.
    /// What an expression gives is known when it runs; of one that is a value it is known now.
    ///
    /// # Errors
    /// Which parameter cannot be given so, or is missing, as a sentence.
    pub fn check_expressions(&self, with: &BTreeMap<String, String>) -> Result<(), String> {
        let example = |(name, text): (&String, &String)| {
            let known = literal(text).or_else(|| Some(self.parameters.get(name)?.example()));
            (name.clone(), known.unwrap_or_default())
        };
        self.values(&with.iter().map(example).collect()).map(drop)
    }

    /// The value of each parameter, for a start with these.
    ///
    /// # Errors
    /// Which value cannot be, or is missing, as a sentence.
    pub fn values(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        if let Some(name) = given.keys().find(|name| !self.parameters.contains_key(*name)) {
            let known = self.parameters.keys().map(String::as_str).collect::<Vec<_>>();
            return Err(match known.as_slice() {
                [] => format!("the rule takes no parameters, '{name}' is one too many"),
                known => format!("there is no parameter '{name}'; there are {}", known.join(", ")),
            });
        }
        let values = self.parameters.iter().map(|(name, parameter)| {
            let Some(given) = given.get(name).or(parameter.default.as_ref()) else {
                let of = parameter.of.as_str();
                return Err(format!("the parameter '{name}' is missing: give a {of}"));
            };
            let value = parameter.value(given);
            let value = value.map_err(|error| format!("the parameter '{name}': {error}"))?;
            Ok((name.clone(), value))
        });
        values.collect()
    }
}

/// The value that a CEL expression is, if it is a plain one.
fn literal(expression: &str) -> Option<Value> {
    let text = expression.trim();
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    match quoted {
        Some(inside) if !inside.contains(['\'', '\\']) => Some(inside.into()),
        Some(_) => None,
        None => serde_json::from_str(text).ok().filter(|value: &Value| !value.is_array()),
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= PARAMETER_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(parameters: Value) -> Call {
        serde_json::from_value(json!({ "parameters": parameters })).unwrap()
    }

    fn values(call: &Call, given: &Value) -> Result<Value, String> {
        call.values(given.as_object().unwrap()).map(Value::Object)
    }

    #[test]
    fn values_are_of_their_type_and_what_is_left_out_has_its_default() {
        let call = call(json!({
            "day": {"pattern": r"\d{4}-\d\d-\d\d"},
            "copies": {"type": "int", "default": 1, "enum": [1, 2]},
            "factor": {"type": "double", "default": "0.5"},
            "dry": {"type": "bool", "default": false},
        }));
        assert_eq!(call.check(), Ok(()));
        for (given, wanted) in [
            (json!({"day": "2026-01-31"}), json!([1, 0.5, false])),
            (json!({"day": "2026-01-31", "copies": "2", "dry": "true"}), json!([2, 0.5, true])),
            (json!({"day": "2026-01-31", "copies": 2, "factor": 3}), json!([2, 3.0, false])),
        ] {
            let found = values(&call, &given).unwrap();
            let found = json!([found["copies"], found["factor"], found["dry"]]);
            assert_eq!(found, wanted, "{given}");
        }
        for (given, said) in [
            (json!({}), "'day' is missing: give a string"),
            (json!({"day": "x2026-01-31"}), "does not match"),
            (json!({"day": "2026-01-31\n"}), "does not match"),
            (json!({"day": 3}), "3 is no string"),
            (json!({"day": "2026-01-31", "copies": 3}), "'3' is none of 1, 2"),
            (json!({"day": "2026-01-31", "copies": "1.5"}), "is no int"),
            (json!({"day": "2026-01-31", "factor": "inf"}), "is no double"),
            (json!({"day": "2026-01-31", "dry": "yes"}), "is no bool"),
            (json!({"day": "2026-01-31", "dya": 1}), "no parameter 'dya'; there are copies, day"),
        ] {
            let error = values(&call, &given).unwrap_err();
            assert!(error.contains(said), "{given}: {error}");
        }
        let none = values(&Call::default(), &json!({"x": 1})).unwrap_err();
        assert!(none.contains("takes no parameters"), "{none}");
        let long = json!({"day": "1".repeat(PARAMETER_BYTES + 1)});
        assert!(values(&call, &long).unwrap_err().contains("longer"));
    }

    #[test]
    fn a_parameter_that_cannot_be_is_named_by_its_field() {
        for (parameter, field) in [
            (json!({"type": "int", "default": "x"}), "when.call.parameters.p.default"),
            (json!({"enum": ["a", 2]}), "when.call.parameters.p.enum.1"),
            (json!({"enum": ["a"], "default": "b"}), "when.call.parameters.p.default"),
            (json!({"pattern": "("}), "when.call.parameters.p.pattern"),
            (json!({"pattern": "a)|(b"}), "when.call.parameters.p.pattern"),
            (json!({"type": "int", "pattern": "1"}), "when.call.parameters.p.pattern"),
        ] {
            let error = call(json!({"p": parameter})).check().unwrap_err();
            assert_eq!(error.field, field, "{parameter}");
        }
        for name in ["", "1a", "a-b", "a.b", "ä"] {
            assert!(call(json!({name: {}})).check().is_err(), "{name} was taken");
        }
    }

    #[test]
    fn a_step_gives_known_parameters_and_plain_values_of_their_type() {
        let call = call(json!({"day": {}, "copies": {"type": "int", "default": 1}}));
        let check = |with: &Value| {
            let with = serde_json::from_value(with.clone()).unwrap();
            call.check_expressions(&with)
        };
        for with in [json!({"day": "file.name"}), json!({"day": "'x'", "copies": "2"})] {
            assert_eq!(check(&with), Ok(()), "{with}");
        }
        for (with, said) in [
            (json!({}), "'day' is missing"),
            (json!({"day": "'x'", "dya": "1"}), "no parameter 'dya'"),
            (json!({"day": "'x'", "copies": "'many'"}), "\"many\" is no int"),
            (json!({"day": "3"}), "3 is no string"),
        ] {
            let error = check(&with).unwrap_err();
            assert!(error.contains(said), "{with}: {error}");
        }
    }

    #[test]
    fn an_alternative_in_a_pattern_matches_whole_as_well() {
        let call = call(json!({"p": {"pattern": "a|b"}}));
        assert!(values(&call, &json!({"p": "b"})).is_ok());
        assert!(values(&call, &json!({"p": "ab"})).is_err());
    }
}
