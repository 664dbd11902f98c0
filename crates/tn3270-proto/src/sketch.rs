//! What a screen shows, in few bytes: for records of many screens. Of colours it keeps nothing.

use std::collections::VecDeque;

use crate::model::Size;
use crate::screen::{FieldAttribute, Screen, Style};

/// A screen in few bytes, and made in little time: it is compared and copied by words. What it
/// shows is in bytes elsewhere, where many screens stand one behind the other: the codes as runs of
/// words, each behind its head; then the attributes and then the other sets, each as a place and
/// its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sketch {
    sizes: [Size; 2],
    size: Size,
    cursor: usize,
    attributes_at: usize,
    sets_at: usize,
    length: usize,
}

/// So many codes are a word. The last one of a screen may have less.
const WORD: usize = 16;
/// In the head of a run: its words follow as they are. Without it a single code follows, of which
/// all words are. The other bits are how many words there are.
const AS_IT_IS: u8 = 0x80;
/// Most words of a run.
const RUN: usize = 0x7f;

impl Sketch {
    /// Of a screen as it is now; its bytes go behind those that are there.
    pub fn put(screen: &Screen, bytes: &mut VecDeque<u8>) -> Sketch {
        let begin = bytes.len();
        put_runs(screen.codes(), bytes);
        let attributes_at = bytes.len() - begin;
        for at in screen.fields() {
            let [high, low] = place(at);
            let bits = screen.attribute(at).map_or(0, FieldAttribute::bits);
            bytes.extend(&[high, low, bits]);
        }
        let sets_at = bytes.len() - begin;
        for (at, set) in screen.character_sets() {
            let [high, low] = place(at);
            bytes.extend(&[high, low, set]);
        }
        Sketch {
            sizes: screen.sizes(),
            size: screen.size(),
            cursor: screen.cursor(),
            attributes_at,
            sets_at,
            length: bytes.len() - begin,
        }
    }

    /// The screen again, from its bytes.
    pub fn screen(&self, bytes: &[u8]) -> Screen {
        let [default, alternate] = self.sizes;
        let mut screen = Screen::new(default, alternate);
        if self.size == default {
            screen.erase();
        }
        let (runs, rest) = bytes.split_at(self.attributes_at.min(bytes.len()));
        let (attributes, sets) = rest.split_at((self.sets_at - self.attributes_at).min(rest.len()));
        take_runs(runs, screen.codes_mut());
        for (at, set) in placed(sets) {
            let style = Style { character_set: set, ..Style::default() };
            screen.set_code(at, screen.code(at), style);
        }
        for (at, bits) in placed(attributes) {
            screen.set_field(at, FieldAttribute::of(bits), Style::default());
        }
        screen.move_cursor(self.cursor);
        screen
    }

    /// How many bytes it has elsewhere.
    pub fn length(&self) -> usize {
        self.length
    }
}

/// Writes codes as runs.
fn put_runs(codes: &[u8], out: &mut VecDeque<u8>) {
    let mut rest = codes;
    while !rest.is_empty() {
        let only = rest.chunks(WORD).next().and_then(only_code);
        let same = rest.chunks(WORD).take(RUN).take_while(|word| only_code(word) == only);
        let words = same.count();
        let (run, behind) = rest.split_at((words * WORD).min(rest.len()));
        // No run has more than RUN words.
        let count = words as u8;
        match only {
            Some(code) => out.extend(&[count, code]),
            None => {
                out.push_back(AS_IT_IS | count);
                out.extend(run);
            }
        }
        rest = behind;
    }
}

/// The code of a whole word that has no other one.
fn only_code(word: &[u8]) -> Option<u8> {
    let word: [u8; WORD] = word.try_into().ok()?;
    let [first, ..] = word;
    (word == [first; WORD]).then_some(first)
}

/// Reads them again.
fn take_runs(mut runs: &[u8], mut codes: &mut [u8]) {
    while let Some((head, rest)) = runs.split_first() {
        let length = (usize::from(head & !AS_IT_IS) * WORD).min(codes.len());
        let (run, behind) = codes.split_at_mut(length);
        codes = behind;
        runs = if head & AS_IT_IS == 0 {
            let Some((code, rest)) = rest.split_first() else { return };
            run.fill(*code);
            rest
        } else {
            let Some((as_it_is, rest)) = rest.split_at_checked(length) else { return };
            run.copy_from_slice(as_it_is);
            rest
        };
    }
}

/// Places and their bits.
fn placed(bytes: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let (all, _) = bytes.as_chunks::<3>();
    all.iter().map(|[high, low, bits]| (usize::from(u16::from_be_bytes([*high, *low])), *bits))
}

/// A screen has no more than 16,384 positions.
fn place(at: usize) -> [u8; 2] {
    let [.., high, low] = at.to_be_bytes();
    [high, low]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::GRAPHIC_ESCAPE;

    #[test]
    fn a_screen_comes_back_from_its_sketch() {
        let wide = Size::new(27, 132).unwrap();
        let mut screen = Screen::new(Size::MODEL_2, wide);
        screen.set_field(0, FieldAttribute::of(0x60), Style::default());
        screen.set_field(3_500, FieldAttribute::of(0x4d), Style::default());
        for at in 10..700 {
            screen.set_code(at, 0xc1, Style::default());
        }
        let graphic = Style { character_set: GRAPHIC_ESCAPE, ..Style::default() };
        screen.set_code(2_000, 0xad, graphic);
        screen.move_cursor(3_501);
        // Behind another one.
        let mut bytes = VecDeque::from([1, 2, 3]);
        let sketch = Sketch::put(&screen, &mut bytes);
        let again = sketch.screen(&bytes.make_contiguous()[3..]);
        assert_eq!((again.size(), again.codes()), (wide, screen.codes()));
        assert_eq!(again.cursor(), 3_501);
        assert_eq!(again.fields().collect::<Vec<_>>(), [0, 3_500]);
        assert!(again.ruling(3_501).is_hidden() && again.ruling(3_501).is_modified());
        assert_eq!(again.style(2_000).character_set, GRAPHIC_ESCAPE);
        let mut bytes_again = VecDeque::new();
        assert_eq!(Sketch::put(&again, &mut bytes_again), sketch);
        bytes.drain(..3);
        assert_eq!(bytes_again, bytes);
        assert!(sketch.length() == bytes.len() && bytes.len() < 200, "{}", bytes.len());
        screen.erase();
        let sketch = Sketch::put(&screen, &mut bytes);
        assert_eq!(
            sketch.screen(&bytes.make_contiguous()[bytes_again.len()..]).size(),
            Size::MODEL_2
        );
    }
}
