//! `authorized_keys` (sshd(8), AUTHORIZED_KEYS FILE FORMAT): our own reader, for quotes may hold
//! spaces, commas and `#`.

use crate::config::BadLine;
use crate::limits::{LINE_BYTES, LINES};

/// A line with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizedKey {
    /// Its line, from 1.
    pub line: usize,
    /// Options in front of the key, in their order.
    pub options: Vec<KeyOption>,
    /// Type, base64 and comment, as in a `.pub` file.
    pub public: String,
}

/// One option of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOption {
    /// Its name in lower case, such as `from`.
    pub name: String,
    /// Without its quotes; none if there is no `=`.
    pub value: Option<String>,
}

/// The moment of `expiry-time`: year, month, day, hour, minute, second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Year, month and day.
    pub date: (i16, i8, i8),
    /// Hour, minute and second.
    pub time: (i8, i8, i8),
    /// In UTC; else in the time zone of the machine.
    pub is_utc: bool,
}

impl KeyOption {
    /// The value as `YYYYMMDD[HHMM[SS]][Z]`; whether such a day exists is not looked at.
    pub fn expiry(&self) -> Option<Expiry> {
        let text = self.value.as_deref()?;
        let (digits, is_utc) = match text.strip_suffix(['Z', 'z']) {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let known = matches!(digits.len(), 8 | 12 | 14);
        if !known || !digits.bytes().all(|letter| letter.is_ascii_digit()) {
            return None;
        }
        let two = |at: usize| digits.get(at..at + 2).map_or(Some(0), |two| two.parse::<i8>().ok());
        let date = (digits.get(..4)?.parse().ok()?, two(4)?, two(6)?);
        Some(Expiry { date, time: (two(8)?, two(10)?, two(12)?), is_utc })
    }
}

/// How the types of keys begin.
const TYPES: [&str; 4] = ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"];

/// The keys of a file, and the lines that are none.
pub fn authorized_keys(text: &str) -> Vec<Result<AuthorizedKey, BadLine>> {
    let lines = text.lines().enumerate().take(LINES);
    let told = lines.map(|(at, line)| (at + 1, line.trim()));
    let told = told.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    told.map(|(number, line)| read(number, line)).collect()
}

fn read(number: usize, line: &str) -> Result<AuthorizedKey, BadLine> {
    let bad = |problem: &str| BadLine { line: number, problem: problem.to_owned() };
    if line.len() > LINE_BYTES {
        return Err(bad("the line is too long"));
    }
    let is_key = |text: &str| TYPES.iter().any(|kind| text.starts_with(kind));
    if is_key(line) {
        return Ok(AuthorizedKey {
            line: number,
            options: Vec::new(),
            public: one_key(line, bad)?,
        });
    }
    let (options, rest) = options(line).ok_or_else(|| bad("the options cannot be read"))?;
    let rest = rest.trim_start();
    if !is_key(rest) {
        return Err(bad("there is no key that is known here"));
    }
    Ok(AuthorizedKey { line: number, options, public: one_key(rest, bad)? })
}

/// Type, base64 and comment.
fn one_key(text: &str, bad: impl Fn(&str) -> BadLine) -> Result<String, BadLine> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words.len() {
        0 | 1 => Err(bad("the key has no second half")),
        _ => Ok(words.join(" ")),
    }
}

/// Options up to the first space outside quotes, and what follows it.
fn options(line: &str) -> Option<(Vec<KeyOption>, &str)> {
    let mut options = Vec::new();
    let mut name = String::new();
    let mut value: Option<String> = None;
    let mut quoted = false;
    let mut letters = line.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        match letter {
            '\\' if quoted && next == Some('"') => {
                letters.next();
                value.as_mut()?.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if value.as_deref() == Some("") => quoted = true,
            '"' => return None,
            '=' if !quoted && value.is_none() => value = Some(String::new()),
            ',' | ' ' | '\t' if !quoted => {
                let name = std::mem::take(&mut name).to_ascii_lowercase();
                options.push(KeyOption { name, value: value.take() });
                if letter != ',' {
                    let known = options.iter().all(|option| !option.name.is_empty());
                    return known.then_some((options, line.get(at..)?));
                }
            }
            letter => value.as_mut().unwrap_or(&mut name).push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAA";

    fn only(line: &str) -> AuthorizedKey {
        authorized_keys(line).pop().unwrap().unwrap()
    }

    fn named(key: &AuthorizedKey) -> Vec<(&str, Option<&str>)> {
        key.options.iter().map(|o| (o.name.as_str(), o.value.as_deref())).collect()
    }

    #[test]
    fn keys_with_and_without_options() {
        let plain = only(&format!("  {KEY}   anna # no comment\n"));
        assert_eq!(
            (plain.public.as_str(), plain.options.len()),
            ("ssh-ed25519 AAAA anna # no comment", 0)
        );
        let key = only(&format!("restrict,FROM=\"10.0.0.0/8, !10.1.*\",no-pty {KEY} a b"));
        let options = [("restrict", None), ("from", Some("10.0.0.0/8, !10.1.*")), ("no-pty", None)];
        assert_eq!(named(&key), options);
        assert_eq!(key.public, "ssh-ed25519 AAAA a b");
        let key = only(&format!("command=\"echo \\\"a, b\\\" # c=d\" {KEY}"));
        assert_eq!(named(&key), [("command", Some("echo \"a, b\" # c=d"))]);
        let sk = only("sk-ssh-ed25519@openssh.com AAAA x");
        assert!(sk.options.is_empty());
        assert_eq!(named(&only(&format!("cert-authority,principals=\"a,b\" {KEY}"))).len(), 2);
    }

    #[test]
    fn what_is_no_key_is_told_with_its_line() {
        let text =
            format!("# comment\n\n{KEY}\nnonsense\nfrom=\"open {KEY}\nssh-ed25519\n,a {KEY}\n");
        let found = authorized_keys(&text);
        let bad: Vec<usize> =
            found.iter().filter_map(|it| it.as_ref().err()).map(|b| b.line).collect();
        assert_eq!((found.len(), bad), (5, vec![4, 5, 6, 7]));
    }

    #[test]
    fn times() {
        let expiry = |text: &str| {
            KeyOption { name: "expiry-time".to_owned(), value: Some(text.to_owned()) }.expiry()
        };
        let at = expiry("20270131").unwrap();
        assert_eq!((at.date, at.time, at.is_utc), ((2027, 1, 31), (0, 0, 0), false));
        let at = expiry("20270131235901Z").unwrap();
        assert_eq!((at.time, at.is_utc), ((23, 59, 1), true));
        assert_eq!(expiry("202701311530").unwrap().time, (15, 30, 0));
        for bad in ["", "2027", "2027013", "20270131x", "202701311", "-0270131"] {
            assert_eq!(expiry(bad), None, "{bad}");
        }
    }
}
