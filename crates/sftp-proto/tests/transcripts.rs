//! Replays `transcripts/*.txt` against the server machine over files in memory: as written, and
//! once more byte by byte.
//!
//! `#` comment · `@file NAME "content"` · `>` request (see `common::text`) · `<` answer ·
//! `! text` how the channel ended. `>` lines in a row go in by one call. With
//! `UPDATE_TRANSCRIPTS=1` the answers are written instead of compared.

mod common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use common::model::Model;
use common::text::{decode, encode};
use common::transcript;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

/// Requests that go in by one call, and the lines that come out.
#[derive(Default)]
struct Step {
    input: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Pieces {
    Whole,
    Bytes,
}

fn flush(model: &mut Model, step: &mut Step, pieces: Pieces, out: &mut String) {
    let input = std::mem::take(&mut step.input);
    let size = match pieces {
        Pieces::Whole => input.len().max(1),
        Pieces::Bytes => 1,
    };
    for piece in input.chunks(size) {
        let (answers, end) = model.receive(piece);
        for answer in answers {
            writeln!(out, "< {}", decode(&answer)).unwrap();
        }
        if let Some(fatal) = end {
            writeln!(out, "! {fatal}").unwrap();
            return;
        }
    }
}

/// The transcript with the answers the machine gives.
fn replay(text: &str, pieces: Pieces) -> String {
    let (mut model, mut step, mut out) = (Model::new(), Step::default(), String::new());
    for line in text.lines() {
        if let Some(request) = line.strip_prefix("> ") {
            step.input.extend(encode(request));
            writeln!(out, "{line}").unwrap();
            continue;
        }
        if !step.input.is_empty() {
            flush(&mut model, &mut step, pieces, &mut out);
        }
        match line.split_once(' ') {
            Some(("<" | "!", _)) => continue,
            Some(("@file", file)) => {
                let (name, content) = file.split_once(' ').unwrap();
                let content = content.trim_matches('"').as_bytes().to_vec();
                model.files.insert(name.to_owned(), content);
            }
            Some(("@short", count)) => model.quirks.short_reads = count.parse().unwrap(),
            Some(("@entries", count)) => model.quirks.entries = count.parse().unwrap(),
            Some(("@refuse", count)) => model.quirks.refuse_write = count.parse().unwrap(),
            _ => assert!(line.is_empty() || line.starts_with('#'), "what is '{line}'?"),
        }
        writeln!(out, "{line}").unwrap();
    }
    flush(&mut model, &mut step, pieces, &mut out);
    out
}

#[test]
fn transcripts_are_answered_as_written() {
    transcript::check(&folder(), |text| replay(text, Pieces::Whole));
}

#[test]
fn transcripts_are_answered_alike_byte_by_byte() {
    for (path, text) in transcript::all(&folder()) {
        let (whole, bytes) = (replay(&text, Pieces::Whole), replay(&text, Pieces::Bytes));
        transcript::assert_same(&path, &whole, &bytes);
    }
}

/// Each request of the table and each extension stands in a transcript with an answer that
/// succeeds (or, for links, says that they are off).
#[test]
fn every_request_is_in_a_transcript() {
    use entrepot_sftp_proto::table::{EXTENSIONS, PACKETS, Packet};
    let all: String = transcript::all(&folder()).into_iter().map(|(_, text)| text).collect();
    for packet in PACKETS.iter().filter(|packet| Packet::is_request(packet)) {
        assert!(all.contains(&format!("> {} ", packet.name)), "{}", packet.name);
    }
    for extension in EXTENSIONS {
        let request = format!("\"{}\"", extension.name);
        assert!(
            all.lines().any(|line| line.starts_with("> EXTENDED") && line.contains(&request)),
            "{}",
            extension.name
        );
    }
}

/// The fuzzer's corpus begins with the transcripts' requests; see `corpus.rs`.
#[test]
fn transcripts_hold_no_answer_without_a_request() {
    for (path, text) in transcript::all(&folder()) {
        let first = text.lines().find(|line| line.starts_with(['<', '>', '!'])).unwrap();
        assert!(first.starts_with('>'), "{}", path.display());
    }
}
