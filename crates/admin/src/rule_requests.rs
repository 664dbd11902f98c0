//! What is asked about rules, and done with them.

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::request::{Request, Response};

impl Admin {
    /// Does what a request about rules says.
    pub(crate) async fn of_rules(&self, actor: &Actor, request: Request) -> Result<Response> {
        match request {
            Request::ExplainRules { question } => self.explain(actor, question).await,
            Request::DryRunRule { order } => self.dry_run_rule(actor, *order).await,
            Request::TestRules { source } => self.test_rules(actor, source).await,
            Request::LintRules { source } => self.lint_rules(actor, source).await,
            Request::DiffRules { source } => self.diff_rules(actor, source).await,
            Request::ReplayRule { order } => self.replay_rule(actor, *order).await,
            Request::RunRule { name, parameters } => self.run_rule(actor, name, parameters).await,
            Request::PauseRule { name, to } => self.pause_rule(actor, name, to).await,
            Request::SeenFiles { rule, after, limit } => {
                self.seen_files(actor, &rule, after, limit).await
            }
            Request::Forget { rule, path } => self.forget_file(actor, rule, path).await,
            other => {
                let problem = format!("{other:?} is not about rules");
                Err(AdminError::Internal { what: "asking about rules", problem })
            }
        }
    }
}
