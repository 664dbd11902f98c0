//! AUTH, PBSZ, PROT, CCC (RFC 2228, RFC 4217).

use super::login::turn_clear;
use super::pending::Then;
use super::session::Session;
use super::state::{Phase, ServerState};
use crate::request::Request;

pub(crate) fn auth(server: &mut ServerState, argument: &str) {
    if server.secure.tls || server.secure.cleared {
        return server.reply(503, "TLS stands already.");
    }
    // curl 7.88 tries SSL first; TLS-C and TLS-P are TLS here.
    let known = ["TLS", "SSL", "TLS-C", "TLS-P"];
    if !known.iter().any(|name| name.eq_ignore_ascii_case(argument.trim())) {
        return server.reply(504, "Only AUTH TLS is known.");
    }
    if server.session.is_logged_in() {
        server.notice(Request::Logout);
        server.started = server.active;
    }
    server.drop_data();
    let host = server.session.host.take();
    server.session = Session::new(&server.settings);
    server.session.host = host;
    server.reply(234, "Begin TLS now.");
    // CVE-2011-1575: what came in clear behind AUTH is never run.
    server.phase = Phase::Turning;
    server.input.clear();
    server.ask(Request::StartTls, Then::Tls);
}

pub(crate) fn pbsz(server: &mut ServerState, argument: &str) {
    if !server.secure.tls {
        return server.reply(503, "PBSZ comes after AUTH TLS.");
    }
    if argument.parse::<u32>().is_err() || argument.starts_with('+') {
        return server.reply(501, "A number: 0.");
    }
    server.secure.sized = true;
    server.reply(200, "PBSZ=0");
}

pub(crate) fn prot(server: &mut ServerState, argument: &str) {
    if !server.secure.sized || !server.secure.tls {
        return server.reply(503, "PROT comes after AUTH TLS and PBSZ.");
    }
    match argument.trim().to_ascii_uppercase().as_str() {
        "P" => {
            server.secure.protected = true;
            server.reply(200, "Data is encrypted.");
        }
        "C" if server.must_protect() => {
            server.reply(534, "This server wants data encrypted: PROT P.");
        }
        "C" => {
            server.secure.protected = false;
            server.reply(200, "Data is in clear.");
        }
        "S" | "E" => server.reply(536, "TLS knows PROT C and PROT P only."),
        _ => server.reply(504, "PROT C or PROT P."),
    }
}

pub(crate) fn ccc(server: &mut ServerState, _: &str) {
    if !server.secure.tls {
        return server.reply(533, "The control connection is in clear already.");
    }
    if !server.settings.clear_control {
        return server.reply(534, "The policy of this server forbids CCC.");
    }
    server.reply(200, "The control connection is in clear from here on.");
    turn_clear(server, Then::Cleared);
}
