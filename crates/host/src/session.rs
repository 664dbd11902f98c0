//! A terminal on a connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::dialled::Dialled;
use entrepot_net::tls::{ServerTrust, TlsClient};
use entrepot_tn3270_proto::client::{ClientOptions, Mode};
use entrepot_tn3270_proto::model::Device;
use entrepot_tn3270_proto::{
    CodePage, Key, NumericFields, Terminal, TerminalEvent, TerminalOptions,
};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};

use crate::action::Place;
use crate::address::{HostAddress, HostTls};
use crate::debug::{DebugRecord, Trouble, Work, WorkEnd};
use crate::error::HostError;
use crate::limits::{READ_BYTES, READS_WITHOUT_WAITING};
use crate::shown::shows;
use crate::view::{ScreenView, keyboard};

/// How a host is connected to, and as which terminal.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Where it is.
    pub address: HostAddress,
    /// The terminal that we are.
    pub device: Device,
    /// Names of logical units, tried one after another; none: the host chooses.
    pub lus: Vec<String>,
    /// What codes of the host mean.
    pub page: CodePage,
    /// By what it is known under TLS.
    pub trust: ServerTrust,
    /// Longest time for connecting, and for each wait.
    pub patience: Duration,
}

/// A terminal on a connection to a host. Dropping it closes the connection.
#[derive(Debug)]
pub struct HostSession {
    terminal: Terminal,
    /// Unset after TLS failed: then there is no connection any more.
    stream: Option<Dialled>,
    options: HostOptions,
    /// What is read goes here first.
    buffer: Vec<u8>,
    /// Whether something is half sent: who waited for it has gone.
    sending: Sending,
    /// What happens in it.
    record: Option<DebugRecord>,
}

/// Whether all that was begun to be sent has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Done,
    Begun,
}

impl HostSession {
    /// Connects, and waits until the host has freed the keyboard for the first time.
    ///
    /// # Errors
    /// The host cannot be reached, is not trusted, or shows nothing in time.
    pub async fn open(options: HostOptions) -> Result<HostSession, HostError> {
        let mut session = HostSession::new(options, None);
        session.connect().await?;
        Ok(session)
    }

    /// The same, with a record of the session, in which it is not open yet.
    ///
    /// # Errors
    /// As for [`HostSession::open`].
    pub(crate) async fn open_recorded(
        options: HostOptions,
        record: Option<DebugRecord>,
    ) -> Result<HostSession, HostError> {
        let address = options.address.to_string();
        let mut session = HostSession::new(options, record);
        session.begun(|| Work::Open(address));
        let connected = session.connect().await;
        if let Err(error) = &connected {
            session.ended(WorkEnd::Failed(trouble(error)));
        }
        connected.map(|()| session)
    }

    fn new(options: HostOptions, mut record: Option<DebugRecord>) -> HostSession {
        let client = ClientOptions {
            device: options.device,
            lus: options.lus.clone(),
            ..ClientOptions::default()
        };
        let page = Arc::new(options.page.clone());
        if let Some(record) = &mut record {
            record.reads_by(Arc::clone(&page));
        }
        let terminal = TerminalOptions { client, page, numeric: NumericFields::default() };
        HostSession {
            terminal: Terminal::new(terminal),
            stream: None,
            options,
            buffer: vec![0; READ_BYTES],
            sending: Sending::Done,
            record,
        }
    }

    async fn connect(&mut self) -> Result<(), HostError> {
        let HostAddress { host, port, tls } = &self.options.address;
        // Who runs this has the host's address from its owner, as a rule within the own network.
        let policy = DialPolicy { allow_private: true };
        let stream = dial::tcp(host, *port, &policy, self.options.patience).await?;
        self.stream = Some(Dialled::Clear(stream));
        if *tls == HostTls::FromTheStart {
            self.start_tls().await?;
        }
        let shown = self.wait_until("a first screen", |terminal| {
            terminal.lock().is_none() && (terminal.mode() != Mode::Nvt || shows_something(terminal))
        });
        shown.await
    }

    /// Something is begun that is recorded.
    pub(crate) fn begun(&mut self, work: impl FnOnce() -> Work) {
        if let Some(record) = &mut self.record {
            record.begun(work);
        }
    }

    /// What was begun came to its end.
    pub(crate) fn ended(&mut self, end: WorkEnd) {
        if let Some(record) = &mut self.record {
            record.ended(end);
        }
    }

    /// Something failed that was not said to begin.
    pub(crate) fn failed(&mut self, work: &str, error: &HostError) {
        if let Some(record) = &mut self.record {
            record.failed(work.to_owned(), trouble(error));
        }
    }

    /// What is typed here next stands in no record.
    pub(crate) fn keeps_secret(&mut self, text: &str) {
        if let Some(record) = &mut self.record {
            record.secret(text);
        }
    }

    /// The screen as it is now.
    pub fn screen(&self) -> ScreenView {
        ScreenView::of(&self.terminal)
    }

    /// Types a text at the cursor.
    ///
    /// # Errors
    /// The keyboard or the place of the cursor does not take it.
    pub async fn type_text(&mut self, text: &str) -> Result<(), HostError> {
        let screen = self.terminal.screen();
        if screen.ruling(screen.cursor()).is_hidden() {
            self.keeps_secret(text);
        }
        self.terminal.type_text(text)?;
        // Only a network virtual terminal sends what is typed.
        self.send().await
    }

    /// Puts the cursor somewhere; beyond the screen it stays where it is.
    pub fn move_cursor(&mut self, to: Place) {
        let columns = self.terminal.screen().size().columns;
        if to.column <= columns {
            let at = to.row.saturating_sub(1).saturating_mul(columns);
            self.terminal.move_cursor(at.saturating_add(to.column.saturating_sub(1)));
        }
    }

    /// Presses a key; after one that goes to the host, waits until it frees the keyboard.
    ///
    /// # Errors
    /// The keyboard does not take it, or the host does not free it in time.
    pub async fn press(&mut self, key: Key) -> Result<(), HostError> {
        self.press_key(key)?;
        self.send().await?;
        if key.reaches_host() { self.wait_for(None, "").await } else { Ok(()) }
    }

    /// Waits until the keyboard is free and the screen shows a text, at a place or anywhere.
    ///
    /// # Errors
    /// It does not within the patience.
    pub async fn wait_for(&mut self, at: Option<Place>, text: &str) -> Result<(), HostError> {
        let what = match (at, text) {
            (_, "") => "a free keyboard".to_owned(),
            (None, text) => format!("'{text}'"),
            (Some(Place { row, column }), text) => format!("'{text}' at {row},{column}"),
        };
        let text = text.to_owned();
        self.wait_until(&what, |terminal| terminal.lock().is_none() && shows(terminal, at, &text))
            .await
    }

    /// Presses a key, and waits until something holds of what the host shows then.
    pub(crate) async fn press_until(
        &mut self,
        key: Key,
        patience: Duration,
        what: &str,
        done: impl Fn(&Terminal) -> bool,
    ) -> Result<(), HostError> {
        self.press_key(key)?;
        self.send().await?;
        self.wait_within(patience, what, done).await
    }

    fn press_key(&mut self, key: Key) -> Result<(), HostError> {
        if let Some(record) = self.record.as_mut().filter(|_| key.reaches_host()) {
            record.key(&self.terminal, key);
        }
        Ok(self.terminal.press(key)?)
    }

    /// Longest time for a wait, unless somebody says another one.
    pub(crate) fn patience(&self) -> Duration {
        self.options.patience
    }

    pub(crate) fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    /// Waits until something holds of what the host shows.
    pub(crate) async fn wait_until(
        &mut self,
        what: &str,
        done: impl Fn(&Terminal) -> bool,
    ) -> Result<(), HostError> {
        self.wait_within(self.options.patience, what, done).await
    }

    /// The same within another time.
    pub(crate) async fn wait_within(
        &mut self,
        patience: Duration,
        what: &str,
        done: impl Fn(&Terminal) -> bool,
    ) -> Result<(), HostError> {
        let reading = async {
            while !done(&self.terminal) {
                self.read().await?;
            }
            Ok(())
        };
        match tokio::time::timeout(patience, reading).await {
            Ok(ended) => ended,
            Err(_) => Err(HostError::Late {
                what: what.to_owned(),
                seconds: patience.as_secs(),
                keyboard: keyboard(&self.terminal),
            }),
        }
    }

    async fn read(&mut self) -> Result<(), HostError> {
        // What the negotiation asks for goes out first.
        self.send().await?;
        let stream = self.stream.as_mut().ok_or(HostError::Closed)?;
        let length = stream.read(&mut self.buffer).await?;
        self.take_in(length).await
    }

    /// Takes in what the host has sent already.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) async fn take_in_what_came(&mut self) -> Result<(), HostError> {
        // The runtime may not know yet what the machine knows.
        if !self.stream.as_ref().is_some_and(Dialled::is_open) {
            return Err(HostError::Closed);
        }
        for _ in 0..READS_WITHOUT_WAITING {
            let stream = self.stream.as_mut().ok_or(HostError::Closed)?;
            let mut buffer = ReadBuf::new(&mut self.buffer);
            let read = poll_fn(|context| {
                Poll::Ready(Pin::new(&mut *stream).poll_read(context, &mut buffer))
            });
            let Poll::Ready(read) = read.await else { break };
            read?;
            let length = buffer.filled().len();
            self.take_in(length).await?;
        }
        self.send().await
    }

    /// True if the keyboard takes keys.
    pub(crate) fn is_free(&self) -> bool {
        self.terminal.lock().is_none()
    }

    /// True while nothing that was begun to be sent was broken off.
    pub(crate) fn is_whole(&self) -> bool {
        self.sending == Sending::Done && self.stream.is_some()
    }

    /// So much of the buffer has been read.
    async fn take_in(&mut self, length: usize) -> Result<(), HostError> {
        if length == 0 {
            return Err(HostError::Closed);
        }
        let mut input = self.buffer.get(..length).unwrap_or_default();
        while let Some(event) = self.terminal.next(&mut input) {
            match event {
                // Also a screen that another one follows at once.
                TerminalEvent::Changed => {
                    if let Some(record) = &mut self.record {
                        record.shown(&self.terminal);
                    }
                }
                TerminalEvent::Refused(_) => {}
                TerminalEvent::Overlong => return Err(HostError::Overlong),
                TerminalEvent::StartTls => {
                    self.send().await?;
                    self.start_tls().await?;
                    self.terminal.tls_started();
                    return Ok(());
                }
            }
        }
        self.send().await
    }

    /// Sends all that is to be sent, in one write.
    async fn send(&mut self) -> Result<(), HostError> {
        let output = std::mem::take(self.terminal.output());
        if output.is_empty() {
            return Ok(());
        }
        let stream = self.stream.as_mut().ok_or(HostError::Closed)?;
        self.sending = Sending::Begun;
        stream.write_all(&output).await?;
        stream.flush().await?;
        self.sending = Sending::Done;
        Ok(())
    }

    async fn start_tls(&mut self) -> Result<(), HostError> {
        let client = TlsClient::new(&self.options.address.host, &self.options.trust)?;
        let stream = self.stream.take().ok_or(HostError::Closed)?;
        self.stream = Some(stream.start_tls(&client).await?.0);
        Ok(())
    }
}

fn shows_something(terminal: &Terminal) -> bool {
    terminal.rows().iter().any(|row| !row.trim().is_empty())
}

fn trouble(error: &HostError) -> Trouble {
    Trouble { code: error.code(), error: error.to_string() }
}
