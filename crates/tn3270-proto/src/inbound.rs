//! What the terminal sends: the key, the cursor, and what was typed, or the whole screen.

use crate::address::{encode, six_bits};
use crate::codes::{Aid, attribute, format, order};
use crate::screen::{GRAPHIC_ESCAPE, ReplyMode, Screen, Style};

/// How much a read wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// After PA and CLEAR the key only.
    Modified,
    /// What was typed after those, too.
    ModifiedAll,
}

/// Read Modified: the fields that were typed into, without their nulls; of a screen without fields
/// all that is on it.
pub(crate) fn read_modified(screen: &Screen, aid: Aid, wanted: Wanted, out: &mut Vec<u8>) {
    out.push(aid.code());
    if wanted == Wanted::Modified && matches!(aid, Aid::Pa(_) | Aid::Clear) {
        return;
    }
    out.extend(encode(screen.cursor(), screen.cells()));
    let with_data = !(wanted == Wanted::Modified && aid == Aid::Select);
    if !screen.is_formatted() {
        let mut styles = CharacterStyles::new(screen);
        (0..screen.cells()).for_each(|at| put_character(screen, at, &mut styles, out));
        return;
    }
    for field in screen.modified_fields() {
        out.push(order::SET_BUFFER_ADDRESS);
        out.extend(encode(screen.after(field), screen.cells()));
        if with_data {
            let mut styles = CharacterStyles::new(screen);
            screen.positions(field).for_each(|at| put_character(screen, at, &mut styles, out));
        }
    }
}

/// What was typed behind the place where the system services left the cursor.
pub(crate) fn read_system_services(screen: &Screen, start: usize, out: &mut Vec<u8>) {
    /// The most that the system services take (RFC 2355 §13.4).
    const MOST: usize = 255;
    let codes = (start..screen.cells()).map(|at| screen.code(at));
    out.extend(codes.filter(|code| *code != format::NULL).take(MOST));
}

fn put_character(screen: &Screen, at: usize, styles: &mut CharacterStyles, out: &mut Vec<u8>) {
    let code = screen.code(at);
    if code == format::NULL {
        return;
    }
    let style = screen.style(at);
    styles.put_changes(style, out);
    if style.character_set == GRAPHIC_ESCAPE {
        out.push(order::GRAPHIC_ESCAPE);
    }
    out.push(code);
}

/// Read Buffer: every position, from the first to the last.
pub(crate) fn read_buffer(screen: &Screen, aid: Aid, out: &mut Vec<u8>) {
    out.push(aid.code());
    out.extend(encode(screen.cursor(), screen.cells()));
    let mut styles = CharacterStyles::new(screen);
    for at in 0..screen.cells() {
        match screen.attribute(at) {
            Some(field) if screen.reply_mode == ReplyMode::Field => {
                out.extend([order::START_FIELD, six_bits(usize::from(field.bits()))]);
            }
            Some(field) => put_extended_field(field.bits(), screen.style(at), out),
            None => {
                let style = screen.style(at);
                styles.put_changes(style, out);
                if style.character_set == GRAPHIC_ESCAPE {
                    out.push(order::GRAPHIC_ESCAPE);
                }
                out.push(screen.code(at));
            }
        }
    }
}

fn put_extended_field(bits: u8, style: Style, out: &mut Vec<u8>) {
    let extended = [
        (attribute::FOREGROUND, style.foreground),
        (attribute::BACKGROUND, style.background),
        (attribute::HIGHLIGHT, style.highlight),
        (attribute::CHARACTER_SET, style.character_set),
    ];
    let set = extended.into_iter().filter(|(_, value)| *value != 0);
    // There are at most four of them.
    let count = 1 + set.clone().count() as u8;
    out.extend([order::START_FIELD_EXTENDED, count, attribute::FIELD]);
    out.push(six_bits(usize::from(bits)));
    set.for_each(|(kind, value)| out.extend([kind, value]));
}

/// The attributes of characters that were sent so far, for the reply mode that wants changes of
/// them.
struct CharacterStyles<'a> {
    kinds: &'a [u8],
    sent: Style,
}

impl<'a> CharacterStyles<'a> {
    fn new(screen: &'a Screen) -> Self {
        let kinds = match &screen.reply_mode {
            ReplyMode::Character(kinds) => kinds.as_slice(),
            ReplyMode::Field | ReplyMode::ExtendedField => &[],
        };
        CharacterStyles { kinds, sent: Style::default() }
    }

    fn put_changes(&mut self, style: Style, out: &mut Vec<u8>) {
        if self.kinds.is_empty() {
            return;
        }
        // A graphic escape says its set by itself.
        let character_set =
            if style.character_set == GRAPHIC_ESCAPE { 0 } else { style.character_set };
        let values = [
            (attribute::FOREGROUND, style.foreground, &mut self.sent.foreground),
            (attribute::BACKGROUND, style.background, &mut self.sent.background),
            (attribute::HIGHLIGHT, style.highlight, &mut self.sent.highlight),
            (attribute::CHARACTER_SET, character_set, &mut self.sent.character_set),
        ];
        for (kind, value, sent) in values {
            if self.kinds.contains(&kind) && *sent != value {
                out.extend([order::SET_ATTRIBUTE, kind, value]);
                *sent = value;
            }
        }
    }
}
