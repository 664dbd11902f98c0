//! The numbers of the 3270 data stream (IBM GA23-0059): commands, orders, keys, attributes.

/// What the host asks of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Changes parts of the screen.
    Write,
    /// Clears the screen, takes the default size, then writes.
    EraseWrite,
    /// Clears the screen, takes the alternate size, then writes.
    EraseWriteAlternate,
    /// Nulls all fields that can be typed into.
    EraseAllUnprotected,
    /// Structured fields follow.
    WriteStructuredField,
    /// Wants the whole screen.
    ReadBuffer,
    /// Wants what was typed, as a key would send it.
    ReadModified,
    /// Wants what was typed even after a key that sends nothing but itself.
    ReadModifiedAll,
    /// A command of channels without effect.
    NoOperation,
}

impl Command {
    /// Of either set of codes, that of SNA and that of channel programs: hosts mix them.
    pub fn of(code: u8) -> Option<Self> {
        Some(match code {
            0xf1 | 0x01 => Command::Write,
            0xf5 | 0x05 => Command::EraseWrite,
            0x7e | 0x0d => Command::EraseWriteAlternate,
            0x6f | 0x0f => Command::EraseAllUnprotected,
            0xf3 | 0x11 => Command::WriteStructuredField,
            0xf2 | 0x02 => Command::ReadBuffer,
            0xf6 | 0x06 => Command::ReadModified,
            0x6e | 0x0e => Command::ReadModifiedAll,
            0x03 => Command::NoOperation,
            _ => return None,
        })
    }

    /// The code of SNA.
    pub fn code(self) -> u8 {
        match self {
            Command::Write => 0xf1,
            Command::EraseWrite => 0xf5,
            Command::EraseWriteAlternate => 0x7e,
            Command::EraseAllUnprotected => 0x6f,
            Command::WriteStructuredField => 0xf3,
            Command::ReadBuffer => 0xf2,
            Command::ReadModified => 0xf6,
            Command::ReadModifiedAll => 0x6e,
            Command::NoOperation => 0x03,
        }
    }
}

/// Bits of the write control character.
pub mod wcc {
    /// The terminal leaves the reply mode that the host had set.
    pub const RESET: u8 = 0x40;
    /// Sounds the alarm.
    pub const ALARM: u8 = 0x04;
    /// Frees the keyboard.
    pub const RESTORE: u8 = 0x02;
    /// Forgets which fields were typed into.
    pub const RESET_MDT: u8 = 0x01;
}

pub(crate) mod order {
    pub(crate) const PROGRAM_TAB: u8 = 0x05;
    pub(crate) const GRAPHIC_ESCAPE: u8 = 0x08;
    pub(crate) const SET_BUFFER_ADDRESS: u8 = 0x11;
    pub(crate) const ERASE_UNPROTECTED: u8 = 0x12;
    pub(crate) const INSERT_CURSOR: u8 = 0x13;
    pub(crate) const START_FIELD: u8 = 0x1d;
    pub(crate) const SET_ATTRIBUTE: u8 = 0x28;
    pub(crate) const START_FIELD_EXTENDED: u8 = 0x29;
    pub(crate) const MODIFY_FIELD: u8 = 0x2c;
    pub(crate) const REPEAT_TO_ADDRESS: u8 = 0x3c;
}

/// Codes below 40 that lie on the screen as characters do.
pub(crate) mod format {
    pub(crate) const NULL: u8 = 0x00;
    pub(crate) const FORM_FEED: u8 = 0x0c;
    pub(crate) const CARRIAGE_RETURN: u8 = 0x0d;
    pub(crate) const SHIFT_OUT: u8 = 0x0e;
    pub(crate) const SHIFT_IN: u8 = 0x0f;
    pub(crate) const NEW_LINE: u8 = 0x15;
    pub(crate) const END_OF_MEDIUM: u8 = 0x19;
    pub(crate) const DUP: u8 = 0x1c;
    pub(crate) const FIELD_MARK: u8 = 0x1e;
    pub(crate) const SUBSTITUTE: u8 = 0x3f;
}

/// Types of extended attributes.
pub(crate) mod attribute {
    pub(crate) const ALL: u8 = 0x00;
    pub(crate) const HIGHLIGHT: u8 = 0x41;
    pub(crate) const FOREGROUND: u8 = 0x42;
    pub(crate) const CHARACTER_SET: u8 = 0x43;
    pub(crate) const BACKGROUND: u8 = 0x45;
    pub(crate) const FIELD: u8 = 0xc0;
}

/// What happened at the terminal, the first byte of what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Aid {
    /// What a read has that no key caused.
    #[default]
    None,
    /// The key that sends what was typed.
    Enter,
    /// A program function key, 1 to 24.
    Pf(u8),
    /// A program access key, 1 to 3: it sends nothing that was typed.
    Pa(u8),
    /// Clears the screen and says so.
    Clear,
    /// A field was selected by pen or cursor.
    Select,
    /// A structured field is the answer.
    StructuredField,
    /// The answer to a read of a partition.
    ReadPartition,
    /// The test request of a terminal without SYSREQ.
    TestRequest,
}

/// AIDs of PF1 to PF24.
const PF: [u8; 24] = [
    0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0x7a, 0x7b, 0x7c, 0xc1, 0xc2, 0xc3, 0xc4,
    0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0x4a, 0x4b, 0x4c,
];
/// AIDs of PA1 to PA3.
const PA: [u8; 3] = [0x6c, 0x6e, 0x6b];

impl Aid {
    /// The byte; that of no key for numbers of keys that do not exist.
    pub fn code(self) -> u8 {
        let numbered = |keys: &[u8], number: u8| {
            let at = usize::from(number).checked_sub(1);
            at.and_then(|at| keys.get(at)).copied().unwrap_or(0x60)
        };
        match self {
            Aid::None => 0x60,
            Aid::Enter => 0x7d,
            Aid::Pf(number) => numbered(&PF, number),
            Aid::Pa(number) => numbered(&PA, number),
            Aid::Clear => 0x6d,
            Aid::Select => 0x7e,
            Aid::StructuredField => 0x88,
            Aid::ReadPartition => 0x61,
            Aid::TestRequest => 0xf0,
        }
    }

    /// What a byte means as an AID.
    pub fn of(code: u8) -> Option<Self> {
        let number = |keys: &[u8]| {
            let at = keys.iter().position(|key| *key == code)?;
            u8::try_from(at + 1).ok()
        };
        Some(match code {
            0x60 => Aid::None,
            0x7d => Aid::Enter,
            0x6d => Aid::Clear,
            0x7e => Aid::Select,
            0x88 => Aid::StructuredField,
            0x61 => Aid::ReadPartition,
            0xf0 => Aid::TestRequest,
            _ => match number(&PF) {
                Some(number) => Aid::Pf(number),
                None => Aid::Pa(number(&PA)?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_own_byte() {
        let keys = (1..=24).map(Aid::Pf).chain((1..=3).map(Aid::Pa));
        let others = [Aid::None, Aid::Enter, Aid::Clear, Aid::Select, Aid::StructuredField];
        for key in keys.chain(others) {
            assert_eq!(Aid::of(key.code()), Some(key));
        }
        assert_eq!(Aid::Pf(25).code(), Aid::None.code());
        assert_eq!(Aid::Pf(0).code(), Aid::None.code());
        assert_eq!(Aid::of(0), None);
    }

    #[test]
    fn both_sets_of_command_codes_are_known() {
        for (sna, channel) in [(0xf1, 1), (0xf5, 5), (0x7e, 13), (0x6f, 15), (0xf3, 17)] {
            assert_eq!(Command::of(sna), Command::of(channel));
            assert_eq!(Command::of(sna).unwrap().code(), sna);
        }
        assert_eq!(Command::of(0x99), None);
    }
}
