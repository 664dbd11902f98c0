//! What a terminal sends with a key, read by the host's side: the key, the cursor and the fields
//! that were typed into (GA23-0059, "inbound data stream").

use crate::address::Addressing;
use crate::codes::{Aid, attribute, format, order};
use crate::screen::{FieldAttribute, Screen};

/// A record of the terminal, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed<'a> {
    /// The byte of the key; [`Aid::of`] says which one it is.
    pub aid: u8,
    /// Where the cursor was; `None` after keys that send nothing else.
    pub cursor: Option<usize>,
    /// The fields that go back to the host, in the order of the screen. On a screen without fields
    /// it is one, without a place.
    pub fields: Vec<TypedField<'a>>,
}

/// A field that was typed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedField<'a> {
    /// Its first position; `None`: all that is on a screen without fields.
    pub at: Option<usize>,
    /// Where its codes begin in the record.
    pub offset: usize,
    /// What is in it, without nulls.
    pub codes: &'a [u8],
}

impl<'a> Typed<'a> {
    /// Splits the data of a record. `None`: it is empty.
    pub fn parse(data: &'a [u8], addressing: Addressing) -> Option<Self> {
        let (&aid, rest) = data.split_first()?;
        let Some((cursor, _)) = rest.split_first_chunk() else {
            return Some(Typed { aid, cursor: None, fields: Vec::new() });
        };
        let cursor = Some(addressing.decode(*cursor));
        Some(Typed { aid, cursor, fields: fields(data, addressing) })
    }

    /// The key, if it is one.
    pub fn key(&self) -> Option<Aid> {
        Aid::of(self.aid)
    }
}

/// The fields behind key and cursor.
fn fields(data: &[u8], addressing: Addressing) -> Vec<TypedField<'_>> {
    const BEGIN: usize = 3;
    let (mut fields, mut at, mut from, mut here) = (Vec::new(), None, BEGIN, BEGIN);
    let mut end = |at: Option<usize>, from: usize, to: usize| {
        let codes = data.get(from..to).unwrap_or_default();
        if at.is_some() || !codes.is_empty() {
            fields.push(TypedField { at, offset: from, codes });
        }
    };
    while let Some(&code) = data.get(here) {
        let length = match code {
            order::SET_BUFFER_ADDRESS | order::SET_ATTRIBUTE => 3,
            order::GRAPHIC_ESCAPE => 2,
            _ => 1,
        };
        let address = data.get(here + 1..).and_then(<[u8]>::first_chunk);
        if let (order::SET_BUFFER_ADDRESS, Some(address)) = (code, address) {
            end(at, from, here);
            at = Some(addressing.decode(*address));
            from = here + length;
        }
        here += length;
    }
    end(at, from, data.len());
    fields
}

/// What stands in place of a code that is masked: an asterisk in every code page.
const MASK: u8 = 0x5c;

/// Masks what is in hidden fields of a record of the terminal, and keeps its length: after a key as
/// well as in the answer to a read of the whole screen.
pub fn mask_hidden(data: &mut [u8], screen: &Screen) {
    const BEGIN: usize = 3;
    if data.first() == Some(&Aid::StructuredField.code()) {
        return;
    }
    let addressing = Addressing::of_screen(screen.cells());
    let mut is_hidden = screen.ruling(0).is_hidden();
    let mut here = BEGIN;
    while let Some((code, rest)) = data.get_mut(here..).and_then(<[u8]>::split_first_mut) {
        here += match (*code, &*rest) {
            (order::SET_BUFFER_ADDRESS, [high, low, ..]) => {
                is_hidden = screen.ruling(addressing.decode([*high, *low])).is_hidden();
                3
            }
            (order::START_FIELD, [attribute, ..]) => {
                is_hidden = FieldAttribute::of(*attribute).is_hidden();
                2
            }
            (order::START_FIELD_EXTENDED, [count, pairs @ ..]) => {
                let length = usize::from(*count) * 2;
                let (pairs, _) = pairs.split_at(length.min(pairs.len()));
                let field = pairs.chunks(2).find(|pair| pair.first() == Some(&attribute::FIELD));
                let bits = field.and_then(|pair| pair.get(1)).copied().unwrap_or_default();
                is_hidden = FieldAttribute::of(bits).is_hidden();
                2 + length
            }
            (order::SET_ATTRIBUTE, [_, _, ..]) => 3,
            (format::NULL, _) => 1,
            _ => {
                if is_hidden {
                    *code = MASK;
                }
                1
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Size;
    use crate::screen::Style;

    #[test]
    fn hidden_fields_are_masked_wherever_they_are_sent() {
        let mut screen = Screen::new(Size::MODEL_2, Size::MODEL_2);
        screen.set_field(0, FieldAttribute::of(0x40), Style::default());
        screen.set_field(10, FieldAttribute::of(0x4c), Style::default());
        screen.set_field(20, FieldAttribute::of(0x60), Style::default());
        let masked = |data: &[u8]| {
            let mut data = data.to_vec();
            mask_hidden(&mut data, &screen);
            data
        };
        let key = [0x7d, 0x40, 0x40, 0x11, 0x40, 0xc1, 0xc1, 0x11, 0x40, 0x4b, 0xc2, 0xc3];
        let wanted = [0x7d, 0x40, 0x40, 0x11, 0x40, 0xc1, 0xc1, 0x11, 0x40, 0x4b, 0x5c, 0x5c];
        assert_eq!(masked(&key), wanted);
        let read =
            [0x60, 0x40, 0x40, 0x1d, 0x40, 0xc1, 0x29, 1, 0xc0, 0x4c, 0xc2, 0, 0x1d, 0x60, 0xc3];
        let mut wanted = read;
        wanted[10] = 0x5c;
        assert_eq!(masked(&read), wanted);
        for broken in [&[0x7d, 0x40][..], &[0x60, 0, 0, 0x29], &[0x60, 0, 0, 0x29, 9, 0xc0]] {
            assert_eq!(masked(broken), broken);
        }
    }

    fn typed(data: &[u8]) -> Typed<'_> {
        Typed::parse(data, Addressing::default()).unwrap()
    }

    #[test]
    fn fields_have_places() {
        let data = [0x7d, 0xc1, 0x50, 0x11, 0x40, 0xc1, 0xc1, 0x08, 0x11, 0x11, 0, 80];
        let typed = typed(&data);
        assert_eq!((typed.key(), typed.cursor), (Some(Aid::Enter), Some(80)));
        let fields = [
            TypedField { at: Some(1), offset: 6, codes: &[0xc1, 0x08, 0x11] },
            TypedField { at: Some(80), offset: 12, codes: &[] },
        ];
        assert_eq!(typed.fields, fields);
    }

    #[test]
    fn screens_without_fields_and_short_records_are_read() {
        assert_eq!(typed(&[0x7d, 0x40, 0x40]).fields, []);
        let whole = [TypedField { at: None, offset: 3, codes: &[0xc1, 0xc2] }];
        assert_eq!(typed(&[0x7d, 0x40, 0x40, 0xc1, 0xc2]).fields, whole);
        assert_eq!(typed(&[0x6d]).cursor, None);
        assert_eq!(typed(&[0x7d, 0x40, 0x40, 0x11, 0x40]).fields.len(), 1);
        assert_eq!(Typed::parse(&[], Addressing::default()), None);
    }
}
