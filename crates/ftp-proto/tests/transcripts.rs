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
use common::transcript::{self, unescape};
use entrepot_ftp_proto::{
    AsciiPolicy, End, Refusal, Settings, TlsMode, Why, table::SITE_VERBS, table::VERBS,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
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
        "login-host" => settings.login_host = Some("north.example".to_owned()),
        "compression" => settings.compression = Some(6),
        "creation-times" => settings.creation_times = true,
        "administration" => (settings.site.limit, settings.site.shutdown) = (true, true),
        "no-active" => settings.active.allowed = false,
        "no-passive" => settings.passive = false,
        "no-digests" => settings.algorithms.clear(),
        "ascii-binary" => settings.ascii = AsciiPolicy::Binary,
        "ascii-refuse" => settings.ascii = AsciiPolicy::Refuse,
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
        "tls" => End::TlsFailed,
        "not-resumed" => End::NotResumed,
        "other-certificate" => End::OtherCertificate,
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
                let name = String::from_utf8(unescape(name)).unwrap();
                model.files.insert(name, unescape(content));
            }
            "@dir" => drop(model.directories.insert(rest.to_owned())),
            "@upload" => model.upload = unescape(rest),
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
            "@think" => model.thinking = Duration::from_secs(rest.parse().unwrap()),
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
            replay.input.extend(unescape(bytes));
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
    transcript::check(&folder(), |text| replay(text, false));
}

#[test]
fn transcripts_are_answered_alike_byte_by_byte() {
    // What came in one piece with AUTH is thrown away; in pieces, TLS stands before it comes.
    let divisible = |(_, text): &(PathBuf, String)| !text.contains(">> AUTH");
    for (path, text) in transcript::all(&folder()).into_iter().filter(divisible) {
        transcript::assert_same(&path, &replay(&text, false), &replay(&text, true));
    }
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
    let all: String = transcript::all(&folder()).into_iter().map(|(_, text)| text).collect();
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
