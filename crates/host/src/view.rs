//! A screen as people and scripts see it. What is in hidden fields is in neither.

use std::borrow::Cow;
use std::ops::Range;

use entrepot_tn3270_proto::client::Mode;
use entrepot_tn3270_proto::{Screen, Terminal, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::Place;
use crate::model::{Entity, Entry};

/// The screen at a moment. Rows and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScreenView {
    /// Its rows from the top, each as wide as the screen is.
    pub rows: Vec<String>,
    /// Where the cursor is.
    pub cursor: CellView,
    /// `free`, or in one word why no key is taken: `waiting`, `system`, `protected` and so on.
    pub keyboard: Cow<'static, str>,
    /// The name of the logical unit that the host gave, with TN3270E.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lu: Option<String>,
    /// What is spoken: `nvt`, `tn3270` or `tn3270e`.
    pub protocol: Cow<'static, str>,
    /// Its fields, in the order of their begins; none on a screen without fields.
    pub fields: Vec<FieldView>,
}

/// A position of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellView {
    /// From 1 at the top.
    pub row: usize,
    /// From 1 at the left.
    pub column: usize,
}

/// A field of a screen, behind its attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldView {
    /// Its first position.
    #[serde(flatten)]
    pub begins: CellView,
    /// So many positions.
    pub length: usize,
    /// Nothing can be typed into it.
    pub protected: bool,
    /// What is in it is not shown, and not told here either.
    pub hidden: bool,
    /// It goes back to the host.
    pub modified: bool,
    /// What it shows, without blanks at its end.
    pub text: String,
}

impl ScreenView {
    pub(crate) fn of(terminal: &Terminal) -> ScreenView {
        ScreenView::without(terminal, &[], &[])
    }

    /// The same, with stars where something secret is shown.
    pub(crate) fn without(terminal: &Terminal, areas: &[SecretArea], words: &[&str]) -> ScreenView {
        let screen = terminal.screen();
        let columns = screen.size().columns;
        let shown = text::characters(screen, 0..screen.cells(), terminal.page());
        let mut letters: Vec<char> = shown.collect();
        for area in areas {
            let positions = area.positions(columns);
            let area = letters.iter_mut().skip(positions.start).take(positions.len());
            area.filter(|letter| **letter != ' ').for_each(|letter| *letter = '*');
        }
        mask(&mut letters, words, Ends::Joined);
        let mut fields = field_views(screen, &letters);
        for field in &mut fields {
            let CellView { row, column } = field.begins;
            let begin = (row - 1) * columns + column - 1;
            if areas.iter().any(|area| area.meets(begin..begin + field.length, columns)) {
                field.text = "*".repeat(field.text.chars().count());
            }
        }
        ScreenView {
            rows: letters.chunks(columns).map(|row| row.iter().collect()).collect(),
            cursor: cell(screen, screen.cursor()),
            keyboard: keyboard(terminal).into(),
            lu: terminal.device_name().map(str::to_owned),
            protocol: protocol(terminal).into(),
            fields,
        }
    }
}

/// An area of a screen that is not shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretArea {
    at: Place,
    length: usize,
}

impl SecretArea {
    pub(crate) fn new(at: Place, length: usize) -> SecretArea {
        SecretArea { at, length }
    }

    /// Its positions on a screen with so many columns.
    fn positions(&self, columns: usize) -> Range<usize> {
        let begin = self.at.row.saturating_sub(1) * columns + self.at.column.saturating_sub(1);
        begin..begin + self.length
    }

    /// True if a part of it is at these positions.
    pub(crate) fn meets(&self, others: Range<usize>, columns: usize) -> bool {
        let own = self.positions(columns);
        own.start < others.end && others.start < own.end
    }
}

/// What the model calls secret of an entity that stands.
pub(crate) fn secret_areas(stands: Option<&Entity>) -> Vec<SecretArea> {
    let fields = stands.into_iter().flat_map(|entity| entity.fields.iter());
    let secret = fields.filter(|field| field.value.secret);
    secret.map(|Entry { value, .. }| SecretArea::new(value.at, value.length)).collect()
}

/// A text with stars in place of each of these words, in upper or lower case: applications show
/// much of what is typed in the other one. A part of a word between others is masked with it.
pub(crate) fn masked(text: &str, words: &[&str]) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    mask(&mut letters, words, Ends::Apart);
    letters.into_iter().collect()
}

/// Whether a word can begin at the end of a text and go on at its begin: fields of screens do, and
/// go on in the next row as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Apart,
    Joined,
}

/// The same of letters.
fn mask(letters: &mut [char], words: &[&str], ends: Ends) {
    let mut secret: Vec<Range<usize>> = Vec::new();
    for word in words {
        let word: Vec<char> = word.trim().chars().map(|it| it.to_ascii_lowercase()).collect();
        let Some(first) = word.first() else { continue };
        let upper = first.to_ascii_uppercase();
        let begins = letters.iter().enumerate().filter(|(_, it)| *it == first || **it == upper);
        let found = begins.map(|(at, _)| at..at + word.len()).filter(|range| {
            let begin: &[char] = if ends == Ends::Joined { letters } else { &[] };
            let shown = letters.iter().skip(range.start).chain(begin).take(word.len());
            shown.map(char::to_ascii_lowercase).eq(word.iter().copied())
        });
        secret.extend(found);
    }
    let length = letters.len();
    for at in secret.into_iter().flatten() {
        if let Some(letter) = letters.get_mut(at % length) {
            *letter = '*';
        }
    }
}

/// What is spoken, in one word.
pub(crate) fn protocol(terminal: &Terminal) -> &'static str {
    match terminal.mode() {
        Mode::Nvt => "nvt",
        Mode::Plain => "tn3270",
        Mode::Negotiating | Mode::Enhanced => "tn3270e",
    }
}

pub(crate) fn keyboard(terminal: &Terminal) -> &'static str {
    terminal.lock().map_or("free", entrepot_tn3270_proto::Lock::word)
}

fn cell(screen: &Screen, at: usize) -> CellView {
    let columns = screen.size().columns;
    CellView { row: at / columns + 1, column: at % columns + 1 }
}

/// The fields of a screen that shows these letters.
fn field_views(screen: &Screen, letters: &[char]) -> Vec<FieldView> {
    let begins: Vec<usize> = screen.fields().collect();
    let Some(around) = begins.first().map(|first| first + screen.cells()) else {
        return Vec::new();
    };
    let ends = begins.iter().copied().skip(1).chain([around]);
    let fields = begins.iter().zip(ends).filter_map(|(begin, end)| {
        let attribute = screen.attribute(*begin)?;
        let length = end - begin - 1;
        // Two attributes side by side have nothing between them.
        let first = (length > 0).then(|| screen.after(*begin))?;
        // A field at the end of the screen goes on at its top.
        let here = letters.get(first..).unwrap_or_default();
        let on_top = length.saturating_sub(here.len());
        let here = here.get(..length).unwrap_or(here);
        let on_top = without_blanks(letters.get(..on_top).unwrap_or_default());
        let here = if on_top.is_empty() { without_blanks(here) } else { here };
        Some(FieldView {
            begins: cell(screen, first),
            length,
            protected: attribute.is_protected(),
            hidden: attribute.is_hidden(),
            modified: attribute.is_modified(),
            text: here.iter().chain(on_top).collect(),
        })
    });
    fields.collect()
}

/// Without blanks at the end.
fn without_blanks(letters: &[char]) -> &[char] {
    let end = letters.iter().rposition(|letter| !letter.is_whitespace()).map_or(0, |at| at + 1);
    letters.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::terminal_after;

    #[test]
    fn secret_words_are_masked_in_any_case() {
        let words = ["Secret", "ETA", " "];
        assert_eq!(masked("x SECRETARY secret, rest", &words), "x *******RY ******, rest");
        assert_eq!(masked("é secre t", &words), "é secre t");
    }

    #[test]
    fn secrets_are_masked_across_rows_and_around_the_end_of_a_screen() {
        // A field from the last row on, and one from the first row to the second one.
        let terminal = terminal_after(
            b"\xf5\x40\x11\x00\x0a\x1d\x20\x11\x07\x7a\x1d\x40\xe2\xc5\xc3\xd9\xc5\xe3\
            \x11\x00\x4c\x1d\x40\xd7\xc9\xd5\xd5\xf1",
        );
        let texts = |view: &ScreenView| -> Vec<String> {
            view.fields.iter().map(|field| field.text.clone()).collect()
        };
        let plain = ScreenView::of(&terminal);
        assert_eq!(texts(&plain), ["", "PINN1", "SECRET"]);
        assert!(plain.rows[0].ends_with("PIN") && plain.rows[1].starts_with("N1"));
        let words = ScreenView::without(&terminal, &[], &["secret", "PINN"]);
        assert_eq!(texts(&words), ["", "****1", "******"]);
        assert!(words.rows[0].starts_with("* ") && words.rows[23].ends_with(" *****"));
        assert!(words.rows[0].ends_with(" ***") && words.rows[1].starts_with("*1 "));
        let area = SecretArea::new(Place { row: 1, column: 79 }, 3);
        let areas = ScreenView::without(&terminal, &[area], &[]);
        assert_eq!(texts(&areas), ["", "*****", "SECRET"]);
        assert!(areas.rows[0].ends_with(" P**") && areas.rows[1].starts_with("*1 "));
    }
}
