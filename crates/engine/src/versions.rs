//! The documents of rules that jobs run: each job is pinned to the one that started it, whatever
//! becomes of the rule since.

use std::collections::HashMap;
use std::sync::Arc;

use entrepot_db::RuleDocument;
use entrepot_nouns::{Job, Rule, RuleVersion, SiteId};
use parking_lot::Mutex;

use crate::Shared;
use crate::condition::{Condition, ConditionError, Subject};
use crate::hold::Hold;
use crate::limits::VERSIONS_KEPT;
use crate::step::StepError;

/// A rule as jobs run it.
pub(crate) struct RunRule {
    pub(crate) noun: Rule,
    /// The conditions of its steps by their text, compiled or not compilable.
    conditions: HashMap<String, Result<Condition, ConditionError>>,
}

impl RunRule {
    /// Compiles the conditions, which blocks.
    pub(crate) async fn new(noun: Rule) -> Result<Arc<RunRule>, StepError> {
        let compile = move || {
            let steps = noun.steps.iter().chain(&noun.otherwise);
            let texts = steps.filter_map(|step| step.condition.clone());
            let compiled = texts.map(|text| {
                let condition = Condition::compile(&text);
                (text, condition)
            });
            let conditions = compiled.collect();
            Arc::new(RunRule { noun, conditions })
        };
        let ended = |error: tokio::task::JoinError| {
            StepError::transient("EP0801", format!("the rule was not compiled: {error}"))
        };
        tokio::task::spawn_blocking(compile).await.map_err(ended)
    }

    /// Whether the condition of one of its steps holds.
    pub(crate) fn holds(&self, text: &str, subject: &Subject) -> Result<bool, ConditionError> {
        match self.conditions.get(text) {
            Some(Ok(condition)) => condition.holds(subject),
            Some(Err(error)) => Err(error.clone()),
            None => Ok(true),
        }
    }
}

/// Rules that were read from their documents lately.
#[derive(Default)]
pub(crate) struct Versions(Mutex<HashMap<(SiteId, RuleVersion), Arc<RunRule>>>);

impl Versions {
    /// The rule as `job` runs it.
    pub(crate) async fn rule(
        &self,
        shared: &Shared,
        job: &Job,
        hold: &Hold<'_>,
    ) -> Result<Arc<RunRule>, StepError> {
        let Some(version) = &job.rule_version else {
            let found = hold.insist(|| shared.db.find::<Rule>(job.site, &job.rule)).await?;
            let gone = || {
                let text = format!("rule '{}' was deleted", job.rule);
                StepError::permanent("EP0811", text)
            };
            return RunRule::new(found.ok_or_else(gone)?.noun).await;
        };
        let key = (job.site, version.clone());
        if let Some(rule) = self.0.lock().get(&key) {
            return Ok(rule.clone());
        }
        let document = hold.insist(|| shared.db.rule_document(job.site, version)).await?;
        let gone = || {
            let (rule, version) = (&job.rule, &version.0);
            let text = format!(
                "the document {version} of rule '{rule}' is not kept any more: give the job the \
                 rule as it is, by 'job retry --current'"
            );
            StepError::permanent("EP0811", text)
        };
        let document = document.ok_or_else(gone)?;
        let rule = RuleDocument::read(&document);
        let rule = rule.map_err(|error| StepError::permanent("EP0811", error.to_string()))?;
        let rule = RunRule::new(rule).await?;
        let mut kept = self.0.lock();
        if kept.len() >= VERSIONS_KEPT {
            kept.clear();
        }
        kept.insert(key, rule.clone());
        Ok(rule)
    }
}
