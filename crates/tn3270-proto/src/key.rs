//! The keys of a terminal by the names that people give them.

use crate::codes::Aid;
use crate::keyboard::Direction;

/// A key other than a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// One that goes to the host: ENTER, PF, PA, CLEAR.
    Aid(Aid),
    /// Asks for the system services.
    SysReq,
    /// Asks for the attention of the application.
    Attention,
    /// Frees a keyboard that an error locked.
    Reset,
    /// To the next field.
    Tab,
    /// To the field before.
    BackTab,
    /// To the first field.
    Home,
    /// To the next row.
    NewLine,
    /// The cursor by one position.
    Move(Direction),
    /// Behind what stands in the field.
    FieldEnd,
    /// Takes away the character before the cursor.
    Backspace,
    /// Takes away the character under the cursor.
    Delete,
    /// Nulls the field from the cursor on.
    EraseEof,
    /// Nulls all fields that can be typed into.
    EraseInput,
    /// From now on characters are inserted, or no longer.
    Insert,
    /// "As in the line above", for the application.
    Dup,
    /// A mark inside a field, for the application.
    FieldMark,
    /// Selects the field under the cursor.
    CursorSelect,
}

impl Key {
    /// By its name in any case: `ENTER`, `PF3`, `PA1`, `back-tab`, `EraseEOF`. `None`: no such key.
    pub fn named(name: &str) -> Option<Self> {
        let plain: String =
            name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let number = |prefix: &str| plain.strip_prefix(prefix)?.parse::<u8>().ok();
        if let Some(number) = number("pf").filter(|number| (1..=24).contains(number)) {
            return Some(Key::Aid(Aid::Pf(number)));
        }
        if let Some(number) = number("pa").filter(|number| (1..=3).contains(number)) {
            return Some(Key::Aid(Aid::Pa(number)));
        }
        Some(match plain.as_str() {
            "enter" => Key::Aid(Aid::Enter),
            "clear" => Key::Aid(Aid::Clear),
            "sysreq" => Key::SysReq,
            "attn" | "attention" => Key::Attention,
            "reset" => Key::Reset,
            "tab" => Key::Tab,
            "backtab" => Key::BackTab,
            "home" => Key::Home,
            "newline" => Key::NewLine,
            "up" => Key::Move(Direction::Up),
            "down" => Key::Move(Direction::Down),
            "left" => Key::Move(Direction::Left),
            "right" => Key::Move(Direction::Right),
            "fieldend" | "end" => Key::FieldEnd,
            "backspace" => Key::Backspace,
            "delete" => Key::Delete,
            "eraseeof" => Key::EraseEof,
            "eraseinput" => Key::EraseInput,
            "insert" => Key::Insert,
            "dup" => Key::Dup,
            "fieldmark" => Key::FieldMark,
            "cursorselect" => Key::CursorSelect,
            _ => return None,
        })
    }

    /// The name of a key that the host hears of, as [`Key::named`] takes it; other keys are
    /// `LOCAL`.
    pub fn host_name(self) -> String {
        match self {
            Key::Aid(Aid::Pf(number)) => format!("PF{number}"),
            Key::Aid(Aid::Pa(number)) => format!("PA{number}"),
            Key::Aid(Aid::Clear) => "CLEAR".to_owned(),
            Key::Aid(_) => "ENTER".to_owned(),
            Key::SysReq => "SYSREQ".to_owned(),
            Key::Attention => "ATTN".to_owned(),
            Key::CursorSelect => "CURSOR-SELECT".to_owned(),
            _ => "LOCAL".to_owned(),
        }
    }

    /// True if the host hears of the key.
    pub fn reaches_host(self) -> bool {
        matches!(self, Key::Aid(_) | Key::SysReq | Key::Attention | Key::CursorSelect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names() {
        assert_eq!(Key::named("pf24"), Some(Key::Aid(Aid::Pf(24))));
        assert_eq!(Key::named("PA3"), Some(Key::Aid(Aid::Pa(3))));
        assert_eq!(Key::named("Back-Tab"), Some(Key::BackTab));
        for name in ["ENTER", "PF24", "PA1", "CLEAR", "SYSREQ", "ATTN", "CURSOR-SELECT"] {
            assert_eq!(Key::named(name).unwrap().host_name(), name);
        }
        for bad in ["pf25", "pf0", "pa4", "pf", "x", ""] {
            assert_eq!(Key::named(bad), None, "{bad}");
        }
    }
}
