//! Keys that change the screen or move the cursor without a word to the host, and the rules of
//! fields that they obey.

use crate::codes::format;
use crate::screen::{FieldAttribute, Mark, Screen, Style};

/// Why the keyboard takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// There is no session with an application yet.
    NotReady,
    /// A key went to the host, which has not answered.
    Waiting,
    /// The host answered, but has not freed the keyboard.
    System,
    /// Something was typed where nothing can be typed.
    Protected,
    /// Something else than a number was typed into a field for numbers.
    Numeric,
    /// A character was inserted into a field that is full.
    Overflow,
}

impl Lock {
    /// One word for people and scripts.
    pub fn word(self) -> &'static str {
        match self {
            Lock::NotReady => "not-ready",
            Lock::Waiting => "waiting",
            Lock::System => "system",
            Lock::Protected => "protected",
            Lock::Numeric => "numeric",
            Lock::Overflow => "overflow",
        }
    }
}

/// What becomes of the characters behind one that is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Typing {
    /// The one under the cursor is replaced.
    #[default]
    Over,
    /// They move on, as far as nulls at the end of the field leave room.
    Insert,
}

/// Whether a field for numbers takes anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NumericFields {
    /// It does, as on most terminals.
    #[default]
    TakeAll,
    /// It takes digits, `.`, `-` and DUP only.
    TakeNumbers,
}

/// Types one code at the cursor, which moves on, over attributes and skipped fields.
pub(crate) fn type_code(
    screen: &mut Screen,
    code: u8,
    typing: Typing,
    numeric: NumericFields,
) -> Result<(), Lock> {
    let at = screen.cursor();
    let ruling = screen.ruling(at);
    if screen.attribute(at).is_some() || ruling.is_protected() {
        return Err(Lock::Protected);
    }
    if numeric == NumericFields::TakeNumbers && ruling.is_numeric() && !is_number(code) {
        return Err(Lock::Numeric);
    }
    if typing == Typing::Insert && screen.code(at) != format::NULL {
        make_space(screen, at)?;
    }
    screen.set_code(at, code, Style::default());
    screen.mark(at, Mark::Modified);
    let next = screen.after(at);
    screen.move_cursor(past_attributes(screen, next));
    Ok(())
}

fn is_number(code: u8) -> bool {
    const POINT: u8 = 0x4b;
    const MINUS: u8 = 0x60;
    matches!(code, 0xf0..=0xf9 | POINT | MINUS | format::DUP)
}

/// Where the cursor comes to rest when it is moved to a position after typing.
fn past_attributes(screen: &Screen, at: usize) -> usize {
    match screen.attribute(at) {
        Some(field) if field.is_skipped() => screen.next_unprotected(at).unwrap_or(at),
        Some(_) => screen.after(at),
        None => at,
    }
}

/// The positions from one on to the end of its field; without fields to the end of the screen.
fn rest_of_field(screen: &Screen, at: usize) -> Vec<usize> {
    if !screen.is_formatted() {
        return (at..screen.cells()).collect();
    }
    let mut positions = vec![at];
    positions.extend(screen.positions(at));
    positions
}

/// Moves what stands from a position on one position to the right, over the first null there.
fn make_space(screen: &mut Screen, at: usize) -> Result<(), Lock> {
    let positions = rest_of_field(screen, at);
    let null = positions.iter().position(|at| screen.code(*at) == format::NULL);
    let moved = positions.get(..=null.ok_or(Lock::Overflow)?).unwrap_or(&[]);
    for pair in moved.windows(2).rev() {
        if let [from, to] = *pair {
            screen.set_code(to, screen.code(from), screen.style(from));
        }
    }
    Ok(())
}

/// Takes away the character under the cursor; those behind it in the field move up.
pub(crate) fn delete(screen: &mut Screen) -> Result<(), Lock> {
    let at = screen.cursor();
    check_open(screen, at)?;
    let positions = rest_of_field(screen, at);
    for pair in positions.windows(2) {
        if let [to, from] = *pair {
            screen.set_code(to, screen.code(from), screen.style(from));
        }
    }
    if let Some(last) = positions.last() {
        screen.set_code(*last, format::NULL, Style::default());
    }
    screen.mark(at, Mark::Modified);
    Ok(())
}

/// Takes away the character before the cursor.
pub(crate) fn backspace(screen: &mut Screen) -> Result<(), Lock> {
    let before = screen.before(screen.cursor());
    if screen.attribute(before).is_some() {
        return Err(Lock::Protected);
    }
    check_open(screen, before)?;
    screen.move_cursor(before);
    delete(screen)
}

/// Nulls the field from the cursor on.
pub(crate) fn erase_to_end(screen: &mut Screen) -> Result<(), Lock> {
    let at = screen.cursor();
    check_open(screen, at)?;
    for position in rest_of_field(screen, at) {
        screen.set_code(position, format::NULL, Style::default());
    }
    screen.mark(at, Mark::Modified);
    Ok(())
}

/// DUP: types the code and goes to the next field.
pub(crate) fn duplicate(screen: &mut Screen, numeric: NumericFields) -> Result<(), Lock> {
    type_code(screen, format::DUP, Typing::Over, numeric)?;
    let from = screen.before(screen.cursor());
    screen.move_cursor(screen.next_unprotected(from).unwrap_or(screen.cursor()));
    Ok(())
}

fn check_open(screen: &Screen, at: usize) -> Result<(), Lock> {
    if screen.attribute(at).is_some() || screen.ruling(at).is_protected() {
        Err(Lock::Protected)
    } else {
        Ok(())
    }
}

/// To the begin of the next field that can be typed into.
pub(crate) fn tab(screen: &mut Screen) {
    let next = screen.next_unprotected(screen.cursor()).unwrap_or(0);
    screen.move_cursor(next);
}

/// To the begin of this field, or from there to that of the field before it.
pub(crate) fn back_tab(screen: &mut Screen) {
    let open = |field: &usize| {
        let attribute = screen.attribute(*field);
        attribute.is_some_and(|attribute| !attribute.is_protected())
            && screen.attribute(screen.after(*field)).is_none()
    };
    let begins: Vec<usize> =
        screen.fields().filter(open).map(|field| screen.after(field)).collect();
    let before = begins.iter().rev().find(|begin| **begin < screen.cursor());
    let to = before.or(begins.iter().max()).copied().unwrap_or(0);
    screen.move_cursor(to);
}

/// To the first field that can be typed into.
pub(crate) fn home(screen: &mut Screen) {
    let last = screen.cells() - 1;
    let home = screen.next_unprotected(last).unwrap_or(0);
    screen.move_cursor(home);
}

/// To the first position of the next row that can be typed into, or of those after it.
pub(crate) fn new_line(screen: &mut Screen) {
    let columns = screen.size().columns;
    let row = (screen.cursor() / columns + 1) % screen.size().rows;
    let begin = row * columns;
    let open = screen.attribute(begin).is_none() && !screen.ruling(begin).is_protected();
    let to = if open { begin } else { screen.next_unprotected(begin).unwrap_or(0) };
    screen.move_cursor(to);
}

/// A direction of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the first row, and from there to the last.
    Up,
    /// Towards the last row, and from there to the first.
    Down,
    /// To the position before.
    Left,
    /// To the position after.
    Right,
}

/// Moves the cursor by one position, around the screen.
pub(crate) fn step(screen: &mut Screen, direction: Direction) {
    let (at, cells, columns) = (screen.cursor(), screen.cells(), screen.size().columns);
    let to = match direction {
        Direction::Up => (at + cells - columns) % cells,
        Direction::Down => (at + columns) % cells,
        Direction::Left => screen.before(at),
        Direction::Right => screen.after(at),
    };
    screen.move_cursor(to);
}

/// Behind the last character of the field.
pub(crate) fn end_of_field(screen: &mut Screen) {
    let Some(field) = screen.field_of(screen.cursor()) else { return };
    let positions: Vec<usize> = screen.positions(field).collect();
    let blank = |at: &usize| matches!(screen.code(*at), format::NULL | 0x40);
    let used = positions.iter().rposition(|at| !blank(at)).map_or(0, |last| last + 1);
    if let Some(to) = positions.get(used).or(positions.last()) {
        screen.move_cursor(*to);
    }
}

/// What selecting a field by pen or cursor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// It was marked, or the mark taken away.
    Marked,
    /// The host is told that it was selected.
    Attention,
    /// The host is told as by ENTER.
    Enter,
}

/// Selects the field under the cursor, if its attribute and its first character allow that.
pub(crate) fn select(screen: &mut Screen) -> Result<Selected, Lock> {
    const BLANK: u8 = 0x40;
    const AMPERSAND: u8 = 0x50;
    const GREATER: u8 = 0x6e;
    const QUESTION: u8 = 0x6f;
    let field = screen.field_of(screen.cursor()).ok_or(Lock::Protected)?;
    if !screen.attribute(field).is_some_and(FieldAttribute::is_selectable) {
        return Err(Lock::Protected);
    }
    let at = screen.after(field);
    match screen.code(at) {
        QUESTION => {
            screen.set_code(at, GREATER, screen.style(at));
            screen.mark(field, Mark::Modified);
            Ok(Selected::Marked)
        }
        GREATER => {
            screen.set_code(at, QUESTION, screen.style(at));
            screen.mark(field, Mark::Unmodified);
            Ok(Selected::Marked)
        }
        format::NULL | BLANK => {
            screen.mark(field, Mark::Modified);
            Ok(Selected::Attention)
        }
        AMPERSAND => {
            screen.mark(field, Mark::Modified);
            Ok(Selected::Enter)
        }
        _ => Err(Lock::Protected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Size;

    /// Fields: 4 open positions behind 9, skipped from 14 to 19, 3 open ones behind 20.
    fn form() -> Screen {
        let mut screen = Screen::new(Size::MODEL_2, Size::MODEL_2);
        for (at, bits) in [(9, 0x00), (14, 0x30), (20, 0x10), (24, 0x20)] {
            screen.set_field(at, FieldAttribute::of(bits), Style::default());
        }
        screen.move_cursor(10);
        screen
    }

    fn put(screen: &mut Screen, codes: &[u8], typing: Typing) -> Result<(), Lock> {
        codes.iter().try_for_each(|code| type_code(screen, *code, typing, NumericFields::TakeAll))
    }

    #[test]
    fn a_full_field_sends_the_cursor_over_a_skipped_one() {
        let mut screen = form();
        put(&mut screen, &[1, 2, 3, 4], Typing::Over).unwrap();
        assert_eq!(screen.cursor(), 21);
        assert!(screen.attribute(9).unwrap().is_modified());
        put(&mut screen, &[5, 6, 7], Typing::Over).unwrap();
        assert_eq!(screen.cursor(), 25);
        assert_eq!(put(&mut screen, &[8], Typing::Over), Err(Lock::Protected));
    }

    #[test]
    fn insertion_uses_nulls_and_then_overflows() {
        let mut screen = form();
        put(&mut screen, &[0xc2, 0xc3], Typing::Over).unwrap();
        screen.move_cursor(10);
        put(&mut screen, &[0xc1], Typing::Insert).unwrap();
        assert_eq!(screen.codes()[10..14], [0xc1, 0xc2, 0xc3, 0]);
        put(&mut screen, &[0xe7], Typing::Insert).unwrap();
        assert_eq!(put(&mut screen, &[0xe7], Typing::Insert), Err(Lock::Overflow));
        screen.move_cursor(11);
        delete(&mut screen).unwrap();
        assert_eq!(screen.codes()[10..14], [0xc1, 0xc2, 0xc3, 0]);
        backspace(&mut screen).unwrap();
        assert_eq!(screen.codes()[10..14], [0xc2, 0xc3, 0, 0]);
        assert_eq!(backspace(&mut screen), Err(Lock::Protected));
    }

    #[test]
    fn fields_for_numbers_refuse_letters_where_that_is_asked_for() {
        let mut screen = form();
        screen.move_cursor(21);
        let letter = type_code(&mut screen, 0xc1, Typing::Over, NumericFields::TakeNumbers);
        assert_eq!(letter, Err(Lock::Numeric));
        type_code(&mut screen, 0xf1, Typing::Over, NumericFields::TakeNumbers).unwrap();
    }

    #[test]
    fn tabs_go_around() {
        let mut screen = form();
        for expected in [21, 10, 21] {
            tab(&mut screen);
            assert_eq!(screen.cursor(), expected);
        }
        screen.move_cursor(22);
        for expected in [21, 10, 21] {
            back_tab(&mut screen);
            assert_eq!(screen.cursor(), expected);
        }
        home(&mut screen);
        assert_eq!(screen.cursor(), 10);
    }

    #[test]
    fn a_pen_marks_fields_or_tells_the_host() {
        let mut screen = form();
        screen.set_field(30, FieldAttribute::of(0x24), Style::default());
        screen.set_code(31, 0x6f, Style::default());
        screen.move_cursor(31);
        assert_eq!(select(&mut screen), Ok(Selected::Marked));
        assert_eq!(screen.code(31), 0x6e);
        assert!(screen.attribute(30).unwrap().is_modified());
        screen.set_code(31, 0x50, Style::default());
        assert_eq!(select(&mut screen), Ok(Selected::Enter));
        screen.move_cursor(10);
        assert_eq!(select(&mut screen), Err(Lock::Protected));
    }
}
