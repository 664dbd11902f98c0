//! RETR, STOR, APPE, STOU, LIST, NLST, MLSD and ABOR (RFC 959 §4.1.3, RFC 3659 §7).

use super::state::{Phase, ServerState, Transfer};
use crate::answer::{End, Refusal};
use crate::listing::Format;
use crate::path::resolve;
use crate::pattern::is_pattern;
use crate::request::{Channel, Request, StoreHow, Target};
use crate::settings::AsciiPolicy;

/// The data connection, or its refusal is said. Whatever comes of it, this is the one transfer
/// that PASV, PORT, REST, RANG and ALLO were for.
fn channel(server: &mut ServerState) -> Option<Channel> {
    if let Some(sentence) = server.draining.take() {
        server.reply(421, &sentence);
        return None;
    }
    if server.must_protect() && !server.secure.protected {
        server.reply(521, "Data must be encrypted: PROT P.");
        return None;
    }
    let Some(data) = server.session.data else {
        server.reply(425, "Say PASV, EPSV, PORT or EPRT first.");
        return None;
    };
    let compressed = server.session.compressed.then_some(server.session.level);
    Some(Channel { data, protected: server.secure.protected, compression: compressed })
}

fn begin(server: &mut ServerState, name: &str, request: Request) {
    server.session.data = None;
    let verb = server.verb;
    let name = name.to_owned();
    server.transfer = Some(Transfer { verb, name, started: false, aborts: 0, chosen: None });
    server.notice(request);
}

/// Whether TYPE A converts; `None` if it is refused, and that is said.
fn ascii(server: &mut ServerState) -> Option<bool> {
    match (server.session.ascii, server.settings.ascii) {
        (true, AsciiPolicy::Refuse) => {
            server.reply(504, "Files are not converted here: use TYPE I.");
            None
        }
        (ascii, policy) => Some(ascii && policy == AsciiPolicy::Convert),
    }
}

pub(crate) fn retr(server: &mut ServerState, argument: &str) {
    let (offset, range) = (server.session.offset, server.session.range);
    server.session.forget_transfer();
    let Some(path) = server.path(argument) else { return };
    let Some(ascii) = ascii(server) else { return };
    let Some(channel) = channel(server) else { return };
    let offset = range.map_or(offset, |range| range.start);
    let length = range.map(|range| range.end - range.start);
    begin(server, argument, Request::Retrieve { path, offset, length, ascii, channel });
}

pub(crate) fn stor(server: &mut ServerState, argument: &str) {
    store(server, argument, StoreHow::Replace);
}

pub(crate) fn appe(server: &mut ServerState, argument: &str) {
    store(server, argument, StoreHow::Append);
}

pub(crate) fn stou(server: &mut ServerState, argument: &str) {
    let prefix = (!argument.is_empty()).then(|| argument.to_owned());
    store(server, argument, StoreHow::Unique { prefix });
}

fn store(server: &mut ServerState, argument: &str, how: StoreHow) {
    let (offset, allocated) = (server.session.offset, server.session.allocated);
    server.session.forget_transfer();
    let unique = matches!(how, StoreHow::Unique { .. });
    let Some(path) = server.new_path(argument) else { return };
    let Some(ascii) = ascii(server) else { return };
    if ascii && offset > 0 {
        return server.reply(554, "An upload in ASCII cannot be resumed: use TYPE I.");
    }
    let Some(channel) = channel(server) else { return };
    let (path, how) = match how {
        StoreHow::Unique { prefix: Some(_) } => {
            let (directory, prefix) = crate::path::split(&path);
            (directory.to_owned(), StoreHow::Unique { prefix: Some(prefix.to_owned()) })
        }
        _ if offset > 0 && !unique => (path, StoreHow::ResumeAt(offset)),
        how => (path, how),
    };
    begin(server, argument, Request::Store { path, how, ascii, allocated, channel });
}

/// Takes options off the front: `-a`, `-la`, `-1`; only `-R` does anything.
pub(super) fn options(argument: &str) -> (&str, bool) {
    let (mut rest, mut recursive) = (argument, false);
    while let Some(word) = rest.split(' ').next().filter(|word| is_options(word)) {
        recursive |= word.contains('R');
        rest = rest.get(word.len()..).unwrap_or("").trim_start_matches(' ');
    }
    (rest, recursive)
}

fn is_options(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or("");
    !letters.is_empty() && letters.bytes().all(|letter| b"alRt1CFAdhnopgrS".contains(&letter))
}

/// What an argument of LIST, NLST or STAT may mean.
pub(super) struct Listed {
    pub(super) target: Target,
    /// `-R` was in it.
    recursive: bool,
}

/// Reads the argument of LIST, NLST or STAT; without a path the client has its reply.
pub(super) fn target(server: &mut ServerState, argument: &str) -> Option<Listed> {
    let (name, recursive) = options(argument);
    let path = server.path(name)?;
    let stripped = name.len() < argument.len();
    let directory = &server.session.directory;
    let literal = if stripped { resolve(directory, argument).ok() } else { None };
    let last = name.rsplit('/').next().unwrap_or(name);
    let (pattern, name) = (is_pattern(last), name.to_owned());
    Some(Listed { target: Target { literal, path, name, pattern }, recursive })
}

pub(crate) fn list(server: &mut ServerState, argument: &str) {
    let Some(listed) = target(server, argument) else { return };
    listing(server, argument, listed, Format::Long);
}

pub(crate) fn nlst(server: &mut ServerState, argument: &str) {
    let Some(listed) = target(server, argument) else { return };
    let name = options(argument).0;
    let prefix = match name.rsplit_once('/') {
        // `NLST d/*.txt` gives `d/a.txt`, `NLST d/` gives `d/f`.
        Some((directory, last)) if listed.target.pattern || last.is_empty() => {
            format!("{directory}/")
        }
        None if listed.target.pattern || name.is_empty() => String::new(),
        _ => format!("{name}/"),
    };
    listing(server, argument, listed, Format::Names { prefix });
}

pub(crate) fn mlsd(server: &mut ServerState, argument: &str) {
    let Some(path) = server.path(argument) else { return };
    let target = Target { literal: None, path, name: argument.to_owned(), pattern: false };
    let format = Format::Facts(server.session.facts);
    listing(server, argument, Listed { target, recursive: false }, format);
}

fn listing(server: &mut ServerState, name: &str, listed: Listed, format: Format) {
    server.session.forget_transfer();
    let Some(channel) = channel(server) else { return };
    let Listed { target, recursive } = listed;
    begin(server, name, Request::List { target, format, recursive, channel });
}

pub(crate) fn abor(server: &mut ServerState, _: &str) {
    match &mut server.transfer {
        Some(transfer) => {
            transfer.aborts = transfer.aborts.saturating_add(1);
            if transfer.aborts == 1 {
                server.notice(Request::Abort);
            }
        }
        None => {
            server.drop_data();
            server.reply(225, "No transfer runs.");
        }
    }
}

/// A transfer that begins, as the adapter describes it.
#[derive(Default)]
pub(super) struct Started {
    /// The data connection stands already.
    pub(super) connected: bool,
    /// Bytes that will be sent, if known.
    pub(super) size: Option<u64>,
    /// The name STOU chose.
    pub(super) name: Option<String>,
}

/// Replies 150, or 125 if the data connection stands.
pub(super) fn started(server: &mut ServerState, started: Started) {
    let Started { connected, size, name } = started;
    let ascii = server.session.ascii;
    let Some(transfer) = server.transfer.as_mut().filter(|transfer| !transfer.started) else {
        return;
    };
    transfer.started = true;
    let code = if connected { 125 } else { 150 };
    let text = match (transfer.verb, &name) {
        // In exactly this form (RFC 1123 §4.1.2.9).
        ("STOU", Some(name)) => format!("FILE: {name}"),
        ("RETR", _) => {
            let kind = if ascii { "ASCII" } else { "BINARY" };
            let size = size.map_or_else(String::new, |size| format!(" ({size} bytes)"));
            format!("Opening {kind} mode data connection for {}{size}", transfer.name)
        }
        ("STOR" | "APPE" | "STOU", _) => format!("Send {} now.", transfer.name),
        _ => "Here comes the listing.".to_owned(),
    };
    let code = if transfer.verb == "STOU" { 150 } else { code };
    transfer.chosen = name;
    server.say(code, &text);
}

/// To a client that makes a new TLS session for its data connection.
const NOT_RESUMED: &str = "The data connection must resume the TLS session of the control \
    connection: switch on TLS session reuse in the client, or ask for tls_reuse 'preferred'.";

/// Says how it ended, answers the ABORs, and lets the kept commands run.
pub(super) fn ended(server: &mut ServerState, end: End) {
    if end == End::Complete && server.transfer.as_ref().is_some_and(|transfer| !transfer.started) {
        self::started(server, Started::default());
    }
    let Some(transfer) = server.transfer.take() else { return };
    server.verb = transfer.verb;
    let verb = transfer.verb;
    match &end {
        End::Complete => match transfer.chosen {
            Some(name) => server.reply(226, &format!("FILE: {name}")),
            None => server.reply(226, "The transfer is complete."),
        },
        End::NoConnection => server.reply(425, "No data connection could be made."),
        End::Cut if is_upload(verb) => {
            server.reply(426, "The data connection was cut: nothing is published.");
        }
        End::Cut => server.reply(426, "The data connection was cut."),
        End::TlsFailed => server.reply(522, "TLS on the data connection failed: try again."),
        End::NotResumed => server.reply(522, NOT_RESUMED),
        End::OtherCertificate => {
            let same = "The data connection must show the certificate of the control connection.";
            server.reply(522, same);
        }
        End::Aborted => server.reply(426, "The transfer is aborted."),
        End::Drained => return server.reply(421, "The server is closing: come back later."),
        End::Refused(refusal) => refuse(server, refusal, verb),
    }
    if server.phase == Phase::Closed {
        return;
    }
    server.verb = "ABOR";
    for number in 0..transfer.aborts {
        if number == 0 && end == End::Aborted {
            server.reply(226, "ABOR is done.");
        } else {
            server.reply(225, "No transfer runs any more.");
        }
    }
    server.verb = transfer.verb;
    if !server.quitting {
        server.drain_if_idle();
    }
}

fn is_upload(verb: &str) -> bool {
    matches!(verb, "STOR" | "APPE" | "STOU")
}

/// Whether a verb uses a data connection.
pub(super) fn is_transfer(verb: &str) -> bool {
    is_upload(verb) || matches!(verb, "RETR" | "LIST" | "NLST" | "MLSD")
}

fn refuse(server: &mut ServerState, refusal: &Refusal, verb: &str) {
    server.reply(refusal.code(verb), refusal.sentence());
}
