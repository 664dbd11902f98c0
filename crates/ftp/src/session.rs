//! One control connection: what its machine asks for is done here, in order, and one transfer
//! beside it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use entrepot_ftp_proto::{Answer, Channel, Data, End, Refusal, Request, Why};
use entrepot_net::control::ControlGuest;
use entrepot_net::data::{DataTls, SeatOptions};
use entrepot_net::meter::Stage;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Sleep, sleep, timeout};
use tracing::Instrument as _;

use crate::config::FtpConfig;
use crate::control::{ControlConnection, Over};
use crate::files::FileCommands;
use crate::hooks::Commands;
use crate::host;
use crate::limits::{CONTROL_BYTES, ENDING_TIME, TELLING_TIME};
use crate::login::LoginState;
use crate::shared::ListenerShared;
use crate::status::sentence;
use crate::transfer::{
    DataLine, DataMode, Outcome, TransferEvent, TransferJob, TransferResult, TransferUse,
    Transfers, UploadTerms, Wholeness,
};

/// One control connection, with all that its client has set up on it.
struct Conversation {
    shared: Arc<ListenerShared>,
    config: FtpConfig,
    connection: ControlConnection,
    login: LoginState,
    files: FileCommands,
    transfers: Transfers,
    /// The commands that rules look at.
    commands: Commands,
    timer: MachineTimer,
    /// When what could be done was done, on the clock of the machine.
    waits_since: Duration,
    /// So long the client took for what it sent last.
    pace: Duration,
}

/// What a session was waiting for and has come.
enum Next {
    Received(usize),
    InputEnded,
    Broken(String),
    Transfer(TransferEvent),
    TimeoutDue,
    Ending(String),
}

/// Carries a connection from its first byte to its end.
pub(crate) async fn serve(shared: Arc<ListenerShared>, guest: ControlGuest) {
    let mut conversation = Conversation::new(shared, guest);
    let over = match conversation.greet().await {
        Ok(()) => conversation.converse().await,
        Err(over) => over,
    };
    let span = conversation.login.span();
    conversation.end(over).instrument(span).await;
}

impl Conversation {
    fn new(shared: Arc<ListenerShared>, guest: ControlGuest) -> Conversation {
        let ControlGuest { control, unauthenticated, tls } = guest;
        let config = shared.config.borrow().clone();
        let settings = config.settings(control.peer(), control.local());
        let connection = ControlConnection::new(control, tls, settings, shared.env.clone());
        Conversation {
            timer: MachineTimer::new(&connection),
            waits_since: connection.now(),
            pace: Duration::MAX,
            config,
            connection,
            login: LoginState::new(Arc::clone(&shared), unauthenticated),
            files: FileCommands::new(shared.view.clone()),
            transfers: Transfers::default(),
            commands: Commands::new(
                shared.vfs.hooks().clone(),
                shared.site,
                shared.listener.clone(),
            ),
            shared,
        }
    }

    /// An address or client that the listener's policy turns away gets a 421 and nothing else.
    async fn greet(&mut self) -> Result<(), Over> {
        let gate = &self.shared.gate;
        if let Some(why) = gate.why_unwelcome(&self.login.peer(&self.connection)).await {
            self.connection.turn_away(&sentence(&why)).await;
            return Err(Over::Gone(why));
        }
        // Without an answer HOST is not offered, for nothing could be chosen.
        let hosts = gate.knows_hosts(self.shared.site).await;
        self.connection.machine.settings_mut().host = hosts.unwrap_or(false);
        Ok(())
    }

    async fn converse(&mut self) -> Over {
        let mut buffer = [0; CONTROL_BYTES];
        loop {
            let span = self.login.span();
            let next = {
                // Pinned first: `instrument` moves what it is given, and a step is large.
                let step = pin!(self.step(&mut buffer));
                step.instrument(span.clone()).await
            };
            let next = match next {
                Ok(next) => next,
                Err(over) => return over,
            };
            if let Err(over) = span.in_scope(|| self.take(next, &buffer)) {
                return over;
            }
        }
    }

    fn take(&mut self, next: Next, buffer: &[u8]) -> Result<(), Over> {
        let now = self.connection.now();
        match next {
            Next::Received(count) => {
                self.connection.meter.advance(Stage::Identified);
                let bytes = buffer.get(..count).unwrap_or_default();
                self.pace = now.saturating_sub(self.waits_since);
                self.connection.machine.receive(bytes, now);
                self.login.follow_policy(&mut self.connection);
                self.follow_hooks();
            }
            Next::InputEnded => self.connection.input_ended()?,
            Next::Broken(reason) => return Err(Over::Gone(reason)),
            Next::Transfer(TransferEvent::Result(result)) => {
                self.follow_hooks();
                self.settle(*result);
            }
            Next::Transfer(TransferEvent::LookDue) if self.connection.is_client_there() => {
                self.transfers.approve();
            }
            Next::Transfer(TransferEvent::LookDue) => self.transfers.look_again(),
            Next::Transfer(TransferEvent::ApprovalDue) => {
                self.connection.check_client()?;
                self.transfers.approve();
            }
            Next::TimeoutDue => self.connection.machine.handle_timeout(now),
            Next::Ending(reason) => return Err(Over::Ended(reason)),
        }
        Ok(())
    }

    fn follow_hooks(&mut self) {
        self.commands.follow(&mut self.connection, self.login.site_of_rules());
    }

    /// Does what is asked for, then waits for something to happen.
    async fn step(&mut self, buffer: &mut [u8]) -> Result<Next, Over> {
        // Before each line that came with others too: rules may have changed meanwhile.
        self.follow_hooks();
        while let Some(request) = self.connection.machine.poll_request() {
            self.carry_out(request).await?;
            self.follow_hooks();
        }
        self.connection.flush().await?;
        self.waits_since = self.connection.now();
        loop {
            self.timer.set(&self.connection);
            let reads = self.connection.wants_input();
            let ControlConnection { stream, meter, .. } = &mut self.connection;
            tokio::select! {
                biased;
                read = stream.read(buffer), if reads => return Ok(match read {
                    Ok(0) => Next::InputEnded,
                    Ok(count) => Next::Received(count),
                    Err(error) => Next::Broken(error.to_string()),
                }),
                event = self.transfers.next_event() => return Ok(Next::Transfer(event)),
                end = meter.ending() => return Ok(Next::Ending(end.reason.clone())),
                () = self.timer.rings() => {
                    let due = self.connection.machine.deadline();
                    if due.is_some_and(|due| due <= self.connection.now()) {
                        return Ok(Next::TimeoutDue);
                    }
                }
            }
        }
    }

    async fn carry_out(&mut self, request: Request) -> Result<(), Over> {
        let connection = &mut self.connection;
        let answer = match request {
            Request::After { verb, code } => return self.after(verb, code).await,
            Request::Before(command) => {
                let author = self.login.author();
                self.commands.before(connection, &author, command).await?
            }
            Request::Host(name) => host::choose(&self.shared, connection, &name).await,
            Request::User(user) => self.login.user(connection, &user).await?,
            Request::Password { user, password } => {
                self.login.password(connection, &user, &password).await?
            }
            Request::Account(secret) => self.login.account(connection, &secret).await?,
            Request::Logout => {
                self.log_out("logged out").await;
                return Ok(());
            }
            Request::StartTls => connection.start_tls().await?,
            Request::ClearControl => connection.stop_tls().await?,
            Request::Close => return Err(connection.shut_down().await),
            Request::Passive { .. } => self.listen(),
            Request::DropData => {
                self.transfers.forget_expected();
                return Ok(());
            }
            Request::Retrieve { channel, .. }
            | Request::Store { channel, .. }
            | Request::List { channel, .. } => return self.begin(request, channel).await,
            Request::Abort => {
                self.abort().await;
                return Ok(());
            }
            Request::Progress => Answer::Number(self.transfers.progress()),
            Request::Limit { write, read } => self.login.limit_node(write, read),
            Request::Shutdown => self.login.drain_node(),
            other => match self.login.vfs().cloned() {
                Some(vfs) => self.files.answer(connection, vfs, other).await?,
                None => Answer::Refused(Refusal::new(Why::Denied)),
            },
        };
        if matches!(answer, Answer::LoggedIn(_)) {
            self.logged_in();
        }
        self.connection.answer(answer);
        Ok(())
    }

    /// The rest of the session takes over what the account brings with it.
    fn logged_in(&mut self) {
        if let Some(vfs) = self.login.vfs() {
            self.files.begin(vfs.home());
        }
    }

    async fn log_out(&mut self, reason: &str) {
        self.files.end();
        self.login.log_out(&self.connection, reason).await;
    }

    /// Informs rules of a command that has its reply.
    async fn after(&mut self, verb: &str, code: u16) -> Result<(), Over> {
        let command = if self.transfers.is_running() {
            self.commands.take_command(verb)
        } else {
            self.commands.take_any(verb)
        };
        // None: the command came before the first rule did.
        let Some(command) = command else { return Ok(()) };
        let author = self.login.author();
        self.commands.after(&mut self.connection, &author, command, code).await
    }

    /// PASV and EPSV.
    fn listen(&mut self) -> Answer {
        let (local, peer) = (self.connection.stream.local(), self.connection.stream.peer().ip());
        let listening = self.transfers.listen(|| {
            self.shared.ports.seat(SeatOptions {
                local,
                peer,
                policy: self.config.data_peer().clone(),
                meter: Arc::clone(&self.connection.meter),
            })
        });
        match listening {
            Ok(mut address) => {
                if let Some(public) = self.config.passive_address(peer) {
                    address.set_ip(public);
                }
                Answer::Passive(address)
            }
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "no data port");
                Answer::Refused(Refusal::because(Why::NoData, sentence(&error.to_string())))
            }
        }
    }

    /// Begins a transfer, or refuses it.
    async fn begin(&mut self, request: Request, channel: Channel) -> Result<(), Over> {
        self.files.release_room();
        self.commands.transfer_begins();
        let running = self.connection.meter.running();
        let job = match self.prepare(request).await? {
            Ok(job) => job,
            Err(refused) => {
                self.transfers.forget_expected();
                self.connection.answer(Answer::TransferEnded(End::Refused(refused)));
                return Ok(());
            }
        };
        self.connection.answer(job.started());
        let line = self.line(channel);
        self.transfers.start(job, line, running);
        // A small file whose client has connected already is sent before the 150: then both
        // replies leave together.
        match self.transfers.event_now().await {
            Some(TransferEvent::Result(result)) => {
                self.follow_hooks();
                self.settle(*result);
                Ok(())
            }
            Some(TransferEvent::LookDue | TransferEvent::ApprovalDue) | None => {
                self.connection.flush().await
            }
        }
    }

    async fn prepare(&mut self, request: Request) -> Result<Result<TransferJob, Refusal>, Over> {
        if self.shared.stop.is_cancelled() {
            return Ok(Err(Refusal::new(Why::Closing)));
        }
        let Some(session) = self.login.session() else {
            return Ok(Err(Refusal::new(Why::Denied)));
        };
        let terms = match &request {
            Request::Store { .. } => UploadTerms {
                unfinished: self.files.take_unfinished(),
                strict_size: session.principal().policy.strict_size,
            },
            _ => UploadTerms::default(),
        };
        let (vfs, view) = (session.vfs().clone(), self.shared.view.clone());
        let preparing = async move { TransferJob::prepare(&vfs, &view, terms, request).await };
        self.connection.patiently(preparing).await
    }

    /// What the data connection of a transfer is made with.
    fn line(&mut self, channel: Channel) -> DataLine {
        let mode = match channel.data {
            Data::Passive => DataMode::Passive(self.transfers.take_seat()),
            Data::Active(target) => DataMode::Active(target),
        };
        let tls = self.connection.tls.clone().filter(|_| channel.protected);
        let reuse = self.config.reuse(self.login.tls_reuse());
        DataLine {
            mode,
            tls: tls.map(|session| DataTls { session, reuse }),
            local: self.connection.stream.local(),
            peer: self.connection.stream.peer(),
            data_peer: self.config.data_peer().clone(),
            meter: Arc::clone(&self.connection.meter),
            lingerer: self.shared.lingerer.clone(),
            compression: channel.compression,
        }
    }

    /// Goes on with what a transfer came to.
    fn settle(&mut self, result: TransferResult) {
        self.transfers.return_seat(result.seat);
        match result.outcome {
            Outcome::Received { upload, certain } => {
                let is_whole = certain || self.connection.machine.is_quitting();
                let whole =
                    if is_whole { Wholeness::Certain } else { Wholeness::presumed(self.pace) };
                self.transfers.publish(upload, whole, &self.shared.fine_timers);
            }
            Outcome::Published(uploaded) => {
                self.commands.published(&uploaded);
                self.transfer_ended(End::Complete);
            }
            Outcome::Ended(end) => self.transfer_ended(end),
        }
    }

    fn transfer_ended(&mut self, end: End) {
        if let Some(used) = self.transfers.end() {
            self.account_for(&used);
        }
        self.connection.answer(Answer::TransferEnded(end));
    }

    fn account_for(&mut self, used: &TransferUse) {
        self.commands.moved(used.bytes);
        if used.used_ticket {
            self.connection.owe_ticket();
        }
    }

    /// ABOR: what is being published is not stopped any more.
    async fn abort(&mut self) {
        if self.transfers.is_publishing() {
            return;
        }
        if let Some(stopped) = self.transfers.stop() {
            self.account_for(&stopped.used());
            stopped.finish().await;
        }
        self.connection.answer(Answer::TransferEnded(End::Aborted));
    }

    /// Ends what is left, whatever the cause.
    async fn end(mut self, over: Over) {
        let reason = match over {
            Over::Gone(reason) => reason,
            Over::Ended(reason) => {
                self.connection.machine.close(&sentence(&reason));
                self.connection.shut_down().await;
                reason
            }
        };
        let late = |_| tracing::warn!("a store keeps a session that has ended waiting");
        if let Some(stopped) = self.transfers.stop() {
            self.account_for(&stopped.used());
            // A publish goes on whatever becomes of the session; rules get its outcome.
            let is_reported = self.commands.include_transfer() && stopped.is_publishing();
            let most = if is_reported { TELLING_TIME } else { ENDING_TIME };
            if let Ok(outcome) = timeout(most, stopped.finish()).await.map_err(late) {
                let author = self.login.author();
                self.commands.after_the_end(&self.connection, &author, outcome).await;
            }
        }
        let _ = timeout(ENDING_TIME, self.log_out(&reason)).await.map_err(late);
    }
}

/// The timer of the machine's deadline. It rings then or before, and is moved only when it must.
struct MachineTimer {
    sleep: Pin<Box<Sleep>>,
    /// When it rings, on the clock of the machine.
    rings_at: Duration,
}

/// A timer that nobody needs rings now and then all the same.
const LONGEST_REST: Duration = Duration::from_secs(3600);

impl MachineTimer {
    fn new(connection: &ControlConnection) -> MachineTimer {
        let now = connection.now();
        let rest =
            connection.machine.deadline().map_or(Duration::ZERO, |due| due.saturating_sub(now));
        MachineTimer { sleep: Box::pin(sleep(rest)), rings_at: now.saturating_add(rest) }
    }

    fn set(&mut self, connection: &ControlConnection) {
        let due = connection.machine.deadline().unwrap_or(Duration::MAX);
        if due < self.rings_at || self.rings_at == Duration::MAX {
            let now = connection.now();
            let rest = due.saturating_sub(now).min(LONGEST_REST);
            self.rings_at = now.saturating_add(rest);
            self.sleep.set(sleep(rest));
        }
    }

    async fn rings(&mut self) {
        self.sleep.as_mut().await;
        self.rings_at = Duration::MAX;
    }
}
