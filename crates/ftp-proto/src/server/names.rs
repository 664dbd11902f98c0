//! Directories, names and facts: CWD to RNTO (RFC 959), SIZE, MDTM, MLST (RFC 3659), MFMT, MFCT,
//! MFF, AVBL, DSIZ, COMB.

use super::pending::{Then, TimeToSet};
use super::state::ServerState;
use crate::limits::COMB_PARTS;
use crate::path::{quote, unquote};
use crate::request::{Changes, Request};
use crate::settings::AsciiPolicy;
use crate::time::Time;

pub(crate) fn cwd(server: &mut ServerState, argument: &str) {
    if let Some(path) = server.path(argument) {
        server.ask(Request::ChangeDir(path.clone()), Then::Directory(path));
    }
}

pub(crate) fn cdup(server: &mut ServerState, _: &str) {
    cwd(server, "..");
}

pub(crate) fn pwd(server: &mut ServerState, _: &str) {
    let text = format!("{} is the current directory.", quote(&server.session.directory));
    server.reply(257, &text);
}

pub(crate) fn mkd(server: &mut ServerState, argument: &str) {
    make(server, argument, |path| Request::MakeDir { path, parents: false });
}

/// Asks for a new directory.
pub(super) fn make(server: &mut ServerState, argument: &str, request: fn(String) -> Request) {
    if let Some(path) = server.new_path(argument) {
        let text = format!("{} is made.", quote(&path));
        server.ask(request(path), Then::Done(257, text));
    }
}

/// Asks for something that is over when it is done.
fn simple(server: &mut ServerState, argument: &str, request: fn(String) -> Request, text: &str) {
    if let Some(path) = server.path(argument) {
        server.ask(request(path), Then::Done(250, text.to_owned()));
    }
}

pub(crate) fn rmd(server: &mut ServerState, argument: &str) {
    simple(server, argument, Request::RemoveDir, "The directory is removed.");
}

pub(crate) fn rmda(server: &mut ServerState, argument: &str) {
    simple(server, argument, Request::RemoveTree, "The directory is removed with all in it.");
}

pub(crate) fn dele(server: &mut ServerState, argument: &str) {
    simple(server, argument, Request::Delete, "The file is deleted.");
}

pub(crate) fn rnfr(server: &mut ServerState, argument: &str) {
    if let Some(path) = server.path(argument) {
        server.ask(Request::RenameFrom(path.clone()), Then::RenameFrom(path));
    }
}

pub(crate) fn rnto(server: &mut ServerState, argument: &str) {
    let Some(from) = server.session.rename_from.take() else {
        return server.reply(503, "RNFR comes right before RNTO.");
    };
    if let Some(to) = server.new_path(argument) {
        server.ask(Request::Rename { from, to }, Then::Done(250, "It is renamed.".to_owned()));
    }
}

pub(crate) fn size(server: &mut ServerState, argument: &str) {
    let ascii = server.session.ascii && server.settings.ascii == AsciiPolicy::Convert;
    if let Some(path) = server.path(argument) {
        server.ask(Request::Size { path, ascii }, Then::Number);
    }
}

/// The time and the name behind it, of an MDTM that has both.
pub(super) fn timed(argument: &str) -> Option<(Time, &str)> {
    let (time, name) = argument.split_once(' ').filter(|(_, name)| !name.is_empty())?;
    Some((Time::parse(time)?, name))
}

/// MDTM asks; with a time in front it sets, unless a file has the whole argument as its name.
pub(crate) fn mdtm(server: &mut ServerState, argument: &str) {
    let Some(whole) = server.path(argument) else { return };
    let set = timed(argument).and_then(|(time, name)| {
        let path = crate::path::resolve(&server.session.directory, name).ok()?;
        Some(TimeToSet { path, time, name: name.to_owned() })
    });
    server.ask(Request::Modified(whole), Then::Modified { set });
}

/// Sets what MDTM had in front of a name.
pub(super) fn set_by_mdtm(server: &mut ServerState, set: TimeToSet) {
    if !server.may_write() {
        return;
    }
    let TimeToSet { path, time, name } = set;
    let changes = Changes { modified: Some(time), ..Changes::default() };
    let text = format!("Modify={}; {name}", time.digits_14());
    server.ask(Request::Change { path, changes }, Then::Done(213, text));
}

pub(crate) fn mfmt(server: &mut ServerState, argument: &str) {
    one_time(server, argument, "Modify", |time| Changes {
        modified: Some(time),
        ..Changes::default()
    });
}

pub(crate) fn mfct(server: &mut ServerState, argument: &str) {
    one_time(server, argument, "Create", |time| Changes {
        created: Some(time),
        ..Changes::default()
    });
}

fn one_time(server: &mut ServerState, argument: &str, fact: &str, changes: fn(Time) -> Changes) {
    let (time, name) = argument.split_once(' ').unwrap_or((argument, ""));
    let Some(time) = Time::parse(time) else {
        return server.reply(501, "A time of 14 digits: YYYYMMDDhhmmss.");
    };
    if name.is_empty() {
        return server.reply(501, "A name behind the time.");
    }
    if let Some(path) = server.path(name) {
        let text = format!("{fact}={}; {name}", time.digits_14());
        server.ask(Request::Change { path, changes: changes(time) }, Then::Done(213, text));
    }
}

pub(crate) fn mff(server: &mut ServerState, argument: &str) {
    let (facts, name) = argument.split_once(' ').unwrap_or((argument, ""));
    if name.is_empty() || !facts.ends_with(';') {
        return server.reply(501, "Syntax: MFF <fact>=<value>;<fact>=<value>; <path>");
    }
    let mut changes = Changes::default();
    let mut told = Told::default();
    for fact in facts.split(';').filter(|fact| !fact.is_empty()) {
        let Some((fact, value)) = fact.split_once('=') else {
            return server.reply(501, "Each fact has a value: <fact>=<value>;");
        };
        let known = match fact.to_ascii_lowercase().as_str() {
            "modify" => time_fact(&mut changes.modified, value),
            "create" if server.settings.creation_times => time_fact(&mut changes.created, value),
            "unix.mode" if server.settings.site.chmod => {
                changes.mode = mode(value);
                changes.mode.is_some()
            }
            _ => return server.reply(504, &format!("The fact '{fact}' cannot be set.")),
        };
        if !known {
            return server.reply(501, &format!("That is no value of '{fact}'."));
        }
        if fact.eq_ignore_ascii_case("unix.mode") {
            told.mode(fact);
        } else {
            told.fact(fact, value);
        }
    }
    if let Some(path) = server.path(name) {
        server.ask(Request::Change { path, changes }, told.then(name));
    }
}

/// The facts of an MFF as its reply tells them. What permission bits come to is known at the end.
#[derive(Default)]
struct Told {
    before: String,
    /// The name of the fact that sets permission bits, as sent, and the facts behind it.
    mode: Option<(String, String)>,
}

impl Told {
    fn fact(&mut self, fact: &str, value: &str) {
        let text = self.mode.as_mut().map_or(&mut self.before, |(_, behind)| behind);
        *text += &format!("{fact}={value};");
    }

    /// Of several the last counts.
    fn mode(&mut self, fact: &str) {
        let (_, between) = self.mode.take().unwrap_or_default();
        self.before += &between;
        self.mode = Some((fact.to_owned(), String::new()));
    }

    fn then(self, path: &str) -> Then {
        match self.mode {
            None => Then::Done(213, format!("{} {path}", self.before)),
            Some((name, behind)) => {
                Then::Facts { before: self.before, name, behind: format!("{behind} {path}") }
            }
        }
    }
}

fn time_fact(place: &mut Option<Time>, value: &str) -> bool {
    *place = Time::parse(value);
    place.is_some()
}

/// Octal permission bits; set-uid, set-gid and sticky are never set.
pub(super) fn mode(text: &str) -> Option<u32> {
    let octal =
        (1..=4).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let bits = if octal { u32::from_str_radix(text, 8).ok()? } else { return None };
    Some(bits & 0o777)
}

pub(crate) fn mlst(server: &mut ServerState, argument: &str) {
    if let Some(path) = server.path(argument) {
        server.ask(Request::Entry(path.clone()), Then::Entry(path));
    }
}

pub(crate) fn avbl(server: &mut ServerState, argument: &str) {
    if let Some(path) = server.path(argument) {
        server.ask(Request::Space(path), Then::Number);
    }
}

pub(crate) fn dsiz(server: &mut ServerState, argument: &str) {
    if let Some(path) = server.path(argument) {
        server.ask(Request::TreeSize(path), Then::Number);
    }
}

/// A name that may be in quotes, up to the next blank, and the rest.
pub(super) fn word(text: &str) -> Option<(String, &str)> {
    if text.starts_with('"') {
        let (name, rest) = unquote(text)?;
        return match rest.strip_prefix(' ') {
            Some(rest) => Some((name, rest)),
            None => rest.is_empty().then_some((name, "")),
        };
    }
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}

/// All names of an argument; `None` if a quote is not closed or there are too many.
pub(super) fn words(mut text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    while !text.trim_start().is_empty() {
        let (name, rest) = word(text.trim_start())?;
        names.push(name);
        text = rest;
        if names.len() > COMB_PARTS + 1 {
            return None;
        }
    }
    Some(names)
}

pub(crate) fn comb(server: &mut ServerState, argument: &str) {
    let names = words(argument).unwrap_or_default();
    let Some((target, parts)) = names.split_first().filter(|(_, parts)| !parts.is_empty()) else {
        return server.reply(501, "Syntax: COMB \"<target>\" \"<part>\" …, at most 256 parts");
    };
    let Some(target) = server.new_path(target) else { return };
    let mut paths = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(path) = server.path(part) else { return };
        paths.push(path);
    }
    let text = "The parts are one file now.".to_owned();
    server.ask(Request::Combine { target, parts: paths }, Then::Done(250, text));
}
