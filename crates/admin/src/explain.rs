//! Why an event, or what is known of a path, started which rules, and which not. Whoever runs the
//! rules says what they make of an event; here it is found which events and rules are asked about,
//! and which jobs there are.

use std::collections::BTreeSet;

use entrepot_db::{EventFilter, event_paths};
use entrepot_nouns::explanation::{
    EventName, ExplainedSite, Explanation, Remark, RemarkReason, RuleExplanation, RuleOutcome,
};
use entrepot_nouns::{
    AdminRight, Event, Fact, Kind, Name, Policy, Rule, SiteId, Stored, Timestamp, VPath,
};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::limits;
use crate::request::Response;
use crate::rule_question::{RuleExplainer, RuleQuestion, RuleSubject};

/// What was found in the audit log.
#[derive(Default)]
pub(crate) struct Found {
    /// The newest first.
    pub(crate) events: Vec<Event>,
    pub(crate) remarks: Vec<Remark>,
}

/// What a search for a path came upon.
#[derive(Default)]
struct Search {
    /// About this very path, the newest first.
    exact: Vec<Event>,
    /// Files that have its name, or in its folder a temporary name with it inside.
    similar: Vec<SimilarFile>,
    /// Paths that were renamed later than the events that are still to come.
    renamed: BTreeSet<String>,
    /// Events up to this time were not searched.
    searched_to: Option<Timestamp>,
}

/// A file that may be the one that is looked for.
struct SimilarFile {
    path: String,
    at: Timestamp,
    /// Whether the name is a temporary one of its client.
    temporary: bool,
}

impl Admin {
    /// Explains rules by whoever runs them.
    #[must_use]
    pub fn with_rule_explainer(mut self, explainer: RuleExplainer) -> Self {
        self.rule_explainer = explainer;
        self
    }

    /// The answer shows rules and jobs besides events, so it needs the right to see them too.
    pub(crate) async fn explain(&self, actor: &Actor, question: RuleQuestion) -> Result<Response> {
        actor.must(AdminRight::See)?;
        let rules = self.asked_rules(actor, question.rule.as_ref()).await?;
        let site = self.explained_site(actor.site).await?;
        let mut found = match &question.about {
            RuleSubject::Event(event) => self.one_event(actor, event).await?,
            RuleSubject::Path(path) => {
                let mut found = self.events_about(actor, path).await?;
                let watched = self.where_watched(actor.site, &file_path(path)?, &rules).await?;
                found.remarks.extend(watched);
                found
            }
        };
        if rules.is_empty() {
            let text = format!("the site '{}' has no rules", site.name);
            found.remarks.push(Remark { reason: RemarkReason::NoRules, text });
        }
        let (explainer, events) = (self.rule_explainer, found.events);
        let explain = move || explainer(&site, rules, events);
        let explained = tokio::task::spawn_blocking(explain).await;
        let mut events = explained.map_err(|error| AdminError::Internal {
            what: "explaining rules",
            problem: error.to_string(),
        })?;
        for event in &mut events {
            for rule in &mut event.rules {
                self.add_job(actor.site, rule).await?;
            }
        }
        let explanation = Explanation { events, remarks: found.remarks };
        Ok(Response::Explanation { explanation: Box::new(explanation) })
    }

    /// What rules of a site may ask of it.
    pub(crate) async fn explained_site(&self, site: SiteId) -> Result<ExplainedSite> {
        let name = self.site_name(site).await?;
        let policies = self.parts().db.list::<Policy>(site).await?;
        Ok(ExplainedSite::new(name, policies.into_iter().map(|policy| policy.noun)))
    }

    async fn asked_rules(&self, actor: &Actor, name: Option<&Name>) -> Result<Vec<Stored<Rule>>> {
        let db = &self.parts().db;
        let Some(name) = name else { return Ok(db.list::<Rule>(actor.site).await?) };
        match db.find::<Rule>(actor.site, name).await? {
            Some(rule) => Ok(vec![rule]),
            None => Err(self.missing_noun(actor, Kind::Rule, name).await),
        }
    }

    /// Puts what is known of the job in place of its id.
    async fn add_job(&self, site: SiteId, rule: &mut RuleExplanation) -> Result<()> {
        let Some(mut job) = rule.job.take() else { return Ok(()) };
        // A rule that is as it was made no job of an event that it does not start on.
        if !rule.trigger_fits && rule.changed_at.is_none() {
            return Ok(());
        }
        let starts = rule.outcome == RuleOutcome::Starts;
        match self.parts().db.job(site, job.id).await? {
            Some(stored) => {
                (job.state, job.error) = (Some(stored.state), stored.error);
                rule.job = Some(job);
                if starts {
                    rule.why = "it started".to_owned();
                } else {
                    rule.why.push_str("; it did start then, before the rule was changed");
                }
            }
            None if starts && rule.changed_at.is_some() => {
                rule.why = "it would start now, but it was made or changed after the event and \
                            made no job then"
                    .to_owned();
            }
            None if starts => {
                rule.why = "it would start, but there is no job any more".to_owned();
            }
            None => {}
        }
        Ok(())
    }

    /// The event of this name, if it belongs to the site of the actor.
    pub(crate) async fn event_of(&self, actor: &Actor, name: &EventName) -> Result<Event> {
        let event = self.any_event(actor, name).await?;
        if event.site == actor.site { Ok(event) } else { Err(no_event(name)) }
    }

    /// The newest events about a path.
    pub(crate) async fn newest_about(&self, actor: &Actor, path: &str) -> Result<Vec<Event>> {
        let path = file_path(path)?;
        Ok(self.search(actor.site, path.as_str(), limits::EXPLAIN_PAGES).await?.exact)
    }

    /// The event of this name, whosever it is.
    async fn any_event(&self, actor: &Actor, name: &EventName) -> Result<Event> {
        let db = &self.parts().db;
        let row = match *name {
            EventName::Id(id) => db.event(id).await?,
            EventName::Sequence(sequence) => {
                let filter = EventFilter {
                    after_sequence: Some(sequence.saturating_sub(1)),
                    before_sequence: Some(sequence.saturating_add(1)),
                    ..EventFilter::default()
                };
                db.event_page(actor.site, &filter).await?.rows.pop()
            }
        };
        row.map(|row| row.event).ok_or_else(|| no_event(name))
    }

    async fn one_event(&self, actor: &Actor, name: &EventName) -> Result<Found> {
        let event = self.any_event(actor, name).await?;
        if event.site == actor.site {
            return Ok(Found { events: vec![event], remarks: Vec::new() });
        }
        // Who works at another site knows of that one only.
        if actor.site != SiteId::MAIN {
            return Err(no_event(name));
        }
        let site = self.site_name(event.site).await?;
        let text = format!(
            "the event belongs to the site '{site}', whose rules alone it can start: ask there, \
             with '--site {site}'"
        );
        let remark = Remark { reason: RemarkReason::OtherSite, text };
        Ok(Found { events: Vec::new(), remarks: vec![remark] })
    }

    /// The newest events about a path, and what is known if no file arrived there.
    pub(crate) async fn events_about(&self, actor: &Actor, path: &str) -> Result<Found> {
        let parsed = file_path(path)?;
        let path = parsed.as_str();
        let pages = limits::EXPLAIN_PAGES;
        let search = self.search(actor.site, path, pages).await?;
        let was_found = |fact: &Fact| matches!(fact, Fact::WatchFound { .. });
        let arrived =
            search.exact.iter().any(|event| is_arrival(&event.fact) || was_found(&event.fact));
        let mut remarks = Vec::new();
        // Behind as many events as are explained the file may have arrived.
        if arrived || search.exact.len() >= limits::EXPLAINED_EVENTS {
            return Ok(Found { events: search.exact, remarks });
        }
        remarks.extend(not_arrived(path, &search));
        if actor.site == SiteId::MAIN {
            remarks.extend(self.at_other_sites(path).await?);
        }
        if let Some(at) = search.searched_to {
            let text = format!("events up to {at} were not searched: name the event by its id");
            remarks.push(Remark { reason: RemarkReason::NotSearched, text });
        }
        Ok(Found { events: search.exact, remarks })
    }

    /// Searches by the name of the file, which finds it under its temporary name as well.
    async fn search(&self, site: SiteId, path: &str, pages: u32) -> Result<Search> {
        let name = Place::of(path).name;
        let mut search = Search::default();
        let mut filter = EventFilter {
            path_contains: Some(name.to_owned()),
            newest_first: true,
            ..EventFilter::default()
        };
        for _ in 0..pages {
            let page = self.parts().db.event_page(site, &filter).await?;
            for row in page.rows {
                search.take(path, row.event);
                if search.exact.len() >= limits::EXPLAINED_EVENTS {
                    return Ok(search);
                }
            }
            filter.before_sequence = page.next;
            if page.next.is_none() {
                return Ok(search);
            }
        }
        let last = EventFilter { path_contains: None, limit: 1, ..filter };
        let last = self.parts().db.event_page(site, &last).await?.rows.pop();
        search.searched_to = last.map(|row| row.event.at);
        Ok(search)
    }

    /// Other sites at which a file of this path arrived lately.
    async fn at_other_sites(&self, path: &str) -> Result<Vec<Remark>> {
        let mut remarks = Vec::new();
        for site in self.parts().db.sites().await? {
            let id = SiteId(site.id);
            if id == SiteId::MAIN {
                continue;
            }
            let there = self.search(id, path, limits::EXPLAIN_PAGES_ELSEWHERE).await?;
            if let Some(newest) = there.exact.first() {
                let (name, kind, at) = (&site.noun.name, newest.fact.kind(), newest.at);
                let text = format!(
                    "the site '{name}' has '{kind}' of '{path}' at {at}, which starts rules of \
                     that site alone: ask there, with '--site {name}'"
                );
                remarks.push(Remark { reason: RemarkReason::OtherSite, text });
            }
        }
        Ok(remarks)
    }
}

fn no_event(name: &EventName) -> AdminError {
    AdminError::NotFound { what: "event", name: name.to_string(), hint: String::new() }
}

/// The path of a file in the view of accounts.
fn file_path(path: &str) -> Result<VPath> {
    let parsed = path.parse::<VPath>();
    let parsed = parsed.map_err(|error| AdminError::Query { problem: error.to_string() })?;
    if parsed.is_root() {
        let problem = "'/' is no file: name one, or an event".to_owned();
        return Err(AdminError::Query { problem });
    }
    Ok(parsed)
}

impl Search {
    fn take(&mut self, path: &str, event: Event) {
        let paths = event_paths(&event.fact);
        if paths.contains(&path) {
            self.exact.push(event);
            return;
        }
        let file = match &event.fact {
            Fact::FileUploaded { file } | Fact::FileRecovered { file } => file,
            Fact::FileRenamed { from, .. } => {
                self.renamed.insert(from.clone());
                return;
            }
            _ => return,
        };
        let (wanted, found) = (Place::of(path), Place::of(&file.path));
        let is_similar = if file.temporary {
            found.folder == wanted.folder && !self.renamed.contains(&file.path)
        } else {
            found.name == wanted.name
        };
        let known = self.similar.iter().any(|similar| similar.path == file.path);
        if is_similar && !known && self.similar.len() < limits::EXPLAINED_SIMILAR {
            let (path, at, temporary) = (file.path.clone(), event.at, file.temporary);
            self.similar.push(SimilarFile { path, at, temporary });
        }
    }
}

/// A path in two.
struct Place<'p> {
    /// With the slash at its end.
    folder: &'p str,
    name: &'p str,
}

impl Place<'_> {
    fn of(path: &str) -> Place<'_> {
        let at = path.rfind('/').map_or(0, |slash| slash + 1);
        let (folder, name) = path.split_at(at);
        Place { folder, name }
    }
}

/// Whether a file arrived under the name that it is to have.
pub(crate) fn is_arrival(fact: &Fact) -> bool {
    match fact {
        Fact::FileUploaded { file } | Fact::FileRecovered { file } => !file.temporary,
        Fact::FileHeld { held } => !held.file.temporary,
        Fact::FileRenamed { arrival, .. } => *arrival,
        _ => false,
    }
}

/// Why no file arrived at `path`, as far as the events of its site tell.
fn not_arrived(path: &str, search: &Search) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut add = |reason, text| remarks.push(Remark { reason, text });
    let newest = search.exact.first();
    if let Some(Event { fact: Fact::FileInterrupted { kept, reason, .. }, at, .. }) = newest {
        let goes_on = if *kept { "its client may resume it" } else { "what came was dropped" };
        let text = format!("an upload of '{path}' was interrupted at {at} ({reason}); {goes_on}");
        add(RemarkReason::Interrupted, text);
    }
    let mut temporary: BTreeSet<(&str, Timestamp)> = BTreeSet::new();
    let own = search.exact.iter().filter_map(|event| match &event.fact {
        Fact::FileUploaded { file } | Fact::FileRecovered { file } if file.temporary => {
            Some((path, event.at))
        }
        _ => None,
    });
    temporary.extend(own.take(1));
    let similar = search.similar.iter().filter(|similar| similar.temporary);
    temporary.extend(similar.map(|similar| (similar.path.as_str(), similar.at)));
    for (found, at) in temporary {
        let text = format!(
            "'{found}' arrived at {at} under a temporary name of its client; rules start when the \
             client renames it to the final name, which has not happened"
        );
        add(RemarkReason::TemporaryName, text);
    }
    for similar in search.similar.iter().filter(|similar| !similar.temporary) {
        let text = format!("a file of this name arrived at {} as '{}'", similar.at, similar.path);
        add(RemarkReason::OtherFolder, text);
    }
    let seen = if search.exact.is_empty() { "no event names it" } else { "no upload of it ended" };
    let text = format!(
        "no file arrived at '{path}': {seen}, or its events are older than those that are kept"
    );
    remarks.push(Remark { reason: RemarkReason::NeverArrived, text });
    remarks
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::event::FileFact;
    use entrepot_nouns::{Digests, Env, Protocol};

    use super::*;

    fn event(env: &Env, fact: Fact) -> Event {
        Event {
            id: env.new_id(),
            at: env.now(),
            clock: None,
            site: SiteId::MAIN,
            node: "n1".parse().unwrap(),
            account: None,
            session: None,
            job: None,
            cause: None,
            depth: 0,
            fact,
        }
    }

    fn file(env: &Env, path: &str) -> FileFact {
        FileFact {
            transfer: env.new_id(),
            path: path.to_owned(),
            size: 3,
            digests: Digests { blake3: None, sha256: None },
            protocol: Protocol::Sftp,
            started_at: env.now(),
            identity: None,
            displaced: None,
            temporary: path.ends_with(".part"),
            as2: None,
        }
    }

    fn uploaded(env: &Env, path: &str) -> Event {
        event(env, Fact::FileUploaded { file: file(env, path) })
    }

    fn reasons(events: Vec<Event>) -> Vec<RemarkReason> {
        let mut search = Search::default();
        events.into_iter().for_each(|event| search.take("/in/a", event));
        not_arrived("/in/a", &search).into_iter().map(|remark| remark.reason).collect()
    }

    #[test]
    fn what_is_known_of_a_file_that_did_not_arrive_is_said() {
        use RemarkReason::{Interrupted, NeverArrived, OtherFolder, TemporaryName};
        let env = Env::simulated(3);
        let renamed = Fact::FileRenamed {
            from: "/in/a.part".to_owned(),
            to: "/in/b".to_owned(),
            size: 3,
            arrival: true,
            displaced: None,
            file: None,
        };
        let renamed = event(&env, renamed);
        let temporary = uploaded(&env, "/in/a.part");
        let kept = Fact::FileInterrupted {
            file: file(&env, "/in/a"),
            kept: true,
            reason: "the connection broke".to_owned(),
        };
        // The newest first.
        for (events, wanted) in [
            (vec![], vec![NeverArrived]),
            (vec![temporary.clone()], vec![TemporaryName, NeverArrived]),
            (vec![renamed.clone(), temporary.clone()], vec![NeverArrived]),
            (vec![temporary, renamed], vec![TemporaryName, NeverArrived]),
            (vec![uploaded(&env, "/x/a.part")], vec![NeverArrived]),
            (vec![uploaded(&env, "/x/a")], vec![OtherFolder, NeverArrived]),
            (vec![uploaded(&env, "/in/data")], vec![NeverArrived]),
            (vec![event(&env, kept)], vec![Interrupted, NeverArrived]),
        ] {
            assert_eq!(reasons(events), wanted);
        }
    }
}
