//! What somebody does at a terminal, one line each.

use std::str::FromStr;

use entrepot_tn3270_proto::Key;

use crate::limits::ACTION_BYTES;

/// A position, rows and columns from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From the top.
    pub row: usize,
    /// From the left.
    pub column: usize,
}

impl Place {
    /// Reads `5,12`. `None`: it is no place.
    pub fn parse(text: &str) -> Option<Place> {
        let (row, column) = text.split_once(',')?;
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        Some(Place { row: number(row)?, column: number(column)? })
    }
}

/// One step at a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `type TEXT`: types it at the cursor.
    Type(String),
    /// `secret FILE`: types the first line of a file, which no list of processes shows.
    Secret(String),
    /// `key NAME`: presses a key. One that goes to the host waits until that frees the keyboard.
    Press(Key),
    /// `move ROW,COLUMN`: puts the cursor there.
    Move(Place),
    /// `wait`: until the keyboard is free. `wait TEXT`: until the screen shows it anywhere.
    /// `wait ROW,COLUMN TEXT`: until it shows it there.
    Wait {
        /// Anywhere, if unset.
        at: Option<Place>,
        /// Nothing but a free keyboard, if empty.
        text: String,
    },
    /// `screen`: shows its rows and where the cursor is.
    Screen,
    /// `fields`: shows the place, length and kind of each field.
    Fields,
}

/// A line is nothing that can be done at a terminal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{line}' is nothing to do at a terminal: {problem}")]
pub struct ActionError {
    /// The line as it was written, its first 80 letters.
    pub line: String,
    /// What is wrong with it.
    pub problem: String,
}

impl FromStr for Action {
    type Err = ActionError;

    fn from_str(line: &str) -> Result<Action, ActionError> {
        let wrong = |problem: &str| ActionError {
            line: line.chars().take(80).collect(),
            problem: problem.to_owned(),
        };
        if line.len() > ACTION_BYTES {
            return Err(wrong("it is too long"));
        }
        let line = line.trim_start();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "type" => Ok(Action::Type(rest.to_owned())),
            "secret" if rest.trim().is_empty() => Err(wrong("name the file")),
            "secret" => Ok(Action::Secret(rest.trim().to_owned())),
            "key" => {
                let names = "ENTER, CLEAR, PF1 to PF24, PA1 to PA3, TAB, BACKTAB, HOME, RESET and \
                             the like";
                let key = Key::named(rest.trim());
                key.map(Action::Press).ok_or_else(|| wrong(&format!("there are the keys {names}")))
            }
            "move" => {
                let place =
                    Place::parse(rest.trim()).ok_or_else(|| wrong("write it as in 'move 5,12'"));
                place.map(Action::Move)
            }
            "wait" => {
                let (first, behind) = rest.split_once(' ').unwrap_or((rest, ""));
                match Place::parse(first).filter(|_| !behind.is_empty()) {
                    Some(at) => Ok(Action::Wait { at: Some(at), text: behind.to_owned() }),
                    None => Ok(Action::Wait { at: None, text: rest.to_owned() }),
                }
            }
            "screen" if rest.trim().is_empty() => Ok(Action::Screen),
            "fields" if rest.trim().is_empty() => Ok(Action::Fields),
            _ => Err(wrong("there are type, secret, key, move, wait, screen and fields")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entrepot_tn3270_proto::Aid;

    #[test]
    fn lines_are_actions() {
        let wait = |at: Option<(usize, usize)>, text: &str| Action::Wait {
            at: at.map(|(row, column)| Place { row, column }),
            text: text.to_owned(),
        };
        for (line, wanted) in [
            ("type  A B ", Action::Type(" A B ".to_owned())),
            ("secret /run/password", Action::Secret("/run/password".to_owned())),
            ("key pf3", Action::Press(Key::Aid(Aid::Pf(3)))),
            ("move 5,12", Action::Move(Place { row: 5, column: 12 })),
            ("wait", wait(None, "")),
            ("wait LB100 ready", wait(None, "LB100 ready")),
            ("wait 1,72 LB100", wait(Some((1, 72)), "LB100")),
            ("wait 1,72", wait(None, "1,72")),
            ("screen", Action::Screen),
            ("fields", Action::Fields),
        ] {
            assert_eq!(line.parse(), Ok(wanted), "{line}");
        }
        for bad in ["", "typ x", "key pf25", "key", "move 5", "move 0,1", "secret", "screen all"] {
            assert!(bad.parse::<Action>().is_err(), "{bad}");
        }
    }
}
