//! Facts of MLSD and MLST, and the session's choice of them (RFC 3659 §7.5, §7.9).

use std::fmt::Write as _;

use crate::entry::{Kind, Role, Stat};

/// A fact by its place in [`FACTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactSet(u8);

/// Every fact, its name as sent, and whether it is on at first.
const FACTS: [(&str, bool); 7] = [
    ("type", true),
    ("size", true),
    ("modify", true),
    ("create", false),
    ("perm", true),
    ("unique", true),
    ("UNIX.mode", false),
];

impl Default for FactSet {
    fn default() -> Self {
        let on = FACTS.iter().enumerate().filter(|(_, (_, on))| *on);
        FactSet(on.fold(0, |bits, (at, _)| bits | 1 << at))
    }
}

impl FactSet {
    /// The list of `OPTS MLST`: names with a semicolon behind each (the last may lack it).
    /// Unknown ones are dropped; `None` if a blank is in it.
    pub fn parse(text: &str) -> Option<FactSet> {
        if text.contains(' ') {
            return None;
        }
        let place =
            |name: &str| FACTS.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        let chosen = text.split(';').filter_map(place);
        Some(FactSet(chosen.fold(0, |bits, at| bits | 1 << at)))
    }

    fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }

    /// The chosen ones as `OPTS MLST` answers them: `type;size;`.
    pub fn chosen(self) -> String {
        let on = FACTS.iter().enumerate().filter(|(at, _)| self.has(*at));
        on.fold(String::new(), |text, (_, (name, _))| text + name + ";")
    }

    /// All of them as FEAT shows them: `type*;size*;create;`.
    pub fn feature(self) -> String {
        let all = FACTS.iter().enumerate();
        all.fold(String::new(), |text, (at, (name, _))| {
            text + name + if self.has(at) { "*;" } else { ";" }
        })
    }

    /// Facts, one blank and the name, without the end of the line.
    pub fn write(self, name: &str, stat: &Stat, role: Role, out: &mut Vec<u8>) {
        let mut line = String::with_capacity(96);
        for (at, (fact, _)) in FACTS.iter().enumerate().filter(|(at, _)| self.has(*at)) {
            value(at, fact, stat, role, &mut line);
        }
        line.push(' ');
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(name.as_bytes());
    }
}

fn value(at: usize, fact: &str, stat: &Stat, role: Role, line: &mut String) {
    // Writing to a String cannot fail.
    let _ = match (at, stat.kind, role) {
        (0, _, Role::Current) => write!(line, "{fact}=cdir;"),
        (0, _, Role::Parent) => write!(line, "{fact}=pdir;"),
        (0, Kind::File, _) => write!(line, "{fact}=file;"),
        (0, Kind::Directory, _) => write!(line, "{fact}=dir;"),
        (1, Kind::File, _) => write!(line, "{fact}={};", stat.size),
        (2, _, _) => match stat.modified {
            Some(time) => write!(line, "{fact}={};", time.digits_14()),
            None => Ok(()),
        },
        (3, _, _) => match stat.created {
            Some(time) => write!(line, "{fact}={};", time.digits_14()),
            None => Ok(()),
        },
        (4, kind, _) => write!(line, "{fact}={};", stat.rights.letters(kind)),
        (5, _, _) => match stat.unique {
            Some(unique) => write!(line, "{fact}={unique:x};"),
            None => Ok(()),
        },
        (6, _, _) => write!(line, "{fact}={:04o};", stat.mode & 0o7777),
        _ => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_chooses_its_facts() {
        let chosen = FactSet::parse("Type;SIZE;nonsense;unix.MODE;").unwrap();
        assert_eq!(chosen.chosen(), "type;size;UNIX.mode;");
        assert_eq!(FactSet::parse("").unwrap().chosen(), "");
        assert_eq!(FactSet::parse("type; size;"), None);
        assert_eq!(
            FactSet::default().feature(),
            "type*;size*;modify*;create;perm*;unique*;UNIX.mode;"
        );
    }
}
