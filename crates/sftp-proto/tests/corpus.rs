//! Replays the fuzzer's corpus on stable, and makes it: with `UPDATE_CORPUS=1` the transcripts'
//! requests, the answers to them and mutations of both are written to `fuzz/corpus/sftp_proto`.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::model::Model;
use common::text::encode;
use entrepot_sftp_proto::fuzz;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus() -> PathBuf {
    root().join("fuzz/corpus/sftp_proto")
}

/// Streams of SCP: role, size of the pieces, what is accepted, then what the peer sends.
const SCP: [(&str, &[u8]); 9] = [
    ("tree", b"\0\x04\xffT1 0 2 0\nD0755 0 d\nC0644 3 a b\nabc\0C0600 0 e\n\0E\n"),
    ("refused", b"\0\0\x01C0644 3 a\nD0755 0 d\nC0644 1 x\ny\0"),
    ("broken", b"\0\x02\xffC0644 2 a\nab\x01scp: a: I/O error\nC0644 1 b\nb\x02stop\n"),
    ("told", b"\0\xff\xff\x01scp: no\n\x02scp: never\n"),
    ("climbs", b"\0\xff\xffC0644 0 ../a\nC0644 0 ..\nD0755 0 .\nC0644 0 a/b\n"),
    ("numbers", b"\0\xff\xffC0644 18446744073709551616 a\n"),
    ("times", b"\0\xff\xffT9999999999999999999 0 0 0\n"),
    ("answers", b"\x01\x01\0\0\0\x01scp: no\n\0\x02stop\n"),
    ("answers-odd", b"\x01\0\0\0\x03"),
];

/// Command lines.
const EXEC: [(&str, &[u8]); 9] = [
    ("sink", b"scp -r -p -d -t -- '/a b'"),
    ("source", b"scp -pf ~/x/*.t?t \"a \\\" b\" [!a-z]*"),
    ("hash", b"md5sum -b /a\\ b 'it'\\''s'"),
    ("rclone", b"md5sum a'\n'b"),
    ("probe", b"echo ${ShellId}%ComSpec%"),
    ("server", b"/usr/lib/openssh/sftp-server -l INFO"),
    ("cd", b"cd '' "),
    ("open", b"scp -t 'a"),
    ("sets", b"scp -f a[]b] a[!] a[a-]* **?[["),
];

/// Longest file of the corpus.
const FILE_BYTES: usize = 4096;

/// Role and piece size, then the stream.
fn input(role: u8, piece: u8, stream: &[u8]) -> Vec<u8> {
    let mut bytes = vec![role, piece];
    bytes.extend_from_slice(&stream[..stream.len().min(FILE_BYTES - 2)]);
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
        let requests: Vec<u8> = lines.flat_map(encode).collect();
        let answers = Model::new().receive(&requests).0.concat();
        files.insert(format!("{name}-requests"), input(0, 0, &requests));
        files.insert(format!("{name}-answers"), input(1, 2, &answers));
        for (number, stream) in mutations(&requests).into_iter().enumerate() {
            files.insert(format!("{name}-mutated-{number}"), input(0, 6, &stream));
        }
    }
    files.insert("client-session".to_owned(), input(1, 4, &client_session()));
    files.insert("client-session-cut".to_owned(), input(1, 0, &client_session()[..150]));
    files
}

/// A byte changed, a frame's length changed, the end cut off: each at a place drawn from the
/// stream itself.
fn mutations(stream: &[u8]) -> Vec<Vec<u8>> {
    let at = stream.iter().fold(17usize, |sum, byte| sum * 31 % 65_521 + usize::from(*byte));
    let mut mutated = Vec::new();
    let mut changed = stream.to_vec();
    let place = stream.len().min(9) + at % stream.len().saturating_sub(9).max(1);
    if let Some(byte) = changed.get_mut(place) {
        *byte ^= 0xff;
    }
    mutated.push(changed);
    let mut longer = stream.to_vec();
    if let Some(byte) = longer.get_mut(12) {
        *byte = byte.wrapping_add(4);
    }
    mutated.push(longer);
    mutated.push(stream[..stream.len() - stream.len() / 3].to_vec());
    mutated
}

/// What a server answers to the four operations the fuzzer's client begins, in their order.
fn client_session() -> Vec<u8> {
    use entrepot_sftp_proto::reply;
    use entrepot_sftp_proto::{Attrs, Handle};
    let mut names = reply::Names::new(8, 64);
    names.push("n", "long n", &Attrs { size: Some(1), ..Attrs::default() });
    let data = |id, count| {
        let mut frame = reply::data_frame(count);
        frame.resize(reply::DATA_HEADER_BYTES + count, b'd');
        reply::seal_data(id, frame, count)
    };
    // READs are 5 and 6 and, for what 5 lacks, 10; the WRITE is 7, READDIRs are 8 and 9.
    [
        reply::version(|name| name == "limits@openssh.com"),
        reply::limits(0),
        reply::handle(1, Handle::NONE),
        reply::handle(2, Handle::NONE),
        reply::attrs(3, &Attrs::default()),
        reply::one_name(4, "/home"),
        data(5, 40),
        reply::eof(6),
        reply::ok(7),
        names.finish(),
        reply::eof(9),
        data(10, 60),
        reply::eof(11),
        reply::ok(12),
    ]
    .concat()
}

#[test]
fn the_corpus_passes() {
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (name, bytes) in generated() {
            std::fs::write(corpus().join(name), bytes).unwrap();
        }
    }
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(bytes.len() <= FILE_BYTES);
        fuzz(&bytes);
        count += 1;
    }
    assert!((50..=200).contains(&count), "{count} files");
}

/// Writes the seeds if asked, and replays what is there.
fn replay(target: &str, seeds: &[(&str, &[u8])], fuzz: fn(&[u8])) {
    let folder = root().join("fuzz/corpus").join(target);
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in seeds {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let mut streams = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        streams.push(std::fs::read(entry.unwrap().path()).unwrap());
    }
    assert!(streams.len() >= seeds.len());
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    for bytes in &streams {
        fuzz(bytes);
    }
    for _ in 0..20_000 {
        let mut bytes = streams[next(streams.len())].clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            bytes[at] = u8::try_from(next(256)).unwrap();
        }
        fuzz(&bytes);
    }
}

#[test]
fn scp_passes() {
    replay("scp", &SCP, entrepot_sftp_proto::scp::fuzz);
}

#[test]
fn command_lines_pass() {
    replay("exec", &EXEC, entrepot_sftp_proto::exec::fuzz);
}

#[test]
fn every_piece_size_passes() {
    for stream in generated().values() {
        for piece in [0, 1, 3, 12, 63, 255] {
            let mut bytes = stream.clone();
            bytes[1] = piece;
            fuzz(&bytes);
        }
    }
}

/// A poor man's fuzzer for stable: random changes to the streams that get far.
#[test]
fn random_changes_pass() {
    let streams: Vec<Vec<u8>> = generated().into_values().collect();
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    for _ in 0..20_000 {
        let mut bytes = streams[next(streams.len())].clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            bytes[at] = u8::try_from(next(256)).unwrap();
        }
        fuzz(&bytes);
    }
}
