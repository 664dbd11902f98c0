//! A screen as people and scripts see it. What is in hidden fields is in neither.

use entrepot_tn3270_proto::client::Mode;
use entrepot_tn3270_proto::{Screen, Terminal, text};
use schemars::JsonSchema;
use serde::Serialize;

use crate::action::Place;

/// The screen at a moment. Rows and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScreenView {
    /// Its rows from the top, each as wide as the screen is.
    pub rows: Vec<String>,
    /// Where the cursor is.
    pub cursor: CellView,
    /// `free`, or in one word why no key is taken: `waiting`, `system`, `protected` and so on.
    pub keyboard: &'static str,
    /// The name of the logical unit that the host gave, with TN3270E.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lu: Option<String>,
    /// What is spoken: `nvt`, `tn3270` or `tn3270e`.
    pub protocol: &'static str,
    /// Its fields, in the order of their begins; none on a screen without fields.
    pub fields: Vec<FieldView>,
}

/// A position of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CellView {
    /// From 1 at the top.
    pub row: usize,
    /// From 1 at the left.
    pub column: usize,
}

/// A field of a screen, behind its attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
            keyboard: keyboard(terminal),
            lu: terminal.device_name().map(str::to_owned),
            protocol: match terminal.mode() {
                Mode::Nvt => "nvt",
                Mode::Plain => "tn3270",
                Mode::Negotiating | Mode::Enhanced => "tn3270e",
            },
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
            areas.iter().any(|area| {
                let CellView { row, column } = field.begins;
                row == area.at.row && (column..column + field.length).contains(&area.at.column)
            })
        };
        for field in &mut self.fields {
            if is_secret(field) {
                field.text = stars(field.text.chars().count());
            }
        }
        for word in words.iter().filter(|word| !word.trim().is_empty()) {
            let stars = stars(word.chars().count());
            let fields = self.fields.iter_mut().map(|field| &mut field.text);
            for text in self.rows.iter_mut().chain(fields) {
                if text.contains(word) {
                    *text = text.replace(word, &stars);
                }
            }
        }
        self
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
    let positions: Vec<usize> = screen.positions(field).collect();
    // Two attributes side by side have nothing between them.
    let first = *positions.first()?;
    let shown = positions.iter().map(|at| text::character(screen, *at, terminal.page()));
    let shown: String = shown.collect();
    Some(FieldView {
        begins: cell(screen, first),
        length: positions.len(),
        protected: attribute.is_protected(),
        hidden: attribute.is_hidden(),
        modified: attribute.is_modified(),
        text: shown.trim_end().to_owned(),
    })
}
