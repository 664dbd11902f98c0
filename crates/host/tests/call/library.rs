//! A host application for tests: the loans of a library. Logo, sign-on, menu, search, and result
//! pages of which the next one is written
//! over the one before, and a loan that can be renewed.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use entrepot_tn3270_proto::address::Addressing;
use entrepot_tn3270_proto::client::Wish;
use entrepot_tn3270_proto::enhanced::{DataType, Functions, Header};
use entrepot_tn3270_proto::host::{Host, HostEvent, HostOptions};
use entrepot_tn3270_proto::typed::Typed;
use entrepot_tn3270_proto::{Aid, CodePage};

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

/// Rows of a page of loans.
const ROWS: usize = 13;
/// The reader whom the library knows has so many loans.
pub(crate) const LOANS: usize = 30;

/// What the library says behind its last page.
#[derive(Clone, Copy)]
pub(crate) enum LastPage {
    /// That it is the last one.
    Told,
    /// Nothing: the next page is the same again.
    Repeated,
}

/// A loan as the library has it: number, title, day, fine.
pub(crate) fn loan(number: usize) -> (usize, String, String, String) {
    let fine = if number.is_multiple_of(3) { "1.250,50" } else { "" };
    let due = format!("{:02}.11.2026", number % 28 + 1);
    (1000 + number, format!("TITLE OF BOOK {number}"), due, fine.to_owned())
}

/// Opens the library on a free port, for as long as the process lives; answers its address.
pub(crate) fn open(last: LastPage) -> String {
    Library::open(last).address.clone()
}

/// The library while it is open.
pub(crate) struct Library {
    pub(crate) address: String,
    last: LastPage,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether terminals are sent away at once.
    is_closed: bool,
    /// Terminals that came.
    came: usize,
    terminals: Vec<TcpStream>,
    /// Of the clerks with a number, each of whom may sign on once. One whose connection ends
    /// without a log-off stays.
    signed_on: BTreeSet<String>,
}

impl Library {
    pub(crate) fn open(last: LastPage) -> Arc<Library> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let library = Arc::new(Library { address, last, state: Mutex::default() });
        let served = Arc::clone(&library);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut state = served.state.lock().unwrap();
                state.came += 1;
                if state.is_closed {
                    continue;
                }
                state.terminals.push(stream.try_clone().unwrap());
                drop(state);
                let library = Arc::clone(&served);
                // A terminal that goes away ends its session.
                std::thread::spawn(move || drop(serve(stream, &library)));
            }
        });
        library
    }

    /// Ends all connections; `Door::Closed`: and takes no new ones.
    pub(crate) fn cut(&self, door: Door) {
        let mut state = self.state.lock().unwrap();
        state.is_closed = matches!(door, Door::Closed);
        for terminal in state.terminals.drain(..) {
            // One that has gone already is cut too.
            let _ = terminal.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn reopen(&self) {
        self.state.lock().unwrap().is_closed = false;
    }

    pub(crate) fn came(&self) -> usize {
        self.state.lock().unwrap().came
    }

    pub(crate) fn signed_on(&self) -> Vec<String> {
        self.state.lock().unwrap().signed_on.iter().cloned().collect()
    }

    fn admits(&self, user: &str, password: &str) -> bool {
        let number = user.strip_prefix("CLERK");
        let known = number.is_some_and(|number| number.chars().all(|it| it.is_ascii_digit()));
        let mut state = self.state.lock().unwrap();
        known
            && password == "SECRET"
            && (user == "CLERK" || state.signed_on.insert(user.to_owned()))
    }

    fn sign_off(&self, user: &str) {
        self.state.lock().unwrap().signed_on.remove(user);
    }
}

/// Whether the library takes terminals.
#[derive(Clone, Copy)]
pub(crate) enum Door {
    Open,
    Closed,
}

fn serve(mut stream: TcpStream, library: &Library) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut host = Host::new(HostOptions {
        enhanced: Wish::Accept,
        functions: Functions::RESPONSES,
        start_tls: Wish::Refuse,
        device_name: "LIB01".to_owned(),
    });
    let mut desk = Desk { at: At::Logo, page: 0, user: String::new(), library };
    let mut buffer = [0; 4096];
    loop {
        stream.write_all(&std::mem::take(host.output()))?;
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let mut input = &buffer[..length];
        while let Some(event) = host.next(&mut input) {
            let screens = match event {
                HostEvent::Ready(_) => vec![logo()],
                HostEvent::Record(header) if header.data_type == DataType::Data3270 => {
                    desk.answer(host.data())
                }
                HostEvent::Unusable => return Ok(()),
                _ => Vec::new(),
            };
            for Drawn(screen) in screens {
                host.send(Header::default(), &screen);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum At {
    Logo,
    SignOn,
    Menu,
    Find,
    Loans,
    /// The loan with this number.
    Loan(usize),
}

struct Desk<'l> {
    at: At,
    page: usize,
    user: String,
    library: &'l Library,
}

impl Desk<'_> {
    fn answer(&mut self, data: &[u8]) -> Vec<Drawn> {
        let page = CodePage::new(37).unwrap();
        let typed = Typed::parse(data, Addressing::default()).unwrap();
        let text = |codes: &[u8]| -> String {
            codes.iter().filter_map(|code| page.character(*code)).collect()
        };
        let said: Vec<String> = typed.fields.iter().map(|field| text(field.codes)).collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let row = typed.fields.first().and_then(|field| field.at).map_or(0, |at| at / 80 + 1);
        let Some(key) = typed.key() else { return Vec::new() };
        let (at, screens) = match (self.at, key, said.as_slice()) {
            (At::Logo, Aid::Enter, ["LOANS"]) => (At::SignOn, vec![sign_on("")]),
            // The host works after the key, and then shows what it came to.
            (At::SignOn, Aid::Enter, [user, password]) if self.library.admits(user, password) => {
                self.user = (*user).to_owned();
                (At::Menu, vec![busy(), menu()])
            }
            (At::SignOn, Aid::Enter, _) => (At::SignOn, vec![sign_on("NOT AUTHORISED")]),
            (At::Menu, Aid::Enter, ["1"]) => (At::Find, vec![find("")]),
            (At::Menu, Aid::Enter, _) => (At::Menu, vec![menu()]),
            (At::Menu, Aid::Pf(3), _) => {
                self.library.sign_off(&self.user);
                (At::Logo, vec![logo()])
            }
            (At::Find, Aid::Enter, [reader @ ("NOVAK" | "EMPTY")]) => {
                self.page = 0;
                let loans = if *reader == "NOVAK" { LOANS } else { 0 };
                (At::Loans, self.loans(ERASE_WRITE, reader, loans))
            }
            (At::Find, Aid::Enter, _) => (At::Find, vec![find("NO SUCH READER")]),
            (At::Find | At::Loans, Aid::Pf(12), _) => (At::Menu, vec![menu()]),
            (At::Loans, Aid::Pf(8), _) => {
                self.page = (self.page + 1).min((LOANS - 1) / ROWS);
                (At::Loans, self.loans(WRITE, "NOVAK", LOANS))
            }
            (At::Loans, Aid::Enter, ["S"]) => {
                let number = self.page * ROWS + row - 8;
                (At::Loan(number), vec![detail(number, &loan(number).2, "")])
            }
            (At::Loan(number), Aid::Enter, [due]) => {
                let note = if due.ends_with(".2027") { "RENEWED" } else { "DAY NOT VALID" };
                (At::Loan(number), vec![detail(number, due, note)])
            }
            (At::Loan(_), Aid::Pf(12), _) => (At::Loans, self.loans(ERASE_WRITE, "NOVAK", LOANS)),
            (at, ..) => (at, vec![Drawn(vec![WRITE, FREE])]),
        };
        self.at = at;
        screens
    }

    /// A page of loans; only the first one erases the screen.
    fn loans(&self, command: u8, reader: &str, loans: usize) -> Vec<Drawn> {
        let mut screen = Drawn::new(command, FREE).at(1, 71).field(TEXT).text("LB120");
        screen = screen.at(4, 19).field(TEXT).text(reader);
        for row in 0..ROWS {
            let number = self.page * ROWS + row;
            screen = screen.at(8 + row, 2).field(OPEN).null().field(TEXT).text(&" ".repeat(68));
            if number < loans {
                let (id, title, due, fine) = loan(number);
                screen = screen.at(8 + row, 6).text(&format!("{id:>9}"));
                screen = screen.at(8 + row, 17).text(&title).at(8 + row, 50).text(&due);
                screen = screen.at(8 + row, 62).text(&format!("{fine:>9}"));
            }
        }
        let is_last = (self.page + 1) * ROWS >= loans;
        if is_last && matches!(self.library.last, LastPage::Told) {
            screen = screen.at(22, 29).field(TEXT).text("END OF LOANS");
        }
        vec![screen]
    }
}

/// A record of the data stream that shows a screen, in pieces.
struct Drawn(Vec<u8>);

impl Drawn {
    fn new(command: u8, control: u8) -> Drawn {
        Drawn(vec![command, control])
    }

    fn at(mut self, row: usize, column: usize) -> Drawn {
        let at = (row - 1) * 80 + column - 1;
        self.0.extend([SET_ADDRESS, (at >> 8) as u8, (at & 0xff) as u8]);
        self
    }

    fn field(mut self, attribute: u8) -> Drawn {
        self.0.extend([START_FIELD, attribute]);
        self
    }

    fn null(mut self) -> Drawn {
        self.0.push(0);
        self
    }

    fn cursor(mut self) -> Drawn {
        self.0.push(INSERT_CURSOR);
        self
    }

    fn text(mut self, text: &str) -> Drawn {
        let page = CodePage::new(37).unwrap();
        self.0.extend(text.chars().map(|letter| page.code(letter).unwrap_or(0x6f)));
        self
    }
}

fn logo() -> Drawn {
    let screen = Drawn::new(ERASE_WRITE, FREE).at(3, 29).field(TEXT).text("CENTRAL LIBRARY");
    screen.at(24, 1).field(OPEN).cursor().at(24, 30).field(TEXT)
}

fn sign_on(note: &str) -> Drawn {
    let screen = Drawn::new(ERASE_WRITE, FREE).at(1, 71).field(TEXT).text("LB010");
    let screen = screen.at(13, 39).field(OPEN).cursor().at(13, 48).field(TEXT);
    let screen = screen.at(14, 39).field(HIDDEN).at(14, 48).field(TEXT);
    screen.at(24, 1).field(TEXT).text(note)
}

fn busy() -> Drawn {
    Drawn::new(ERASE_WRITE, KEEP_LOCKED).at(1, 1).field(TEXT).text("WORKING")
}

fn menu() -> Drawn {
    let screen = Drawn::new(ERASE_WRITE, FREE).at(1, 71).field(TEXT).text("LB100");
    screen.at(20, 14).field(OPEN).cursor().at(20, 17).field(TEXT)
}

fn find(note: &str) -> Drawn {
    let screen = Drawn::new(ERASE_WRITE, FREE).at(1, 71).field(TEXT).text("LB110");
    let screen = screen.at(10, 19).field(OPEN).cursor().at(10, 40).field(TEXT);
    screen.at(24, 1).field(TEXT).text(note)
}

fn detail(number: usize, due: &str, note: &str) -> Drawn {
    let (id, title, ..) = loan(number);
    let screen = Drawn::new(ERASE_WRITE, FREE).at(1, 71).field(TEXT).text("LB130");
    let screen = screen.at(5, 19).field(TEXT).text(&format!("{id:>9}"));
    let screen = screen.at(6, 19).field(TEXT).text(&title);
    let screen = screen.at(7, 19).field(OPEN).cursor().text(due).at(7, 30).field(TEXT);
    screen.at(24, 1).field(TEXT).text(note)
}
