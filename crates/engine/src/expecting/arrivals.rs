//! Which files count as those that rules expect, and for which window.

use std::collections::HashMap;

use entrepot_db::{Arrival, ArrivalTime};
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{EventId, Expect, Name, Rule, SiteId, Timestamp};
use uuid::Uuid;

use super::windows::Windows;
use crate::calendars::RuleSite;
use crate::ids;
use crate::limits::EXPECT_KEPT;

/// The enabled rules that expect files, by their sites.
#[derive(Default)]
pub(crate) struct Expectations(HashMap<SiteId, Vec<Counting>>);

/// A rule for which files are counted.
struct Counting {
    rule: Uuid,
    terms: Uuid,
    expect: Expect,
    windows: Windows,
}

/// A file that came.
pub(crate) struct CameFile<'a> {
    pub(crate) event: EventId,
    pub(crate) at: Timestamp,
    pub(crate) path: &'a str,
    pub(crate) place: CameTo<'a>,
}

/// Where a file came to.
#[derive(Clone, Copy)]
pub(crate) enum CameTo<'a> {
    /// The view of this account.
    Account(Option<&'a Name>),
    /// An endpoint that a rule brought it to, or fetched it from.
    Endpoint(&'a Name),
}

impl Expectations {
    /// Those of these rules that are enabled and expect files.
    pub(crate) fn of(rules: &[Stored<Rule>], sites: &HashMap<SiteId, RuleSite>) -> Expectations {
        let mut found: HashMap<SiteId, Vec<Counting>> = HashMap::new();
        for rule in rules.iter().filter(|rule| rule.noun.enabled) {
            let Some(expect) = rule.noun.when.expected() else { continue };
            let Some(site) = sites.get(&rule.site) else { continue };
            // That it cannot be used is said by what judges its windows.
            let Ok(windows) = Windows::of(expect, &site.calendars) else { continue };
            let (terms, expect) = (ids::terms(rule.id, expect), expect.clone());
            let counting = Counting { rule: rule.id, terms, expect, windows };
            found.entry(rule.site).or_default().push(counting);
        }
        Expectations(found)
    }

    /// For which windows of which rules of a site a file counts.
    pub(crate) fn arrivals(
        &self,
        site: SiteId,
        file: &CameFile<'_>,
        now: Timestamp,
    ) -> Vec<Arrival> {
        let of_site = self.0.get(&site).map(Vec::as_slice).unwrap_or_default();
        if now.since(file.at) > EXPECT_KEPT {
            return Vec::new();
        }
        let counted = of_site.iter().filter(|counting| counts(&counting.expect, file));
        counted.filter_map(|counting| counting.arrival(file)).collect()
    }
}

/// Whether a file is one of those that are expected.
fn counts(expect: &Expect, file: &CameFile<'_>) -> bool {
    let is_there = match (file.place, &expect.endpoint) {
        (CameTo::Endpoint(endpoint), Some(wanted)) => endpoint == wanted,
        (CameTo::Account(account), None) => {
            let is_wanted = |account| expect.accounts.contains(account);
            expect.accounts.is_empty() || account.is_some_and(is_wanted)
        }
        _ => false,
    };
    // Paths at endpoints have no slash in front.
    let path = file.path.trim_start_matches('/');
    is_there && expect.matches(&format!("/{path}"))
}

impl Counting {
    fn arrival(&self, file: &CameFile<'_>) -> Option<Arrival> {
        let window = self.windows.latest(file.at)?;
        let time = if file.at < window.ends { ArrivalTime::InTime } else { ArrivalTime::Late };
        Some(Arrival {
            event: file.event,
            rule: self.rule,
            terms: self.terms,
            begins: window.begins,
            ends: window.ends,
            time,
        })
    }
}
