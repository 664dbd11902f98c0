//! The control connection: the bytes, the machine that turns them into requests and makes the
//! replies, and waiting for what takes long.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use entrepot_ftp_proto::{Answer, Server, Settings};
use entrepot_net::control::{Control, PeerState};
use entrepot_net::meter::{SessionMeter, Stage};
use entrepot_net::tls::TlsSession;
use entrepot_nouns::Env;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{sleep, timeout};

use crate::limits::{PATIENCE_INTERVAL, STALL_TIME};

/// Why a session is over.
pub(crate) enum Over {
    /// The server ends it, for this reason, and sends the client a 421.
    Ended(String),
    /// The client has its last reply already, or cannot be reached any more.
    Gone(String),
}

fn hung_up() -> Over {
    Over::Gone("the client hung up".to_owned())
}

/// One control connection and its protocol machine.
pub(crate) struct ControlConnection {
    pub(crate) stream: Control,
    pub(crate) machine: Server,
    pub(crate) meter: Arc<SessionMeter>,
    /// `None` where the listener offers no TLS.
    pub(crate) tls: Option<TlsSession>,
    /// A session ticket of TLS leaves with the next reply.
    ticket_is_due: bool,
    /// The client has ended its direction of the connection.
    input_has_ended: bool,
    env: Env,
}

impl ControlConnection {
    pub(crate) fn new(
        stream: Control,
        tls: Option<TlsSession>,
        settings: Settings,
        env: Env,
    ) -> ControlConnection {
        ControlConnection {
            meter: Arc::clone(stream.meter()),
            machine: Server::new(settings, env.elapsed()),
            stream,
            tls,
            ticket_is_due: false,
            input_has_ended: false,
            env,
        }
    }

    /// The time on the clock of the machine.
    pub(crate) fn now(&self) -> Duration {
        self.env.elapsed()
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.machine.answer(answer, self.env.elapsed());
    }

    /// Whether the connection is to be read now.
    pub(crate) fn wants_input(&self) -> bool {
        self.machine.wants_input() && !self.input_has_ended
    }

    /// The client sends nothing more; what it sent before is still carried out.
    pub(crate) fn end_input(&mut self) {
        self.input_has_ended = true;
    }

    /// Sends the client a session ticket of TLS before the next reply.
    pub(crate) fn owe_ticket(&mut self) {
        self.ticket_is_due = true;
    }

    /// Writes the replies that the machine has made.
    pub(crate) async fn flush(&mut self) -> Result<(), Over> {
        let gone = |why: &str| Over::Gone(why.to_owned());
        if self.machine.output().is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.ticket_is_due) {
            self.stream.send_ticket().map_err(|error| gone(&error.to_string()))?;
        }
        while !self.machine.output().is_empty() {
            let writing = self.stream.write(self.machine.output());
            match timeout(STALL_TIME, writing).await {
                Ok(Ok(0)) => return Err(gone("the client takes no more")),
                Ok(Ok(count)) => self.machine.written(count),
                Ok(Err(error)) => return Err(gone(&error.to_string())),
                Err(_) => return Err(gone("the client takes no replies")),
            }
        }
        match timeout(STALL_TIME, self.stream.flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(gone(&error.to_string())),
            Err(_) => Err(gone("the client takes no replies")),
        }
    }

    /// Sends one reply to a client that gets no session.
    pub(crate) async fn turn_away(&mut self, sentence: &str) {
        let reply = format!("421 {sentence}\r\n");
        // Whether the client reads it changes nothing.
        let _ = timeout(STALL_TIME, self.stream.write_all(reply.as_bytes())).await;
    }

    /// Waits for something that may take long. Where the protocol allows it the client gets a
    /// line now and then; when the client is gone the work is dropped.
    pub(crate) async fn patiently<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Over> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = work.as_mut() => return Ok(done),
                over = self.session_ended() => return Err(over),
                () = sleep(PATIENCE_INTERVAL) => {}
            }
            self.check_hung_up()?;
            self.machine.still_hashing();
            self.flush().await?;
        }
    }

    /// Completes when the client has hung up, or when the session must end.
    pub(crate) async fn gone(&self) -> Over {
        loop {
            tokio::select! {
                biased;
                over = self.session_ended() => return over,
                () = sleep(PATIENCE_INTERVAL) => {}
            }
            if let Err(over) = self.check_hung_up() {
                return over;
            }
        }
    }

    /// Completes when the server ends the session.
    pub(crate) async fn session_ended(&self) -> Over {
        Over::Ended(self.meter.ending().await.reason.clone())
    }

    fn check_hung_up(&self) -> Result<(), Over> {
        match self.stream.peer_state() {
            PeerState::Closed | PeerState::Reset => Err(hung_up()),
            PeerState::Open | PeerState::ClosedBehindBytes => Ok(()),
        }
    }

    /// True if the client has ended nothing, as the kernel knows now.
    pub(crate) fn is_client_there(&self) -> bool {
        self.stream.peer_state() == PeerState::Open
    }

    /// An upload in clear text has ended: an error if its client is gone, so that the upload must
    /// not be published.
    pub(crate) fn check_client(&self) -> Result<(), Over> {
        let may_go = self.wants_input() || self.machine.is_quitting();
        if !may_go && !self.is_client_there() {
            return Err(hung_up());
        }
        Ok(())
    }

    /// The end of input: an error unless the client has said QUIT.
    pub(crate) fn input_ended(&mut self) -> Result<(), Over> {
        if !self.machine.is_quitting() {
            return Err(hung_up());
        }
        self.end_input();
        Ok(())
    }

    pub(crate) async fn start_tls(&mut self) -> Result<Answer, Over> {
        self.flush().await?;
        let Some(tls) = &self.tls else {
            return Err(Over::Gone("there is no TLS here".to_owned()));
        };
        self.meter.advance(Stage::Exchanging);
        match self.stream.start_tls(tls).await {
            Ok(()) => Ok(Answer::TlsStands),
            Err(error) => Err(Over::Gone(error.to_string())),
        }
    }

    pub(crate) async fn stop_tls(&mut self) -> Result<Answer, Over> {
        self.flush().await?;
        match self.stream.stop_tls().await {
            Ok(()) => Ok(Answer::Done),
            Err(error) => Err(Over::Gone(error.to_string())),
        }
    }

    /// Writes what is left and ends the connection.
    pub(crate) async fn shut_down(&mut self) -> Over {
        if let Err(over) = self.flush().await {
            return over;
        }
        // Whether the client sees it changes nothing.
        let _ = timeout(STALL_TIME, self.stream.shutdown()).await;
        Over::Gone("the client said goodbye, or was told to".to_owned())
    }
}
