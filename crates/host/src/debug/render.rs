//! What was recorded, as it is written: screens as people see them, and nothing secret.

use std::collections::BTreeSet;
use std::sync::Arc;

use entrepot_tn3270_proto::{CodePage, Sketch, Terminal};

use super::file::{DebugEvent, DebugFile, DebugMessage, OfSession, TypedView};
use super::record::{FieldDisplay, RawEvent, RawMessage, RawTyped, Recorded};
use crate::model::Model;
use crate::view::{CellView, ScreenView, SecretArea, masked, secret_areas};

/// The file of what was recorded of a session.
pub(super) fn rendered(model: &Model, recorded: Recorded) -> DebugFile {
    let Recorded { number, part, opened_at, failures, dropped, messages, secrets, page } = recorded;
    let screens = Screens { model, page, columns: 80, areas: Vec::new(), secrets };
    let of = OfSession {
        model: model.model.clone(),
        session: number,
        part,
        opened_at,
        failures,
        dropped,
    };
    DebugFile::new(of, screens.all(messages.iter()))
}

/// The screen that stands, and what is secret.
struct Screens<'m> {
    model: &'m Model,
    page: Arc<CodePage>,
    columns: usize,
    areas: Vec<SecretArea>,
    secrets: BTreeSet<String>,
}

/// A screen that stands.
struct Stand {
    terminal: Terminal,
    entity: Option<String>,
}

impl Screens<'_> {
    fn all<'r>(
        mut self,
        messages: impl Iterator<Item = &'r RawMessage> + Clone,
    ) -> Vec<DebugMessage> {
        // What was typed late is secret in what was shown before, too.
        let mut shown = None;
        for message in messages.clone() {
            match &message.event {
                RawEvent::Screen { sketch, .. } => shown = Some(sketch),
                RawEvent::Key { typed, .. } if !typed.is_empty() => {
                    if let Some(sketch) = shown.take() {
                        self.stand(sketch);
                    }
                    self.learn(typed);
                }
                _ => {}
            }
        }
        let rendered = messages.map(|message| {
            let event = self.event(&message.event);
            DebugMessage { at: message.at, event }
        });
        rendered.collect()
    }

    /// Keeps what is typed where the screen that stands has something secret.
    fn learn(&mut self, typed: &[RawTyped]) {
        let secret = typed.iter().filter(|field| self.is_secret(field));
        let texts: Vec<String> = secret.map(|it| it.text.trim().to_owned()).collect();
        self.secrets.extend(texts.into_iter().filter(|text| !text.is_empty()));
    }

    fn event(&mut self, event: &RawEvent) -> DebugEvent {
        match event {
            RawEvent::Screen { sketch, keyboard, protocol, lu } => {
                let Stand { terminal, entity } = self.stand(sketch);
                let screen = ScreenView {
                    keyboard: (*keyboard).into(),
                    protocol: (*protocol).into(),
                    lu: lu.clone(),
                    ..self.shown(&terminal)
                };
                DebugEvent::Screen { entity, screen }
            }
            RawEvent::Key { key, cursor, typed } => DebugEvent::Key {
                key: key.host_name(),
                cursor: self.cell(*cursor),
                typed: typed.iter().map(|field| self.typed(field)).collect(),
            },
            RawEvent::Begun(work) => DebugEvent::Begun { work: self.masked(work) },
            RawEvent::Ended { work, refused } => DebugEvent::Ended {
                work: self.masked(work),
                refused: refused.as_ref().map(|text| self.masked(text)),
            },
            RawEvent::Failed { work, code, error } => DebugEvent::Failed {
                work: self.masked(work),
                code: code.map(str::to_owned),
                error: self.masked(error),
            },
        }
    }

    /// Without what is secret, and without blanks at the ends of rows.
    fn shown(&self, terminal: &Terminal) -> ScreenView {
        let mut screen = ScreenView::without(terminal, &self.areas, &self.words());
        for row in &mut screen.rows {
            row.truncate(row.trim_end().len());
        }
        screen
    }

    /// From now on this screen stands.
    fn stand(&mut self, sketch: &Sketch) -> Stand {
        let terminal = Terminal::showing(sketch.screen(), Arc::clone(&self.page));
        let stands = self.model.standing(&terminal);
        self.columns = terminal.screen().size().columns;
        self.areas = secret_areas(stands.map(|entity| &entity.value));
        let entity = stands.map(|entity| entity.key.name.clone());
        Stand { terminal, entity }
    }

    fn cell(&self, at: usize) -> CellView {
        CellView { row: at / self.columns + 1, column: at % self.columns + 1 }
    }

    fn is_secret(&self, field: &RawTyped) -> bool {
        let positions = field.at..field.at + field.text.chars().count().max(1);
        field.display == FieldDisplay::Hidden
            || self.areas.iter().any(|area| area.meets(positions.clone(), self.columns))
    }

    fn typed(&self, field: &RawTyped) -> TypedView {
        let text = if self.is_secret(field) {
            "*".repeat(field.text.chars().count())
        } else {
            self.masked(&field.text)
        };
        TypedView { begins: self.cell(field.at), text }
    }

    fn masked(&self, text: &str) -> String {
        masked(text, &self.words())
    }

    fn words(&self) -> Vec<&str> {
        self.secrets.iter().map(String::as_str).collect()
    }
}
