//! What a screen shows at a place. What is in hidden fields it does not show.

use entrepot_tn3270_proto::{Screen, Terminal, text};

use crate::action::Place;

/// The position of a place; beyond the screen it is one that the screen has not.
pub(crate) fn position(screen: &Screen, at: Place) -> usize {
    let begin = at.row.saturating_sub(1).saturating_mul(screen.size().columns);
    begin.saturating_add(at.column.saturating_sub(1))
}

/// Whether the screen shows a text, at a place or anywhere.
pub(crate) fn shows(terminal: &Terminal, at: Option<Place>, wanted: &str) -> bool {
    let Some(at) = at else {
        return wanted.is_empty() || terminal.rows().iter().any(|row| row.contains(wanted));
    };
    characters_at(terminal, at, wanted.chars().count()).eq(wanted.chars())
}

/// So many letters from a place on, without blanks at the end.
pub(crate) fn text_at(terminal: &Terminal, at: Place, length: usize) -> String {
    let mut shown: String = characters_at(terminal, at, length).collect();
    shown.truncate(shown.trim_end().len());
    shown
}

/// So many letters from a place on, as far as the screen goes.
pub(crate) fn characters_at(
    terminal: &Terminal,
    at: Place,
    length: usize,
) -> impl Iterator<Item = char> {
    let screen = terminal.screen();
    let begin = position(screen, at);
    let end = begin.saturating_add(length).min(screen.cells());
    text::characters(screen, begin..end, terminal.page())
}
