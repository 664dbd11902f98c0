//! The documents of rules that jobs run: each job is pinned to the one that started it, whatever
//! becomes of the rule since.

use std::collections::HashMap;
use std::sync::Arc;

use entrepot_nouns::explanation::ConditionExplanation;
use entrepot_nouns::rule::{StepList, StepSpec};
use entrepot_nouns::{Event, Rule, RuleVersion, SiteId};
use parking_lot::Mutex;
use serde_json::Value as Json;

use crate::calendars::{Calendars, RuleSite};
use crate::condition::{Condition, ConditionError, IN_CALENDAR, Subject};
use crate::limits::VERSIONS_KEPT;

/// A rule as jobs run it.
pub(crate) struct RunRule {
    pub(crate) noun: Rule,
    /// The name of the site that owns it.
    site: String,
    /// The expressions of its steps by their text, compiled or not compilable.
    conditions: HashMap<String, Result<Condition, ConditionError>>,
    /// An expression of its steps asks for days of a calendar.
    pub(crate) asks_calendars: bool,
    /// A step of it waits for an event.
    pub(crate) waits_for_events: bool,
    /// `do` has more than one step, those inside others counted.
    pub(crate) has_several: bool,
    /// A step of `do` may make a file for later ones.
    pub(crate) makes_files: bool,
    /// The end of a job changes something where a step took its file from.
    pub(crate) takes_sources: bool,
}

impl RunRule {
    /// Compiles the conditions, which blocks.
    pub(crate) fn new(noun: Rule, site: String) -> Arc<RunRule> {
        let places = noun.all_places();
        let texts = places.iter().flat_map(|place| place.step.expressions());
        let compiled = texts.map(|found| (found.text.to_owned(), Condition::compile(found.text)));
        let conditions: HashMap<_, _> = compiled.collect();
        let asks_calendars = conditions.keys().any(|text| text.contains(IN_CALENDAR));
        let is_wait = |spec: &StepSpec| matches!(spec, StepSpec::Wait(it) if it.event.is_some());
        let waits_for_events = places.iter().any(|place| is_wait(&place.step.spec));
        let doing = noun.places(StepList::Do);
        let has_several = doing.len() > 1;
        let takes_sources = doing.iter().any(|place| place.step.spec.takes_source());
        let makes_files = doing.iter().any(|place| place.step.spec.makes_file());
        Arc::new(RunRule {
            noun,
            site,
            conditions,
            asks_calendars,
            waits_for_events,
            has_several,
            makes_files,
            takes_sources,
        })
    }

    /// Whether an expression of one of its steps holds.
    pub(crate) fn holds(&self, text: &str, subject: &Subject) -> Result<bool, ConditionError> {
        self.compiled(text)?.holds(subject)
    }

    /// What an expression of one of its steps gives.
    pub(crate) fn value(&self, text: &str, subject: &Subject) -> Result<Json, ConditionError> {
        self.compiled(text)?.value(subject)
    }

    /// Whether an expression of one of its steps holds, and the values of its parts.
    pub(crate) fn explained(&self, text: &str, subject: &Subject) -> ConditionExplanation {
        let compiled = self.compiled(text);
        let (holds, error) = match &compiled {
            Ok(condition) => match condition.value(subject) {
                Ok(value) => (value.as_bool(), None),
                Err(error) => (None, Some(error.to_string())),
            },
            Err(error) => (None, Some(error.to_string())),
        };
        let trace = compiled.ok().map(|condition| condition.trace(subject));
        ConditionExplanation { source: text.to_owned(), holds, error, trace }
    }

    fn compiled(&self, text: &str) -> Result<&Condition, ConditionError> {
        let none = || ConditionError::Fails("the expression is not one of the rule".to_owned());
        self.conditions.get(text).ok_or_else(none)?.as_ref().map_err(Clone::clone)
    }

    /// What its expressions may look at, for a job of this event of which no step has run.
    pub(crate) fn subject(&self, event: &Event, calendars: &Arc<Calendars>) -> Subject {
        let (name, calendars) = (self.site.clone(), calendars.clone());
        Subject::new(event, &RuleSite { name, calendars })
    }
}

/// A document, among those of all sites.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct DocumentKey {
    pub(crate) site: SiteId,
    pub(crate) version: RuleVersion,
}

/// Rules that were read from their documents lately.
#[derive(Default)]
pub(crate) struct Versions(Mutex<HashMap<DocumentKey, Arc<RunRule>>>);

impl Versions {
    /// The rule of this document, if it was read lately.
    pub(crate) fn get(&self, key: &DocumentKey) -> Option<Arc<RunRule>> {
        self.0.lock().get(key).cloned()
    }

    /// Remembers the rule of a document.
    pub(crate) fn keep(&self, key: DocumentKey, rule: Arc<RunRule>) {
        let mut kept = self.0.lock();
        if kept.len() >= VERSIONS_KEPT {
            kept.clear();
        }
        kept.insert(key, rule);
    }
}
