//! All that a rule starts on: one trigger, or several.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::call::Call;
use crate::command::CommandPattern;
use crate::cron::Cron;
use crate::expect::Expect;
use crate::limits::TRIGGERS;
use crate::noun::{FieldError, Reference};
use crate::watch::Watch;
use crate::web_hook::WebHook;
use crate::when::When;

/// What a rule starts on. In a document one trigger, or a list of up to 16: kinds of events, and
/// of the clock, starts by hand, web hooks and expected files one each. Commands and watched
/// folders stand alone, for their steps work in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Triggers(Vec<When>);

impl From<When> for Triggers {
    fn from(when: When) -> Triggers {
        Triggers(vec![when])
    }
}

impl Triggers {
    /// Each of them, in the order of the document.
    pub fn all(&self) -> &[When] {
        &self.0
    }

    /// The kinds of events that it starts on, the usual one of each trigger first; none of one that
    /// starts on commands.
    pub fn kinds(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.iter().flat_map(When::kinds)
    }

    /// The commands it starts on, if any.
    pub fn commands(&self) -> &[CommandPattern] {
        self.0.first().map_or(&[], When::commands)
    }

    /// The commands of which a client waits for the rule before they run, if it is one of those.
    pub fn before(&self) -> Option<&[CommandPattern]> {
        self.find(|when| match when {
            When::Before(commands) => Some(commands.as_slice()),
            _ => None,
        })
    }

    /// The commands that have run when it starts, if it starts on commands.
    pub fn after(&self) -> Option<&[CommandPattern]> {
        self.find(|when| match when {
            When::After(commands) => Some(commands.as_slice()),
            _ => None,
        })
    }

    /// The schedule by which the clock starts it.
    pub fn cron(&self) -> Option<&Cron> {
        self.find(|when| match when {
            When::Cron(cron) => Some(cron),
            _ => None,
        })
    }

    /// What it takes when it is started by hand, if it can be.
    pub fn call(&self) -> Option<&Call> {
        self.find(|when| match when {
            When::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The folder that it watches.
    pub fn watch(&self) -> Option<&Watch> {
        self.find(|when| match when {
            When::Watch(watch) => Some(watch),
            _ => None,
        })
    }

    /// The web hook that it takes.
    pub fn hook(&self) -> Option<&WebHook> {
        self.find(|when| match when {
            When::Hook(hook) => Some(hook),
            _ => None,
        })
    }

    /// The web hook that its address takes, and where that stands in the document: one that starts
    /// the rule, or has the folder listed that it watches.
    pub fn told_by(&self) -> Option<(&'static str, &WebHook)> {
        let of_watch = || Some(("when.watch.hook", self.watch()?.hook.as_ref()?));
        self.hook().map(|hook| ("when.hook", hook)).or_else(of_watch)
    }

    /// The files that it expects.
    pub fn expected(&self) -> Option<&Expect> {
        self.find(|when| match when {
            When::Expect(expect) => Some(expect),
            _ => None,
        })
    }

    fn find<'t, T: ?Sized>(&'t self, what: impl Fn(&'t When) -> Option<&'t T>) -> Option<&'t T> {
        self.0.iter().find_map(what)
    }

    /// The nouns that they name.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        for (at, when) in self.0.iter().enumerate() {
            let place = |field: &str| self.place(at, field);
            found.extend(
                when.references()
                    .into_iter()
                    .map(|reference| Reference { field: place(&reference.field), ..reference }),
            );
        }
        found
    }

    /// The field of the document, of one that a trigger alone would have.
    pub fn place(&self, at: usize, field: &str) -> String {
        match field.strip_prefix("when") {
            Some(rest) if self.0.len() > 1 => format!("when.{at}{rest}"),
            _ => field.to_owned(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        for (at, when) in self.0.iter().enumerate() {
            when.check()
                .map_err(|error| FieldError::new(self.place(at, &error.field), error.problem))?;
        }
        let flaw = |at: usize, text: &str| Err(FieldError::new(format!("when.{at}"), text));
        if self.0.is_empty() || self.0.len() > TRIGGERS {
            let text = format!("one trigger, or a list of up to {TRIGGERS}");
            return Err(FieldError::new("when", text));
        }
        if self.0.len() == 1 {
            return Ok(());
        }
        for (at, when) in self.0.iter().enumerate() {
            match when {
                When::Before(_) | When::After(_) | When::Watch(_) => {
                    return flaw(at, "stands alone: make a rule of its own for it");
                }
                When::Event(kind) if kind == "file.held" => {
                    return flaw(at, "stands alone: the file of 'file.held' has no name yet");
                }
                _ => {}
            }
            let is_same = |other: &When| match (when, other) {
                (When::Event(kind), When::Event(other)) => kind == other,
                _ => std::mem::discriminant(when) == std::mem::discriminant(other),
            };
            if self.0.iter().take(at).any(is_same) {
                return flaw(at, "is there already: a rule has one of each");
            }
        }
        Ok(())
    }
}

impl Serialize for Triggers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [only] => only.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Triggers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Triggers, D::Error> {
        deserializer.deserialize_any(OneOrMore)
    }
}

/// Reads a mapping or a list. An untagged enum would not say what is wrong in it.
struct OneOrMore;

impl<'de> Visitor<'de> for OneOrMore {
    type Value = Triggers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trigger such as {event: file.uploaded}, or a list of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Triggers, A::Error> {
        When::deserialize(MapAccessDeserializer::new(map)).map(Triggers::from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Triggers, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Triggers)
    }
}

impl JsonSchema for Triggers {
    fn schema_name() -> Cow<'static, str> {
        "Triggers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<When>();
        let list = json!({"type": "array", "items": one, "minItems": 1, "maxItems": TRIGGERS});
        schemars::json_schema!({
            "description": "One trigger, or a list of up to 16.",
            "anyOf": [one, list],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: serde_json::Value) -> Result<Triggers, String> {
        let read: Triggers = serde_json::from_value(json).map_err(|error| error.to_string())?;
        read.check().map_err(|error| format!("{}: {}", error.field, error.problem)).map(|()| read)
    }

    #[test]
    fn one_trigger_is_written_as_before_and_several_as_a_list() {
        let one = json!({"event": "file.uploaded"});
        let several = json!([{"event": "file.uploaded"}, {"cron": {"expression": "0 3 * * *"}},
            {"call": {}}, {"event": "file.renamed"}]);
        for json in [one.clone(), several.clone()] {
            let triggers = read(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&triggers).unwrap(), json);
        }
        assert_eq!(serde_json::to_value(read(json!([one])).unwrap()).unwrap(), one);
        let several = read(several).unwrap();
        let kinds: Vec<_> = several.kinds().collect();
        assert_eq!(kinds, ["file.uploaded", "schedule.due", "rule.called", "file.renamed"]);
        assert!(several.cron().is_some() && several.call().is_some() && several.watch().is_none());
    }

    #[test]
    fn what_does_not_go_together_is_named_by_its_place() {
        let event = || json!({"event": "file.uploaded"});
        let watch = json!({"watch": {"endpoint": "e", "path": "/"}});
        for (bad, wanted) in [
            (json!([]), "when: one trigger"),
            (json!([event(), {"event": "file.uploadd"}]), "when.1.event: no such event"),
            (json!([event(), event()]), "when.1: is there already"),
            (json!([{"cron": "0 3 * * *"}, {"cron": "0 4 * * *"}]), "when.1: is there already"),
            (json!([event(), watch]), "when.1: stands alone"),
            (json!([{"before": ["ftp DELE"]}, event()]), "when.0: stands alone"),
            (json!([event(), {"event": "file.held"}]), "when.1: stands alone"),
            (json!([event(), {"hook": {"keys": []}}]), "when.1.hook.keys"),
            (json!(vec![event(); 17]), "when: one trigger"),
            (json!([{"evnt": "x"}]), "unknown variant"),
            (json!("file.uploaded"), "a trigger such as"),
            (json!({"event": "file.uploaded", "cron": "0 3 * * *"}), ""),
        ] {
            let error = read(bad.clone()).unwrap_err();
            assert!(error.contains(wanted), "{bad}: {error}");
        }
    }
}
