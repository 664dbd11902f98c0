//! The `tests` of a rule: events that did not happen, and whether the rule starts on them.

use std::sync::Arc;

use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::RuleTest;
use entrepot_nouns::{Event, Fact, FieldError, Rule, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::calendars::{Calendars, RuleSite};
use crate::condition::Subject;
use crate::explain::trigger_fits;
use crate::rules::{Compiled, Misfit, Verdict, fit};

/// What came of a test.
pub(super) enum Tried {
    /// The rule does what it says.
    As(String),
    /// The rule does otherwise.
    Otherwise(String),
    /// What it says is no event.
    NoEvent(String),
}

/// Tries each test of a rule; `example` gives an event of a kind, for what a test leaves out.
pub(super) fn check(rule: &Rule, example: impl Fn(&str) -> Event) -> Result<(), FieldError> {
    for (at, test) in rule.tests.iter().enumerate() {
        match tried(rule, test, &example) {
            Tried::As(_) => {}
            Tried::Otherwise(why) => return Err(FieldError::new(format!("tests.{at}.runs"), why)),
            Tried::NoEvent(why) => return Err(FieldError::new(format!("tests.{at}.event"), why)),
        }
    }
    Ok(())
}

/// Tries one test of a rule, as [`check`] does.
pub(super) fn tried(rule: &Rule, test: &RuleTest, example: impl Fn(&str) -> Event) -> Tried {
    let event = match event_of(rule, test, example) {
        Ok(event) => event,
        Err(why) => return Tried::NoEvent(why),
    };
    let starts = "the rule starts on this event";
    let starts_not = "the rule does not start on this event";
    let calendars = Arc::new(Calendars::Tested(test.in_calendars.clone()));
    let site = RuleSite { name: "main".to_owned(), calendars };
    match (why_not(rule, &event, &site), test.runs) {
        (None, true) => Tried::As(starts.to_owned()),
        (Some(why), false) => Tried::As(format!("{starts_not}: {why}")),
        (None, false) => Tried::Otherwise(starts.to_owned()),
        (Some(why), true) => Tried::Otherwise(format!("{starts_not}: {why}")),
    }
}

/// Why a rule does not start on an event.
fn why_not(rule: &Rule, event: &Event, of: &RuleSite) -> Option<String> {
    let noun = Rule { enabled: true, ..rule.clone() };
    let (site, changed_at) = (event.site, Timestamp::default());
    let stored = Stored { id: Uuid::nil(), site, revision: 1, changed_at, noun };
    if !trigger_fits(&stored, event) {
        return Some(match (fit(&stored, event), event.fact.command()) {
            (Err(Misfit::Temporary), _) => "the file has its client's temporary name".to_owned(),
            (Err(Misfit::Command | Misfit::Waited), Some(_)) => {
                "it is about other commands".to_owned()
            }
            _ => format!("it is about other events than '{}'", event.fact.kind()),
        });
    }
    let judged = Compiled::of(stored).judged(event, || Subject::new(event, of), &mut None);
    match judged {
        Verdict::Starts => None,
        Verdict::ConditionFalse => Some("its condition is false".to_owned()),
        Verdict::ConditionFails(error) => Some(format!("its condition fails: {error}")),
        Verdict::TooDeep => Some("too many events caused each other".to_owned()),
    }
}

/// The event of a test: what it says, and for the rest an example of its kind.
fn event_of(
    rule: &Rule,
    test: &RuleTest,
    example: impl Fn(&str) -> Event,
) -> Result<Event, String> {
    let own = rule.when.kinds().next().unwrap_or("command.done");
    let kind = match test.event.get("kind") {
        None => own,
        Some(Value::String(kind)) => kind,
        Some(other) => return Err(format!("'kind' is the kind of an event, not {other}")),
    };
    if !Fact::KINDS.contains(&kind) {
        return Err(format!("there is no event '{kind}'"));
    }
    let mut fields = object(&example(kind))?;
    fields.insert("kind".to_owned(), kind.into());
    fields.extend(test.event.clone());
    // The kind is known, so that the only reasons are these.
    let wrong = || format!("a field of an event '{kind}' is missing or of another type");
    let event: Event = serde_json::from_value(Value::Object(fields)).map_err(|_| wrong())?;
    if matches!(event.fact, Fact::Unknown(_)) {
        return Err(wrong());
    }
    let read = object(&event)?;
    let is_unknown =
        |(field, value): &(&String, &Value)| !value.is_null() && !read.contains_key(field.as_str());
    match test.event.iter().find(is_unknown) {
        Some((field, _)) => Err(format!("an event '{kind}' has no field '{field}'")),
        None => Ok(event),
    }
}

fn object(event: &Event) -> Result<Map<String, Value>, String> {
    match serde_json::to_value(event) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("an event is a mapping".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::check_rule;
    use super::*;

    fn tried(when: &Value, condition: &str, test: &Value) -> Result<(), String> {
        let steps = match when.get("before") {
            Some(_) => json!([{"refuse": {"text": "No."}}]),
            None => json!([{"delete": {}}]),
        };
        let rule = json!({"name": "r", "when": when, "if": condition, "do": steps,
            "tests": [test]});
        let rule: Rule = serde_json::from_value(rule).unwrap();
        check_rule(&rule).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_is_refused_that_does_not_do_what_its_tests_say() {
        let upload = json!({"event": "file.uploaded"});
        let before = json!({"before": ["ftp DELE"]});
        let cron = json!({"cron": "0 3 * * *"});
        let call = json!({"call": {"parameters": {"copies": {"type": "int"}}}});
        let watch = json!({"watch": {"endpoint": "bank", "path": "/out"}});
        let size = "file.size > 0 && file.name.endsWith('.xml')";
        for (when, condition, event, runs) in [
            (&upload, size, json!({"path": "/in/a.xml", "size": 7}), true),
            (&upload, size, json!({"path": "/in/a.xml", "size": 0}), false),
            (&upload, size, json!({"path": "/in/a.txt"}), false),
            (&upload, "true", json!({"temporary": true}), false),
            (&upload, "true", json!({"kind": "file.downloaded", "path": "/a"}), false),
            (&upload, "account == 'acme'", json!({"account": "acme"}), true),
            (&upload, "account == null", json!({"account": null}), true),
            (
                &before,
                "command.path.startsWith('/archive/')",
                json!({"verb": "DELE", "argument": "a", "path": "/archive/a"}),
                true,
            ),
            (&before, "true", json!({"verb": "STOR"}), false),
            (&cron, "event.planned > '2020'", json!({}), false),
            (&cron, "true", json!({}), true),
            (&cron, "true", json!({"rule": "other"}), false),
            (&call, "params.copies > 1", json!({}), false),
            (&call, "params.copies > 1", json!({"parameters": {"copies": 2}}), true),
            (&call, "true", json!({"rule": "other"}), false),
            (
                &watch,
                "file.size > 1 && file.name.endsWith('.pgp')",
                json!({"path": "/out/a.pgp", "size": 2}),
                true,
            ),
            (&watch, "event.change == 'changed'", json!({}), false),
            (&watch, "true", json!({"rule": "other"}), false),
        ] {
            let test = |runs: bool| json!({"event": event, "runs": runs});
            assert_eq!(tried(when, condition, &test(runs)), Ok(()), "{event}");
            let wrong = tried(when, condition, &test(!runs)).unwrap_err();
            assert!(wrong.starts_with("tests.0.runs"), "{wrong}");
        }
        let why = tried(&upload, size, &json!({"event": {"size": 0}, "runs": true})).unwrap_err();
        assert!(why.contains("its condition is false"), "{why}");
        for (event, said) in [
            (json!({"sise": 1}), "has no field 'sise'"),
            (json!({"size": "large"}), "of another type"),
            (json!({"kind": "session.closed"}), "is missing"),
            (json!({"kind": "file.uplaoded"}), "no event 'file.uplaoded'"),
            (json!({"kind": 3}), "not 3"),
        ] {
            let wrong = tried(&upload, "true", &json!({"event": event, "runs": true}));
            let wrong = wrong.unwrap_err();
            assert!(wrong.starts_with("tests.0.event") && wrong.contains(said), "{wrong}");
        }
    }
}
