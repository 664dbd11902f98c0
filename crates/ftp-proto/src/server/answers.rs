//! Answers of the adapter become replies.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use super::pending::{PassiveForm, Then};
use super::session::{Secure, Session, Who};
use super::state::{Phase, ServerState};
use super::{digest, login, names, transfer};
use crate::answer::{Answer, Refusal, Why};
use crate::entry::{Role, Stat};
use crate::facts::FactSet;
use crate::limits::STAT_LINES;
use crate::listing::{is_listed, long};
use crate::request::{ByteRange, Data};
use crate::time::Time;

/// What is said of permission bits where none are kept: 202 to SITE CHMOD ("superfluous at this
/// site", RFC 959 §4.2.2), for clients send it behind uploads that went well; 504 to MFF.
const NO_MODES: &str = "Permissions are not kept here: nothing was changed.";

/// Replies to a request that the adapter refuses.
pub(super) fn refused(state: &mut ServerState, then: Then, refusal: &Refusal) {
    let code = refusal.code(state.verb);
    match then {
        Then::Modified { set: Some(set) } if refusal.why() == Some(Why::NotFound) => {
            return names::set_by_mdtm(state, set);
        }
        Then::Host(_) if refusal.why().is_some() && code != 421 => {
            return state.reply(504, "That host is not served here.");
        }
        Then::User(_) | Then::Password(_) if code != 421 => {
            // A rule may say its own words; our reasons would tell names apart.
            let told = refusal.why().is_none().then(|| (code, refusal.sentence()));
            return login::denied(state, told);
        }
        // An open reply can only be ended by its own code, which would mean success.
        Then::Digest { open: true, .. } => {
            return state.reply(421, refusal.sentence());
        }
        Then::Tls | Then::Reset | Then::Cleared => return state.end(),
        // REST, RANG and ALLO were for this transfer, whether it runs or not.
        Then::Run(_) if transfer::is_transfer(state.verb) => state.session.forget_transfer(),
        _ => {}
    }
    state.reply(code, refusal.sentence());
}

/// Replies to a request that the adapter has carried out.
pub(super) fn answered(state: &mut ServerState, then: Then, answer: Answer) {
    match (then, answer) {
        (Then::Host(name), Answer::Done) => {
            state.session.host = Some(name);
            let greeting = state.settings.greeting.clone();
            state.reply(220, &greeting);
        }
        (Then::User(user), Answer::NeedPassword) => login::need_password(state, user),
        (Then::User(user), Answer::LoggedIn(login)) => {
            login::logged_in(state, user, login, 232);
        }
        (Then::Password(user), Answer::LoggedIn(login)) => {
            login::logged_in(state, user, login, 230);
        }
        (Then::Password(user), Answer::NeedAccount) => {
            state.session.who = Who::Unaccounted(user);
            state.reply(332, "Send the account or one-time code: ACCT.");
        }
        (Then::User(_) | Then::Password(_), Answer::Denied) => login::denied(state, None),
        (Then::Tls, Answer::TlsStands) => {
            state.secure = Secure::explicit();
            state.phase = Phase::Open;
        }
        (Then::Reset, Answer::Done) => {
            state.secure = Secure::default();
            state.session = Session::new(&state.settings);
            state.phase = Phase::Open;
        }
        (Then::Cleared, Answer::Done) => {
            state.secure.tls = false;
            state.secure.cleared = true;
            state.phase = Phase::Open;
        }
        (Then::Tls | Then::Reset | Then::Cleared, _) => state.end(),
        (then, answer) => named(state, then, answer),
    }
}

/// Answers about files.
fn named(state: &mut ServerState, then: Then, answer: Answer) {
    match (then, answer) {
        (Then::Done(code, text), Answer::Done) => state.reply(code, &text),
        (Then::Chmod, Answer::Mode(mode)) => {
            state.reply(200, &format!("The permissions are {mode:04o}."));
        }
        (Then::Chmod, Answer::NoModes) => state.reply(202, NO_MODES),
        (Then::Facts { before, name, behind }, Answer::Mode(mode)) => {
            state.reply(213, &format!("{before}{name}={mode:04o};{behind}"));
        }
        (Then::Facts { .. }, Answer::NoModes) => state.reply(504, NO_MODES),
        (Then::Directory(path), Answer::Done) => {
            state.session.directory = path;
            state.reply(250, "The directory is changed.");
        }
        (Then::RenameFrom(path), Answer::Done) => {
            state.session.rename_from = Some(path);
            state.reply(350, "Send RNTO.");
        }
        (Then::Allocated(bytes), Answer::Done) => {
            state.session.allocated = Some(bytes);
            state.reply(200, &format!("There is room for {bytes} bytes."));
        }
        (Then::Number, Answer::Number(number)) => state.reply(213, &number.to_string()),
        (Then::Progress, Answer::Number(bytes)) => {
            state.reply(211, &format!("State of the transfer:\n{bytes} bytes so far\nEnd"));
        }
        (Then::Modified { .. }, Answer::Modified(time)) => state.reply(213, &time.digits_14()),
        (Then::Entry(path), Answer::Entry(stat)) => {
            let facts = entry(state.session.facts, &path, &stat);
            state.reply(250, &format!("Listing {path}\n {facts}\nEnd"));
        }
        (Then::Digest { form, algorithm, name, .. }, Answer::Digest { digest, start, end }) => {
            let range = ByteRange { start, end };
            let computed = digest::Computed { algorithm, digest, range };
            let (code, text) = digest::reply(form, &name, &computed);
            state.reply(code, &text);
        }
        (Then::Listing(name), Answer::Listing { directory, entries, now }) => {
            let text = listing(&name, &entries, now);
            state.reply(if directory { 212 } else { 213 }, &text);
        }
        (Then::Passive(PassiveForm::Epsv), Answer::Passive(address)) => {
            state.session.data = Some(Data::Passive);
            let port = address.port();
            state.reply(229, &format!("Entering Extended Passive Mode (|||{port}|)"));
        }
        (Then::Passive(PassiveForm::Pasv), Answer::Passive(address)) => {
            tell_address(state, address);
        }
        (_, Answer::Denied) => state.reply(530, "That is not right."),
        _ => state.reply(451, "The server has no answer to that: try again later."),
    }
}

fn tell_address(state: &mut ServerState, address: SocketAddr) {
    let IpAddr::V4(ip) = address.ip().to_canonical() else {
        return state.reply(425, "There is no IPv4 address to tell: use EPSV.");
    };
    state.session.data = Some(Data::Passive);
    let address = SocketAddrV4::new(ip, address.port());
    let numbers = crate::hostport::port_argument(address);
    state.reply(227, &format!("Entering Passive Mode ({numbers})."));
}

/// The lines of STAT with a path.
fn listing(name: &str, entries: &[(String, Stat)], now: Time) -> String {
    let mut text = format!("State of {name}:");
    let listed = entries.iter().filter(|(name, _)| is_listed(name));
    for (name, stat) in listed.take(STAT_LINES) {
        let mut line = Vec::new();
        long(name, stat, now, &mut line);
        text.push_str("\n ");
        // It was made of text.
        text.push_str(&String::from_utf8_lossy(&line));
    }
    let more = entries.len() > STAT_LINES;
    let end = if more { "End of the first 1000" } else { "End" };
    format!("{text}\n{end}")
}

fn entry(facts: FactSet, path: &str, stat: &Stat) -> String {
    let mut line = Vec::new();
    facts.write(path, stat, Role::Entry, &mut line);
    // It was made of text.
    String::from_utf8_lossy(&line).into_owned()
}
