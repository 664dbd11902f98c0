//! Packets by hand, over our own SSH client: what no honest client sends, and how much of it.

mod handles;
mod hooked;
mod links;
mod long;
mod modes;
mod shared;
mod software;
mod staging;

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use entrepot_nouns::{Env, Secret};
use entrepot_ssh::algorithms::Preset;
use entrepot_ssh::client::{
    Arrival, ChannelWriter, ClientOptions, Credential, HostKeyPins, SshClient,
};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::fixture::{Fixture, PASSWORD};
use super::pattern;

const INIT: u8 = 1;
const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;
const FSTAT: u8 = 8;
const FSETSTAT: u8 = 10;
const OPENDIR: u8 = 11;
const READDIR: u8 = 12;
const REMOVE: u8 = 13;
const MKDIR: u8 = 14;
const RMDIR: u8 = 15;
const REALPATH: u8 = 16;
const STAT: u8 = 17;
const RENAME: u8 = 18;
const READLINK: u8 = 19;
const EXTENDED: u8 = 200;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;
const ATTRS: u8 = 105;
const EXTENDED_REPLY: u8 = 201;

const R: u32 = 0x01;
const W: u32 = 0x02;
const APPEND: u32 = 0x04;
const CREAT: u32 = 0x08;
const TRUNC: u32 = 0x10;
const EXCL: u32 = 0x20;

/// A request's fields.
#[derive(Clone, Default)]
struct Fields(Vec<u8>);

fn fields() -> Fields {
    Fields::default()
}

impl Fields {
    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn text(self, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        let mut with = self.u32(u32::try_from(value.len()).unwrap());
        with.0.extend(value);
        with
    }
}

/// An answer: type, id, fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    kind: u8,
    id: u32,
    body: Vec<u8>,
}

impl Answer {
    fn number(&self) -> u32 {
        u32::from_be_bytes(self.body[..4].try_into().unwrap())
    }

    fn code(&self) -> u32 {
        assert_eq!(self.kind, STATUS, "{self:?}");
        self.number()
    }

    /// The first string.
    fn string(&self) -> &[u8] {
        &self.body[4..4 + self.number() as usize]
    }

    fn handle(&self) -> Vec<u8> {
        assert_eq!(self.kind, HANDLE, "{:?}", String::from_utf8_lossy(&self.body));
        self.string().to_vec()
    }

    /// The size of ATTRS.
    fn size(&self) -> u64 {
        assert_eq!(self.kind, ATTRS);
        assert_eq!(self.number() & 1, 1);
        u64::from_be_bytes(self.body[4..12].try_into().unwrap())
    }
}

/// One channel that speaks raw SFTP.
struct Wire {
    channel: ChannelWriter,
    arrived: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
    bytes: BytesMut,
}

pub(super) async fn login(fixture: &Fixture) -> SshClient {
    let stream = TcpStream::connect(fixture.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let pins = HostKeyPins::Pinned(vec![fixture.host_key.clone()]);
    SshClient::connect(stream, &anna(pins)).await.unwrap()
}

/// Logs in by password.
fn anna(pins: HostKeyPins) -> ClientOptions {
    ClientOptions {
        user: "anna".to_owned(),
        credential: Credential::Password(Secret::new(PASSWORD)),
        pins,
        preset: Preset::Modern,
        cipher: None,
        software: None,
        env: Env::real(),
    }
}

impl Wire {
    async fn open(client: &SshClient) -> Wire {
        let mut wire = Wire::raw(client).await;
        wire.send_frame(INIT, &fields().u32(3)).await;
        let version = wire.frame().await.unwrap();
        assert_eq!(version[..5], [2, 0, 0, 0, 3]);
        wire
    }

    async fn raw(client: &SshClient) -> Wire {
        let (sender, arrived) = mpsc::unbounded_channel();
        let receive = move |arrival: Arrival<'_>| {
            let message = match arrival {
                Arrival::Data(data) => Some(data.to_vec()),
                Arrival::ErrorText(_) => return,
                Arrival::End => None,
            };
            let _ = sender.send(message);
        };
        let channel = client.open_sftp(Box::new(receive)).await.unwrap();
        Wire { channel, arrived, bytes: BytesMut::new() }
    }

    async fn send_bytes(&self, bytes: Vec<u8>) {
        // The server may have ended the channel, which is then seen in what arrives.
        let _ = self.channel.send(Bytes::from(bytes)).await;
    }

    async fn send_frame(&self, kind: u8, fields: &Fields) {
        self.send_bytes(frame(kind, fields)).await;
    }

    async fn request(&self, kind: u8, id: u32, fields: Fields) {
        let mut with_id = id.to_be_bytes().to_vec();
        with_id.extend(fields.0);
        self.send_frame(kind, &Fields(with_id)).await;
    }

    /// The next frame; `None`: the channel has ended.
    async fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((head, rest)) = self.bytes.split_first_chunk::<4>() {
                let len = u32::from_be_bytes(*head) as usize;
                if rest.len() >= len {
                    self.bytes.advance(4);
                    return Some(self.bytes.split_to(len).to_vec());
                }
            }
            let waiting = tokio::time::timeout(Duration::from_secs(10), self.arrived.recv());
            let more = waiting.await.expect("an answer within ten seconds").flatten()?;
            self.bytes.extend_from_slice(&more);
        }
    }

    async fn answer(&mut self) -> Option<Answer> {
        let frame = self.frame().await?;
        let id = u32::from_be_bytes(frame[1..5].try_into().unwrap());
        Some(Answer { kind: frame[0], id, body: frame[5..].to_vec() })
    }

    async fn ask(&mut self, kind: u8, fields: Fields) -> Answer {
        self.request(kind, 7, fields).await;
        let answer = self.answer().await.expect("the channel goes on");
        assert_eq!(answer.id, 7);
        answer
    }

    async fn open_file(&mut self, path: &str, flags: u32) -> Answer {
        self.ask(OPEN, fields().text(path).u32(flags).u32(0)).await
    }

    async fn write(&mut self, handle: &[u8], offset: u64, data: &[u8]) -> u32 {
        self.ask(WRITE, fields().text(handle).u64(offset).text(data)).await.code()
    }

    async fn close(&mut self, handle: &[u8]) -> u32 {
        self.ask(CLOSE, fields().text(handle)).await.code()
    }

    async fn stat(&mut self, path: &str) -> Answer {
        self.ask(STAT, fields().text(path)).await
    }
}

fn frame(kind: u8, fields: &Fields) -> Vec<u8> {
    let mut bytes = u32::try_from(fields.0.len() + 1).unwrap().to_be_bytes().to_vec();
    bytes.push(kind);
    bytes.extend(&fields.0);
    bytes
}

#[tokio::test]
async fn an_account_has_only_so_many_transfers_open() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"here");
    fixture.allow_transfers(2).await;
    let (one, other) = (login(&fixture).await, login(&fixture).await);
    let (mut one, mut other) = (Wire::open(&one).await, Wire::open(&other).await);
    let first = one.open_file("/f", R).await.handle();
    let upload = other.open_file("/g", W | CREAT).await.handle();
    assert_eq!(one.open_file("/f", R).await.code(), 4);
    assert_eq!(one.open_file("/h", W | CREAT).await.code(), 4);
    assert_eq!(one.ask(CLOSE, fields().text(&first)).await.code(), 0);
    let third = one.open_file("/f", R).await.handle();
    assert_eq!(one.ask(CLOSE, fields().text(&third)).await.code(), 0);
    assert_eq!(other.ask(CLOSE, fields().text(&upload)).await.code(), 0);
    fixture.stop().await;
}

#[tokio::test]
async fn what_is_malformed_ends_its_channel_and_nothing_else() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut good = Wire::open(&client).await;
    let cases: [(&str, Vec<u8>, bool); 6] = [
        ("length 0", vec![0, 0, 0, 0], true),
        ("length above the limit", vec![0, 4, 0, 1, 5], true),
        ("INIT again", frame(INIT, &fields().u32(3)), true),
        ("an answer", frame(STATUS, &fields().u32(1).u32(0)), true),
        ("unknown attribute bits", frame(OPEN, &fields().u32(9).text("/f").u32(R).u32(64)), true),
        ("before INIT", frame(STAT, &fields().u32(1).text("/")), false),
    ];
    for (what, bytes, begun) in cases {
        let mut bad = if begun { Wire::open(&client).await } else { Wire::raw(&client).await };
        bad.send_bytes(bytes).await;
        let mut answers = Vec::new();
        while let Some(answer) = bad.answer().await {
            answers.push(answer.code());
        }
        let expected: &[u32] = if what.starts_with("unknown attribute") { &[5] } else { &[] };
        assert_eq!(answers, expected, "{what}");
    }
    let mut short = Wire::open(&client).await;
    short.send_bytes(frame(OPEN, &fields().u32(42).u32(4000).u32(0))).await;
    let last = short.answer().await.unwrap();
    assert_eq!((last.id, last.code()), (42, 5));
    assert_eq!(short.answer().await, None);
    assert_eq!(good.stat("/").await.kind, ATTRS, "the other channel goes on");
    fixture.stop().await;
}

#[tokio::test]
async fn a_stream_split_at_every_byte_gives_the_same_answers() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let stat = |id: u32| frame(STAT, &fields().u32(id).text("/"));
    let stream = [stat(1), stat(2), stat(3)].concat();
    for cut in 0..stream.len() {
        wire.send_bytes(stream[..cut].to_vec()).await;
        wire.send_bytes(stream[cut..].to_vec()).await;
        for id in 1..=3 {
            let answer = wire.answer().await.unwrap();
            assert_eq!((answer.id, answer.kind), (id, ATTRS), "cut at {cut}");
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn unknown_requests_and_odd_names_are_answered_and_the_channel_goes_on() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    assert_eq!(wire.ask(99, fields()).await.code(), 8);
    assert_eq!(wire.ask(EXTENDED, fields().text("none@example.org")).await.code(), 8);
    assert_eq!(wire.ask(READLINK, fields().text("/x")).await.code(), 8);
    for (name, code) in [
        (&b"/a\0b"[..], 5),
        (b"/\xff\xfe", 5),
        (&[b'a'; 256], 5),
        (&[b'/'; 5000], 5),
        (b"/missing", 2),
        (b"../../../../etc/passwd", 2),
        (b"/etc/passwd", 2),
    ] {
        let answer = wire.ask(STAT, fields().text(name)).await;
        assert_eq!(answer.code(), code, "{:?}", String::from_utf8_lossy(name));
    }
    for (sent, want) in
        [("", "/"), (".", "/"), ("/a/../../b/./c/", "/b/c"), ("../../x", "/x"), ("a\\b", "/a\\b")]
    {
        let answer = wire.ask(REALPATH, fields().text(sent)).await;
        assert_eq!((answer.kind, answer.number()), (NAME, 1));
        let name = String::from_utf8(answer.body[8..8 + want.len()].to_vec()).unwrap();
        assert_eq!(name, want);
    }
    let limits = wire.ask(EXTENDED, fields().text("limits@openssh.com")).await;
    assert_eq!(limits.kind, EXTENDED_REPLY);
    assert_eq!(limits.body, fields().u64(262_144).u64(261_120).u64(261_120).u64(1024).0);
    let space = wire.ask(EXTENDED, fields().text("statvfs@openssh.com").text("/")).await;
    assert_eq!((space.kind, space.body.len()), (EXTENDED_REPLY, 88));
    fixture.stop().await;
}

#[tokio::test]
async fn handles_of_others_are_not_open() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"content");
    let client = login(&fixture).await;
    let mut owner = Wire::open(&client).await;
    let handle = owner.open_file("/f", R).await.handle();
    let other_client = login(&fixture).await;
    for mut other in [Wire::open(&client).await, Wire::open(&other_client).await] {
        let read = other.ask(READ, fields().text(&handle).u64(0).u32(10)).await;
        assert_eq!(read.code(), 4);
        assert_eq!(other.close(&handle).await, 4);
    }
    for odd in [&b""[..], b"1", &[0xff; 8], &[0; 300]] {
        assert_eq!(owner.ask(FSTAT, fields().text(odd)).await.code(), 4);
    }
    let read = owner.ask(READ, fields().text(&handle).u64(0).u32(10)).await;
    assert_eq!((read.kind, read.string()), (DATA, &b"content"[..]));
    assert_eq!(owner.close(&handle).await, 0);
    assert_eq!(owner.close(&handle).await, 4, "closed once");
    fixture.stop().await;
}

#[tokio::test]
async fn ten_thousand_opens_are_limited_and_leave_nothing_behind() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"x");
    let client = login(&fixture).await;
    let (mut one, mut two) = (Wire::open(&client).await, Wire::open(&client).await);
    let other = two.open_file("/f", R).await.handle();
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        let mut burst = Vec::new();
        for _ in 0..100 {
            burst.extend(frame(OPEN, &fields().u32(1).text("/f").u32(R).u32(0)));
        }
        one.send_bytes(burst).await;
        for _ in 0..100 {
            let answer = one.answer().await.unwrap();
            match answer.kind {
                HANDLE => open.push(answer.handle()),
                _ => {
                    assert_eq!(answer.code(), 4);
                    refused += 1;
                }
            }
        }
    }
    assert_eq!((open.len(), refused), (1023, 10_000 - 1023), "1,024 for the whole session");
    assert_eq!(two.close(&other).await, 0);
    for handle in open {
        assert_eq!(one.close(&handle).await, 0);
    }
    two.open_file("/f", R).await.handle();
    fixture.stop().await;
}

#[tokio::test]
async fn reads_are_whole_and_end_with_eof() {
    let fixture = Fixture::start().await;
    let bytes = pattern(400_000);
    fixture.write("/f", &bytes);
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R).await.handle();
    let read = |offset, len| fields().text(&handle).u64(offset).u32(len);
    assert_eq!(wire.ask(READ, read(0, u32::MAX)).await.string(), &bytes[..261_120]);
    assert_eq!(wire.ask(READ, read(261_120, 261_120)).await.string(), &bytes[261_120..]);
    assert_eq!(wire.ask(READ, read(399_999, 5)).await.string(), &bytes[399_999..]);
    assert_eq!(wire.ask(READ, read(400_000, 5)).await.code(), 1);
    assert_eq!(wire.ask(READ, read(u64::MAX, 5)).await.code(), 1);
    let empty = wire.ask(READ, read(3, 0)).await;
    assert_eq!((empty.kind, empty.number()), (DATA, 0));
    assert_eq!(wire.ask(FSTAT, fields().text(&handle)).await.size(), 400_000);
    assert_eq!(wire.write(&handle, 0, b"no").await, 4, "it is open for reading");
    fixture.stop().await;
}

/// The server begins a key exchange in the middle; the client's window is so large that it sends
/// nothing which would move what was parked meanwhile.
#[tokio::test]
async fn parked_reads_are_answered_after_a_key_exchange_of_ours() {
    let fixture = Fixture::start_rekeying(200_000).await;
    let bytes = pattern(28 * 261_120);
    fixture.write("/f", &bytes);
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R).await.handle();
    // A packet each, so that many come while the server already exchanges keys.
    for n in 0..28u32 {
        let offset = u64::from(n) * 261_120;
        wire.request(READ, n, fields().text(&handle).u64(offset).u32(261_120)).await;
    }
    wire.request(CLOSE, 28, fields().text(&handle)).await;
    for n in 0..28u32 {
        let answer = wire.answer().await.unwrap();
        let at = n as usize * 261_120;
        assert_eq!((answer.id, answer.kind), (n, DATA));
        assert!(answer.string() == &bytes[at..at + 261_120], "block {n}");
    }
    let closed = wire.answer().await.unwrap();
    assert_eq!((closed.id, closed.code()), (28, 0));
    assert_eq!(wire.stat("/f").await.size(), bytes.len() as u64, "the channel goes on");
    fixture.stop().await;
}

/// More is asked for at once than is answered at once, and neither the client's window nor its next
/// request says when the rest may follow.
#[tokio::test]
async fn what_is_more_than_one_call_answers_follows_when_the_first_answers_have_left() {
    let fixture = Fixture::start().await;
    let bytes = pattern(4 * 60_000);
    fixture.write("/f", &bytes);
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R).await.handle();
    // A throttled client gets 64 KiB of answers at once.
    fixture.limit_downloads(Some(8 * 1024)).await;
    let mut burst = Vec::new();
    for n in 0..4u32 {
        let offset = u64::from(n) * 60_000;
        burst.extend(frame(READ, &fields().u32(n).text(&handle).u64(offset).u32(60_000)));
    }
    burst.extend(frame(CLOSE, &fields().u32(4).text(&handle)));
    wire.send_bytes(burst).await;
    let first = wire.arrived.recv().await.flatten().unwrap();
    wire.bytes.extend_from_slice(&first);
    // The server has made its answers and sends them; now it may do so at once.
    fixture.limit_downloads(None).await;
    for n in 0..4u32 {
        let answer = wire.answer().await.unwrap();
        let at = n as usize * 60_000;
        assert_eq!((answer.id, answer.kind), (n, DATA));
        assert!(answer.string() == &bytes[at..at + 60_000], "block {n}");
    }
    let closed = wire.answer().await.unwrap();
    assert_eq!((closed.id, closed.code()), (4, 0));
    fixture.stop().await;
}

#[tokio::test]
async fn a_whole_file_may_be_asked_for_at_once() {
    let fixture = Fixture::start().await;
    let bytes = pattern(40 << 20);
    fixture.write("/f", &bytes);
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R).await.handle();
    let count = u32::try_from(bytes.len() / 32_768).unwrap();
    let mut burst = Vec::new();
    for n in 0..count {
        let offset = u64::from(n) * 32_768;
        burst.extend(frame(READ, &fields().u32(n).text(&handle).u64(offset).u32(32_768)));
    }
    wire.send_bytes(burst).await;
    for n in 0..count {
        let answer = wire.answer().await.unwrap();
        let at = n as usize * 32_768;
        assert_eq!(answer.id, n);
        assert!(answer.string() == &bytes[at..at + 32_768], "block {n}");
    }
    fixture.stop().await;
}

/// It takes nothing from its socket, with 64 READs out and ever more questions; then it goes.
#[tokio::test]
async fn a_client_that_takes_nothing_holds_up_nobody() {
    use tokio::io::AsyncReadExt as _;
    let fixture = Fixture::start().await;
    fixture.write("/f", &pattern(20 << 20));
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (go, stuck) = tokio::sync::watch::channel(true);
    let address = fixture.address;
    // Between client and server: forwards until told to take no more from the server.
    let relay = tokio::spawn(async move {
        let server = TcpStream::connect(address).await.unwrap();
        let (mut from_server, mut to_server) = server.into_split();
        let (mut from_client, mut to_client) = tokio::io::split(far);
        let up = tokio::io::copy(&mut from_client, &mut to_server);
        let down = async {
            let mut piece = vec![0; 16 * 1024];
            while *stuck.borrow() {
                let Ok(count @ 1..) = from_server.read(&mut piece).await else { break };
                tokio::io::AsyncWriteExt::write_all(&mut to_client, &piece[..count]).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! { _ = up => {} () = down => {} }
    });
    let client = SshClient::connect(near, &anna(HostKeyPins::Any)).await.unwrap();
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R).await.handle();
    go.send(false).unwrap();
    for n in 0..64u32 {
        let offset = u64::from(n) * 261_120;
        wire.request(READ, n, fields().text(&handle).u64(offset).u32(261_120)).await;
    }
    let other = login(&fixture).await;
    let mut honest = Wire::open(&other).await;
    let theirs = honest.open_file("/f", R).await.handle();
    for n in 0..64u64 {
        let answer = honest.ask(READ, fields().text(&theirs).u64(n * 1000).u32(1000)).await;
        assert_eq!(answer.string().len(), 1000);
    }
    relay.abort();
    drop(client);
    fixture.stop().await;
}

#[tokio::test]
async fn the_open_table() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    for flags in [R, 0, W, W | TRUNC, W | APPEND] {
        assert_eq!(wire.open_file("/none", flags).await.code(), 2, "{flags:#x}");
    }
    assert_eq!(wire.open_file("/", W | CREAT).await.code(), 4, "a directory");
    let handle = wire.open_file("/f", W | CREAT | EXCL).await.handle();
    assert_eq!(wire.write(&handle, 3, b"def").await, 0);
    assert_eq!(wire.write(&handle, 0, b"abc").await, 0, "out of order");
    assert_eq!(fixture.read("/f"), None, "not before CLOSE");
    assert_eq!(wire.stat("/f").await.size(), 6, "its own channel sees it");
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"abcdef");
    assert_eq!(wire.open_file("/f", W | CREAT | EXCL).await.code(), 4, "it exists");

    let handle = wire.open_file("/f", W | CREAT).await.handle();
    assert_eq!(wire.write(&handle, 1, b"X").await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"abcdef", "the old one until CLOSE");
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"aXcdef", "an overlay");

    let handle = wire.open_file("/f", W | APPEND).await.handle();
    assert_eq!(wire.write(&handle, 0, b"gh").await, 0, "offsets are ignored");
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"aXcdefgh");

    let handle = wire.open_file("/f", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"");
    fixture.stop().await;
}

#[tokio::test]
async fn sizes_and_times_on_handles_and_names() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"0123456789");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", W).await.handle();
    let shorter = fields().text(&handle).u32(1).u64(4);
    assert_eq!(wire.ask(FSETSTAT, shorter).await.code(), 0);
    let times = fields().text(&handle).u32(8).u32(1_500_000_000).u32(1_600_000_000);
    assert_eq!(wire.ask(FSETSTAT, times).await.code(), 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"0123");
    let after = wire.stat("/f").await;
    assert_eq!(after.body[after.body.len() - 4..], 1_600_000_000u32.to_be_bytes());
    const SETSTAT: u8 = 9;
    let mode = fields().text("/f").u32(4).u32(0o100_600);
    assert_eq!(wire.ask(SETSTAT, mode).await.code(), 0);
    let longer = fields().text("/f").u32(1).u64(6);
    assert_eq!(wire.ask(SETSTAT, longer).await.code(), 0);
    assert_eq!(fixture.read("/f").unwrap(), b"0123\0\0");
    let missing = fields().text("/none").u32(4).u32(0o600);
    assert_eq!(wire.ask(SETSTAT, missing).await.code(), 2);
    fixture.stop().await;
}

#[tokio::test]
async fn rename_refuses_a_taken_name_and_posix_rename_replaces_it() {
    let fixture = Fixture::start().await;
    fixture.write("/a", b"new");
    fixture.write("/b", b"old");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    assert_eq!(wire.ask(RENAME, fields().text("/a").text("/b")).await.code(), 4);
    assert_eq!(fixture.read("/b").unwrap(), b"old");
    let posix = fields().text("posix-rename@openssh.com").text("/a").text("/b");
    assert_eq!(wire.ask(EXTENDED, posix).await.code(), 0);
    assert_eq!(fixture.read("/b").unwrap(), b"new");
    assert_eq!(fixture.read("/a"), None);
    fixture.stop().await;
}

#[tokio::test]
async fn a_thousand_names_are_listed_once_each() {
    let fixture = Fixture::start().await;
    for n in 0..1000 {
        fixture.write(&format!("/{n:04}-{}", "x".repeat(n % 200)), b"");
    }
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.ask(OPENDIR, fields().text("/")).await.handle();
    let (mut count, mut answers) = (0, 0);
    loop {
        // Two in flight, as lftp keeps them.
        wire.request(READDIR, 1, fields().text(&handle)).await;
        wire.request(READDIR, 2, fields().text(&handle)).await;
        let pair = [wire.answer().await.unwrap(), wire.answer().await.unwrap()];
        for answer in &pair {
            if answer.kind == NAME {
                assert!(answer.body.len() <= 33_000);
                count += answer.number();
                answers += 1;
            }
        }
        if pair.iter().any(|answer| answer.kind == STATUS) {
            assert_eq!(pair[1].code(), 1);
            break;
        }
    }
    assert_eq!(count, 1001, "and the mount 'small'");
    assert!(answers >= 5);
    assert_eq!(wire.ask(READDIR, fields().text(&handle)).await.code(), 1, "and ever after");
    assert_eq!(wire.ask(OPENDIR, fields().text("/none")).await.code(), 2);
    fixture.stop().await;
}

#[tokio::test]
async fn a_refused_write_fails_the_close_and_publishes_nothing() {
    let fixture = Fixture::start().await;
    fixture.write("/small/f", b"old");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/small/f", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&handle, 0, b"good").await, 0);
    assert_eq!(wire.write(&handle, 2 << 20, b"beyond the limit").await, 4);
    assert_eq!(wire.write(&handle, 4, b"good again, too late").await, 4);
    assert_eq!(wire.close(&handle).await, 4);
    assert_eq!(fixture.read("/small/f").unwrap(), b"old");
    assert_eq!(wire.stat("/small/f").await.size(), 3);
    let handle = wire.open_file("/small/f", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&handle, 0, b"works again").await, 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/small/f").unwrap(), b"works again");
    fixture.stop().await;
}

#[tokio::test]
async fn offsets_that_no_file_has_are_refused() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    for offset in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1] {
        let handle = wire.open_file("/f", R | W | CREAT | TRUNC).await.handle();
        assert_eq!(wire.write(&handle, 0, b"good").await, 0);
        assert_eq!(wire.write(&handle, offset, b"xy").await, 4, "{offset}");
        let read = fields().text(&handle).u64(offset).u32(5);
        assert_eq!(wire.ask(READ, read).await.code(), 1, "{offset}");
        assert_eq!(wire.close(&handle).await, 4);
    }
    assert_eq!(fixture.read("/f"), None);
    fixture.stop().await;
}

#[tokio::test]
async fn an_upload_that_was_cut_is_a_partial_and_goes_on() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&handle, 0, b"first half, ").await, 0);
    wire.channel.end().await.unwrap();
    assert_eq!(wire.answer().await, None, "the channel ends behind its EOF");
    assert_eq!(fixture.read("/f"), None);

    let mut again = Wire::open(&client).await;
    assert_eq!(again.stat("/f").await.size(), 12, "its owner sees how far it is");
    assert_eq!(again.open_file("/f", R).await.code(), 2);
    let listing = again.ask(OPENDIR, fields().text("/")).await.handle();
    let names = again.ask(READDIR, fields().text(&listing)).await;
    assert_eq!((names.kind, names.number()), (NAME, 1), "only the mount 'small', not the partial");
    let handle = again.open_file("/f", W).await.handle();
    assert_eq!(again.write(&handle, 12, b"second half").await, 0);
    drop(again);
    drop(client);

    // Cut again, now with the whole connection.
    let client = login(&fixture).await;
    let mut last = Wire::open(&client).await;
    let handle = loop {
        // The server learns of the cut on its own time; until then the file is in use elsewhere.
        let found = last.stat("/f").await;
        if found.kind == ATTRS && found.size() == 23 {
            break last.open_file("/f", W | APPEND).await.handle();
        }
    };
    assert_eq!(last.write(&handle, 0, b"!").await, 0);
    assert_eq!(last.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"first half, second half!");
    fixture.stop().await;
}

#[tokio::test]
async fn a_close_without_a_write_changes_nothing() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"content");
    let before = fixture.identity("/f");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", W | CREAT).await.handle();
    let times = fields().text(&handle).u32(8).u32(5).u32(1_400_000_000);
    assert_eq!(wire.ask(FSETSTAT, times).await.code(), 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"content");
    assert_eq!(fixture.identity("/f"), before, "nothing was published");
    let after = wire.stat("/f").await;
    assert_eq!(after.body[after.body.len() - 4..], 1_400_000_000u32.to_be_bytes());
    fixture.stop().await;
}

#[tokio::test]
async fn a_disabled_account_is_out_within_a_second() {
    let fixture = Fixture::start().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", W | CREAT).await.handle();
    assert_eq!(wire.write(&handle, 0, b"half").await, 0);
    fixture.disable().await;
    let ended = tokio::time::timeout(Duration::from_secs(1), wire.answer()).await;
    assert_eq!(ended.unwrap(), None);
    assert_eq!(fixture.read("/f"), None);
    fixture.stop().await;
}

#[tokio::test]
async fn answers_come_in_order_from_a_store_that_waits() {
    let fixture = Fixture::start_waiting().await;
    let bytes = pattern(3_000_000);
    fixture.write("/f", &bytes);
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_file("/f", R).await.handle();
    let mut burst = Vec::new();
    for n in 0..100u32 {
        let offset = u64::from(n) * 30_000;
        burst.extend(frame(READ, &fields().u32(n).text(&handle).u64(offset).u32(30_000)));
    }
    burst.extend(frame(CLOSE, &fields().u32(100).text(&handle)));
    burst.extend(frame(STAT, &fields().u32(101).text("/f")));
    wire.send_bytes(burst).await;
    let mut reads: Vec<u8> = Vec::new();
    let mut others = Vec::new();
    for _ in 0..102 {
        let answer = wire.answer().await.unwrap();
        match answer.kind {
            DATA => reads.extend(answer.string()),
            _ => others.push(answer.id),
        }
    }
    assert!(reads == bytes);
    others.sort_unstable();
    assert_eq!(others, [100, 101]);
    wire.channel.end().await.unwrap();
    assert_eq!(wire.answer().await, None);
    fixture.stop().await;
}
