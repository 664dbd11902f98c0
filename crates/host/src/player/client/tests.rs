//! A client and a terminal in one process: bytes go from the one to the other.

use entrepot_tn3270_proto::client::{ClientOptions, Wish};
use entrepot_tn3270_proto::model::Device;
use entrepot_tn3270_proto::{Aid, CodePage, Key, NumericFields, Terminal, TerminalOptions};

use super::*;

/// A logo without an unlock, which the next write brings; a sign-on with a hidden field, of which
/// one part is written over; a menu.
const TRACE: &str = "\
< 0x0   fffd18
> 0x0   fffb18
< 0x0   fffa1801fff0
> 0x0   fffa180049424d2d333237382d322d45fff0
< 0x0   fffd19fffb19fffd00fffb00
> 0x0   fffb19fffd19fffb00fffd00
< 0x0   f5c11d60d3d6c7d6ffeff1c3ffef
> 0x0   7d4040ffef
< 0x0   f5c31140401d60e2c9c7d511c1501d401311c2601d4c11c3f01d60ffef
> 0x0   7dc1d111c1d1c1c211c261e7e7ffef
< 0x0   f1c211c4d11d60d5d6ffef
> 0x0   7dc1d111c1d1c1c211c261e7e7ffef
< 0x0   f5c31140401d60d4c5d5e4ffef
> 0x0   f34040ffef
";

fn recording(text: &str) -> Arc<Recording> {
    let page = Arc::new(CodePage::new(37).unwrap());
    Arc::new(Recording::compile("test", text, page).unwrap())
}

struct Pair {
    terminal: Terminal,
    client: PlayedClient,
    /// What the driver of the client was to do, in order.
    actions: Vec<Action>,
}

impl Pair {
    fn new(text: &str, treatment: Treatment, enhanced: Wish, device: &str) -> Pair {
        let device = Device::named(device).unwrap();
        let options = TerminalOptions {
            client: ClientOptions { device, ..ClientOptions::default() },
            page: Arc::new(CodePage::new(37).unwrap()),
            numeric: NumericFields::default(),
        };
        let offered = HostOptions {
            enhanced,
            functions: Functions::DISPLAY,
            start_tls: Wish::Refuse,
            device_name: "PLAY0001".to_owned(),
        };
        let client = PlayedClient::new(recording(text), treatment, offered);
        let terminal = Terminal::new(options);
        let mut pair = Pair { terminal, client, actions: Vec::new() };
        pair.exchange();
        pair
    }

    /// Until neither has anything to say.
    fn exchange(&mut self) {
        loop {
            let sent = std::mem::take(self.client.output());
            let mut input = sent.as_slice();
            while self.terminal.next(&mut input).is_some() {}
            let sent = std::mem::take(self.terminal.output());
            let mut input = sent.as_slice();
            while let Some(action) = self.client.next(&mut input) {
                self.actions.push(action);
                let released = self.client.release();
                self.actions.extend(released);
            }
            if self.client.output().is_empty() && sent.is_empty() {
                return;
            }
        }
    }

    fn press(&mut self, aid: Aid) -> Option<Action> {
        self.actions.clear();
        self.terminal.press(Key::Aid(aid)).unwrap();
        self.exchange();
        self.actions.last().copied()
    }

    fn sign_on(&mut self, user: &str, password: &str) -> Option<Action> {
        self.terminal.press(Key::EraseInput).unwrap();
        self.terminal.type_text(user).unwrap();
        self.terminal.press(Key::Tab).unwrap();
        self.terminal.type_text(password).unwrap();
        self.press(Aid::Enter)
    }

    fn shows(&self, text: &str) -> bool {
        self.terminal.lock().is_none() && self.terminal.rows().concat().contains(text)
    }
}

const RECORDED: Option<Action> = Some(Action::Answer(Answer::Recorded));
const AGAIN: Option<Action> = Some(Action::Answer(Answer::Again));

fn pair(treatment: Treatment) -> Pair {
    Pair::new(TRACE, treatment, Wish::Accept, "IBM-3278-2-E")
}

fn with(no_match: NoMatch) -> Treatment {
    Treatment { no_match, ..Treatment::default() }
}

#[test]
fn a_recording_is_played_with_and_without_tn3270e() {
    for enhanced in [Wish::Accept, Wish::Refuse] {
        for device in ["IBM-3278-2-E", "IBM-3278-2"] {
            let mut pair = Pair::new(TRACE, Treatment::default(), enhanced, device);
            assert!(pair.shows("LOGO"));
            assert_eq!(pair.press(Aid::Enter), RECORDED);
            assert!(pair.shows("SIGN"));
            // The password is another one.
            assert_eq!(pair.sign_on("AB", "QQQ"), RECORDED);
            assert!(pair.shows("SIGN") && pair.shows("NO"));
            assert_eq!(pair.press(Aid::Enter), RECORDED);
            assert!(pair.shows("MENU") && !pair.shows("SIGN"));
            // The recording ends with this key.
            assert_eq!(pair.press(Aid::Pf(3)), Some(Action::Close));
        }
    }
}

#[test]
fn a_key_that_is_not_awaited_brings_the_screen_again() {
    let mut pair = pair(Treatment::default());
    assert_eq!(pair.press(Aid::Pf(1)), AGAIN);
    assert!(pair.shows("LOGO"));
    pair.press(Aid::Enter);
    pair.sign_on("AB", "X");
    assert_eq!(pair.press(Aid::Clear), AGAIN);
    // The whole of it, although its last record was no more than a part.
    assert!(pair.shows("SIGN") && pair.shows("NO"));
    assert_eq!(pair.sign_on("OTHER", "X"), AGAIN);
    assert_eq!(pair.sign_on("AB", "X"), RECORDED);
    assert!(pair.shows("MENU"));
}

#[test]
fn another_key_can_be_searched_ahead_or_everywhere_or_close_the_connection() {
    let mut ahead = pair(with(NoMatch::Forward));
    assert_eq!(ahead.press(Aid::Pf(3)), Some(Action::Close), "the last key of the recording");
    let anew = Treatment { at_end: AtEnd::BeginAnew, ..with(NoMatch::Forward) };
    let mut ahead = pair(anew);
    assert_eq!(ahead.press(Aid::Pf(3)), RECORDED);
    assert!(ahead.shows("LOGO"));
    let at_menu = |no_match| {
        let mut pair = pair(with(no_match));
        pair.press(Aid::Enter);
        pair.sign_on("AB", "X");
        pair.press(Aid::Enter);
        assert!(pair.shows("MENU"));
        pair
    };
    // A key without fields stands at the begin only.
    let mut everywhere = at_menu(NoMatch::Search);
    assert_eq!(everywhere.press(Aid::Enter), RECORDED);
    assert!(everywhere.shows("SIGN"));
    assert_eq!(at_menu(NoMatch::Forward).press(Aid::Enter), AGAIN);
    assert_eq!(at_menu(NoMatch::Drop).press(Aid::Enter), Some(Action::Close));
}

#[test]
fn the_first_screen_comes_anew_behind_the_last() {
    let until_menu = TRACE.rsplit_once("> ").unwrap().0;
    let anew = Treatment { matching: Match::Any, at_end: AtEnd::BeginAnew, ..Treatment::default() };
    let mut pair = Pair::new(until_menu, anew, Wish::Accept, "IBM-3278-2-E");
    for round in 0..3 {
        assert!(pair.shows("LOGO"), "{round}");
        (0..3).for_each(|_| assert_eq!(pair.press(Aid::Pf(24)), RECORDED));
        assert!(pair.shows("MENU"), "{round}");
        assert_eq!(pair.press(Aid::Clear), RECORDED);
    }
    // Without it the last screen stays.
    let mut pair = Pair::new(until_menu, Treatment::default(), Wish::Accept, "IBM-3278-2-E");
    pair.press(Aid::Enter);
    pair.sign_on("AB", "X");
    pair.press(Aid::Enter);
    assert_eq!(pair.press(Aid::Enter), AGAIN);
    assert!(pair.shows("MENU"));
}

/// z/VM asks what the terminal is able to do before it shows anything.
#[test]
fn questions_about_the_terminal_are_passed_over_where_nobody_answers_them() {
    let text = include_str!("../../../../tn3270-proto/tests/traces/sruvm.trc");
    for device in ["IBM-3279-4-E", "IBM-3279-4"] {
        let mut pair = Pair::new(text, Treatment::default(), Wish::Accept, device);
        assert!(pair.shows("RUNNING"), "{device}");
        pair.terminal.move_cursor(41 * 80 + 16);
        pair.terminal.type_text("logoff").unwrap();
        assert_eq!(pair.press(Aid::Enter), RECORDED);
        assert!(pair.shows("LOGOFF AT"), "{:#?}", pair.terminal.rows());
    }
}

#[test]
fn a_text_without_a_host_is_no_recording() {
    let page = Arc::new(CodePage::new(37).unwrap());
    for text in ["", "< 0x0 68656c6c6f0a\n", "> 0x0 7d4040ffef\n"] {
        let error = Recording::compile("x.trc", text, Arc::clone(&page)).unwrap_err();
        assert_eq!(error.code(), "EP1304");
    }
}
