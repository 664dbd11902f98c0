//! Text of others on pages for people.

use std::fmt::Write as _;

/// Text for HTML, between tags and in quoted attributes. Letters that change the direction of what
/// follows, and control characters, are shown as what they are.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => {
                let _ = write!(escaped, "\u{fffd}(U+{:04X})", u32::from(letter));
            }
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Text for a quoted attribute that a browser sends back: unlike [`escape`] it loses nothing, so
/// nobody should see it.
pub(crate) fn attribute(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' | '<' | '>' | '"' | '\'' | '\0'..=' ' => {
                let _ = write!(escaped, "&#{};", u32::from(letter));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_nothing_else() {
        assert_eq!(
            escape("<img src=x onerror='a'>&\""),
            "&lt;img src=x onerror=&#39;a&#39;&gt;&amp;&quot;"
        );
        assert_eq!(escape("a\u{202e}gpj.exe"), "a\u{fffd}(U+202E)gpj.exe");
        assert_eq!(escape("a\nb\0"), "a\u{fffd}b\u{fffd}");
        assert_eq!(attribute("a\u{202e}\"<ä"), "a\u{202e}&#34;&#60;ä");
    }
}
