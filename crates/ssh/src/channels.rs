//! The channels of a connection: which are open, and how answers get into them, from inside the
//! session task ([`Replies`]) and from tasks beside it ([`Link`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use entrepot_net::meter::{EndClass, SessionMeter};
use parking_lot::Mutex;
use russh::ChannelId;
use russh::server::{Handle, Session};
use thiserror::Error;

use crate::SshError;
use crate::limits;

/// Standard error (RFC 4254 §5.2).
const STDERR: u32 = 1;
/// Channels closed by us with answers that the client has not read, before the connection ends:
/// russh keeps those answers.
const UNREAD_CLOSES: u32 = 4;

/// Why the session task stops.
#[derive(Debug, Error)]
pub(crate) enum Stop {
    #[error("{0}")]
    Transport(#[from] russh::Error),
    #[error("the service is gone")]
    Gone,
}

impl Stop {
    /// For the log and the audit.
    pub(crate) fn sentence(&self) -> String {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match self {
            Stop::Transport(russh::Error::IO(error))
                if matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe) =>
            {
                "the connection was cut".to_owned()
            }
            Stop::Transport(russh::Error::KeepaliveTimeout) => "the client is silent".to_owned(),
            Stop::Transport(russh::Error::InactivityTimeout) => {
                "the client took nothing for too long".to_owned()
            }
            other => other.to_string(),
        }
    }
}

/// The channels of one connection, shared by its handler and its links.
#[derive(Debug)]
pub(crate) struct ConnectionChannels {
    pub(crate) meter: Arc<SessionMeter>,
    channels: Mutex<Channels>,
    /// A task has sent something.
    linked: AtomicBool,
    /// What tasks send does not get out any more.
    stuck: AtomicBool,
}

#[derive(Debug, Default)]
struct Channels {
    open: Vec<(ChannelId, bool)>,
    ever: u32,
    unread_closes: u32,
}

impl ConnectionChannels {
    pub(crate) fn new(meter: Arc<SessionMeter>) -> Self {
        let (linked, stuck) = (AtomicBool::new(false), AtomicBool::new(false));
        ConnectionChannels { meter, channels: Mutex::default(), linked, stuck }
    }

    /// Books a new channel.
    pub(crate) fn open(&self, channel: ChannelId) -> bool {
        let mut channels = self.channels.lock();
        channels.ever += 1;
        if channels.ever > limits::CHANNELS_EVER {
            self.meter.end(EndClass::TooMany, "too many channels on one connection, reconnect");
            return false;
        }
        let room = channels.open.len() < limits::CHANNELS;
        if room {
            channels.open.push((channel, false));
        }
        room
    }

    /// True once for each open channel: it may run one program.
    pub(crate) fn begin(&self, channel: ChannelId) -> bool {
        let mut channels = self.channels.lock();
        let found = channels.open.iter_mut().find(|(id, started)| *id == channel && !*started);
        found.map(|(_, started)| *started = true).is_some()
    }

    /// Strikes a channel off; false if it was already.
    pub(crate) fn close(&self, channel: ChannelId) -> bool {
        let mut channels = self.channels.lock();
        let before = channels.open.len();
        channels.open.retain(|(id, _)| *id != channel);
        channels.open.len() < before
    }

    /// The client has closed a channel and will never take what still waits on it. russh serves
    /// no task of the connection any more then; who works inside the session task goes on.
    pub(crate) fn left_unread(&self) {
        self.stuck.store(true, Ordering::SeqCst);
        if self.linked.load(Ordering::SeqCst) {
            self.end_stuck();
        }
        self.closed_unread();
    }

    fn end_stuck(&self) {
        let reason = "a channel was closed with answers left unread, reconnect";
        self.meter.end(EndClass::Protocol, reason);
    }

    /// Before a task sends; an error: it would wait for ever.
    fn link(&self) -> Result<(), SshError> {
        self.linked.store(true, Ordering::SeqCst);
        if self.stuck.load(Ordering::SeqCst) {
            self.end_stuck();
            return Err(SshError::Closed);
        }
        Ok(())
    }

    pub(crate) fn closed_unread(&self) {
        let mut channels = self.channels.lock();
        channels.unread_closes += 1;
        if channels.unread_closes >= UNREAD_CLOSES {
            self.meter.end(EndClass::Protocol, "channels were closed with answers left unread");
        }
    }
}

/// Answers of one channel, from inside the session task.
pub struct Replies<'a> {
    session: &'a mut Session,
    channel: ChannelId,
    shared: &'a ConnectionChannels,
    failed: Option<russh::Error>,
}

impl<'a> Replies<'a> {
    pub(crate) fn new(
        session: &'a mut Session,
        channel: ChannelId,
        shared: &'a ConnectionChannels,
    ) -> Self {
        Replies { session, channel, shared, failed: None }
    }

    /// The channel that is answered.
    pub fn channel(&self) -> ChannelId {
        self.channel
    }

    /// True if an answer waits for the client's window (or for the end of a key exchange); then
    /// large answers should be held back until `Service::writable` or the next request.
    pub fn has_pending(&self) -> bool {
        self.session.has_pending_data(self.channel)
    }

    /// Asks for one call of `Service::writable` as soon as nothing of what was sent waits any more:
    /// not for the client's window, not for new keys, and not for the socket. A client whose window
    /// is large says nothing itself then. A service that holds something back must ask.
    pub fn notify_when_drained(&mut self) {
        self.session.notify_when_drained(self.channel);
    }

    /// Sends bytes; what the client's window does not take is kept.
    pub fn send(&mut self, bytes: Bytes) {
        let sent = self.session.data(self.channel, bytes);
        self.note(sent);
    }

    /// Sends a text to the client's standard error.
    pub fn send_error_text(&mut self, text: Bytes) {
        let sent = self.session.extended_data(self.channel, STDERR, text);
        self.note(sent);
    }

    /// Exit status, EOF and close: the channel is over, and `Service::closed` is not called.
    pub fn finish(&mut self, status: u32) {
        if !self.shared.close(self.channel) {
            return;
        }
        if self.has_pending() {
            self.shared.closed_unread();
        }
        let status = self.session.exit_status_request(self.channel, status);
        self.note(status);
        let eof = self.session.eof(self.channel);
        self.note(eof);
        let close = self.session.close(self.channel);
        self.note(close);
    }

    fn note(&mut self, result: Result<(), russh::Error>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }

    pub(crate) fn result(self) -> Result<(), Stop> {
        self.failed.map_or(Ok(()), |error| Err(Stop::Transport(error)))
    }
}

/// Answers from a task beside the session task. Bounded: each call waits for room. Never wait for
/// it inside the session task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Link {
    pub(crate) handle: Handle,
    pub(crate) shared: Arc<ConnectionChannels>,
}

impl Link {
    /// The meter of the connection.
    pub fn meter(&self) -> &Arc<SessionMeter> {
        &self.shared.meter
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn send(&self, channel: ChannelId, bytes: Bytes) -> Result<(), SshError> {
        self.shared.link()?;
        self.handle.data(channel, bytes).await.map_err(|_| SshError::Closed)
    }

    /// Sends a text to the client's standard error.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn send_error_text(&self, channel: ChannelId, text: Bytes) -> Result<(), SshError> {
        self.shared.link()?;
        self.handle.extended_data(channel, STDERR, text).await.map_err(|_| SshError::Closed)
    }

    /// Exit status, EOF and close.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn finish(&self, channel: ChannelId, status: u32) -> Result<(), SshError> {
        if !self.shared.close(channel) {
            return Ok(());
        }
        self.shared.link()?;
        let gone = |()| SshError::Closed;
        self.handle.exit_status_request(channel, status).await.map_err(gone)?;
        self.handle.eof(channel).await.map_err(gone)?;
        self.handle.close(channel).await.map_err(gone)
    }
}
