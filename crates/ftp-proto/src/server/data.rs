//! PORT, PASV (RFC 959 §4.1.2), EPRT, EPSV (RFC 2428): who connects for the next transfer.

use std::net::SocketAddr;

use super::Server;
use super::answers::Then;
use super::login::drop_data;
use crate::hostport::{EprtFlaw, parse_eprt, parse_port};
use crate::request::{Data, Request};

impl Server {
    /// Whether the control connection is of IPv4, mapped ones included.
    fn is_ipv4(&self) -> bool {
        self.settings.peer.ip().to_canonical().is_ipv4()
    }

    /// After EPSV ALL only EPSV may be said; else 501.
    fn is_extended_only(&mut self) -> bool {
        if self.session.extended_only {
            self.reply(501, "You said EPSV ALL: only EPSV is taken.");
        }
        self.session.extended_only
    }

    fn other_family(&mut self) {
        let ours = if self.is_ipv4() { 1 } else { 2 };
        self.reply(522, &format!("That network protocol is not for this connection, use ({ours})"));
    }
}

pub(crate) fn port(server: &mut Server, argument: &str) {
    if server.is_extended_only() {
        return;
    }
    match parse_port(argument.trim()) {
        Some(_) if !server.is_ipv4() => server.reply(501, "This is an IPv6 connection: use EPRT."),
        Some(address) => active(server, address),
        None => server.reply(501, "Six numbers of 0 to 255 with commas between."),
    }
}

pub(crate) fn eprt(server: &mut Server, argument: &str) {
    if server.is_extended_only() {
        return;
    }
    match parse_eprt(argument.trim()) {
        Ok(address) if address.ip().to_canonical().is_ipv4() != server.is_ipv4() => {
            server.other_family();
        }
        Ok(address) => active(server, address),
        Err(EprtFlaw::Family) => {
            server.reply(522, "That network protocol is not known, use (1,2)");
        }
        Err(EprtFlaw::Syntax) => server.reply(501, "Syntax: EPRT |<1 or 2>|<address>|<port>|"),
    }
}

/// No bounce: decided before anybody connects (RFC 2577).
fn active(server: &mut Server, mut address: SocketAddr) {
    drop_data(server);
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

pub(crate) fn pasv(server: &mut Server, _: &str) {
    if server.is_extended_only() {
        return;
    }
    if !server.is_ipv4() {
        return server.reply(425, "This is an IPv6 connection: use EPSV.");
    }
    passive(server, false);
}

pub(crate) fn epsv(server: &mut Server, argument: &str) {
    match argument.trim().to_ascii_uppercase().as_str() {
        "" => passive(server, true),
        "ALL" => {
            server.session.extended_only = true;
            server.reply(200, "Only EPSV is taken from here on.");
        }
        "1" if server.is_ipv4() => passive(server, true),
        "2" if !server.is_ipv4() => passive(server, true),
        "1" | "2" => server.other_family(),
        other if other.bytes().all(|byte| byte.is_ascii_digit()) => {
            server.reply(522, "That network protocol is not known, use (1,2)");
        }
        _ => server.reply(501, "Syntax: EPSV [1|2|ALL]"),
    }
}

fn passive(server: &mut Server, extended: bool) {
    // The adapter drops the old expectation when it makes the new one.
    server.session.data = None;
    server.ask(Request::Passive { extended }, Then::Passive { extended });
}
