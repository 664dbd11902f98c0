//! Rules that are started by hand: the event and the kept answer in one transaction.

use entrepot_journal::Scope;
use entrepot_nouns::explanation::{RuleExplanation, RuleOutcome};
use entrepot_nouns::{Event, Fact, Kind, Name, Rule, Stored};
use serde_json::{Map, Value};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::once::KeptRequest;
use crate::request::Response;
use crate::shown_job::StartedRule;

impl Admin {
    /// Starts a rule with the values of these parameters and the defaults of the others.
    pub(crate) async fn run_rule(
        &self,
        actor: &Actor,
        name: Name,
        given: Map<String, Value>,
    ) -> Result<Response> {
        self.run_rule_once(actor, &name, &given, None).await
    }

    /// As [`Admin::run_rule`]; with `once` at most once.
    pub(crate) async fn run_rule_once(
        &self,
        actor: &Actor,
        name: &Name,
        given: &Map<String, Value>,
        once: Option<&KeptRequest>,
    ) -> Result<Response> {
        // Nobody else would read the journal of a node that is not running.
        self.serving()?;
        let parts = self.parts();
        let Some(rule) = parts.db.find::<Rule>(actor.site, name).await? else {
            return Err(self.missing_noun(actor, Kind::Rule, name).await);
        };
        let not_run = |problem: String| AdminError::NotRun { name: name.clone(), problem };
        let Some(call) = rule.noun.when.call() else {
            let problem = "it does not start by hand; that needs 'when: {call: {}}'";
            return Err(not_run(problem.to_owned()));
        };
        let parameters = call.values(given).map_err(not_run)?;
        let (rule_name, by) = (name.clone(), actor.name.clone());
        let fact = Fact::RuleCalled { rule: rule_name, parameters, by };
        let scope = Scope { account: actor.account(), ..Scope::site(actor.site) };
        let event = parts.recorder.event(&scope, fact);
        let verdict = self.judged(actor, rule, &event).await?;
        let job = match (verdict.outcome, &verdict.job) {
            (RuleOutcome::Starts, Some(job)) => job.id,
            _ => return Err(not_run(verdict.why)),
        };
        let answer = Response::StartedRule { started: StartedRule { event: event.id, job } };
        let mut tx = parts.db.begin().await?;
        // From here on nobody else answers a request under the same key.
        if let Some(once) = once
            && let Some(answer) = once.answer(&parts.db).await?
        {
            return Ok(answer);
        }
        tx.insert_event(&event).await?;
        if let Some(once) = once {
            once.keep_in(&mut tx, &answer).await?;
        }
        tx.commit().await?;
        self.seal_now(&[event]).await;
        Ok(answer)
    }

    /// What the rule makes of an event that has not happened yet.
    async fn judged(
        &self,
        actor: &Actor,
        rule: Stored<Rule>,
        event: &Event,
    ) -> Result<RuleExplanation> {
        let site = self.explained_site(actor.site).await?;
        let (explainer, event) = (self.rule_explainer, event.clone());
        let failed = |problem: String| AdminError::Internal { what: "asking the rule", problem };
        let explain = move || explainer(&site, vec![rule], vec![event]);
        let explained = tokio::task::spawn_blocking(explain).await;
        let explained = explained.map_err(|error| failed(error.to_string()))?;
        let mut of_rules = explained.into_iter().flat_map(|event| event.rules);
        of_rules.next().ok_or_else(|| failed("nobody knows what it does".to_owned()))
    }
}
