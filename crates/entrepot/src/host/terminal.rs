//! `host terminal`: a terminal on a mainframe host, worked step by step.

use std::time::Duration;

use entrepot_host::{Action, Device, HostError, HostOptions, HostSession, ScreenView};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::given::{code_page, trust};
use crate::args::HostTerminalArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::table;

/// Connects, and does what was asked for.
pub(super) async fn run(args: HostTerminalArgs, output: Output) -> Result<(), Failure> {
    let actions = args.actions.iter().map(|line| action(line)).collect::<Result<Vec<_>, _>>()?;
    let session = HostSession::open(options(&args)?).await.map_err(failed)?;
    let mut worked = Worked { session, output };
    if actions.is_empty() {
        return worked.lines().await;
    }
    for action in &actions {
        worked.does(action).await?;
    }
    match actions.last() {
        Some(Action::Screen | Action::Fields) => Ok(()),
        _ => worked.shows_screen(),
    }
}

fn options(args: &HostTerminalArgs) -> Result<HostOptions, Failure> {
    let trust = trust(&args.trust)?;
    let device = Device::named(&args.terminal).ok_or_else(|| {
        let text = "is no terminal: write it as in IBM-3278-2-E or IBM-3279-4-E";
        Failure::usage(format!("'{}' {text}", args.terminal))
    })?;
    let page = code_page(&args.code_page)?;
    let patience = Duration::from_secs(u64::from(args.patience));
    let (address, lus) = (args.host.clone(), args.lus.clone());
    Ok(HostOptions { address, device, lus, page, trust, patience })
}

fn action(line: &str) -> Result<Action, Failure> {
    line.parse().map_err(|error: entrepot_host::ActionError| Failure::usage(error.to_string()))
}

fn failed(error: HostError) -> Failure {
    let exit = match error {
        HostError::Trust(_) | HostError::NoSuchCharacter(_) => Exit::Invalid,
        HostError::Locked(_) | HostError::Late { .. } => Exit::Failed,
        _ => Exit::Unavailable,
    };
    Failure::new(error.code(), exit, error.to_string())
}

/// A session, and how it is shown.
struct Worked {
    session: HostSession,
    output: Output,
}

impl Worked {
    /// Does what the lines of standard input say, and shows the screen behind each that may have
    /// changed it. An action that the host or the keyboard refuses ends it only for a script: a
    /// person reads why, and goes on.
    async fn lines(&mut self) -> Result<(), Failure> {
        self.shows_screen()?;
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let is_person = std::io::IsTerminal::is_terminal(&std::io::stdin());
        let wrong = |error: std::io::Error| Failure::file(format!("standard input: {error}"));
        while let Some(line) = lines.next_line().await.map_err(wrong)? {
            let line = line.trim_end_matches('\r');
            if line.trim() == "quit" {
                return Ok(());
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let done = match action(line) {
                Ok(action) => match self.does(&action).await {
                    Ok(()) if matches!(action, Action::Press(_) | Action::Wait { .. }) => {
                        self.shows_screen()
                    }
                    done => done,
                },
                Err(error) => Err(error),
            };
            match done {
                Err(error) if is_person && error.exit != Exit::Unavailable => {
                    eprintln!("error: {}", table::printable_lines(&error.to_string()));
                }
                done => done?,
            }
        }
        Ok(())
    }

    async fn does(&mut self, action: &Action) -> Result<(), Failure> {
        let session = &mut self.session;
        match action {
            Action::Type(text) => session.type_text(text).await.map_err(failed),
            Action::Secret(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| Failure::file(format!("'{path}': {error}")))?;
                let secret = text.lines().next().unwrap_or_default();
                session.type_text(secret).await.map_err(failed)
            }
            Action::Press(key) => session.press(*key).await.map_err(failed),
            Action::Move(place) => {
                session.move_cursor(*place);
                Ok(())
            }
            Action::Wait { at, text } => session.wait_for(*at, text).await.map_err(failed),
            Action::Screen => self.shows_screen(),
            Action::Fields => self.shows_fields(),
        }
    }

    fn shows_screen(&self) -> Result<(), Failure> {
        let screen = self.session.screen();
        self.output.value(&screen, || {
            for row in &screen.rows {
                println!("{}", table::printable(row.trim_end()));
            }
            println!("-- {}", status(&screen));
        })
    }

    fn shows_fields(&self) -> Result<(), Failure> {
        let screen = self.session.screen();
        self.output.rows(&screen.fields, |fields| {
            let row = |field: &entrepot_host::FieldView| {
                let kinds = [
                    (field.protected, "protected"),
                    (field.hidden, "hidden"),
                    (field.modified, "modified"),
                ];
                let kinds = kinds.into_iter().filter(|(is, _)| *is).map(|(_, kind)| kind);
                vec![
                    format!("{},{}", field.begins.row, field.begins.column),
                    field.length.to_string(),
                    kinds.collect::<Vec<_>>().join(" "),
                    field.text.clone(),
                ]
            };
            let rows: Vec<Vec<String>> = fields.iter().map(row).collect();
            table::print(&["at", "length", "kind", "text"], &rows);
        })
    }
}

pub(super) fn status(screen: &ScreenView) -> String {
    let columns = screen.rows.first().map_or(0, |row| row.chars().count());
    let lu = screen.lu.as_ref().map(|lu| format!(", LU {lu}")).unwrap_or_default();
    let text = format!(
        "{} x {columns}, cursor {},{}, keyboard {}, {}{lu}",
        screen.rows.len(),
        screen.cursor.row,
        screen.cursor.column,
        screen.keyboard,
        screen.protocol,
    );
    table::printable(&text)
}
