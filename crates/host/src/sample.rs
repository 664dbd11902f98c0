//! A host application to try things out with: the loans of a library. Logo, sign-on, menu, search,
//! result pages of which the next one is written over the one before, and a loan that can be
//! renewed.
//!
//! [`SampleTerminal`] does no IO; [`SampleHost`] serves it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use entrepot_net::NetError;
use entrepot_net::accepted::Accepted;
use entrepot_net::listen::{self, TcpAcceptor};
use entrepot_net::tls::{HandshakeError, TlsServer};
use entrepot_tn3270_proto::address::Addressing;
use entrepot_tn3270_proto::client::Wish;
use entrepot_tn3270_proto::enhanced::{DataType, Functions, Header};
use entrepot_tn3270_proto::host::{Host, HostEvent, HostOptions};
use entrepot_tn3270_proto::typed::Typed;
use entrepot_tn3270_proto::{Aid, CodePage};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::limits::{CLIENTS, READ_BYTES};

const ERASE_WRITE: u8 = 0xf5;
const WRITE: u8 = 0xf1;
const FREE: u8 = 0xc3;
const KEEP_LOCKED: u8 = 0xc1;
const SET_ADDRESS: u8 = 0x11;
const START_FIELD: u8 = 0x1d;
const INSERT_CURSOR: u8 = 0x13;
/// Protected; open; open and hidden.
const TEXT: u8 = 0x60;
const OPEN: u8 = 0x40;
const HIDDEN: u8 = 0x4c;
const COLUMNS: usize = 80;
/// What no code page has is shown as a question mark.
const UNKNOWN: u8 = 0x6f;

/// Rows of a page of loans.
const ROWS: usize = 13;
/// The reader whom the library knows has so many loans.
pub const SAMPLE_LOANS: usize = 30;
/// The reader `MANY` has so many: to read all of them takes 28 screens from the menu and back.
pub const SAMPLE_MANY_LOANS: usize = 26 * ROWS;
/// The model of the application.
pub const SAMPLE_MODEL: &str = include_str!("../tests/models/loans.yaml");

/// What the library says behind its last page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastPage {
    /// That it is the last one.
    #[default]
    Told,
    /// Nothing: the next page is the same again.
    Repeated,
}

/// A loan as the library shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleLoan {
    /// By what the library knows it.
    pub id: usize,
    /// What was lent.
    pub title: String,
    /// When it is due, as `DD.MM.YYYY`.
    pub due: String,
    /// What is owed for it; empty: nothing.
    pub fine: String,
}

impl SampleLoan {
    /// The loan at this place in the list, from 0.
    pub fn at(place: usize) -> SampleLoan {
        let fine = if place.is_multiple_of(3) { "1.250,50" } else { "" };
        SampleLoan {
            id: 1000 + place,
            title: format!("TITLE OF BOOK {place}"),
            due: format!("{:02}.11.2026", place % 28 + 1),
            fine: fine.to_owned(),
        }
    }
}

/// What all terminals of the library share.
#[derive(Debug, Default)]
pub struct SampleLibrary {
    last: LastPage,
    /// Of the clerks with a number, each of whom may sign on once. One whose connection ends
    /// without a log-off stays.
    signed_on: Mutex<BTreeSet<String>>,
    screens: AtomicU64,
}

impl SampleLibrary {
    /// A library that ends its lists in this way.
    pub fn new(last: LastPage) -> SampleLibrary {
        SampleLibrary { last, ..SampleLibrary::default() }
    }

    /// So many keys were answered, and terminals shown their first screen.
    pub fn screens(&self) -> u64 {
        self.screens.load(Ordering::Relaxed)
    }

    fn loans(&self, reader: &str) -> Option<usize> {
        match reader {
            "NOVAK" => Some(SAMPLE_LOANS),
            "MANY" => Some(SAMPLE_MANY_LOANS),
            "EMPTY" => Some(0),
            _ => None,
        }
    }

    /// The clerks with a number that are signed on.
    pub fn signed_on(&self) -> Vec<String> {
        self.signed_on.lock().iter().cloned().collect()
    }

    fn admits(&self, user: &str, password: &str) -> bool {
        let number = user.strip_prefix("CLERK");
        let known = number.is_some_and(|number| number.chars().all(|it| it.is_ascii_digit()));
        known
            && password == "SECRET"
            && (user == "CLERK" || self.signed_on.lock().insert(user.to_owned()))
    }

    fn sign_off(&self, user: &str) {
        self.signed_on.lock().remove(user);
    }
}

/// The library's side of one terminal.
#[derive(Debug)]
pub struct SampleTerminal {
    host: Host,
    library: Arc<SampleLibrary>,
    page: Option<CodePage>,
    at: At,
    /// The page of loans that is shown, from 0.
    shown: usize,
    user: String,
    /// Whose loans are shown, and how many there are.
    reader: String,
    loans: usize,
}

/// The screen that a terminal stands on.
#[derive(Clone, Copy, Debug)]
enum At {
    Logo,
    SignOn,
    Menu,
    Find,
    Loans,
    /// The loan at this place.
    Loan(usize),
}

impl SampleTerminal {
    /// A terminal that has just connected; what [`SampleTerminal::output`] has is sent to it.
    pub fn new(library: Arc<SampleLibrary>) -> SampleTerminal {
        let host = Host::new(HostOptions {
            enhanced: Wish::Accept,
            functions: Functions::RESPONSES,
            start_tls: Wish::Refuse,
            device_name: "LIB01".to_owned(),
        });
        SampleTerminal {
            host,
            library,
            page: CodePage::new(37),
            at: At::Logo,
            shown: 0,
            user: String::new(),
            reader: String::new(),
            loans: 0,
        }
    }

    /// What is to be sent to the terminal.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(self.host.output())
    }

    /// Takes what the terminal has sent; false: it is none that can be used.
    pub fn receive(&mut self, mut input: &[u8]) -> bool {
        while let Some(event) = self.host.next(&mut input) {
            let screens = match event {
                HostEvent::Ready(_) => vec![self.logo()],
                HostEvent::Record(header) if header.data_type == DataType::Data3270 => {
                    let record = self.host.data().to_vec();
                    self.answer(&record)
                }
                HostEvent::Unusable => return false,
                _ => Vec::new(),
            };
            if !screens.is_empty() {
                self.library.screens.fetch_add(1, Ordering::Relaxed);
            }
            for Drawn { record, .. } in screens {
                self.host.send(Header::default(), &record);
            }
        }
        true
    }

    fn answer(&mut self, record: &[u8]) -> Vec<Drawn> {
        let Some(typed) = Typed::parse(record, Addressing::default()) else { return Vec::new() };
        let text = |codes: &[u8]| -> String {
            let page = self.page.as_ref();
            codes.iter().filter_map(|code| page?.character(*code)).collect()
        };
        let said: Vec<String> = typed.fields.iter().map(|field| text(field.codes)).collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let row = typed.fields.first().and_then(|field| field.at).map_or(0, |at| at / COLUMNS + 1);
        let Some(key) = typed.key() else { return Vec::new() };
        let (at, screens) = match (self.at, key, said.as_slice()) {
            (At::Logo, Aid::Enter, ["LOANS"]) => (At::SignOn, vec![self.sign_on("")]),
            // The host works after the key, and then shows what it came to.
            (At::SignOn, Aid::Enter, [user, password]) if self.library.admits(user, password) => {
                self.user = (*user).to_owned();
                (At::Menu, vec![self.busy(), self.menu()])
            }
            (At::SignOn, Aid::Enter, _) => (At::SignOn, vec![self.sign_on("NOT AUTHORISED")]),
            (At::Menu, Aid::Enter, ["1"]) => (At::Find, vec![self.find("")]),
            (At::Menu, Aid::Enter, _) => (At::Menu, vec![self.menu()]),
            (At::Menu, Aid::Pf(3), _) => {
                self.library.sign_off(&self.user);
                (At::Logo, vec![self.logo()])
            }
            (At::Find, Aid::Enter, [reader]) if self.library.loans(reader).is_some() => {
                self.shown = 0;
                self.loans = self.library.loans(reader).unwrap_or_default();
                self.reader = (*reader).to_owned();
                (At::Loans, vec![self.loans(ERASE_WRITE)])
            }
            (At::Find, Aid::Enter, _) => (At::Find, vec![self.find("NO SUCH READER")]),
            (At::Find | At::Loans, Aid::Pf(12), _) => (At::Menu, vec![self.menu()]),
            (At::Loans, Aid::Pf(8), _) => {
                self.shown = (self.shown + 1).min(self.loans.saturating_sub(1) / ROWS);
                (At::Loans, vec![self.loans(WRITE)])
            }
            (At::Loans, Aid::Pf(7), _) => {
                self.shown = self.shown.saturating_sub(1);
                (At::Loans, vec![self.loans(ERASE_WRITE)])
            }
            (At::Loans, Aid::Enter, ["S"]) => {
                let place = (self.shown * ROWS + row).saturating_sub(8);
                (At::Loan(place), vec![self.detail(place, &SampleLoan::at(place).due, "")])
            }
            (At::Loan(place), Aid::Enter, [due]) => {
                let note = if due.ends_with(".2027") { "RENEWED" } else { "DAY NOT VALID" };
                (At::Loan(place), vec![self.detail(place, due, note)])
            }
            (At::Loan(_), Aid::Pf(12), _) => (At::Loans, vec![self.loans(ERASE_WRITE)]),
            (at, ..) => (at, vec![self.draw(WRITE, FREE)]),
        };
        self.at = at;
        screens
    }

    fn draw(&self, command: u8, control: u8) -> Drawn {
        Drawn { record: vec![command, control], page: self.page.clone() }
    }

    fn screen(&self, name: &str) -> Drawn {
        self.draw(ERASE_WRITE, FREE).at(1, 71).field(TEXT).text(name)
    }

    fn logo(&self) -> Drawn {
        let screen = self.draw(ERASE_WRITE, FREE).at(3, 29).field(TEXT).text("CENTRAL LIBRARY");
        screen.at(24, 1).field(OPEN).cursor().at(24, 30).field(TEXT)
    }

    fn sign_on(&self, note: &str) -> Drawn {
        let screen = self.screen("LB010").at(13, 39).field(OPEN).cursor().at(13, 48).field(TEXT);
        let screen = screen.at(14, 39).field(HIDDEN).at(14, 48).field(TEXT);
        screen.at(24, 1).field(TEXT).text(note)
    }

    fn busy(&self) -> Drawn {
        self.draw(ERASE_WRITE, KEEP_LOCKED).at(1, 1).field(TEXT).text("WORKING")
    }

    fn menu(&self) -> Drawn {
        self.screen("LB100").at(20, 14).field(OPEN).cursor().at(20, 17).field(TEXT)
    }

    fn find(&self, note: &str) -> Drawn {
        let screen = self.screen("LB110").at(10, 19).field(OPEN).cursor().at(10, 40).field(TEXT);
        screen.at(24, 1).field(TEXT).text(note)
    }

    /// A page of loans; only the first one erases the screen.
    fn loans(&self, command: u8) -> Drawn {
        let (reader, loans) = (&self.reader, self.loans);
        let mut screen = self.draw(command, FREE).at(1, 71).field(TEXT).text("LB120");
        screen = screen.at(4, 19).field(TEXT).text(reader);
        for row in 0..ROWS {
            let place = self.shown * ROWS + row;
            screen = screen.at(8 + row, 2).field(OPEN).null().field(TEXT).text(&" ".repeat(68));
            if place < loans {
                let SampleLoan { id, title, due, fine } = SampleLoan::at(place);
                screen = screen.at(8 + row, 6).text(&format!("{id:>9}"));
                screen = screen.at(8 + row, 17).text(&title).at(8 + row, 50).text(&due);
                screen = screen.at(8 + row, 62).text(&format!("{fine:>9}"));
            }
        }
        let is_last = (self.shown + 1) * ROWS >= loans;
        if is_last && self.library.last == LastPage::Told {
            screen = screen.at(22, 29).field(TEXT).text("END OF LOANS");
        }
        screen
    }

    fn detail(&self, place: usize, due: &str, note: &str) -> Drawn {
        let SampleLoan { id, title, .. } = SampleLoan::at(place);
        let screen = self.screen("LB130").at(5, 19).field(TEXT).text(&format!("{id:>9}"));
        let screen = screen.at(6, 19).field(TEXT).text(&title);
        let screen = screen.at(7, 19).field(OPEN).cursor().text(due).at(7, 30).field(TEXT);
        screen.at(24, 1).field(TEXT).text(note)
    }
}

/// A record of the data stream that shows a screen, in pieces.
#[derive(Clone, Debug)]
struct Drawn {
    record: Vec<u8>,
    page: Option<CodePage>,
}

impl Drawn {
    fn at(mut self, row: usize, column: usize) -> Drawn {
        let at = (row - 1) * COLUMNS + column - 1;
        let [.., high, low] = at.to_be_bytes();
        self.record.extend([SET_ADDRESS, high, low]);
        self
    }

    fn field(mut self, attribute: u8) -> Drawn {
        self.record.extend([START_FIELD, attribute]);
        self
    }

    fn null(mut self) -> Drawn {
        self.record.push(0);
        self
    }

    fn cursor(mut self) -> Drawn {
        self.record.push(INSERT_CURSOR);
        self
    }

    fn text(mut self, text: &str) -> Drawn {
        let page = self.page.as_ref();
        let code = |letter| page.and_then(|page| page.code(letter)).unwrap_or(UNKNOWN);
        self.record.extend(text.chars().map(code));
        self
    }
}

/// The sample application on a port.
#[derive(Debug)]
pub struct SampleHost {
    acceptor: TcpAcceptor,
    library: Arc<SampleLibrary>,
    tls: Option<TlsServer>,
}

impl SampleHost {
    /// Binds; terminals can connect from now on.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(listen: SocketAddr) -> Result<SampleHost, NetError> {
        Ok(SampleHost { acceptor: listen::bind(listen)?, library: Arc::default(), tls: None })
    }

    /// Begins TLS with the first byte.
    #[must_use]
    pub fn with_tls(self, server: TlsServer) -> SampleHost {
        SampleHost { tls: Some(server), ..self }
    }

    /// What all of its terminals share.
    pub fn library(&self) -> Arc<SampleLibrary> {
        Arc::clone(&self.library)
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.local_address()
    }

    /// Serves until `stop`, and closes all connections then.
    pub async fn run(self, stop: CancellationToken) {
        let mut terminals = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                (stream, _) = self.acceptor.accept() => {
                    if terminals.len() < CLIENTS {
                        let (library, tls) = (Arc::clone(&self.library), self.tls.clone());
                        terminals.spawn(serve(stream, tls, library));
                    }
                }
                Some(_) = terminals.join_next() => {}
            }
        }
        terminals.shutdown().await;
    }
}

/// A terminal that goes away ends its session.
async fn serve(
    stream: TcpStream,
    tls: Option<TlsServer>,
    library: Arc<SampleLibrary>,
) -> Result<(), HandshakeError> {
    stream.set_nodelay(true)?;
    let mut stream = Accepted::new(stream);
    if let Some(tls) = tls {
        stream = stream.start_tls(&tls).await?;
    }
    let mut terminal = SampleTerminal::new(library);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let output = terminal.output();
        if !output.is_empty() {
            stream.write_all(&output).await?;
            stream.flush().await?;
        }
        let length = stream.read(&mut buffer).await?;
        let input = buffer.get(..length).unwrap_or_default();
        if input.is_empty() || !terminal.receive(input) {
            return Ok(());
        }
    }
}
