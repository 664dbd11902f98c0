//! The screen as people see it.

use std::ops::Range;

use crate::code_page::CodePage;
use crate::codes::format;
use crate::model::Size;
use crate::screen::{APL, FieldAttribute, GRAPHIC_ESCAPE, Screen};

/// What positions show, one after another: fields that are hidden, nulls and attributes are blanks.
pub fn characters<'s>(
    screen: &'s Screen,
    positions: Range<usize>,
    page: &'s CodePage,
) -> impl Iterator<Item = char> + 's {
    let mut ruling = screen.ruling(positions.start);
    positions.map(move |at| cell(screen, at, page, &mut ruling))
}

fn shown(screen: &Screen, at: usize, page: &CodePage) -> char {
    let code = screen.code(at);
    match screen.style(at).character_set {
        GRAPHIC_ESCAPE | APL => crate::graphics::character(code),
        _ => plain(code, page),
    }
}

fn plain(code: u8, page: &CodePage) -> char {
    match code {
        format::DUP => '*',
        format::FIELD_MARK => ';',
        code => page.character(code).unwrap_or(' '),
    }
}

/// The rows of the screen, each as wide as the screen is.
pub fn rows(screen: &Screen, page: &CodePage) -> Vec<String> {
    let Size { rows, columns } = screen.size();
    let mut all = characters(screen, 0..screen.cells(), page);
    (0..rows).map(|_| all.by_ref().take(columns).collect()).collect()
}

fn cell(screen: &Screen, at: usize, page: &CodePage, ruling: &mut FieldAttribute) -> char {
    if let Some(field) = screen.attribute(at) {
        *ruling = field;
        return ' ';
    }
    if ruling.is_hidden() { ' ' } else { shown(screen, at, page) }
}
