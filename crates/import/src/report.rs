//! What an import says of each setting, user, key and folder that it found.

use entrepot_nouns::Name;
use serde::Serialize;

/// Whether something was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is, or will be, as it was.
    Taken,
    /// A run before took it.
    AlreadyThere,
    /// Nothing to take: it has no meaning here, or is always so.
    NotNeeded,
    /// An administrator must decide: it is not, or not wholly, as it was.
    NotTaken,
}

/// One row of the report: a setting, a user, a key or a folder, and the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportLine {
    /// File and line, or the user.
    pub place: String,
    /// The setting, key, folder or noun that is found there.
    pub what: String,
    /// Whether it was taken over.
    pub outcome: Outcome,
    /// How, or why not and what to do.
    pub why: String,
    /// The user that it is about.
    #[serde(skip)]
    pub(crate) about: Option<Name>,
}

/// The lines, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) lines: Vec<ReportLine>,
    /// The user that is being looked at.
    pub(crate) about: Option<Name>,
}

impl Report {
    pub(crate) fn add(
        &mut self,
        outcome: Outcome,
        place: impl Into<String>,
        what: impl Into<String>,
        why: impl Into<String>,
    ) {
        let (place, what, why) = (place.into(), what.into(), why.into());
        let about = self.about.clone();
        self.lines.push(ReportLine { place, what, outcome, why, about });
    }

    pub(crate) fn taken(
        &mut self,
        place: impl Into<String>,
        what: impl Into<String>,
        why: impl Into<String>,
    ) {
        self.add(Outcome::Taken, place, what, why);
    }

    pub(crate) fn refused(
        &mut self,
        place: impl Into<String>,
        what: impl Into<String>,
        why: impl Into<String>,
    ) {
        self.add(Outcome::NotTaken, place, what, why);
    }
}
