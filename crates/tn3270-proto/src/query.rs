//! Query Reply: what the terminal says that it can (GA23-0059, "Query Reply").

use crate::code_page::CodePage;
use crate::model::{Colour, DataStream, Device, Size};

const QUERY_REPLY: u8 = 0x81;
const SUMMARY: u8 = 0x80;
const USABLE_AREA: u8 = 0x81;
const PARTITIONS: u8 = 0x84;
const CHARACTER_SETS: u8 = 0x85;
const COLOUR: u8 = 0x86;
const HIGHLIGHT: u8 = 0x87;
const REPLY_MODES: u8 = 0x88;
const IMPLICIT_PARTITION: u8 = 0xa6;
const NULL: u8 = 0xff;

/// All that this terminal has something to say about, in the order of its replies.
const ALL: [u8; 8] = [
    SUMMARY,
    USABLE_AREA,
    PARTITIONS,
    CHARACTER_SETS,
    COLOUR,
    HIGHLIGHT,
    REPLY_MODES,
    IMPLICIT_PARTITION,
];

/// What the replies depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described<'a> {
    pub(crate) device: Device,
    pub(crate) page: &'a CodePage,
    pub(crate) default_size: Size,
}

/// Which replies a host wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Query<'a> {
    /// All of them.
    All,
    /// Those with these codes; if there is none of them, the reply that says so.
    Listed(&'a [u8]),
}

/// Appends the replies that are wanted, each a structured field.
pub(crate) fn put_replies(of: &Described<'_>, query: Query<'_>, out: &mut Vec<u8>) {
    let wanted = |code: &u8| match query {
        Query::All => true,
        Query::Listed(codes) => codes.contains(code),
    };
    let before = out.len();
    ALL.iter().filter(|code| wanted(code)).for_each(|code| put_reply(of, *code, out));
    if out.len() == before {
        put_reply(of, NULL, out);
    }
}

fn put_reply(of: &Described<'_>, code: u8, out: &mut Vec<u8>) {
    let body = match code {
        SUMMARY => ALL.to_vec(),
        USABLE_AREA => usable_area(of),
        PARTITIONS => {
            let mut body = vec![0];
            body.extend(two_bytes(of.device.model.alternate().cells()));
            body.push(0);
            body
        }
        CHARACTER_SETS => character_sets(of.page),
        COLOUR => colours(of.device.colour),
        HIGHLIGHT => vec![4, 0x00, 0xf0, 0xf1, 0xf1, 0xf2, 0xf2, 0xf4, 0xf4],
        REPLY_MODES => vec![0, 1, 2],
        IMPLICIT_PARTITION => implicit_partition(of),
        _ => Vec::new(),
    };
    out.extend(two_bytes(body.len() + 4));
    out.extend([QUERY_REPLY, code]);
    out.extend(body);
}

/// Screens have at most 65,535 positions, so that all their numbers fit.
fn two_bytes(value: usize) -> [u8; 2] {
    u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes()
}

fn usable_area(of: &Described<'_>) -> Vec<u8> {
    let size = of.device.model.alternate();
    // 12- and 14-bit addresses, or 16-bit ones; then no special feature.
    let addressing = if size.cells() > 16_384 { 0x03 } else { 0x01 };
    let mut body = vec![addressing, 0x00];
    body.extend(two_bytes(size.columns));
    body.extend(two_bytes(size.rows));
    // Millimetres; width 10/741 and height 2/111 of one for each point; characters of 9 × 12.
    body.extend([0x01, 0x00, 0x0a, 0x02, 0xe5, 0x00, 0x02, 0x00, 0x6f, 0x09, 0x0c]);
    body.extend(two_bytes(size.cells()));
    body
}

fn character_sets(page: &CodePage) -> Vec<u8> {
    // Graphic escape, and sets are named by their global numbers; characters of 9 × 12 points; no
    // set can be loaded; seven bytes describe each.
    let mut body = vec![0x82, 0x00, 0x09, 0x0c, 0x00, 0x00, 0x00, 0x00, 0x07];
    let [set_high, set_low] = character_set_of(page.number()).to_be_bytes();
    let [page_high, page_low] = page.number().to_be_bytes();
    body.extend([0x00, 0x10, 0x00, set_high, set_low, page_high, page_low]);
    // APL and line drawing: set 963 of page 310.
    body.extend([0x01, 0x00, 0xf1, 0x03, 0xc3, 0x01, 0x36]);
    body
}

/// The number of the character set that a code page holds whole, by IBM's registry; 65535 says
/// "all of that page".
fn character_set_of(page: u16) -> u16 {
    match page {
        37 | 273 | 275 | 277 | 278 | 280 | 284 | 285 | 297 | 500 | 871 | 1047 => 697,
        1140..=1149 => 695,
        424 => 941,
        870 => 959,
        875 => 925,
        880 => 960,
        1026 => 1152,
        _ => 65_535,
    }
}

fn colours(colour: Colour) -> Vec<u8> {
    // The default shows as green; then seven colours more, each as itself or all as the default.
    let mut body = vec![0x00, 0x08, 0x00, 0xf4];
    for code in 0xf1..=0xf7 {
        let shown = match colour {
            Colour::Colour => code,
            Colour::Monochrome => 0x00,
        };
        body.extend([code, shown]);
    }
    body
}

fn implicit_partition(of: &Described<'_>) -> Vec<u8> {
    let alternate = of.device.model.alternate();
    // One self-defining parameter of eleven bytes: the sizes of the screen.
    let mut body = vec![0x00, 0x00, 0x0b, 0x01, 0x00];
    for size in [of.default_size, alternate] {
        body.extend(two_bytes(size.columns));
        body.extend(two_bytes(size.rows));
    }
    body
}

/// True if a terminal answers queries at all.
pub(crate) fn is_answered(device: &Device) -> bool {
    device.data_stream == DataStream::Extended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_lists_each_reply_that_is_given() {
        let page = CodePage::new(37).unwrap();
        let device = Device::named("IBM-3279-4-E").unwrap();
        let of = Described { device, page: &page, default_size: Size::MODEL_2 };
        let mut out = Vec::new();
        put_replies(&of, Query::All, &mut out);
        let mut given = Vec::new();
        let mut rest = &out[..];
        while let [high, low, QUERY_REPLY, code, ..] = *rest {
            given.push(code);
            rest = &rest[usize::from(u16::from_be_bytes([high, low]))..];
        }
        assert!(rest.is_empty());
        assert_eq!(given, out[4..4 + ALL.len()]);
        let mut none = Vec::new();
        put_replies(&of, Query::Listed(&[0x95]), &mut none);
        assert_eq!(none, [0, 4, 0x81, 0xff]);
        let mut area = Vec::new();
        put_replies(&of, Query::Listed(&[USABLE_AREA]), &mut area);
        assert_eq!(area[4..10], [1, 0, 0, 80, 0, 43]);
    }
}
