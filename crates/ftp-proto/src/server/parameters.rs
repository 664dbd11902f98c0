//! TYPE, STRU, MODE, REST, RANG, ALLO, OPTS, LANG: what the next transfer or listing is like.

use super::pending::Then;
use super::state::ServerState;
use crate::facts::FactSet;
use crate::request::{ByteRange, Request};
use crate::settings::Algorithm;

pub(crate) fn kind(server: &mut ServerState, argument: &str) {
    let words: Vec<String> = argument.split_whitespace().map(str::to_ascii_uppercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["A"] | ["A", "N" | "T"] => {
            server.session.ascii = true;
            server.reply(200, "Type is ASCII.");
        }
        ["I"] | ["L", "8"] | ["L8"] => {
            server.session.ascii = false;
            server.reply(200, "Type is binary.");
        }
        _ => server.reply(504, "Types are A, A N, A T, I and L 8."),
    }
}

pub(crate) fn stru(server: &mut ServerState, argument: &str) {
    match argument.trim().to_ascii_uppercase().as_str() {
        "F" => server.reply(200, "Structure is file."),
        _ => server.reply(504, "The only structure is F."),
    }
}

pub(crate) fn mode(server: &mut ServerState, argument: &str) {
    match argument.trim().to_ascii_uppercase().as_str() {
        "S" => {
            server.session.compressed = false;
            server.reply(200, "Mode is stream.");
        }
        "Z" if server.settings.compression.is_some() => {
            server.session.compressed = true;
            server.reply(200, "Mode is compressed.");
        }
        _ => server.reply(504, "That mode is not known here."),
    }
}

/// A number of up to 19 digits and nothing else.
pub(super) fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value: u64 = if digits { text.parse().ok()? } else { return None };
    // Offsets of files are signed on every store.
    (value <= i64::MAX as u64).then_some(value)
}

pub(crate) fn rest(server: &mut ServerState, argument: &str) {
    let Some(offset) = number(argument.trim()) else {
        return server.reply(501, "A number of bytes.");
    };
    server.session.offset = offset;
    server.session.range = None;
    server.reply(350, &format!("Restarting at {offset}. Send STOR or RETR."));
}

pub(crate) fn rang(server: &mut ServerState, argument: &str) {
    let (first, last) = match argument.trim().split_once(' ') {
        Some((first, last)) => (number(first), number(last)),
        None => (None, None),
    };
    match (first, last) {
        (Some(1), Some(0)) => {
            server.session.range = None;
            server.reply(350, "The range is reset.");
        }
        (Some(first), Some(last)) if first <= last => {
            server.session.range = Some(ByteRange { start: first, end: last + 1 });
            server.session.offset = 0;
            server.reply(350, &format!("Bytes {first} to {last}. Send RETR or HASH."));
        }
        _ => server.reply(501, "Two numbers: the first and the last byte; 1 0 resets."),
    }
}

pub(crate) fn allo(server: &mut ServerState, argument: &str) {
    let words: Vec<&str> = argument.split_whitespace().collect();
    let bytes = match words.as_slice() {
        [bytes] => number(bytes),
        [bytes, r, record] if r.eq_ignore_ascii_case("R") => number(record).and(number(bytes)),
        _ => None,
    };
    match bytes {
        Some(bytes) => server.ask(Request::Allocate(bytes), Then::Allocated(bytes)),
        None => server.reply(501, "Syntax: ALLO <bytes> [R <bytes>]"),
    }
}

pub(crate) fn opts(server: &mut ServerState, argument: &str) {
    let (verb, options) = argument.split_once(' ').unwrap_or((argument, ""));
    match verb.to_ascii_uppercase().as_str() {
        "UTF8" => match options.to_ascii_uppercase().as_str() {
            "" | "ON" => server.reply(200, "Names are UTF-8."),
            "OFF" => server.reply(504, "Names are always UTF-8."),
            _ => server.reply(501, "ON."),
        },
        "MLST" => match FactSet::parse(options) {
            Some(facts) => {
                server.session.facts = facts;
                // A blank at the end would be a second one in front of nothing.
                server.reply(200, format!("MLST OPTS {}", facts.chosen()).trim_end());
            }
            None => server.reply(501, "Facts without blanks between them: type;size;"),
        },
        "HASH" if !server.settings.algorithms.is_empty() => hash(server, options.trim()),
        "MODE" if server.settings.compression.is_some() => level(server, options),
        _ => server.reply(501, "That command has no options."),
    }
}

fn hash(server: &mut ServerState, name: &str) {
    if name.is_empty() {
        return server.reply(200, server.session.algorithm.name());
    }
    let known = Algorithm::named(name).filter(|known| server.settings.algorithms.contains(known));
    match known {
        Some(algorithm) => {
            server.session.algorithm = algorithm;
            server.reply(200, algorithm.name());
        }
        None => server.reply(501, "That digest is not known here: FEAT names them."),
    }
}

fn level(server: &mut ServerState, options: &str) {
    let words: Vec<String> = options.split_whitespace().map(str::to_ascii_uppercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["Z", "LEVEL", level] => match level.parse::<u8>() {
            Ok(level @ 1..=9) => {
                server.session.level = level;
                server.reply(200, &format!("MODE Z LEVEL set to {level}."));
            }
            _ => server.reply(501, "A level of 1 to 9."),
        },
        _ => server.reply(501, "Syntax: OPTS MODE Z LEVEL <1 to 9>"),
    }
}

pub(crate) fn lang(server: &mut ServerState, argument: &str) {
    let tag = argument.trim().to_ascii_lowercase();
    if tag.is_empty() || tag == "en" || tag.starts_with("en-") {
        server.reply(200, "The language is English.");
    } else {
        server.reply(504, "The only language is EN.");
    }
}
