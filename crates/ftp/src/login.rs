//! The login of one connection: passwords, certificates and codes through the Gate, and the
//! session that a login opens.

use std::sync::Arc;
use std::time::Duration;

use entrepot_auth::{Attempt, Grant, Peer, Verdict};
use entrepot_ftp_proto::{Answer, Login, Refusal, Secret as Sent, Why};
use entrepot_net::guard::{Checking, UnauthenticatedConnection};
use entrepot_net::meter::{EndClass, Stage};
use entrepot_net::tls::{ClientCertificate, ClientCertificates, TlsSession};
use entrepot_nouns::ftp::TlsReuse;
use entrepot_nouns::{AuthMethod, LoginProtocol, PerDirection, Protocol, Right, Secret, SiteId};
use entrepot_vfs::{CommandAuthor, Session, Vfs, VfsError};
use tokio::task::JoinSet;
use tracing::Span;

use crate::control::{ControlConnection, Over};
use crate::host::{self, ChosenSite};
use crate::shared::ListenerShared;
use crate::status::{refusal, sentence};

/// The session of an account that is logged in.
struct OpenSession {
    session: Session,
    /// Ends the connection when the session is ended from elsewhere.
    watch: JoinSet<()>,
    /// Of the policy whose limits the connection has.
    generation: u64,
    /// Names the session in the log.
    span: Span,
}

/// How far the login of a connection is.
pub(crate) struct LoginState {
    shared: Arc<ListenerShared>,
    /// The connection counts as one without a login until then.
    unauthenticated: Option<UnauthenticatedConnection>,
    /// What has been proved so far; begun with the first credential.
    attempt: Option<Attempt>,
    /// The certificate was right, and a code is all that is missing.
    code_is_next: bool,
    /// The site whose accounts log in: chosen at USER by HOST or the server name of TLS.
    site: SiteId,
    open: Option<OpenSession>,
}

/// Said to accounts whose login has steps that FTP cannot ask for.
const MORE_THAN_PASSWORD: &str =
    "This account logs in with more than FTP can ask for: show its certificate, or use SFTP.";

/// Said to clients that came before a change.
const ASKS_OTHERWISE: &str = "The server asks for other certificates now: connect again.";

impl LoginState {
    /// Nobody is logged in.
    pub(crate) fn new(
        shared: Arc<ListenerShared>,
        unauthenticated: UnauthenticatedConnection,
    ) -> LoginState {
        let site = shared.site;
        LoginState {
            shared,
            unauthenticated: Some(unauthenticated),
            attempt: None,
            code_is_next: false,
            site,
            open: None,
        }
    }

    /// The session of the account that is logged in.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.open.as_ref().map(|open| &open.session)
    }

    /// Names the session that is logged in, in the log; before a login it names nothing.
    pub(crate) fn span(&self) -> Span {
        self.open.as_ref().map_or_else(Span::none, |open| open.span.clone())
    }

    /// The files of the account that is logged in.
    pub(crate) fn vfs(&self) -> Option<&Vfs> {
        self.session().map(Session::vfs)
    }

    /// What the policy of the account says about resuming TLS on data connections.
    pub(crate) fn tls_reuse(&self) -> Option<TlsReuse> {
        self.session().and_then(|session| session.principal().policy.tls_reuse)
    }

    /// The site whose rules count: before a login that of the listener.
    pub(crate) fn site_of_rules(&self) -> SiteId {
        self.session().map_or(self.shared.site, |session| session.principal().site)
    }

    /// The author of commands, for rules.
    pub(crate) fn author(&self) -> CommandAuthor {
        let anonymous = || CommandAuthor::anonymous(self.shared.site);
        self.session().map_or_else(anonymous, Session::author)
    }

    pub(crate) fn peer(&self, connection: &ControlConnection) -> Peer {
        let tls = connection.stream.tls_info();
        Peer {
            site: self.site,
            home: self.shared.site,
            protocol: Protocol::Ftp,
            encrypted: tls.is_some(),
            listener: self.shared.listener.clone(),
            address: connection.stream.peer(),
            client: connection.machine.client().unwrap_or_default().to_owned(),
            algorithms: tls
                .map(|info| format!("{} {}", info.version, info.suite))
                .unwrap_or_default(),
        }
    }

    /// A new user name begins with nothing proved.
    fn begin_attempt(&mut self, connection: &ControlConnection) -> Attempt {
        let peer = self.peer(connection);
        match self.attempt.take() {
            Some(mut attempt) => {
                attempt.begin_again(peer);
                attempt
            }
            None => self.shared.gate.attempt(peer),
        }
    }

    /// USER: the site is chosen; a certificate of the account may be enough (RFC 4217 §10.2).
    pub(crate) async fn user(
        &mut self,
        connection: &mut ControlConnection,
        user: &str,
    ) -> Result<Answer, Over> {
        if !self.certificates_are_asked_as_before(connection) {
            connection.machine.close(ASKS_OTHERWISE);
            return Ok(Answer::Denied);
        }
        if let Err(refused) = self.choose_site(connection).await {
            return Ok(Answer::Refused(refused));
        }
        let mut attempt = self.begin_attempt(connection);
        self.code_is_next = false;
        connection.meter.advance(Stage::Authenticating);
        let Some(shown) = certificate(connection) else {
            self.attempt = Some(attempt);
            return Ok(Answer::NeedPassword);
        };
        let user = user.to_owned();
        let checking = async move {
            let verdict = attempt.tls_certificate(&user, &shown).await;
            (attempt, verdict)
        };
        let (attempt, verdict) = self.checked(connection, checking).await?;
        match verdict {
            Verdict::Granted(grant) => return Ok(self.log_in(connection, grant).await),
            Verdict::Partial { next } => self.code_is_next = next == [AuthMethod::Totp],
            Verdict::Busy | Verdict::Refused { .. } => {}
        }
        self.attempt = Some(attempt);
        // The same whether its certificate is right or not.
        Ok(Answer::NeedPassword)
    }

    /// False if the listener asks for other certificates now than when the connection came: what
    /// was shown then counts no longer.
    fn certificates_are_asked_as_before(&self, connection: &ControlConnection) -> bool {
        let began = connection.tls.as_ref().map_or(&ClientCertificates::Off, TlsSession::clients);
        began == self.shared.config.borrow().clients()
    }

    /// Chooses the site whose accounts log in now: that of HOST; else that of the server name, if
    /// any is reached by it; else the listener's own. The client and the log are informed of a
    /// site that is not the listener's own.
    async fn choose_site(&mut self, connection: &mut ControlConnection) -> Result<(), Refusal> {
        let own = self.shared.site;
        let wanted = host::site_of_login(&self.shared, connection).await?;
        let chosen = wanted.filter(|chosen| chosen.site.id != own);
        let before = std::mem::replace(&mut self.site, own);
        connection.machine.settings_mut().login_host = None;
        if let Some(ChosenSite { site, host }) = chosen {
            if before != site.id {
                let (peer, listener) = (connection.stream.peer(), &self.shared.listener);
                let site = &site.name;
                tracing::info!(%peer, %listener, host, %site, "the host name chose the site");
            }
            self.site = site.id;
            connection.machine.settings_mut().login_host = Some(host);
        }
        Ok(())
    }

    /// PASS; behind a certificate it may be a code.
    pub(crate) async fn password(
        &mut self,
        connection: &mut ControlConnection,
        user: &str,
        sent: &Sent,
    ) -> Result<Answer, Over> {
        let attempt = self.attempt.take();
        let mut attempt =
            attempt.unwrap_or_else(|| self.shared.gate.attempt(self.peer(connection)));
        let (user, password) = (user.to_owned(), Secret::new(sent.expose()));
        let is_code = self.code_is_next;
        let checking = async move {
            let verdict = if is_code {
                attempt.code(&user, &password).await
            } else {
                attempt.password(&user, &password).await
            };
            (attempt, verdict)
        };
        self.judge(connection, checking).await
    }

    /// ACCT before the login: the code that PASS was answered 332 for.
    pub(crate) async fn account(
        &mut self,
        connection: &mut ControlConnection,
        sent: &Sent,
    ) -> Result<Answer, Over> {
        let Some(mut attempt) = self.attempt.take() else { return Ok(Answer::Denied) };
        let code = Secret::new(sent.expose().trim());
        let checking = async move {
            let user = attempt.proving().unwrap_or_default().to_owned();
            let verdict = attempt.code(&user, &code).await;
            (attempt, verdict)
        };
        self.judge(connection, checking).await
    }

    /// Waits for the Gate. Meanwhile the connection gives way to no newcomer, and its time to log
    /// in does not run: how long a password waits to be compared is not the client's doing.
    async fn checked<T>(
        &mut self,
        connection: &mut ControlConnection,
        checking: impl Future<Output = T>,
    ) -> Result<T, Over> {
        let _checking: Option<Checking> =
            self.unauthenticated.as_ref().and_then(UnauthenticatedConnection::checking);
        connection.patiently(checking).await
    }

    /// What follows from a secret that the client has sent.
    async fn judge(
        &mut self,
        connection: &mut ControlConnection,
        checking: impl Future<Output = (Attempt, Verdict)>,
    ) -> Result<Answer, Over> {
        let (attempt, verdict) = self.checked(connection, checking).await?;
        match verdict {
            Verdict::Granted(grant) => Ok(self.log_in(connection, grant).await),
            Verdict::Busy => {
                connection.machine.close("Too many log in at this moment: try again later.");
                Ok(Answer::Denied)
            }
            Verdict::Partial { next } => {
                self.attempt = Some(attempt);
                Ok(if next.contains(&AuthMethod::Totp) {
                    Answer::NeedAccount
                } else {
                    Answer::Refused(Refusal::told(530, MORE_THAN_PASSWORD))
                })
            }
            Verdict::Refused { end, .. } => {
                self.attempt = Some(attempt);
                if end {
                    connection.answer(Answer::Denied);
                    connection.machine.close("Too many wrong logins: the session is closed.");
                }
                Ok(Answer::Denied)
            }
        }
    }

    async fn log_in(&mut self, connection: &mut ControlConnection, grant: Grant) -> Answer {
        let session = match Session::open(&self.shared.vfs, grant).await {
            Ok(session) => session,
            Err(error) => {
                return Answer::Refused(Refusal::told(530, sentence(&error.to_string())));
            }
        };
        let mut watch = JoinSet::new();
        let (ended, meter) = (session.ended(), Arc::clone(&connection.meter));
        watch.spawn(async move {
            meter.end(EndClass::Decision, ended.await);
        });
        connection.meter.bind(session.throttles());
        connection.meter.advance(Stage::LoggedIn);
        if let Some(unauthenticated) = self.unauthenticated.take() {
            unauthenticated.logged_in();
        }
        let mut login = Login::at_root();
        session.vfs().home().as_str().clone_into(&mut login.directory);
        login.may_write = may_write(&session);
        // Node-wide orders are for accounts of the site whose listener offers them.
        let is_own = session.principal().site == self.shared.site;
        login.administrator = is_own && session.is_administrator();
        login.protect_data = !session.principal().may_use(LoginProtocol::Ftp);
        if let Some(tls) = &connection.tls {
            tls.belongs_to(Some(session.principal().id));
            connection.owe_ticket();
        }
        let span = span_of(&session, connection);
        span.in_scope(|| tracing::debug!(tls = connection.tls.is_some(), "logged in"));
        self.open = Some(OpenSession { session, watch, generation: u64::MAX, span });
        self.follow_policy(connection);
        Answer::LoggedIn(login)
    }

    /// Takes over the limits of time when the policy was changed; rates change by themselves.
    pub(crate) fn follow_policy(&mut self, connection: &mut ControlConnection) {
        let Some(open) = &mut self.open else { return };
        let generation = open.session.generation();
        if generation == open.generation {
            return;
        }
        open.generation = generation;
        let policy = &open.session.principal().policy;
        connection.machine.settings_mut().idle_limit =
            Duration::from_secs(u64::from(policy.idle_seconds));
        connection.meter.set_least_rate(policy.least_bytes_per_second);
    }

    /// SITE LIMIT, whose rates are of all sessions of the node; 0: no limit.
    pub(crate) fn limit_node(&self, write: Option<u64>, read: Option<u64>) -> Answer {
        let rate = |rate: Option<u64>| rate.filter(|rate| *rate > 0);
        let rates = PerDirection { upload: rate(write), download: rate(read) };
        let ordered = write.or(read).is_some().then_some(rates);
        self.order(|session| session.limit_node(ordered).map(drop))
    }

    /// SITE SHUTDOWN, confirmed.
    pub(crate) fn drain_node(&self) -> Answer {
        self.order(Session::drain_node)
    }

    fn order(&self, order: impl FnOnce(&Session) -> Result<(), VfsError>) -> Answer {
        match self.session().map(order) {
            None => Answer::Refused(Refusal::new(Why::Denied)),
            Some(Ok(())) => Answer::Done,
            Some(Err(error)) => Answer::Refused(refusal(&error)),
        }
    }

    /// Closes the session of the account, if one is logged in.
    pub(crate) async fn log_out(&mut self, connection: &ControlConnection, reason: &str) {
        if let Some(OpenSession { session, mut watch, .. }) = self.open.take() {
            if let Some(tls) = &connection.tls {
                tls.belongs_to(None);
            }
            watch.shutdown().await;
            let meter = &connection.meter;
            session.close(reason, meter.bytes_in(), meter.bytes_out()).await;
        }
    }
}

fn span_of(session: &Session, connection: &ControlConnection) -> Span {
    let (id, principal) = (session.id(), session.principal());
    let (account, peer) = (&principal.account.name, connection.stream.peer());
    tracing::info_span!("session", %id, %account, protocol = Protocol::Ftp.as_str(), %peer)
}

fn certificate(connection: &ControlConnection) -> Option<ClientCertificate> {
    connection.tls.as_ref()?.client(connection.stream.tls_info()?)
}

/// False: nothing can be changed anywhere.
fn may_write(session: &Session) -> bool {
    const CHANGES: [Right; 5] =
        [Right::Write, Right::Overwrite, Right::Delete, Right::Rename, Right::Directories];
    let principal = session.principal();
    principal.mounts.iter().any(|mount| CHANGES.iter().any(|right| mount.rights.has(*right)))
}
