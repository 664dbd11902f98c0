//! What hooks see of a command, and how they change a reply that has not left.

use super::{Server, digest};
use crate::path::{resolve, unquote};
use crate::reply;
use crate::request::Command;
use crate::table::{self, Verb};

/// The last reply, as long as it may be taken back.
#[derive(Debug, Default)]
pub(super) struct LastReply {
    /// Where it begins in the output.
    at: Option<usize>,
}

impl LastReply {
    pub(super) fn begins(&mut self, at: usize) {
        self.at = Some(at);
    }

    /// So many bytes of the output went out.
    pub(super) fn written(&mut self, count: usize) {
        self.at = self.at.and_then(|at| at.checked_sub(count));
    }
}

impl Server {
    /// Says this instead of the reply that [`crate::Request::After`] has just told of, as long as
    /// no part of it was written. A code that is no 4xx or 5xx becomes 451; 421 ends the session.
    pub fn instead(&mut self, code: u16, text: &str) {
        // What follows from the reply cannot be called back: TLS, the end of the session.
        let follows = !self.requests.is_empty();
        let Some(at) = self.last_reply.at.take().filter(|at| *at <= self.out.len() && !follows)
        else {
            return;
        };
        self.out.truncate(at);
        let code = if (400..600).contains(&code) { code } else { 451 };
        match code {
            421 => self.close(text),
            _ => reply::write(&mut self.out, code, text),
        }
    }

    pub(super) fn shown(&self, verb: &'static Verb, argument: &str) -> Command {
        let hidden = matches!(verb.name, "PASS" | "ACCT" | "ADAT");
        let (word, rest) = argument.split_once(' ').unwrap_or((argument, ""));
        let site = if verb.name == "SITE" { table::site_verb(word) } else { None };
        let name = match site {
            Some(site) => site_subject(site.name, rest),
            None => subject(verb, argument),
        };
        let logged_in = self.session.is_logged_in();
        let whole = |name: String| {
            let path = resolve(&self.session.directory, &name).ok();
            path.filter(|_| logged_in)
        };
        let timed = if verb.name == "MDTM" { super::names::timed(argument) } else { None };
        let sets_time = timed.is_some();
        let others: Vec<String> = match (verb.name, site.map(|site| site.name)) {
            ("COMB", _) => {
                super::names::words(argument).unwrap_or_default().into_iter().skip(1).collect()
            }
            (_, Some("COPY")) => {
                super::names::words(rest).unwrap_or_default().into_iter().take(1).collect()
            }
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
}

/// The name in an argument. Of a rename it is the new one, of COMB the target.
fn subject(verb: &Verb, argument: &str) -> Option<String> {
    let behind = |text: &str| text.split_once(' ').map(|(_, name)| name.to_owned());
    match verb.name {
        "CDUP" | "XCUP" => Some("..".to_owned()),
        _ if !verb.path => None,
        "MFMT" | "MFCT" | "MFF" => behind(argument),
        "LIST" | "NLST" | "STAT" => Some(super::transfer::options(argument).0.to_owned()),
        "XCRC" | "XMD5" | "XSHA1" | "XSHA256" | "XSHA512" => Some(digest::name(argument)),
        "MD5" => Some(unquote(argument).map_or_else(|| argument.to_owned(), |(name, _)| name)),
        "COMB" => super::names::words(argument)?.into_iter().next(),
        _ => Some(argument.to_owned()),
    }
}

/// The name in an argument of SITE; of a copy the new one.
fn site_subject(word: &str, argument: &str) -> Option<String> {
    match word {
        "CHMOD" => argument.split_once(' ').map(|(_, name)| name.to_owned()),
        "UTIME" => super::site::times(argument).map(|(name, _)| name.to_owned()),
        "MKDIR" => Some(argument.to_owned()),
        "COPY" => super::names::words(argument)?.into_iter().nth(1),
        _ => None,
    }
}
