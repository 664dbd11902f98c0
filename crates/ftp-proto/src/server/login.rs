//! USER, PASS, ACCT, REIN, QUIT (RFC 959 §4.1.1) and HOST (RFC 7151).

use std::net::IpAddr;

use super::pending::Then;
use super::session::{Session, Who};
use super::state::{Phase, ServerState};
use crate::answer::Login;
use crate::limits::CREDENTIAL_BYTES;
use crate::request::{Request, Secret};

pub(crate) fn user(server: &mut ServerState, argument: &str) {
    if server.settings.require_tls && !server.secure.tls {
        return server.reply(530, "Say AUTH TLS first: this server wants logins encrypted.");
    }
    log_out(server);
    if argument.len() > CREDENTIAL_BYTES {
        return server.reply(501, "That name is too long.");
    }
    if server.settings.ask_user {
        let request = Request::User(argument.to_owned());
        return server.ask(request, Then::User(argument.to_owned()));
    }
    need_password(server, argument.to_owned());
}

/// The same words for every name.
pub(super) fn need_password(server: &mut ServerState, user: String) {
    server.session.who = Who::Named(user);
    let text = match &server.settings.login_host {
        Some(host) => format!("Send the password of your account at {host}."),
        None => "Send the password.".to_owned(),
    };
    server.reply(331, &text);
}

fn log_out(server: &mut ServerState) {
    if server.session.is_logged_in() {
        server.notice(Request::Logout);
        server.started = server.active;
    }
    server.drop_data();
    server.session.who = Who::Nobody;
    server.session.directory = "/".to_owned();
    server.session.forget_transfer();
}

pub(crate) fn pass(server: &mut ServerState, argument: &str) {
    let user = match &server.session.who {
        Who::Named(user) => user.clone(),
        Who::In(..) => return server.reply(503, "You are logged in already."),
        _ => return server.reply(503, "Send USER first."),
    };
    if argument.len() > CREDENTIAL_BYTES {
        return denied(server, None);
    }
    let request = Request::Password { user: user.clone(), password: Secret::new(argument) };
    server.ask(request, Then::Password(user));
}

pub(crate) fn acct(server: &mut ServerState, argument: &str) {
    let secret = Secret::new(argument);
    match &server.session.who {
        Who::Unaccounted(user) => {
            let user = user.clone();
            server.ask(Request::Account(secret), Then::Password(user));
        }
        Who::In(..) if server.settings.accounts => {
            server.ask(Request::Account(secret), Then::Done(230, "The account is chosen.".into()));
        }
        Who::In(..) => server.reply(202, "No account is needed."),
        _ => server.reply(503, "Send USER and PASS first."),
    }
}

/// 230, or 232 when a certificate was enough.
pub(super) fn logged_in(server: &mut ServerState, user: String, login: Login, code: u16) {
    server.session.directory.clone_from(&login.directory);
    let text = login.message.clone().unwrap_or_else(|| match &server.settings.login_host {
        Some(host) => format!("You are logged in at {host}."),
        None => "You are logged in.".to_owned(),
    });
    server.session.who = Who::In(user, login);
    server.wrong_passwords = 0;
    server.reply(code, &text);
}

/// 530, and 421 after too many.
pub(super) fn denied(server: &mut ServerState, told: Option<(u16, &str)>) {
    server.session.who = Who::Nobody;
    server.wrong_passwords += 1;
    let text = match &server.settings.login_host {
        Some(host) => format!(
            "The login is not right: it was tried at {host}, the host name that you connected to."
        ),
        None => "The login is not right.".to_owned(),
    };
    let (code, text) = told.unwrap_or((530, &text));
    server.reply(code, text);
    if server.wrong_passwords >= server.settings.login_attempts {
        server.close("Too many wrong logins: the session is closed.");
    }
}

pub(crate) fn rein(server: &mut ServerState, _: &str) {
    if server.secure.implicit {
        return server.reply(502, "TLS cannot be ended on this port: QUIT and connect again.");
    }
    log_out(server);
    server.session = Session::new(&server.settings);
    server.reply(220, "Begin again with USER.");
    if server.secure.tls {
        // RFC 4217 §13: the reply goes out inside TLS, then clear text.
        turn_clear(server, Then::Reset);
    } else {
        server.secure = super::session::Secure::default();
    }
}

/// Nothing that is buffered belongs to the new state of the connection.
pub(super) fn turn_clear(server: &mut ServerState, then: Then) {
    server.phase = Phase::Turning;
    server.input.clear();
    server.ask(Request::ClearControl, then);
}

pub(crate) fn quit(server: &mut ServerState, _: &str) {
    server.reply(221, "Goodbye.");
    server.end();
}

pub(crate) fn host(server: &mut ServerState, argument: &str) {
    if !matches!(server.session.who, Who::Nobody) {
        return server.reply(503, "HOST comes before USER.");
    }
    let literal = argument.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let name_with_port = literal.is_none() && argument.contains(':');
    if name_with_port || argument.contains([' ', '/']) || argument.len() > 255 {
        return server.reply(501, "A host name alone, without a port.");
    }
    if let Ok(address) = literal.unwrap_or(argument).parse::<IpAddr>() {
        if address.to_canonical() != server.settings.local.ip().to_canonical() {
            return server.reply(504, "That is not the address of this server.");
        }
    } else if literal.is_some() {
        return server.reply(501, "An address stands in brackets.");
    }
    let name = literal.unwrap_or(argument).to_ascii_lowercase();
    server.ask(Request::Host(name.clone()), Then::Host(name));
}
