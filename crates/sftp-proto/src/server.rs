//! The server machine: a channel's bytes in, requests out.

use bytes::Bytes;

use crate::frames::{BadLength, Frames};
use crate::refusal::Refusal;
use crate::reply;
use crate::request::{Flaw, Parsed, Request};
use crate::status::Status;
use crate::table;
use crate::wire::{Fields, Malformed};

/// One packet of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// INIT, always the first and only once. Answer [`reply::version`]: version 3 whatever was
    /// asked (lftp asks for 6), so `version` is for the log.
    Init {
        /// What the client asked for.
        version: u32,
    },
    /// A request. Exactly one answer with the same `id`; ids may repeat (psftp uses 256 for
    /// nearly all).
    Request {
        /// To be echoed.
        id: u32,
        /// What is asked.
        request: Request<'a>,
    },
    /// A packet that no adapter needs to see. Answer [`reply::refused`].
    Refused {
        /// To be echoed.
        id: u32,
        /// Decides the status and the sentence of the answer.
        refusal: Refusal,
    },
}

/// After which the channel must be closed. [`Fatal::last_reply`] goes out before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// A length of 0 or above [`crate::limits::FRAME_BYTES`].
    #[error("the peer sent a frame of {0} bytes, allowed are 1 to 262144")]
    Length(u32),
    /// Something came before INIT.
    #[error("the peer sent packet type {0} before INIT")]
    NotInit(u8),
    /// INIT came again.
    #[error("the peer sent INIT again")]
    InitAgain,
    /// An answer came from a client.
    #[error("the peer sent packet type {0}, which only servers send")]
    Backwards(u8),
    /// A field runs past its frame, or an attribute has undefined bits.
    #[error("the peer sent a malformed packet of type {kind}")]
    Malformed {
        /// Type of the packet.
        kind: u8,
        /// Its id if it had one.
        id: Option<u32>,
    },
    /// Asked again after an end.
    #[error("the channel has already ended")]
    Ended,
}

impl Fatal {
    /// What to answer before closing: BAD_MESSAGE to a malformed request.
    pub fn last_reply(self) -> Option<Bytes> {
        match self {
            Fatal::Malformed { id: Some(id), .. } => {
                Some(reply::status(id, Status::BadMessage, "the packet is malformed"))
            }
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Fresh,
    Open,
    Ended,
}

/// The machine of one channel. Idle it holds less than 100 bytes besides itself.
#[derive(Debug, Default)]
pub struct Server {
    frames: Frames,
    state: State,
}

impl Server {
    /// A machine that waits for INIT.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next packet, taken from the front of `input`; call until `None`, when `input` is used
    /// up (the piece of a frame at its end is kept here). `input` may hold many frames, a piece
    /// of one, or nothing.
    ///
    /// # Errors
    /// What ends the channel; every later call then fails too.
    pub fn next<'a, 'd: 'a>(
        &'a mut self,
        input: &mut &'d [u8],
    ) -> Result<Option<Incoming<'a>>, Fatal> {
        if self.state == State::Ended {
            return Err(Fatal::Ended);
        }
        let body = match self.frames.next(input) {
            Ok(Some(body)) => body,
            Ok(None) => return Ok(None),
            Err(BadLength(length)) => {
                self.state = State::Ended;
                return Err(Fatal::Length(length));
            }
        };
        let incoming = match self.state {
            State::Fresh => parse_init(body),
            _ => parse_request(body),
        };
        self.state = if incoming.is_ok() { State::Open } else { State::Ended };
        incoming.map(Some)
    }

    /// Gives the assembly buffer back unless a frame is in it. Call when a file was closed or
    /// the session turned idle.
    pub fn shrink(&mut self) {
        self.frames.shrink();
    }

    /// Bytes of memory held for assembly.
    pub fn buffered(&self) -> usize {
        self.frames.capacity()
    }
}

fn parse_init(body: &[u8]) -> Result<Incoming<'_>, Fatal> {
    let mut fields = Fields::new(body);
    let malformed = |Malformed| Fatal::Malformed { kind: table::INIT, id: None };
    match fields.u8().map_err(malformed)? {
        // Extension pairs behind the version are of no use to us: not even parsed.
        table::INIT => Ok(Incoming::Init { version: fields.u32().map_err(malformed)? }),
        kind => Err(Fatal::NotInit(kind)),
    }
}

fn parse_request(body: &[u8]) -> Result<Incoming<'_>, Fatal> {
    let mut fields = Fields::new(body);
    // The length was at least 1, so there is a type.
    let kind = fields.u8().unwrap_or(0);
    match kind {
        table::INIT => return Err(Fatal::InitAgain),
        table::VERSION | table::STATUS..=table::ATTRS | table::EXTENDED_REPLY => {
            return Err(Fatal::Backwards(kind));
        }
        _ => {}
    }
    let id = fields.u32().map_err(|Malformed| Fatal::Malformed { kind, id: None })?;
    match parse_fields(kind, &mut fields) {
        Ok(request) => Ok(Incoming::Request { id, request }),
        Err(Flaw::Refused(refusal)) => Ok(Incoming::Refused { id, refusal }),
        Err(Flaw::Malformed) => Err(Fatal::Malformed { kind, id: Some(id) }),
    }
}

fn parse_fields<'a>(kind: u8, fields: &mut Fields<'a>) -> Parsed<'a> {
    if kind == table::EXTENDED {
        let name = fields.string()?;
        let extension = table::extension_named(name);
        let refusal = Flaw::Refused(Refusal::UnknownExtension);
        return extension.ok_or(refusal).and_then(|extension| (extension.parse)(fields));
    }
    let parse = table::packet(kind).and_then(|packet| packet.parse);
    parse.ok_or(Flaw::Refused(Refusal::UnknownPacket(kind))).and_then(|parse| parse(fields))
}
