//! Lines of LIST, NLST, MLSD and MLST from plain values (RFC 959 §4.1.3, RFC 3659 §7).

use std::fmt::Write as _;

use crate::entry::{Kind, Role, Stat};
use crate::facts::FactSet;
use crate::time::{Civil, MONTHS, Time};

/// Which lines a listing has; made by the machine, used by the adapter for each entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// As `ls -l` shows files, with an owner and a group that mean nothing.
    Long,
    /// Names with this in front: `d/` for `NLST d`.
    Names {
        /// Stands in front of each name, with its slash.
        prefix: String,
    },
    /// As MLSD: the facts that the session has chosen.
    Facts(FactSet),
}

impl Format {
    /// Appends the line of an entry, with CRLF.
    pub fn write(&self, name: &str, stat: &Stat, now: Time, out: &mut Vec<u8>) {
        match self {
            Format::Long => long(name, stat, now, out),
            Format::Names { prefix } => {
                out.extend_from_slice(prefix.as_bytes());
                out.extend_from_slice(name.as_bytes());
            }
            Format::Facts(set) => set.write(name, stat, Role::Entry, out),
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the line of a file that was itself asked for, under the name the client used.
    pub fn write_file(&self, name: &str, stat: &Stat, now: Time, out: &mut Vec<u8>) {
        match self {
            Format::Names { .. } => {
                Format::Names { prefix: String::new() }.write(name, stat, now, out)
            }
            _ => self.write(name, stat, now, out),
        }
    }

    /// The two lines MLSD begins with: the directory itself and, below the root, the one above
    /// (`None` for the root). Nothing for the other forms. They are called `.` and `..`: rclone
    /// 1.60 takes any other name for a directory in this one.
    pub fn write_self(&self, stat: &Stat, above: Option<&Stat>, out: &mut Vec<u8>) {
        let Format::Facts(set) = self else { return };
        set.write(".", stat, Role::Current, out);
        out.extend_from_slice(b"\r\n");
        if let Some(above) = above {
            set.write("..", above, Role::Parent, out);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Whether a listing shows a name at all: one with a line break or control characters would
/// break it, `.` and `..` are never shown.
pub fn is_listed(name: &str) -> bool {
    !(name.is_empty() || name == "." || name == ".." || name.chars().any(char::is_control))
}

/// The heading of the first directory in `LIST -R`.
pub fn heading(path: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(path.as_bytes());
    out.extend_from_slice(b":\r\n");
}

/// The heading of each further directory in `LIST -R`, behind an empty line.
pub fn next_heading(path: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
    heading(path, out);
}

/// Within this time a line shows the clock, before it the year.
const RECENT_SECONDS: i64 = 180 * 86_400;

/// `-rw-r--r--   1 owner group        1234 Nov 21 03:45 name`, without the end of the line.
pub fn long(name: &str, stat: &Stat, now: Time, out: &mut Vec<u8>) {
    let mut line = String::with_capacity(64);
    line.push(if stat.kind == Kind::Directory { 'd' } else { '-' });
    line.extend(letters(stat.mode));
    let modified = stat.modified.unwrap_or_default();
    let Civil { year, month, day, hour, minute, .. } = modified.civil();
    let name_of_month = MONTHS.get(month as usize - 1).copied().unwrap_or("Jan");
    // Writing to a String cannot fail.
    let _ = write!(line, "   1 owner group {:>11} {name_of_month} {day:>2} ", stat.size);
    let age = now.seconds.saturating_sub(modified.seconds);
    let _ = if (0..=RECENT_SECONDS).contains(&age) {
        write!(line, "{hour:02}:{minute:02} ")
    } else {
        write!(line, " {year:04} ")
    };
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(name.as_bytes());
}

/// Permission bits as `ls` shows them: set-uid, set-gid and sticky in the place of `x`.
fn letters(mode: u32) -> impl Iterator<Item = char> {
    (0..9).rev().zip("rwxrwxrwx".chars()).map(move |(bit, letter)| {
        let is_set = mode >> bit & 1 == 1;
        let special = match bit {
            6 => (mode & 0o4000 != 0).then_some('s'),
            3 => (mode & 0o2000 != 0).then_some('s'),
            0 => (mode & 0o1000 != 0).then_some('t'),
            _ => None,
        };
        match special {
            Some(special) if is_set => special,
            Some(special) => special.to_ascii_uppercase(),
            None if is_set => letter,
            None => '-',
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Rights;

    #[test]
    fn bits_are_shown_as_ls_does() {
        for (mode, shown) in [
            (0o644, "rw-r--r--"),
            (0o751, "rwxr-x--x"),
            (0o4755, "rwsr-xr-x"),
            (0o2775, "rwxrwsr-x"),
            (0o1777, "rwxrwxrwt"),
            (0o7000, "--S--S--T"),
        ] {
            assert_eq!(letters(mode).collect::<String>(), shown);
        }
    }

    fn stat(kind: Kind) -> Stat {
        Stat {
            kind,
            size: 1234,
            modified: Time::parse("20261121034506"),
            created: None,
            mode: if kind == Kind::File { 0o644 } else { 0o755 },
            rights: Rights(u16::MAX),
            unique: Some(0xab),
        }
    }

    fn line(format: &Format, name: &str, stat: &Stat, now: &str) -> String {
        let mut out = Vec::new();
        format.write(name, stat, Time::parse(now).unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn list_looks_like_ls() {
        let now = "20261121040000";
        assert_eq!(
            line(&Format::Long, "na me", &stat(Kind::File), now),
            "-rw-r--r--   1 owner group        1234 Nov 21 03:45 na me\r\n"
        );
        assert_eq!(
            line(&Format::Long, "d", &stat(Kind::Directory), "20270601000000"),
            "drwxr-xr-x   1 owner group        1234 Nov 21  2026 d\r\n"
        );
        let future = line(&Format::Long, "f", &stat(Kind::File), "20261121034505");
        assert!(future.contains("Nov 21  2026 f"), "{future}");
        let edge = line(&Format::Long, "f", &stat(Kind::File), "20270520034506");
        assert!(edge.contains("Nov 21 03:45 f"), "{edge}");
        let past = line(&Format::Long, "f", &stat(Kind::File), "20270520034507");
        assert!(past.contains("Nov 21  2026 f"), "{past}");
    }

    #[test]
    fn headings_of_a_recursive_list() {
        let mut out = Vec::new();
        heading("/", &mut out);
        next_heading("/a b", &mut out);
        assert_eq!(out, b"/:\r\n\r\n/a b:\r\n");
    }

    #[test]
    fn names_have_their_prefix() {
        let format = Format::Names { prefix: "d/".into() };
        assert_eq!(line(&format, "f", &stat(Kind::File), "20261121040000"), "d/f\r\n");
        let mut out = Vec::new();
        format.write_file("d/f", &stat(Kind::File), Time::default(), &mut out);
        assert_eq!(out, b"d/f\r\n", "a file asked for has no prefix");
    }

    #[test]
    fn facts_begin_with_the_directory_itself() {
        let format = Format::Facts(FactSet::default());
        let mut out = Vec::new();
        let directory = stat(Kind::Directory);
        format.write_self(&directory, Some(&directory), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "type=cdir;modify=20261121034506;perm=cdeflmp;unique=ab; .\r\n\
             type=pdir;modify=20261121034506;perm=cdeflmp;unique=ab; ..\r\n"
        );
        assert_eq!(
            line(&format, "f", &stat(Kind::File), "20261121040000"),
            "type=file;size=1234;modify=20261121034506;perm=adfrw;unique=ab; f\r\n"
        );
    }

    #[test]
    fn what_would_break_a_listing_is_not_listed() {
        for name in ["", ".", "..", "a\rb", "a\u{7f}", "a\u{9b}"] {
            assert!(!is_listed(name), "{name:?}");
        }
        assert!(is_listed(".profile"));
    }
}
