//! The end of the journal of the last run: the changes and partials in it that have no end.

use std::collections::HashMap;

use entrepot_journal::{Journal, JournalError, RecordKind};
use entrepot_nouns::event::{Event, Fact, FileFact};
use entrepot_nouns::{EventId, TransferId};

use crate::error::StartError;
use crate::limits;
use crate::notes::{Change, Note, Partial};

/// What the journal's end says.
#[derive(Default)]
pub(super) struct JournalTail {
    pub(super) changes: HashMap<EventId, Change>,
    pub(super) partials: HashMap<TransferId, Partial>,
    /// Uploads by id that were published, in their order.
    pub(super) finished: Vec<FinishedNote>,
    /// Uploads under temporary names: place and file.
    pub(super) temporaries: Vec<(Change, FileFact)>,
}

/// An upload by id whose end the journal has.
pub(super) struct FinishedNote {
    /// As it stood before.
    pub(super) note: Partial,
    /// What it came to.
    pub(super) file: FileFact,
}

/// Reads back as much of the journal as holds a whole checkpoint.
pub(super) fn read(journal: &Journal) -> Result<JournalTail, StartError> {
    let last = journal.usage().appended;
    let mut window = limits::RECOVERY_WINDOW;
    loop {
        let after = last.saturating_sub(window);
        match read_after(journal, after) {
            Ok((found, true)) => return Ok(found),
            Ok((found, false)) if after == 0 => return Ok(found),
            Ok((_, false)) => window = window.saturating_mul(4),
            Err(StartError::Journal(JournalError::Gone { first, .. })) => {
                let (found, _) = read_after(journal, first.saturating_sub(1))?;
                return Ok(found);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Folds the records behind `after`. True: a whole checkpoint was among them.
fn read_after(journal: &Journal, after: u64) -> Result<(JournalTail, bool), StartError> {
    let (mut found, mut complete) = (JournalTail::default(), false);
    let mut reader = journal.reader(after);
    loop {
        let batch = reader.read_now(limits::PAGE)?;
        if batch.is_empty() {
            return Ok((found, complete));
        }
        for record in batch {
            let form = || StartError::Form { sequence: record.sequence };
            match record.kind {
                RecordKind::Intent => {
                    let note = serde_json::from_slice(&record.payload).map_err(|_| form())?;
                    complete |= matches!(note, Note::Checkpoint { from } if from > after);
                    found.note(note);
                }
                RecordKind::Event if is_of_files(&record.payload) => {
                    let event = serde_json::from_slice(&record.payload).map_err(|_| form())?;
                    found.event(&event);
                }
                RecordKind::Event => {}
                RecordKind::Closed => {
                    found.closed(&String::from_utf8_lossy(&record.payload));
                }
            }
        }
    }
}

/// Cheap look before an event is parsed: most are not about files.
fn is_of_files(payload: &[u8]) -> bool {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    let kinds =
        [r#""kind":"file."#, r#""kind":"directory."#, r#""kind":"link."#, r#""kind":"mode."#];
    kinds.iter().any(|kind| text.contains(kind))
}

impl JournalTail {
    fn note(&mut self, note: Note) {
        match note {
            Note::Change(change) => {
                self.changes.insert(change.id(), *change);
            }
            Note::Partial(partial) => {
                self.partials.insert(partial.transfer, *partial);
            }
            Note::Checkpoint { .. } => {}
        }
    }

    fn event(&mut self, event: &Event) {
        let change = self.changes.remove(&event.id);
        let arrived = match &event.fact {
            Fact::FileUploaded { file } | Fact::FileRecovered { file } => Some(file),
            Fact::FileHeld { held } => Some(&held.file),
            _ => None,
        };
        if let Some(ended) = crate::book::ended_transfer(&event.fact)
            && let Some(note) = self.partials.remove(&ended)
            && let Some(file) = arrived
            && note.by_id.is_some()
        {
            self.finished.push(FinishedNote { note, file: file.clone() });
        }
        let Some(file) = arrived else { return };
        let is_held = matches!(event.fact, Fact::FileHeld { .. });
        if is_held {
            // It waits for another name since.
            self.temporaries.retain(|(_, known)| known.transfer != file.transfer);
        }
        if let (Some(mut change), true) = (change, file.temporary) {
            if let Fact::FileHeld { held } = &event.fact
                && let Ok(stored) = held.stored.parse()
            {
                change.target = stored;
            }
            self.temporaries.push((change, file.clone()));
        }
    }

    fn closed(&mut self, id: &str) {
        if let Ok(event) = id.parse::<EventId>() {
            self.changes.remove(&event);
        }
        if let Ok(transfer) = id.parse::<TransferId>() {
            self.partials.remove(&transfer);
        }
    }
}
