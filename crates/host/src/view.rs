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
        let screen = terminal.screen();
        ScreenView {
            rows: terminal.rows(),
            cursor: cell(screen, screen.cursor()),
            keyboard: keyboard(terminal).into(),
            lu: terminal.device_name().map(str::to_owned),
            protocol: protocol(terminal).into(),
            fields: screen.fields().filter_map(|field| field_view(terminal, field)).collect(),
        }
    }
}

/// An area of a screen that is not shown, in one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretArea {
    at: Place,
    length: usize,
}

impl SecretArea {
    pub(crate) fn new(at: Place, length: usize) -> SecretArea {
        SecretArea { at, length }
    }

    /// True if a part of it is in these columns of a row.
    pub(crate) fn meets(&self, row: usize, columns: Range<usize>) -> bool {
        let (begin, end) = (self.at.column, self.at.column + self.length);
        row == self.at.row && begin < columns.end && columns.start < end
    }
}

/// What the model calls secret of an entity that stands.
pub(crate) fn secret_areas(stands: Option<&Entity>) -> Vec<SecretArea> {
    let fields = stands.into_iter().flat_map(|entity| entity.fields.iter());
    let secret = fields.filter(|field| field.value.secret);
    secret.map(|Entry { value, .. }| SecretArea::new(value.at, value.length)).collect()
}

impl ScreenView {
    /// The same, with stars where something secret is shown.
    pub(crate) fn without(mut self, areas: &[SecretArea], words: &[&str]) -> ScreenView {
        let stars = |length: usize| "*".repeat(length);
        for SecretArea { at, length } in areas {
            if let Some(row) = at.row.checked_sub(1).and_then(|row| self.rows.get_mut(row)) {
                let area = at.column.saturating_sub(1)..at.column.saturating_sub(1) + length;
                let shown = row.chars().enumerate();
                let masked = shown.map(|(at, letter)| match letter {
                    ' ' => ' ',
                    _ if area.contains(&at) => '*',
                    letter => letter,
                });
                *row = masked.collect();
            }
        }
        let is_secret = |field: &FieldView| {
            let CellView { row, column } = field.begins;
            areas.iter().any(|area| area.meets(row, column..column + field.length))
        };
        for field in &mut self.fields {
            if is_secret(field) {
                field.text = stars(field.text.chars().count());
            }
        }
        let fields = self.fields.iter_mut().map(|field| &mut field.text);
        for text in self.rows.iter_mut().chain(fields) {
            *text = masked(text, words);
        }
        self
    }
}

/// A text with stars in place of each of these words, in upper or lower case: applications show
/// much of what is typed in the other one. A part of a word between others is masked with it.
pub(crate) fn masked(text: &str, words: &[&str]) -> String {
    let occurs = |word: &&str| {
        let mut windows = text.as_bytes().windows(word.len().max(1));
        windows.any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
    };
    if !words.iter().any(occurs) {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let mut shown = letters.clone();
    for word in words.iter().filter(|word| !word.trim().is_empty()) {
        let word: Vec<char> = word.chars().collect();
        let same = |window: &[char]| {
            window.iter().zip(&word).all(|(one, other)| one.eq_ignore_ascii_case(other))
        };
        for (at, _) in letters.windows(word.len()).enumerate().filter(|(_, it)| same(it)) {
            shown.iter_mut().skip(at).take(word.len()).for_each(|letter| *letter = '*');
        }
    }
    shown.into_iter().collect()
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

fn field_view(terminal: &Terminal, field: usize) -> Option<FieldView> {
    let screen = terminal.screen();
    let attribute = screen.attribute(field)?;
    let length = screen.positions(field).count();
    // Two attributes side by side have nothing between them.
    let first = screen.positions(field).next()?;
    let (upto, page) = ((first + length).min(screen.cells()), terminal.page());
    // A field at the end of the screen goes on at its top.
    let on_top = 0..first + length - upto;
    let shown = text::characters(screen, first..upto, page);
    let shown: String = shown.chain(text::characters(screen, on_top, page)).collect();
    Some(FieldView {
        begins: cell(screen, first),
        length,
        protected: attribute.is_protected(),
        hidden: attribute.is_hidden(),
        modified: attribute.is_modified(),
        text: shown.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_words_are_masked_in_any_case() {
        let words = ["Secret", "ETA", " "];
        assert_eq!(masked("x SECRETARY secret, rest", &words), "x *******RY ******, rest");
        assert_eq!(masked("é secre t", &words), "é secre t");
    }
}
