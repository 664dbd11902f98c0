//! Entry point of the fuzzer: both machines and the parsers on any bytes, whole and in pieces.

use std::net::SocketAddr;
use std::time::Duration;

use crate::answer::{Answer, End, Login, Refusal, Why};
use crate::ascii::{FromNetwork, ToNetwork};
use crate::client::{Account, Client, Event, Form, Op, Parser};
use crate::entry::{Kind, Rights, Stat};
use crate::limits::{INFLATE_FREE_BYTES, INFLATE_RATIO, LINE_BYTES, REPLY_LINES};
use crate::request::{Channel, Data, Request};
use crate::server::Server;
use crate::settings::{Settings, TlsMode};
use crate::time::Time;
use crate::zlib::Inflate;
use crate::{hostport, path, pattern};

/// Feeds one of them. The first byte chooses: server (0), server with TLS (1), client (2),
/// listings (3), the other parsers (4); the second is the size of the pieces, the third decides
/// what the other side answers; the rest is what the peer sends.
///
/// # Panics
/// If pieces give another result than the whole, or a limit is broken: what the fuzzer looks for.
pub fn fuzz(bytes: &[u8]) {
    let Some(([role, piece, seed], stream)) = bytes.split_first_chunk::<3>() else { return };
    let piece = usize::from(*piece).saturating_add(1);
    let whole = stream.len().max(1);
    match role % 5 {
        0 => {
            let settings = settings(*seed);
            assert_eq!(
                serve(stream, whole, *seed, settings.clone()),
                serve(stream, piece, *seed, settings)
            );
        }
        // What is thrown away behind AUTH depends on the pieces.
        1 => {
            let mut settings = settings(*seed);
            settings.tls = TlsMode::Explicit;
            settings.clear_control = true;
            drop(serve(stream, piece, *seed, settings));
        }
        2 => assert_eq!(consume(stream, whole, *seed), consume(stream, piece, *seed)),
        3 => {
            let now = Time::from_seconds(1_800_000_000);
            for form in [Form::Facts, Form::Long { now }] {
                assert_eq!(list(stream, whole, form), list(stream, piece, form));
            }
        }
        _ => parse(stream, piece),
    }
}

/// Numbers that depend on the seed and on how many were drawn.
struct Draw(u32);

impl Draw {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % below
    }
}

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_000))
}

/// What a server without TLS offers, by the seed.
fn settings(seed: u8) -> Settings {
    let mut settings = Settings::new(peer(), peer());
    settings.hooked = seed & 1 == 1;
    settings.accounts = seed & 2 == 2;
    settings.ask_user = seed & 4 == 4;
    settings.site.shutdown = true;
    settings.compression = Some(6);
    settings.creation_times = true;
    settings.host = true;
    settings
}

/// All that the server machine asks and says of a stream, as text.
fn serve(stream: &[u8], piece: usize, seed: u8, settings: Settings) -> (Vec<String>, Said) {
    let mut server = Server::new(settings, Duration::ZERO);
    let mut adapter = Adapter {
        draw: Draw(u32::from(seed)),
        asked: Vec::new(),
        said: Vec::new(),
        running: false,
    };
    adapter.run(&mut server);
    for input in stream.chunks(piece) {
        server.receive(input, Duration::ZERO);
        adapter.run(&mut server);
    }
    let (text, mut telnet) = apart(&adapter.said);
    replies(&text);
    if adapter.asked.iter().any(|asked| asked == "Close") {
        // What stands behind a QUIT is answered if it came with it.
        telnet.clear();
    }
    (adapter.asked, (text, telnet))
}

/// Replies, and answers to Telnet: where these stand among those depends on the pieces.
type Said = (Vec<u8>, Vec<u8>);

struct Adapter {
    draw: Draw,
    asked: Vec<String>,
    said: Vec<u8>,
    /// A transfer runs; it ends when something else is asked.
    running: bool,
}

impl Adapter {
    fn run(&mut self, server: &mut Server) {
        loop {
            if let Some(request) = server.poll_request() {
                self.asked.push(format!("{request:?}"));
                self.handle(server, &request);
            } else if server.output().is_empty() {
                return;
            }
            self.said.extend_from_slice(server.output());
            server.written(server.output().len());
        }
    }

    fn handle(&mut self, server: &mut Server, request: &Request) {
        let now = Duration::ZERO;
        check(request);
        match request {
            Request::After { .. } | Request::Logout | Request::DropData | Request::Close => {}
            Request::Retrieve { .. } | Request::Store { .. } | Request::List { .. } => {
                assert!(!std::mem::replace(&mut self.running, true), "two transfers");
                let started = Answer::TransferStarted {
                    connected: self.draw.next(2) == 0,
                    size: Some(5),
                    name: Some("chosen".to_owned()),
                };
                server.answer(started, now);
                if self.draw.next(3) > 0 {
                    self.end(server, End::Complete);
                }
            }
            Request::Abort => self.end(server, End::Aborted),
            request => {
                if self.running && self.draw.next(2) == 0 {
                    self.end(server, End::Cut);
                }
                if self.draw.next(9) == 0 && !matches!(request, Request::StartTls) {
                    server.answer(Answer::Refused(Refusal::new(Why::Busy)), now);
                } else {
                    server.answer(fitting(request), now);
                }
            }
        }
    }

    fn end(&mut self, server: &mut Server, end: End) {
        if std::mem::take(&mut self.running) {
            server.answer(Answer::TransferEnded(end), Duration::ZERO);
        }
    }
}

/// What a request may never be.
fn check(request: &Request) {
    let clean = |path: &str| {
        assert!(path.starts_with('/'), "a path is not absolute");
        assert!(!path.split('/').any(|name| name == ".." || name == "."), "a path climbs");
        assert!(!path.contains(['\0', '\r', '\n']), "a path breaks lines");
    };
    match request {
        Request::Retrieve { path, channel: Channel { data, .. }, .. }
        | Request::Store { path, channel: Channel { data, .. }, .. } => {
            clean(path);
            if let Data::Active(address) = data {
                assert!(address.ip() == peer().ip() && address.port() >= 1024, "a bounce");
            }
        }
        Request::Rename { from: path, to } | Request::Copy { from: path, to } => {
            clean(path);
            clean(to);
            assert!(!to.chars().any(char::is_control), "a new name with control characters");
        }
        Request::ChangeDir(path) | Request::Delete(path) | Request::Entry(path) => clean(path),
        Request::Change { path, .. } | Request::Hash { path, .. } => clean(path),
        _ => {}
    }
}

fn fitting(request: &Request) -> Answer {
    let stat = Stat {
        kind: Kind::File,
        size: 5,
        modified: None,
        created: None,
        mode: 0o644,
        rights: Rights::READ,
        unique: Some(1),
    };
    match request {
        Request::Before(_) => Answer::Proceed,
        Request::User(_) => Answer::NeedPassword,
        Request::Password { .. } => {
            Answer::LoggedIn(Login { administrator: true, ..Login::at_root() })
        }
        Request::StartTls => Answer::TlsStands,
        Request::Size { .. } | Request::Space(_) | Request::TreeSize(_) => Answer::Number(5),
        Request::Progress => Answer::Number(1),
        Request::Change { changes, .. } if changes.mode.is_some() => Answer::Mode(0o644),
        Request::Modified(_) => Answer::Modified(Time::default()),
        Request::Entry(_) => Answer::Entry(stat),
        Request::Hash { .. } => Answer::Digest { digest: vec![1, 2], start: 0, end: 5 },
        Request::StatPath(_) => {
            let entries = vec![("name".to_owned(), stat)];
            Answer::Listing { directory: true, entries, now: Time::default() }
        }
        Request::Passive { .. } => Answer::Passive(peer()),
        _ => Answer::Done,
    }
}

fn apart(said: &[u8]) -> Said {
    let (mut rest, mut text, mut telnet) = (said, Vec::new(), Vec::new());
    while let Some((first, more)) = rest.split_first() {
        if *first == 255 {
            telnet.extend_from_slice(more.get(..2).unwrap_or(more));
            rest = more.get(2..).unwrap_or(&[]);
        } else {
            text.push(*first);
            rest = more;
        }
    }
    (text, telnet)
}

/// What we say must be replies of the strict form.
fn replies(said: &[u8]) {
    let text = String::from_utf8_lossy(said);
    assert!(text.ends_with("\r\n"), "a reply without its end");
    let mut open: Option<String> = None;
    for line in text.split_terminator("\r\n") {
        assert!(!line.chars().any(char::is_control), "control characters in a reply");
        let (code, rest) = line.split_at_checked(3).unwrap_or(("", ""));
        let digits = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
        match &open {
            None => {
                assert!(digits, "no reply: {line}");
                if rest.starts_with('-') {
                    open = Some(code.to_owned());
                }
            }
            Some(begun) if digits => {
                assert!(code == begun && rest.starts_with(' '), "not the end: {line}");
                open = None;
            }
            Some(_) => assert!(line.starts_with(' '), "a line between without a blank: {line}"),
        }
    }
    assert!(open.is_none(), "a reply was left open");
}

/// What the client machine tells of a stream, as text. It asks one thing after the other.
fn consume(stream: &[u8], piece: usize, seed: u8) -> Vec<String> {
    let mut account = Account::new("user", "word").with_account("red");
    if seed & 1 == 1 {
        account.mode = crate::client::Mode::Active;
    }
    let mut client = Client::new(account, peer());
    let mut draw = Draw(u32::from(seed));
    let mut told = Vec::new();
    for input in stream.chunks(piece) {
        client.receive(input);
        loop {
            match client.poll_event() {
                Ok(Some(event)) => {
                    told.push(format!("{event:?}"));
                    react(&mut client, &event, &mut draw);
                }
                Ok(None) => break,
                Err(fault) => {
                    told.push(format!("{fault:?}"));
                    return told;
                }
            }
        }
        client.written(usize::MAX);
    }
    told
}

fn react(client: &mut Client, event: &Event, draw: &mut Draw) {
    match event {
        Event::StartTls => client.tls_stands(),
        Event::Listen { .. } => client.listening(peer()),
        Event::Transfer(_) if draw.next(4) == 0 => client.abort(),
        Event::Transfer(_) if draw.next(4) > 0 => client.data_moved(),
        Event::Transfer(_) => client.data_failed(),
        Event::Done(_) | Event::Failed(_) => {
            let path = || "f".to_owned();
            let op = match draw.next(10) {
                0 => Op::Retrieve { path: path(), offset: 3 },
                1 => Op::Store { path: path(), offset: 0 },
                2 => Op::List { path: path() },
                3 => Op::Entry(path()),
                4 => Op::Size(path()),
                5 => Op::Modified(path()),
                6 => Op::Rename { from: path(), to: path() },
                7 => Op::Append { path: path() },
                8 => Op::WorkingDir,
                _ => Op::Noop,
            };
            // After a failed login nothing begins.
            let begun = client.begin(op);
            assert!(begun.is_ok() || begun == Err(crate::client::NotBegun::Ended));
        }
        Event::Connect { address, .. } => assert_eq!(address.ip(), peer().ip(), "a bounce"),
        Event::DropData => {}
    }
}

fn list(stream: &[u8], piece: usize, form: Form) -> (Vec<String>, bool) {
    let (mut parser, mut entries) = (Parser::new(form), Vec::new());
    let failed = stream.chunks(piece).any(|piece| parser.push(piece, &mut entries).is_err());
    if !failed {
        entries.extend(parser.finish());
    }
    for entry in &entries {
        assert!(!entry.name.contains(['/', '\n', '\r', '\0']), "a name leads elsewhere");
        assert!(!entry.name.is_empty() && entry.name.len() <= 2 * LINE_BYTES);
    }
    (entries.iter().map(|entry| format!("{entry:?}")).collect(), failed)
}

/// What a compressed upload means, and that it is not more than it may be.
fn inflate(stream: &[u8], piece: usize) -> Option<(u64, u8, bool)> {
    let (mut inflate, mut block) = (Inflate::default(), Vec::new());
    let (mut count, mut sum) = (0, 0_u8);
    for mut data in stream.chunks(piece) {
        while inflate.next(&mut data, &mut block).ok()? {
            count += block.len() as u64;
            sum = block.iter().fold(sum, |sum, byte| sum.rotate_left(1) ^ byte);
        }
        assert!(data.is_empty());
        assert!(count <= INFLATE_FREE_BYTES.max(stream.len() as u64 * INFLATE_RATIO));
    }
    Some((count, sum, inflate.is_whole()))
}

fn parse(stream: &[u8], piece: usize) {
    let text = String::from_utf8_lossy(stream);
    let _ = (hostport::parse_port(&text), hostport::parse_eprt(&text));
    let _ = (hostport::parse_227(&text), hostport::parse_229(&text));
    let _ = (Time::parse(&text), Time::parse_short(&text), path::unquote(&text));
    let _ = (path::resolve("/a", &text), crate::facts::FactSet::parse(&text));
    if let Some((left, right)) = text.split_once('\n') {
        let _ = pattern::matches(left, right);
    }
    let convert = |piece: usize| {
        let (mut wire, mut file) = (Vec::new(), Vec::new());
        let (mut to, mut from) = (ToNetwork::new(), FromNetwork::new());
        stream.chunks(piece).for_each(|piece| to.convert(piece, &mut wire));
        stream.chunks(piece).for_each(|piece| from.convert(piece, &mut file));
        from.finish(&mut file);
        (wire, file)
    };
    assert_eq!(convert(stream.len().max(1)), convert(piece));
    assert_eq!(inflate(stream, stream.len().max(1)), inflate(stream, piece));
    let lines = text.lines().count();
    let mut out = Vec::new();
    crate::reply::write(&mut out, 550, &text);
    replies(&out);
    assert!(lines > REPLY_LINES || out.len() <= 4 * stream.len() + 12 + 6 * lines);
}
