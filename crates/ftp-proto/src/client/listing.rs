//! Listings of servers: MLSD (RFC 3659 §7), and LIST as `ls -l` or IIS writes it.

use super::replies::text;
use crate::limits::LINE_BYTES;
use crate::time::{Civil, MONTHS, Time};

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteKind {
    /// A file that RETR can get.
    File,
    /// A directory that can be listed.
    Directory,
    /// A link, a device: nothing to move.
    Other,
}

/// A line of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEntry {
    /// One component: never empty, `.` or `..`, without `/` and control characters.
    pub name: String,
    /// What it is.
    pub kind: RemoteKind,
    /// Bytes, as far as the server tells them.
    pub size: Option<u64>,
    /// From MLSD exact, from LIST to the minute or day.
    pub modified: Option<Time>,
    /// Permission bits, from LIST or the fact `UNIX.mode`.
    pub mode: Option<u32>,
    /// The fact `unique`.
    pub unique: Option<String>,
}

/// The form of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As MLSD sends it (RFC 3659 §7.2).
    Facts,
    /// `ls -l`, where years that are missing are found from this; or IIS's own form.
    Long {
        /// The time now.
        now: Time,
    },
}

/// A line above [`LINE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server sent a line of more than 8192 bytes in a listing")]
pub struct LineTooLong;

/// Bytes of a data connection in, entries out. Lines that are none are left out.
#[derive(Debug)]
pub struct Parser {
    form: Form,
    line: Vec<u8>,
    lines: u64,
}

impl Parser {
    /// For a listing of this form.
    pub fn new(form: Form) -> Parser {
        Parser { form, line: Vec::new(), lines: 0 }
    }

    /// Appends the entries whose lines end in this piece.
    ///
    /// # Errors
    /// A line that is too long.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        entries: &mut Vec<RemoteEntry>,
    ) -> Result<(), LineTooLong> {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let (piece, rest) = bytes.split_at(at);
            self.take(piece)?;
            entries.extend(self.end_line());
            bytes = rest.get(1..).unwrap_or(&[]);
        }
        self.take(bytes)
    }

    /// Lines so far that have something to say: empty ones, `total 12` and those of the directory
    /// itself and the one above do not count. Where there are some and none is an entry, the form
    /// of the listing is not known.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The last line, if it had no end.
    pub fn finish(&mut self) -> Option<RemoteEntry> {
        self.end_line()
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), LineTooLong> {
        if self.line.len() + piece.len() > LINE_BYTES {
            return Err(LineTooLong);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_line(&mut self) -> Option<RemoteEntry> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let line = text(line);
        self.line.clear();
        let is_itself = line.ends_with(" .") || line.ends_with(" ..");
        if !line.is_empty() && !line.starts_with("total ") && !is_itself {
            self.lines += 1;
        }
        match self.form {
            Form::Facts => facts(&line),
            Form::Long { now } => long(&line, now),
        }
    }
}

/// A name of one component that cannot lead elsewhere.
fn is_name(name: &str) -> bool {
    crate::listing::is_listed(name) && !name.contains('/')
}

/// `type=file;size=5;modify=20261121034506; name`. The directory itself and the one above are
/// left out.
fn facts(line: &str) -> Option<RemoteEntry> {
    let (facts, name) = line.split_once(' ')?;
    let other = |fact: &str| {
        matches!(fact.split_once('='), Some((name, value))
        if name.eq_ignore_ascii_case("type")
            && (value.eq_ignore_ascii_case("cdir") || value.eq_ignore_ascii_case("pdir")))
    };
    if facts.split(';').any(other) {
        return None;
    }
    let entry = described(facts, name)?;
    is_name(name).then_some(entry)
}

/// The entry of an MLST, whose name may be a path.
pub(super) fn described(facts: &str, name: &str) -> Option<RemoteEntry> {
    let mut entry = RemoteEntry {
        name: name.to_owned(),
        kind: RemoteKind::Other,
        size: None,
        modified: None,
        mode: None,
        unique: None,
    };
    for fact in facts.split(';').filter(|fact| !fact.is_empty()) {
        let (fact, value) = fact.split_once('=')?;
        match fact.to_ascii_lowercase().as_str() {
            "type" => match value.to_ascii_lowercase().as_str() {
                "file" => entry.kind = RemoteKind::File,
                "dir" | "cdir" | "pdir" => entry.kind = RemoteKind::Directory,
                _ => {}
            },
            "size" => entry.size = value.parse().ok(),
            "modify" => entry.modified = Time::parse(value),
            "unix.mode" => {
                entry.mode = u32::from_str_radix(value, 8).ok().map(|mode| mode & 0o7777)
            }
            "unique" => entry.unique = Some(value.to_owned()),
            _ => {}
        }
    }
    Some(entry)
}

/// `-rw-r--r--   1 owner group        1234 Nov 21 03:45 name`: found from the month, for owners
/// may hold blanks and some servers leave the group out.
fn long(line: &str, now: Time) -> Option<RemoteEntry> {
    let kind = match line.bytes().next()? {
        b'-' => RemoteKind::File,
        b'd' => RemoteKind::Directory,
        b'l' | b'b' | b'c' | b'p' | b's' | b'D' => RemoteKind::Other,
        b'0'..=b'9' => return iis(line),
        _ => return None,
    };
    let words = words(line);
    let mode = mode(words.first()?.1)?;
    // Mode, and at least an owner and a size before the month.
    let month_at = (3..words.len()).find(|at| is_date(&words, *at))?;
    let word = |at: usize| words.get(at).map(|(_, word)| *word);
    let size: u64 = word(month_at - 1)?.parse().ok()?;
    let (last_at, last) = *words.get(month_at + 2)?;
    let name = line.get(last_at + last.len() + 1..)?;
    let name = match kind {
        RemoteKind::Other => name.split(" -> ").next().unwrap_or(name),
        _ => name,
    };
    let modified = date(word(month_at)?, word(month_at + 1)?, last, now);
    let name = name.to_owned();
    let size = (kind == RemoteKind::File).then_some(size);
    let entry = RemoteEntry { name, kind, size, modified, mode: Some(mode), unique: None };
    is_name(&entry.name).then_some(entry)
}

/// `11-21-26  03:45AM       <DIR>          name`, or a size instead of `<DIR>`: IIS without its
/// option for UNIX listings. The year has two digits or four; the time is the server's own.
fn iis(line: &str) -> Option<RemoteEntry> {
    let words = words(line);
    let word = |at: usize| words.get(at).map(|(_, word)| *word);
    let modified = iis_time(word(0)?, word(1)?)?;
    let size = match word(2)? {
        "<DIR>" => None,
        size => Some(size.parse().ok()?),
    };
    let (at, third) = words.get(2)?;
    let behind = line.get(at + third.len()..)?;
    // A directory's name begins at a fixed column, a file's behind one blank.
    let name = if size.is_none() { behind.trim_start() } else { behind.strip_prefix(' ')? };
    let kind = if size.is_none() { RemoteKind::Directory } else { RemoteKind::File };
    let (name, modified) = (name.to_owned(), Some(modified));
    let entry = RemoteEntry { name, kind, size, modified, mode: None, unique: None };
    is_name(&entry.name).then_some(entry)
}

fn iis_time(date: &str, clock: &str) -> Option<Time> {
    let mut parts = date.split('-');
    let (month, day, year) = (parts.next()?, parts.next()?, parts.next()?);
    let year = match (year.len(), year.parse::<i64>().ok()?) {
        (2, year) if year < 70 => 2000 + year,
        (2, year) => 1900 + year,
        (_, year) => year,
    };
    let (time, half) = clock.split_at_checked(clock.len().checked_sub(2)?)?;
    let (hour, minute) = time.split_once(':')?;
    let noon = match half {
        "AM" => 0,
        "PM" => 12,
        _ => return None,
    };
    let hour = hour.parse::<u32>().ok().filter(|hour| (1..=12).contains(hour))? % 12 + noon;
    let (month, day, minute) = (month.parse().ok()?, day.parse().ok()?, minute.parse().ok()?);
    Civil { year, month, day, hour, minute, second: 0 }.seconds().map(Time::from_seconds)
}

/// Words and where they begin.
fn words(line: &str) -> Vec<(usize, &str)> {
    let begin = line.as_ptr() as usize;
    line.split_ascii_whitespace().map(|word| (word.as_ptr() as usize - begin, word)).collect()
}

fn mode(word: &str) -> Option<u32> {
    let letters = word.as_bytes().get(1..10)?;
    letters.iter().zip("rwxrwxrwx".bytes()).try_fold(0, |bits, (letter, full)| {
        let on = match letter {
            b'-' | b'S' | b'T' => 0,
            b's' | b't' => 1,
            letter if *letter == full => 1,
            _ => return None,
        };
        Some(bits << 1 | on)
    })
}

fn month(word: &str) -> Option<u32> {
    (1..).zip(MONTHS).find(|(_, name)| name.eq_ignore_ascii_case(word)).map(|(number, _)| number)
}

fn is_date(words: &[(usize, &str)], at: usize) -> bool {
    let word = |at: usize| words.get(at).map_or("", |(_, word)| word);
    let digits = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let last = word(at + 2);
    let clock = last.split_once(':').is_some_and(|(hour, minute)| digits(hour) && digits(minute));
    month(word(at)).is_some()
        && digits(word(at - 1))
        && digits(word(at + 1))
        && (clock || digits(last))
}

/// A day with the clock is within the past year, or a day ahead where clocks differ.
fn date(month_word: &str, day: &str, last: &str, now: Time) -> Option<Time> {
    let (month, day) = (month(month_word)?, day.parse().ok()?);
    let at = |year: i64, hour: u32, minute: u32| {
        Civil { year, month, day, hour, minute, second: 0 }.seconds().map(Time::from_seconds)
    };
    let Some((hour, minute)) = last.split_once(':') else {
        return at(last.parse().ok()?, 0, 0);
    };
    let (hour, minute) = (hour.parse().ok()?, minute.parse().ok()?);
    let this_year = now.civil().year;
    let tomorrow = now.seconds.saturating_add(86_400);
    let candidates = [this_year.saturating_add(1), this_year, this_year - 1];
    let past = |time: &Time| time.seconds <= tomorrow;
    candidates.into_iter().filter_map(|year| at(year, hour, minute)).find(past)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(form: Form, line: &str) -> Option<RemoteEntry> {
        let (mut parser, mut entries) = (Parser::new(form), Vec::new());
        for byte in line.as_bytes() {
            parser.push(&[*byte], &mut entries).unwrap();
        }
        entries.extend(parser.finish());
        entries.pop()
    }

    fn told(entry: Option<RemoteEntry>) -> String {
        entry.map_or("none".to_owned(), |entry| {
            let modified = entry.modified.map(Time::digits_14).unwrap_or_default();
            format!("{:?} {:?} {modified} '{}'", entry.kind, entry.size, entry.name)
        })
    }

    #[test]
    fn facts_of_servers() {
        for (line, want) in [
            ("type=file;size=5;modify=20261121034506.12; a b", "File Some(5) 20261121034506 'a b'"),
            ("Type=dir;Modify=20261121034506;  a", "Directory None 20261121034506 ' a'"),
            ("Type=OS.unix=slink:/x;size=1; l", "Other Some(1)  'l'"),
            ("type=cdir; /", "none"),
            ("type=pdir; ..", "none"),
            ("type=file; ../x", "none"),
            ("type=file; ..", "none"),
            ("type=file;size=x; a", "File None  'a'"),
            ("nonsense; a", "none"),
            ("type=file;", "none"),
            (" a", "Other None  'a'"),
        ] {
            assert_eq!(told(one(Form::Facts, line)), want, "{line}");
        }
    }

    #[test]
    fn lists_of_servers() {
        let form = Form::Long { now: Time::parse("20260301120000").unwrap() };
        for (line, want) in [
            (
                "-rw-r--r--   1 owner group        1234 Nov 21 03:45 na me\r\n",
                "File Some(1234) 20251121034500 'na me'",
            ),
            ("-rw-r--r-- 1 1000 1000 7 Mar  2 11:00 x", "File Some(7) 20260302110000 'x'"),
            ("drwxr-xr-x 2 o g 4096 Jan  1  2020  x ", "Directory None 20200101000000 ' x '"),
            ("-rw-r--r-- 1 domain users 12 Feb 29 2024 x", "File Some(12) 20240229000000 'x'"),
            ("lrwxrwxrwx 1 o g 1 Jan  1  2020 a -> /b", "Other None 20200101000000 'a'"),
            ("-rwSr-xr-t+ 1 o g 1 Jan  1  2020 a", "File Some(1) 20200101000000 'a'"),
            ("-rw-r--r-- 1 o 9 Dec 24 2020 a", "File Some(9) 20201224000000 'a'"),
            (
                "11-21-25  03:45PM       <DIR>          na me",
                "Directory None 20251121154500 'na me'",
            ),
            (
                "02-29-2024  12:05AM                 1234 na me",
                "File Some(1234) 20240229000500 'na me'",
            ),
            ("02-30-24  12:05AM 1 x", "none"),
            ("02-20-24  13:05AM 1 x", "none"),
            ("02-20-24  12:05XM 1 x", "none"),
            ("02-20-24  12:05AM 1 ../x", "none"),
            ("total 12", "none"),
            ("-rw-r--r-- 1 o g 1 Jan  1  2020 ../a", "none"),
            ("-rw-r--r-- 1 o g 1 Jan", "none"),
            ("-r", "none"),
            ("", "none"),
        ] {
            assert_eq!(told(one(form, line)), want, "{line}");
        }
    }

    #[test]
    fn our_own_lines_are_understood() {
        use crate::entry::{Kind, Rights, Stat};
        use crate::listing::Format;
        let now = Time::parse("20261121040000").unwrap();
        let time = Time::parse("20261121034500").unwrap();
        let stat = Stat {
            kind: Kind::File,
            size: 1 << 40,
            modified: Some(time),
            created: None,
            mode: 0o640,
            rights: Rights(u16::MAX),
            unique: None,
        };
        for (format, form) in [
            (Format::Long, Form::Long { now }),
            (Format::Facts(crate::facts::FactSet::default()), Form::Facts),
        ] {
            let mut out = Vec::new();
            format.write(" ü ", &stat, now, &mut out);
            let entry = one(form, std::str::from_utf8(&out).unwrap()).unwrap();
            assert_eq!((entry.name.as_str(), entry.size), (" ü ", Some(1 << 40)));
            assert_eq!(entry.modified, Some(time));
        }
    }

    #[test]
    fn lines_that_are_not_understood_are_counted() {
        let now = Time::from_seconds(0);
        let own = "total 12\r\n\r\ndrwxr-xr-x 2 o g 1 Jan  1  2020 ..\r\n";
        for (text, lines) in [("", 0), (own, 0), ("VMS.TXT;1  2/3\r\nx", 2)] {
            let (mut parser, mut entries) = (Parser::new(Form::Long { now }), Vec::new());
            parser.push(text.as_bytes(), &mut entries).unwrap();
            entries.extend(parser.finish());
            assert_eq!((entries.len(), parser.lines()), (0, lines), "{text}");
        }
    }

    #[test]
    fn a_line_has_a_limit() {
        let (mut parser, mut entries) = (Parser::new(Form::Facts), Vec::new());
        parser.push(&[b'a'; 8192], &mut entries).unwrap();
        assert_eq!(parser.push(b"a", &mut entries), Err(LineTooLong));
    }
}
