//! Which entity of a model stands on a screen.

use entrepot_tn3270_proto::{Screen, Terminal};

use super::document::{Entity, Model};
use super::entries::Entry;
use super::items::Pattern;
use crate::action::Place;
use crate::shown::{position, shows};

impl Model {
    /// The entity that stands: the first one whose tests all hold.
    pub(crate) fn standing(&self, terminal: &Terminal) -> Option<&Entry<Entity>> {
        let holds = |entity: &Entity| entity.is.iter().all(|test| test.holds(terminal));
        self.entities.iter().find(|entry| !entry.value.is.is_empty() && holds(&entry.value))
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
            Pattern::Cursor(at) => within(screen, *at) == Some(screen.cursor()),
            Pattern::Not(test) => !test.holds(terminal),
            Pattern::Any(tests) => tests.iter().any(|test| test.holds(terminal)),
        }
    }
}

fn within(screen: &Screen, at: Place) -> Option<usize> {
    let columns = screen.size().columns;
    let found = position(screen, at);
    (at.column <= columns && found < screen.cells()).then_some(found)
}
