//! Words of a line, as OpenSSH splits arguments: spaces part them, quotes keep them together, a
//! backslash takes away the meaning of a quote, a backslash or a space.

/// The words of a line; `None` if a quote is not closed.
pub(crate) fn split(line: &str) -> Option<Vec<String>> {
    words(line, Comments::AreWords)
}

/// The same up to a word that begins with `#`.
pub(crate) fn split_commented(line: &str) -> Option<Vec<String>> {
    words(line, Comments::EndTheLine)
}

/// What a word that begins with `#` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comments {
    AreWords,
    EndTheLine,
}

fn words(line: &str, comments: Comments) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) if letters.peek().is_some_and(|next| is_escaped(*next, quote)) => {
                word.get_or_insert_default().extend(letters.next());
            }
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, Some(open)) if letter == open => quote = None,
            (' ' | '\t', None) => words.extend(word.take()),
            ('#', None) if comments == Comments::EndTheLine && word.is_none() => {
                return Some(words);
            }
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn is_escaped(next: char, quote: Option<char>) -> bool {
    matches!(next, '"' | '\'' | '\\') || (next == ' ' && quote.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_quotes_and_backslashes() {
        let words = |line: &str| split(line).unwrap();
        assert_eq!(words("  a  b\tc "), ["a", "b", "c"]);
        assert_eq!(words("a \"b c\" 'd e'f"), ["a", "b c", "d ef"]);
        assert_eq!(words(r#"a\ b "c\"d" \\"#), ["a b", "c\"d", "\\"]);
        assert_eq!(words("\"\""), [""]);
        assert!(split("\"a").is_none() && split("'").is_none());
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words("a #b"), ["a", "#b"]);
        assert_eq!(split_commented("a#b '#c' # d").unwrap(), ["a#b", "#c"]);
    }
}
