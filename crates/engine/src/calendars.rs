//! The calendars of a site, for what names them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use entrepot_db::{Db, DbError};
use entrepot_nouns::explanation::ExplainedSite;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{Calendar, FieldError, Name, Policy, SiteId, Timestamp};
use jiff::civil::Date;

/// The calendars that rules of a site may name.
#[derive(Debug)]
pub(crate) enum Calendars {
    /// By the names of the policies that have them.
    Stored(HashMap<Name, NamedCalendar>),
    /// In a test of a rule: the days of these are all that anything asks for, and no days are those
    /// of any other.
    Tested(BTreeSet<Name>),
}

impl Default for Calendars {
    fn default() -> Calendars {
        Calendars::Stored(HashMap::new())
    }
}

/// What rules need to know of their site.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSite {
    pub(crate) name: String,
    pub(crate) calendars: Arc<Calendars>,
}

impl From<&ExplainedSite> for RuleSite {
    fn from(site: &ExplainedSite) -> RuleSite {
        let named = site.calendars.iter().map(|(name, calendar)| {
            let calendar = Arc::new(calendar.clone());
            (name.clone(), NamedCalendar { calendar, since: Timestamp::default() })
        });
        let calendars = Arc::new(Calendars::Stored(named.collect()));
        RuleSite { name: site.name.to_string(), calendars }
    }
}

/// A calendar that a rule names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedCalendar {
    pub(crate) calendar: Arc<Calendar>,
    /// It is as it is at least since then: its policy was changed.
    pub(crate) since: Timestamp,
}

impl Calendars {
    pub(crate) async fn of_site(db: &Db, site: SiteId) -> Result<Calendars, DbError> {
        Ok(Calendars::of(db.list::<Policy>(site).await?))
    }

    pub(crate) fn of(policies: Vec<Stored<Policy>>) -> Calendars {
        let found = policies.into_iter().filter_map(|Stored { noun, changed_at, .. }| {
            let calendar = Arc::new(noun.calendar?);
            Some((noun.name, NamedCalendar { calendar, since: changed_at }))
        });
        Calendars::Stored(found.collect())
    }

    /// The one that `field` of a rule names, if it names one.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn named(
        &self,
        name: Option<&Name>,
        field: &str,
    ) -> Result<Option<NamedCalendar>, FieldError> {
        let Some(name) = name else { return Ok(None) };
        let found = match self {
            Calendars::Stored(named) => named.get(name).cloned(),
            Calendars::Tested(_) => None,
        };
        found.ok_or_else(|| FieldError::new(field, none(name))).map(Some)
    }

    /// Whether a day is one of the calendar of this name.
    ///
    /// # Errors
    /// There is no such calendar.
    pub(crate) fn has(&self, name: &str, day: Date) -> Result<bool, String> {
        let name: Name = name.parse().map_err(|_| none(name))?;
        match self {
            Calendars::Tested(names) => Ok(names.contains(&name)),
            Calendars::Stored(named) => {
                let found = named.get(&name).ok_or_else(|| none(&name))?;
                Ok(found.calendar.has(day))
            }
        }
    }
}

fn none(name: impl std::fmt::Display) -> String {
    format!("policy '{name}' has no calendar")
}
