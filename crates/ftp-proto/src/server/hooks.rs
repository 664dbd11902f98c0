//! What hooks see of a command, and how they change a reply that has not left.

use super::state::ServerState;
use super::{digest, names, site, transfer};
use crate::path::{resolve, unquote};
use crate::reply;
use crate::request::Command;
use crate::table::{self, Verb};

/// Puts a reply in the place of the last one, as long as no part of that was written.
pub(super) fn instead(state: &mut ServerState, code: u16, text: &str) {
    // What follows from the reply cannot be called back: TLS, the end of the session.
    let follows = !state.requests.is_empty();
    let Some(at) = state.last_reply.take().filter(|at| *at <= state.out.len() && !follows) else {
        return;
    };
    state.out.truncate(at);
    let code = if (400..600).contains(&code) { code } else { 451 };
    match code {
        421 => state.close(text),
        _ => reply::write(&mut state.out, code, text),
    }
}

/// A command as hooks see it, before it runs.
pub(super) fn shown(state: &ServerState, verb: &'static Verb, argument: &str) -> Command {
    let hidden = matches!(verb.name, "PASS" | "ACCT" | "ADAT");
    let (word, rest) = argument.split_once(' ').unwrap_or((argument, ""));
    let site = if verb.name == "SITE" { table::site_verb(word) } else { None };
    let name = match site {
        Some(site) => site_subject(site.name, rest),
        None => subject(verb, argument),
    };
    let logged_in = state.session.is_logged_in();
    let whole = |name: String| {
        let path = resolve(&state.session.directory, &name).ok();
        path.filter(|_| logged_in)
    };
    let timed = if verb.name == "MDTM" { names::timed(argument) } else { None };
    let sets_time = timed.is_some();
    let words = |text: &str| names::words(text).unwrap_or_default().into_iter();
    let others: Vec<String> = match (verb.name, site.map(|site| site.name)) {
        ("COMB", _) => words(argument).skip(1).collect(),
        (_, Some("COPY")) => words(rest).take(1).collect(),
        _ => timed.map(|(_, name)| name.to_owned()).into_iter().collect(),
    };
    Command {
        verb: verb.name,
        argument: if hidden { "***".to_owned() } else { argument.to_owned() },
        path: name.and_then(whole),
        others: others.into_iter().filter_map(whole).collect(),
        writes: sets_time
            || verb.write
            || site.is_some_and(|word| word.write || word.administrator),
    }
}

/// The name in an argument. Of a rename it is the new one, of COMB the target.
fn subject(verb: &Verb, argument: &str) -> Option<String> {
    let behind = |text: &str| text.split_once(' ').map(|(_, name)| name.to_owned());
    match verb.name {
        "CDUP" | "XCUP" => Some("..".to_owned()),
        _ if !verb.path => None,
        "MFMT" | "MFCT" | "MFF" => behind(argument),
        "LIST" | "NLST" | "STAT" => Some(transfer::options(argument).0.to_owned()),
        "XCRC" | "XMD5" | "XSHA1" | "XSHA256" | "XSHA512" => Some(digest::name(argument)),
        "MD5" => Some(unquote(argument).map_or_else(|| argument.to_owned(), |(name, _)| name)),
        "COMB" => names::words(argument)?.into_iter().next(),
        _ => Some(argument.to_owned()),
    }
}

/// The name in an argument of SITE; of a copy the new one.
fn site_subject(word: &str, argument: &str) -> Option<String> {
    match word {
        "CHMOD" => argument.split_once(' ').map(|(_, name)| name.to_owned()),
        "UTIME" => site::times(argument).map(|(name, _)| name.to_owned()),
        "MKDIR" => Some(argument.to_owned()),
        "COPY" => names::words(argument)?.into_iter().nth(1),
        _ => None,
    }
}
