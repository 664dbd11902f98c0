//! A command line, split as a POSIX shell does it (POSIX.1-2017 XCU §2.2, §2.3, §2.13): quotes and
//! backslashes. Nothing is run and nothing expanded but a leading `~` and, where the caller asks,
//! `*`, `?` and `[…]`; what would make a shell do more is refused.

use crate::limits::COMMAND_LINE_BYTES;

/// Why a command line is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// Longer than [`COMMAND_LINE_BYTES`].
    #[error("the command line is longer than 32768 bytes")]
    TooLong,
    /// Not UTF-8, or with a NUL byte.
    #[error("the command line is not valid UTF-8")]
    NotText,
    /// A letter that asks a shell for more than words.
    #[error("the command line has a '{0}' outside quotes")]
    Live(char),
    /// A quote without its end, or a backslash at the end.
    #[error("the command line has a quote without its end")]
    Open,
}

/// A word of a command line, quotes removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    text: String,
    /// Places of `*`, `?`, `[` and `]` that stood outside quotes.
    live: Vec<usize>,
    tilde: bool,
}

/// Splits a command line into words.
///
/// # Errors
/// What is in it makes more than words.
pub fn split(line: &[u8]) -> Result<Vec<Word>, Unclear> {
    if line.len() > COMMAND_LINE_BYTES {
        return Err(Unclear::TooLong);
    }
    let line = std::str::from_utf8(line).map_err(|_| Unclear::NotText)?;
    if line.contains('\0') {
        return Err(Unclear::NotText);
    }
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => single(&mut letters, word.get_or_insert_default())?,
            '"' => double(&mut letters, word.get_or_insert_default())?,
            '\\' => match letters.next() {
                // A line that goes on.
                Some('\n') => {}
                Some(next) => word.get_or_insert_default().text.push(next),
                None => return Err(Unclear::Open),
            },
            '$' | '`' | ';' | '|' | '&' | '<' | '>' | '(' | ')' | '\n' | '\r' => {
                return Err(Unclear::Live(letter));
            }
            _ => word.get_or_insert_default().push_live(letter),
        }
    }
    words.extend(word.take());
    Ok(words)
}

/// The rest of `'…'`.
fn single(letters: &mut std::str::Chars<'_>, word: &mut Word) -> Result<(), Unclear> {
    loop {
        match letters.next() {
            Some('\'') => return Ok(()),
            Some(letter) => word.text.push(letter),
            None => return Err(Unclear::Open),
        }
    }
}

/// The rest of `"…"`.
fn double(letters: &mut std::str::Chars<'_>, word: &mut Word) -> Result<(), Unclear> {
    loop {
        match letters.next() {
            Some('"') => return Ok(()),
            Some('\\') => match letters.next() {
                Some('\n') => {}
                Some(next @ ('$' | '`' | '"' | '\\')) => word.text.push(next),
                Some(next) => word.text.extend(['\\', next]),
                None => return Err(Unclear::Open),
            },
            Some(letter @ ('$' | '`')) => return Err(Unclear::Live(letter)),
            Some(letter) => word.text.push(letter),
            None => return Err(Unclear::Open),
        }
    }
}

impl Word {
    fn push_live(&mut self, letter: char) {
        if letter == '~' && self.text.is_empty() {
            self.tilde = true;
        }
        if matches!(letter, '*' | '?' | '[' | ']') {
            self.live.push(self.text.len());
        }
        self.text.push(letter);
    }

    /// The word as it stands.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The word as a path relative to the home directory if it lies there: `~` and `~/x` are
    /// `""` and `x`. Another user's `~name` is a name like any other.
    pub fn path(&self) -> &str {
        self.text.get(self.path_start()..).unwrap_or_default()
    }

    fn path_start(&self) -> usize {
        match (self.tilde, self.text.as_bytes()) {
            (true, [b'~']) => 1,
            (true, [b'~', b'/', rest @ ..]) => {
                2 + rest.iter().take_while(|byte| **byte == b'/').count()
            }
            _ => 0,
        }
    }

    /// True if `*`, `?` or `[` stand in it outside quotes.
    pub fn is_pattern(&self) -> bool {
        let special = |at: &usize| self.text.as_bytes().get(*at).is_some_and(|byte| *byte != b']');
        self.live.iter().any(special)
    }

    /// The components of [`Word::path`], from the top; empty ones and `.` are left out.
    pub fn components(&self) -> Vec<Component> {
        let mut components = Vec::new();
        let mut at = self.path_start();
        for part in self.path().split('/') {
            let live = |place: usize| self.live.binary_search(&(at + place)).is_ok();
            match part {
                "" | "." => {}
                _ => components.push(Component::new(part, live)),
            }
            at += part.len() + 1;
        }
        components
    }
}

/// One component of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Component {
    /// A plain name; may be `..`.
    Name(String),
    /// What names must look like.
    Pattern(Pattern),
}

/// A pattern of one component (POSIX.1-2017 XCU §2.13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Letter(char),
    Any,
    Run,
    Set { negated: bool, ranges: Vec<(char, char)> },
}

impl Component {
    fn new(part: &str, live: impl Fn(usize) -> bool) -> Component {
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(letter) = part.get(at..).and_then(|rest| rest.chars().next()) {
            let mut next = at + letter.len_utf8();
            let token = match letter {
                '*' if live(at) => Token::Run,
                '?' if live(at) => Token::Any,
                '[' if live(at) => match set(part, next, &live) {
                    Some((token, end)) => {
                        next = end;
                        token
                    }
                    None => Token::Letter('['),
                },
                _ => Token::Letter(letter),
            };
            // Two runs are one.
            if token != Token::Run || tokens.last() != Some(&Token::Run) {
                tokens.push(token);
            }
            at = next;
        }
        if tokens.iter().all(|token| matches!(token, Token::Letter(_))) {
            Component::Name(part.to_owned())
        } else {
            Component::Pattern(Pattern(tokens))
        }
    }
}

/// The set that begins behind `[` at `start`, and where it ends; `None`: it does not end.
fn set(part: &str, start: usize, live: &impl Fn(usize) -> bool) -> Option<(Token, usize)> {
    let mut letters = part.char_indices().skip_while(|(at, _)| *at < start).peekable();
    let negated = letters.next_if(|(_, letter)| matches!(letter, '!' | '^')).is_some();
    let mut listed: Vec<char> = Vec::new();
    let end = loop {
        match letters.next()? {
            (at, ']') if live(at) && !listed.is_empty() => break at + 1,
            (_, letter) => listed.push(letter),
        }
    };
    let mut ranges = Vec::new();
    let mut rest = listed.as_slice();
    loop {
        rest = match rest {
            [from, '-', to, rest @ ..] => {
                ranges.push((*from, *to));
                rest
            }
            [one, rest @ ..] => {
                ranges.push((*one, *one));
                rest
            }
            [] => break,
        };
    }
    Some((Token::Set { negated, ranges }, end))
}

impl Pattern {
    /// True if a name looks so. A leading dot is matched by a dot only.
    pub fn matches(&self, name: &str) -> bool {
        if name.starts_with('.') && self.0.first() != Some(&Token::Letter('.')) {
            return false;
        }
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut letter) = (0, 0);
        // Behind the last run, and the letter at which what follows it was tried last.
        let mut again: Option<(usize, usize)> = None;
        loop {
            let fits = match (self.0.get(token), name.get(letter)) {
                (Some(Token::Run), _) => {
                    again = Some((token + 1, letter));
                    token += 1;
                    continue;
                }
                (Some(wanted), Some(found)) => wanted.fits(*found),
                (None, None) => return true,
                _ => false,
            };
            match (fits, again) {
                (true, _) => (token, letter) = (token + 1, letter + 1),
                (false, Some((behind, tried))) if tried < name.len() => {
                    again = Some((behind, tried + 1));
                    (token, letter) = (behind, tried + 1);
                }
                _ => return false,
            }
        }
    }
}

impl Token {
    fn fits(&self, letter: char) -> bool {
        match self {
            Token::Letter(own) => *own == letter,
            Token::Any => true,
            Token::Run => false,
            Token::Set { negated, ranges } => {
                let within = ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter));
                within != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        split(line.as_bytes()).unwrap().iter().map(|word| word.text().to_owned()).collect()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(texts("scp -t  'a b'"), ["scp", "-t", "a b"]);
        assert_eq!(texts(r#"md5sum "it's" 'a'"b"\ c"#), ["md5sum", "it's", "ab c"]);
        assert_eq!(texts(r#"x "\$a \b \"" \$b \\"#), ["x", r#"$a \b ""#, "$b", "\\"]);
        assert_eq!(texts("md5sum a'\n'b"), ["md5sum", "a\nb"], "as rclone quotes it");
        assert_eq!(texts("a '' \"\""), ["a", "", ""]);
        assert_eq!(texts(" \t"), [""; 0]);
        assert_eq!(texts("a\\\nb"), ["ab"]);
    }

    #[test]
    fn what_a_shell_would_do_more_is_refused() {
        for line in ["a;b", "a|b", "a&", "a<b", "a>b", "a\nb", "$a", "`a`", "\"$a\"", "(a)"] {
            assert!(matches!(split(line.as_bytes()), Err(Unclear::Live(_))), "{line:?}");
        }
        for line in ["'a", "\"a", "a\\", "\"a\\"] {
            assert_eq!(split(line.as_bytes()), Err(Unclear::Open), "{line:?}");
        }
        assert_eq!(split(b"a\0b"), Err(Unclear::NotText));
        assert_eq!(split(b"a\xff"), Err(Unclear::NotText));
        assert_eq!(split(&[b'a'; COMMAND_LINE_BYTES + 1]), Err(Unclear::TooLong));
    }

    #[test]
    fn a_tilde_is_the_home_only_at_the_front_and_outside_quotes() {
        let path = |line: &str| split(line.as_bytes()).unwrap()[0].path().to_owned();
        for (line, want) in [
            ("~", ""),
            ("~/", ""),
            ("~/a/b", "a/b"),
            ("~//a", "a"),
            ("'~'/a", "~/a"),
            ("\\~", "~"),
            ("a~", "a~"),
            ("~bob/a", "~bob/a"),
            ("/a", "/a"),
        ] {
            assert_eq!(path(line), want, "{line}");
        }
    }

    fn pattern(line: &str) -> Pattern {
        match split(line.as_bytes()).unwrap()[0].components().remove(0) {
            Component::Pattern(pattern) => pattern,
            Component::Name(name) => panic!("{name} is no pattern"),
        }
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (line, yes, no) in [
            ("*", &["a", "a.b"][..], &[".a"][..]),
            ("*.txt", &["a.txt", "a.b.txt"], &["a.tx", "a.txtx", ".txt"]),
            ("a?c", &["abc", "a?c", "aäc"], &["ac", "abbc"]),
            (".*", &[".a", "."], &["a"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x"]),
            ("[!a-c]x", &["dx"], &["ax", ".x"]),
            ("[]a]x", &["]x", "ax"], &["bx"]),
            ("[a-]x", &["-x", "ax"], &["bx"]),
            ("a[*b", &["a[b", "a[xb"], &["ab"]),
            ("'*'*", &["*a"], &["a"]),
            ("**a**b", &["ab", "xaxb"], &["a", "b"]),
            ("*a*a*a*a*b", &["aaaab"], &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]),
        ] {
            let pattern = pattern(line);
            yes.iter().for_each(|name| assert!(pattern.matches(name), "{line} {name}"));
            no.iter().for_each(|name| assert!(!pattern.matches(name), "{line} {name}"));
        }
    }

    #[test]
    fn components_know_which_of_them_is_a_pattern() {
        let word = split(b"~/'*'/a*/../x[/").unwrap().remove(0);
        assert!(word.is_pattern());
        let components = word.components();
        assert_eq!(components.len(), 4);
        assert_eq!(components[0], Component::Name("*".to_owned()));
        assert!(matches!(components[1], Component::Pattern(_)));
        assert_eq!(components[2..], ["..", "x["].map(|name| Component::Name(name.to_owned())));
        assert!(!split(b"'*' a]").unwrap().iter().any(Word::is_pattern));
    }
}
