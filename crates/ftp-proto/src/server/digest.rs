//! HASH (draft-bryan-ftpext-hash), XCRC and its like, MD5 (draft-twine-ftpmd5).

use std::fmt::Write as _;

use super::Server;
use super::answers::Then;
use super::parameters::number;
use crate::path::unquote;
use crate::request::{ByteRange, Request};
use crate::settings::Algorithm;

/// How the digest is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `213 SHA-256 0-99 hex name`.
    Hash,
    /// `250 hex`.
    Plain,
    /// `251 name hex`.
    Md5,
}

pub(crate) fn hash(server: &mut Server, argument: &str) {
    let range = server.session.range.take();
    let algorithm = server.session.algorithm;
    ask(server, argument, algorithm, (range, Form::Hash));
}

pub(crate) fn md5(server: &mut Server, argument: &str) {
    let name = unquote(argument).filter(|(_, rest)| rest.is_empty()).map(|(name, _)| name);
    ask(server, name.as_deref().unwrap_or(argument), Algorithm::Md5, (None, Form::Md5));
}

pub(crate) fn xcrc(server: &mut Server, argument: &str) {
    plain(server, argument, Algorithm::Crc32);
}

pub(crate) fn xmd5(server: &mut Server, argument: &str) {
    plain(server, argument, Algorithm::Md5);
}

pub(crate) fn xsha1(server: &mut Server, argument: &str) {
    plain(server, argument, Algorithm::Sha1);
}

pub(crate) fn xsha256(server: &mut Server, argument: &str) {
    plain(server, argument, Algorithm::Sha256);
}

pub(crate) fn xsha512(server: &mut Server, argument: &str) {
    plain(server, argument, Algorithm::Sha512);
}

/// The name, quoted or not, and behind it perhaps two numbers: first byte, and the first not
/// any more (as in proftpd). Two numbers at the end of a name need quotes round it.
fn plain(server: &mut Server, argument: &str, algorithm: Algorithm) {
    let (name, numbers) = parts(argument);
    if numbers.is_empty() {
        return ask(server, &name, algorithm, (None, Form::Plain));
    }
    let range = numbers.split_once(' ').and_then(|(start, end)| {
        let range = ByteRange { start: number(start)?, end: number(end)? };
        (range.start <= range.end).then_some(range)
    });
    match range {
        Some(range) => ask(server, &name, algorithm, (Some(range), Form::Plain)),
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
    server: &mut Server,
    name: &str,
    algorithm: Algorithm,
    (range, form): (Option<ByteRange>, Form),
) {
    let Some(path) = server.path(name) else { return };
    let then = Then::Digest { form, algorithm, name: name.to_owned(), open: false };
    server.ask(Request::Hash { path, algorithm, range }, then);
}

/// The text of the reply.
pub(super) fn text(
    (form, algorithm): (Form, Algorithm),
    name: &str,
    digest: &[u8],
    (start, end): (u64, u64),
) -> (u16, String) {
    let hex = digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    match form {
        Form::Plain => (250, hex),
        Form::Md5 => (251, format!("{name} {hex}")),
        Form::Hash => {
            // Both ends are inclusive, and nothing is `0-0`.
            let last = end.saturating_sub(1).max(start);
            (213, format!("{} {start}-{last} {hex} {name}", algorithm.name()))
        }
    }
}
