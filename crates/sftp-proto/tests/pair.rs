//! Our client against our server over files in memory.

mod common;

use std::collections::BTreeMap;

use bytes::Bytes;
use common::model::Model;
use entrepot_sftp_proto::client::{
    Answer, Client, Depth, Event, Extent, Fault, NotBegun, Op, OpError, RemoteHandle,
};
use entrepot_sftp_proto::{Attrs, Incoming, OpenFlags, Request, Server, Status, Times};
use proptest::prelude::*;

/// Cuts a stream where told: at every position of the list, in bytes from its beginning.
#[derive(Clone, Default)]
struct Cuts {
    at: Vec<usize>,
    passed: usize,
}

impl Cuts {
    fn pieces<'a>(&mut self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let (mut pieces, mut rest) = (Vec::new(), bytes);
        for at in &self.at {
            if (self.passed..self.passed + rest.len()).contains(at) {
                let (piece, behind) = rest.split_at(at - self.passed);
                pieces.push(piece);
                self.passed += piece.len();
                rest = behind;
            }
        }
        self.passed += rest.len();
        pieces.push(rest);
        pieces
    }
}

/// Both machines and the wire between them.
struct Pair {
    client: Client,
    model: Model,
    up: Cuts,
    down: Cuts,
    got: BTreeMap<Op, Vec<u8>>,
    names: Vec<String>,
    results: BTreeMap<Op, Result<Answer, OpError>>,
    supplies: BTreeMap<Op, Bytes>,
    received: BTreeMap<Op, Vec<(u64, usize)>>,
    frames: Vec<String>,
}

impl Pair {
    fn new() -> Self {
        Pair {
            client: Client::new(Depth::default()),
            model: Model::new(),
            up: Cuts::default(),
            down: Cuts::default(),
            got: BTreeMap::new(),
            names: Vec::new(),
            results: BTreeMap::new(),
            supplies: BTreeMap::new(),
            received: BTreeMap::new(),
            frames: Vec::new(),
        }
    }

    fn file(mut self, name: &str, content: &[u8]) -> Self {
        self.model.files.insert(name.to_owned(), content.to_vec());
        self
    }

    /// Passes bytes to and fro until neither side has any.
    fn run(&mut self) {
        loop {
            self.supply();
            let mut output = Vec::new();
            while let Some(bytes) = self.client.poll_output() {
                output.extend_from_slice(&bytes);
            }
            let mut answers = Vec::new();
            for piece in self.up.pieces(&output) {
                let (frames, end) = self.model.receive(piece);
                assert_eq!(end, None);
                answers.extend(frames);
            }
            self.take(&answers.concat());
            if output.is_empty() && answers.is_empty() {
                return;
            }
        }
    }

    fn supply(&mut self) {
        for (op, data) in &mut self.supplies {
            while self.client.want_data(*op).is_some() && !data.is_empty() {
                let taken = self.client.supply(*op, data.clone());
                assert!(taken > 0);
                drop(data.split_to(taken));
            }
            if data.is_empty() {
                self.client.put_end(*op);
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for mut piece in self.down.clone().pieces(bytes) {
            loop {
                let Some(event) = self.client.next(&mut piece).unwrap() else { break };
                self.frames.push(format!("{event:?}").chars().take(60).collect());
                let mut more = None;
                match event {
                    Event::Ready => {}
                    Event::Names { op, names } => {
                        more = Some(op);
                        let names = names.into_iter().map(|entry| entry.name);
                        self.names.extend(names.map(|name| String::from_utf8(name).unwrap()));
                    }
                    Event::Data { op, offset, data } => {
                        let file = self.got.entry(op).or_default();
                        let start = usize::try_from(offset).unwrap();
                        file.resize(file.len().max(start + data.len()), b'?');
                        file[start..start + data.len()].copy_from_slice(data);
                        self.received.entry(op).or_default().push((offset, data.len()));
                    }
                    Event::Ended { op, result } => {
                        self.supplies.remove(&op);
                        assert!(self.results.insert(op, result).is_none(), "ended twice");
                    }
                }
                if let Some(op) = more {
                    self.client.list_more(op);
                }
            }
        }
        self.down.passed += bytes.len();
    }

    fn finish(&mut self, op: Op) -> Result<Answer, OpError> {
        self.run();
        self.results.remove(&op).expect("the operation did not end")
    }

    fn open(&mut self, path: &str, flags: OpenFlags) -> RemoteHandle {
        let op = self.client.open(path, flags, &Attrs::default()).unwrap();
        match self.finish(op) {
            Ok(Answer::Handle(handle)) => handle,
            other => panic!("{other:?}"),
        }
    }

    fn put(&mut self, path: &str, content: &[u8]) -> Result<Answer, OpError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let handle = self.open(path, flags);
        let op = self.client.put(&handle, 0);
        self.supplies.insert(op, Bytes::copy_from_slice(content));
        let result = self.finish(op);
        let closed = self.client.close(&handle).unwrap();
        assert_eq!(self.finish(closed), Ok(Answer::Done));
        result
    }

    fn get(&mut self, path: &str, extent: Extent) -> (Result<Answer, OpError>, Vec<u8>) {
        let handle = self.open(path, OpenFlags::READ);
        let op = self.client.get(&handle, extent);
        let result = self.finish(op);
        (result, self.got.remove(&op).unwrap_or_default())
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|place| u8::try_from(place * 7 % 251).unwrap()).collect()
}

/// A whole session; what came of it.
fn session(up: Vec<usize>, down: Vec<usize>) -> (Vec<String>, Vec<u8>, usize, usize) {
    let mut pair = Pair::new().file("/home/old", b"old").file("/home/b", b"bb");
    pair.up.at = up;
    pair.down.at = down;
    assert!(pair.put("x.part", b"twenty bytes of data").is_ok());
    let begun = [
        pair.client.stat("x.part").unwrap(),
        pair.client.posix_rename("x.part", "old").unwrap(),
        pair.client.stat("none").unwrap(),
        pair.client.mkdir("d").unwrap(),
        pair.client.realpath("d").unwrap(),
        pair.client.statvfs("/").unwrap(),
        pair.client.check_file("old", "sum8").unwrap(),
        pair.client.list(".").unwrap(),
    ];
    let mut told: Vec<String> =
        begun.into_iter().map(|op| format!("{:?}", pair.finish(op))).collect();
    let (result, got) = pair.get("old", Extent::whole(20));
    told.push(format!("{result:?} {:?}", pair.names));
    (told, got, pair.up.passed, pair.down.passed)
}

#[test]
fn a_session_split_at_every_byte_is_the_same_session() {
    let whole = session(vec![], vec![]);
    assert_eq!(whole.1, b"twenty bytes of data");
    assert!(whole.0[0].contains("size: Some(20)"), "{:?}", whole.0);
    assert_eq!(whole.0[1], "Ok(Done)");
    assert!(whole.0[2].contains("code: 2"));
    assert_eq!(whole.0[4], format!("Ok(Name({:?}))", b"/home/d"));
    assert!(whole.0[5].contains("total_bytes: 409600, free_bytes: 204800"));
    assert_eq!(
        whole.0[8],
        "Ok(Transferred { bytes: 20 }) [\"d\", \"old\", \"b\"]"
            .replace("\"d\", \"old\", \"b\"", "\"b\", \"old\", \"d\"")
    );
    for at in 0..whole.2.max(whole.3) {
        let split = session(vec![at], vec![at]);
        assert_eq!(split, whole, "split at {at}");
    }
    let everywhere: Vec<usize> = (0..whole.2.max(whole.3)).collect();
    assert_eq!(session(everywhere.clone(), everywhere), whole);
}

#[test]
fn large_files_go_both_ways() {
    let content = bytes(5_000_000);
    let mut pair = Pair::new();
    assert_eq!(pair.put("big", &content), Ok(Answer::Transferred { bytes: 5_000_000 }));
    assert!(pair.model.files["/home/big"] == content);
    for expected in [0, 1, 4_999_999, 5_000_000, 5_000_001, 9_000_000] {
        let (result, got) = pair.get("big", Extent::whole(expected));
        assert_eq!(result, Ok(Answer::Transferred { bytes: 5_000_000 }), "{expected}");
        assert!(got == content, "{expected}");
    }
    let extent = Extent { offset: 1_000_000, end: Some(1_700_000), expected: 5_000_000 };
    let (result, got) = pair.get("big", extent);
    assert_eq!(result, Ok(Answer::Transferred { bytes: 700_000 }));
    assert!(got[1_000_000..] == content[1_000_000..1_700_000]);
    let beyond = Extent { offset: 4_999_990, end: Some(6_000_000), expected: 6_000_000 };
    assert_eq!(pair.get("big", beyond).0, Ok(Answer::Transferred { bytes: 10 }));
}

#[test]
fn short_answers_are_asked_again_and_order_does_not_matter() {
    let content = bytes(100_000);
    for (short_reads, reversed) in [(1000, false), (999, true), (0, true)] {
        let mut pair = Pair::new().file("/home/f", &content);
        pair.model.quirks.short_reads = short_reads;
        pair.model.quirks.reversed = reversed;
        for expected in [0, 50_000, 100_000, 200_000] {
            let (result, got) = pair.get("f", Extent::whole(expected));
            assert_eq!(result, Ok(Answer::Transferred { bytes: 100_000 }));
            assert!(got == content, "{short_reads} {reversed} {expected}");
        }
    }
}

#[test]
fn a_small_file_of_known_size_costs_two_reads() {
    let mut pair = Pair::new().file("/home/f", b"small");
    let handle = pair.open("f", OpenFlags::READ);
    pair.client.get(&handle, Extent::whole(5));
    let reads = requests(&mut pair.client);
    assert_eq!(reads.len(), 2, "{reads:?}");
    assert!(reads[0].contains("offset: 0, len: 5 ") && reads[1].contains("offset: 5,"));
    let mut pair = Pair::new().file("/home/f", b"");
    let handle = pair.open("f", OpenFlags::READ);
    pair.client.get(&handle, Extent::whole(0));
    assert_eq!(requests(&mut pair.client).len(), 1);
}

/// What the client sends now, as the server machine reads it.
fn requests(client: &mut Client) -> Vec<String> {
    let mut server = Server::new();
    let init = [0, 0, 0, 5, 1, 0, 0, 0, 3];
    assert!(matches!(server.next(&mut &init[..]), Ok(Some(Incoming::Init { version: 3 }))));
    let mut requests = Vec::new();
    while let Some(output) = client.poll_output() {
        let mut input = &output[..];
        while let Some(incoming) = server.next(&mut input).unwrap() {
            match incoming {
                Incoming::Request { request: Request::Write { offset, data, .. }, .. } => {
                    requests.push(format!("Write {offset} {}", data.len()));
                }
                other => requests.push(format!("{other:?}")),
            }
        }
    }
    requests
}

#[test]
fn no_more_than_the_depth_is_in_flight() {
    for (depth, plain, reads) in [
        (Depth::default(), false, 64),
        (Depth { requests: 5, bytes: u64::MAX }, false, 5),
        (Depth { requests: 1000, bytes: 1_000_000 }, false, 3),
        (Depth { requests: 1000, bytes: 1 }, false, 1),
        (Depth { requests: 1000, bytes: 1_000_000 }, true, 30),
    ] {
        let mut pair = Pair::new().file("/home/f", b"");
        pair.client = Client::new(depth);
        pair.model.quirks.plain = plain;
        let handle = pair.open("f", OpenFlags::READ);
        let size = if plain { 32_768 } else { 261_120 };
        assert_eq!(pair.client.data_bytes(), (size, size));
        pair.client.get(&handle, Extent::whole(1 << 40));
        assert_eq!(requests(&mut pair.client).len(), reads, "{depth:?}");
        let op = pair.client.put(&handle, 0);
        assert_eq!(pair.client.want_data(op), None, "the get has all the room");
    }
    let mut pair = Pair::new().file("/home/f", b"");
    let handle = pair.open("f", OpenFlags::WRITE);
    let op = pair.client.put(&handle, 7);
    let data = Bytes::from(vec![1; 300_000]);
    assert_eq!(pair.client.want_data(op), Some(7..261_127));
    let mut supplied = 0;
    while pair.client.want_data(op).is_some() {
        assert_eq!(pair.client.supply(op, data.clone()), 261_120);
        supplied += 1;
    }
    assert_eq!((supplied, pair.client.supply(op, data)), (64, 0));
    assert_eq!(requests(&mut pair.client)[1], "Write 261127 261120");
}

#[test]
fn gets_share_the_depth() {
    let mut pair = Pair::new().file("/home/f", b"").file("/home/g", b"");
    let (f, g) = (pair.open("f", OpenFlags::READ), pair.open("g", OpenFlags::READ));
    pair.client.get(&f, Extent::whole(1 << 30));
    pair.client.stat("f").unwrap();
    pair.client.get(&g, Extent::whole(1 << 30));
    assert_eq!(requests(&mut pair.client).len(), 64, "the first get took all");
    assert_eq!(pair.client.unanswered(), 65, "the STAT waits");
}

#[test]
fn a_refused_write_ends_the_put_when_all_is_answered() {
    let mut pair = Pair::new();
    pair.model.quirks.refuse_write = 3;
    let error = pair.put("f", &bytes(3_000_000)).unwrap_err();
    assert!(error.is(Status::Failure), "{error}");
    assert!(error.to_string().contains("the disk is full"));
    let stat = pair.client.stat("f").unwrap();
    assert!(pair.finish(stat).is_ok(), "the connection goes on");
}

#[test]
fn a_file_that_became_shorter_is_told() {
    let mut pair = Pair::new().file("/home/f", &bytes(100_000));
    pair.model.quirks.plain = true;
    let handle = pair.open("f", OpenFlags::READ);
    let op = pair.client.get(&handle, Extent::whole(100_000));
    let mut output = Vec::new();
    while let Some(bytes) = pair.client.poll_output() {
        output.extend_from_slice(&bytes);
    }
    // The READs arrive in order: the first two see the whole file, the third sees it cut at the
    // first's end, and so the second's bytes belong to no version of the file.
    let third = output.len() / 5 * 2;
    let (mut answers, _) = pair.model.receive(&output[..third]);
    pair.model.files.insert("/home/f".into(), bytes(10));
    answers.extend(pair.model.receive(&output[third..]).0);
    pair.model.quirks.short_reads = 0;
    pair.take(&answers.concat());
    pair.run();
    let result = pair.results.remove(&op).unwrap();
    assert_eq!(result, Ok(Answer::Transferred { bytes: 65_536 }), "contiguous up to the EOF");

    let mut pair = Pair::new().file("/home/f", &bytes(100_000));
    pair.model.quirks.plain = true;
    let handle = pair.open("f", OpenFlags::READ);
    let op = pair.client.get(&handle, Extent::whole(100_000));
    let mut output = Vec::new();
    while let Some(bytes) = pair.client.poll_output() {
        output.extend_from_slice(&bytes);
    }
    let one = output.len() / 5;
    pair.model.files.insert("/home/f".into(), vec![]);
    let (mut answers, _) = pair.model.receive(&output[..one]);
    pair.model.files.insert("/home/f".into(), bytes(100_000));
    answers.extend(pair.model.receive(&output[one..]).0);
    pair.take(&answers.concat());
    pair.run();
    assert_eq!(pair.results.remove(&op), Some(Err(OpError::Changed)));
}

#[test]
fn a_listing_waits_to_be_asked_and_can_be_ended() {
    let mut pair = Pair::new();
    for number in 0..100 {
        pair.model.files.insert(format!("/home/{number:03}"), vec![]);
    }
    pair.model.quirks.entries = 10;
    let op = pair.client.list(".").unwrap();
    assert_eq!(pair.finish(op), Ok(Answer::Done));
    let want: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    assert_eq!(pair.names, want);

    let op = pair.client.list(".").unwrap();
    pump_once(&mut pair);
    let mut answers = pump_once(&mut pair);
    assert_eq!(answers.len(), 2, "two READDIRs in flight");
    for answer in answers.drain(..) {
        let event = pair.client.next(&mut &answer[..]).unwrap();
        assert!(matches!(event, Some(Event::Names { ref names, .. }) if names.len() == 10));
    }
    assert!(pair.client.poll_output().is_none(), "no READDIR without a demand");
    pair.client.list_more(op);
    pair.client.cancel(op);
    assert_eq!(pair.finish(op), Err(OpError::Cancelled));
    let op = pair.client.list("none").unwrap();
    assert!(pair.finish(op).unwrap_err().is(Status::NoSuchFile));
    assert_eq!(pair.client.unanswered(), 0);
}

/// Passes one round of requests on; the answers of all but READDIR are taken.
fn pump_once(pair: &mut Pair) -> Vec<Bytes> {
    let mut answers = Vec::new();
    while let Some(output) = pair.client.poll_output() {
        answers.extend(pair.model.receive(&output).0);
    }
    let (names, rest): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|frame| frame.get(4) == Some(&104));
    pair.take(&rest.concat());
    names
}

#[test]
fn a_cancelled_get_leaves_the_rest_alone() {
    let mut pair = Pair::new().file("/home/f", &bytes(1_000_000)).file("/home/g", b"gg");
    let f = pair.open("f", OpenFlags::READ);
    let op = pair.client.get(&f, Extent::whole(1_000_000));
    pair.client.cancel(op);
    assert_eq!(pair.finish(op), Err(OpError::Cancelled));
    assert!(!pair.got.contains_key(&op), "no data is told after a cancel");
    assert_eq!(pair.get("g", Extent::whole(2)).1, b"gg");
    let put = pair.client.put(&f, 0);
    pair.client.cancel(put);
    assert_eq!(pair.finish(put), Err(OpError::Cancelled));
}

#[test]
fn every_single_operation_reaches_the_server() {
    let mut pair = Pair::new().file("/home/f", b"12345");
    let handle = pair.open("f", OpenFlags::READ | OpenFlags::WRITE);
    let times = Times { accessed: 5, modified: 6 };
    let set_times = Attrs { times: Some(times), ..Attrs::default() };
    let set_size = Attrs { size: Some(2), ..Attrs::default() };
    let begun = [
        pair.client.fsync(&handle),
        pair.client.fsetstat(&handle, &set_size),
        pair.client.setstat("f", &set_times),
        pair.client.mkdir("d"),
        pair.client.rmdir("d"),
        pair.client.rename("f", "g"),
        pair.client.remove("g"),
    ];
    for op in begun.map(Result::unwrap) {
        assert_eq!(pair.finish(op), Ok(Answer::Done));
    }
    assert_eq!(pair.model.times["/home/f"], times);
    assert!(pair.model.files.is_empty());
    let mut pair = Pair::new().file("/home/f", b"12345");
    let handle = pair.open("f", OpenFlags::READ);
    for op in [pair.client.lstat("f"), pair.client.fstat(&handle)].map(Result::unwrap) {
        let Ok(Answer::Attrs(attrs)) = pair.finish(op) else { panic!("no attributes") };
        assert_eq!((attrs.size, attrs.is_directory()), (Some(5), Some(false)));
    }
    let op = pair.client.hardlink("f", "h").unwrap();
    assert!(pair.finish(op).unwrap_err().is(Status::OpUnsupported));
}

#[test]
fn what_is_not_offered_is_not_asked() {
    let mut pair = Pair::new();
    pair.model.quirks.plain = true;
    pair.run();
    assert!(pair.client.is_ready());
    assert_eq!(
        pair.client.posix_rename("a", "b"),
        Err(NotBegun::NotOffered("posix-rename@openssh.com"))
    );
    assert_eq!(pair.client.check_file("a", "md5"), Err(NotBegun::NotOffered("check-file")));
    assert!(pair.client.poll_output().is_none());
}

/// A client that is ready and has one STAT in flight under id 0.
fn asking() -> Client {
    let mut client = Client::new(Depth::default());
    assert_eq!(client.poll_output().unwrap()[..], [0, 0, 0, 5, 1, 0, 0, 0, 3]);
    let version = [0, 0, 0, 5, 2, 0, 0, 0, 3];
    assert_eq!(client.next(&mut &version[..]), Ok(Some(Event::Ready)));
    client.stat("f").unwrap();
    assert!(client.poll_output().is_some());
    client
}

fn fault(client: &mut Client, body: &[u8]) -> Fault {
    let frame = [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat();
    let fault = client.next(&mut &frame[..]).unwrap_err();
    assert_eq!(client.next(&mut &frame[..]), Err(Fault::Ended), "it stays ended");
    fault
}

#[test]
fn a_server_that_breaks_the_protocol_is_left() {
    let fresh = || Client::new(Depth::default());
    assert_eq!(fault(&mut fresh(), &[2, 0, 0, 0, 2]), Fault::Version(2));
    assert_eq!(fault(&mut fresh(), &[2, 0, 0]), Fault::Malformed(2));
    assert_eq!(fault(&mut fresh(), &[101, 0, 0, 0, 0, 0, 0, 0, 0]), Fault::Sequence(101));
    assert_eq!(fault(&mut fresh(), b"Welcome to example.org"), Fault::Sequence(b'W'));
    assert_eq!(fresh().next(&mut &[0xff; 4][..]), Err(Fault::Length(u32::MAX)));
    assert_eq!(fault(&mut asking(), &[2, 0, 0, 0, 3]), Fault::Sequence(2));
    assert_eq!(fault(&mut asking(), &[105, 0, 0, 0, 9, 0, 0, 0, 0]), Fault::Unasked(9));
    assert_eq!(fault(&mut asking(), &[105, 0, 0, 0, 0, 0, 0, 0, 16]), Fault::Malformed(105));
    assert_eq!(fault(&mut asking(), &[102, 0, 0, 0, 0, 0, 0, 0, 0]), Fault::WrongAnswer(102));
    assert_eq!(fault(&mut asking(), &[101, 0, 0, 0, 0, 0, 0, 0, 0]), Fault::WrongAnswer(101));
    assert_eq!(fault(&mut asking(), &[5, 0, 0, 0, 0, 0, 0, 0, 0]), Fault::Sequence(5));
}

#[test]
fn data_of_a_wrong_length_is_a_fault() {
    for (len, fault_len) in [(0u32, 0usize), (6, 6)] {
        let mut pair = Pair::new().file("/home/f", b"12345");
        let handle = pair.open("f", OpenFlags::READ);
        pair.client.get(&handle, Extent { offset: 0, end: Some(5), expected: 5 });
        let request = pair.client.poll_output().unwrap();
        let mut body = vec![103];
        body.extend_from_slice(&request[5..9]);
        body.extend(len.to_be_bytes());
        body.extend(vec![1; fault_len]);
        assert_eq!(fault(&mut pair.client, &body), Fault::DataLength { asked: 5, got: fault_len });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever the server's quirks and the cuts of both streams, files arrive whole.
    #[test]
    fn files_arrive_whole(
        content in proptest::collection::vec(any::<u8>(), 0..200_000),
        expected in 0u64..300_000,
        short_reads in prop_oneof![Just(0usize), 10_000usize..70_000],
        reversed in any::<bool>(),
        plain in any::<bool>(),
        cuts in proptest::collection::vec(0usize..300_000, 0..20),
    ) {
        let mut pair = Pair::new();
        let mut cuts = cuts;
        cuts.sort_unstable();
        pair.up.at = cuts.clone();
        pair.down.at = cuts;
        pair.model.quirks.plain = plain;
        let sent = pair.put("f", &content);
        prop_assert_eq!(sent, Ok(Answer::Transferred { bytes: content.len() as u64 }));
        prop_assert!(pair.model.files["/home/f"] == content);
        pair.model.quirks.short_reads = short_reads;
        pair.model.quirks.reversed = reversed;
        let (result, got) = pair.get("f", Extent::whole(expected));
        prop_assert_eq!(result, Ok(Answer::Transferred { bytes: content.len() as u64 }));
        prop_assert!(got == content);
    }
}
