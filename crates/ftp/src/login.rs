//! Who it is: passwords through the Gate, and what a login brings with it.

use std::sync::Arc;
use std::time::Duration;

use entrepot_auth::{Attempt, Grant, Peer, Verdict};
use entrepot_ftp_proto::{Answer, Login, Refusal, Secret as Sent, Why};
use entrepot_model::{AuthMethod, PerDirection, Protocol, Right, Secret};
use entrepot_net::guard::{Checking, Stranger};
use entrepot_net::meter::{EndClass, Stage};
use entrepot_net::tls::{ClientCertificate, ClientCertificates, TlsSession};
use entrepot_vfs::{Session, VfsError};
use tokio::task::JoinSet;

use crate::session::{Conversation, Over};
use crate::status::{refusal, sentence};

/// After login.
pub(crate) struct Live {
    pub(crate) session: Session,
    /// Waits for the end of the session.
    watch: JoinSet<()>,
    /// Of the policy that limits were taken from.
    generation: u64,
}

/// Said to accounts whose login has steps that FTP cannot ask for.
const MORE_THAN_PASSWORD: &str =
    "This account logs in with more than FTP can ask for: show its certificate, or use SFTP.";

/// Said to clients that came before a change.
const ASKS_OTHERWISE: &str = "The server asks for other certificates now: connect again.";

impl Conversation {
    pub(crate) fn peer(&self) -> Peer {
        let context = &self.house.context;
        let tls = self.control.tls_info();
        Peer {
            site: self.site,
            home: context.site,
            protocol: Protocol::Ftp,
            listener: context.listener.clone(),
            address: self.control.peer(),
            client: self.machine.client().unwrap_or_default().to_owned(),
            algorithms: tls
                .map(|info| format!("{} {}", info.version, info.suite))
                .unwrap_or_default(),
        }
    }

    /// Tries of this connection; a new name begins with nothing proved.
    fn begin_attempt(&mut self) -> Attempt {
        let peer = self.peer();
        match self.attempt.take() {
            Some(mut attempt) => {
                attempt.begin_again(peer);
                attempt
            }
            None => self.house.context.gate.attempt(peer),
        }
    }

    /// USER: the site is chosen; a certificate of the account may be enough (RFC 4217 §10.2).
    pub(crate) async fn user(&mut self, user: &str) -> Result<Answer, Over> {
        if !self.asks_as_it_began() {
            self.machine.close(ASKS_OTHERWISE);
            return Ok(Answer::Denied);
        }
        if let Err(refused) = self.choose_site().await {
            return Ok(Answer::Refused(refused));
        }
        let mut attempt = self.begin_attempt();
        self.code_is_next = false;
        self.meter.advance(Stage::Authenticating);
        let Some(shown) = self.certificate() else {
            self.attempt = Some(attempt);
            return Ok(Answer::NeedPassword);
        };
        let user = user.to_owned();
        let hearing = async move {
            let verdict = attempt.tls_certificate(&user, &shown).await;
            (attempt, verdict)
        };
        let (attempt, verdict) = self.checked(hearing).await?;
        match verdict {
            Verdict::Granted(grant) => return Ok(self.log_in(grant).await),
            Verdict::Partial { next } => self.code_is_next = next == [AuthMethod::Totp],
            Verdict::Busy | Verdict::Refused { .. } => {}
        }
        self.attempt = Some(attempt);
        // The same whether its certificate is right or not.
        Ok(Answer::NeedPassword)
    }

    /// False if the listener asks for other certificates now than when the connection came: what
    /// was shown then counts no longer.
    fn asks_as_it_began(&self) -> bool {
        let began = self.tls.as_ref().map_or(&ClientCertificates::Off, TlsSession::clients);
        began == self.house.config.borrow().clients()
    }

    fn certificate(&self) -> Option<ClientCertificate> {
        self.tls.as_ref()?.client(self.control.tls_info()?)
    }

    /// PASS; behind a certificate it may be a code.
    pub(crate) async fn password(&mut self, user: &str, sent: &Sent) -> Result<Answer, Over> {
        let attempt = self.attempt.take();
        let mut attempt = attempt.unwrap_or_else(|| self.house.context.gate.attempt(self.peer()));
        let (user, password) = (user.to_owned(), Secret::new(sent.expose()));
        let is_code = self.code_is_next;
        let hearing = async move {
            let verdict = match is_code {
                true => attempt.code(&user, &password).await,
                false => attempt.password(&user, &password).await,
            };
            (attempt, verdict)
        };
        self.judge(hearing).await
    }

    /// ACCT before the login: the code that PASS was answered 332 for.
    pub(crate) async fn account(&mut self, sent: &Sent) -> Result<Answer, Over> {
        let Some(mut attempt) = self.attempt.take() else { return Ok(Answer::Denied) };
        let code = Secret::new(sent.expose().trim());
        let hearing = async move {
            let user = attempt.proving().unwrap_or_default().to_owned();
            let verdict = attempt.code(&user, &code).await;
            (attempt, verdict)
        };
        self.judge(hearing).await
    }

    /// Waits for the Gate. Meanwhile the connection gives way to no newcomer, and its time to log
    /// in does not run: how long a password waits to be compared is not the client's doing.
    async fn checked<T>(&mut self, hearing: impl Future<Output = T>) -> Result<T, Over> {
        let _checking: Option<Checking> = self.stranger.as_ref().and_then(Stranger::checking);
        self.patiently(hearing).await
    }

    /// What follows from a secret that was heard.
    async fn judge(
        &mut self,
        hearing: impl Future<Output = (Attempt, Verdict)>,
    ) -> Result<Answer, Over> {
        let (attempt, verdict) = self.checked(hearing).await?;
        match verdict {
            Verdict::Granted(grant) => Ok(self.log_in(grant).await),
            Verdict::Busy => {
                self.machine.close("Too many log in at this moment: try again later.");
                Ok(Answer::Denied)
            }
            Verdict::Partial { next } => {
                self.attempt = Some(attempt);
                Ok(match next.contains(&AuthMethod::Totp) {
                    true => Answer::NeedAccount,
                    false => Answer::Refused(Refusal::told(530, MORE_THAN_PASSWORD)),
                })
            }
            Verdict::Refused { end, .. } => {
                self.attempt = Some(attempt);
                if end {
                    self.answer(Answer::Denied);
                    self.machine.close("Too many wrong logins: the session is closed.");
                }
                Ok(Answer::Denied)
            }
        }
    }

    async fn log_in(&mut self, grant: Grant) -> Answer {
        let session = match Session::open(&self.house.context.vfs, grant).await {
            Ok(session) => session,
            Err(error) => {
                return Answer::Refused(Refusal::told(530, sentence(&error.to_string())));
            }
        };
        let mut watch = JoinSet::new();
        let (ended, meter) = (session.ended(), Arc::clone(&self.meter));
        watch.spawn(async move {
            meter.end(EndClass::Decision, ended.await);
        });
        self.meter.bind(session.throttles());
        self.meter.advance(Stage::LoggedIn);
        if let Some(stranger) = self.stranger.take() {
            stranger.logged_in();
        }
        let mut login = Login::at_root();
        self.directory = session.vfs().home();
        self.directory.as_str().clone_into(&mut login.directory);
        login.may_write = may_write(&session);
        // Who steers the node is of the site that said by its listener that one may.
        let is_own = session.principal().site == self.house.context.site;
        login.administrator = is_own && session.is_administrator();
        self.commands.look_again();
        if let Some(tls) = &self.tls {
            tls.belongs_to(Some(session.principal().id));
            self.ticket_is_due = true;
        }
        self.live = Some(Live { session, watch, generation: u64::MAX });
        self.follow_policy();
        Answer::LoggedIn(login)
    }

    /// Takes over the limits of time when the policy was changed; rates change by themselves.
    pub(crate) fn follow_policy(&mut self) {
        let Some(live) = &mut self.live else { return };
        let generation = live.session.generation();
        if generation == live.generation {
            return;
        }
        live.generation = generation;
        let policy = &live.session.principal().policy;
        self.machine.settings_mut().idle_limit =
            Duration::from_secs(u64::from(policy.idle_seconds));
        self.meter.set_least_rate(policy.least_bytes_per_second);
    }

    /// SITE LIMIT, whose rates are of all sessions of the node; 0: no limit.
    pub(crate) fn limit_node(&self, write: Option<u64>, read: Option<u64>) -> Answer {
        let rate = |rate: Option<u64>| rate.filter(|rate| *rate > 0);
        let rates = PerDirection { upload: rate(write), download: rate(read) };
        let ordered = write.or(read).is_some().then_some(rates);
        self.steer(|session| session.limit_node(ordered).map(drop))
    }

    /// SITE SHUTDOWN, confirmed.
    pub(crate) fn drain_node(&self) -> Answer {
        self.steer(Session::drain_node)
    }

    fn steer(&self, order: impl FnOnce(&Session) -> Result<(), VfsError>) -> Answer {
        match &self.live {
            None => Answer::Refused(Refusal::new(Why::Denied)),
            Some(live) => match order(&live.session) {
                Ok(()) => Answer::Done,
                Err(error) => Answer::Refused(refusal(&error)),
            },
        }
    }

    /// Nobody is logged in any more.
    pub(crate) async fn log_out(&mut self, reason: &str) -> Result<(), Over> {
        self.room = None;
        self.told = None;
        self.commands.look_again();
        if let Some(Live { session, mut watch, .. }) = self.live.take() {
            if let Some(tls) = &self.tls {
                tls.belongs_to(None);
            }
            watch.shutdown().await;
            session.close(reason, self.meter.bytes_in(), self.meter.bytes_out()).await;
        }
        Ok(())
    }
}

/// False: nothing can be changed anywhere.
fn may_write(session: &Session) -> bool {
    const CHANGES: [Right; 5] =
        [Right::Write, Right::Overwrite, Right::Delete, Right::Rename, Right::Directories];
    let principal = session.principal();
    principal.mounts.iter().any(|mount| CHANGES.iter().any(|right| mount.rights.has(*right)))
}
