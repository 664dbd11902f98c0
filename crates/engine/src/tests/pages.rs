//! The pages of steps and triggers: their examples are rules, and their tables of fields those of
//! the program. `UPDATE_PAGES=1` writes the tables anew.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use entrepot_nouns::noun::Noun as _;
use entrepot_nouns::rule::*;
use entrepot_nouns::watch::Watch;
use entrepot_nouns::web_hook::WebHook;
use entrepot_nouns::{Call, Cron, Expect, Rule};
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::check_rule;

/// Pages of several steps.
const SHARED: [(&str, &str); 14] = [
    ("gzip", "pack"),
    ("zstd", "pack"),
    ("zip", "pack"),
    ("tar", "pack"),
    ("encrypt", "openpgp"),
    ("decrypt", "openpgp"),
    ("sign", "openpgp"),
    ("verify", "openpgp"),
    ("release", "held"),
    ("quarantine", "held"),
    ("if", "decide"),
    ("set", "decide"),
    ("check", "decide"),
    ("stop", "decide"),
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// All pages of a folder, but for the one that lists them.
fn pages(name: &str) -> Vec<(PathBuf, String)> {
    let found = std::fs::read_dir(folder(name)).unwrap().map(|page| page.unwrap().path());
    let found = found.filter(|path| !path.ends_with("README.md"));
    let mut pages: Vec<_> =
        found.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    pages.sort();
    pages
}

#[test]
fn each_step_and_each_trigger_has_its_page() {
    let index = std::fs::read_to_string(folder("steps").join("README.md")).unwrap();
    for word in StepSpec::WORDS {
        let shared = SHARED.iter().find(|(of, _)| of == word).map(|(_, page)| *page);
        let page = shared.unwrap_or(word);
        let path = folder("steps").join(format!("{page}.md"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("no page of {word}"));
        assert!(text.contains(word), "{path:?} says nothing of {word}");
        assert!(index.contains(&format!("`{word}`")), "the list has no {word}");
    }
    for (path, text) in pages("steps") {
        assert!(text.contains("**When the node dies in it.**"), "{path:?}");
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(index.contains(&format!("({name})")), "the list does not lead to {name}");
    }
    let triggers = ["event", "commands", "cron", "call", "watch", "hook", "expect"];
    for trigger in triggers {
        assert!(index.contains(&format!("(../triggers/{trigger}.md)")), "{trigger}");
    }
    let pages = pages("triggers");
    assert_eq!(pages.len(), triggers.len());
    for (path, text) in pages {
        assert!(text.contains("**Once.**"), "{path:?}");
    }
}

/// The examples are rules that can be stored.
#[test]
fn the_examples_of_the_pages_are_rules() {
    let mut examples = 0;
    for (path, text) in pages("steps").into_iter().chain(pages("triggers")) {
        let before = examples;
        for block in text.split("```yaml\n").skip(1) {
            let yaml = block.split("```").next().unwrap();
            for document in yaml.split("---\n").filter(|text| text.starts_with("rule:")) {
                let read: BTreeMap<String, Rule> =
                    serde_saphyr::from_str(document).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                let rule = &read["rule"];
                let checked = rule.check().and_then(|()| check_rule(rule));
                checked.unwrap_or_else(|error| panic!("{path:?}: {}: {error}", error.field));
                examples += 1;
            }
        }
        assert!(examples > before, "{path:?} has no example");
    }
}

/// The fields of a step or a trigger.
struct Fields {
    /// The word of its table.
    word: &'static str,
    schema: Schema,
    /// What fields are that are not given.
    unset: Map<String, Value>,
}

impl Fields {
    /// Of what `least` is a document, to which adding any of the fields of `unset` changes nothing.
    fn of<T>(word: &'static str, least: Value, unset: Value) -> Fields
    where
        T: JsonSchema + DeserializeOwned + PartialEq + Debug,
    {
        let (Value::Object(least), Value::Object(unset)) = (least, unset) else {
            panic!("{word}: mappings");
        };
        let read = |fields: &Map<String, Value>| -> T {
            serde_json::from_value(Value::Object(fields.clone())).unwrap()
        };
        for (name, value) in &unset {
            let mut more = least.clone();
            more.insert(name.clone(), value.clone());
            assert_eq!(read(&more), read(&least), "{word}: {name}");
        }
        Fields { word, schema: schema_for!(T), unset }
    }
}

fn triggers() -> Vec<Fields> {
    let temporary = [".*", "*.tmp", "*.part", "*.partial", "*.filepart"];
    vec![
        Fields::of::<Watch>(
            "watch",
            json!({"endpoint": "e"}),
            json!({"path": "/", "ignore": temporary, "every": "30s", "stable": "10s",
                "recursive": false, "on": ["new", "changed"], "take": "lease", "limit": 10_000}),
        ),
        Fields::of::<Cron>(
            "cron",
            json!({"expression": "0 3 * * *"}),
            json!({"zone": "UTC", "missed": "last", "late": "1h", "overlap": "skip"}),
        ),
        Fields::of::<Expect>(
            "expect",
            json!({"match": ["a"], "by": "18:00"}),
            json!({"from": "00:00", "zone": "UTC", "count": 1}),
        ),
        Fields::of::<WebHook>(
            "hook",
            json!({"keys": ["k"]}),
            json!({"scheme": "standard", "limit_bytes": 262_144, "per_minute": 600}),
        ),
        Fields::of::<Call>("call", json!({}), json!({})),
    ]
}

fn steps_with_files() -> Vec<Fields> {
    let to = || json!({"to": "/a"});
    let existing = || json!({"existing": "replace"});
    vec![
        Fields::of::<DeliverSpec>(
            "deliver",
            json!({"endpoint": "e"}),
            json!({"path": "{name}", "existing": "replace"}),
        ),
        Fields::of::<FetchSpec>("fetch", json!({}), json!({"path": "{path}", "after": "keep"})),
        Fields::of::<CopySpec>("copy", to(), existing()),
        Fields::of::<MkdirSpec>("mkdir", json!({"path": "/a"}), json!({})),
        Fields::of::<MoveSpec>("move", to(), existing()),
        Fields::of::<DeleteSpec>("delete", json!({}), json!({})),
        Fields::of::<ReleaseSpec>("release", json!({}), existing()),
        Fields::of::<QuarantineSpec>("quarantine", json!({"reason": "r"}), json!({})),
    ]
}

fn steps_that_decide() -> Vec<Fields> {
    vec![
        Fields::of::<RefuseSpec>("refuse", json!({"text": "t"}), json!({"code": 550})),
        Fields::of::<IfSpec>("if", json!({"when": "true", "then": []}), json!({"else": []})),
        Fields::of::<CheckSpec>("check", json!({"that": "true", "message": "m"}), json!({})),
        Fields::of::<StopSpec>("stop", json!({}), json!({"as": "done"})),
        Fields::of::<CallSpec>("call", json!({"rule": "r"}), json!({"wait": true})),
        Fields::of::<ApproveSpec>(
            "approve",
            json!({"by": ["a"], "text": "t"}),
            json!({"within": "24h", "need": 1}),
        ),
    ]
}

fn steps_that_talk() -> Vec<Fields> {
    vec![
        Fields::of::<ExecSpec>(
            "exec",
            json!({"argv": ["/a"]}),
            json!({"stdin": "none", "timeout_seconds": 60, "memory_mib": 1024, "stdout": "none",
                "output_mib": 10240, "reply": "leave"}),
        ),
        Fields::of::<HttpSpec>(
            "http",
            json!({"endpoint": "e"}),
            json!({"method": "POST", "path": "", "body": "none", "answer": "ignore",
                "timeout_seconds": 60, "reply": "leave"}),
        ),
        Fields::of::<WebhookSpec>("webhook", json!({"endpoint": "e"}), json!({})),
        Fields::of::<MailSpec>(
            "mail",
            json!({"endpoint": "e", "to": ["a"], "subject": "s", "text": "t"}),
            json!({"attach": "none"}),
        ),
        Fields::of::<ScanSpec>(
            "scan",
            json!({"endpoint": "e"}),
            json!({"found": "fail", "unsure": "fail", "reply": "leave"}),
        ),
    ]
}

/// What the fields of the steps or the triggers are.
fn all_fields(folder: &str) -> Vec<Fields> {
    if folder == "triggers" {
        return triggers();
    }
    [steps_with_files(), steps_that_decide(), steps_that_talk()].into_iter().flatten().collect()
}

/// Text of a documentation comment in one cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The words of an enumeration, if the schema is one.
fn choices(schema: &Value, defs: &Map<String, Value>) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next()) {
        return defs.get(name).map(|found| choices(found, defs)).unwrap_or_default();
    }
    let word = |value: &Value| value.as_str().map(|word| format!("`{word}`"));
    if let Some(all) = schema["enum"].as_array() {
        return all.iter().filter_map(word).collect();
    }
    let several = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    let several = several.into_iter().flatten().flat_map(|one| match word(&one["const"]) {
        Some(word) => vec![word],
        None => choices(one, defs),
    });
    several.collect()
}

/// The fields as a table.
fn table(of: &Fields) -> String {
    let schema = of.schema.as_value();
    let (none, empty) = (Map::new(), Vec::new());
    let fields = schema["properties"].as_object().unwrap_or(&none);
    let defs = schema["$defs"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().unwrap_or(&empty);
    let mut lines =
        vec!["| field | meaning | unset |".to_owned(), "| --- | --- | --- |".to_owned()];
    for (name, field) in fields {
        let mut meaning = cell(field["description"].as_str().unwrap_or_default());
        let choices = choices(field, defs);
        if !choices.is_empty() {
            meaning = format!("{meaning} One of {}.", choices.join(", "));
        }
        let is_required = required.contains(&Value::from(name.as_str()));
        let unset = match of.unset.get(name) {
            _ if is_required => "must be given".to_owned(),
            None => String::new(),
            Some(Value::String(text)) if text.is_empty() => String::new(),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(other) => format!("`{other}`").replace('"', ""),
        };
        lines.push(format!("| `{name}` | {meaning} | {unset} |"));
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_tables_of_the_pages_are_those_of_the_program() {
    let is_update = std::env::var_os("UPDATE_PAGES").is_some();
    for folder in ["steps", "triggers"] {
        let mut tables: BTreeMap<&str, String> =
            all_fields(folder).iter().map(|of| (of.word, table(of))).collect();
        for (path, text) in pages(folder) {
            let mut parts = text.split("<!-- fields of ");
            let mut wanted = parts.next().unwrap().to_owned();
            for part in parts {
                let (word, rest) = part.split_once(" -->\n").unwrap();
                let (_, behind) = rest.split_once("<!-- end -->").unwrap();
                let table = tables.remove(word).unwrap_or_else(|| panic!("{path:?}: {word}"));
                wanted += &format!("<!-- fields of {word} -->\n{table}<!-- end -->{behind}");
            }
            if is_update {
                std::fs::write(&path, &wanted).unwrap();
            } else {
                assert!(text == wanted, "{path:?}: run the test with UPDATE_PAGES=1");
            }
        }
        assert!(tables.is_empty(), "no page shows the fields of {:?}", tables.keys());
    }
}
