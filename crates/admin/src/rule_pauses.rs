//! Rules that are paused: their jobs wait until somebody resumes them.

use entrepot_journal::Scope;
use entrepot_nouns::event::{PausedFact, ResumedFact};
use entrepot_nouns::{Fact, Kind, Name, Noun as _, Rule};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::request::Response;
use crate::shown_job::RulePause;

impl Admin {
    /// Pauses or resumes a rule. One that is as it is asked for stays so, and nothing is told.
    ///
    /// Whoever keeps the service running may do this, also where a key or an endpoint of the rule
    /// is for others: the document says no more than before.
    pub(crate) async fn pause_rule(
        &self,
        actor: &Actor,
        name: Name,
        to: RulePause,
    ) -> Result<Response> {
        let (parts, site) = (self.parts(), actor.site);
        let mut tx = parts.db.begin().await?;
        let Some(mut rule) = tx.find::<Rule>(site, &name).await? else {
            drop(tx);
            return Err(self.missing_noun(actor, Kind::Rule, &name).await);
        };
        let paused = to == RulePause::Paused;
        if rule.noun.paused == paused {
            return Ok(Response::Done);
        }
        rule.noun.paused = paused;
        rule.noun.check().map_err(|flaw| AdminError::Refused { problem: flaw.problem })?;
        tx.put(site, rule.id, &rule.noun, parts.env.now()).await?;
        let scope = Scope { account: actor.account(), ..Scope::site(site) };
        let events = changes(actor, &name, to).map(|fact| parts.recorder.event(&scope, fact));
        for event in &events {
            tx.insert_event(event).await?;
        }
        tx.commit().await?;
        self.seal_now(&events).await;
        Ok(Response::Done)
    }
}

/// What is told of it.
fn changes(actor: &Actor, name: &Name, to: RulePause) -> [Fact; 2] {
    let (rule, by) = (name.clone(), actor.name.clone());
    let changed = Fact::ConfigChanged {
        noun: Kind::Rule,
        name: rule.clone(),
        action: "changed".to_owned(),
        by: by.clone(),
        fields: vec!["paused".to_owned()],
    };
    let told = match to {
        RulePause::Paused => {
            Fact::RulePaused { paused: PausedFact { rule, by, path: None, reason: None } }
        }
        RulePause::Resumed => Fact::RuleResumed { resumed: ResumedFact { rule, by } },
    };
    [changed, told]
}
