//! The calendars of a site, for what names them.

use std::collections::HashMap;
use std::sync::Arc;

use entrepot_db::{Db, DbError};
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{Calendar, FieldError, Name, Policy, SiteId, Timestamp};

/// By the names of the policies that have them.
#[derive(Debug, Default)]
pub(crate) struct Calendars(HashMap<Name, NamedCalendar>);

/// What rules need to know of their site.
#[derive(Debug)]
pub(crate) struct RuleSite {
    pub(crate) name: String,
    pub(crate) calendars: Calendars,
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
        Calendars(found.collect())
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
        let found = self.0.get(name).cloned();
        let none = || FieldError::new(field, format!("policy '{name}' has no calendar"));
        found.ok_or_else(none).map(Some)
    }
}
