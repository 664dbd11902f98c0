//! SYST, NOOP, STAT, HELP, FEAT, CLNT, CSID: what the server says of itself.

use super::Server;
use super::answers::Then;
use super::transfer::target;
use crate::request::Request;
use crate::settings::Algorithm;
use crate::table::{self, Feature, VERBS};

/// What CSID and STAT call us.
const NAME: &str = "Entrepot";
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn syst(server: &mut Server, _: &str) {
    server.reply(215, "UNIX Type: L8");
}

pub(crate) fn noop(server: &mut Server, _: &str) {
    server.reply(200, "Nothing was done.");
}

/// For verbs that are known and never offered; dispatch says 502 before.
pub(crate) fn not_implemented(server: &mut Server, _: &str) {
    server.reply(502, "That command is not implemented here.");
}

pub(crate) fn clnt(server: &mut Server, argument: &str) {
    server.session.client = Some(argument.to_owned());
    server.reply(200, "Noted.");
}

pub(crate) fn csid(server: &mut Server, argument: &str) {
    server.session.client = Some(argument.to_owned());
    let text = format!("Name={NAME}; Version={VERSION}; OS=UNIX; CaseSensitive=1; DirSep=/;");
    server.reply(200, &text);
}

pub(crate) fn stat(server: &mut Server, argument: &str) {
    if !argument.is_empty() {
        if let Some((target, _)) = target(server, argument) {
            server.ask(Request::StatPath(target), Then::Listing(argument.to_owned()));
        }
        return;
    }
    if server.transfer.is_some() {
        return server.ask(Request::Progress, Then::Progress);
    }
    let session = &server.session;
    let user = session.user().unwrap_or("nobody");
    let kind = if session.ascii { "ASCII" } else { "binary" };
    let mode = if session.compressed { "compressed" } else { "stream" };
    let control = if server.secure.tls { "TLS" } else { "clear text" };
    let data = if server.secure.protected { "TLS" } else { "clear text" };
    let text = format!(
        "{NAME} {VERSION}, state of this session:\n\
         Connected from {}\n\
         Logged in as {user}\n\
         TYPE: {kind}, STRUcture: file, MODE: {mode}\n\
         Control connection: {control}, data connections: {data}\n\
         Current directory: {}\n\
         Times in listings are UTC\n\
         No transfer runs",
        server.settings.peer.ip().to_canonical(),
        session.directory,
    );
    server.reply(211, &format!("{text}\nEnd"));
}

pub(crate) fn help(server: &mut Server, argument: &str) {
    let word = argument.trim();
    if word.is_empty() {
        let offered = VERBS.iter().filter(|verb| verb.is_offered(&server.settings));
        let names: Vec<&str> = offered.map(|verb| verb.name).collect();
        let lines: Vec<String> = names
            .chunks(8)
            .map(|row| {
                row.iter().fold(String::from(" "), |line, name| line + &format!("{name:<9}"))
            })
            .map(|line| line.trim_end().to_owned())
            .collect();
        let text = format!("These commands are known:\n{}\nHELP <command>", lines.join("\n"));
        return server.reply(214, &text);
    }
    let verb = table::verb(word.as_bytes()).filter(|verb| verb.is_offered(&server.settings));
    match verb {
        Some(verb) if verb.name == "SITE" => super::site::help(server, ""),
        Some(verb) => {
            let text = format!("Syntax: {} {}", verb.name, verb.syntax);
            server.reply(214, &format!("{}. {}", text.trim_end(), verb.help));
        }
        None => server.reply(502, "That command is not known here."),
    }
}

pub(crate) fn feat(server: &mut Server, _: &str) {
    let mut text = String::from("Besides RFC 959:");
    for verb in VERBS.iter().filter(|verb| verb.is_offered(&server.settings)) {
        let line = match verb.feature {
            Feature::No => continue,
            Feature::Text(text) => text.to_owned(),
            Feature::Made(make) => make(server),
        };
        if !line.is_empty() {
            text += &format!("\n {line}");
        }
    }
    server.reply(211, &format!("{text}\nEnd"));
}

pub(crate) fn mlst_feature(server: &Server) -> String {
    format!("MLST {}", server.session.facts.feature())
}

pub(crate) fn mff_feature(server: &Server) -> String {
    let create = if server.settings.creation_times { "create;" } else { "" };
    let mode = if server.settings.site.chmod { "UNIX.mode;" } else { "" };
    format!("MFF modify;{create}{mode}")
}

pub(crate) fn mode_feature(server: &Server) -> String {
    server.settings.compression.map_or_else(String::new, |_| "MODE Z".to_owned())
}

pub(crate) fn ccc_feature(server: &Server) -> String {
    if server.settings.clear_control { "CCC".to_owned() } else { String::new() }
}

pub(crate) fn hash_feature(server: &Server) -> String {
    let chosen = |algorithm: &Algorithm| *algorithm == server.session.algorithm;
    let name = |algorithm: &Algorithm| {
        format!("{}{}", algorithm.name(), if chosen(algorithm) { "*" } else { "" })
    };
    let names: Vec<String> = server.settings.algorithms.iter().map(name).collect();
    format!("HASH {}", names.join(";"))
}
