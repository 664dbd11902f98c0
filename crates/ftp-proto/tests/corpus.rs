//! Replays the fuzzer's corpus on stable, and makes it: with `UPDATE_CORPUS=1` the transcripts'
//! commands, replies of servers, listings and mutations of all are written to
//! `fuzz/corpus/ftp_proto`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use entrepot_ftp_proto::fuzz;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus() -> PathBuf {
    root().join("fuzz/corpus/ftp_proto")
}

/// Longest file of the corpus.
const FILE_BYTES: usize = 4096;

const SERVER: u8 = 0;
const SERVER_TLS: u8 = 1;
const CLIENT: u8 = 2;
const LISTINGS: u8 = 3;
const PARSERS: u8 = 4;

/// Replies of servers: a login, then whatever is asked next.
const REPLIES: [(&str, &str); 6] = [
    ("login", "220 a\r\n331 b\r\n230 c\r\n211-F\r\n MLST type*;\r\n UTF8\r\n211 E\r\n200 u\r\n"),
    (
        "transfers",
        "220 a\r\n331 b\r\n332 c\r\n230 d\r\n502 no\r\n200 I\r\n229 (|||1026|)\r\n350 r\r\n\
         150 go\r\n226 done\r\n229 (|||1027|)\r\n150 go\r\n426 cut\r\n226 abor\r\n213 5\r\n",
    ),
    ("old", "220 a\r\n230 c\r\n500 no\r\n200 I\r\n500 no\r\n227 =1,2,3,4,5,6\r\n502 x\r\n"),
    ("closing", "220 a\r\n331 b\r\n421 full\r\n"),
    ("broken", "220-a\r\n220-b\r\n 220 c\r\n220x\r\n"),
    ("names", "220 a\r\n232 c\r\n502 no\r\n250-a\r\n type=file;size=5; /f\r\n250 e\r\n"),
];

/// Lines of listings.
const LINES: [(&str, &str); 4] = [
    ("iis", "11-21-26  03:45AM  <DIR>   a\r\n11-21-2026  12:45PM  12 b c\r\n02-30-26 1:0 5 x\r\n"),
    (
        "facts",
        "type=cdir; /\r\ntype=file;size=5;modify=20261121034506.1;unix.mode=0644; a b\r\n\
         Type=OS.unix=slink:/x; l\r\ntype=dir; ../x\r\n",
    ),
    (
        "long",
        "total 2\r\n-rw-r--r--   1 owner group        1234 Nov 21 03:45 na me\r\n\
         drwxr-xr-x 2 domain users 4096 Feb 29  2024 d\r\n\
         lrwxrwxrwx 1 o g 1 Jan  1  2020 a -> b\r\n",
    ),
    ("long-odd", "-rw-r--r-- 1 o g 99999999999999999999 Jan 1 2020 x\n-rw- 1 Jan 1 2020\n-rwé"),
];

/// Arguments.
const ARGUMENTS: [(&str, &str); 8] = [
    ("port", "127,0,0,1,4,1"),
    ("eprt", "|2|::1|65535|"),
    ("pasv", "Entering (1,2,3,4,5,6)"),
    ("epsv", "(|||65536|)"),
    ("time", "20260229000000.123"),
    ("quotes", "\"a\"\"b\" c"),
    ("pattern", "*a*[!b-d]?[]\naxxaxb["),
    ("lines", "a\r\n\rb\n\n226 Done.\r"),
];

/// Role, size of the pieces, seed, then the stream.
fn input(head: [u8; 3], stream: &[u8]) -> Vec<u8> {
    let mut bytes = head.to_vec();
    bytes.extend_from_slice(&stream[..stream.len().min(FILE_BYTES - 3)]);
    bytes
}

fn generated() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("> "));
        let commands: String = lines.map(|line| format!("{line}\r\n")).collect();
        let commands = commands.as_bytes();
        let seed = u8::try_from(commands.len() % 251).unwrap();
        let role = if name.starts_with("tls") { SERVER_TLS } else { SERVER };
        files.insert(format!("server-{name}"), input([role, 0, seed], commands));
        for (number, stream) in mutations(commands).into_iter().enumerate() {
            let head = [role, 6, seed.wrapping_add(1)];
            files.insert(format!("server-{name}-mutated-{number}"), input(head, &stream));
        }
    }
    for (name, text) in REPLIES {
        for seed in 0..4 {
            let name = format!("client-{name}-{seed}");
            files.insert(name, input([CLIENT, 4, seed], text.as_bytes()));
        }
    }
    for (name, text) in LINES {
        files.insert(format!("listing-{name}"), input([LISTINGS, 2, 0], text.as_bytes()));
    }
    for (name, text) in ARGUMENTS {
        files.insert(format!("argument-{name}"), input([PARSERS, 0, 0], text.as_bytes()));
    }
    files
}

/// A byte changed, Telnet put in, the end cut off: each at a place drawn from the stream itself.
fn mutations(stream: &[u8]) -> Vec<Vec<u8>> {
    let at = stream.iter().fold(17usize, |sum, byte| sum * 31 % 65_521 + usize::from(*byte));
    let place = at % stream.len().max(1);
    let mut changed = stream.to_vec();
    if let Some(byte) = changed.get_mut(place) {
        *byte ^= 0xff;
    }
    let telnet =
        [&stream[..place], &b"\xff\xf4\xff\xf2\xff\xfd\x01"[..], &stream[place..]].concat();
    vec![changed, telnet, stream[..stream.len() - stream.len() / 3].to_vec()]
}

#[test]
fn the_corpus_is_that_of_the_transcripts() {
    let generated = generated();
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (name, bytes) in &generated {
            std::fs::write(corpus().join(name), bytes).unwrap();
        }
        return;
    }
    for (name, bytes) in &generated {
        let file = std::fs::read(corpus().join(name)).unwrap_or_default();
        assert!(file == *bytes, "{name} is old: run with UPDATE_CORPUS=1");
    }
}

#[test]
fn the_corpus_and_pieces_of_it_break_nothing() {
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        count += 1;
        for (piece, seed) in [(0, 0), (1, 1), (2, 7), (13, 77), (255, 201)] {
            let mut bytes = bytes.clone();
            bytes[1..3].copy_from_slice(&[piece, seed]);
            fuzz(&bytes);
        }
        fuzz(&bytes);
    }
    assert!(count > 100, "the corpus is not there");
}

proptest::proptest! {
    #[test]
    fn any_bytes_break_nothing(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        fuzz(&bytes);
    }

    /// Bytes that look like commands get further.
    #[test]
    fn commands_in_any_order_break_nothing(
        seed in 0u8..255,
        lines in "((USER|PASS|RETR|STOR|LIST|ABOR|STAT|REST|NOOP|PASV|QUIT|RNFR|RNTO|TYPE|SITE \
            SHUTDOWN|REIN|HASH|MLST|PORT|ACCT|RANG) ?(a|\"|1 2|I|\\.\\.|127,0,0,1,4,0)?\r\n){0,40}",
        piece in 0u8..20,
    ) {
        let bytes = [&[0, piece, seed], &b"USER a\r\nPASS b\r\n"[..], lines.as_bytes()].concat();
        fuzz(&bytes);
    }

    /// So do replies.
    #[test]
    fn replies_in_any_order_break_nothing(
        seed in 0u8..255,
        lines in "((220|331|332|230|200|211|213|226|350|125|150|229|227|426|500|502|550|250) ?-?\
            (a|\\(\\|\\|\\|9\\|\\)|1,2,3,4,5,6|5|20200101000000| MLST| UTF8)?\r\n){0,40}",
        piece in 0u8..20,
    ) {
        let begin = &b"220 a\r\n331 b\r\n230 c\r\n502 d\r\n"[..];
        fuzz(&[&[2, piece, seed], begin, lines.as_bytes()].concat());
    }
}
