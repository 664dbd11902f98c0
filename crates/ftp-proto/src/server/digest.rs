//! HASH (draft-bryan-ftpext-hash), XCRC and its like, MD5 (draft-twine-ftpmd5).

use std::fmt::Write as _;

use super::parameters::number;
use super::pending::{DigestForm, Then};
use super::state::ServerState;
use crate::path::unquote;
use crate::request::{ByteRange, Request};
use crate::settings::Algorithm;

pub(crate) fn hash(server: &mut ServerState, argument: &str) {
    let range = server.session.range.take();
    let algorithm = server.session.algorithm;
    ask(server, argument, algorithm, range, DigestForm::Hash);
}

pub(crate) fn md5(server: &mut ServerState, argument: &str) {
    let name = unquote(argument).filter(|(_, rest)| rest.is_empty()).map(|(name, _)| name);
    ask(server, name.as_deref().unwrap_or(argument), Algorithm::Md5, None, DigestForm::Md5);
}

pub(crate) fn xcrc(server: &mut ServerState, argument: &str) {
    plain(server, argument, Algorithm::Crc32);
}

pub(crate) fn xmd5(server: &mut ServerState, argument: &str) {
    plain(server, argument, Algorithm::Md5);
}

pub(crate) fn xsha1(server: &mut ServerState, argument: &str) {
    plain(server, argument, Algorithm::Sha1);
}

pub(crate) fn xsha256(server: &mut ServerState, argument: &str) {
    plain(server, argument, Algorithm::Sha256);
}

pub(crate) fn xsha512(server: &mut ServerState, argument: &str) {
    plain(server, argument, Algorithm::Sha512);
}

/// The name, quoted or not, and behind it perhaps two numbers: first byte, and the first not
/// any more (as in proftpd). Two numbers at the end of a name need quotes round it.
fn plain(server: &mut ServerState, argument: &str, algorithm: Algorithm) {
    let (name, numbers) = parts(argument);
    if numbers.is_empty() {
        return ask(server, &name, algorithm, None, DigestForm::Plain);
    }
    let range = numbers.split_once(' ').and_then(|(start, end)| {
        let range = ByteRange { start: number(start)?, end: number(end)? };
        (range.start <= range.end).then_some(range)
    });
    match range {
        Some(range) => ask(server, &name, algorithm, Some(range), DigestForm::Plain),
        None => server.reply(501, "Behind the name: the first byte, and the first not any more."),
    }
}

fn parts(argument: &str) -> (String, String) {
    match unquote(argument) {
        Some((name, rest)) => (name, rest.trim().to_owned()),
        None => unquoted(argument),
    }
}

/// The name in the argument of XCRC and its like.
pub(super) fn name(argument: &str) -> String {
    parts(argument).0
}

fn unquoted(argument: &str) -> (String, String) {
    let mut parts = argument.rsplitn(3, ' ');
    let (end, start, name) = (parts.next(), parts.next(), parts.next());
    match (name, start, end) {
        (Some(name), Some(start), Some(end))
            if !name.is_empty() && number(start).is_some() && number(end).is_some() =>
        {
            (name.to_owned(), format!("{start} {end}"))
        }
        _ => (argument.to_owned(), String::new()),
    }
}

fn ask(
    server: &mut ServerState,
    name: &str,
    algorithm: Algorithm,
    range: Option<ByteRange>,
    form: DigestForm,
) {
    let Some(path) = server.path(name) else { return };
    let then = Then::Digest { form, algorithm, name: name.to_owned(), open: false };
    server.ask(Request::Hash { path, algorithm, range }, then);
}

/// A digest that was made.
pub(super) struct Computed {
    pub(super) algorithm: Algorithm,
    pub(super) digest: Vec<u8>,
    /// The bytes that it is of.
    pub(super) range: ByteRange,
}

/// The code and the text of the reply.
pub(super) fn reply(form: DigestForm, name: &str, computed: &Computed) -> (u16, String) {
    let Computed { algorithm, digest, range: ByteRange { start, end } } = computed;
    let hex = digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    match form {
        DigestForm::Plain => (250, hex),
        DigestForm::Md5 => (251, format!("{name} {hex}")),
        DigestForm::Hash => {
            // Both ends are inclusive, and nothing is `0-0`.
            let last = end.saturating_sub(1).max(*start);
            (213, format!("{} {start}-{last} {hex} {name}", algorithm.name()))
        }
    }
}
