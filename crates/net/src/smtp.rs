//! A client of mail submission (RFC 6409 over RFC 5321, RFC 3207, RFC 4954).
//!
//! What it guarantees:
//! 1. Connections are made by [`dial`]; under TLS unless the caller says otherwise. A server that
//!    does not offer STARTTLS where that is asked for gets neither password nor message.
//! 2. A message is sent once. Each recipient has an answer of its own: what the server takes for
//!    some of them it has for those.
//! 3. Each wait for the server has a limit, and so has each reply.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_nouns::Secret;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::dial::{self, DialPolicy};
use crate::dialled::Dialled;
use crate::error::NetError;
use crate::limits::{DIAL_TIME, SMTP_PART_BYTES, SMTP_QUIT_TIME, SMTP_REPLY_BYTES, SMTP_TIME};
use crate::tls::{HandshakeError, ServerTrust, TlsClient, TlsConfigError};

#[cfg(test)]
mod tests;

/// When TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpTls {
    /// By STARTTLS, or nothing is sent.
    StartTls,
    /// At once (RFC 8314).
    Implicit,
    /// Never: whoever is on the way can read along.
    Off,
}

/// A server that takes messages, and how it is spoken to.
pub struct SmtpServer {
    /// Name or address.
    pub host: String,
    /// Usually 587, with TLS at once 465.
    pub port: u16,
    /// When TLS begins.
    pub tls: SmtpTls,
    /// By what the server is known.
    pub trust: ServerTrust,
    /// The addresses that may be dialled.
    pub dial: DialPolicy,
    /// User name and password, if it wants them.
    pub login: Option<SmtpLogin>,
}

/// Who logs in.
pub struct SmtpLogin {
    /// As the server knows us.
    pub user: String,
    /// Sent under TLS only, as the caller sees to.
    pub password: Secret,
}

/// A message and whom it is for.
pub struct SmtpMessage<'a> {
    /// Address that errors are mailed to.
    pub from: &'a str,
    /// The addresses of those who shall get it.
    pub to: &'a [String],
    /// Head and body (RFC 5322), with CRLF at the end of each line.
    pub content: &'a [u8],
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpReply {
    /// From 200 to 599; the first digit says what to make of it.
    pub code: u16,
    /// Its lines, with a blank between them.
    pub text: String,
}

impl SmtpReply {
    fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// True if trying again may help.
    pub fn is_temporary(&self) -> bool {
        (400..500).contains(&self.code)
    }
}

/// A recipient whom the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRecipient {
    /// As it was given.
    pub address: String,
    /// What the server said of it.
    pub reply: SmtpReply,
}

/// Why nobody got the message. Recipients who were refused are no error as long as there are
/// others.
#[derive(Debug, Error)]
pub enum SmtpError {
    /// The name, its addresses or the server.
    #[error(transparent)]
    Dial(#[from] NetError),
    /// The certificates to check the server by cannot be used.
    #[error(transparent)]
    Trust(#[from] TlsConfigError),
    /// The connection did not get into TLS.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The server has no STARTTLS, or said more than that it is ready.
    #[error("the server offers no STARTTLS: set 'tls' of the endpoint to the way it has")]
    NoTls,
    /// The server offers no way to log in that we know (PLAIN, LOGIN).
    #[error("the server takes no password by PLAIN or LOGIN")]
    NoLogin,
    /// An address or name that cannot be part of a command.
    #[error("'{0}' cannot be sent as an address")]
    Address(String),
    /// It refused a command.
    #[error("the server answered {command} with {}: {}", reply.code, reply.text)]
    Refused {
        /// Its verb, or what else came before the answer.
        command: &'static str,
        /// What it was answered with.
        reply: SmtpReply,
    },
    /// It took too long.
    #[error("the server did not answer within {0:?}")]
    Timeout(Duration),
    /// The connection broke, or what came is no reply.
    #[error("the SMTP exchange failed: {0}")]
    Exchange(String),
}

impl SmtpError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            SmtpError::Dial(error) => error.code(),
            SmtpError::Trust(error) => error.code(),
            SmtpError::Handshake(error) => error.code(),
            SmtpError::NoTls | SmtpError::NoLogin | SmtpError::Address(_) => "EP0894",
            SmtpError::Refused { reply, .. } if !reply.is_temporary() => "EP0894",
            SmtpError::Refused { .. } | SmtpError::Timeout(_) | SmtpError::Exchange(_) => "EP0895",
        }
    }

    /// True if trying again later may help. Where the connection broke at the end, the server may
    /// have the message.
    pub fn is_temporary(&self) -> bool {
        match self {
            SmtpError::Dial(error) => error.is_temporary(),
            SmtpError::Handshake(_) | SmtpError::Timeout(_) | SmtpError::Exchange(_) => true,
            SmtpError::Refused { reply, .. } => reply.is_temporary(),
            SmtpError::Trust(_) | SmtpError::NoTls | SmtpError::NoLogin | SmtpError::Address(_) => {
                false
            }
        }
    }
}

impl From<std::io::Error> for SmtpError {
    fn from(error: std::io::Error) -> Self {
        SmtpError::Exchange(error.to_string())
    }
}

/// Hands a message over; who of its recipients was refused. If all of them are, nothing is sent.
///
/// # Errors
/// Nobody got it.
pub async fn submit(
    server: &SmtpServer,
    message: &SmtpMessage<'_>,
) -> Result<Vec<RefusedRecipient>, SmtpError> {
    for address in std::iter::once(message.from).chain(message.to.iter().map(String::as_str)) {
        if !is_plain(address) {
            return Err(SmtpError::Address(address.to_owned()));
        }
    }
    let stream = dial::tcp(&server.host, server.port, &server.dial, DIAL_TIME).await?;
    let stream = Dialled::Clear(stream);
    let tls = || TlsClient::new(&server.host, &server.trust);
    let mut line = Line::new(match server.tls {
        SmtpTls::Implicit => stream.start_tls(&tls()?).await?.0,
        SmtpTls::StartTls | SmtpTls::Off => stream,
    });
    line.agreed("the connection").await?;
    let mut offers = line.hello().await?;
    if server.tls == SmtpTls::StartTls {
        if !offers.has("STARTTLS") {
            return Err(SmtpError::NoTls);
        }
        line.command("STARTTLS", "STARTTLS").await?;
        // What came in the clear before TLS is nobody's word.
        if !line.read.is_empty() {
            return Err(SmtpError::NoTls);
        }
        line = Line::new(line.stream.start_tls(&tls()?).await?.0);
        offers = line.hello().await?;
    }
    if let Some(login) = &server.login {
        line.log_in(login, &offers).await?;
    }
    let refused = line.send(message, &offers).await?;
    // It has the message; what it says to this changes nothing, and who waits long for it may send
    // the message once more.
    let _ = tokio::time::timeout(SMTP_QUIT_TIME, line.command("QUIT", "QUIT")).await;
    Ok(refused)
}

/// True if an address can stand between angle brackets.
fn is_plain(address: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"<>".contains(&byte);
    !address.is_empty() && address.len() <= 320 && address.bytes().all(plain)
}

/// The extensions that a server offers.
struct Offers(Vec<String>);

impl Offers {
    fn has(&self, word: &str) -> bool {
        self.0.iter().any(|line| line.split(' ').next() == Some(word))
    }

    /// True if it takes passwords in this way.
    fn takes(&self, mechanism: &str) -> bool {
        let auth = self.0.iter().filter_map(|line| line.strip_prefix("AUTH"));
        auth.flat_map(|rest| rest.split([' ', '='])).any(|word| word == mechanism)
    }
}

/// A conversation: commands and replies in turn.
struct Line<S> {
    stream: S,
    read: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    fn new(stream: S) -> Self {
        Line { stream, read: Vec::new() }
    }

    async fn hello(&mut self) -> Result<Offers, SmtpError> {
        // The name of this machine is nobody's business; an address literal is always allowed
        // (RFC 5321 §4.1.3).
        self.write(b"EHLO [127.0.0.1]\r\n").await?;
        let lines = self.reply_lines().await?;
        let reply = joined(&lines)?;
        if !reply.is_ok() {
            return Err(SmtpError::Refused { command: "EHLO", reply });
        }
        let words = lines.iter().skip(1).filter_map(|line| line.get(4..));
        Ok(Offers(words.map(str::to_ascii_uppercase).collect()))
    }

    async fn log_in(&mut self, login: &SmtpLogin, offers: &Offers) -> Result<(), SmtpError> {
        let (user, password) = (login.user.as_bytes(), login.password.expose());
        let coded = |bytes: &[u8]| Secret::new(STANDARD.encode(bytes));
        if offers.takes("PLAIN") {
            let both = Secret::new([b"\0", user, b"\0", password].concat());
            self.write(b"AUTH PLAIN ").await?;
            self.write(coded(both.expose()).expose()).await?;
        } else if offers.takes("LOGIN") {
            self.write(b"AUTH LOGIN\r\n").await?;
            self.continued("AUTH").await?;
            self.write(coded(user).expose()).await?;
            self.write(b"\r\n").await?;
            self.continued("AUTH").await?;
            self.write(coded(password).expose()).await?;
        } else {
            return Err(SmtpError::NoLogin);
        }
        self.write(b"\r\n").await?;
        self.agreed("AUTH").await
    }

    async fn send(
        &mut self,
        message: &SmtpMessage<'_>,
        offers: &Offers,
    ) -> Result<Vec<RefusedRecipient>, SmtpError> {
        let content = stuffed(message.content);
        let mut mail = format!("MAIL FROM:<{}>", message.from);
        if offers.has("SIZE") {
            // A server for which it is too long says so before it is sent (RFC 1870).
            mail += &format!(" SIZE={}", message.content.len());
        }
        self.command("MAIL", &mail).await?;
        let mut refused = Vec::new();
        for address in message.to {
            self.write(format!("RCPT TO:<{address}>\r\n").as_bytes()).await?;
            let reply = self.reply().await?;
            if !reply.is_ok() {
                refused.push(RefusedRecipient { address: address.clone(), reply });
            }
        }
        if refused.len() == message.to.len() {
            return Ok(refused);
        }
        self.write(b"DATA\r\n").await?;
        self.continued("DATA").await?;
        for part in content.chunks(SMTP_PART_BYTES) {
            if let Err(error) = self.write(part).await {
                return Err(self.refusal().await.unwrap_or(error));
            }
        }
        self.agreed("DATA").await?;
        Ok(refused)
    }

    /// Why a server closed the connection in the middle of a message, if it said so before.
    async fn refusal(&mut self) -> Option<SmtpError> {
        let said = tokio::time::timeout(SMTP_QUIT_TIME, self.agreed("DATA")).await.ok()?;
        said.err().filter(|error| matches!(error, SmtpError::Refused { .. }))
    }

    async fn command(&mut self, name: &'static str, text: &str) -> Result<(), SmtpError> {
        self.write(format!("{text}\r\n").as_bytes()).await?;
        self.agreed(name).await
    }

    /// A reply that says yes.
    async fn agreed(&mut self, command: &'static str) -> Result<(), SmtpError> {
        let reply = self.reply().await?;
        if reply.is_ok() { Ok(()) } else { Err(SmtpError::Refused { command, reply }) }
    }

    /// A reply that asks for more.
    async fn continued(&mut self, command: &'static str) -> Result<(), SmtpError> {
        let reply = self.reply().await?;
        let goes_on = (300..400).contains(&reply.code);
        if goes_on { Ok(()) } else { Err(SmtpError::Refused { command, reply }) }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), SmtpError> {
        let writing = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let written = tokio::time::timeout(SMTP_TIME, writing).await;
        Ok(written.map_err(|_| SmtpError::Timeout(SMTP_TIME))??)
    }

    async fn reply(&mut self) -> Result<SmtpReply, SmtpError> {
        joined(&self.reply_lines().await?)
    }

    /// The lines of a reply; those but the last have a `-` behind the code (RFC 5321 §4.2.1).
    async fn reply_lines(&mut self) -> Result<Vec<String>, SmtpError> {
        let reading = async {
            let mut lines: Vec<String> = Vec::new();
            let mut bytes = 0;
            loop {
                while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.read.drain(..=end).collect();
                    bytes += line.len();
                    let line = String::from_utf8_lossy(&line);
                    let line = line.trim_end_matches(['\r', '\n']);
                    let goes_on = line.as_bytes().get(3) == Some(&b'-');
                    lines.push(line.to_owned());
                    if !goes_on {
                        return Ok(lines);
                    }
                }
                if bytes + self.read.len() > SMTP_REPLY_BYTES {
                    let text = format!("a reply is longer than {SMTP_REPLY_BYTES} bytes");
                    return Err(SmtpError::Exchange(text));
                }
                if self.stream.read_buf(&mut self.read).await? == 0 {
                    return Err(SmtpError::Exchange("the connection ended".to_owned()));
                }
            }
        };
        let read = tokio::time::timeout(SMTP_TIME, reading).await;
        read.unwrap_or(Err(SmtpError::Timeout(SMTP_TIME)))
    }
}

/// A reply of its lines, without what could be taken for another line where it is shown.
fn joined(lines: &[String]) -> Result<SmtpReply, SmtpError> {
    let wrong = || SmtpError::Exchange(format!("'{}' is no reply", lines.join(" ")));
    let code = |line: &String| line.get(..3).and_then(|code| code.parse::<u16>().ok());
    let first = lines.first().and_then(code).filter(|code| (200..600).contains(code));
    let first = first.ok_or_else(wrong)?;
    if lines.iter().any(|line| code(line) != Some(first)) {
        return Err(wrong());
    }
    let texts = lines.iter().map(|line| line.get(4..).unwrap_or_default());
    let text = texts.collect::<Vec<_>>().join(" ");
    let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    Ok(SmtpReply { code: first, text })
}

/// The message with its end; a line that begins with a dot has another one before it
/// (RFC 5321 §4.5.2).
fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(content.len() + 64);
    let mut line_begins = true;
    for byte in content {
        if line_begins && *byte == b'.' {
            text.push(b'.');
        }
        text.push(*byte);
        line_begins = *byte == b'\n';
    }
    if !text.ends_with(b"\r\n") {
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b".\r\n");
    text
}
