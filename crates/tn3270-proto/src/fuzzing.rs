//! One entry for the fuzzer: the first byte says what the others are.

use std::sync::{Arc, OnceLock};

use crate::address::Addressing;
use crate::client::{ClientOptions, Wish};
use crate::code_page::CodePage;
use crate::codes::Aid;
use crate::enhanced::Functions;
use crate::host::{Host, HostEvent, HostOptions};
use crate::key::Key;
use crate::keyboard::{Direction, NumericFields};
use crate::model::{Device, Model, Size};
use crate::observer::{Observer, Seen};
use crate::terminal::{Terminal, TerminalEvent, TerminalOptions};
use crate::trace::Origin;
use crate::typed::{Typed, TypedField, mask_hidden};
use crate::{telnet, trace};

/// Feeds bytes of a fuzzer to the terminal (as a stream of telnet, or as one record of plain TN3270
/// or TN3270E), to the host's side, to the reader of traces, or to an observer.
pub fn fuzz(bytes: &[u8]) {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    match kind % 6 {
        0 => stream(terminal(kind), rest),
        1 => records(&[255, 251, 0, 255, 253, 0, 255, 251, 25, 255, 253, 25], kind, rest),
        2 => records(&ENHANCED, kind, rest),
        3 => host(kind, rest),
        4 => observed(rest),
        _ => {
            let text = String::from_utf8_lossy(rest);
            for block in trace::read(&text) {
                assert_eq!(trace::read(&trace::write(&block)), [block]);
            }
        }
    }
}

/// What a host says until TN3270E is agreed.
const ENHANCED: [u8; 28] = [
    255, 253, 40, 255, 250, 40, 2, 4, b'I', b'B', b'M', 1, b'L', 255, 240, 255, 250, 40, 3, 4, 0,
    2, 4, 255, 240, 255, 253, 6,
];

fn terminal(kind: u8) -> Terminal {
    static PAGE: OnceLock<Option<Arc<CodePage>>> = OnceLock::new();
    let page = PAGE.get_or_init(|| CodePage::new(37).map(Arc::new));
    let models =
        [Model::Two, Model::Five, Model::Dynamic(Size { rows: 1, columns: 1 }), Model::Four];
    let model = models.get(usize::from(kind) / 5 % 4).copied().unwrap_or(Model::Two);
    Terminal::new(TerminalOptions {
        client: ClientOptions {
            device: Device { model, ..Device::default() },
            ..ClientOptions::default()
        },
        // The page is built in.
        page: Arc::clone(page.as_ref().expect("code page 37 is built in")),
        numeric: NumericFields::TakeNumbers,
    })
}

/// Pieces of the stream come from either side.
fn observed(bytes: &[u8]) {
    // The page is built in.
    let page = Arc::new(CodePage::new(37).expect("code page 37 is built in"));
    let mut observer = Observer::new(page);
    for (number, mut piece) in bytes.chunks(61).enumerate() {
        let origin = if number % 2 == 0 { Origin::Host } else { Origin::Terminal };
        while let Some(seen) = observer.next(origin, &mut piece) {
            if let Seen::Record { data, .. } = &seen
                && let Some(typed) = Typed::parse(data, Addressing::default())
            {
                let length = |field: &TypedField<'_>| field.codes.len();
                assert!(typed.fields.iter().map(length).sum::<usize>() <= data.len());
                mask_hidden(&mut data.clone(), observer.screen());
            }
        }
    }
}

const KEYS: [Key; 12] = [
    Key::Tab,
    Key::BackTab,
    Key::Home,
    Key::NewLine,
    Key::Move(Direction::Up),
    Key::FieldEnd,
    Key::Backspace,
    Key::Delete,
    Key::EraseEof,
    Key::Dup,
    Key::CursorSelect,
    Key::Aid(Aid::Enter),
];

fn stream(mut terminal: Terminal, bytes: &[u8]) {
    for (number, piece) in bytes.chunks(97).enumerate() {
        let mut input = piece;
        while let Some(event) = terminal.next(&mut input) {
            match event {
                TerminalEvent::StartTls => terminal.tls_started(),
                TerminalEvent::Overlong => return,
                TerminalEvent::Changed | TerminalEvent::Refused(_) => {}
            }
        }
        let _ = terminal.type_text("a1");
        if let Some(key) = KEYS.get(number % KEYS.len()) {
            let _ = terminal.press(*key);
        }
        let _ = terminal.press(Key::Reset);
        assert_eq!(terminal.rows().len(), terminal.screen().size().rows);
        terminal.output().clear();
    }
}

/// Records are separated by IAC EOR that the fuzzer need not find.
fn records(negotiation: &[u8], kind: u8, bytes: &[u8]) {
    let mut all = negotiation.to_vec();
    for record in bytes.split(|byte| *byte == 0xef) {
        telnet::put_data(&mut all, record);
        telnet::put_end_of_record(&mut all);
    }
    stream(terminal(kind), &all);
}

fn host(kind: u8, bytes: &[u8]) {
    let wish = |bit: u8| if kind & bit != 0 { Wish::Accept } else { Wish::Refuse };
    let mut host = Host::new(HostOptions {
        enhanced: wish(0x80),
        functions: Functions::DISPLAY,
        start_tls: wish(0x40),
        device_name: "LU".to_owned(),
    });
    for mut input in bytes.chunks(13) {
        while let Some(event) = host.next(&mut input) {
            match event {
                HostEvent::StartTls => host.tls_started(),
                HostEvent::Record(header) => {
                    let data = host.data().to_vec();
                    host.send(header, &data);
                }
                _ => {}
            }
        }
        host.output().clear();
    }
}
