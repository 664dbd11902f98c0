//! Which entity of a model stands on a screen.

use entrepot_tn3270_proto::{Screen, Terminal};

use super::document::{Entity, Model};
use super::entries::Entry;
use super::items::Pattern;
use crate::action::Place;
use crate::shown::{position, shows, text_at};

impl Model {
    /// The entity that stands: the first one whose tests all hold.
    pub(crate) fn standing(&self, terminal: &Terminal) -> Option<&Entry<Entity>> {
        let entities = &self.entities.0;
        let tests = || entities.iter().map(|entry| entry.value.is.as_slice());
        let holds = |at: usize| {
            let is = entities.get(at).map_or(&[][..], |entry| &entry.value.is);
            !is.is_empty() && is.iter().all(|test| test.holds(terminal))
        };
        self.index.first(tests, terminal, holds).and_then(|at| entities.get(at))
    }
}

impl Pattern {
    pub(crate) fn holds(&self, terminal: &Terminal) -> bool {
        let screen = terminal.screen();
        match self {
            Pattern::Text { text, at } => shows(terminal, Some(*at), text),
            Pattern::Field { at, hidden, protected } => {
                let Some(at) = within(screen, *at) else { return false };
                let field = screen.ruling(at);
                let is = |wanted: &Option<bool>, found| wanted.is_none_or(|it| it == found);
                screen.is_formatted()
                    && is(hidden, field.is_hidden())
                    && is(protected, field.is_protected())
            }
            Pattern::Match(matching) => match matching.at {
                Some(at) => matching.fits(&text_at(terminal, at, row_rest(screen, at))),
                None => terminal.rows().iter().any(|row| matching.fits(row)),
            },
            Pattern::Cursor(at) => within(screen, *at) == Some(screen.cursor()),
            Pattern::Not(test) => !test.holds(terminal),
            Pattern::Any(tests) => tests.iter().any(|test| test.holds(terminal)),
        }
    }
}

/// So many positions are left in the row of a place.
fn row_rest(screen: &Screen, at: Place) -> usize {
    (screen.size().columns + 1).saturating_sub(at.column)
}

fn within(screen: &Screen, at: Place) -> Option<usize> {
    let columns = screen.size().columns;
    let found = position(screen, at);
    (at.column <= columns && found < screen.cells()).then_some(found)
}
