//! PORT, PASV (RFC 959 §4.1.2), EPRT, EPSV (RFC 2428): who connects for the next transfer.

use std::net::SocketAddr;

use super::pending::{PassiveForm, Then};
use super::state::ServerState;
use crate::hostport::{EprtFlaw, parse_eprt, parse_port};
use crate::request::{Data, Request};

/// Whether the control connection is of IPv4, mapped ones included.
fn is_ipv4(server: &ServerState) -> bool {
    server.settings.peer.ip().to_canonical().is_ipv4()
}

/// True after EPSV ALL, when nothing but EPSV is taken: the client gets a 501.
fn is_extended_only(server: &mut ServerState) -> bool {
    if server.session.extended_only {
        server.reply(501, "You said EPSV ALL: only EPSV is taken.");
    }
    server.session.extended_only
}

fn other_family(server: &mut ServerState) {
    let ours = if is_ipv4(server) { 1 } else { 2 };
    server.reply(522, &format!("That network protocol is not for this connection, use ({ours})"));
}

pub(crate) fn port(server: &mut ServerState, argument: &str) {
    if is_extended_only(server) {
        return;
    }
    match parse_port(argument.trim()) {
        Some(_) if !is_ipv4(server) => server.reply(501, "This is an IPv6 connection: use EPRT."),
        Some(address) => active(server, address),
        None => server.reply(501, "Six numbers of 0 to 255 with commas between."),
    }
}

pub(crate) fn eprt(server: &mut ServerState, argument: &str) {
    if is_extended_only(server) {
        return;
    }
    match parse_eprt(argument.trim()) {
        Ok(address) if address.ip().to_canonical().is_ipv4() != is_ipv4(server) => {
            other_family(server);
        }
        Ok(address) => active(server, address),
        Err(EprtFlaw::Family) => {
            server.reply(522, "That network protocol is not known, use (1,2)");
        }
        Err(EprtFlaw::Syntax) => server.reply(501, "Syntax: EPRT |<1 or 2>|<address>|<port>|"),
    }
}

/// No bounce: decided before anybody connects (RFC 2577).
fn active(server: &mut ServerState, mut address: SocketAddr) {
    server.drop_data();
    if address.ip().is_unspecified() {
        // lftp 4.9.2 on IPv6 sends the address of a socket that is not bound yet.
        address.set_ip(server.settings.peer.ip());
    }
    if !server.settings.may_connect(address) {
        return server.reply(504, "Data goes to your own address and ports from 1024 on only.");
    }
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    server.session.data = Some(Data::Active(address));
    server.reply(200, "The next transfer goes there.");
}

pub(crate) fn pasv(server: &mut ServerState, _: &str) {
    if is_extended_only(server) {
        return;
    }
    if !is_ipv4(server) {
        return server.reply(425, "This is an IPv6 connection: use EPSV.");
    }
    passive(server, PassiveForm::Pasv);
}

pub(crate) fn epsv(server: &mut ServerState, argument: &str) {
    match argument.trim().to_ascii_uppercase().as_str() {
        "" => passive(server, PassiveForm::Epsv),
        "ALL" => {
            server.session.extended_only = true;
            server.reply(200, "Only EPSV is taken from here on.");
        }
        "1" if is_ipv4(server) => passive(server, PassiveForm::Epsv),
        "2" if !is_ipv4(server) => passive(server, PassiveForm::Epsv),
        "1" | "2" => other_family(server),
        other if other.bytes().all(|byte| byte.is_ascii_digit()) => {
            server.reply(522, "That network protocol is not known, use (1,2)");
        }
        _ => server.reply(501, "Syntax: EPSV [1|2|ALL]"),
    }
}

fn passive(server: &mut ServerState, form: PassiveForm) {
    // The adapter drops the old expectation when it makes the new one.
    server.session.data = None;
    let extended = form == PassiveForm::Epsv;
    server.ask(Request::Passive { extended }, Then::Passive(form));
}
