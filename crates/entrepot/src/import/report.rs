//! What an import says of each thing that it saw.

use entrepot_nouns::Name;
use serde::Serialize;

use crate::table;

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// It is, or will be, as it was.
    Taken,
    /// A run before took it.
    AlreadyThere,
    /// Nothing to take: it has no meaning here, or is always so.
    NotNeeded,
    /// Somebody must look: it is not, or not wholly, as it was.
    NotTaken,
}

/// One row of the report: a setting, a user, a key or a folder, and the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// File and line, or the user.
    pub(crate) place: String,
    /// What stands there.
    pub(crate) what: String,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// How, or why not and what to do.
    pub(crate) why: String,
    /// The user that it is about.
    #[serde(skip)]
    pub(crate) about: Option<Name>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) lines: Vec<Line>,
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
        self.lines.push(Line { place, what, outcome, why, about });
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

    /// Prints a table and the meaning of its signs.
    pub(crate) fn print(&self) {
        let rows: Vec<Vec<String>> = self
            .lines
            .iter()
            .map(|line| {
                let sign = match line.outcome {
                    Outcome::Taken => "+",
                    Outcome::AlreadyThere => "=",
                    Outcome::NotNeeded => ".",
                    Outcome::NotTaken => "!",
                };
                vec![sign.to_owned(), line.place.clone(), line.what.clone(), line.why.clone()]
            })
            .collect();
        table::print(&["", "where", "what", "result"], &rows);
        println!();
        println!("+ taken   = already there   . not needed   ! look at this");
    }
}
