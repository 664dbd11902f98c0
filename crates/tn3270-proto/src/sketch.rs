//! What a screen shows, in few bytes: for records of many screens. Of colours it keeps nothing.

use crate::model::Size;
use crate::screen::{FieldAttribute, Screen, Style};

/// A screen in few bytes: runs of the same code are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    sizes: [Size; 2],
    size: Size,
    cursor: usize,
    /// How often, and the code.
    codes: Vec<[u8; 2]>,
    /// The places of attributes, and their bits.
    fields: Vec<([u8; 2], u8)>,
    /// Places of characters of other sets, and the set.
    sets: Vec<([u8; 2], u8)>,
}

impl Sketch {
    /// Of a screen as it is now.
    pub fn of(screen: &Screen) -> Sketch {
        let mut codes: Vec<[u8; 2]> = Vec::with_capacity(256);
        for code in screen.codes() {
            match codes.last_mut() {
                Some([count, last]) if last == code && *count < u8::MAX => *count += 1,
                _ => codes.push([1, *code]),
            }
        }
        let bits = |at: usize| screen.attribute(at).map_or(0, FieldAttribute::bits);
        Sketch {
            sizes: screen.sizes(),
            size: screen.size(),
            cursor: screen.cursor(),
            codes,
            fields: screen.fields().map(|at| (place(at), bits(at))).collect(),
            sets: screen.character_sets().map(|(at, set)| (place(at), set)).collect(),
        }
    }

    /// The screen again.
    pub fn screen(&self) -> Screen {
        let [default, alternate] = self.sizes;
        let mut screen = Screen::new(default, alternate);
        if self.size == default {
            screen.erase();
        }
        let mut at = 0;
        for [count, code] in &self.codes {
            for _ in 0..*count {
                screen.set_code(at, *code, Style::default());
                at += 1;
            }
        }
        for (place, set) in &self.sets {
            let at = usize::from(u16::from_be_bytes(*place));
            let style = Style { character_set: *set, ..Style::default() };
            screen.set_code(at, screen.code(at), style);
        }
        for (place, bits) in &self.fields {
            let at = usize::from(u16::from_be_bytes(*place));
            screen.set_field(at, FieldAttribute::of(*bits), Style::default());
        }
        screen.move_cursor(self.cursor);
        screen
    }

    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Sketch>() + self.codes.len() * 2 + (self.fields.len() + self.sets.len()) * 3
    }
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
        let sketch = Sketch::of(&screen);
        let again = sketch.screen();
        assert_eq!((again.size(), again.codes()), (wide, screen.codes()));
        assert_eq!(again.cursor(), 3_501);
        assert_eq!(again.fields().collect::<Vec<_>>(), [0, 3_500]);
        assert!(again.ruling(3_501).is_hidden() && again.ruling(3_501).is_modified());
        assert_eq!(again.style(2_000).character_set, GRAPHIC_ESCAPE);
        assert_eq!(Sketch::of(&again), sketch);
        assert!(sketch.bytes() < 300, "{}", sketch.bytes());
        screen.erase();
        assert_eq!(Sketch::of(&screen).screen().size(), Size::MODEL_2);
    }
}
