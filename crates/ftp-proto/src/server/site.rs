//! The words of SITE.

use super::names::{self, mode, words};
use super::parameters::number;
use super::pending::Then;
use super::state::ServerState;
use crate::request::{Changes, Request};
use crate::time::Time;

pub(crate) fn chmod(server: &mut ServerState, argument: &str) {
    server.session.forget_next_only();
    let (bits, name) = argument.split_once(' ').unwrap_or((argument, ""));
    let (Some(mode), false) = (mode(bits), name.is_empty()) else {
        return server.reply(501, "Syntax: SITE CHMOD <octal> <path>");
    };
    if let Some(path) = server.path(name) {
        let changes = Changes { mode: Some(mode), ..Changes::default() };
        server.ask(Request::Change { path, changes }, Then::Chmod);
    }
}

/// `<time> <path>`, or `<path> <accessed> <modified> <created> UTC` (lftp tries both).
pub(crate) fn utime(server: &mut ServerState, argument: &str) {
    server.session.forget_next_only();
    let Some((name, changes)) = times(argument).filter(|(name, _)| !name.is_empty()) else {
        return server.reply(501, "Syntax: SITE UTIME <time> <path>");
    };
    if let Some(path) = server.path(name) {
        let text = "The times are set.".to_owned();
        server.ask(Request::Change { path, changes }, Then::Done(200, text));
    }
}

/// The name and the times in the argument of UTIME, in either form.
pub(super) fn times(argument: &str) -> Option<(&str, Changes)> {
    let short = || {
        let (time, name) = argument.split_once(' ')?;
        let modified = Some(Time::parse_short(time)?);
        Some((name, Changes { modified, ..Changes::default() }))
    };
    utime_long(argument).or_else(short)
}

/// The time of creation is taken and dropped: few stores can keep it.
fn utime_long(argument: &str) -> Option<(&str, Changes)> {
    let mut parts = argument.rsplitn(5, ' ');
    let utc = parts.next().filter(|word| word.eq_ignore_ascii_case("UTC"));
    let created = parts.next().and_then(Time::parse_short);
    let modified = parts.next().and_then(Time::parse_short);
    let accessed = parts.next().and_then(Time::parse_short);
    let name = parts.next()?;
    let all = utc.and(created).and(modified).and(accessed).is_some();
    all.then_some((name, Changes { modified, accessed, ..Changes::default() }))
}

pub(crate) fn mkdir(server: &mut ServerState, argument: &str) {
    server.session.forget_next_only();
    if argument.is_empty() {
        return server.reply(501, "Syntax: SITE MKDIR <path>");
    }
    names::make(server, argument, |path| Request::MakeDir { path, parents: true });
}

pub(crate) fn copy(server: &mut ServerState, argument: &str) {
    server.session.forget_next_only();
    let names = words(argument).unwrap_or_default();
    let [from, to] = names.as_slice() else {
        return server.reply(501, "Syntax: SITE COPY <from> <to>, in quotes if a blank is in it");
    };
    let Some(from) = server.path(from) else { return };
    let Some(to) = server.new_path(to) else { return };
    server.ask(Request::Copy { from, to }, Then::Done(250, "The file is copied.".to_owned()));
}

pub(crate) fn limit(server: &mut ServerState, argument: &str) {
    server.session.forget_next_only();
    let words: Vec<&str> = argument.split_whitespace().collect();
    let limits = match words.as_slice() {
        [] => Some((None, None)),
        [both] => number(both).map(|both| (Some(both), Some(both))),
        [write, read] => number(write).zip(number(read)).map(|(w, r)| (Some(w), Some(r))),
        _ => None,
    };
    match limits {
        Some((write, read)) => {
            let text = "The limits are set.".to_owned();
            server.ask(Request::Limit { write, read }, Then::Done(200, text));
        }
        None => server.reply(501, "Syntax: SITE LIMIT [<write> [<read>]], in bytes a second"),
    }
}

/// The first is to be confirmed by the very next command.
pub(crate) fn shutdown(server: &mut ServerState, argument: &str) {
    let armed = std::mem::take(&mut server.session.shutdown_armed);
    match argument.trim().to_ascii_uppercase().as_str() {
        "" => {
            server.session.shutdown_armed = true;
            server.reply(350, "This drains the whole node: confirm by SITE SHUTDOWN CONFIRM.");
        }
        "CONFIRM" if armed => {
            let text = "The node drains: running transfers end, new ones are refused.".to_owned();
            server.ask(Request::Shutdown, Then::Done(200, text));
        }
        "CONFIRM" => server.reply(503, "SITE SHUTDOWN comes right before its confirmation."),
        _ => server.reply(501, "Syntax: SITE SHUTDOWN [CONFIRM]"),
    }
}
