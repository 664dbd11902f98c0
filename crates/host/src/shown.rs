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
    let screen = terminal.screen();
    let begin = position(screen, at);
    wanted.chars().enumerate().all(|(number, letter)| {
        let at = begin.saturating_add(number);
        at < screen.cells() && text::character(screen, at, terminal.page()) == letter
    })
}

/// So many letters from a place on, without blanks at the end.
pub(crate) fn text_at(terminal: &Terminal, at: Place, length: usize) -> String {
    let screen = terminal.screen();
    let begin = position(screen, at);
    let end = begin.saturating_add(length).min(screen.cells());
    let shown: String =
        (begin..end).map(|at| text::character(screen, at, terminal.page())).collect();
    shown.trim_end().to_owned()
}
