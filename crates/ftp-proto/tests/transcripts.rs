//! Replays `transcripts/*.txt` against the server machine over files in memory: as written, and
//! once more byte by byte.
//!
//! `#` comment · `>` a line of the client · `>>` raw bytes (`\r \n \0 \xNN`) · `=` what the
//! machine asks · `<` a reply · `*` bytes on the data connection · `@word …` settings, files and
//! what the adapter does. A line goes in by one call. With `UPDATE_TRANSCRIPTS=1` the
//! answers are written instead of compared.

mod common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::model::Model;
use entrepot_ftp_proto::{
    AsciiPolicy, Encoding, End, Refusal, Settings, TlsMode, Why, table::SITE_VERBS, table::VERBS,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

fn transcripts() -> Vec<(PathBuf, String)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "the transcripts are not there");
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// The bytes of a quoted text.
fn raw(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next().unwrap() {
                b'n' => b'\n',
                b'r' => b'\r',
                b'0' => 0,
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            },
            other => other,
        });
    }
    bytes
}

fn setting(settings: &mut Settings, word: &str) {
    match word {
        "explicit" => settings.tls = TlsMode::Explicit,
        "implicit" => settings.tls = TlsMode::Implicit,
        "require-tls" => settings.require_tls = true,
        "protect-data" => settings.protect_data = true,
        "ccc" => settings.clear_control = true,
        "hooked" => settings.hooked = true,
        "certificates" => settings.ask_user = true,
        "accounts" => settings.accounts = true,
        "hosts" => settings.host = true,
        "compression" => settings.compression = Some(6),
        "creation-times" => settings.creation_times = true,
        "administration" => (settings.site.limit, settings.site.shutdown) = (true, true),
        "no-active" => settings.active.allowed = false,
        "no-passive" => settings.passive = false,
        "no-digests" => settings.algorithms.clear(),
        "ascii-binary" => settings.ascii = AsciiPolicy::Binary,
        "ascii-refuse" => settings.ascii = AsciiPolicy::Refuse,
        "latin1" => settings.encoding = Encoding::Latin1,
        "fxp" => settings.active.others = vec![("192.0.2.0".parse().unwrap(), 24)],
        "ipv6" => {
            settings.peer = "[2001:db8::1]:40000".parse().unwrap();
            settings.local = "[2001:db8::2]:21".parse().unwrap();
        }
        other => panic!("no setting is named '{other}'"),
    }
}

fn ended(word: &str) -> End {
    match word {
        "complete" => End::Complete,
        "no-connection" => End::NoConnection,
        "cut" => End::Cut,
        "tls" => End::TlsRefused,
        "drained" => End::Drained,
        "full" => End::Refused(Refusal::new(Why::NoSpace)),
        other => panic!("no end is named '{other}'"),
    }
}

fn refusal(word: &str) -> Refusal {
    let why = match word {
        "denied" => Why::Denied,
        "name" => Why::Name,
        "busy" => Why::Busy,
        "quota" => Why::Quota,
        "later" => Why::NoRoomNow,
        "store" => Why::Store,
        "unsupported" => Why::Unsupported,
        "offset" => Why::Offset,
        "policy" => Why::Policy,
        "digest-denied" => Why::DigestDenied,
        "digest-busy" => Why::DigestBusy,
        "no-port" => Why::NoData,
        "closing" => Why::Closing,
        other => panic!("no reason is named '{other}'"),
    };
    Refusal::new(why)
}

/// One replay.
struct Replay {
    model: Model,
    input: Vec<u8>,
    bytewise: bool,
    out: String,
}

impl Replay {
    fn new(text: &str, bytewise: bool) -> Replay {
        let peer = "127.0.0.1:40000".parse().unwrap();
        let mut settings = Settings::new(peer, "127.0.0.1:21".parse().unwrap());
        let words = text.lines().filter_map(|line| line.strip_prefix("@settings "));
        words.flat_map(str::split_whitespace).for_each(|word| setting(&mut settings, word));
        let mut model = Model::new(settings);
        model.log = Some(String::new());
        Replay { model, input: Vec::new(), bytewise, out: String::new() }
    }

    fn flush(&mut self) {
        let input = std::mem::take(&mut self.input);
        let size = if self.bytewise { 1 } else { input.len().max(1) };
        for piece in input.chunks(size) {
            self.model.receive(piece);
        }
        self.model.run();
        self.out += &std::mem::take(self.model.log.as_mut().unwrap());
        let download = std::mem::take(&mut self.model.download);
        for line in String::from_utf8_lossy(&download).split_inclusive('\n') {
            writeln!(self.out, "* {}", line.escape_debug()).unwrap();
        }
    }

    fn directive(&mut self, word: &str, rest: &str) {
        let model = &mut self.model;
        match word {
            "@settings" => {}
            "@file" => {
                let (name, content) = rest.split_once(' ').unwrap();
                let name = String::from_utf8(raw(name)).unwrap();
                model.files.insert(name, raw(content));
            }
            "@dir" => drop(model.directories.insert(rest.to_owned())),
            "@upload" => model.upload = raw(rest),
            "@hold" => model.hold = true,
            "@end" => model.end(ended(rest)),
            "@refuse" => model.refuse = Some(refusal(rest)),
            "@rule" => {
                let mut words = rest.splitn(3, ' ');
                let mut next = || words.next().unwrap().to_owned();
                let (verb, code, sentence) = (next(), next(), next());
                model.rule = Some((verb, code.parse().unwrap(), sentence));
            }
            "@wait" => {
                model.now += Duration::from_secs(rest.parse().unwrap());
                model.server.handle_timeout(model.now);
            }
            "@drain" => model.server.drain(rest),
            "@show" => {
                let content =
                    String::from_utf8_lossy(&model.files[rest]).escape_debug().to_string();
                writeln!(self.out, "* {content}").unwrap();
            }
            other => panic!("what is '{other}'?"),
        }
    }
}

/// The transcript with the answers the machine gives.
fn replay(text: &str, bytewise: bool) -> String {
    let mut replay = Replay::new(text, bytewise);
    for line in text.lines() {
        if !line.starts_with('#') && !line.is_empty() && !line.starts_with("@settings") {
            replay.flush();
        }
        if let Some(bytes) = line.strip_prefix(">> ") {
            replay.input.extend(raw(bytes));
            writeln!(replay.out, "{line}").unwrap();
            continue;
        }
        if let Some(command) = line.strip_prefix("> ") {
            replay.input.extend_from_slice(command.as_bytes());
            replay.input.extend_from_slice(b"\r\n");
            writeln!(replay.out, "{line}").unwrap();
            continue;
        }
        let quiet = line.is_empty() || line.starts_with('#');
        match line.split_once(' ').unwrap_or((line, "")) {
            ("<" | "=" | "*", _) => continue,
            (word, rest) if word.starts_with('@') => {
                writeln!(replay.out, "{line}").unwrap();
                replay.directive(word, rest);
                continue;
            }
            _ => assert!(quiet, "what is '{line}'?"),
        }
        writeln!(replay.out, "{line}").unwrap();
    }
    replay.flush();
    replay.out
}

#[test]
fn transcripts_are_answered_as_written() {
    for (path, text) in transcripts() {
        let replayed = replay(&text, false);
        if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
            std::fs::write(&path, &replayed).unwrap();
            continue;
        }
        assert!(replayed == text, "{}:\n{}", path.display(), difference(&text, &replayed));
    }
}

#[test]
fn transcripts_are_answered_alike_byte_by_byte() {
    // What came in one piece with AUTH is thrown away; in pieces, TLS stands before it comes.
    let divisible = |(_, text): &(PathBuf, String)| !text.contains(">> AUTH");
    for (path, text) in transcripts().into_iter().filter(divisible) {
        let (whole, bytes) = (replay(&text, false), replay(&text, true));
        assert!(whole == bytes, "{}:\n{}", path.display(), difference(&whole, &bytes));
    }
}

/// The first line that differs.
fn difference(want: &str, got: &str) -> String {
    let pairs = want.lines().map(Some).chain(std::iter::repeat(None));
    let lines = got.lines().map(Some).chain(std::iter::repeat(None));
    let (number, (want, got)) =
        pairs.zip(lines).enumerate().find(|(_, (want, got))| want != got).unwrap();
    format!("line {}\nwant {want:?}\ngot  {got:?}", number + 1)
}

/// The code that follows a command in a transcript, skipping what the machine asks.
fn codes(text: &str, command: &str) -> Vec<u16> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let sent = line.strip_prefix("> ").unwrap_or("").to_ascii_uppercase();
        if sent != command && !sent.starts_with(&format!("{command} ")) {
            continue;
        }
        let answer = lines[at + 1..].iter().take_while(|line| !line.starts_with('>'));
        let codes =
            answer.filter_map(|line| line.strip_prefix("< ")?.get(..3)?.parse::<u16>().ok());
        found.extend(codes);
    }
    found
}

/// Each verb of the table, and each word of SITE, stands in a transcript: done once (unless it
/// is never done) and refused once.
#[test]
fn every_verb_is_done_and_refused_in_a_transcript() {
    let all: String = transcripts().into_iter().map(|(_, text)| text).collect();
    let sites = SITE_VERBS.iter().map(|word| format!("SITE {}", word.name));
    let mut missing = Vec::new();
    for name in VERBS.iter().map(|verb| verb.name.to_owned()).chain(sites) {
        let codes = codes(&all, &name);
        let done = codes.iter().any(|code| *code < 400);
        let refused = codes.iter().any(|code| *code >= 400);
        let never = ["SMNT", "ADAT", "MIC", "CONF", "ENC"].contains(&name.as_str());
        // NOOP and PASS take anything.
        if !done && !never {
            missing.push(format!("{name} is never done"));
        }
        if !refused && name != "NOOP" && name != "PASS" {
            missing.push(format!("{name} is never refused"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
