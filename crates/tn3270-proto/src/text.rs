//! The screen as people see it.

use std::ops::Range;

use crate::code_page::CodePage;
use crate::model::Size;
use crate::screen::{APL, FieldAttribute, GRAPHIC_ESCAPE, Screen};

/// What positions show, one after another: fields that are hidden, nulls and attributes are blanks.
/// Beyond the screen there is nothing.
pub fn characters<'s>(
    screen: &'s Screen,
    positions: Range<usize>,
    page: &'s CodePage,
) -> impl Iterator<Item = char> + 's {
    let mut hidden = screen.ruling(positions.start).is_hidden();
    let (start, has_sets) = (positions.start, screen.may_have_sets());
    screen.cells_of(positions).enumerate().map(move |(number, (code, field))| {
        if field != 0 {
            hidden = FieldAttribute::of(field).is_hidden();
            return ' ';
        }
        if hidden {
            return ' ';
        }
        if has_sets { of_set(screen, start + number, page) } else { page.shown(code) }
    })
}

/// A character that may be of another set than the code page's.
fn of_set(screen: &Screen, at: usize, page: &CodePage) -> char {
    let code = screen.code(at);
    match screen.style(at).character_set {
        GRAPHIC_ESCAPE | APL => crate::graphics::character(code),
        _ => page.shown(code),
    }
}

/// The rows of the screen, each as wide as the screen is.
pub fn rows(screen: &Screen, page: &CodePage) -> Vec<String> {
    let Size { rows, columns } = screen.size();
    let mut all = characters(screen, 0..screen.cells(), page);
    (0..rows).map(|_| all.by_ref().take(columns).collect()).collect()
}
