//! SSH as a server speaks it. What is done with a connection is a [`Service`]; it runs inline in
//! the session task.

use std::borrow::Cow;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_model::{AuthMethod, Secret};
use russh::keys::{PrivateKey, PublicKey};
use russh::{ChannelId, Disconnect, MethodKind, MethodSet, Preferred, SshId};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;

use crate::NetError;
use crate::gather::Gathering;
use crate::guard::{Stranger, TOO_MANY};
use crate::limits;
use crate::meter::{EndClass, SessionMeter};
use crate::server::{Admission, Drain, Incoming, Protocol, Refusal};
use crate::ssh::algorithms::{self, Offered, Preset};
use crate::ssh::certificate::Certificate;
use crate::ssh::farewell;
use crate::ssh::handler::{Connection, Shared, Stop};
use crate::ssh::kexinit::Offer;
use crate::ssh::keys;
use crate::ssh::stream::Guarded;

pub use crate::ssh::handler::{Link, Replies};

/// How a server presents itself.
#[derive(Debug)]
pub struct SshOptions {
    /// Host keys in OpenSSH form, at least one.
    pub host_keys: Vec<Secret>,
    /// Certificates of those keys, OpenSSH form.
    pub certificates: Vec<String>,
    /// Which algorithms.
    pub offered: Offered,
    /// Shown before login; empty: nothing.
    pub banner: String,
    /// Which addresses are treated in ways of their own.
    pub admission: Admission,
}

impl SshOptions {
    /// These keys and the preset `modern`.
    pub fn new(host_keys: Vec<Secret>) -> Self {
        SshOptions {
            host_keys,
            certificates: Vec::new(),
            offered: Offered::new(Preset::Modern, &[]),
            banner: String::new(),
            admission: Admission::default(),
        }
    }
}

/// [`SshOptions`], checked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SshConfig {
    /// For clients without AES-GCM.
    any_cipher: Arc<russh::server::Config>,
    /// For the others.
    gcm: Arc<russh::server::Config>,
    manner: Arc<Manner>,
}

/// What a handler needs of it.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) banner: Option<String>,
    pub(crate) offered: Offered,
    admission: Admission,
}

/// Our identification, without a version that would tell what to attack.
const IDENTIFICATION: &str = "SSH-2.0-Entrepot";
/// As it is sent.
const IDENTIFICATION_LINE: &[u8] = b"SSH-2.0-Entrepot\r\n";

impl SshConfig {
    /// Reads the keys.
    ///
    /// # Errors
    /// No key, or one that cannot be read.
    pub fn new(options: &SshOptions) -> Result<Self, NetError> {
        let keys = options.host_keys.iter().map(keys::private).collect::<Result<Vec<_>, _>>()?;
        let offered = &options.offered;
        if !keys.iter().any(|key| offered.accepts(&key.algorithm()) || key.algorithm().is_rsa()) {
            return Err(NetError::Key("a server needs a host key of its algorithms".to_owned()));
        }
        let certificates = options.certificates.iter().map(|line| keys::certificate(line, &keys));
        let keys = (keys.clone(), certificates.collect::<Result<Vec<_>, _>>()?);
        let banner = Some(options.banner.trim_end()).filter(|banner| !banner.is_empty());
        Ok(SshConfig {
            any_cipher: Arc::new(transport(keys.clone(), offered.server())),
            gcm: Arc::new(transport(keys, offered.server_of_gcm())),
            manner: Arc::new(Manner {
                banner: banner.map(crlf),
                offered: offered.clone(),
                admission: options.admission.clone(),
            }),
        })
    }

    /// With new keys after so many bytes in either direction, at most
    /// [`limits::REKEY_BYTES`]. Tests ask for few.
    #[must_use]
    pub fn with_rekey_bytes(mut self, bytes: usize) -> Self {
        let bytes = bytes.min(limits::REKEY_BYTES);
        // A new configuration is shared with nobody yet.
        let both = [Arc::get_mut(&mut self.any_cipher), Arc::get_mut(&mut self.gcm)];
        for config in both.into_iter().flatten() {
            config.limits = russh::Limits::new(bytes, bytes, limits::REKEY_TIME);
        }
        self
    }
}

fn transport(
    (keys, certificates): (Vec<PrivateKey>, Vec<russh::keys::Certificate>),
    preferred: Preferred,
) -> russh::server::Config {
    russh::server::Config {
        server_id: SshId::Standard(Cow::Borrowed(IDENTIFICATION)),
        methods: methods(&[AuthMethod::PublicKey, AuthMethod::Password]),
        // A refusal sleeps inside the session; slowing strangers down is the Gate's task.
        auth_rejection_time: Duration::ZERO,
        auth_rejection_time_initial: Some(Duration::ZERO),
        keys,
        certificates,
        limits: russh::Limits::new(limits::REKEY_BYTES, limits::REKEY_BYTES, limits::REKEY_TIME),
        window_size: limits::WINDOW_BYTES,
        maximum_packet_size: limits::PACKET_BYTES,
        // Its queue is of channel streams, which we drop at once.
        channel_buffer_size: 1,
        event_buffer_size: limits::EVENT_QUEUE,
        preferred,
        max_auth_attempts: limits::LOGIN_ATTEMPTS,
        inactivity_timeout: Some(limits::INACTIVITY_TIME),
        keepalive_interval: Some(limits::KEEPALIVE_TIME),
        keepalive_max: limits::KEEPALIVE_COUNT,
        nodelay: true,
    }
}

/// RFC 4252 §5.4 wants CR LF.
fn crlf(text: &str) -> String {
    text.lines().flat_map(|line| [line, "\r\n"]).collect()
}

/// Keyboard-interactive is offered beside password: some clients only do that. Codes are asked by
/// it alone.
pub(crate) fn methods(next: &[AuthMethod]) -> MethodSet {
    let mut set = MethodSet::empty();
    for method in next {
        let kinds: &[MethodKind] = match method {
            AuthMethod::PublicKey => &[MethodKind::PublicKey],
            AuthMethod::Password => &[MethodKind::Password, MethodKind::KeyboardInteractive],
            AuthMethod::Totp => &[MethodKind::KeyboardInteractive],
            // SSH has none.
            AuthMethod::Certificate => &[],
        };
        kinds.iter().for_each(|kind| set.push(*kind));
    }
    set
}

/// The answer to an attempt to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Logged in.
    Granted,
    /// Right, but one of these must follow (RFC 4252 §5.1, partial success).
    Partial {
        /// What must follow.
        next: Vec<AuthMethod>,
    },
    /// Wrong.
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
    /// A subsystem, by name.
    Subsystem(&'a str),
    /// A command line.
    Exec(&'a [u8]),
    /// A shell.
    Shell,
}

/// Whether it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It runs: bytes of the channel go to [`Service::data`].
    Running,
    /// It "ran": the sentence goes to standard error, then exit status 1, EOF and close.
    Declined(&'static str),
    /// The request is answered with a failure.
    Failed,
}

/// What a protocol does with one connection. The calls come one after the other from the session
/// task; while one waits, nothing of this connection is read.
pub trait Service: Send + Sized + 'static {
    /// What an unknown client may try.
    fn methods(&mut self) -> Vec<AuthMethod>;

    /// A stranger has shaken hands and is about to try: what it calls itself and its algorithms are
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

    /// The client's window has grown: what was held back may go on.
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
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
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

/// SSH as a server speaks it, for [`Server`](crate::server::Server).
#[derive(Debug)]
pub struct Ssh<F>(pub F);

impl<F: Services> Protocol for Ssh<F> {
    type Config = SshConfig;

    fn admission(config: &SshConfig) -> &Admission {
        &config.manner.admission
    }

    fn refusal(_: &SshConfig, why: Refusal) -> Option<Cow<'static, [u8]>> {
        match why {
            Refusal::NoRoom => {
                let packet = farewell::in_clear(Disconnect::TooManyConnections, TOO_MANY);
                Some(Cow::Owned([IDENTIFICATION_LINE, &packet].concat()))
            }
            // Clients try the next address of a name only where nobody accepts.
            Refusal::Stopping => None,
        }
    }

    fn admits(&self, peer: SocketAddr) -> bool {
        self.0.admits(peer)
    }

    fn serve(
        self: Arc<Self>,
        connection: Incoming<SshConfig>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let Incoming { stream, peer, meter, stranger, config, drain } = connection;
        let service = self.0.connect(peer, &meter);
        let guest = Guest { peer, meter, stranger };
        converse(config, Gathering::new(stream), guest, service, drain)
    }
}

/// A connection at its start.
#[derive(Debug)]
pub struct Guest {
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Its meter.
    pub meter: Arc<SessionMeter>,
    /// Its place among those who have not logged in.
    pub stranger: Stranger,
}

/// Carries one connection from its first byte to [`Service::ended`]. The stream may be anything;
/// tests use an in-memory one.
pub async fn converse<T, S>(config: SshConfig, stream: T, guest: Guest, service: S, drain: Drain)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let Guest { peer, meter, stranger } = guest;
    let (back, returned) = oneshot::channel();
    let shared = Arc::new(Shared::new(Arc::clone(&meter)));
    let manner = Arc::clone(&config.manner);
    let connection = Connection::new(service, back, shared, (stranger, manner));
    let guarded = Guarded::server(stream, Arc::clone(&meter));
    let outcome = session(config, guarded, connection, &meter, &drain).await;
    let reason = match (meter.ended(), outcome) {
        (Some(end), _) => end.reason.clone(),
        (None, Ok(())) => "the client ended the connection".to_owned(),
        (None, Err(reason)) => reason,
    };
    let summary =
        Summary { peer, reason, bytes_in: meter.bytes_in(), bytes_out: meter.bytes_out() };
    // The handler hands its service back when it is dropped, also after a panic.
    if let Ok(service) = returned.await {
        service.ended(&summary).await;
    }
}

async fn session<T, S>(
    config: SshConfig,
    mut stream: Guarded<T>,
    mut connection: Connection<S>,
    meter: &Arc<SessionMeter>,
    drain: &Drain,
) -> Result<(), String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let came = tokio::select! {
        seen = stream.preview(IDENTIFICATION_LINE, limits::KEXINIT_PATIENCE) => seen,
        () = supervise_start(meter, drain) => {
            return say_in_clear(&mut stream, meter).await.map_err(|error| error.to_string());
        }
    };
    let came = came.map_err(|error| Stop::from(russh::Error::from(error)).sentence())?;
    let has_gcm = |offer: &Offer| offer.has_cipher(algorithms::GCM_NAMES);
    let gcm = came && stream.offer().is(has_gcm);
    let transport = if gcm { config.gcm } else { config.any_cipher };
    connection.is_offered(Arc::clone(&transport), stream.offer());
    let mut running = tokio::select! {
        started = russh::server::run_stream(transport, stream, connection) => {
            started.map_err(|stop| stop.sentence())?
        }
        () = supervise_start(meter, drain) => return Ok(()),
    };
    tokio::select! {
        ended = &mut running => return ended.map_err(|stop| stop.sentence()),
        () = supervise(meter, drain) => {}
    }
    let end = meter.ending().await.clone();
    let handle = running.handle();
    let farewell = async {
        let reason = end.reason.clone();
        if handle.disconnect(disconnect(end.class), reason, "en".to_owned()).await.is_err() {
            tracing::trace!("the session has ended by itself");
        }
        (&mut running).await
    };
    if let Ok(ended) = tokio::time::timeout(limits::FAREWELL_TIME, farewell).await {
        return ended.map_err(|stop| stop.sentence());
    }
    meter.cut();
    running.await.map_err(|stop| stop.sentence())
}

/// Returns when the connection must end before its key exchange; [`SessionMeter::ended`] says why.
async fn supervise_start(meter: &SessionMeter, drain: &Drain) {
    tokio::select! {
        _ = meter.ending() => {}
        () = tokio::time::sleep(limits::IDENTIFICATION_TIME) => {
            meter.end(EndClass::Login, "no identification line came in time");
        }
        () = drain.stop.cancelled() => meter.end(EndClass::Decision, "the server is stopping"),
    }
}

/// Tells the client in clear text why its connection ends.
async fn say_in_clear<T>(stream: &mut Guarded<T>, meter: &SessionMeter) -> std::io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(end) = meter.ended() else { return Ok(()) };
    let packet = farewell::in_clear(disconnect(end.class), &end.reason);
    // The stream drops the line, for it was sent ahead of whoever writes it.
    let words = [IDENTIFICATION_LINE, &packet].concat();
    let saying = async {
        stream.write_all(&words).await?;
        stream.shutdown().await
    };
    tokio::time::timeout(limits::FAREWELL_TIME, saying).await.unwrap_or(Ok(()))
}

fn disconnect(class: EndClass) -> Disconnect {
    match class {
        EndClass::Decision => Disconnect::ByApplication,
        EndClass::TooMany => Disconnect::TooManyConnections,
        EndClass::Login => Disconnect::NoMoreAuthMethodsAvailable,
        EndClass::Protocol => Disconnect::ProtocolError,
    }
}

/// Returns when the connection must end; [`SessionMeter::ended`] says why.
async fn supervise(meter: &SessionMeter, drain: &Drain) {
    tokio::select! {
        () = drain.supervise(meter, limits::LOGIN_TIME) => {}
        () = watch_idle(meter) => {}
    }
}

/// Ends a session that is idle for too long; before login there is no such limit.
async fn watch_idle(meter: &SessionMeter) {
    loop {
        // Looks again now and then, for the limit changes live.
        let rest = meter.idle_limit().saturating_sub(meter.idle());
        // A client that waits for a rule is not idle.
        if meter.is_waited_for() {
            meter.touch();
        } else if rest.is_zero() {
            return meter.end(EndClass::Decision, "the session was idle for too long");
        }
        tokio::time::sleep(rest.clamp(limits::DRAIN_INTERVAL, limits::LOGIN_TIME)).await;
    }
}

#[cfg(test)]
mod tests;
