//! The JSON Schema of models: it takes every model that there is, and refuses what is none.

use std::path::Path;

use entrepot_host::model::{Model, schema};
use regex::Regex;
use serde_json::{Map, Value, json};

use crate::MODEL;

/// What of a value does not fit a schema, as far as our schemas say something. `None`: nothing.
fn misfit(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let Some(rules) = schema.as_object() else {
        return (schema == &json!(false)).then(|| format!("{at}: it must not be there"));
    };
    let wrong = |what: String| Some(format!("{at}: {what}"));
    for (keyword, rule) in rules {
        let found = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" | "examples" => {
                None
            }
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                misfit(root, root.pointer(pointer).unwrap(), value, at)
            }
            "type" => {
                let kinds = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                let fits = kinds.iter().any(|kind| is_of(kind.as_str().unwrap(), value));
                (!fits).then(|| format!("{at}: {value} is no {rule}"))
            }
            "properties" => {
                let known = rule.as_object().unwrap().iter();
                known.into_iter().find_map(|(name, rule)| {
                    misfit(root, rule, value.get(name)?, &format!("{at}.{name}"))
                })
            }
            "required" => rule.as_array().unwrap().iter().find_map(|name| {
                let name = name.as_str().unwrap();
                let missing = value.is_object() && value.get(name).is_none();
                missing.then(|| format!("{at}: there is no '{name}'"))
            }),
            "additionalProperties" => others(root, rules, value, at),
            "items" => value.as_array().and_then(|items| {
                let mut items = items.iter().enumerate();
                items.find_map(|(number, item)| misfit(root, rule, item, &format!("{at}.{number}")))
            }),
            "anyOf" | "oneOf" => {
                let misfits =
                    || rule.as_array().unwrap().iter().map(|rule| misfit(root, rule, value, at));
                let fits = misfits().any(|misfit| misfit.is_none());
                (!fits).then(|| misfits().flatten().collect::<Vec<_>>().join(" or "))
            }
            "enum" => {
                let fits = rule.as_array().unwrap().contains(value);
                (!fits).then(|| format!("{at}: {value} is none of {rule}"))
            }
            "const" => (value != rule).then(|| format!("{at}: {value} is not {rule}")),
            "pattern" => value.as_str().and_then(|text| {
                let fits = Regex::new(rule.as_str().unwrap()).unwrap().is_match(text);
                (!fits).then(|| format!("{at}: '{text}' does not fit {rule}"))
            }),
            "minimum" => (value.as_f64() < rule.as_f64())
                .then(|| format!("{at}: {value} is less than {rule}")),
            "maximum" => (value.as_f64() > rule.as_f64())
                .then(|| format!("{at}: {value} is more than {rule}")),
            "minProperties" | "maxProperties" => {
                let count = value.as_object().map_or(1, Map::len) as u64;
                (Some(count) != rule.as_u64()).then(|| format!("{at}: it has {count} members"))
            }
            other => wrong(format!("the test does not know '{other}'")),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// What does not fit of the members that a schema does not name.
fn others(root: &Value, rules: &Map<String, Value>, value: &Value, at: &str) -> Option<String> {
    let rule = &rules["additionalProperties"];
    let known = rules.get("properties").and_then(Value::as_object);
    let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
    let mut others = value.as_object()?.iter().filter(|(name, _)| !is_known(name));
    others.find_map(|(name, value)| misfit(root, rule, value, &format!("{at}.{name}")))
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The blocks of YAML of a document that are models.
fn models_in(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.starts_with("model: ")).map(str::to_owned).collect()
}

fn refusal(model: &str) -> Option<String> {
    let schema = schema();
    let value: Value = serde_saphyr::from_str(model).unwrap();
    misfit(&schema, &schema, &value, "model")
}

#[test]
fn every_model_fits_the_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut models: Vec<String> =
        files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let told = models_in("docs/howto/model-a-host.md");
    assert!(!models.is_empty() && !told.is_empty());
    models.extend(told);
    models.push(ALL.to_owned());
    for model in models {
        Model::read(&model).unwrap();
        assert_eq!(refusal(&model), None, "{model}");
    }
}

/// Each kind of thing that a model can say.
const ALL: &str = r#"
model: all
host: {address: "tls://host.example:992", terminal: IBM-3278-2-E, codepage: 37, lu: [LIB01]}
variables: {user: {}, password: {secret: true}, branch: {default: "001"}}
home: A
logoff: A
entities:
  A:
    is:
      - "A @ 1,1"
      - {field: "1,2", hidden: true, protected: false}
      - {cursor: "20,15"}
      - {match: "/LB1[0-9]0/", at: "1,72"}
      - {match: "LB.*"}
      - {not: "B @ 1,1"}
      - {any: ["C @ 1,1", {not: {cursor: "1,1"}}]}
    fields: {a: "24,1 len 20", b: "1,1 len 2 out date(DD.MM.YYYY)", c: "1,1 len 3 secret"}
    ops:
      x: {type: {a: $user, b: 1}, key: pf3, to: A, else: {A: {error: e, http: 404, text: $b}},
          timeout: 10s}
    rows: {name: list, area: 8-20, columns: {s: "3 len 1", id: "6 len 9 out integer"},
           skip: blank id, next: {key: PF8}, previous: {key: PF7}, end: ["END @ 22,30"],
           height: 1}
    keepalive: {key: ENTER, every: 90s}
  B: {is: ["B @ 1,1"], rows: {name: b, area: 8-20, start_when: number id,
      columns: {id: "6 len 9 out row 1", t: "6 len 9 row 2- out"}}}
  C: {is: ["C @ 1,1"], rows: {name: c, area: 8-20, delimiter: "--- @ 2", columns: {}}}
  D: {is: ["D @ 1,1"], rows: {name: d, area: 8-20, delimiter: blank, columns: {}}}
  E: {is: ["E @ 1,1"], rows: {name: e, area: 8-20, start_when: "ORDER @ 2", columns: {}}}
procedures:
  p:
    summary: Everything
    timeout: 2m
    in: {n: {type: integer, default: 3}, t: {max: 20, default: x}}
    out: {a: string, b: "date(DD.MM.YYYY)", count: integer, d: decimal, e: A,
          list: [A.rows, {more: A}]}
    do:
      - go: home
      - fill: {a: $t}
      - key: Clear
      - on: {A: continue, B: {error: e}}
      - read: {fields: A}
      - read: {rows: A.list}
      - read: {rows: A.list, limit: $n}
      - pick: {rows: A.list, where: {id: $n}, type: {s: S}, key: ENTER, missing: {error: m}}
      - each: {rows: A.list, where: {id: 1}, limit: 5, type: {s: S}, key: ENTER,
               do: [{read: {fields: A}}]}
      - each: {rows: A.list.last($n), key: ENTER, do: []}
tests: [{trace: t.trc, call: p, in: {n: 1}, variables: {user: X}, want: t.json}]
"#;

#[test]
fn what_is_no_model_does_not_fit_the_schema() {
    for (right, wrong, told) in [
        ("home: Menu", "hom: Menu", "hom"),
        ("home: Menu\n", "", "there is no 'home'"),
        ("key: PF12", "key: PF25", "PF25"),
        ("\"24,2 len 20\"", "\"24 len 20\"", "24 len 20"),
        ("6 len 9 out integer", "6 len 9 out whole", "whole"),
        ("area: 8-20", "area: 8", "area"),
        ("skip: blank id", "skip: id", "skip"),
        ("skip: blank id", "start_when: blank", "start_when"),
        ("skip: blank id", "delimiter: number id", "delimiter"),
        ("17 len 30 out", "17 len 30 out row", "17 len 30 out row"),
        ("{field: \"14,40\", hidden: true}", "{fields: \"14,40\"}", "fields"),
        ("    do:\n", "    doo:\n", "doo"),
        ("go: Find", "goto: Find", "there is no 'go'"),
        ("read: {rows: Loans.loans}", "read: {}", "there is no 'rows'"),
        ("read: {rows: Loans.loans}", "read: {rows: Loans.loans, fields: Loans}", "fields"),
        ("read: {fields: Loans}", "read: {fields: Loans, limit: 3}", "limit"),
        ("type: integer", "type: number", "number"),
        ("http: 401", "http: unauthorized", "http"),
    ] {
        assert!(MODEL.contains(right), "{right}");
        let model = MODEL.replacen(right, wrong, 1);
        assert!(Model::read(&model).is_err(), "{wrong}");
        let refused = refusal(&model).unwrap_or_else(|| panic!("{wrong} fits"));
        assert!(refused.contains(told), "{wrong}: {refused}");
    }
}

#[test]
fn the_schema_of_the_documentation_is_the_one_that_is_printed() {
    let file = root().join("docs/host-model.schema.json");
    let text = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let copy = std::fs::read_to_string(file).unwrap();
    assert!(copy == text, "docs/host-model.schema.json is old: run this with UPDATE_SCHEMA=1");
}
