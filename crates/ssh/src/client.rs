//! SSH clients: one connection, host key pinned, and subsystems whose bytes come by a callback
//! inside the session task while another task writes, so that neither ever waits for the other.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use entrepot_net::limits::FAREWELL_TIME;
use entrepot_net::meter::SessionMeter;
use entrepot_nouns::{Env, Secret};
use parking_lot::Mutex;
use russh::client::{AuthResult, Handle, Handler, KeyboardInteractiveAuthResponse, Msg, Session};
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{ChannelId, ChannelMsg, ChannelWriteHalf, Disconnect, MethodKind, SshId};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::SshError;
use crate::algorithms::{Offered, Preset};
use crate::keys;
use crate::limits;
use crate::stream::Guarded;

/// Most rounds of keyboard-interactive.
const INTERACTIVE_ROUNDS: usize = 3;

/// Which host keys are believed.
#[derive(Clone, Debug)]
pub enum HostKeyPins {
    /// Only these: OpenSSH lines or `SHA256:…` fingerprints.
    Pinned(Vec<String>),
    /// Any. For load generators against servers of one's own only: it proves nothing.
    Any,
}

/// How to log in.
#[derive(Clone, Debug)]
pub enum Credential {
    /// With a password, by the method `password` or else `keyboard-interactive`.
    Password(Secret),
    /// With a private key in OpenSSH form; RSA signs with SHA-2 only.
    Key(Secret),
    /// With a key, then a password, as servers want it that ask for both.
    KeyAndPassword {
        /// In OpenSSH form; tried first.
        key: Secret,
        /// Sent only if the key alone does not log in.
        password: Secret,
    },
}

/// A client's wishes.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The login name.
    pub user: String,
    /// How to log in.
    pub credential: Credential,
    /// Which host keys are believed.
    pub pins: HostKeyPins,
    /// The algorithms that are offered, and in which order.
    pub preset: Preset,
    /// One cipher by name instead of the preset's order, such as `aes128-gcm@openssh.com`.
    pub cipher: Option<String>,
    /// The software of its identification line (RFC 4253 §4.2) instead of `Entrepot`: servers treat
    /// clients by it, and tests speak as others do.
    pub software: Option<String>,
    /// Clock of the meter.
    pub env: Env,
}

/// What arrives on a channel.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// Bytes of the subsystem.
    Data(&'a [u8]),
    /// Its standard error.
    ErrorText(&'a [u8]),
    /// Nothing more comes.
    End,
}

/// Takes what arrives, inside the session task: it must return soon and never block.
pub type Receiver = Box<dyn FnMut(Arrival<'_>) + Send>;

/// A logged-in connection. Dropping it ends it.
pub struct SshClient {
    handle: Handle<ClientHandler>,
    receivers: Receivers,
    meter: Arc<SessionMeter>,
    host_key: PublicKey,
}

type Receivers = Arc<Mutex<Vec<(ChannelId, Receiver)>>>;

impl std::fmt::Debug for SshClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SshClient").field("meter", &self.meter).finish_non_exhaustive()
    }
}

impl SshClient {
    /// Shakes hands over a stream that was dialled, checks the host key and logs in.
    ///
    /// # Errors
    /// A host key that is not pinned, a refused login, a broken conversation, no answer in time.
    pub async fn connect<T>(stream: T, options: &ClientOptions) -> Result<Self, SshError>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let meter = Arc::new(SessionMeter::new(options.env.clone()));
        let guarded = Guarded::client(stream, Arc::clone(&meter));
        let receivers = Receivers::default();
        let shown = Arc::new(Mutex::new(None));
        let handler = ClientHandler {
            pins: options.pins.clone(),
            shown: Arc::clone(&shown),
            receivers: Arc::clone(&receivers),
        };
        let config = Arc::new(config(options)?);
        let shaking = russh::client::connect_stream(config, guarded, handler);
        let mut handle = in_time(shaking, "no handshake in time").await?.map_err(SshError::from)?;
        let refused = in_time(login(&mut handle, options), "no login in time").await?;
        refused?;
        let host_key = shown.lock().take();
        let host_key = host_key.ok_or_else(|| SshError::Failed("no host key came".to_owned()))?;
        Ok(SshClient { handle, receivers, meter, host_key })
    }

    /// The server's key.
    pub fn host_key(&self) -> &PublicKey {
        &self.host_key
    }

    /// The meter of the connection: bytes both ways, and its end.
    pub fn meter(&self) -> &Arc<SessionMeter> {
        &self.meter
    }

    /// True once the connection is over.
    pub fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Opens the subsystem `sftp`. `receiver` gets what arrives, from its first byte on.
    ///
    /// # Errors
    /// The server does not offer it, or the connection is over.
    pub async fn open_sftp(&self, receiver: Receiver) -> Result<ChannelWriter, SshError> {
        in_time(self.open(None, receiver), "no subsystem in time").await?
    }

    /// Runs a command. `receiver` gets what arrives, from its first byte on.
    ///
    /// # Errors
    /// The server refuses commands, or the connection is over.
    pub async fn open_exec(
        &self,
        command: &str,
        receiver: Receiver,
    ) -> Result<ChannelWriter, SshError> {
        in_time(self.open(Some(command), receiver), "no command in time").await?
    }

    async fn open(
        &self,
        command: Option<&str>,
        receiver: Receiver,
    ) -> Result<ChannelWriter, SshError> {
        let mut channel = self.handle.channel_open_session().await.map_err(transport)?;
        self.receivers.lock().push((channel.id(), receiver));
        match command {
            None => channel.request_subsystem(true, "sftp").await.map_err(transport)?,
            Some(command) => channel.exec(true, command).await.map_err(transport)?,
        }
        loop {
            match channel.wait().await {
                Some(ChannelMsg::Success) => break,
                Some(ChannelMsg::WindowAdjusted { .. }) => {}
                None => return Err(SshError::Closed),
                Some(_) => return Err(SshError::Failed("the server does not offer it".to_owned())),
            }
        }
        // The reading half is a bounded queue; what arrives goes to the receiver instead.
        let (reading, writing) = channel.split();
        drop(reading);
        Ok(ChannelWriter(writing))
    }

    /// Says good-bye and waits until the connection is over.
    pub async fn close(mut self) {
        let farewell = async {
            let told = self.handle.disconnect(Disconnect::ByApplication, "", "en").await;
            if told.is_ok()
                && let Err(error) = (&mut self.handle).await
            {
                tracing::trace!(%error, "the connection ended otherwise");
            }
        };
        if tokio::time::timeout(FAREWELL_TIME, farewell).await.is_err() {
            tracing::trace!("the server did not take the farewell");
        }
    }
}

impl Drop for SshClient {
    fn drop(&mut self) {
        self.meter.cut();
    }
}

/// The writing half of a channel.
pub struct ChannelWriter(ChannelWriteHalf<Msg>);

impl std::fmt::Debug for ChannelWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChannelWriter({})", self.0.id())
    }
}

impl ChannelWriter {
    /// Sends bytes; waits for the server's window.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn send(&self, bytes: Bytes) -> Result<(), SshError> {
        self.0.data_bytes(bytes).await.map_err(|_| SshError::Closed)
    }

    /// Closes the channel, whatever is under way.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn close(&self) -> Result<(), SshError> {
        self.0.close().await.map_err(|_| SshError::Closed)
    }

    /// Sends no more: EOF. The server ends the channel when it is done.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn end(&self) -> Result<(), SshError> {
        self.0.eof().await.map_err(|_| SshError::Closed)
    }
}

async fn in_time<F: Future>(future: F, late: &str) -> Result<F::Output, SshError> {
    let waited = tokio::time::timeout(limits::CLIENT_TIME, future).await;
    waited.map_err(|_| SshError::Failed(late.to_owned()))
}

fn transport(error: russh::Error) -> SshError {
    SshError::from(ClientStop::from(error))
}

fn config(options: &ClientOptions) -> Result<russh::client::Config, SshError> {
    let mut preferred = Offered::new(options.preset, &[]).client();
    if let Some(name) = &options.cipher {
        let known = preferred.cipher.iter().find(|cipher| cipher.as_ref() == name.as_str());
        let cipher =
            *known.ok_or_else(|| SshError::Failed(format!("no cipher is named '{name}'")))?;
        preferred.cipher = Cow::Owned(vec![cipher]);
    }
    let software = options.software.as_deref().unwrap_or("Entrepot");
    Ok(russh::client::Config {
        client_id: SshId::Standard(Cow::Owned(format!("SSH-2.0-{software}"))),
        window_size: limits::WINDOW_BYTES,
        maximum_packet_size: 65_535,
        preferred,
        keepalive_interval: Some(limits::CLIENT_KEEPALIVE_TIME),
        keepalive_max: limits::KEEPALIVE_COUNT,
        nodelay: true,
        ..russh::client::Config::default()
    })
}

async fn login(
    handle: &mut Handle<ClientHandler>,
    options: &ClientOptions,
) -> Result<(), SshError> {
    let accepted = match &options.credential {
        Credential::Password(password) => by_password(handle, &options.user, password).await?,
        Credential::Key(key) => by_key(handle, &options.user, key).await?,
        Credential::KeyAndPassword { key, password } => {
            by_key(handle, &options.user, key).await?
                || by_password(handle, &options.user, password).await?
        }
    };
    if accepted { Ok(()) } else { Err(SshError::LoginRefused { user: options.user.clone() }) }
}

async fn by_key(
    handle: &mut Handle<ClientHandler>,
    user: &str,
    key: &Secret,
) -> Result<bool, SshError> {
    let key = Arc::new(keys::private(key)?);
    // RSA signs with SHA-2 only; for other keys the hash is part of the algorithm.
    let hash = key.algorithm().is_rsa().then_some(HashAlg::Sha512);
    let key = PrivateKeyWithHashAlg::new(key, hash);
    let result = handle.authenticate_publickey(user, key).await.map_err(transport)?;
    Ok(result.success())
}

async fn by_password(
    handle: &mut Handle<ClientHandler>,
    user: &str,
    password: &Secret,
) -> Result<bool, SshError> {
    let password = String::from_utf8(password.expose().to_vec())
        .map_err(|_| SshError::LoginRefused { user: user.to_owned() })?;
    let result = handle.authenticate_password(user, password.as_str()).await.map_err(transport)?;
    let AuthResult::Failure { remaining_methods, .. } = result else { return Ok(true) };
    let only_interactive = remaining_methods.contains(&MethodKind::KeyboardInteractive)
        && !remaining_methods.contains(&MethodKind::Password);
    if !only_interactive {
        return Ok(false);
    }
    interactively(handle, user, &password).await
}

/// Answers one prompt with the password, as servers ask that offer nothing else.
async fn interactively(
    handle: &mut Handle<ClientHandler>,
    user: &str,
    password: &str,
) -> Result<bool, SshError> {
    let mut step = handle
        .authenticate_keyboard_interactive_start(user, None::<String>)
        .await
        .map_err(transport)?;
    for _ in 0..INTERACTIVE_ROUNDS {
        let prompts = match step {
            KeyboardInteractiveAuthResponse::Success => return Ok(true),
            KeyboardInteractiveAuthResponse::Failure { .. } => return Ok(false),
            KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => prompts,
        };
        if prompts.len() > 1 {
            return Ok(false);
        }
        let answers = prompts.iter().map(|_| password.to_owned()).collect();
        step =
            handle.authenticate_keyboard_interactive_respond(answers).await.map_err(transport)?;
    }
    Ok(false)
}

/// Why a client's session stops.
#[derive(Debug, Error)]
enum ClientStop {
    #[error("{0}")]
    Transport(#[from] russh::Error),
    #[error("the host key '{0}' is not pinned")]
    HostKey(String),
}

impl From<ClientStop> for SshError {
    fn from(stop: ClientStop) -> Self {
        match stop {
            ClientStop::HostKey(shown) => SshError::HostKey { shown },
            ClientStop::Transport(
                russh::Error::Disconnect | russh::Error::HUP | russh::Error::SendError,
            ) => SshError::Closed,
            ClientStop::Transport(error) => SshError::Failed(error.to_string()),
        }
    }
}

struct ClientHandler {
    pins: HostKeyPins,
    shown: Arc<Mutex<Option<PublicKey>>>,
    receivers: Receivers,
}

impl ClientHandler {
    fn deliver(&self, channel: ChannelId, arrival: Arrival<'_>) {
        let mut receivers = self.receivers.lock();
        if let Some((_, receiver)) = receivers.iter_mut().find(|(id, _)| *id == channel) {
            receiver(arrival);
        }
    }

    fn end(&self, channel: ChannelId) {
        self.deliver(channel, Arrival::End);
        self.receivers.lock().retain(|(id, _)| *id != channel);
    }
}

impl Drop for ClientHandler {
    fn drop(&mut self) {
        for (_, mut receiver) in self.receivers.lock().drain(..) {
            receiver(Arrival::End);
        }
    }
}

impl HostKeyPins {
    fn contain(&self, key: &PublicKey) -> bool {
        match self {
            HostKeyPins::Any => true,
            HostKeyPins::Pinned(pins) => pins.iter().any(|pin| {
                let pin = pin.trim();
                pin == keys::fingerprint(key)
                    || keys::public(pin).is_ok_and(|pinned| pinned.key_data() == key.key_data())
            }),
        }
    }
}

impl Handler for ClientHandler {
    type Error = ClientStop;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, ClientStop> {
        let key = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => key.clone(),
            // None is asked for; its bare key must be pinned like any other.
            PublicKeyOrCertificate::Certificate(certificate) => {
                PublicKey::new(certificate.public_key().clone(), "")
            }
        };
        if !self.pins.contain(&key) {
            return Err(ClientStop::HostKey(keys::fingerprint(&key)));
        }
        *self.shown.lock() = Some(key);
        Ok(true)
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        _session: &mut Session,
    ) -> Result<(), ClientStop> {
        self.deliver(channel, Arrival::Data(data));
        Ok(())
    }

    async fn extended_data(
        &mut self,
        channel: ChannelId,
        _ext: u32,
        data: &[u8],
        _session: &mut Session,
    ) -> Result<(), ClientStop> {
        self.deliver(channel, Arrival::ErrorText(data));
        Ok(())
    }

    async fn channel_eof(
        &mut self,
        channel: ChannelId,
        _session: &mut Session,
    ) -> Result<(), ClientStop> {
        self.end(channel);
        Ok(())
    }

    async fn channel_close(
        &mut self,
        channel: ChannelId,
        _session: &mut Session,
    ) -> Result<(), ClientStop> {
        self.end(channel);
        Ok(())
    }
}
