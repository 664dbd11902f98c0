//! SYST, NOOP, STAT, CLNT, CSID and lines of FEAT: what the server says of itself.

use super::pending::Then;
use super::state::ServerState;
use super::transfer::target;
use crate::request::Request;
use crate::settings::Algorithm;

/// What CSID and STAT call us.
const NAME: &str = "Entrepot";
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn syst(server: &mut ServerState, _: &str) {
    server.reply(215, "UNIX Type: L8");
}

pub(crate) fn noop(server: &mut ServerState, _: &str) {
    server.reply(200, "Nothing was done.");
}

/// For verbs that are known and never offered; dispatch says 502 before.
pub(crate) fn not_implemented(server: &mut ServerState, _: &str) {
    server.reply(502, "That command is not implemented here.");
}

pub(crate) fn clnt(server: &mut ServerState, argument: &str) {
    server.session.client = Some(argument.to_owned());
    server.reply(200, "Noted.");
}

pub(crate) fn csid(server: &mut ServerState, argument: &str) {
    server.session.client = Some(argument.to_owned());
    let text = format!("Name={NAME}; Version={VERSION}; OS=UNIX; CaseSensitive=1; DirSep=/;");
    server.reply(200, &text);
}

pub(crate) fn stat(server: &mut ServerState, argument: &str) {
    if !argument.is_empty() {
        if let Some(listed) = target(server, argument) {
            server.ask(Request::StatPath(listed.target), Then::Listing(argument.to_owned()));
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

pub(crate) fn mlst_feature(server: &ServerState) -> String {
    format!("MLST {}", server.session.facts.feature())
}

pub(crate) fn mff_feature(server: &ServerState) -> String {
    let create = if server.settings.creation_times { "create;" } else { "" };
    let mode = if server.settings.site.chmod { "UNIX.mode;" } else { "" };
    format!("MFF modify;{create}{mode}")
}

pub(crate) fn mode_feature(server: &ServerState) -> String {
    server.settings.compression.map_or_else(String::new, |_| "MODE Z".to_owned())
}

pub(crate) fn ccc_feature(server: &ServerState) -> String {
    if server.settings.clear_control { "CCC".to_owned() } else { String::new() }
}

pub(crate) fn hash_feature(server: &ServerState) -> String {
    let chosen = |algorithm: &Algorithm| *algorithm == server.session.algorithm;
    let name = |algorithm: &Algorithm| {
        format!("{}{}", algorithm.name(), if chosen(algorithm) { "*" } else { "" })
    };
    let names: Vec<String> = server.settings.algorithms.iter().map(name).collect();
    format!("HASH {}", names.join(";"))
}
