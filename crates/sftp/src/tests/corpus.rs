//! Replays the corpora of the adapter's fuzz targets on stable, and makes them: with
//! `UPDATE_CORPUS=1` the sessions below are written to `fuzz/corpus/`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::fuzzing;

#[path = "../../../../fuzz/world.rs"]
mod world;

use world::World;

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn frame(kind: u8, fields: &[&[u8]]) -> Vec<u8> {
    let body = fields.concat();
    let len = u32::try_from(body.len() + 1).unwrap();
    [&len.to_be_bytes()[..], &[kind], &body].concat()
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

/// Handles are numbered from the first place on, each in its first generation.
fn handle(place: u8) -> Vec<u8> {
    text(format!("{place:04x}00000001").as_bytes())
}

fn sessions() -> BTreeMap<String, Vec<u8>> {
    let (id, zero) = ([0, 0, 0, 7], [0u8; 8]);
    let open = |path: &[u8], flags: u8| frame(3, &[&id, &text(path), &[0, 0, 0, flags], &[0; 4]]);
    let write = |place, at: u8, data: &[u8]| {
        frame(6, &[&id, &handle(place), &[0, 0, 0, 0, 0, 0, 0, at], &text(data)])
    };
    let read = |place| frame(5, &[&id, &handle(place), &zero, &[0, 0, 16, 0]]);
    let close = |place| frame(4, &[&id, &handle(place)]);
    let init = frame(1, &[&[0, 0, 0, 3]]);
    let extended = |fields: &[&[u8]]| frame(200, &[&id[..], &fields.concat()]);
    let put = [init.clone(), open(b"/f", 0x1a), write(0, 0, b"abc"), close(0)].concat();
    let copy = extended(&[&text(b"copy-data"), &handle(0), &zero, &zero, &handle(1), &zero]);
    let check = extended(&[
        &text(b"check-file-name"),
        &text(b"/f"),
        &text(b"md5"),
        &zero,
        &zero,
        &[0, 0, 1, 0],
    ]);
    let link = extended(&[&text(b"hardlink@openssh.com"), &text(b"/f"), &text(b"/g")]);
    let mut streams: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut add = |name: &str, head: &[u8], stream: &[u8]| {
        streams.insert(name.to_owned(), [head, stream].concat());
    };
    let get = [put.clone(), open(b"/f", 1), read(0), read(0), close(0)].concat();
    add("put-get", &[0, 255], &get);
    add("put-get-by-bytes", &[0, 0], &get);
    add("reads-parked", &[0b1010_1000, 60], &get);
    add("own-task", &[4, 30], &get);
    let both = [put.clone(), open(b"/f", 1), open(b"/h", 0x0a), copy, write(1, 9, b"z"), close(1)];
    add("copy-data", &[2, 90], &both.concat());
    add("check-file", &[0, 255], &[put.clone(), check, link].concat());
    let list = [put.clone(), frame(11, &[&id, &text(b"/")]), frame(12, &[&id, &handle(0)])];
    add("list", &[0, 255], &list.concat());
    let names = [
        put.clone(),
        frame(18, &[&id, &text(b"/f"), &text(b"/small/f")]),
        frame(14, &[&id, &text(b"/d"), &[0; 4]]),
        frame(17, &[&id, &text(b"/small")]),
        frame(13, &[&id, &text(b"/f")]),
    ];
    add("names", &[0, 255], &names.concat());
    add("links", &[0, 255], &[put.clone(), links()].concat());
    add("links-reversed", &[4, 255], &[put.clone(), links()].concat());
    add("unfinished", &[0, 9], &[init, open(b"/u", 0x1a), write(0, 5, b"hole")].concat());
    for (name, line, input) in [
        ("scp-sink", "scp -r -t /", &b"D0755 0 d\nT1 0 2 0\nC0644 3 a\nabc\0E\n"[..]),
        ("scp-sink-quota", "scp -t /small", b"C0644 99999 a\n"),
        ("scp-sink-cut", "scp -t /x", b"C0644 9 a\nabc"),
        ("scp-source", "scp -r -p -f / '/f' *", &[0; 40]),
        ("scp-source-refused", "scp -f /f", b"\0\x01no\n\x02stop\n"),
        ("md5sum", "md5sum /f '' -", b""),
        ("cd", "cd ~/small", b"x"),
    ] {
        let head = [1, 4, u8::try_from(line.len()).unwrap()];
        add(name, &head, &[line.as_bytes(), input].concat());
    }
    streams
}

/// Links to a file, a directory, nothing, round in a circle and outside, and what goes through
/// them.
fn links() -> Vec<u8> {
    let id = [0, 0, 0, 7];
    let two = |kind, one: &[u8], other: &[u8]| frame(kind, &[&id, &text(one), &text(other)]);
    let one = |kind, path: &[u8]| frame(kind, &[&id, &text(path)]);
    let upload = |path: &[u8]| frame(3, &[&id, &text(path), &[0, 0, 0, 0x1a], &[0; 4]]);
    [
        two(20, b"f", b"/l"),
        two(20, b"/l", b"/m"),
        two(20, b"circle", b"/circle"),
        two(20, b"../../etc", b"/outside"),
        two(20, b"/small/f", b"/other"),
        two(20, b".", b"/small/here"),
        one(19, b"/l"),
        one(7, b"/m"),
        one(17, b"/m"),
        one(17, b"/circle/x"),
        upload(b"/l"),
        frame(4, &[&id, &handle(0)]),
        upload(b"/small/here/here/g"),
        frame(4, &[&id, &handle(0)]),
        one(11, b"/small/here"),
        frame(12, &[&id, &handle(0)]),
        two(18, b"/m", b"/small/m"),
        two(18, b"/m", b"/n"),
        one(13, b"/l"),
        one(13, b"/n"),
    ]
    .concat()
}

fn unauthenticated() -> BTreeMap<String, Vec<u8>> {
    let line = b"SSH-2.0-fuzz\r\n";
    // A key exchange message: type 20, cookie, ten name lists, a guess, a reserved number.
    let lists = [
        "curve25519-sha256",
        "ssh-ed25519",
        "aes128-gcm@openssh.com",
        "aes128-gcm@openssh.com",
        "hmac-sha2-256-etm@openssh.com",
        "hmac-sha2-256-etm@openssh.com",
        "none",
        "none",
        "",
        "",
    ];
    let mut message = vec![20];
    message.extend([5; 16]);
    message.extend(lists.iter().flat_map(|list| text(list.as_bytes())));
    message.extend([0; 5]);
    let padding = 16 - (message.len() + 5) % 8;
    let len = u32::try_from(message.len() + 1 + padding).unwrap();
    let packet =
        [&len.to_be_bytes()[..], &[u8::try_from(padding).unwrap()], &message, &vec![0; padding]]
            .concat();
    [
        ("nothing", Vec::new()),
        ("http", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("identification", line.to_vec()),
        ("key-exchange", [&line[..], &packet].concat()),
        ("key-exchange-twice", [&line[..], &packet, &packet].concat()),
        ("length", [&line[..], &[0xff; 40]].concat()),
        ("skips", [&line[..], &[0, 0, 0, 12, 10, 52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

/// Writes the generated ones if asked; gives what is there.
fn corpus(target: &str, generated: &BTreeMap<String, Vec<u8>>) -> Vec<Vec<u8>> {
    let folder = folder(target);
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in generated {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

async fn soon(work: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("an end in twenty seconds");
}

#[tokio::test]
async fn the_corpus_of_channels_passes() {
    let (world, generated) = (World::start().await, sessions());
    let corpus = corpus("sftp_channel", &generated);
    assert!(corpus.len() >= generated.len());
    for bytes in &corpus {
        soon(fuzzing::channel(world.session().await, world.env(), bytes)).await;
    }
    // Changed a little: a poor man's fuzzer for stable.
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    let rounds = std::env::var("CHANNEL_ROUNDS").map_or(1500, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        let mut bytes = corpus[next(corpus.len())].clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            bytes[at] = u8::try_from(next(256)).unwrap();
        }
        soon(fuzzing::channel(world.session().await, world.env(), &bytes)).await;
    }
}

#[tokio::test]
async fn every_session_passes_split_at_every_byte() {
    let world = World::start().await;
    for mut bytes in sessions().into_values() {
        for piece in [0, 1, 2, 3, 5, 8, 13, 34] {
            bytes[1] = piece;
            soon(fuzzing::channel(world.session().await, world.env(), &bytes)).await;
        }
    }
}

#[tokio::test]
async fn the_corpus_of_unauthenticated_connections_passes() {
    let (world, generated) = (World::start().await, unauthenticated());
    let corpus = corpus("ssh_unauthenticated", &generated);
    assert!(corpus.len() >= generated.len());
    for bytes in &corpus {
        soon(fuzzing::connection(world.context(), world.config(), bytes)).await;
    }
}
