//! What an adapter does with the connections of an SSH server.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use entrepot_net::meter::SessionMeter;
use entrepot_nouns::{AuthMethod, Secret};
use russh::ChannelId;
use russh::keys::PublicKey;

use crate::certificate::Certificate;
use crate::channels::{Link, Replies};

/// The answer to an attempt to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client is logged in.
    Granted,
    /// Right, but one of these must follow (RFC 4252 §5.1, partial success).
    Partial {
        /// What must follow.
        next: Vec<AuthMethod>,
    },
    /// The credentials are wrong, or may not be used.
    Refused {
        /// What may be tried.
        next: Vec<AuthMethod>,
        /// Nothing more may be tried: the connection ends.
        end: bool,
    },
}

/// What a client wants to run on a channel (RFC 4254 §6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program<'a> {
    /// A subsystem, by its name, such as `sftp`.
    Subsystem(&'a str),
    /// A command line, as the client sent it.
    Exec(&'a [u8]),
    /// An interactive shell (RFC 4254 §6.5).
    Shell,
}

/// Whether a program runs on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It runs: bytes of the channel go to [`Service::data`].
    Running,
    /// It has "run": the sentence goes to standard error, then exit status 1, EOF and close.
    Declined(&'static str),
    /// The request is answered with a failure.
    Failed,
}

/// What a protocol does with one connection. The calls come one after the other from the session
/// task; while one waits, nothing of this connection is read.
pub trait Service: Send + Sized + 'static {
    /// What an unknown client may try.
    fn methods(&mut self) -> Vec<AuthMethod>;

    /// A client has shaken hands and is about to log in: its identification and its algorithms are
    /// known. An error is a sentence for it; the connection ends then.
    fn greeted(&mut self) -> impl Future<Output = Result<(), String>> + Send;

    /// True if `user` might log in with this key; nothing has been signed yet.
    fn offered(&mut self, user: &str, key: &PublicKey) -> impl Future<Output = bool> + Send;

    /// `user` has signed with this key; `algorithm` is the signature's, such as `rsa-sha2-512`.
    fn public_key(
        &mut self,
        user: &str,
        key: &PublicKey,
        algorithm: &str,
    ) -> impl Future<Output = Verdict> + Send;

    /// `user` has signed with the key of this certificate.
    fn certificate(
        &mut self,
        user: &str,
        certificate: &Certificate,
    ) -> impl Future<Output = Verdict> + Send;

    /// What `user` is asked for in one round of keyboard-interactive: one prompt each.
    fn asked(&mut self, user: &str) -> impl Future<Output = Vec<AuthMethod>> + Send;

    /// `user` answers all that he was asked for.
    fn answers(
        &mut self,
        user: &str,
        given: &[(AuthMethod, Secret)],
    ) -> impl Future<Output = Verdict> + Send;

    /// `user` claims this password.
    fn password(&mut self, user: &str, password: &Secret) -> impl Future<Output = Verdict> + Send;

    /// Login is done. An error is a sentence for the client; the connection ends then.
    fn logged_in(&mut self, link: Link) -> impl Future<Output = Result<(), String>> + Send;

    /// A channel wants to run something; at most one per channel.
    fn start(
        &mut self,
        channel: ChannelId,
        program: Program<'_>,
    ) -> impl Future<Output = Started> + Send;

    /// Bytes for a running program.
    fn data(&mut self, data: &[u8], out: &mut Replies<'_>) -> impl Future<Output = ()> + Send;

    /// The client takes more: its window has grown, or what was sent has left after
    /// [`Replies::notify_when_drained`]. What was held back may go on.
    fn writable(&mut self, out: &mut Replies<'_>) -> impl Future<Output = ()> + Send;

    /// The client sends no more on this channel. To be answered by [`Replies::finish`], now or
    /// later by [`Link::finish`].
    fn eof(&mut self, out: &mut Replies<'_>) -> impl Future<Output = ()> + Send;

    /// The channel is gone without having been finished by us.
    fn closed(&mut self, channel: ChannelId) -> impl Future<Output = ()> + Send;

    /// A forwarding (`direct-tcpip`, `tcpip-forward`, …) was refused.
    fn forwarding_refused(&mut self, what: &'static str);

    /// The connection is over, whatever the cause; always the last call.
    fn ended(self, summary: &Summary) -> impl Future<Output = ()> + Send;
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Where the client came from.
    pub peer: SocketAddr,
    /// A sentence: our decision, the peer's farewell, or what failed.
    pub reason: String,
    /// Bytes received, as they were on the wire.
    pub bytes_in: u64,
    /// Bytes sent, as they were on the wire.
    pub bytes_out: u64,
}

/// Makes the [`Service`] of each connection.
pub trait Services: Send + Sync + 'static {
    /// What it makes.
    type Service: Service;

    /// Whether an address may connect; if not, it is closed without a word.
    fn admits(&self, peer: SocketAddr) -> bool;

    /// For a new connection.
    fn connect(&self, peer: SocketAddr, meter: &Arc<SessionMeter>) -> Self::Service;
}
