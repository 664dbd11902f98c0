//! The one implementation of russh's `server::Handler`: answers every request, keeps the books of
//! channels and attempts, and passes the rest to a [`Service`] without a queue between.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use entrepot_net::guard::{Checking, UnauthenticatedConnection};
use entrepot_net::meter::{EndClass, SessionMeter, Stage};
use entrepot_nouns::{AuthMethod, Secret};
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handler, Msg, PublicKeyOffer, Response, Session,
    VerifiedPublicKey,
};
use russh::{Channel, ChannelId, ChannelOpenFailure, Pty, Sig};
use tokio::sync::oneshot;

use crate::certificate::Certificate;
use crate::channels::{ConnectionChannels, Link, Replies, Stop};
use crate::clear_text::ClientOffer;
use crate::config::{Presentation, methods};
use crate::limits;
use crate::rotation;
use crate::service::{Program, Service, Started, Verdict};

/// Least length of RSA user keys.
const RSA_BITS: u32 = 2048;

/// What a client tried to log in with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// A password or code. Wrong ones are guesses and are counted.
    Secret,
    /// A key or certificate of which the client has the private key.
    Key,
}

/// The server's side of one SSH connection, from its first packet until russh drops it.
pub(crate) struct Connection<S: Service> {
    /// Until it is handed back on drop.
    service: Option<S>,
    back: Option<oneshot::Sender<S>>,
    shared: Arc<ConnectionChannels>,
    unauthenticated: Option<UnauthenticatedConnection>,
    presentation: Arc<Presentation>,
    /// What is offered to this client, once that is decided, and what it offers.
    offered: Option<(Arc<Config>, ClientOffer)>,
    probes: u32,
    wrong: u32,
    /// The host keys were proved: once is enough, for signatures cost.
    proved: bool,
    /// What the last round of keyboard-interactive asked for.
    asked: Vec<AuthMethod>,
    /// Such rounds since something was right.
    rounds: u32,
}

impl<S: Service> Connection<S> {
    pub(crate) fn new(
        service: S,
        back: oneshot::Sender<S>,
        shared: Arc<ConnectionChannels>,
        unauthenticated: UnauthenticatedConnection,
        presentation: Arc<Presentation>,
    ) -> Self {
        Connection {
            service: Some(service),
            back: Some(back),
            shared,
            unauthenticated: Some(unauthenticated),
            presentation,
            offered: None,
            probes: 0,
            wrong: 0,
            proved: false,
            asked: Vec::new(),
            rounds: 0,
        }
    }

    fn service(&mut self) -> Result<&mut S, Stop> {
        self.service.as_mut().ok_or(Stop::Gone)
    }

    pub(crate) fn meter(&self) -> &Arc<SessionMeter> {
        &self.shared.meter
    }

    /// Notes what the client is offered, and what it offers.
    pub(crate) fn is_offered(&mut self, config: Arc<Config>, offer: ClientOffer) {
        self.offered = Some((config, offer));
    }

    /// Until the answer is dropped, credentials of this client are being checked.
    fn checking(&self) -> Option<Checking> {
        self.unauthenticated.as_ref().and_then(UnauthenticatedConnection::checking)
    }

    fn first_methods(&mut self) -> Result<Auth, Stop> {
        let next = self.service()?.methods();
        Ok(failure(&next))
    }

    fn judge(&mut self, verdict: Verdict, tried: Tried) -> Auth {
        match verdict {
            Verdict::Granted => Auth::Accept,
            Verdict::Partial { next } => {
                self.rounds = 0;
                partial_success(&next)
            }
            Verdict::Refused { next, end } => {
                self.wrong += u32::from(tried == Tried::Secret);
                if end || self.wrong >= limits::WRONG_PASSWORDS {
                    self.meter().end(EndClass::Login, "too many attempts to log in");
                }
                failure(&next)
            }
        }
    }

    async fn check_password(&mut self, user: &str, password: &[u8]) -> Result<Auth, Stop> {
        if self.meter().ended().is_some() {
            return self.first_methods();
        }
        let secret = Secret::new(password);
        let _checking = self.checking();
        let verdict = self.service()?.password(user, &secret).await;
        Ok(self.judge(verdict, Tried::Secret))
    }

    /// Begins a round of keyboard-interactive.
    async fn ask(&mut self, user: &str) -> Result<Auth, Stop> {
        self.rounds += 1;
        if self.rounds > limits::INTERACTIVE_ROUNDS {
            self.meter().end(EndClass::Login, "too many attempts to log in");
        }
        if self.meter().ended().is_some() {
            return self.first_methods();
        }
        let _checking = self.checking();
        self.asked = self.service()?.asked(user).await;
        let prompts = self.asked.iter().map(|method| (Cow::Borrowed(prompt(*method)), false));
        let prompts = prompts.collect::<Vec<_>>().into();
        let nothing = || Cow::Borrowed("");
        Ok(Auth::Partial { name: nothing(), instructions: nothing(), prompts })
    }

    /// Hears the answers of a round: as many as were asked for, or none counts.
    async fn hear(&mut self, user: &str, answers: Response<'_>) -> Result<Auth, Stop> {
        if self.meter().ended().is_some() {
            return self.first_methods();
        }
        let asked = std::mem::take(&mut self.asked);
        let answers: Vec<Secret> = answers.map(|answer| Secret::new(answer.as_ref())).collect();
        if asked.is_empty() || asked.len() != answers.len() {
            let next = self.service()?.methods();
            return Ok(self.judge(Verdict::Refused { next, end: false }, Tried::Secret));
        }
        let _checking = self.checking();
        let given: Vec<(AuthMethod, Secret)> = asked.into_iter().zip(answers).collect();
        let verdict = self.service()?.answers(user, &given).await;
        Ok(self.judge(verdict, Tried::Secret))
    }

    async fn start(
        &mut self,
        channel: ChannelId,
        program: Program<'_>,
        session: &mut Session,
    ) -> Result<(), Stop> {
        self.meter().touch();
        if !self.shared.begin(channel) {
            return Ok(session.channel_failure(channel)?);
        }
        match self.service()?.start(channel, program).await {
            Started::Running => session.channel_success(channel)?,
            Started::Failed => session.channel_failure(channel)?,
            Started::Declined(sentence) => {
                session.channel_success(channel)?;
                let shared = Arc::clone(&self.shared);
                let mut out = Replies::new(session, channel, &shared);
                out.send_error_text(Bytes::from(format!("{sentence}\r\n")));
                out.finish(1);
                out.result()?;
            }
        }
        Ok(())
    }

    /// The client takes more on a channel.
    async fn writable(&mut self, channel: ChannelId, session: &mut Session) -> Result<(), Stop> {
        let service = self.service.as_mut().ok_or(Stop::Gone)?;
        let mut out = Replies::new(session, channel, &self.shared);
        service.writable(&mut out).await;
        out.result()
    }

    /// Refuses a forwarding.
    fn forwarding(&mut self, what: &'static str) -> Result<(), Stop> {
        self.service()?.forwarding_refused(what);
        Ok(())
    }
}

impl<S: Service> Drop for Connection<S> {
    fn drop(&mut self) {
        if let (Some(back), Some(service)) = (self.back.take(), self.service.take()) {
            // Nobody listens only if the runtime is being shut down.
            let _ = back.send(service);
        }
    }
}

/// What was tried is wrong (RFC 4252 §5.1). Always with a list of methods: without one russh
/// strikes the method off.
fn failure(next: &[AuthMethod]) -> Auth {
    Auth::Reject { proceed_with_methods: Some(methods(next)), partial_success: false }
}

/// What was tried is right and more is needed (RFC 4252 §5.1).
fn partial_success(next: &[AuthMethod]) -> Auth {
    Auth::Reject { proceed_with_methods: Some(methods(next)), partial_success: true }
}

/// What a person is asked. Without echo: a code read over a shoulder is a code.
fn prompt(method: AuthMethod) -> &'static str {
    match method {
        AuthMethod::Totp => "Code: ",
        AuthMethod::Password
        | AuthMethod::PublicKey
        | AuthMethod::Certificate
        | AuthMethod::Passkey
        | AuthMethod::Oidc => "Password: ",
    }
}

impl<S: Service> Handler for Connection<S> {
    type Error = Stop;

    async fn authentication_banner(&mut self) -> Result<Option<String>, Stop> {
        self.meter().advance(Stage::Authenticating);
        if let Some((config, offer)) = self.offered.take() {
            let (keys, certificates) = (&config.keys, &config.certificates);
            let agreed = offer.agree(|offer| offer.agree(&config.preferred, keys, certificates));
            if let Some(algorithms) = agreed {
                self.meter().agreed(&algorithms);
            }
        }
        if let Err(sentence) = self.service()?.greeted().await {
            self.meter().end(EndClass::Decision, sentence);
        }
        Ok(self.presentation.banner.clone())
    }

    async fn auth_none(&mut self, _user: &str) -> Result<Auth, Stop> {
        self.first_methods()
    }

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, Stop> {
        self.check_password(user, password.as_bytes()).await
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        user: &str,
        _submethods: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, Stop> {
        match response {
            None => self.ask(user).await,
            Some(answers) => self.hear(user, answers).await,
        }
    }

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Stop> {
        let rsa = offer.public_key.key_data().rsa();
        let long_enough = rsa.is_none_or(|rsa| rsa.key_size() >= RSA_BITS);
        let ended = self.meter().ended().is_some();
        if ended || !long_enough || !self.presentation.offered.accepts(offer.algorithm) {
            return self.first_methods();
        }
        let _checking = self.checking();
        if !self.service()?.offered(user, offer.public_key).await {
            return self.first_methods();
        }
        self.probes += 1;
        if self.probes > limits::ACCEPTED_PROBES {
            self.meter().end(EndClass::Login, "too many attempts to log in");
            return self.first_methods();
        }
        Ok(Auth::Accept)
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Stop> {
        if self.meter().ended().is_some() {
            return self.first_methods();
        }
        let _checking = self.checking();
        let algorithm = key.algorithm.as_str().to_owned();
        let verdict = self.service()?.public_key(user, key.public_key, &algorithm).await;
        Ok(self.judge(verdict, Tried::Key))
    }

    async fn auth_openssh_certificate(
        &mut self,
        user: &str,
        certificate: &russh::keys::Certificate,
    ) -> Result<Auth, Stop> {
        if self.meter().ended().is_some() {
            return self.first_methods();
        }
        let Ok(certificate) = Certificate::verified(certificate) else {
            return self.first_methods();
        };
        let _checking = self.checking();
        let verdict = self.service()?.certificate(user, &certificate).await;
        Ok(self.judge(verdict, Tried::Key))
    }

    async fn auth_succeeded(&mut self, session: &mut Session) -> Result<(), Stop> {
        let link = Link { handle: session.handle(), shared: Arc::clone(&self.shared) };
        self.meter().advance(Stage::LoggedIn);
        self.meter().touch();
        if let Some(unauthenticated) = self.unauthenticated.take() {
            unauthenticated.logged_in();
        }
        if rotation::learns(self.meter().client()) {
            let keys = rotation::announcement(&session.config().keys);
            session.global_request(rotation::ANNOUNCE, &keys)?;
        }
        if let Err(sentence) = self.service()?.logged_in(link).await {
            self.meter().end(EndClass::Decision, sentence);
        }
        Ok(())
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Stop> {
        self.meter().touch();
        let id = channel.id();
        // Its stream is a bounded queue that the session would wait for.
        drop(channel);
        if self.shared.open(id) {
            reply.accept().await;
        } else {
            reply.reject(ChannelOpenFailure::ResourceShortage).await;
        }
        Ok(())
    }

    async fn channel_open_x11(
        &mut self,
        _channel: Channel<Msg>,
        _originator_address: &str,
        _originator_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Stop> {
        // A reply that is dropped is AdministrativelyProhibited, here and below.
        self.forwarding("x11")
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _host_to_connect: &str,
        _port_to_connect: u32,
        _originator_address: &str,
        _originator_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Stop> {
        self.forwarding("direct-tcpip")
    }

    async fn channel_open_forwarded_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _host_to_connect: &str,
        _port_to_connect: u32,
        _originator_address: &str,
        _originator_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Stop> {
        self.forwarding("forwarded-tcpip")
    }

    async fn channel_open_direct_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _socket_path: &str,
        _reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Stop> {
        self.forwarding("direct-streamlocal")
    }

    async fn tcpip_forward(
        &mut self,
        _address: &str,
        _port: &mut u32,
        _session: &mut Session,
    ) -> Result<bool, Stop> {
        self.forwarding("tcpip-forward").map(|()| false)
    }

    async fn streamlocal_forward(
        &mut self,
        _socket_path: &str,
        _session: &mut Session,
    ) -> Result<bool, Stop> {
        self.forwarding("streamlocal-forward").map(|()| false)
    }

    async fn global_request(
        &mut self,
        name: &str,
        data: &[u8],
        session: &mut Session,
    ) -> Result<Option<Vec<u8>>, Stop> {
        if name != rotation::PROVE || self.proved || self.meter().stage() < Stage::LoggedIn {
            return Ok(None);
        }
        self.proved = true;
        let id = session.session_id().unwrap_or_default();
        Ok(rotation::proofs(&session.config().keys, id, data))
    }

    async fn agent_request(
        &mut self,
        _channel: ChannelId,
        _session: &mut Session,
    ) -> Result<bool, Stop> {
        Ok(false)
    }

    async fn pty_request(
        &mut self,
        channel: ChannelId,
        _term: &str,
        _col_width: u32,
        _row_height: u32,
        _pix_width: u32,
        _pix_height: u32,
        _modes: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Stop> {
        Ok(session.channel_failure(channel)?)
    }

    async fn x11_request(
        &mut self,
        channel: ChannelId,
        _single_connection: bool,
        _x11_auth_protocol: &str,
        _x11_auth_cookie: &str,
        _x11_screen_number: u32,
        session: &mut Session,
    ) -> Result<(), Stop> {
        Ok(session.channel_failure(channel)?)
    }

    async fn env_request(
        &mut self,
        channel: ChannelId,
        _variable_name: &str,
        _variable_value: &str,
        session: &mut Session,
    ) -> Result<(), Stop> {
        Ok(session.channel_failure(channel)?)
    }

    async fn window_change_request(
        &mut self,
        channel: ChannelId,
        _col_width: u32,
        _row_height: u32,
        _pix_width: u32,
        _pix_height: u32,
        session: &mut Session,
    ) -> Result<(), Stop> {
        Ok(session.channel_failure(channel)?)
    }

    async fn signal(
        &mut self,
        channel: ChannelId,
        _signal: Sig,
        session: &mut Session,
    ) -> Result<(), Stop> {
        Ok(session.channel_failure(channel)?)
    }

    async fn shell_request(
        &mut self,
        channel: ChannelId,
        session: &mut Session,
    ) -> Result<(), Stop> {
        self.start(channel, Program::Shell, session).await
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Stop> {
        self.start(channel, Program::Exec(data), session).await
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Stop> {
        self.start(channel, Program::Subsystem(name), session).await
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Stop> {
        self.shared.meter.touch();
        let service = self.service.as_mut().ok_or(Stop::Gone)?;
        let mut out = Replies::new(session, channel, &self.shared);
        service.data(data, &mut out).await;
        out.result()
    }

    async fn window_adjusted(
        &mut self,
        channel: ChannelId,
        _new_size: u32,
        session: &mut Session,
    ) -> Result<(), Stop> {
        self.writable(channel, session).await
    }

    async fn channel_drained(
        &mut self,
        channel: ChannelId,
        session: &mut Session,
    ) -> Result<(), Stop> {
        self.writable(channel, session).await
    }

    async fn channel_eof(&mut self, channel: ChannelId, session: &mut Session) -> Result<(), Stop> {
        let service = self.service.as_mut().ok_or(Stop::Gone)?;
        let mut out = Replies::new(session, channel, &self.shared);
        service.eof(&mut out).await;
        out.result()
    }

    async fn channel_close(
        &mut self,
        channel: ChannelId,
        session: &mut Session,
    ) -> Result<(), Stop> {
        if session.has_pending_data(channel) {
            self.shared.left_unread();
        }
        if self.shared.close(channel) {
            self.service()?.closed(channel).await;
        }
        Ok(())
    }
}
