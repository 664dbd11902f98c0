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
    let Recorded { number, part, opened_at, failures, dropped, secrets, page, .. } = recorded;
    let screens = Screens { model, page, columns: 80, areas: Vec::new(), secrets };
    let of = OfSession {
        model: model.model.clone(),
        session: number,
        part,
        opened_at,
        failures,
        dropped,
    };
    let shown = Vec::from(recorded.screens);
    let mut rest = shown.as_slice();
    let messages = recorded.messages.iter().map(|message| {
        let (shown, behind) = rest.split_at(message.event.shown_bytes().min(rest.len()));
        rest = behind;
        RenderedFrom { message, shown }
    });
    let messages: Vec<RenderedFrom<'_>> = messages.collect();
    DebugFile::new(of, screens.all(&messages))
}

/// A message, and the bytes of its screen if it is one.
struct RenderedFrom<'r> {
    message: &'r RawMessage,
    shown: &'r [u8],
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
    fn all(mut self, messages: &[RenderedFrom<'_>]) -> Vec<DebugMessage> {
        // What was typed late is secret in what was shown before, too.
        let mut stands = None;
        for RenderedFrom { message, shown } in messages {
            match &message.event {
                RawEvent::Screen { sketch, .. } => stands = Some((sketch, *shown)),
                RawEvent::Key { typed, .. } if !typed.is_empty() => {
                    if let Some((sketch, shown)) = stands.take() {
                        self.stand(sketch, shown);
                    }
                    self.learn(typed);
                }
                _ => {}
            }
        }
        let rendered = messages.iter().map(|RenderedFrom { message, shown }| {
            let event = self.event(&message.event, shown);
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

    fn event(&mut self, event: &RawEvent, shown: &[u8]) -> DebugEvent {
        match event {
            RawEvent::Screen { sketch, keyboard, protocol, lu } => {
                let Stand { terminal, entity } = self.stand(sketch, shown);
                let screen = ScreenView {
                    keyboard: (*keyboard).into(),
                    protocol: (*protocol).into(),
                    lu: lu.as_deref().map(str::to_owned),
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
    fn stand(&mut self, sketch: &Sketch, shown: &[u8]) -> Stand {
        let terminal = Terminal::showing(sketch.screen(shown), Arc::clone(&self.page));
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
