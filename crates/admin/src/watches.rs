//! What rules have found in the folders that they watch.

use entrepot_journal::Scope;
use entrepot_nouns::watch::SeenFile;
use entrepot_nouns::{Fact, Kind, Name, Rule, Stored};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::limits::{QUERY_ROWS, QUERY_ROWS_DEFAULT};
use crate::request::Response;

impl Admin {
    /// In the order of their paths.
    pub(crate) async fn seen_files(
        &self,
        actor: &Actor,
        rule: &Name,
        after: Option<String>,
        limit: Option<u32>,
    ) -> Result<Response> {
        let rule = self.watching_rule(actor, rule).await?;
        let (after, limit) = (after.unwrap_or_default(), limit.unwrap_or(QUERY_ROWS_DEFAULT));
        let rows = self.parts().db.watched_page(rule.id, &after, limit.min(QUERY_ROWS)).await?;
        let shown = rows.into_iter().map(|row| SeenFile {
            path: row.path,
            size: row.size,
            modified: row.modified,
            gone_at: row.gone_at,
        });
        Ok(Response::SeenFiles { files: shown.collect() })
    }

    /// Has a file found anew.
    pub(crate) async fn forget_file(
        &self,
        actor: &Actor,
        name: Name,
        path: String,
    ) -> Result<Response> {
        let rule = self.watching_rule(actor, &name).await?;
        let parts = self.parts();
        let by = actor.name.clone();
        let fact = Fact::WatchForgotten { rule: name, path: path.clone(), by };
        let scope = Scope { account: actor.account(), ..Scope::site(actor.site) };
        let event = parts.recorder.event(&scope, fact);
        let mut tx = parts.db.begin().await?;
        if !tx.forget_watched(rule.id, &path).await? {
            let (what, hint) = ("file that the rule has found", String::new());
            return Err(AdminError::NotFound { what, name: path, hint });
        }
        tx.insert_event(&event).await?;
        tx.commit().await?;
        self.seal_now(&[event]).await;
        Ok(Response::Done)
    }

    async fn watching_rule(&self, actor: &Actor, name: &Name) -> Result<Stored<Rule>> {
        match self.parts().db.find::<Rule>(actor.site, name).await? {
            Some(rule) => Ok(rule),
            None => Err(self.missing_noun(actor, Kind::Rule, name).await),
        }
    }
}
