//! EBCDIC code pages of one byte a character, both ways.

use crate::codes::format;
use crate::limits::CODE_PAGES_HELD;

/// Written by `scripts/make-code-pages`; its head says what a line is.
static TABLES: &str = include_str!("code_pages.txt");

/// A single-byte code page: which character a code shows, and which code types a character.
/// Building one reads a table of text, so build it once and share it.
#[derive(Clone, Debug)]
pub struct CodePage {
    number: u16,
    characters: Box<[char; 256]>,
    /// The same as a screen shows them: what has no character is a blank.
    shown: Box<[char; 256]>,
    /// Sorted by character.
    codes: Vec<Code>,
    /// The codes of the first characters, which nearly all texts are made of.
    first: Box<[Option<u8>; 256]>,
}

#[derive(Clone, Copy, Debug)]
struct Code {
    character: char,
    code: u8,
}

impl CodePage {
    /// The page with IBM's number, 37 for US English. `None`: it is not among those built in.
    pub fn new(number: u16) -> Option<Self> {
        let mut characters = Box::new(['\0'; 256]);
        let mut found = false;
        for line in TABLES.lines() {
            let mut words = line.split(' ');
            if words.next().and_then(|word| word.parse().ok()) != Some(number) {
                continue;
            }
            let first = words.next().and_then(|word| usize::from_str_radix(word, 16).ok())?;
            let row = characters.iter_mut().skip(first);
            for (slot, word) in row.zip(words) {
                let value = u32::from_str_radix(word, 16).ok()?;
                *slot = char::from_u32(value)?;
            }
            found = true;
        }
        found.then(|| Self::from_characters(number, characters))
    }

    /// A page by what people call it: `037`, `37`, `cp037`, `IBM-1140`.
    pub fn named(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let digits = lower.trim_start_matches("ibm").trim_start_matches("cp");
        digits.trim_start_matches(['-', '_']).parse().ok().and_then(Self::new)
    }

    /// The numbers of all pages that are built in.
    pub fn numbers() -> Vec<u16> {
        let mut numbers = Vec::with_capacity(CODE_PAGES_HELD);
        for line in TABLES.lines() {
            let number = line.split(' ').next().and_then(|word| word.parse().ok());
            numbers.extend(number.filter(|number| numbers.last() != Some(number)));
        }
        numbers
    }

    fn from_characters(number: u16, characters: Box<[char; 256]>) -> Self {
        let mut codes: Vec<Code> = (0..=u8::MAX)
            .zip(characters.iter())
            .filter(|(_, character)| **character != '\0')
            .map(|(code, character)| Code { character: *character, code })
            .collect();
        codes.sort_by_key(|it| (it.character, it.code));
        codes.dedup_by_key(|it| it.character);
        let mut first = Box::new([None; 256]);
        for Code { character, code } in &codes {
            if let Some(slot) = first.get_mut(*character as usize) {
                *slot = Some(*code);
            }
        }
        let mut shown = characters.clone();
        for (code, character) in (0..=u8::MAX).zip(shown.iter_mut()) {
            *character = match (code, *character) {
                (format::DUP, _) => '*',
                (format::FIELD_MARK, _) => ';',
                (_, '\0') => ' ',
                (_, character) => character,
            };
        }
        CodePage { number, characters, shown, codes, first }
    }

    /// IBM's number of it.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// What a code shows; `None` for a control character or a code without a character.
    pub fn character(&self, code: u8) -> Option<char> {
        self.characters.get(usize::from(code)).copied().filter(|found| *found != '\0')
    }

    /// What a screen shows for a code: a blank where there is no character, and signs for two of
    /// the controls.
    pub(crate) fn shown(&self, code: u8) -> char {
        self.shown.get(usize::from(code)).copied().unwrap_or(' ')
    }

    /// The code that a character is typed as; `None` if the page lacks it.
    pub fn code(&self, character: char) -> Option<u8> {
        if let Some(code) = self.first.get(character as usize) {
            return *code;
        }
        let at = self.codes.binary_search_by_key(&character, |it| it.character).ok()?;
        self.codes.get(at).map(|it| it.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_differ_where_ibm_says() {
        let code = |page, character| CodePage::new(page).unwrap().code(character);
        assert_eq!(code(37, 'A'), Some(0xc1));
        assert_eq!(code(37, '['), Some(0xba));
        assert_eq!(code(1047, '['), Some(0xad));
        assert_eq!(code(273, 'ä'), Some(0xc0));
        assert_eq!(code(1140, '€'), Some(0x9f));
        assert_eq!(code(37, '€'), None);
        assert_eq!(CodePage::new(37).unwrap().character(0x15), None);
    }

    #[test]
    fn every_page_has_letters_and_goes_both_ways() {
        assert!(CodePage::numbers().len() > 45);
        for number in CodePage::numbers() {
            let page = CodePage::new(number).unwrap();
            // Katakana and Arabic pages have no lower case where others have it.
            for letter in ('A'..='Z').chain('0'..='9') {
                let code = page.code(letter).unwrap();
                assert_eq!(page.character(code), Some(letter), "{number}");
            }
        }
    }

    #[test]
    fn pages_have_several_names() {
        for name in ["37", "037", "cp037", "IBM-037", "IBM037"] {
            assert_eq!(CodePage::named(name).unwrap().number(), 37, "{name}");
        }
        assert!(CodePage::named("utf-8").is_none());
    }
}
