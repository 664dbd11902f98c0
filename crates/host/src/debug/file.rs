//! A file of what was recorded of a session: JSON, a header in the first line and a message in each
//! of the others.

use std::fmt;

use entrepot_nouns::Timestamp;
use serde::{Deserialize, Serialize};

use crate::view::{CellView, ScreenView};

/// By what a file is known.
const FORMAT: &str = "entrepot-host-debug";
/// What we write. A file of a later version is refused.
const VERSION: u32 = 1;

/// What was recorded of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugFile {
    /// Whose session it was.
    pub header: DebugHeader,
    /// From the oldest to the newest.
    pub messages: Vec<DebugMessage>,
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugHeader {
    format: String,
    version: u32,
    /// The model of the application.
    pub model: String,
    /// Which session it was, counted since the model was deployed.
    pub session: u64,
    /// A session has several files where one is written at each error.
    pub part: u32,
    /// When the session began.
    pub opened_at: Timestamp,
    /// When the last message came.
    pub ended_at: Timestamp,
    /// Failures among the messages and before them.
    pub failures: u64,
    /// Messages that came before the first one and are not kept any more.
    pub dropped: u64,
}

/// Which session a file is of.
#[derive(Clone, Debug)]
pub(super) struct OfSession {
    pub(super) model: String,
    pub(super) session: u64,
    pub(super) part: u32,
    pub(super) opened_at: Timestamp,
    pub(super) failures: u64,
    pub(super) dropped: u64,
}

/// Something that happened in a session, at its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugMessage {
    /// When it came about.
    pub at: Timestamp,
    /// What came about.
    #[serde(flatten)]
    pub event: DebugEvent,
}

/// What happened in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum DebugEvent {
    /// The host has shown something.
    Screen {
        /// The entity of the model that stood.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entity: Option<String>,
        /// What was shown; rows have no blanks at their end.
        screen: ScreenView,
    },
    /// A key went to the host.
    Key {
        /// Its name, as `entrepot host terminal` takes it.
        key: String,
        /// Where the cursor was.
        cursor: CellView,
        /// The fields that went with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        typed: Vec<TypedView>,
    },
    /// Something was begun.
    Begun {
        /// What it was, such as `call find_loans`.
        work: String,
    },
    /// It came to its end.
    Ended {
        /// What was begun before.
        work: String,
        /// What the application said where it refused, as the model foresees.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// Something failed or was broken off.
    Failed {
        /// What was begun before, or looked at.
        work: String,
        /// The error catalogue's code; none: it was broken off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// What went wrong.
        error: String,
    },
}

/// A field that went to the host with a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedView {
    /// Its first position.
    #[serde(flatten)]
    pub begins: CellView,
    /// What was in it, as stars where it is secret.
    pub text: String,
}

/// A file is none of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct DebugFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: String,
}

impl DebugFile {
    pub(super) fn new(of: OfSession, messages: Vec<DebugMessage>) -> DebugFile {
        let OfSession { model, session, part, opened_at, failures, dropped } = of;
        let ended_at = messages.last().map_or(opened_at, |last| last.at);
        let (format, version) = (FORMAT.to_owned(), VERSION);
        let header = DebugHeader {
            format,
            version,
            model,
            session,
            part,
            opened_at,
            ended_at,
            failures,
            dropped,
        };
        DebugFile { header, messages }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is no such file, or was cut in the midst of a message.
    pub fn read(text: &str) -> Result<DebugFile, DebugFileError> {
        let wrong = |line: usize, problem: String| DebugFileError { line: line + 1, problem };
        let mut lines = text.lines().enumerate();
        let (_, first) = lines.next().unwrap_or_default();
        let header: Option<DebugHeader> = serde_json::from_str(first).ok();
        let header = header
            .filter(|header| header.format == FORMAT)
            .ok_or_else(|| wrong(0, "it is no record of a session with a host".to_owned()))?;
        if header.version > VERSION {
            return Err(wrong(0, format!("a later program wrote it (version {})", header.version)));
        }
        let lines = lines.filter(|(_, line)| !line.trim().is_empty());
        let messages = lines.map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| wrong(number, error.to_string()))
        });
        Ok(DebugFile { header, messages: messages.collect::<Result<_, _>>()? })
    }
}

/// As it is written.
impl fmt::Display for DebugFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Vec::new();
        serde_json::to_writer(&mut line, &self.header).map_err(|_| fmt::Error)?;
        for message in &self.messages {
            line.push(b'\n');
            serde_json::to_writer(&mut line, message).map_err(|_| fmt::Error)?;
            f.write_str(str::from_utf8(&line).map_err(|_| fmt::Error)?)?;
            line.clear();
        }
        line.push(b'\n');
        f.write_str(str::from_utf8(&line).map_err(|_| fmt::Error)?)?;
        Ok(())
    }
}
