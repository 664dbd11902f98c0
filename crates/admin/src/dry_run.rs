//! What a rule would do: rule and events are found here, whoever runs rules walks its steps.

use entrepot_nouns::AdminRight;
use entrepot_nouns::dry_run::DryRunSubject;

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::request::Response;
use crate::rule_orders::{DryRunOrder, RuleDryRunner, RuleSource};
use crate::rule_question::RuleSubject;

impl Admin {
    /// Tries rules by whoever runs them.
    #[must_use]
    pub fn with_rule_dry_runner(mut self, runner: RuleDryRunner) -> Self {
        self.rule_dry_runner = runner;
        self
    }

    pub(crate) async fn dry_run_rule(&self, actor: &Actor, order: DryRunOrder) -> Result<Response> {
        // The answer tells of rules, events and files.
        actor.must(AdminRight::See)?;
        actor.must(AdminRight::Audit)?;
        let source = RuleSource { rule: order.rule, documents: order.documents };
        let rule = self.rule_of(actor, &source).await?;
        let site = self.explained_site(actor.site).await?;
        let (events, path) = match order.about {
            None => (Vec::new(), None),
            Some(RuleSubject::Event(event)) => (vec![self.event_of(actor, &event).await?], None),
            Some(RuleSubject::Path(path)) => (self.newest_about(actor, &path).await?, Some(path)),
        };
        let subject = DryRunSubject { rule, site, events, path, account: order.account };
        let dry_run = (self.rule_dry_runner)(subject)
            .await
            .map_err(|problem| AdminError::Internal { what: "trying a rule", problem })?;
        Ok(Response::RuleDryRun { dry_run: Box::new(dry_run) })
    }
}
