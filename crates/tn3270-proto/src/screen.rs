//! The screen of a terminal as flat arrays: a code, a field attribute and a style for each
//! position. It knows where fields begin and end; what changes it is in `outbound` and `keyboard`.

use std::ops::Range;

use crate::model::Size;

/// The attribute at the begin of a field. It takes a position of the screen, and shows as a blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAttribute(u8);

const PROTECTED: u8 = 0x20;
const NUMERIC: u8 = 0x10;
const DISPLAY: u8 = 0x0c;
const BRIGHT: u8 = 0x08;
const HIDDEN: u8 = 0x0c;
const MODIFIED: u8 = 0x01;
/// The bits that mean something.
const MEANT: u8 = PROTECTED | NUMERIC | DISPLAY | MODIFIED;
/// Set in the array for every attribute, so that 0 means that there is none.
const PRESENT: u8 = 0xc0;

impl FieldAttribute {
    /// Of the byte in a data stream, whose two top bits mean nothing.
    pub fn of(byte: u8) -> Self {
        FieldAttribute(byte & MEANT)
    }

    /// The six bits that mean something.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Nothing can be typed into the field.
    pub fn is_protected(self) -> bool {
        self.0 & PROTECTED != 0
    }

    /// The field is for numbers.
    pub fn is_numeric(self) -> bool {
        self.0 & NUMERIC != 0
    }

    /// Protected, and the cursor does not rest there after the field before it is full.
    pub fn is_skipped(self) -> bool {
        self.is_protected() && self.is_numeric()
    }

    /// What is in the field is not shown.
    pub fn is_hidden(self) -> bool {
        self.0 & DISPLAY == HIDDEN
    }

    /// What is in the field is shown bright.
    pub fn is_bright(self) -> bool {
        self.0 & DISPLAY == BRIGHT
    }

    /// The field can be selected by a pen: bright ones and those with the bits 04.
    pub fn is_selectable(self) -> bool {
        matches!(self.0 & DISPLAY, 0x04 | BRIGHT)
    }

    /// The field was typed into, or the host says so.
    pub fn is_modified(self) -> bool {
        self.0 & MODIFIED != 0
    }

    /// The same attribute, marked as typed into.
    #[must_use]
    pub fn modified(self) -> Self {
        FieldAttribute(self.0 | MODIFIED)
    }

    /// The same attribute without that mark.
    #[must_use]
    pub fn unmodified(self) -> Self {
        FieldAttribute(self.0 & !MODIFIED)
    }
}

/// Extended attributes of a position, as the bytes that the data stream has for them; 0 is the
/// default of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Style {
    /// F1 blue, F2 red, F3 pink, F4 green, F5 turquoise, F6 yellow, F7 white and others.
    pub foreground: u8,
    /// As the foreground.
    pub background: u8,
    /// F1 blink, F2 reverse, F4 underscore, F8 bright.
    pub highlight: u8,
    /// F1 for APL and line drawing, [`GRAPHIC_ESCAPE`] for one character of it.
    pub character_set: u8,
}

/// The character set of a character that came after the order GE.
pub const GRAPHIC_ESCAPE: u8 = 0x01;
/// The character set of APL and line drawing.
pub const APL: u8 = 0xf1;

/// What a read of the whole screen or of fields says besides the codes (GA23-0059, Set Reply Mode).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ReplyMode {
    /// Field attributes only.
    #[default]
    Field,
    /// Also the extended attributes of fields.
    ExtendedField,
    /// Also those attributes of single characters that are listed by their types.
    Character(Vec<u8>),
}

/// The screen. Every position is below [`Size::cells`]; a position beyond it does nothing and
/// reads as empty.
#[derive(Clone, Debug)]
pub struct Screen {
    default_size: Size,
    alternate_size: Size,
    size: Size,
    codes: Vec<u8>,
    fields: Vec<u8>,
    styles: Vec<Style>,
    field_count: usize,
    /// False only if no style has a character set.
    may_have_sets: bool,
    cursor: usize,
    pub(crate) address: usize,
    pub(crate) reply_mode: ReplyMode,
}

impl Screen {
    /// A blank screen of the alternate size.
    pub fn new(default_size: Size, alternate_size: Size) -> Self {
        let cells = default_size.cells().max(alternate_size.cells());
        Screen {
            default_size,
            alternate_size,
            size: alternate_size,
            codes: vec![0; cells],
            fields: vec![0; cells],
            styles: vec![Style::default(); cells],
            field_count: 0,
            may_have_sets: false,
            cursor: 0,
            address: 0,
            reply_mode: ReplyMode::default(),
        }
    }

    /// Rows and columns at the moment.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The sizes of Erase/Write and of Erase/Write Alternate, in this order.
    pub fn sizes(&self) -> [Size; 2] {
        [self.default_size, self.alternate_size]
    }

    /// Other sizes, and a blank screen of the alternate one.
    pub(crate) fn resize(&mut self, default_size: Size, alternate_size: Size) {
        let reply_mode = std::mem::take(&mut self.reply_mode);
        *self = Screen { reply_mode, ..Screen::new(default_size, alternate_size) };
    }

    /// Blank, with the default size.
    pub(crate) fn erase(&mut self) {
        self.size = self.default_size;
        self.clear();
    }

    /// Blank, with the alternate size.
    pub(crate) fn erase_alternate(&mut self) {
        self.size = self.alternate_size;
        self.clear();
    }

    /// Blank, with the size that it has.
    pub(crate) fn clear(&mut self) {
        self.codes.fill(0);
        self.fields.fill(0);
        self.styles.fill(Style::default());
        self.field_count = 0;
        self.may_have_sets = false;
        self.cursor = 0;
        self.address = 0;
    }

    /// How many positions there are now.
    pub fn cells(&self) -> usize {
        self.size.cells()
    }

    /// The position of the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Puts the cursor somewhere; beyond the screen it stays where it is.
    pub(crate) fn move_cursor(&mut self, to: usize) {
        if to < self.cells() {
            self.cursor = to;
        }
    }

    /// True if there is at least one field.
    pub fn is_formatted(&self) -> bool {
        self.field_count > 0
    }

    /// The codes of all positions; a field attribute has the code 0.
    pub fn codes(&self) -> &[u8] {
        self.codes.get(..self.cells()).unwrap_or(&[])
    }

    /// The same to be changed; where fields begin they stay 0.
    pub(crate) fn codes_mut(&mut self) -> &mut [u8] {
        let cells = self.cells();
        self.codes.get_mut(..cells).unwrap_or_default()
    }

    /// The code at a position.
    pub fn code(&self, at: usize) -> u8 {
        self.codes.get(at).copied().unwrap_or(0)
    }

    /// The field attribute at a position, if a field begins there.
    pub fn attribute(&self, at: usize) -> Option<FieldAttribute> {
        let byte = self.fields.get(at).copied().unwrap_or(0);
        (byte != 0).then_some(FieldAttribute(byte & MEANT))
    }

    /// The extended attributes at a position: of a field where one begins, else of the character.
    pub fn style(&self, at: usize) -> Style {
        self.styles.get(at).copied().unwrap_or_default()
    }

    /// The characters that are not of the code page, and their sets.
    pub(crate) fn character_sets(&self) -> impl Iterator<Item = (usize, u8)> {
        let cells = if self.may_have_sets { self.cells() } else { 0 };
        let styles = self.styles.iter().take(cells).enumerate();
        styles.filter(|(_, style)| style.character_set != 0).map(|(at, it)| (at, it.character_set))
    }

    pub(crate) fn set_code(&mut self, at: usize, code: u8, style: Style) {
        let (Some(slot), Some(field)) = (self.codes.get_mut(at), self.fields.get_mut(at)) else {
            return;
        };
        *slot = code;
        if *field != 0 {
            *field = 0;
            self.field_count -= 1;
        }
        self.may_have_sets |= style.character_set != 0;
        if let Some(slot) = self.styles.get_mut(at) {
            *slot = style;
        }
    }

    pub(crate) fn set_field(&mut self, at: usize, attribute: FieldAttribute, style: Style) {
        let (Some(slot), Some(field)) = (self.codes.get_mut(at), self.fields.get_mut(at)) else {
            return;
        };
        *slot = 0;
        if *field == 0 {
            self.field_count += 1;
        }
        *field = PRESENT | attribute.bits();
        self.may_have_sets |= style.character_set != 0;
        if let Some(slot) = self.styles.get_mut(at) {
            *slot = style;
        }
    }

    /// The position after another one; after the last comes the first.
    pub fn after(&self, at: usize) -> usize {
        if at + 1 >= self.cells() { 0 } else { at + 1 }
    }

    /// The position before another one; before the first comes the last.
    pub fn before(&self, at: usize) -> usize {
        at.checked_sub(1).unwrap_or(self.cells() - 1)
    }

    /// Where the field begins that a position is in: at its attribute, which is the position
    /// itself or the nearest before it, around the screen. `None`: there is no field.
    pub fn field_of(&self, at: usize) -> Option<usize> {
        if self.field_count == 0 {
            return None;
        }
        let cells = self.cells();
        let (upto, beyond) = self.fields.get(..cells)?.split_at_checked(at + 1)?;
        last_field(upto).or_else(|| Some(at + 1 + last_field(beyond)?))
    }

    /// The attribute that rules a position; without fields everything can be typed into.
    pub fn ruling(&self, at: usize) -> FieldAttribute {
        let field = self.field_of(at).and_then(|field| self.attribute(field));
        field.unwrap_or(FieldAttribute(0))
    }

    /// The positions of all field attributes, in order.
    pub fn fields(&self) -> impl Iterator<Item = usize> {
        self.fields_with(PRESENT)
    }

    /// The same of those fields alone that were typed into.
    pub fn modified_fields(&self) -> impl Iterator<Item = usize> {
        self.fields_with(MODIFIED)
    }

    /// The positions of attributes that have one of these bits.
    fn fields_with(&self, bits: u8) -> impl Iterator<Item = usize> {
        let fields = self.fields.get(..self.cells()).unwrap_or(&[]);
        let mask = u128::from_le_bytes([bits; WORD]);
        let words = fields.chunks(WORD).map(move |word| wide(word) & mask).enumerate();
        words.filter(|(_, word)| *word != 0).flat_map(|(number, mut word)| {
            std::iter::from_fn(move || {
                let at = (word != 0).then(|| word.trailing_zeros() as usize / 8)?;
                word &= !(0xff << (at * 8));
                Some(number * WORD + at)
            })
        })
    }

    /// The codes and attributes of positions, as far as there are any; an attribute of 0 is none.
    pub(crate) fn cells_of(&self, positions: Range<usize>) -> impl Iterator<Item = (u8, u8)> {
        let codes = self.codes.get(positions.clone()).unwrap_or(&[]);
        let fields = self.fields.get(positions).unwrap_or(&[]);
        codes.iter().copied().zip(fields.iter().copied())
    }

    /// True if a character may be of another set than the code page's.
    pub(crate) fn may_have_sets(&self) -> bool {
        self.may_have_sets
    }

    /// The positions of a field after its attribute, up to the next one, around the screen.
    pub fn positions(&self, field: usize) -> impl Iterator<Item = usize> {
        let cells = self.cells();
        let around = (1..cells).map(move |step| (field + step) % cells);
        around.take_while(|at| self.fields.get(*at).is_some_and(|field| *field == 0))
    }

    /// The first position that can be typed into after `at`, from which the search begins: the one
    /// behind the next attribute that is not protected and does not stand before another one.
    pub(crate) fn next_unprotected(&self, at: usize) -> Option<usize> {
        let mut here = at;
        for _ in 0..self.cells() {
            let next = self.after(here);
            let open = self.attribute(here).is_some_and(|field| !field.is_protected());
            if open && self.attribute(next).is_none() {
                return Some(next);
            }
            here = next;
        }
        None
    }

    /// Marks the field of a position as typed into, or not.
    pub(crate) fn mark(&mut self, at: usize, mark: Mark) {
        let Some(field) = self.field_of(at) else { return };
        if let Some(slot) = self.fields.get_mut(field) {
            match mark {
                Mark::Modified => *slot |= MODIFIED,
                Mark::Unmodified => *slot &= !MODIFIED,
            }
        }
    }

    /// Forgets of all fields that they were typed into.
    pub(crate) fn unmark_all(&mut self) {
        self.fields.iter_mut().for_each(|field| *field &= !MODIFIED);
    }
}

/// Whether a field counts as typed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Modified,
    Unmodified,
}

/// Positions that are looked at together: most have no attribute.
const AT_ONCE: usize = 64;

/// So many positions are looked at in one operation.
const WORD: usize = 16;

/// Up to so many bytes as a number, the first one in its lowest bits.
fn wide(bytes: &[u8]) -> u128 {
    let whole: Option<[u8; WORD]> = bytes.try_into().ok();
    whole.map_or_else(
        || bytes.iter().rev().fold(0, |all, byte| all << 8 | u128::from(*byte)),
        u128::from_le_bytes,
    )
}

/// True if a field begins at one of the positions.
fn has_one(fields: &[u8]) -> bool {
    fields.iter().fold(0, |any, field| any | field) != 0
}

/// The last position of a field attribute.
fn last_field(fields: &[u8]) -> Option<usize> {
    let empty = fields.rchunks(AT_ONCE).take_while(|chunk| !has_one(chunk));
    let empty: usize = empty.map(<[u8]>::len).sum();
    fields.get(..fields.len() - empty)?.iter().rposition(|field| *field != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen() -> Screen {
        Screen::new(Size::MODEL_2, Size::MODEL_2)
    }

    #[test]
    fn a_field_reaches_around_the_end() {
        let mut screen = screen();
        assert_eq!(screen.field_of(5), None);
        screen.set_field(1919, FieldAttribute::of(0), Style::default());
        screen.set_field(10, FieldAttribute::of(0x20), Style::default());
        assert_eq!(screen.field_of(5), Some(1919));
        assert_eq!(screen.field_of(10), Some(10));
        assert_eq!(screen.field_of(100), Some(10));
        assert_eq!(screen.positions(1919).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert!(screen.ruling(100).is_protected());
        assert_eq!(screen.next_unprotected(11), Some(0));
    }

    #[test]
    fn fields_are_found_in_order_wherever_they_stand() {
        let wide = Size::new(27, 132).unwrap();
        let mut screen = Screen::new(Size::MODEL_2, wide);
        let places = [0, 1, 15, 16, 17, 127, 2_000, 3_550, 3_551, 3_552, 3_562, 3_563];
        for (number, at) in places.into_iter().enumerate() {
            let bits = [0x20, MODIFIED, 0x2d][number % 3];
            screen.set_field(at, FieldAttribute::of(bits), Style::default());
        }
        assert_eq!(screen.fields().collect::<Vec<_>>(), places);
        let typed = [1, 15, 17, 127, 3_550, 3_551, 3_562, 3_563];
        assert_eq!(screen.modified_fields().collect::<Vec<_>>(), typed);
        screen.erase();
        screen.set_field(1_919, FieldAttribute::of(MODIFIED), Style::default());
        assert_eq!(screen.modified_fields().collect::<Vec<_>>(), [1_919]);
    }

    #[test]
    fn a_character_over_an_attribute_ends_the_field() {
        let mut screen = screen();
        screen.set_field(7, FieldAttribute::of(0x20), Style::default());
        screen.set_code(7, 0xc1, Style::default());
        assert!(!screen.is_formatted());
        screen.set_code(5000, 0xc1, Style::default());
        assert_eq!(screen.code(5000), 0);
    }
}
