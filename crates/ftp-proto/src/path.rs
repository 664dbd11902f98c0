//! Names on the wire: virtual paths, quotes, what a new name may hold.

use crate::limits::{COMPONENT_BYTES, PATH_BYTES};

/// Why a name is refused before anyone looks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFlaw {
    /// NUL or a line break, which no name on any store of ours has.
    #[error("a name holds a NUL or a line break: leave it out")]
    Forbidden,
    /// A control character in a name that would be new.
    #[error("a new name must not hold control characters: leave them out")]
    Control,
    /// Bytes that are not UTF-8: names are text here.
    #[error("a name is not UTF-8: send it in UTF-8")]
    Encoding,
    /// Above [`PATH_BYTES`] or [`COMPONENT_BYTES`].
    #[error("a name is too long: at most 255 bytes, a path 4096")]
    TooLong,
}

/// The absolute path that `argument` means in `directory`: lexical, `..` stops at the root,
/// empty components and `.` are nothing. `\` and `~` have no meaning.
///
/// # Errors
/// What cannot be a name.
pub fn resolve(directory: &str, argument: &str) -> Result<String, NameFlaw> {
    if argument.bytes().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        return Err(NameFlaw::Forbidden);
    }
    let start = if argument.starts_with('/') { "" } else { directory };
    let mut path = String::with_capacity(start.len() + argument.len() + 1);
    for component in start.split('/').chain(argument.split('/')) {
        match component {
            "" | "." => {}
            ".." => path.truncate(path.rfind('/').unwrap_or(0)),
            name if name.len() > COMPONENT_BYTES => return Err(NameFlaw::TooLong),
            name => {
                path.push('/');
                path.push_str(name);
            }
        }
    }
    if path.len() > PATH_BYTES {
        return Err(NameFlaw::TooLong);
    }
    if path.is_empty() {
        path.push('/');
    }
    Ok(path)
}

/// As [`resolve`], for a name that would be new: without control characters.
///
/// # Errors
/// What cannot be a name, or not a new one.
pub fn resolve_new(directory: &str, argument: &str) -> Result<String, NameFlaw> {
    let path = resolve(directory, argument)?;
    if path.chars().any(char::is_control) { Err(NameFlaw::Control) } else { Ok(path) }
}

/// The directory above, and the last component. The root is above itself.
pub fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => ("/", path),
    }
}

/// In quotes, with each quote doubled (RFC 959 Appendix II).
pub fn quote(path: &str) -> String {
    format!("\"{}\"", path.replace('"', "\"\""))
}

/// A quoted name at the front of `text` and what stands behind it; `None` if it does not begin
/// with a quote or never ends.
pub fn unquote(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut name = String::new();
    let mut letters = inner.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != '"' {
            name.push(letter);
            continue;
        }
        if letters.peek().is_some_and(|(_, next)| *next == '"') {
            letters.next();
            name.push('"');
            continue;
        }
        return Some((name, inner.get(at + 1..).unwrap_or("")));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_resolved_without_leaving_the_root() {
        for (directory, argument, path) in [
            ("/", "a", "/a"),
            ("/a/b", "..", "/a"),
            ("/a", "../../../b", "/b"),
            ("/a", "/", "/"),
            ("/a", "", "/a"),
            ("/", "..", "/"),
            ("/a", "b//./c/", "/a/b/c"),
            ("/a", " b ", "/a/ b "),
            ("/a", "~\\x", "/a/~\\x"),
            ("/a", "...", "/a/..."),
        ] {
            assert_eq!(resolve(directory, argument).unwrap(), path, "{directory} {argument}");
        }
        assert_eq!(resolve("/", "a\0b"), Err(NameFlaw::Forbidden));
        assert_eq!(resolve("/", "a\rb"), Err(NameFlaw::Forbidden));
        assert_eq!(resolve("/", &"a".repeat(256)), Err(NameFlaw::TooLong));
        assert_eq!(resolve("/", &"a/".repeat(3000)), Err(NameFlaw::TooLong));
        assert_eq!(resolve_new("/", "a\u{1b}[2J"), Err(NameFlaw::Control));
        assert_eq!(resolve_new("/", "a\u{85}"), Err(NameFlaw::Control));
    }

    proptest! {
        #[test]
        fn quotes_come_off_as_they_went_on(name in "[a\" é]{0,12}", rest in "[a\\PC&&[^\"]]{0,3}") {
            let rest = format!(" {rest}");
            let text = format!("{}{rest}", quote(&name));
            prop_assert_eq!(unquote(&text), Some((name, rest.as_str())));
        }

        #[test]
        fn resolved_paths_are_clean(start in "(/[a.]{1,3}){0,3}", name in "[a./]{0,12}") {
            let start = resolve("/", &start).unwrap();
            let path = resolve(&start, &name).unwrap();
            prop_assert!(path.starts_with('/'));
            prop_assert!(!path.split('/').any(|part| part == ".." || part == "."));
            prop_assert_eq!(resolve("/", &path).unwrap(), path);
        }
    }
}
