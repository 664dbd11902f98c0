//! What is found out about rules before they run: their tests, flaws, and what differs between a
//! document and what is stored.

use std::collections::{BTreeMap, BTreeSet};

use entrepot_db::EventFilter;
use entrepot_nouns::explanation::{EventExplanation, ExplainedSite, RuleExplanation, RuleOutcome};
use entrepot_nouns::rule::{Step, StepList, StepsAt};
use entrepot_nouns::rule_report::{DiffedEvent, LintFinding, RuleChange, RuleDiff, RuleTestReport};
use entrepot_nouns::{AdminRight, AnyNoun, Event, Kind, Mount, Name, Rule, SiteId, Stored};
use serde_json::{Map, Value};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::limits;
use crate::plan;
use crate::planned_change::Action;
use crate::request::Response;
use crate::rule_orders::{RuleCritics, RuleSource};
use crate::rule_source::Checked;

impl Admin {
    /// Has rules judged by whoever runs them.
    #[must_use]
    pub fn with_rule_critics(mut self, critics: RuleCritics) -> Self {
        self.rule_critics = Some(critics);
        self
    }

    pub(crate) fn critics(&self) -> Result<RuleCritics> {
        self.rule_critics.ok_or_else(|| AdminError::Internal {
            what: "judging rules",
            problem: "nothing here runs rules".to_owned(),
        })
    }

    pub(crate) async fn test_rules(&self, actor: &Actor, source: RuleSource) -> Result<Response> {
        // A rule whose tests fail is what is asked about.
        let rules = self.rules_of(actor, &source, Checked::ByItsTypes).await?;
        let test = self.critics()?.test;
        let report = move |rule: Stored<Rule>| RuleTestReport {
            tests: test(&rule.noun),
            rule: rule.noun.name,
        };
        let reports = move || rules.into_iter().map(report).collect::<Vec<_>>();
        let reports = blocking("testing rules", reports).await?;
        Ok(Response::RuleTests { reports })
    }

    /// Looks at the rules that are asked about beside all others of the site.
    pub(crate) async fn lint_rules(&self, actor: &Actor, source: RuleSource) -> Result<Response> {
        let asked = self.rules_of(actor, &source, Checked::Whole).await?;
        let asked: BTreeMap<Name, Rule> =
            asked.into_iter().map(|rule| (rule.noun.name.clone(), rule.noun)).collect();
        let stored = self.parts().db.list::<Rule>(actor.site).await?;
        let findings = self.findings(actor.site, &asked, stored).await?;
        Ok(Response::RuleFindings { findings })
    }

    /// What is probably not meant of rules that are, or shall be, stored by these steps: a sentence
    /// each. Nothing of sites with more than [`limits::LINTED_RULES`] rules, for each is looked at
    /// beside each other one.
    pub(crate) async fn flaws(&self, site: SiteId, steps: &[plan::Step]) -> Vec<String> {
        let changed: BTreeMap<Name, Rule> = steps
            .iter()
            .filter(|step| step.shown.action != Action::Unchanged)
            .filter_map(|step| match &step.noun {
                Some(AnyNoun::Rule(rule)) => Some((rule.name.clone(), rule.clone())),
                _ => None,
            })
            .collect();
        if changed.is_empty() || self.rule_critics.is_none() {
            return Vec::new();
        }
        let found: Result<Vec<LintFinding>> = async {
            let mut stored = self.parts().db.list::<Rule>(site).await?;
            let is_gone = |name: &Name| {
                let of = |step: &plan::Step| step.shown.kind == Kind::Rule && step.noun.is_none();
                steps.iter().any(|step| of(step) && step.shown.name == *name)
            };
            stored.retain(|rule| !is_gone(&rule.noun.name));
            if stored.len().saturating_add(changed.len()) > limits::LINTED_RULES {
                return Ok(Vec::new());
            }
            self.findings(site, &changed, stored).await
        }
        .await;
        let sentence =
            |LintFinding { rule, field, text, .. }| format!("rule '{rule}', {field}: {text}");
        match found {
            Ok(findings) => findings.into_iter().map(sentence).collect(),
            Err(error) => {
                tracing::warn!(%error, "rules are not looked at for flaws");
                Vec::new()
            }
        }
    }

    async fn findings(
        &self,
        site: SiteId,
        asked: &BTreeMap<Name, Rule>,
        stored: Vec<Stored<Rule>>,
    ) -> Result<Vec<LintFinding>> {
        let mut all = asked.clone();
        for rule in stored {
            all.entry(rule.noun.name.clone()).or_insert(rule.noun);
        }
        let mounts = self.parts().db.list::<Mount>(site).await?;
        let mounts: Vec<Mount> = mounts.into_iter().map(|mount| mount.noun).collect();
        let (lint, all) = (self.critics()?.lint, all.into_values().collect::<Vec<_>>());
        let mut findings = blocking("looking at rules", move || lint(&all, &mounts)).await?;
        let is_about_them = |finding: &LintFinding| {
            let is_named = |name: &Name| finding.text.contains(&format!("rule '{name}'"));
            asked.contains_key(&finding.rule) || asked.keys().any(is_named)
        };
        findings.retain(is_about_them);
        Ok(findings)
    }

    /// The answer tells of events besides rules.
    pub(crate) async fn diff_rules(&self, actor: &Actor, source: RuleSource) -> Result<Response> {
        actor.must(AdminRight::See)?;
        let site = self.explained_site(actor.site).await?;
        let mut diffs = Vec::new();
        for after in self.rules_of(actor, &source, Checked::Whole).await? {
            let before = self.parts().db.find::<Rule>(actor.site, &after.noun.name).await?;
            diffs.push(self.diff_rule(actor.site, &site, before, after).await?);
        }
        Ok(Response::RuleDiffs { diffs })
    }

    async fn diff_rule(
        &self,
        site: SiteId,
        explained: &ExplainedSite,
        before: Option<Stored<Rule>>,
        after: Stored<Rule>,
    ) -> Result<RuleDiff> {
        let mut diff = RuleDiff {
            rule: after.noun.name.clone(),
            stored: before.is_some(),
            changes: changes(before.as_ref().map(|rule| &rule.noun), &after.noun),
            events: 0,
            since: None,
            unchanged: 0,
            gained: Vec::new(),
            lost: Vec::new(),
        };
        let is_as_before = before.as_ref().is_some_and(|before| {
            let (old, new) = (&before.noun, &after.noun);
            (&old.when, &old.condition, old.enabled) == (&new.when, &new.condition, new.enabled)
        });
        if is_as_before {
            return Ok(diff);
        }
        let mut events = Vec::new();
        for rule in before.iter().chain([&after]) {
            events.extend(self.newest_for(site, &rule.noun).await?);
        }
        events.sort_by_key(|event: &Event| (event.at, event.id.0));
        events.dedup_by_key(|event| event.id);
        let explainer = self.rule_explainer;
        let explained = explained.clone();
        let rules: Vec<Stored<Rule>> = before.into_iter().chain([after]).collect();
        let explain = move || explainer(&explained, rules, events);
        for explained in blocking("comparing rules", explain).await? {
            add_event(&mut diff, explained);
        }
        Ok(diff)
    }

    /// The newest events of the kinds that may start a rule.
    async fn newest_for(&self, site: SiteId, rule: &Rule) -> Result<Vec<Event>> {
        let mut filter = EventFilter {
            kinds: start_kinds(rule),
            newest_first: true,
            limit: limits::DIFFED_EVENTS,
            ..EventFilter::default()
        };
        let mut events = Vec::new();
        for _ in 0..limits::EXPLAIN_PAGES {
            let page = self.parts().db.event_page(site, &filter).await?;
            events.extend(page.rows.into_iter().map(|row| row.event));
            filter.before_sequence = page.next;
            if page.next.is_none() || events.len() >= limits::DIFFED_EVENTS as usize {
                break;
            }
        }
        events.truncate(limits::DIFFED_EVENTS as usize);
        Ok(events)
    }
}

/// The kinds of events that may start a rule; an arrival has several.
pub(crate) fn start_kinds(rule: &Rule) -> Vec<String> {
    let mut kinds: BTreeSet<&str> = rule.when.kinds().collect();
    if kinds.contains("file.uploaded") {
        kinds.extend(["file.recovered", "file.renamed"]);
    }
    if kinds.is_empty() {
        kinds.insert("command.done");
    }
    kinds.into_iter().map(str::to_owned).collect()
}

async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| AdminError::Internal { what, problem: error.to_string() })
}

/// Of the stored rule, if there is one, and of the document.
fn add_event(diff: &mut RuleDiff, explained: EventExplanation) {
    diff.events += 1;
    diff.since.get_or_insert(explained.event.at);
    let mut rules = explained.rules;
    let Some(after) = rules.pop() else { return };
    let before = rules.pop();
    let starts = |rule: &RuleExplanation| rule.outcome == RuleOutcome::Starts;
    let event = |why: String| DiffedEvent {
        id: explained.event.id,
        at: explained.event.at,
        kind: explained.event.fact.kind().to_owned(),
        path: explained.path.clone(),
        why,
    };
    match (before.as_ref().is_some_and(starts), starts(&after)) {
        (true, true) => diff.unchanged += 1,
        (false, true) => {
            let why = before.map_or_else(|| "there is no rule".to_owned(), |before| before.why);
            diff.gained.push(event(why));
        }
        (true, false) => diff.lost.push(event(after.why)),
        (false, false) => {}
    }
}

/// What differs in meaning: a field that is written out as it is anyway does not, nor does the
/// order of keys; steps are compared by what jobs know them by.
fn changes(before: Option<&Rule>, after: &Rule) -> Vec<RuleChange> {
    let old = before.map(fields).unwrap_or_default();
    let new = fields(after);
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    let change = |name: &String| RuleChange {
        field: name.clone(),
        before: old.get(name).cloned(),
        after: new.get(name).cloned(),
    };
    differs.map(change).collect()
}

/// The fields of a rule by their path, its steps by their address.
fn fields(rule: &Rule) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let bare = Rule { steps: Vec::new(), otherwise: Vec::new(), ..rule.clone() };
    if let Ok(Value::Object(body)) = serde_json::to_value(&bare) {
        add_fields(&mut found, "", body);
    }
    found.remove("do");
    for list in [StepList::Do, StepList::Else] {
        for place in rule.places(list) {
            let step = without_branches(place.step);
            found.insert(format!("step {}", place.address), step);
        }
        let order = rule.list(list).iter().enumerate();
        let order = order.map(|(at, step)| StepsAt::list(list).address(step, at).to_string());
        let order = order.collect::<Vec<_>>();
        if !order.is_empty() {
            found.insert(format!("{}, in order", list.as_str()), order.into());
        }
    }
    found
}

fn add_fields(found: &mut BTreeMap<String, Value>, prefix: &str, body: Map<String, Value>) {
    for (key, value) in body {
        let field = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(inside) => add_fields(found, &field, inside),
            value => {
                found.insert(field, value);
            }
        }
    }
}

/// The step itself; those inside it are compared by their own addresses.
fn without_branches(step: &Step) -> Value {
    let mut json = serde_json::to_value(step).unwrap_or_default();
    for (key, _) in step.branches() {
        if let Some(spec) = json.get_mut(step.spec.word()).and_then(Value::as_object_mut) {
            spec.remove(key);
        }
    }
    json
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(fields: Value) -> Rule {
        let mut rule = json!({"name": "r", "when": {"event": "file.uploaded"}});
        for (key, value) in fields.as_object().unwrap() {
            rule[key] = value.clone();
        }
        serde_json::from_value(rule).unwrap()
    }

    #[test]
    fn only_what_means_something_else_differs() {
        let send = json!({"name": "send", "deliver": {"endpoint": "e"}});
        let spelled = json!({"deliver": {"existing": "replace", "path": "{name}", "endpoint": "e"},
            "on_error": "fail", "name": "send"});
        let old = rule(json!({"do": [send]}));
        let same = rule(json!({"do": [spelled], "enabled": true, "else": [], "note": "",
            "retry": {"attempts": 10}}));
        assert_eq!(changes(Some(&old), &same), []);
        let fields = |new: Value| -> Vec<String> {
            changes(Some(&old), &rule(new)).into_iter().map(|change| change.field).collect()
        };
        let other = json!({"name": "send", "deliver": {"endpoint": "f"}});
        assert_eq!(fields(json!({"do": [other]})), ["step send"]);
        // A step put above changes the order, and not the step below it.
        let moved = fields(json!({"do": [{"set": {"a": "1"}}, send]}));
        assert_eq!(moved, ["do, in order", "step do.0"]);
        let found = fields(json!({"do": [send], "if": "true", "retry": {"attempts": 2}}));
        assert_eq!(found, ["if", "retry.attempts"]);
        let inside = |to: &str| {
            rule(json!({"do": [{"if": {"when": "true",
            "then": [{"move": {"to": to}}]}}]}))
        };
        let change = changes(Some(&inside("/a")), &inside("/b"));
        let names: Vec<_> = change.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(names, ["step do.0.if.then.0"]);
        assert!(changes(None, &old).iter().all(|change| change.before.is_none()));
    }
}
