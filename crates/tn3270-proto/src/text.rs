//! The screen as people see it.

use crate::code_page::CodePage;
use crate::codes::format;
use crate::screen::{APL, FieldAttribute, GRAPHIC_ESCAPE, Screen};

/// What a position shows: fields that are hidden, nulls and attributes are blanks.
pub fn character(screen: &Screen, at: usize, page: &CodePage) -> char {
    if screen.attribute(at).is_some() || screen.ruling(at).is_hidden() {
        return ' ';
    }
    shown(screen, at, page)
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
    let columns = screen.size().columns;
    let mut rows = Vec::with_capacity(screen.size().rows);
    let mut ruling = screen.ruling(0);
    for row in 0..screen.size().rows {
        let mut text = String::with_capacity(columns);
        for at in row * columns..(row + 1) * columns {
            text.push(cell(screen, at, page, &mut ruling));
        }
        rows.push(text);
    }
    rows
}

fn cell(screen: &Screen, at: usize, page: &CodePage, ruling: &mut FieldAttribute) -> char {
    if let Some(field) = screen.attribute(at) {
        *ruling = field;
        return ' ';
    }
    if ruling.is_hidden() { ' ' } else { shown(screen, at, page) }
}
