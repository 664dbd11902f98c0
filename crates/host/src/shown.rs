//! What a screen shows at a place. What is in hidden fields it does not show.

#[cfg(test)]
use std::sync::Arc;

#[cfg(test)]
use entrepot_tn3270_proto::{CodePage, NumericFields, TerminalOptions, client::ClientOptions};
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

/// A terminal whose host has shown texts at places.
#[cfg(test)]
pub(crate) fn terminal_with(texts: &[(usize, usize, &str)]) -> Terminal {
    let page = CodePage::new(37).unwrap();
    let mut written = vec![0xf5, 0x40];
    for (row, column, text) in texts {
        let at = (row - 1) * 80 + column - 1;
        written.extend([0x11, (at >> 8) as u8, at as u8]);
        written.extend(text.chars().map(|letter| page.code(letter).unwrap()));
    }
    terminal_after(&written)
}

/// A terminal whose host has sent a record.
#[cfg(test)]
pub(crate) fn terminal_after(record: &[u8]) -> Terminal {
    let (client, numeric) = (ClientOptions::default(), NumericFields::default());
    let page = Arc::new(CodePage::new(37).unwrap());
    let mut terminal = Terminal::new(TerminalOptions { client, page, numeric });
    let negotiation = b"\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0\xff\xfd\x19\xff\xfb\x19\
        \xff\xfd\x00\xff\xfb\x00";
    let input = [&negotiation[..], record, b"\xff\xef"].concat();
    let mut input = &input[..];
    while terminal.next(&mut input).is_some() {}
    terminal
}
