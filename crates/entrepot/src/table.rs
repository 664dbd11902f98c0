//! Tables for people.

use std::io::Write;

/// Prints rows under headings, columns as wide as their widest cell. Control characters in cells
/// are escaped, so that a file name cannot steer the terminal.
pub(crate) fn print(headings: &[&str], rows: &[Vec<String>]) {
    let clean: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(column, heading)| {
            let cells = clean.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).chain([heading.len()]).max().unwrap_or(0)
        })
        .collect();
    let mut out = std::io::stdout().lock();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        // A closed pipe (`| head`) is no error of ours.
        let _ = writeln!(out, "{}", padded.join("  ").trim_end());
    };
    let upper: Vec<String> = headings.iter().map(|heading| heading.to_uppercase()).collect();
    line(&mut upper.iter().map(String::as_str));
    for row in &clean {
        line(&mut row.iter().map(String::as_str));
    }
    if clean.is_empty() {
        line(&mut std::iter::once("(none)"));
    }
}

/// Escapes characters that steer a terminal, or the order in which it shows others.
pub(crate) fn printable(text: &str) -> String {
    escaped(text, |letter| letter.is_control() || is_bidirectional(letter))
}

/// The same line by line: what breaks lines stays.
pub(crate) fn printable_lines(text: &str) -> String {
    let steers = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    escaped(text, |letter| steers(letter) || is_bidirectional(letter))
}

/// True for characters by which text seems to say something else than it does (Unicode Annex 9):
/// `fdp.exe` behind U+202E reads as `exe.pdf`.
pub(crate) fn is_bidirectional(letter: char) -> bool {
    matches!(
        letter,
        '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{61c}'
    )
}

/// Escapes the characters that `which` names.
pub(crate) fn escaped(text: &str, which: impl Fn(char) -> bool) -> String {
    if !text.chars().any(&which) {
        return text.to_owned();
    }
    let escape = |letter: char| {
        if which(letter) { letter.escape_default().to_string() } else { letter.to_string() }
    };
    text.chars().map(escape).collect()
}

/// Bytes for people: `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = UNITS.iter();
    let mut name = unit.next().copied().unwrap_or_default();
    while value >= 1024.0 {
        let Some(next) = unit.next() else { break };
        name = next;
        value /= 1024.0;
    }
    format!("{value:.1} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable("ä b"), "ä b");
        assert_eq!(printable_lines("a\n\x1b\tb"), "a\n\\u{1b}\tb");
    }

    #[test]
    fn a_name_is_shown_in_the_order_of_its_letters() {
        assert_eq!(printable("invoice\u{202e}fdp.exe"), "invoice\\u{202e}fdp.exe");
        let all = "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\
                   \u{200e}\u{200f}\u{61c}";
        assert!(printable(all).is_ascii() && printable_lines(all).is_ascii());
        assert_eq!(
            printable("שלום שָׁלוֹם العربية"),
            "שלום שָׁלוֹם العربية",
            "words of such scripts stay"
        );
    }

    #[test]
    fn bytes_for_people() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }
}
