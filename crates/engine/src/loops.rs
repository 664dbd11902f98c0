//! Rules that run on one path again and again, as those do that start each other.
//!
//! Events that cause each other are counted by their depth. That count begins anew where a file
//! leaves us and comes back: from a server that hands it on, or through a folder that is watched.
//! So the jobs of each rule are counted by the path of the file that came, too. A rule that makes
//! too many is paused: its jobs wait, nothing is lost, and somebody looks.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use entrepot_db::DbError;
use entrepot_journal::Scope;
use entrepot_nouns::event::PausedFact;
use entrepot_nouns::{Event, EventId, Fact, Job, Kind, Name, Rule, SiteId};

use crate::limits::{LOOP_PATHS, LOOP_TIME};
use crate::own_changes;
use crate::rules;
use crate::shared::Shared;

/// How often rules ran on which paths, in this minute, on this node.
#[derive(Default)]
pub(crate) struct PathRuns {
    since: Duration,
    hashes: RandomState,
    /// By the hash of a rule and a path.
    runs: HashMap<u64, Runs>,
}

/// How often one rule ran on one path.
#[derive(Default)]
struct Runs {
    /// The hash of site and rule.
    rule: u64,
    count: u32,
}

impl PathRuns {
    /// One more job of a rule on `path`; how many those are in this minute.
    pub(crate) fn count(&mut self, job: &Job, path: &str, now: Duration) -> u32 {
        if now.saturating_sub(self.since) >= LOOP_TIME {
            self.since = now;
            self.runs.clear();
        }
        let rule = self.rule_hash(job.site, &job.rule);
        let key = self.hashes.hash_one((rule, path));
        if self.runs.len() >= LOOP_PATHS && !self.runs.contains_key(&key) {
            return 1;
        }
        let runs = self.runs.entry(key).or_default();
        *runs = Runs { rule, count: runs.count.saturating_add(1) };
        runs.count
    }

    /// A rule that goes on after it was paused has not run.
    pub(crate) fn forget(&mut self, site: SiteId, rule: &Name) {
        let forgotten = self.rule_hash(site, rule);
        self.runs.retain(|_, runs| runs.rule != forgotten);
    }

    fn rule_hash(&self, site: SiteId, rule: &Name) -> u64 {
        self.hashes.hash_one((site.0, rule.as_str()))
    }
}

/// A rule that ran too often.
pub(crate) struct Looping {
    pub(crate) site: SiteId,
    pub(crate) rule: Name,
    /// The path that it ran on.
    path: String,
    /// More often than that.
    limit: u32,
    /// Because of the last of the events.
    scope: Scope,
}

impl Looping {
    /// The rule of `job`, which `event` started once too often.
    pub(crate) fn new(job: &Job, path: &str, limit: u32, event: &Event) -> Looping {
        let (site, rule, path) = (job.site, job.rule.clone(), path.to_owned());
        Looping { site, rule, path, limit, scope: rules::caused_by(event) }
    }

    /// Pauses the rule, and tells; false if somebody else has, or there is no such rule any more.
    pub(crate) async fn pause(&self, shared: &Shared) -> Result<bool, DbError> {
        let recorder = &shared.recorder;
        let mut tx = shared.db.begin().await?;
        let found = tx.find::<Rule>(self.site, &self.rule).await?;
        let Some(mut found) = found.filter(|rule| rule.noun.enabled && !rule.noun.paused) else {
            return Ok(false);
        };
        found.noun.paused = true;
        tx.put(self.site, found.id, &found.noun, recorder.env().now()).await?;
        let by = own_changes::author(recorder);
        let changed = own_changes::changed(recorder, Kind::Rule, &self.rule, "paused");
        let path = Some(self.path.clone());
        let reason = Some(format!("more than {} jobs for this path in a minute", self.limit));
        let paused = PausedFact { rule: self.rule.clone(), by, path, reason };
        let paused = Fact::RulePaused { paused };
        let events = [changed, paused].map(|fact| recorder.event(&self.scope, fact));
        for event in &events {
            tx.insert_event(event).await?;
        }
        tx.commit().await?;
        tracing::warn!(
            rule = self.rule.as_str(),
            path = self.path,
            limit = self.limit,
            "a rule ran so often on one path that it is paused"
        );
        let mut sealed: Vec<EventId> = Vec::new();
        for event in &events {
            match recorder.seal(event).await {
                Ok(_) => sealed.push(event.id),
                // It is sealed when the node starts again.
                Err(error) => tracing::warn!(%error, "that a rule is paused is not sealed yet"),
            }
        }
        shared.db.mark_sealed(&sealed).await?;
        Ok(true)
    }
}
