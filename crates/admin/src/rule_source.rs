//! Rules that a request is about: stored ones, or those of documents that nobody has stored.

use entrepot_nouns::{AnyNoun, Kind, Name, Noun as _, Rule, Stored};
use uuid::Uuid;

use crate::actor::Actor;
use crate::admin::Admin;
use crate::document::{self, Given};
use crate::document_text::Document;
use crate::error::{AdminError, Result};
use crate::rule_orders::RuleSource;
use crate::secrets::RuleCheck;

/// How far rules of documents are checked; stored ones have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// As if they were to be stored, but for what they refer to.
    Whole,
    /// Without what whoever runs them says.
    ByItsTypes,
}

impl Admin {
    /// The rules. One of a document with the name of a stored rule counts as that rule, changed.
    pub(crate) async fn rules_of(
        &self,
        actor: &Actor,
        source: &RuleSource,
        how: Checked,
    ) -> Result<Vec<Stored<Rule>>> {
        let db = &self.parts().db;
        if !source.has_documents() {
            let Some(name) = &source.rule else { return Ok(db.list::<Rule>(actor.site).await?) };
            return match db.find::<Rule>(actor.site, name).await? {
                Some(rule) => Ok(vec![rule]),
                None => Err(self.missing_noun(actor, Kind::Rule, name).await),
            };
        }
        let given = document::parse(&source.documents)?;
        let check: RuleCheck = match how {
            Checked::Whole => self.settler.rule_check,
            Checked::ByItsTypes => |_: &Rule| Ok(()),
        };
        let documents = source.documents.clone();
        let checking = move || checked(given, &documents, check);
        let checked = tokio::task::spawn_blocking(checking).await;
        let mut rules = checked.map_err(|error| AdminError::Internal {
            what: "checking rules",
            problem: error.to_string(),
        })??;
        if let Some(name) = &source.rule {
            rules.retain(|rule| rule.name == *name);
        }
        if rules.is_empty() {
            let name = source.rule.as_ref().map_or("any", Name::as_str).to_owned();
            let hint = " in the documents".to_owned();
            return Err(AdminError::NotFound { what: "rule", name, hint });
        }
        let mut found = Vec::with_capacity(rules.len());
        for noun in rules {
            let now = self.parts().env.now();
            let stored = db.find::<Rule>(actor.site, &noun.name).await?;
            let id = stored.as_ref().map_or_else(Uuid::nil, |stored| stored.id);
            let revision = stored.map_or(0, |stored| stored.revision);
            found.push(Stored { id, site: actor.site, revision, changed_at: now, noun });
        }
        Ok(found)
    }

    /// The one rule of a source.
    pub(crate) async fn rule_of(&self, actor: &Actor, source: &RuleSource) -> Result<Stored<Rule>> {
        let mut rules = self.rules_of(actor, source, Checked::Whole).await?;
        match (rules.pop(), rules.is_empty()) {
            (Some(rule), true) => Ok(rule),
            (found, _) => {
                let names = rules.iter().chain(&found).map(|rule| rule.noun.name.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                let problem = format!("name one rule: there are {names}");
                Err(AdminError::Query { problem })
            }
        }
    }
}

fn checked(given: Vec<Given>, documents: &[Document], check: RuleCheck) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for Given { noun, source } in given {
        let AnyNoun::Rule(rule) = noun else { continue };
        rule.check().and_then(|()| check(&rule)).map_err(|error| AdminError::Field {
            place: document::place(documents, &source, &error.field),
            kind: Kind::Rule,
            name: rule.name.to_string(),
            field: error.field,
            problem: error.problem,
        })?;
        rules.push(rule);
    }
    Ok(rules)
}
