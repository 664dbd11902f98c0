//! One SSH connection as an SFTP session: login through the Gate, then channels.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use entrepot_auth::{Attempt, Grant, Peer, Verdict as Judged};
use entrepot_net::meter::{EndClass, SessionMeter};
use entrepot_nouns::{AuthMethod, Protocol, Secret};
use entrepot_sftp_proto::ClientSoftware;
use entrepot_ssh::server::{Link, Program, Replies, Service, Started, Summary, Verdict};
use entrepot_ssh::{Certificate, ChannelId, PublicKey};
use entrepot_vfs::{ListenerContext, Session};
use tokio::task::JoinSet;
use tracing::{Instrument as _, Span};

use crate::attributes::Ownership;
use crate::channel::Channel;
use crate::connection::ConnectionShared;
use crate::exec::{self, Command};
use crate::limits::ENDING_TIME;
use crate::queue::Goes;

/// The answer to a shell and to commands that are not offered.
const OFFERED: &str = "Entrepot offers SFTP and SCP only";

/// One SSH connection, before and after its login.
pub(crate) struct SftpService {
    context: Arc<ListenerContext>,
    address: std::net::SocketAddr,
    meter: Arc<SessionMeter>,
    /// Begun with the first attempt, when the client has said what it is.
    attempt: Option<Attempt>,
    grant: Option<Grant>,
    live: Option<LoggedIn>,
}

/// What a connection has besides once it has logged in.
struct LoggedIn {
    account: Arc<ConnectionShared>,
    link: Link,
    channels: Vec<Channel>,
    /// Channels' own tasks, and those that send what they answer.
    tasks: JoinSet<()>,
    /// Waits for the end of the session.
    watch: JoinSet<()>,
    /// Of the policy that limits were taken from.
    generation: u64,
    /// Names the session in the log.
    span: Span,
    /// Kinds of forwarding that it was refused and that are recorded.
    refused_forwardings: Vec<&'static str>,
}

impl SftpService {
    pub(crate) fn new(
        context: Arc<ListenerContext>,
        address: std::net::SocketAddr,
        meter: Arc<SessionMeter>,
    ) -> Self {
        SftpService { context, address, meter, attempt: None, grant: None, live: None }
    }

    fn attempt(&mut self) -> &mut Attempt {
        let attempt = self.attempt.take();
        let attempt = attempt.unwrap_or_else(|| self.context.gate.attempt(self.peer()));
        self.attempt.insert(attempt)
    }

    fn peer(&self) -> Peer {
        let (context, meter) = (&self.context, &self.meter);
        Peer {
            site: context.site,
            home: context.site,
            protocol: Protocol::Sftp,
            encrypted: true,
            listener: context.listener.clone(),
            address: self.address,
            client: meter.client().to_owned(),
            algorithms: meter.algorithms().to_owned(),
        }
    }

    fn judge(&mut self, judged: Judged) -> Verdict {
        match judged {
            Judged::Granted(grant) => {
                self.grant = Some(grant);
                Verdict::Granted
            }
            Judged::Partial { next } => Verdict::Partial { next },
            Judged::Refused { next, end } => Verdict::Refused { next, end },
            Judged::Busy => {
                let reason = "too many log in at this moment, try again later";
                self.meter.end(EndClass::TooMany, reason);
                Verdict::Refused { next: Vec::new(), end: true }
            }
        }
    }

    fn channel(&mut self, id: ChannelId) -> Option<(usize, &mut LoggedIn)> {
        let live = self.live.as_mut()?;
        let place = live.channels.iter().position(|channel| channel.id() == id)?;
        Some((place, live))
    }
}

impl LoggedIn {
    /// Takes over the limits of time when the policy was changed; rates change by themselves.
    fn follow_policy(&mut self) {
        let session = &self.account.session;
        let generation = session.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        let policy = &session.principal().policy;
        let idle = Duration::from_secs(u64::from(policy.idle_seconds));
        self.account.meter.set_idle_limit(idle);
        self.account.meter.set_least_rate(policy.least_bytes_per_second);
    }

    fn drop_channel(&mut self, place: usize) {
        self.channels.swap_remove(place);
    }
}

impl Service for SftpService {
    fn methods(&mut self) -> Vec<AuthMethod> {
        self.attempt().methods()
    }

    async fn greeted(&mut self) -> Result<(), String> {
        let unwelcome = self.context.gate.why_unwelcome(&self.peer()).await;
        unwelcome.map_or(Ok(()), Err)
    }

    async fn offered(&mut self, user: &str, key: &PublicKey) -> bool {
        match key.to_openssh() {
            Ok(line) => self.attempt().offered(user, &line).await,
            Err(_) => false,
        }
    }

    async fn public_key(&mut self, user: &str, key: &PublicKey, algorithm: &str) -> Verdict {
        match key.to_openssh() {
            Ok(line) => {
                let judged = self.attempt().public_key(user, &line, algorithm).await;
                self.judge(judged)
            }
            Err(_) => Verdict::Refused { next: self.methods(), end: false },
        }
    }

    async fn certificate(&mut self, user: &str, certificate: &Certificate) -> Verdict {
        let judged = self.attempt().ssh_certificate(user, certificate).await;
        self.judge(judged)
    }

    async fn asked(&mut self, user: &str) -> Vec<AuthMethod> {
        self.attempt().asked(user).await
    }

    async fn answers(&mut self, user: &str, given: &[(AuthMethod, Secret)]) -> Verdict {
        let judged = self.attempt().answers(user, given).await;
        self.judge(judged)
    }

    async fn password(&mut self, user: &str, password: &Secret) -> Verdict {
        let judged = self.attempt().password(user, password).await;
        self.judge(judged)
    }

    async fn logged_in(&mut self, link: Link) -> Result<(), String> {
        self.attempt = None;
        let Some(grant) = self.grant.take() else {
            return Err("this session has no account".to_owned());
        };
        let principal = Arc::clone(grant.principal());
        let session = Session::open(&self.context.vfs, grant).await;
        let session = session.map_err(|error| error.to_string())?;
        let (id, account) = (session.id(), &principal.account.name);
        let (protocol, peer) = (Protocol::Sftp.as_str(), self.address);
        let span = tracing::info_span!("session", %id, %account, protocol, %peer);
        span.in_scope(|| tracing::debug!(client = self.meter.client(), "logged in"));
        let group = principal.lineage.get(1).map(|name| name.as_str());
        let account = ConnectionShared {
            owner: Ownership::new(principal.account.name.as_str(), group, principal.id),
            meter: Arc::clone(&self.meter),
            env: self.context.env.clone(),
            is_openssh: self.meter.client().contains("OpenSSH_"),
            software: ClientSoftware::of(self.meter.client()),
            open: Arc::default(),
            hashing: tokio::sync::Mutex::default(),
            session,
        };
        let mut watch = JoinSet::new();
        let (ended, meter) = (account.session.ended(), Arc::clone(&self.meter));
        watch.spawn(async move {
            meter.end(EndClass::Decision, ended.await);
        });
        self.meter.bind(account.session.throttles());
        let mut live = LoggedIn {
            account: Arc::new(account),
            link,
            channels: Vec::new(),
            tasks: JoinSet::new(),
            watch,
            generation: u64::MAX,
            span,
            refused_forwardings: Vec::new(),
        };
        live.follow_policy();
        self.live = Some(live);
        Ok(())
    }

    async fn start(&mut self, channel: ChannelId, program: Program<'_>) -> Started {
        let Some(live) = &mut self.live else { return Started::Failed };
        let command = match program {
            Program::Subsystem("sftp") => Some(Command::Sftp),
            Program::Subsystem(_) => return Started::Failed,
            Program::Exec(line) => exec::parse(line),
            Program::Shell => None,
        };
        let Some(command) = command else { return Started::Declined(OFFERED) };
        let _named = live.span.clone().entered();
        // Those that ended by themselves are forgotten when another comes.
        live.channels.retain(|channel| !channel.is_over());
        while live.tasks.try_join_next().is_some() {}
        let (account, link) = (Arc::clone(&live.account), live.link.clone());
        live.channels.push(match command {
            Command::Sftp => Channel::sftp(channel, link, account),
            command => Channel::exec(channel, link, account, command, &mut live.tasks),
        });
        Started::Running
    }

    async fn data(&mut self, data: &[u8], out: &mut Replies<'_>) {
        if let Some((place, live)) = self.channel(out.channel()) {
            live.follow_policy();
            let Some(channel) = live.channels.get_mut(place) else { return };
            let goes = {
                // Pinned first: `instrument` moves what it is given, and this is large.
                let taken = pin!(channel.data(data, out, &mut live.tasks));
                taken.instrument(live.span.clone()).await
            };
            if goes == Goes::Over {
                live.drop_channel(place);
            }
        }
    }

    async fn writable(&mut self, out: &mut Replies<'_>) {
        if let Some((place, live)) = self.channel(out.channel())
            && let Some(channel) = live.channels.get_mut(place)
        {
            let written = pin!(channel.writable(out));
            written.instrument(live.span.clone()).await;
        }
    }

    async fn eof(&mut self, out: &mut Replies<'_>) {
        match self.channel(out.channel()) {
            Some((place, live)) => {
                let Some(channel) = live.channels.get_mut(place) else { return };
                if channel.eof(out).instrument(live.span.clone()).await == Goes::Over {
                    live.drop_channel(place);
                }
            }
            None => out.finish(0),
        }
    }

    async fn closed(&mut self, channel: ChannelId) {
        if let Some((place, live)) = self.channel(channel) {
            let ending = live.channels.swap_remove(place).end("the client closed the channel");
            ending.instrument(live.span.clone()).await;
        }
    }

    fn forwarding_refused(&mut self, what: &'static str) {
        let Some(live) = &mut self.live else { return };
        live.span.in_scope(|| tracing::debug!(what, "a forwarding was refused"));
        // One that asks again and again must not fill the journal.
        if !live.refused_forwardings.contains(&what) {
            live.refused_forwardings.push(what);
            live.account.session.record_refused_forwarding(what);
        }
    }

    async fn ended(self, summary: &Summary) {
        let Some(live) = self.live else { return };
        let span = live.span.clone();
        live.end(summary).instrument(span).await;
    }
}

impl LoggedIn {
    async fn end(self, summary: &Summary) {
        let LoggedIn { account, link, channels, mut tasks, mut watch, .. } = self;
        tracing::debug!(reason = summary.reason, "the session ends");
        watch.shutdown().await;
        for channel in channels {
            channel.end(&summary.reason).await;
        }
        drop(link);
        let joined = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(ENDING_TIME, joined).await.is_err() {
            tracing::warn!(peer = %summary.peer, "a store keeps a session that has ended waiting");
            tasks.shutdown().await;
        }
        match Arc::try_unwrap(account) {
            Ok(account) => {
                let session = account.session;
                session.close(&summary.reason, summary.bytes_in, summary.bytes_out).await;
            }
            Err(_) => tracing::error!(peer = %summary.peer, "a session is still in use at its end"),
        }
    }
}
