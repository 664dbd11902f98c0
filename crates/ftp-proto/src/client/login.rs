//! The login: greeting, AUTH TLS, USER, PASS, ACCT, PBSZ, PROT, FEAT, OPTS UTF8.

use super::{Client, Event, Fault, Features, OpError, Outcome, State, Tls, is_plain};
use crate::reply::Reply;
use crate::request::Secret;

/// Whose reply is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginStep {
    Greeting,
    Auth,
    /// TLS is being made.
    Handshake,
    User,
    Pass,
    Acct,
    Pbsz,
    Prot,
    Feat,
    Utf8,
}

impl Client {
    /// TLS stands on the control connection.
    pub fn tls_stands(&mut self) {
        if matches!(self.state, State::Login(LoginStep::Handshake)) {
            self.say(LoginStep::User);
            self.end_if_failed();
        }
    }

    pub(super) fn take_login(&mut self, step: LoginStep, reply: Reply) -> Result<(), Fault> {
        if reply.code < 200 {
            // 120: ready in a while.
            self.state = State::Login(step);
            return Ok(());
        }
        match (step, reply.code) {
            (LoginStep::Greeting, 220) if self.account.tls == Tls::Explicit => {
                self.say(LoginStep::Auth);
            }
            (LoginStep::Greeting, 220) => self.say(LoginStep::User),
            (LoginStep::Auth, 234 | 334) => {
                // What came in clear behind it would be taken for the server's word inside TLS.
                if !self.replies.is_empty() {
                    return Err(Fault::Injected);
                }
                self.state = State::Login(LoginStep::Handshake);
                self.events.push_back(Event::StartTls);
            }
            (LoginStep::Auth, _) => return Err(Fault::NoTls(reply.text)),
            (LoginStep::User, 331) => self.say(LoginStep::Pass),
            (LoginStep::User | LoginStep::Pass, 332) if self.account.account.is_some() => {
                self.say(LoginStep::Acct);
            }
            (LoginStep::User | LoginStep::Pass, 332) => self.fail(OpError::AccountNeeded),
            (LoginStep::User | LoginStep::Pass | LoginStep::Acct, 200..300) => {
                self.say(if self.is_protected() { LoginStep::Pbsz } else { LoginStep::Feat });
            }
            (LoginStep::Pbsz, 200..300) => self.say(LoginStep::Prot),
            (LoginStep::Prot, 200..300) => self.say(LoginStep::Feat),
            (LoginStep::Feat, 211) => {
                self.features = features(&reply.text);
                if self.features.utf8 {
                    self.say(LoginStep::Utf8);
                } else {
                    self.logged_in();
                }
            }
            // Old servers know no FEAT; then everything is tried.
            (LoginStep::Feat | LoginStep::Utf8, _) => self.logged_in(),
            // To be refused here ends the login, never in clear what was to be protected.
            _ => self.fail(OpError::Refused(reply)),
        }
        self.end_if_failed();
        Ok(())
    }

    /// A refused login may not be followed by other operations.
    fn end_if_failed(&mut self) {
        if matches!(self.events.back(), Some(Event::Failed(_))) {
            self.state = State::Ended;
        }
    }

    fn logged_in(&mut self) {
        self.state = State::Idle;
        self.done(Outcome::LoggedIn(self.features));
    }

    fn say(&mut self, step: LoginStep) {
        self.state = State::Login(step);
        match step {
            LoginStep::Auth => self.send("AUTH", "TLS"),
            LoginStep::User => self.credential("USER", Secret::new(&self.account.user)),
            LoginStep::Pass => self.credential("PASS", self.account.password.clone()),
            LoginStep::Acct => {
                let account = self.account.account.clone().unwrap_or(Secret::new(""));
                self.credential("ACCT", account);
            }
            LoginStep::Pbsz => self.send("PBSZ", "0"),
            LoginStep::Prot => self.send("PROT", "P"),
            LoginStep::Feat if !self.account.negotiate => self.logged_in(),
            LoginStep::Feat => self.send("FEAT", ""),
            LoginStep::Utf8 => self.send("OPTS", "UTF8 ON"),
            LoginStep::Greeting | LoginStep::Handshake => {}
        }
    }
}

impl Client {
    fn credential(&mut self, verb: &str, word: Secret) {
        if is_plain(word.expose()) {
            self.send(verb, word.expose());
        } else {
            self.fail(OpError::Credential);
        }
    }
}

fn features(text: &str) -> Features {
    let mut features = Features::default();
    for line in text.lines().skip(1) {
        let line = line.trim().to_ascii_uppercase();
        let word = line.split(' ').next().unwrap_or("");
        match word {
            "MLST" | "MLSD" => features.mlst = true,
            "SIZE" => features.size = true,
            "MDTM" => features.mdtm = true,
            "MFMT" => features.mfmt = true,
            "REST" => features.rest = true,
            "UTF8" => features.utf8 = true,
            _ => {}
        }
    }
    features
}
