//! Entry point of the fuzzer: both machines on any bytes, whole and in pieces.

use crate::attrs::Attrs;
use crate::client::{Answer, Client, Depth, Event, Extent, Op};
use crate::limits::{BYTES_IN_FLIGHT, REQUESTS_IN_FLIGHT};
use crate::request::OpenFlags;
use crate::server::Server;
use crate::wire::Fields;

/// Feeds both machines. The first byte chooses server (even) or client (odd), the second the
/// size of the pieces; the rest is what the peer sends.
///
/// # Panics
/// If pieces give another result than the whole, or a limit is broken: what the fuzzer looks for.
pub fn fuzz(bytes: &[u8]) {
    let Some(([role, piece], stream)) = bytes.split_first_chunk::<2>() else { return };
    let piece = usize::from(*piece).saturating_add(1);
    if role % 2 == 0 {
        assert_eq!(serve(stream, stream.len().max(1)), serve(stream, piece));
    } else {
        assert_eq!(consume(stream, stream.len().max(1)), consume(stream, piece));
    }
    attributes(stream);
}

/// What the server machine tells of a stream, as text.
fn serve(stream: &[u8], piece: usize) -> Vec<String> {
    let (mut server, mut told) = (Server::new(), Vec::new());
    for mut input in stream.chunks(piece) {
        loop {
            match server.next(&mut input) {
                Ok(Some(incoming)) => told.push(format!("{incoming:?}")),
                Ok(None) => break,
                Err(fatal) => {
                    told.push(format!("{fatal:?} {:?}", fatal.last_reply()));
                    return told;
                }
            }
        }
        assert!(input.is_empty(), "input was left");
    }
    told
}

/// What the client machine tells of a stream, as text. It uses whatever the server gives it.
fn consume(stream: &[u8], piece: usize) -> Vec<String> {
    let mut client = Client::new(Depth::default());
    let mut told = Vec::new();
    let begun = [
        client.open("a", OpenFlags::READ, &Attrs::default()),
        client.list("d"),
        client.stat("s"),
        client.realpath("."),
    ];
    assert!(begun.iter().all(Result::is_ok), "four operations are few");
    for mut input in stream.chunks(piece) {
        loop {
            let event = match client.next(&mut input) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(fault) => {
                    told.push(format!("{fault:?}"));
                    return told;
                }
            };
            told.push(format!("{event:?}"));
            let next = Next::of(&event);
            go_on(&mut client, next);
            while client.poll_output().is_some() {}
            let (requests, bytes) = client.core_in_flight();
            assert!(requests <= REQUESTS_IN_FLIGHT && bytes <= BYTES_IN_FLIGHT);
        }
        assert!(input.is_empty(), "input was left");
    }
    told
}

/// What an event leads to.
enum Next {
    Transfer(crate::client::RemoteHandle),
    More(Op),
    Nothing,
}

impl Next {
    fn of(event: &Event<'_>) -> Next {
        match event {
            Event::Ended { result: Ok(Answer::Handle(handle)), .. } => {
                Next::Transfer(handle.clone())
            }
            Event::Names { op, .. } => Next::More(*op),
            _ => Next::Nothing,
        }
    }
}

fn go_on(client: &mut Client, next: Next) {
    match next {
        Next::Transfer(handle) => {
            client.get(&handle, Extent::whole(100));
            let op = client.put(&handle, 5);
            if client.want_data(op).is_some() {
                client.supply(op, bytes::Bytes::from_static(b"data"));
            }
            client.put_end(op);
        }
        Next::More(op) => client.list_more(op),
        Next::Nothing => {}
    }
}

/// Attributes that parse are encoded to the same.
fn attributes(stream: &[u8]) {
    if let Ok(attrs) = Attrs::parse(&mut Fields::new(stream)) {
        let mut wire = Vec::new();
        attrs.put(&mut wire);
        assert_eq!(Attrs::parse(&mut Fields::new(&wire)), Ok(attrs));
    }
}
