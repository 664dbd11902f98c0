//! One control connection: what its machine asks for is done here, in order, and one transfer
//! beside it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use entrepot_auth::Attempt;
use entrepot_ftp_proto::{Answer, End, Refusal, Request, Server, Why};
use entrepot_model::{SiteId, VPath};
use entrepot_net::control::{Control, ControlGuest, PeerState};
use entrepot_net::data::{PassiveSeat, SeatOptions};
use entrepot_net::guard::Stranger;
use entrepot_net::meter::{SessionMeter, Stage};
use entrepot_net::tls::TlsSession;
use entrepot_vfs::{Room, Vfs};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Sleep, sleep, timeout};

use crate::House;
use crate::config::FtpConfig;
use crate::hooks::Commands;
use crate::limits::{
    CONTROL_BYTES, ENDING_TIME, LAST_LOOK_TIME, PATIENCE_INTERVAL, STALL_TIME, TELLING_TIME,
};
use crate::login::Live;
use crate::requests;
use crate::status::{refusal, sentence};
use crate::transfer::{Outcome, Ran, Running};

/// Why a session is over.
pub(crate) enum Over {
    /// By our decision: the client is told.
    Ended(String),
    /// The client has been told, or is not there to be told.
    Gone(String),
}

/// One control connection.
pub(crate) struct Conversation {
    pub(crate) house: Arc<House>,
    pub(crate) config: FtpConfig,
    pub(crate) control: Control,
    pub(crate) meter: Arc<SessionMeter>,
    pub(crate) machine: Server,
    pub(crate) tls: Option<TlsSession>,
    pub(crate) seat: Option<PassiveSeat>,
    pub(crate) stranger: Option<Stranger>,
    /// Begun with the first password.
    pub(crate) attempt: Option<Attempt>,
    /// The certificate was right, and a code is all that is missing.
    pub(crate) code_is_next: bool,
    pub(crate) live: Option<Live>,
    /// Whose accounts log in: chosen by HOST or the server name of TLS when USER is said.
    pub(crate) site: SiteId,
    /// Where the client is, from the login on: ALLO reserves room there.
    pub(crate) directory: VPath,
    /// The client was last told of its own cut upload of this name: it may go on with that one.
    pub(crate) told: Option<VPath>,
    /// What ALLO promised for the next transfer.
    pub(crate) room: Option<Room>,
    pub(crate) transfer: Option<Running>,
    /// An upload in clear text has no sign of its own that it is whole: the kernel closes both
    /// connections of a program that is killed, in either order. When this rings, the end of the
    /// control connection has been waited for.
    last_look: Option<Pin<Box<Sleep>>>,
    /// The client is given a ticket of TLS with the next reply outside a transfer: one that
    /// names its account behind the login, and another for each that a transfer has used.
    pub(crate) ticket_is_due: bool,
    /// For rules on commands.
    pub(crate) commands: Commands,
    /// The client sends no more.
    deaf: bool,
    timer: Pin<Box<Sleep>>,
    /// When `timer` rings, on the clock of the machine.
    rings: Duration,
}

/// What happened.
enum Next {
    Heard(usize),
    Silent,
    Broken(String),
    Ran(Box<Ran>),
    Due,
    Look,
    Ending(String),
}

/// Carries a connection from its first byte to its end.
pub(crate) async fn serve(house: Arc<House>, guest: ControlGuest) {
    let mut conversation = Conversation::new(house, guest);
    let over = match conversation.greet().await {
        Ok(()) => conversation.converse().await,
        Err(over) => over,
    };
    conversation.end(over).await;
}

impl Conversation {
    fn new(house: Arc<House>, guest: ControlGuest) -> Conversation {
        let ControlGuest { control, stranger, tls } = guest;
        let config = house.config.borrow().clone();
        let (now, site) = (house.context.env.elapsed(), house.context.site);
        let machine = Server::new(config.settings(control.peer(), control.local()), now);
        let rest = machine.deadline().map_or(Duration::ZERO, |due| due.saturating_sub(now));
        Conversation {
            meter: Arc::clone(control.meter()),
            house,
            config,
            control,
            machine,
            tls,
            seat: None,
            stranger: Some(stranger),
            attempt: None,
            code_is_next: false,
            live: None,
            site,
            directory: VPath::root(),
            told: None,
            room: None,
            transfer: None,
            last_look: None,
            ticket_is_due: false,
            commands: Commands::default(),
            deaf: false,
            timer: Box::pin(sleep(rest)),
            rings: now.saturating_add(rest),
        }
    }

    /// An address or client that the listener's policy turns away is told so before anything.
    async fn greet(&mut self) -> Result<(), Over> {
        let unwelcome = self.house.context.gate.why_unwelcome(&self.peer()).await;
        match unwelcome {
            None => {
                // Without an answer HOST is not offered, for nothing could be chosen.
                let context = &self.house.context;
                let hosts = context.gate.knows_hosts(context.site).await;
                self.machine.settings_mut().host = hosts.unwrap_or(false);
                Ok(())
            }
            Some(why) => {
                let reply = format!("421 {}\r\n", sentence(&why));
                // Whether it is heard changes nothing.
                let _ = timeout(STALL_TIME, self.control.write_all(reply.as_bytes())).await;
                Err(Over::Gone(why))
            }
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.house.context.env.elapsed()
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        let now = self.now();
        self.machine.answer(answer, now);
    }

    async fn converse(&mut self) -> Over {
        let mut buffer = [0; CONTROL_BYTES];
        loop {
            let next = match self.step(&mut buffer).await {
                Ok(next) => next,
                Err(over) => return over,
            };
            let now = self.now();
            match next {
                Next::Heard(count) => {
                    self.meter.advance(Stage::Identified);
                    self.machine.receive(buffer.get(..count).unwrap_or_default(), now);
                    self.follow_policy();
                    self.follow_hooks();
                }
                Next::Silent if self.machine.is_quitting() => self.deaf = true,
                Next::Silent => return Over::Gone("the client hung up".to_owned()),
                Next::Broken(reason) => return Over::Gone(reason),
                Next::Ran(ran) => {
                    self.follow_hooks();
                    self.ran(*ran);
                }
                Next::Due => self.machine.handle_timeout(now),
                Next::Look => {
                    if let Err(over) = self.look_at_client() {
                        return over;
                    }
                }
                Next::Ending(reason) => return Over::Ended(reason),
            }
        }
    }

    /// Does what is asked for, then waits for something to happen.
    async fn step(&mut self, buffer: &mut [u8]) -> Result<Next, Over> {
        // Before each line that came with others too: rules may have changed meanwhile.
        self.follow_hooks();
        while let Some(request) = self.machine.poll_request() {
            self.carry_out(request).await?;
            self.follow_hooks();
        }
        self.flush().await?;
        loop {
            self.set_timer();
            let hears = self.machine.wants_input() && !self.deaf;
            let (control, meter) = (&mut self.control, &self.meter);
            let running = self.transfer.as_mut().map(Running::work);
            let (runs, looks) = (running.is_some(), self.last_look.is_some());
            tokio::select! {
                biased;
                read = control.read(buffer), if hears => return Ok(match read {
                    Ok(0) => Next::Silent,
                    Ok(count) => Next::Heard(count),
                    Err(error) => Next::Broken(error.to_string()),
                }),
                () = rings(&mut self.last_look), if looks => return Ok(Next::Look),
                ran = work(running), if runs => return Ok(Next::Ran(Box::new(ran))),
                end = meter.ending() => return Ok(Next::Ending(end.reason.clone())),
                () = self.timer.as_mut() => {
                    self.rings = Duration::MAX;
                    if self.machine.deadline().is_some_and(|due| due <= self.now()) {
                        return Ok(Next::Due);
                    }
                }
            }
        }
    }

    /// The timer rings at the machine's deadline or before; it is moved only when it must.
    fn set_timer(&mut self) {
        let due = self.machine.deadline().unwrap_or(Duration::MAX);
        if due < self.rings || self.rings == Duration::MAX {
            let rest = due.saturating_sub(self.now()).min(LONGEST_REST);
            self.rings = self.now().saturating_add(rest);
            self.timer.set(sleep(rest));
        }
    }

    /// Nothing has been heard of the client's end since its upload ended, and the moment that is
    /// waited for it is over.
    fn look_at_client(&mut self) -> Result<(), Over> {
        let hears = self.machine.wants_input() && !self.deaf;
        let may_go = hears || self.machine.is_quitting();
        if !may_go && self.control.peer_state() != PeerState::Open {
            return Err(Over::Gone("the client hung up".to_owned()));
        }
        if let Some(transfer) = &mut self.transfer {
            transfer.approve();
        }
        Ok(())
    }

    /// Writes what is to be said.
    pub(crate) async fn flush(&mut self) -> Result<(), Over> {
        let gone = |why: &str| Over::Gone(why.to_owned());
        if self.machine.output().is_empty() {
            return Ok(());
        }
        if self.transfer.is_none() && std::mem::take(&mut self.ticket_is_due) {
            self.control.send_ticket().map_err(|error| gone(&error.to_string()))?;
        }
        while !self.machine.output().is_empty() {
            let writing = self.control.write(self.machine.output());
            match timeout(STALL_TIME, writing).await {
                Ok(Ok(0)) => return Err(gone("the client takes no more")),
                Ok(Ok(count)) => self.machine.written(count),
                Ok(Err(error)) => return Err(gone(&error.to_string())),
                Err(_) => return Err(gone("the client takes no replies")),
            }
        }
        match timeout(STALL_TIME, self.control.flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(gone(&error.to_string())),
            Err(_) => Err(gone("the client takes no replies")),
        }
    }

    /// Waits for something that may take long; the client is told now and then where the protocol
    /// allows, and nobody works for one who is gone.
    pub(crate) async fn patiently<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Over> {
        let mut work = pin!(work);
        loop {
            let meter = Arc::clone(&self.meter);
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                end = meter.ending() => return Err(Over::Ended(end.reason.clone())),
                () = sleep(PATIENCE_INTERVAL) => {}
            }
            if matches!(self.control.peer_state(), PeerState::Closed | PeerState::Reset) {
                return Err(Over::Gone("the client hung up".to_owned()));
            }
            self.machine.still_hashing();
            self.flush().await?;
        }
    }

    async fn carry_out(&mut self, request: Request) -> Result<(), Over> {
        let answer = match request {
            Request::After { verb, code } => return self.after(verb, code).await,
            Request::Before(command) => self.before(command).await?,
            Request::Host(name) => self.choose(&name).await,
            Request::User(user) => self.user(&user).await?,
            Request::Password { user, password } => self.password(&user, &password).await?,
            Request::Account(secret) => self.account(&secret).await?,
            Request::Logout => return self.log_out("logged out").await,
            Request::StartTls => self.start_tls().await?,
            Request::ClearControl => self.stop_tls().await?,
            Request::Close => return Err(self.say_goodbye().await),
            Request::Passive { .. } => self.listen(),
            Request::DropData => {
                self.forget_expected();
                return Ok(());
            }
            Request::Retrieve { .. } | Request::Store { .. } | Request::List { .. } => {
                return self.begin(request).await;
            }
            Request::Abort => return self.abort().await,
            Request::Progress => {
                Answer::Number(self.transfer.as_ref().map_or(0, Running::progress))
            }
            Request::Limit { write, read } => self.limit_node(write, read),
            Request::Shutdown => self.drain_node(),
            other => self.about_files(other).await?,
        };
        self.answer(answer);
        Ok(())
    }

    async fn about_files(&mut self, request: Request) -> Result<Answer, Over> {
        let Some(live) = &self.live else {
            return Ok(Answer::Refused(Refusal::new(Why::Denied)));
        };
        let vfs = live.session.vfs().clone();
        if let Request::Size { path, .. } | Request::Modified(path) | Request::Entry(path) =
            &request
            && let Ok(path) = requests::path(path)
        {
            self.told = vfs.unfinished(&path).await.map(|_| path);
        }
        let entered = match &request {
            Request::ChangeDir(path) => requests::path(path).ok(),
            _ => None,
        };
        if let Request::Allocate(bytes) = request {
            return self.allocate(&vfs, bytes).await;
        }
        let view = self.house.view.clone();
        let answer = self.patiently(requests::answer(vfs, view, request)).await?;
        if let (Answer::Done, Some(path)) = (&answer, entered) {
            self.directory = path;
        }
        Ok(answer)
    }

    /// ALLO: the room is held until the next transfer begins, or another ALLO is said.
    async fn allocate(&mut self, vfs: &Vfs, bytes: u64) -> Result<Answer, Over> {
        self.room = None;
        let (vfs, directory) = (vfs.clone(), self.directory.clone());
        let reserved = self.patiently(async move { vfs.reserve(&directory, bytes).await }).await?;
        match reserved {
            Ok(room) => {
                self.room = Some(room);
                Ok(Answer::Done)
            }
            Err(error) => Ok(Answer::Refused(refusal(&error))),
        }
    }

    async fn start_tls(&mut self) -> Result<Answer, Over> {
        self.flush().await?;
        let Some(tls) = &self.tls else {
            return Err(Over::Gone("there is no TLS here".to_owned()));
        };
        self.meter.advance(Stage::Exchanging);
        match self.control.start_tls(tls).await {
            Ok(()) => Ok(Answer::TlsStands),
            Err(error) => Err(Over::Gone(error.to_string())),
        }
    }

    async fn stop_tls(&mut self) -> Result<Answer, Over> {
        self.flush().await?;
        match self.control.stop_tls().await {
            Ok(()) => Ok(Answer::Done),
            Err(error) => Err(Over::Gone(error.to_string())),
        }
    }

    async fn say_goodbye(&mut self) -> Over {
        let over = Over::Gone("the client said goodbye, or was told to".to_owned());
        if let Err(over) = self.flush().await {
            return over;
        }
        // Whether it is heard changes nothing.
        let _ = timeout(STALL_TIME, self.control.shutdown()).await;
        over
    }

    /// PASV and EPSV.
    fn listen(&mut self) -> Answer {
        let (local, peer) = (self.control.local(), self.control.peer().ip());
        let seat = self.seat.get_or_insert_with(|| {
            self.house.ports.seat(SeatOptions {
                local,
                peer,
                policy: self.config.data_peer().clone(),
                meter: Arc::clone(&self.meter),
            })
        });
        match seat.listen() {
            Ok(mut address) => {
                if let Some(told) = self.config.passive_address(peer) {
                    address.set_ip(told);
                }
                Answer::Passive(address)
            }
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "no data port");
                Answer::Refused(Refusal::because(Why::NoData, sentence(&error.to_string())))
            }
        }
    }

    pub(crate) fn forget_expected(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.forget();
        }
    }

    /// What a transfer came to.
    fn ran(&mut self, ran: Ran) {
        let Ran { seat, outcome } = ran;
        if seat.is_some() {
            self.seat = seat;
        }
        match outcome {
            Outcome::Received { upload, certain } => {
                let certain = certain || self.machine.is_quitting();
                self.last_look = (!certain).then(|| Box::pin(sleep(LAST_LOOK_TIME)));
                if let Some(transfer) = &mut self.transfer {
                    transfer.publish(upload);
                    if certain {
                        transfer.approve();
                    }
                }
            }
            Outcome::Published(uploaded) => {
                self.commands.published(&uploaded);
                self.over(End::Complete);
            }
            Outcome::Ended(end) => self.over(end),
        }
    }

    fn over(&mut self, end: End) {
        if let Some(transfer) = self.transfer.take() {
            self.commands.moved(transfer.progress());
        }
        self.answer(Answer::TransferEnded(end));
    }

    /// ABOR: what is being published is not stopped any more.
    async fn abort(&mut self) -> Result<(), Over> {
        if self.transfer.as_ref().is_some_and(Running::is_publishing) {
            return Ok(());
        }
        if let Some(transfer) = self.transfer.take() {
            self.commands.moved(transfer.progress());
            transfer.stop().await;
        }
        self.answer(Answer::TransferEnded(End::Aborted));
        Ok(())
    }

    /// Ends what is left, whatever the cause.
    async fn end(mut self, over: Over) {
        let reason = match over {
            Over::Gone(reason) => reason,
            Over::Ended(reason) => {
                self.machine.close(&sentence(&reason));
                self.say_goodbye().await;
                reason
            }
        };
        let late = |_| tracing::warn!("a store keeps a session that has ended waiting");
        if let Some(transfer) = self.transfer.take() {
            self.commands.moved(transfer.progress());
            // A publish goes on whatever becomes of us, and rules are to hear how it ended.
            let told = self.commands.tells_of_transfer() && transfer.is_publishing();
            let most = if told { TELLING_TIME } else { ENDING_TIME };
            if let Ok(outcome) = timeout(most, transfer.stop()).await.map_err(late) {
                self.after_the_end(outcome).await;
            }
        }
        // A logout at the end has nobody to tell.
        let _ = timeout(ENDING_TIME, self.log_out(&reason)).await.map_err(late);
    }
}

/// A timer that nobody needs rings now and then all the same.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// Rings once.
async fn rings(alarm: &mut Option<Pin<Box<Sleep>>>) {
    if let Some(alarm) = alarm {
        alarm.as_mut().await;
    }
    *alarm = None;
}

async fn work(running: Option<Pin<&mut (dyn Future<Output = Ran> + Send)>>) -> Ran {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}
