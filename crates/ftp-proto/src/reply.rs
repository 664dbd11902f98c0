//! Replies as bytes (RFC 959 §4.2). A text may have several lines; nothing in it can begin a
//! reply of its own.

/// A code and its text. The text has a line for each `\n`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Three digits, the first of which says how it went.
    pub code: u16,
    /// The lines without code and mark, with `\n` between them.
    pub text: String,
}

/// Appends a reply. Several lines: `ddd-` first, `ddd ` last, those between begin with a blank
/// (if they do not yet), so that none looks like the end. Control characters become `?`.
pub fn write(out: &mut Vec<u8>, code: u16, text: &str) {
    let mut lines = text.split('\n').peekable();
    let mut first = true;
    while let Some(line) = lines.next() {
        match (first, lines.peek().is_some()) {
            (_, false) => head(out, code, b' '),
            (true, true) => head(out, code, b'-'),
            (false, true) if line.starts_with(' ') => {}
            (false, true) => out.push(b' '),
        }
        words(out, line);
        first = false;
    }
}

/// Opens a reply whose lines come later by [`write_between`]; [`write`] with one line ends it.
pub fn write_first(out: &mut Vec<u8>, code: u16, line: &str) {
    head(out, code, b'-');
    words(out, line);
}

/// A line of an open reply.
pub fn write_between(out: &mut Vec<u8>, line: &str) {
    if !line.starts_with(' ') {
        out.push(b' ');
    }
    words(out, line);
}

fn head(out: &mut Vec<u8>, code: u16, mark: u8) {
    out.extend_from_slice(code.to_string().as_bytes());
    out.push(mark);
}

fn words(out: &mut Vec<u8>, line: &str) {
    if line.chars().any(char::is_control) {
        let clean: String =
            line.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
        out.extend_from_slice(clean.as_bytes());
    } else {
        out.extend_from_slice(line.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(code: u16, text: &str) -> String {
        let mut out = Vec::new();
        write(&mut out, code, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_between_never_look_like_the_end() {
        assert_eq!(written(200, "Done."), "200 Done.\r\n");
        assert_eq!(
            written(550, "no\n550 yes\n226 Done.\nend"),
            "550-no\r\n 550 yes\r\n 226 Done.\r\n550 end\r\n"
        );
        assert_eq!(written(211, "F:\n UTF8\nEnd"), "211-F:\r\n UTF8\r\n211 End\r\n");
    }

    #[test]
    fn control_characters_are_not_sent() {
        assert_eq!(written(550, "a\r226 b\u{1b}[2J\u{9b}"), "550 a?226 b?[2J?\r\n");
    }
}
