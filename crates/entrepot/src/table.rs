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

/// Escapes control characters.
pub(crate) fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let escape = |letter: char| {
        if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() }
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
    }

    #[test]
    fn bytes_for_people() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }
}
