//! Answers of the adapter become replies.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use zeroize::Zeroizing;

use super::session::{Secure, Session, Who};
use super::{Phase, Server, digest, login, names, transfer};
use crate::answer::{Answer, End, Refusal, Why};
use crate::facts::FactSet;
use crate::limits::STAT_LINES;
use crate::listing::{Role, Stat, is_listed, long};
use crate::reply;
use crate::request::Data;
use crate::settings::Algorithm;
use crate::table::Verb;
use crate::time::Time;

/// What is said of permission bits where none are kept: 202 to SITE CHMOD ("superfluous at this
/// site", RFC 959 §4.2.2), for clients send it behind uploads that went well; 504 to MFF.
const NO_MODES: &str = "Permissions are not kept here: nothing was changed.";

/// An open request.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) verb: &'static Verb,
    pub(super) then: Then,
}

/// What its answer is for.
#[derive(Debug)]
pub(super) enum Then {
    /// A hook looks at the command with this argument.
    Run(Zeroizing<String>),
    Host(String),
    User(String),
    /// PASS or ACCT of this user.
    Password(String),
    Tls,
    /// After REIN.
    Reset,
    /// After CCC.
    Cleared,
    Directory(String),
    RenameFrom(String),
    Allocated(u64),
    /// `Done` is said with these words.
    Done(u16, String),
    /// SITE CHMOD.
    Chmod,
    /// MFF with permission bits: the facts before and behind them, which are as they turn out.
    Facts {
        before: String,
        name: String,
        behind: String,
    },
    Number,
    Progress,
    Modified {
        set: Option<(String, Time, String)>,
    },
    Entry(String),
    /// A digest; `open`: a `213-` is out already.
    Digest {
        form: digest::Form,
        algorithm: Algorithm,
        name: String,
        open: bool,
    },
    Listing(String),
    Passive {
        extended: bool,
    },
}

impl Server {
    /// Takes the answer to the open request, or to the transfer.
    pub fn answer(&mut self, answer: Answer, now: Duration) {
        if self.is_checking() {
            // How long that took is not the client's doing: its time to log in begins later.
            self.started = self.started.saturating_add(now.saturating_sub(self.active));
        }
        self.active = now;
        if self.phase == Phase::Closed {
            return;
        }
        match answer {
            Answer::TransferStarted { connected, size, name } => {
                transfer::started(self, (connected, size, name));
            }
            Answer::TransferEnded(end) => transfer::ended(self, end),
            // Nothing else is open: it can only mean the transfer.
            Answer::Refused(refusal) if self.pending.is_none() => {
                transfer::ended(self, End::Refused(refusal));
            }
            answer => {
                let Some(Pending { verb, then }) = self.pending.take() else { return };
                self.verb = verb;
                match answer {
                    Answer::Refused(refusal) => self.refused(then, &refusal),
                    answer => self.answered(then, answer),
                }
                if self.pending.is_none() && self.phase != Phase::Closed {
                    self.drain_if_idle();
                }
            }
        }
    }

    /// A long digest goes on: keeps the client waiting. Call every 5 to 10 seconds.
    pub fn still_hashing(&mut self) {
        let Some(Pending { then: Then::Digest { form, open, .. }, .. }) = &mut self.pending else {
            return;
        };
        if *form != digest::Form::Hash {
            return;
        }
        if std::mem::replace(open, true) {
            reply::write_between(&mut self.out, "Still at it.");
        } else {
            reply::write_first(&mut self.out, 213, "The digest is being made.");
        }
    }

    fn refused(&mut self, then: Then, refusal: &Refusal) {
        let code = refusal.code(self.verb.name);
        match then {
            Then::Modified { set: Some(set) } if refusal.why() == Some(Why::NotFound) => {
                return names::set_by_mdtm(self, set);
            }
            Then::Host(_) if refusal.why().is_some() && code != 421 => {
                return self.reply(504, "That host is not served here.");
            }
            Then::User(_) | Then::Password(_) if code != 421 => {
                // A rule may say its own words; our reasons would tell names apart.
                let told = refusal.why().is_none().then(|| (code, refusal.sentence()));
                return login::denied(self, told);
            }
            // An open reply can only be ended by its own code, which would mean success.
            Then::Digest { open: true, .. } => {
                return self.reply(421, refusal.sentence());
            }
            Then::Tls | Then::Reset | Then::Cleared => return self.end(),
            // REST, RANG and ALLO were for this transfer, whether it runs or not.
            Then::Run(_) if self.verb.is_transfer() => self.session.forget_transfer(),
            _ => {}
        }
        self.reply(code, refusal.sentence());
    }

    fn answered(&mut self, then: Then, answer: Answer) {
        match (then, answer) {
            (Then::Run(argument), Answer::Proceed | Answer::Done) => {
                (self.verb.run)(self, &argument)
            }
            (Then::Host(name), Answer::Done) => {
                self.session.host = Some(name);
                let greeting = self.settings.greeting.clone();
                self.reply(220, &greeting);
            }
            (Then::User(user), Answer::NeedPassword) => login::need_password(self, user),
            (Then::User(user), Answer::LoggedIn(login)) => {
                login::logged_in(self, user, login, 232);
            }
            (Then::Password(user), Answer::LoggedIn(login)) => {
                login::logged_in(self, user, login, 230);
            }
            (Then::Password(user), Answer::NeedAccount) => {
                self.session.who = Who::Unaccounted(user);
                self.reply(332, "Send the account or one-time code: ACCT.");
            }
            (Then::User(_) | Then::Password(_), Answer::Denied) => login::denied(self, None),
            (Then::Tls, Answer::TlsStands) => {
                self.secure = Secure::explicit();
                self.phase = Phase::Open;
            }
            (Then::Reset, Answer::Done) => {
                self.secure = Secure::default();
                self.session = Session::new(&self.settings);
                self.phase = Phase::Open;
            }
            (Then::Cleared, Answer::Done) => {
                self.secure.tls = false;
                self.secure.cleared = true;
                self.phase = Phase::Open;
            }
            (Then::Tls | Then::Reset | Then::Cleared, _) => self.end(),
            (then, answer) => self.named(then, answer),
        }
    }

    /// Answers about files.
    fn named(&mut self, then: Then, answer: Answer) {
        match (then, answer) {
            (Then::Done(code, text), Answer::Done) => self.reply(code, &text),
            (Then::Chmod, Answer::Mode(mode)) => {
                self.reply(200, &format!("The permissions are {mode:04o}."));
            }
            (Then::Chmod, Answer::NoModes) => self.reply(202, NO_MODES),
            (Then::Facts { before, name, behind }, Answer::Mode(mode)) => {
                self.reply(213, &format!("{before}{name}={mode:04o};{behind}"));
            }
            (Then::Facts { .. }, Answer::NoModes) => self.reply(504, NO_MODES),
            (Then::Directory(path), Answer::Done) => {
                self.session.directory = path;
                self.reply(250, "The directory is changed.");
            }
            (Then::RenameFrom(path), Answer::Done) => {
                self.session.rename_from = Some(path);
                self.reply(350, "Send RNTO.");
            }
            (Then::Allocated(bytes), Answer::Done) => {
                self.session.allocated = Some(bytes);
                self.reply(200, &format!("There is room for {bytes} bytes."));
            }
            (Then::Number, Answer::Number(number)) => self.reply(213, &number.to_string()),
            (Then::Progress, Answer::Number(bytes)) => {
                self.reply(211, &format!("State of the transfer:\n{bytes} bytes so far\nEnd"));
            }
            (Then::Modified { .. }, Answer::Modified(time)) => self.reply(213, &time.digits_14()),
            (Then::Entry(path), Answer::Entry(stat)) => {
                let facts = entry(self.session.facts, &path, &stat);
                self.reply(250, &format!("Listing {path}\n {facts}\nEnd"));
            }
            (Then::Digest { form, algorithm, name, .. }, Answer::Digest { digest, start, end }) => {
                let (code, text) = digest::text((form, algorithm), &name, &digest, (start, end));
                self.reply(code, &text);
            }
            (Then::Listing(name), Answer::Listing { directory, entries, now }) => {
                self.list_here(&name, directory, (&entries, now));
            }
            (Then::Passive { extended: true }, Answer::Passive(address)) => {
                self.session.data = Some(Data::Passive);
                let port = address.port();
                self.reply(229, &format!("Entering Extended Passive Mode (|||{port}|)"));
            }
            (Then::Passive { extended: false }, Answer::Passive(address)) => {
                self.tell_address(address);
            }
            (_, Answer::Denied) => self.reply(530, "That is not right."),
            _ => self.reply(451, "The server has no answer to that: try again later."),
        }
    }

    fn tell_address(&mut self, address: SocketAddr) {
        let IpAddr::V4(ip) = address.ip().to_canonical() else {
            return self.reply(425, "There is no IPv4 address to tell: use EPSV.");
        };
        self.session.data = Some(Data::Passive);
        let address = SocketAddrV4::new(ip, address.port());
        let numbers = crate::hostport::port_argument(address);
        self.reply(227, &format!("Entering Passive Mode ({numbers})."));
    }

    fn list_here(
        &mut self,
        name: &str,
        directory: bool,
        (entries, now): (&[(String, Stat)], Time),
    ) {
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
        self.reply(if directory { 212 } else { 213 }, &format!("{text}\n{end}"));
    }
}

fn entry(facts: FactSet, path: &str, stat: &Stat) -> String {
    let mut line = Vec::new();
    facts.write(path, stat, Role::Entry, &mut line);
    // It was made of text.
    String::from_utf8_lossy(&line).into_owned()
}
