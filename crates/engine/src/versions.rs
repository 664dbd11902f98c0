//! The documents of rules that jobs run: each job is pinned to the one that started it, whatever
//! becomes of the rule since.

use std::collections::HashMap;
use std::sync::Arc;

use entrepot_nouns::{Event, Rule, RuleVersion, SiteId};
use parking_lot::Mutex;

use crate::condition::{Condition, ConditionError, Subject};
use crate::limits::VERSIONS_KEPT;

/// A rule as jobs run it.
pub(crate) struct RunRule {
    pub(crate) noun: Rule,
    /// The name of the site that owns it.
    site: String,
    /// The conditions of its steps by their text, compiled or not compilable.
    conditions: HashMap<String, Result<Condition, ConditionError>>,
}

impl RunRule {
    /// Compiles the conditions, which blocks.
    pub(crate) fn new(noun: Rule, site: String) -> Arc<RunRule> {
        let steps = noun.steps.iter().chain(&noun.otherwise);
        let texts = steps.filter_map(|step| step.condition.clone());
        let compiled = texts.map(|text| {
            let condition = Condition::compile(&text);
            (text, condition)
        });
        let conditions = compiled.collect();
        Arc::new(RunRule { noun, site, conditions })
    }

    /// Whether the condition of one of its steps holds.
    pub(crate) fn holds(&self, text: &str, event: &Event) -> Result<bool, ConditionError> {
        match self.conditions.get(text) {
            Some(Ok(condition)) => condition.holds(&Subject::new(event, &self.site)),
            Some(Err(error)) => Err(error.clone()),
            None => Ok(true),
        }
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
