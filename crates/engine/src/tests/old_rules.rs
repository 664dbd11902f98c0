//! Rules as the first versions of the program stored them: they are read, checked and written as
//! they are, so an upgrade changes none.

use entrepot_nouns::{Noun as _, Rule};
use serde_json::{Value as Json, json};

use crate::check_rule;

/// One of each trigger and step that there was.
fn old_rules() -> Vec<Json> {
    vec![
        json!({
            "name": "to-partner",
            "when": {"event": "file.uploaded"},
            "if": "file.path.startsWith('/out/') && file.size < 1000000000",
            "as": "courier",
            "do": [
                {"deliver": {"endpoint": "partner", "path": "{date}/{name}"}},
                {"move": {"to": "/sent/{name}"}},
            ],
            "else": [{"move": {"to": "/failed/{name}"}}],
        }),
        json!({
            "name": "scan",
            "when": {"event": "file.uploaded"},
            "do": [{"exec": {
                "argv": ["/usr/local/lib/entrepot/scan", "{path}", "{file}"],
                "env": {"WHO": "{account}"},
                "stdin": "file",
                "timeout_seconds": 300,
                "memory_mib": 512,
            }}],
        }),
        json!({
            "name": "hold-and-scan",
            "enabled": false,
            "when": {"event": "file.uploaded"},
            "do": [
                {"exec": {"argv": ["/usr/local/lib/entrepot/scan"], "stdin": "file"}},
                {"deliver": {
                    "endpoint": "released", "path": "{account}/{name}", "existing": "refuse",
                }},
                {"delete": {}},
            ],
            "else": [{"deliver": {"endpoint": "quarantine", "path": "{account}/{transfer}"}}],
            "retry": {"attempts": 3, "first_delay_seconds": 60, "longest_delay_seconds": 600},
        }),
        json!({
            "name": "archive-stays",
            "when": {"before": ["ftp DELE", "ftp SITE CHMOD", "sftp remove"]},
            "if": "command.path.startsWith('/archive/')",
            "do": [{"refuse": {"code": 550, "text": "Ask archive@example.com."}}],
            "note": "asked for by the archive",
        }),
        json!({
            "name": "asked",
            "when": {"before": ["ftp RNTO"]},
            "if": "command.account == 'far'",
            "do": [{"exec": {"argv": ["/usr/local/lib/entrepot/ask"], "timeout_seconds": 600}}],
        }),
        json!({
            "name": "enter-at-once",
            "when": {"after": ["ftp STOR", "ftp APPE"]},
            "if": "command.code == 226 && command.path.startsWith('/now/')",
            "do": [{"exec": {
                "argv": ["/usr/local/lib/entrepot/enter", "{name}", "{size}", "{digest}"],
                "reply": "wait",
                "timeout_seconds": 10,
            }}],
        }),
        json!({
            "name": "moved",
            "when": {"event": "file.renamed"},
            "if": "event.to == '/in/a' && account in ['a', 'b'] && site == 'main'",
            "do": [{"delete": {}}],
        }),
    ]
}

/// Whether a document says what another one does, and perhaps more.
fn says(document: &Json, less: &Json) -> bool {
    match (document, less) {
        (Json::Object(all), Json::Object(some)) => {
            some.iter().all(|(name, value)| all.get(name).is_some_and(|it| says(it, value)))
        }
        (Json::Array(all), Json::Array(some)) => {
            all.len() == some.len() && all.iter().zip(some).all(|(one, other)| says(one, other))
        }
        (one, other) => one == other,
    }
}

#[test]
fn old_documents_are_taken_and_stay_as_they_are() {
    for document in old_rules() {
        let rule: Rule = serde_json::from_value(document.clone()).unwrap();
        rule.check().unwrap_or_else(|error| panic!("{}: {error}", rule.name));
        check_rule(&rule).unwrap_or_else(|error| panic!("{}: {error}", rule.name));
        // Written are also the values that it does not name, as they were then.
        let written = serde_json::to_value(&rule).unwrap();
        assert!(says(&written, &document), "{written}");
        let retry = json!({
            "attempts": 10, "first_delay_seconds": 5, "longest_delay_seconds": 3600,
        });
        assert!(document.get("retry").is_some() || written["retry"] == retry, "{written}");
        let fields = |of: &Json| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let more = fields(&written).into_iter().filter(|name| document.get(name).is_none());
        assert!(more.into_iter().all(|name| name == "retry"), "{written}");
        assert_eq!(serde_json::from_value::<Rule>(written).unwrap(), rule);
    }
}
