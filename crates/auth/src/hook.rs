//! Asking somebody else about a password: a web service or a program (docs/howto/
//! check-logins-elsewhere.md). Whoever does not answer well within his time has refused. Nothing of
//! the question or the answer reaches a log.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use entrepot_model::login::{ExecHook, HookUrl, HttpHook, LoginCheck, LoginHook};
use entrepot_model::{Name, Secret, Timestamp};
use entrepot_net::NetError;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::tls::{ServerTrust, TlsClient, TlsConfigError};
use entrepot_spawn::{How, Program, Spawner, Stdin};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::gate::Peer;
use crate::limits::{HOOK_ANSWER_BYTES, HOOKS_AT_A_TIME, HOOKS_WAITING};

/// What a hook is asked.
#[derive(Serialize)]
struct Question<'a> {
    user: &'a str,
    password: &'a str,
    ip: String,
    protocol: &'a str,
    listener: &'a Name,
    time: Timestamp,
}

/// What it answers; more fields are not looked at.
#[derive(Deserialize)]
struct Answer {
    allow: bool,
    /// Unset: of the name that was asked about.
    #[serde(default)]
    account: Option<String>,
}

/// What came of asking.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The password is right; the login is that of this account.
    Allowed(String),
    /// It is not.
    Refused,
    /// There was no answer that could be understood, and why.
    Broken(String),
    /// Too many are asked at this moment.
    Busy,
}

/// Asks hooks, few at a time.
pub(crate) struct Hooks {
    turns: Semaphore,
    waiting: AtomicUsize,
    spawner: OnceLock<Spawner>,
    /// Believes whom this machine trusts; made at the first use.
    client: OnceLock<TlsClient>,
}

impl Hooks {
    pub(crate) fn new() -> Self {
        Hooks {
            turns: Semaphore::new(HOOKS_AT_A_TIME),
            waiting: AtomicUsize::new(0),
            spawner: OnceLock::new(),
            client: OnceLock::new(),
        }
    }

    /// Programs are started by this.
    pub(crate) fn start_programs_by(&self, spawner: Spawner) {
        let _ = self.spawner.set(spawner);
    }

    /// Asks about a password, within the time of `check`, the wait for a turn included.
    pub(crate) async fn ask(
        &self,
        check: &LoginCheck,
        (user, password): (&str, &Secret),
        peer: &Peer,
        now: Timestamp,
    ) -> Told {
        let Ok(text) = std::str::from_utf8(password.expose()) else { return Told::Refused };
        let question = Question {
            user,
            password: text,
            ip: peer.address.ip().to_canonical().to_string(),
            protocol: peer.protocol.as_str(),
            listener: &peer.listener,
            time: now,
        };
        let question = match serde_json::to_vec(&question) {
            Ok(question) => Zeroizing::new(question),
            Err(error) => return Told::Broken(error.to_string()),
        };
        let Some(_place) = Place::take(&self.waiting) else { return Told::Busy };
        let limit = Duration::from_secs(u64::from(check.seconds()));
        let asking = async {
            // The semaphore is never closed.
            let Ok(_turn) = self.turns.acquire().await else { return Told::Busy };
            let said = match &check.hook {
                LoginHook::Http(http) => self.post(http, question).await,
                LoginHook::Exec(exec) => self.run(exec, question, limit).await,
            };
            said.and_then(|said| understand(&said, user)).unwrap_or_else(Told::Broken)
        };
        let answered = tokio::time::timeout(limit, asking).await;
        answered.unwrap_or_else(|_| Told::Broken(format!("no answer within {limit:?}")))
    }

    async fn post(&self, http: &HttpHook, body: Zeroizing<Vec<u8>>) -> Result<Vec<u8>, String> {
        let HookUrl { secure, host, port, .. } = &http.url;
        let policy = DialPolicy { allow_private: http.private || !secure };
        let dialled = dial::tcp(host, *port, &policy, Duration::MAX).await;
        let stream = dialled.map_err(|error| match error {
            NetError::PrivateAddress { host, .. } => {
                format!("'{host}' lies in a private network, set 'private' if that is meant")
            }
            other => other.to_string(),
        })?;
        if *secure {
            let client = match &http.authorities {
                Some(own) => {
                    TlsClient::new(host, &ServerTrust::Authorities(own.clone().into_bytes()))
                }
                None => self.usual_client(host),
            };
            let client = client.map_err(|error| error.to_string())?;
            let (stream, _) = client.connect(stream).await.map_err(|error| error.to_string())?;
            return send(stream, &http.url, body).await;
        }
        let here = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
        match here {
            true => send(stream, &http.url, body).await,
            false => Err(format!("'{host}' is not this machine, write https")),
        }
    }

    fn usual_client(&self, host: &str) -> Result<TlsClient, TlsConfigError> {
        if let Some(known) = self.client.get() {
            return known.towards(host);
        }
        let made = TlsClient::new(host, &ServerTrust::System)?;
        Ok(self.client.get_or_init(|| made).clone())
    }

    async fn run(
        &self,
        exec: &ExecHook,
        question: Zeroizing<Vec<u8>>,
        limit: Duration,
    ) -> Result<Vec<u8>, String> {
        let spawner = self.spawner.get().ok_or("no programs are started here")?;
        let mut program = Program::new(exec.program.clone());
        program.stdin = Stdin::Bytes(question);
        program.limit = limit;
        let ended = spawner.run(program).await.map_err(|error| error.to_string())?;
        match ended.how {
            How::Code(0) if ended.stdout.dropped == 0 => Ok(ended.stdout.bytes),
            How::Code(0) => Err("it said too much".to_owned()),
            // Not what it wrote about it: that may show the password.
            how => Err(how.to_string()),
        }
    }
}

/// One of those who wait for an answer.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Option<Self> {
        let place = Place(waiting);
        (waiting.fetch_add(1, Ordering::AcqRel) < HOOKS_WAITING).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One POST on a connection of its own; no redirection is followed.
async fn send<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    url: &HookUrl,
    body: Zeroizing<Vec<u8>>,
) -> Result<Vec<u8>, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let request = Request::post(&url.path)
        .header(HOST, url.authority())
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::copy_from_slice(&body)))
        .map_err(|error| told(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| told(&error))?;
    let talk = async move {
        let response = sender.send_request(request).await.map_err(|error| told(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("it answered {}", response.status().as_u16()));
        }
        let body = Limited::new(response.into_body(), HOOK_ANSWER_BYTES).collect().await;
        Ok(body.map_err(|error| told(&error))?.to_bytes().to_vec())
    };
    // The connection ends when the sender is gone; how it ends says nothing more.
    let (said, _) = tokio::join!(talk, connection);
    said
}

/// What an answer about `user` means.
fn understand(said: &[u8], user: &str) -> Result<Told, String> {
    if said.len() > HOOK_ANSWER_BYTES {
        return Err("it said too much".to_owned());
    }
    // Not what it said: that may show the password.
    let answer: Answer = serde_json::from_slice(said)
        .map_err(|_| r#"its answer is no JSON such as {"allow": false}"#.to_owned())?;
    Ok(match answer {
        Answer { allow: false, .. } => Told::Refused,
        Answer { account, .. } => Told::Allowed(account.unwrap_or_else(|| user.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        let said = |text: &str| understand(text.as_bytes(), "anna");
        assert_eq!(said(r#"{"allow": true}"#), Ok(Told::Allowed("anna".to_owned())));
        let acme = r#"{"allow": true, "account": "acme", "more": 1}"#;
        assert_eq!(said(acme), Ok(Told::Allowed("acme".to_owned())));
        assert_eq!(said(r#"{"allow": false, "account": "acme"}"#), Ok(Told::Refused));
        for odd in
            ["", "true", "{}", r#"{"allow": "true"}"#, r#"{"allow": 1}"#, r#"{"allow": true"#]
        {
            assert!(said(odd).is_err(), "{odd}");
        }
        assert!(said(&" ".repeat(HOOK_ANSWER_BYTES + 1)).is_err());
        let secret = said(r#"{"allow": "hunter2"}"#).unwrap_err();
        assert!(!secret.contains("hunter2"), "{secret}");
    }
}
