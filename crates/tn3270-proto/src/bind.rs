//! The BIND of a session (SNA Formats GA27-3136), of which a terminal needs sizes and a name.

use crate::model::Size;

/// What a BIND-IMAGE record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    /// The name of the application, in EBCDIC.
    pub(crate) application: Vec<u8>,
    /// The size of Erase/Write.
    pub(crate) default_size: Size,
    /// The size of Erase/Write Alternate.
    pub(crate) alternate_size: Size,
}

const BIND_CODE: u8 = 0x31;
const SIZES_AT: usize = 20;
const NAME_AT: usize = 27;

impl Bind {
    /// Reads one for a terminal whose largest size is `largest`. `None`: it is no BIND, or asks for
    /// a larger screen.
    pub(crate) fn parse(record: &[u8], largest: Size) -> Option<Self> {
        if record.first() != Some(&BIND_CODE) {
            return None;
        }
        let (default_size, alternate_size) = match record.get(SIZES_AT..SIZES_AT + 5) {
            Some([rows, columns, _, _, 0x7e]) => {
                let size = size(*rows, *columns)?;
                (size, size)
            }
            Some([rows, columns, more_rows, more_columns, 0x7f]) => {
                (size(*rows, *columns)?, size(*more_rows, *more_columns)?)
            }
            Some([.., 0x00 | 0x02]) => (Size::MODEL_2, Size::MODEL_2),
            _ => (Size::MODEL_2, largest),
        };
        let fits = |size: Size| size.rows <= largest.rows && size.columns <= largest.columns;
        let name = record.get(NAME_AT).map_or(0, |length| usize::from(*length).min(8));
        let application = record.get(NAME_AT + 1..NAME_AT + 1 + name).unwrap_or(&[]).to_vec();
        (fits(default_size) && fits(alternate_size)).then_some(Bind {
            application,
            default_size,
            alternate_size,
        })
    }
}

fn size(rows: u8, columns: u8) -> Option<Size> {
    Size::new(usize::from(rows), usize::from(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_in_four_ways() {
        let largest = Size { rows: 43, columns: 80 };
        let bind = |sizes: [u8; 5]| {
            let mut record = vec![BIND_CODE];
            record.resize(SIZES_AT, 0);
            record.extend(sizes);
            record.extend([0, 0, 2, 0xc1, 0xc2]);
            Bind::parse(&record, largest)
        };
        let both = bind([24, 80, 43, 80, 0x7f]).unwrap();
        assert_eq!((both.default_size, both.alternate_size), (Size::MODEL_2, largest));
        assert_eq!(both.application, [0xc1, 0xc2]);
        assert_eq!(bind([32, 80, 0, 0, 0x7e]).unwrap().alternate_size.rows, 32);
        assert_eq!(bind([0, 0, 0, 0, 3]).unwrap().alternate_size, largest);
        assert_eq!(bind([0, 0, 0, 0, 2]).unwrap().alternate_size, Size::MODEL_2);
        assert_eq!(bind([24, 80, 62, 160, 0x7f]), None);
        assert_eq!(Bind::parse(&[0], largest), None);
    }
}
