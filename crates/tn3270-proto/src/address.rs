//! Addresses of positions on the screen (GA23-0059, "buffer addressing"): two bytes of six bits
//! each, or one number of 14 bits; the two top bits say which.

/// The bytes of six bits, by value: each is a graphic character of EBCDIC.
const SIX_BITS: [u8; 64] = [
    0x40, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f,
    0x50, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0x5a, 0x5b, 0x5c, 0x5d, 0x5e, 0x5f,
    0x60, 0x61, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f,
    0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0x7a, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f,
];

/// Screens above this size need 14-bit addresses.
const TWELVE_BIT_CELLS: usize = 4096;
/// Screens above this size need 16-bit addresses.
const FOURTEEN_BIT_CELLS: usize = 16_384;

/// How the addresses of a data stream are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Addressing {
    /// 12 or 14 bits, as the top two bits of each address say.
    #[default]
    TwelveOrFourteen,
    /// All bits count.
    Sixteen,
}

impl Addressing {
    /// What a screen of so many positions uses.
    pub fn of_screen(cells: usize) -> Self {
        if cells > FOURTEEN_BIT_CELLS { Addressing::Sixteen } else { Addressing::TwelveOrFourteen }
    }

    /// The position that two bytes name.
    pub fn decode(self, bytes: [u8; 2]) -> usize {
        let [high, low] = bytes.map(usize::from);
        match self {
            Addressing::Sixteen => high << 8 | low,
            Addressing::TwelveOrFourteen if high & 0xc0 == 0 => (high & 0x3f) << 8 | low,
            Addressing::TwelveOrFourteen => (high & 0x3f) << 6 | low & 0x3f,
        }
    }
}

/// The two bytes of a position on a screen of so many positions.
pub fn encode(position: usize, cells: usize) -> [u8; 2] {
    if cells <= TWELVE_BIT_CELLS {
        return [six_bits(position >> 6), six_bits(position)];
    }
    // Screens have at most 2^16 positions, so that two bytes hold the address.
    let [.., high, low] = position.to_be_bytes();
    if cells > FOURTEEN_BIT_CELLS { [high, low] } else { [high & 0x3f, low] }
}

/// The graphic character that carries the low six bits of a value.
pub(crate) fn six_bits(value: usize) -> u8 {
    // Six bits index a table of 64.
    SIX_BITS[value & 0x3f]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_comes_back() {
        for cells in [1920, 3440, 3564, 4096, 5000, 16_384, 20_000] {
            let addressing = Addressing::of_screen(cells);
            for position in 0..cells {
                assert_eq!(addressing.decode(encode(position, cells)), position, "{cells}");
            }
        }
        assert_eq!(encode(80, 1920), [0xc1, 0x50]);
        assert_eq!(encode(80, 5000), [0, 80]);
    }
}
