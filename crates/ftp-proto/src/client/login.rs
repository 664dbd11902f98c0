//! The login: greeting, AUTH TLS, USER, PASS, ACCT, PBSZ, PROT, FEAT, OPTS UTF8.

use super::link::{Link, is_plain};
use super::op::{Event, Features, OpError, Outcome, Tls};
use super::replies::Fault;
use crate::reply::Reply;
use crate::request::Secret;

/// The command whose reply is awaited.
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

/// What follows in a login.
#[derive(Debug)]
pub(super) enum LoginNext {
    Await(LoginStep),
    LoggedIn,
    /// The adapter has an event that says why.
    Failed,
}

/// The login on a connection that needs no more TLS.
pub(super) fn begin(link: &mut Link) -> LoginNext {
    send(link, LoginStep::User)
}

impl LoginStep {
    pub(super) fn take(self, link: &mut Link, reply: Reply) -> Result<LoginNext, Fault> {
        if reply.code < 200 {
            // 120: ready in a while.
            return Ok(LoginNext::Await(self));
        }
        let step = match (self, reply.code) {
            (LoginStep::Greeting, 220) if link.account.tls == Tls::Explicit => LoginStep::Auth,
            (LoginStep::Greeting, 220) => LoginStep::User,
            (LoginStep::Auth, 234 | 334) => {
                // What came in clear behind it would be taken for the server's word inside TLS.
                if !link.replies.is_empty() {
                    return Err(Fault::Injected);
                }
                link.event(Event::StartTls);
                return Ok(LoginNext::Await(LoginStep::Handshake));
            }
            (LoginStep::Auth, _) => return Err(Fault::NoTls(reply.text)),
            (LoginStep::User, 331) => LoginStep::Pass,
            (LoginStep::User | LoginStep::Pass, 332) if link.account.account.is_some() => {
                LoginStep::Acct
            }
            (LoginStep::User | LoginStep::Pass, 332) => {
                return Ok(fail(link, OpError::AccountNeeded));
            }
            (LoginStep::User | LoginStep::Pass | LoginStep::Acct, 200..300) => {
                if link.is_protected() { LoginStep::Pbsz } else { LoginStep::Feat }
            }
            (LoginStep::Pbsz, 200..300) => LoginStep::Prot,
            (LoginStep::Prot, 200..300) => LoginStep::Feat,
            (LoginStep::Feat, 211) => {
                link.features = features(&reply.text);
                if !link.features.utf8 {
                    return Ok(logged_in(link));
                }
                LoginStep::Utf8
            }
            // Old servers know no FEAT; then everything is tried.
            (LoginStep::Feat | LoginStep::Utf8, _) => return Ok(logged_in(link)),
            // To be refused here ends the login, never in clear what was to be protected.
            _ => return Ok(fail(link, OpError::Refused(reply))),
        };
        Ok(send(link, step))
    }
}

fn fail(link: &mut Link, error: OpError) -> LoginNext {
    link.fail(error);
    LoginNext::Failed
}

fn logged_in(link: &mut Link) -> LoginNext {
    link.done(Outcome::LoggedIn(link.features));
    LoginNext::LoggedIn
}

/// Sends the command of a step.
fn send(link: &mut Link, step: LoginStep) -> LoginNext {
    let (verb, word) = match step {
        LoginStep::User => ("USER", Secret::new(&link.account.user)),
        LoginStep::Pass => ("PASS", link.account.password.clone()),
        LoginStep::Acct => {
            ("ACCT", link.account.account.clone().unwrap_or_else(|| Secret::new("")))
        }
        LoginStep::Feat if !link.account.negotiate => return logged_in(link),
        LoginStep::Auth => ("AUTH", Secret::new("TLS")),
        LoginStep::Pbsz => ("PBSZ", Secret::new("0")),
        LoginStep::Prot => ("PROT", Secret::new("P")),
        LoginStep::Feat => ("FEAT", Secret::new("")),
        LoginStep::Utf8 => ("OPTS", Secret::new("UTF8 ON")),
        LoginStep::Greeting | LoginStep::Handshake => return LoginNext::Await(step),
    };
    if !is_plain(word.expose()) {
        return fail(link, OpError::Credential);
    }
    link.send(verb, word.expose());
    LoginNext::Await(step)
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
