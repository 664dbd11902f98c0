//! `host debug`: what was recorded of a session with a host, step by step.

use std::io;

use entrepot_host::{CellView, DebugEvent, DebugFile, DebugHeader, DebugMessage};
use serde::Serialize;

use super::terminal::status;
use crate::args::HostDebugArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Shows a file, or what is asked for of it.
pub(super) fn run(args: &HostDebugArgs, output: Output) -> Result<(), Failure> {
    let path = args.file.display();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| Failure::file(format!("cannot read '{path}': {error}")))?;
    let file = DebugFile::read(&text).map_err(|error| Failure::file(format!("{path}: {error}")))?;
    let steps = Steps { file, output };
    match args.step {
        Some(number) => steps.show(number),
        None if args.walk => steps.walk(io::stdin().lock()),
        None => steps.list(),
    }
}

/// The messages of a file, and how they are shown.
struct Steps {
    file: DebugFile,
    output: Output,
}

/// A message with its number, and the screen that stood then.
#[derive(Serialize)]
struct Step<'f> {
    number: usize,
    #[serde(flatten)]
    message: &'f DebugMessage,
    /// Where the message is no screen: the number of the one that stood.
    #[serde(skip_serializing_if = "Option::is_none")]
    stood: Option<usize>,
}

impl Steps {
    fn messages(&self) -> impl Iterator<Item = (usize, &DebugMessage)> {
        self.file.messages.iter().enumerate().map(|(at, message)| (at + 1, message))
    }

    fn last(&self) -> usize {
        self.file.messages.len()
    }

    fn list(&self) -> Result<(), Failure> {
        self.output.value(&self.file, || {
            println!("{}", heading(&self.file.header));
            let row = |(number, message): (usize, &DebugMessage)| {
                let (event, what) = told(message);
                vec![number.to_string(), message.at.to_string(), event.to_owned(), what]
            };
            let rows: Vec<Vec<String>> = self.messages().map(row).collect();
            table::print(&["step", "at", "event", "what"], &rows);
        })
    }

    fn show(&self, number: usize) -> Result<(), Failure> {
        let message = number.checked_sub(1).and_then(|at| self.file.messages.get(at));
        let message = message.ok_or_else(|| {
            Failure::usage(format!("there are steps 1 to {}, and no {number}", self.last()))
        })?;
        let is_screen = |message: &DebugMessage| matches!(message.event, DebugEvent::Screen { .. });
        let upto = self.messages().take(number);
        let stood = upto.filter(|(_, message)| is_screen(message)).last();
        let stood_at = stood.map(|(stood, _)| stood).filter(|stood| *stood != number);
        self.output.value(&Step { number, message, stood: stood_at }, || {
            let (event, what) = told(message);
            let place = format!("step {number} of {}, {}: {event}", self.last(), message.at);
            println!("== {}", table::printable(&format!("{place} {what}")));
            if let Some((_, DebugMessage { event: DebugEvent::Screen { screen, .. }, .. })) = stood
            {
                for row in &screen.rows {
                    println!("{}", table::printable(row));
                }
                println!("-- {}", status(screen));
            }
        })
    }

    /// Goes where the lines say; an empty one goes on.
    fn walk(&self, lines: impl io::BufRead) -> Result<(), Failure> {
        let mut at = 1;
        if self.last() == 0 {
            return self.list();
        }
        self.show(at)?;
        for line in lines.lines() {
            let line = line.map_err(|error| Failure::file(format!("standard input: {error}")))?;
            let is_failure =
                |message: &DebugMessage| matches!(message.event, DebugEvent::Failed { .. });
            let wanted = match line.trim() {
                "" | "n" | "next" => Some(at + 1),
                "p" | "prev" => at.checked_sub(1),
                "e" | "error" => {
                    let mut later = self.messages().skip(at);
                    later.find(|(_, message)| is_failure(message)).map(|(at, _)| at)
                }
                "q" | "quit" => return Ok(()),
                other => Some(other.parse().map_err(|_| {
                    Failure::usage(format!(
                        "'{other}' is not next, prev, error, quit or the number of a step"
                    ))
                })?),
            };
            match wanted.filter(|wanted| (1..=self.last()).contains(wanted)) {
                Some(wanted) => {
                    at = wanted;
                    self.show(at)?;
                }
                None => eprintln!("there is none: step {at} of {}", self.last()),
            }
        }
        Ok(())
    }
}

fn heading(header: &DebugHeader) -> String {
    let DebugHeader { model, session, part, opened_at, failures, dropped, .. } = header;
    let before = if *dropped == 0 { String::new() } else { format!(", {dropped} before these") };
    table::printable(&format!(
        "session {session} of '{model}' since {opened_at}, part {part}: {failures} failed{before}"
    ))
}

/// What a message is, and what it says.
fn told(message: &DebugMessage) -> (&'static str, String) {
    match &message.event {
        DebugEvent::Screen { entity, screen } => {
            let entity = entity.as_deref().unwrap_or("no entity");
            ("screen", format!("{entity}, keyboard {}", screen.keyboard))
        }
        DebugEvent::Key { key, cursor, typed } => {
            let place = |CellView { row, column }: &CellView| format!("{row},{column}");
            let typed = typed.iter().map(|it| format!(" [{} {}]", place(&it.begins), it.text));
            ("key", format!("{key} at {}{}", place(cursor), typed.collect::<String>()))
        }
        DebugEvent::Begun { work } => ("begun", work.clone()),
        DebugEvent::Ended { work, refused: None } => ("ended", work.clone()),
        DebugEvent::Ended { work, refused: Some(why) } => {
            ("ended", format!("{work}; the application refused: {why}"))
        }
        DebugEvent::Failed { work, code, error } => {
            let code = code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
            ("failed", format!("{work}: {code}{error}"))
        }
    }
}
