//! A whole terminal: the connection, the screen and the keyboard.

use std::sync::Arc;

use crate::bind::Bind;
use crate::client::{Client, ClientEvent, ClientOptions, Mode};
use crate::code_page::CodePage;
use crate::codes::{Aid, Command, format};
use crate::enhanced::{self, DataType, Functions, Header, Trouble};
use crate::inbound::{self, Wanted};
use crate::key::Key;
use crate::keyboard::{self, Lock, NumericFields, Selected, Typing};
use crate::model::{Device, Size};
use crate::nvt::Nvt;
use crate::outbound::{self, Before, Wishes};
use crate::query::{self, Described, Query};
use crate::screen::{ReplyMode, Screen, Style};
use crate::structured::{self, StructuredField};
use crate::{telnet, text};

/// What a terminal is made of.
#[derive(Clone, Debug)]
pub struct TerminalOptions {
    /// What the connection wants.
    pub client: ClientOptions,
    /// What codes mean as characters.
    pub page: Arc<CodePage>,
    /// What fields for numbers take.
    pub numeric: NumericFields,
}

/// What came from the host that a driver has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    /// The screen or the keyboard may have changed.
    Changed,
    /// TLS begins after what [`Terminal::output`] holds was sent: nothing that is left of the input
    /// is telnet. Then [`Terminal::tls_started`] is called.
    StartTls,
    /// The host takes no logical unit that was asked for; the number is the reason of RFC 2355.
    Refused(u8),
    /// A record had no end; the connection is of no use any more.
    Overlong,
}

/// Who is at the other end, where TN3270E says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Partner {
    /// Nobody, as far as the host has said.
    Unbound,
    Application,
    /// The system services; what is typed begins at this position.
    SystemServices(usize),
    /// A network virtual terminal inside TN3270E.
    Nvt,
}

/// Why a key or a text was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The keyboard is locked, or the place takes nothing.
    Locked(Lock),
    /// The code page has no such character.
    NoSuchCharacter(char),
}

/// A terminal. Bytes from the host go in by [`Terminal::next`]; what goes to the host gathers in
/// [`Terminal::output`], so that the answer to a record and the next key can be one write.
#[derive(Debug)]
pub struct Terminal {
    client: Client,
    screen: Screen,
    device: Device,
    page: Arc<CodePage>,
    numeric: NumericFields,
    typing: Typing,
    lock: Option<Lock>,
    aid: Aid,
    partner: Partner,
    application: Vec<u8>,
    nvt: Nvt,
    alarms: u64,
}

impl Terminal {
    /// A terminal on a connection that has just been made.
    pub fn new(options: TerminalOptions) -> Self {
        let device = options.client.device;
        Terminal {
            screen: Screen::new(Size::MODEL_2, device.model.alternate()),
            client: Client::new(options.client),
            device,
            page: options.page,
            numeric: options.numeric,
            typing: Typing::Over,
            lock: Some(Lock::NotReady),
            aid: Aid::None,
            partner: Partner::Unbound,
            application: Vec::new(),
            nvt: Nvt::default(),
            alarms: 0,
        }
    }

    /// A terminal without a connection that shows a screen, to look at.
    pub fn showing(screen: Screen, page: Arc<CodePage>) -> Self {
        let client = ClientOptions::default();
        let numeric = NumericFields::default();
        Terminal { screen, ..Terminal::new(TerminalOptions { client, page, numeric }) }
    }

    /// The next event; takes what it read off `input`. `None`: all of it is read.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<TerminalEvent> {
        match self.client.next(input)? {
            ClientEvent::Record(header) => {
                let data = self.client.data().to_vec();
                self.record(header, &data);
            }
            ClientEvent::Nvt => {
                let bytes = self.client.data().to_vec();
                self.lock = None;
                self.nvt.write(&mut self.screen, &self.page, &bytes);
            }
            ClientEvent::Mode(mode) => self.changed_mode(mode),
            ClientEvent::Refused(reason) => return Some(TerminalEvent::Refused(reason)),
            ClientEvent::StartTls => return Some(TerminalEvent::StartTls),
            ClientEvent::Overlong => return Some(TerminalEvent::Overlong),
        }
        Some(TerminalEvent::Changed)
    }

    /// What is to be sent to the host; whoever sends it empties it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        self.client.output()
    }

    /// The stream is under TLS now: all is negotiated anew.
    pub fn tls_started(&mut self) {
        self.client.tls_started();
        self.partner = Partner::Unbound;
        self.lock = Some(Lock::NotReady);
    }

    /// Clears the screen as the key does, and tells nobody.
    pub(crate) fn clear(&mut self) {
        self.screen.clear();
    }

    /// The screen as it is.
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// What codes mean as characters.
    pub fn page(&self) -> &CodePage {
        &self.page
    }

    /// Why the keyboard takes nothing; `None`: it is free.
    pub fn lock(&self) -> Option<Lock> {
        self.lock
    }

    /// What is spoken with the host.
    pub fn mode(&self) -> Mode {
        self.client.mode()
    }

    /// The name of the logical unit that the host gave.
    pub fn device_name(&self) -> Option<&str> {
        self.client.device_name()
    }

    /// The name of the application, if the host said it; empty before.
    pub fn application(&self) -> String {
        self.application.iter().filter_map(|code| self.page.character(*code)).collect()
    }

    /// How often the host has sounded the alarm.
    pub fn alarms(&self) -> u64 {
        self.alarms
    }

    /// The rows of the screen as people see them.
    pub fn rows(&self) -> Vec<String> {
        text::rows(&self.screen, &self.page)
    }

    /// Puts the cursor somewhere; beyond the screen it stays where it is.
    pub fn move_cursor(&mut self, to: usize) {
        self.screen.move_cursor(to);
    }

    fn changed_mode(&mut self, mode: Mode) {
        match mode {
            Mode::Nvt => self.lock = None,
            Mode::Plain => self.lock = Some(Lock::NotReady),
            Mode::Negotiating => {
                self.partner = Partner::Unbound;
                self.lock = Some(Lock::NotReady);
            }
            Mode::Enhanced => {}
        }
    }

    fn record(&mut self, header: Header, data: &[u8]) {
        let bound = self.client.functions().has(Functions::BIND_IMAGE);
        match header.data_type {
            DataType::Data3270 => {
                if self.client.mode() == Mode::Enhanced && bound && !self.is_bound() {
                    return;
                }
                self.partner = Partner::Application;
                let outcome = self.data_stream(data);
                self.answer(header, outcome);
            }
            DataType::BindImage if bound => self.bind(data),
            DataType::Unbind if bound => self.unbind(),
            DataType::SscpLu if bound => {
                let positive = Ok(Done::Silent);
                self.system_services(data);
                self.answer(header, positive);
            }
            DataType::Nvt => {
                self.partner = Partner::Nvt;
                self.lock = None;
                self.nvt.write(&mut self.screen, &self.page, data);
            }
            _ => {}
        }
    }

    fn is_bound(&self) -> bool {
        self.partner == Partner::Application || !self.application.is_empty()
    }

    fn bind(&mut self, data: &[u8]) {
        let Some(bind) = Bind::parse(data, self.device.model.alternate()) else { return };
        if self.screen.sizes() != [bind.default_size, bind.alternate_size] {
            self.screen.resize(bind.default_size, bind.alternate_size);
        }
        self.application = bind.application;
        self.partner = Partner::Application;
    }

    fn unbind(&mut self) {
        let alternate = self.device.model.alternate();
        if self.screen.sizes() != [Size::MODEL_2, alternate] {
            self.screen.resize(Size::MODEL_2, alternate);
        }
        self.application.clear();
        self.partner = Partner::Unbound;
        self.lock = Some(Lock::NotReady);
    }

    /// Text of the system services: no orders, and new lines as on a typewriter.
    fn system_services(&mut self, data: &[u8]) {
        if !matches!(self.partner, Partner::SystemServices(_)) {
            self.screen.address = self.screen.cursor();
        }
        for code in data {
            let at = self.screen.address;
            if *code == format::NEW_LINE {
                let columns = self.screen.size().columns;
                let end = (at / columns + 1) * columns;
                for here in at..end {
                    self.screen.set_code(here, format::NULL, Style::default());
                }
                self.screen.address = end % self.screen.cells();
                continue;
            }
            let code = if *code < 0x40 && *code != format::NULL { 0x40 } else { *code };
            self.screen.set_code(at, code, Style::default());
            self.screen.address = self.screen.after(at);
        }
        self.screen.move_cursor(self.screen.address);
        self.partner = Partner::SystemServices(self.screen.address);
        self.free();
    }

    fn free(&mut self) {
        self.aid = Aid::None;
        self.lock = None;
    }

    fn data_stream(&mut self, data: &[u8]) -> Result<Done, Trouble> {
        let Some((&code, body)) = data.split_first() else { return Err(Trouble::CommandReject) };
        let command = Command::of(code).ok_or(Trouble::CommandReject)?;
        let outcome = self.command(command, body);
        if self.lock == Some(Lock::Waiting) {
            self.lock = Some(Lock::System);
        }
        outcome
    }

    fn command(&mut self, command: Command, body: &[u8]) -> Result<Done, Trouble> {
        match command {
            Command::Write => return self.write(body, Before::Kept),
            Command::EraseWrite => {
                self.screen.erase();
                return self.write(body, Before::Erased);
            }
            Command::EraseWriteAlternate => {
                self.screen.erase_alternate();
                return self.write(body, Before::Erased);
            }
            Command::EraseAllUnprotected => {
                outbound::erase_all_unprotected(&mut self.screen);
                self.free();
            }
            Command::WriteStructuredField => return self.structured_fields(body),
            Command::ReadBuffer | Command::ReadModified | Command::ReadModifiedAll => {
                self.send_read(command, self.aid);
                return Ok(Done::Answered);
            }
            Command::NoOperation => {}
        }
        Ok(Done::Silent)
    }

    fn write(&mut self, body: &[u8], before: Before) -> Result<Done, Trouble> {
        let mut wishes = Wishes::default();
        let outcome = outbound::write(&mut self.screen, body, before, &mut wishes);
        self.alarms += u64::from(wishes.alarm);
        if wishes.restore {
            self.free();
        }
        outcome.map(|()| Done::Silent)
    }

    fn structured_fields(&mut self, mut body: &[u8]) -> Result<Done, Trouble> {
        let mut done = Done::Silent;
        while let Some(field) = structured::next(&mut body) {
            match field? {
                StructuredField::Query if query::is_answered(&self.device) => {
                    self.send_replies(Query::All);
                    done = Done::Answered;
                }
                StructuredField::QueryList(codes) if query::is_answered(&self.device) => {
                    self.send_replies(Query::Listed(codes));
                    done = Done::Answered;
                }
                StructuredField::Query | StructuredField::QueryList(_) => {
                    return Err(Trouble::CommandReject);
                }
                StructuredField::ReadPartition(code) => {
                    let command = Command::of(code).ok_or(Trouble::CommandReject)?;
                    self.send_read(command, Aid::ReadPartition);
                    done = Done::Answered;
                }
                StructuredField::EraseDefault => self.screen.erase(),
                StructuredField::EraseAlternate => self.screen.erase_alternate(),
                StructuredField::SetReplyMode { mode, kinds } => {
                    self.screen.reply_mode = match mode {
                        0 => ReplyMode::Field,
                        1 => ReplyMode::ExtendedField,
                        _ => ReplyMode::Character(kinds.to_vec()),
                    };
                }
                StructuredField::Outbound { command, body } => self.outbound(command, body)?,
            }
        }
        Ok(done)
    }

    /// A command inside a structured field: only those that write.
    fn outbound(&mut self, code: u8, body: &[u8]) -> Result<(), Trouble> {
        let command = Command::of(code).ok_or(Trouble::CommandReject)?;
        let writes = matches!(
            command,
            Command::Write
                | Command::EraseWrite
                | Command::EraseWriteAlternate
                | Command::EraseAllUnprotected
        );
        if !writes {
            return Err(Trouble::CommandReject);
        }
        self.command(command, body).map(drop)
    }

    fn send_replies(&mut self, query: Query<'_>) {
        let [default_size, _] = self.screen.sizes();
        let of = Described { device: self.device, page: &self.page, default_size };
        let mut out = vec![Aid::StructuredField.code()];
        query::put_replies(&of, query, &mut out);
        self.send(&out);
    }

    fn send_read(&mut self, command: Command, aid: Aid) {
        let mut out = Vec::new();
        match command {
            Command::ReadBuffer => inbound::read_buffer(&self.screen, aid, &mut out),
            Command::ReadModifiedAll => {
                inbound::read_modified(&self.screen, aid, Wanted::ModifiedAll, &mut out);
            }
            _ => inbound::read_modified(&self.screen, aid, Wanted::Modified, &mut out),
        }
        self.send(&out);
    }

    fn send(&mut self, data: &[u8]) {
        let sequence = self.client.next_sequence();
        self.client.send(Header { sequence, ..Header::default() }, data);
    }

    /// The RESPONSE that a record asks for (RFC 2355 §10.4).
    fn answer(&mut self, header: Header, outcome: Result<Done, Trouble>) {
        if !self.client.functions().has(Functions::RESPONSES) {
            return;
        }
        let (response, byte) = match outcome {
            Ok(Done::Silent) if header.response == enhanced::ALWAYS_RESPONSE => {
                (enhanced::POSITIVE_RESPONSE, 0)
            }
            Err(trouble) if header.response != enhanced::NO_RESPONSE => {
                (enhanced::NEGATIVE_RESPONSE, trouble.code())
            }
            _ => return,
        };
        let sequence = header.sequence;
        let header = Header { data_type: DataType::Response, request: 0, response, sequence };
        self.client.send(header, &[byte]);
    }

    fn is_nvt(&self) -> bool {
        self.client.mode() == Mode::Nvt || self.partner == Partner::Nvt
    }

    /// Types characters as a person would; on the first that is not taken it stops.
    ///
    /// # Errors
    /// The keyboard is locked, or becomes so; or the code page lacks a character.
    pub fn type_text(&mut self, text: &str) -> Result<(), Refusal> {
        for character in text.chars() {
            if self.is_nvt() {
                let mut buffer = [0; 4];
                self.send_nvt(character.encode_utf8(&mut buffer).as_bytes());
                continue;
            }
            let code = self.page.code(character).ok_or(Refusal::NoSuchCharacter(character))?;
            self.local(|screen, typing, numeric| {
                keyboard::type_code(screen, code, typing, numeric)
            })?;
        }
        Ok(())
    }

    fn send_nvt(&mut self, bytes: &[u8]) {
        if self.client.mode() == Mode::Enhanced {
            let sequence = self.client.next_sequence();
            let header = Header { data_type: DataType::Nvt, sequence, ..Header::default() };
            self.client.send(header, bytes);
        } else {
            self.client.send_nvt(bytes);
        }
        if !self.client.host_echoes() {
            self.nvt.write(&mut self.screen, &self.page, bytes);
        }
    }

    /// Does something that the host does not hear of; an error locks the keyboard.
    fn local(
        &mut self,
        change: impl FnOnce(&mut Screen, Typing, NumericFields) -> Result<(), Lock>,
    ) -> Result<(), Refusal> {
        if let Some(lock) = self.lock {
            return Err(Refusal::Locked(lock));
        }
        change(&mut self.screen, self.typing, self.numeric).map_err(|lock| {
            self.lock = Some(lock);
            Refusal::Locked(lock)
        })
    }

    fn moved(&mut self, change: impl FnOnce(&mut Screen)) -> Result<(), Refusal> {
        self.local(|screen, _, _| {
            change(screen);
            Ok(())
        })
    }

    /// Presses a key.
    ///
    /// # Errors
    /// The keyboard is locked, or becomes so.
    pub fn press(&mut self, key: Key) -> Result<(), Refusal> {
        match key {
            Key::Aid(aid) => return self.send_aid(aid),
            Key::SysReq => self.system_request(),
            Key::Attention => {
                let enhanced = self.client.mode() == Mode::Enhanced;
                self.client.send_command(if enhanced { telnet::IP } else { telnet::BREAK });
            }
            Key::Reset => {
                self.typing = Typing::Over;
                if !matches!(self.lock, Some(Lock::NotReady | Lock::Waiting)) {
                    self.lock = None;
                }
            }
            Key::Insert => {
                self.typing = match self.typing {
                    Typing::Over => Typing::Insert,
                    Typing::Insert => Typing::Over,
                };
            }
            Key::Tab => return self.moved(keyboard::tab),
            Key::BackTab => return self.moved(keyboard::back_tab),
            Key::Home => return self.moved(keyboard::home),
            Key::NewLine => return self.moved(keyboard::new_line),
            Key::FieldEnd => return self.moved(keyboard::end_of_field),
            Key::Move(direction) => {
                return self.moved(|screen| keyboard::step(screen, direction));
            }
            Key::EraseInput => return self.moved(outbound::erase_all_unprotected),
            Key::Backspace => return self.local(|screen, _, _| keyboard::backspace(screen)),
            Key::Delete => return self.local(|screen, _, _| keyboard::delete(screen)),
            Key::EraseEof => return self.local(|screen, _, _| keyboard::erase_to_end(screen)),
            Key::Dup => {
                return self.local(|screen, _, numeric| keyboard::duplicate(screen, numeric));
            }
            Key::FieldMark => {
                return self.local(|screen, typing, numeric| {
                    keyboard::type_code(screen, format::FIELD_MARK, typing, numeric)
                });
            }
            Key::CursorSelect => return self.select(),
        }
        Ok(())
    }

    fn select(&mut self) -> Result<(), Refusal> {
        let mut selected = Selected::Marked;
        self.local(|screen, _, _| {
            selected = keyboard::select(screen)?;
            Ok(())
        })?;
        match selected {
            Selected::Marked => Ok(()),
            Selected::Attention => self.send_aid(Aid::Select),
            Selected::Enter => self.send_aid(Aid::Enter),
        }
    }

    /// With TN3270E the system services are asked for out of band, else by a key of their own.
    fn system_request(&mut self) {
        if self.client.mode() == Mode::Enhanced {
            if self.client.functions().has(Functions::SYSREQ) {
                self.client.send_command(telnet::AO);
            }
        } else {
            self.send_read(Command::ReadModified, Aid::TestRequest);
        }
    }

    fn send_aid(&mut self, aid: Aid) -> Result<(), Refusal> {
        if self.is_nvt() {
            if aid == Aid::Enter {
                self.send_nvt(b"\r\n");
            }
            return Ok(());
        }
        if let Some(lock) = self.lock {
            return Err(Refusal::Locked(lock));
        }
        if let Partner::SystemServices(start) = self.partner {
            if aid != Aid::Enter {
                return Ok(());
            }
            let mut out = Vec::new();
            inbound::read_system_services(&self.screen, start, &mut out);
            let sequence = self.client.next_sequence();
            let header = Header { data_type: DataType::SscpLu, sequence, ..Header::default() };
            self.client.send(header, &out);
        } else {
            if aid == Aid::Clear {
                self.screen.clear();
            }
            self.aid = aid;
            self.send_read(Command::ReadModified, aid);
        }
        self.typing = Typing::Over;
        self.lock = Some(Lock::Waiting);
        Ok(())
    }
}

/// How a record was processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// Nothing went back.
    Silent,
    /// Data went back, which is the answer.
    Answered,
}
