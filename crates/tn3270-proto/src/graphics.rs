//! Characters behind the order GE: IBM's code page 310, APL and line drawing.

/// The characters of codes 70 to FF, a blank where there is none.
const CHARACTERS: [&str; 9] = [
    "⋄∧¨⌻⍸⍷⊢⊣∨       ",
    "∼  ⎸⎹│    ↑↓≤⌈⌊→",
    "⎕▌▐▀▄■    ⊃⊂¤○±←",
    "¯°─•      ∩∪⊥[≥∘",
    "⍺∊⍳⍴⍵ ×\\÷ ∇∆⊤]≠∣",
    "{⁼+∎└┌├┴§ ⍲⍱⌷⌽⍂⍉",
    "}⁾-┼┘┐┤┬¶ ⌶!⍒⍋⍞⍝",
    "≡₁ʂʃ⍤⍥⍪€  ⌿⍀∵⊖⌹⍕",
    "⁰¹²³⁴⁵⁶⁷⁸⁹ ⍫⍙⍟⍎ ",
];
const FIRST: u8 = 0x70;

/// What a code shows; a blank for those without a character.
pub(crate) fn character(code: u8) -> char {
    let Some(at) = code.checked_sub(FIRST).map(usize::from) else { return ' ' };
    let row = CHARACTERS.get(at / 16);
    row.and_then(|row| row.chars().nth(at % 16)).unwrap_or(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_corners_are_where_terminals_have_them() {
        assert!(CHARACTERS.iter().all(|row| row.chars().count() == 16));
        let corners: String = [0xc5, 0xa2, 0xd5, 0x85, 0xc4, 0xd4].map(character).iter().collect();
        assert_eq!(corners, "┌─┐│└┘");
        assert_eq!(character(0x41), ' ');
    }
}
