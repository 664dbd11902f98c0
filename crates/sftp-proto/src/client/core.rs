//! The inside of the machine: sends what there is room for, takes answers in.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;

use super::answer::{self, Amiss, Answer, Pending, Want};
use super::event::Event;
use super::extensions::Extensions;
use super::listing::{self, Listing};
use super::op::{Fault, NotBegun, Op, OpError, RemoteHandle};
use super::output::{Output, Packet};
use super::transfer::{Ask, Extent, Getting, Putting};
use crate::limits::{
    BYTES_IN_FLIGHT, DATA_BYTES, DATA_BYTES_UNANNOUNCED, READDIRS_IN_FLIGHT, REQUESTS_IN_FLIGHT,
    REQUESTS_WAITING, VERSION,
};
use crate::status::Status;
use crate::table;
use crate::wire::{Fields, len_u32};

/// How deep the machine pipelines. What is above the named limits is cut to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Most requests in flight.
    pub requests: usize,
    /// Most bytes of READ and WRITE data in flight.
    pub bytes: u64,
}

impl Default for Depth {
    fn default() -> Self {
        Depth { requests: REQUESTS_IN_FLIGHT, bytes: BYTES_IN_FLIGHT }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// INIT is out.
    Greeting,
    /// VERSION came, the limits were asked for.
    AskingLimits,
    Ready,
    Ended,
}

/// A request that waits for a place in flight.
pub(super) struct Waiting {
    packet: Packet,
    pending: Pending,
}

/// An operation that takes more than one request.
pub(super) enum Running {
    Get(Getting),
    Put(Putting),
    List(Listing),
}

/// All of the machine but the bytes received, which it lends.
pub(super) struct Core {
    state: State,
    depth: Depth,
    pub(super) extensions: Extensions,
    pub(super) read_bytes: u32,
    pub(super) write_bytes: u32,
    next_id: u32,
    next_op: u64,
    pub(super) pending: BTreeMap<u32, Pending>,
    pub(super) bytes_in_flight: u64,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) running: BTreeMap<Op, Running>,
    /// Gets that may have something to ask, each at most once.
    eager: VecDeque<Op>,
    pub(super) output: Output,
    pub(super) events: VecDeque<Event<'static>>,
}

/// What a frame brought besides queued events.
pub(super) enum Brought {
    Nothing,
    /// The frame is DATA, whose bytes are lent to the caller.
    Data {
        op: Op,
        offset: u64,
    },
}

/// The file's bytes in a DATA frame; [`Core::take_in`] has checked it.
pub(super) fn data_of(body: &[u8]) -> &[u8] {
    let mut fields = Fields::new(body);
    let parsed = fields.u8().and_then(|_| fields.u32()).and_then(|_| fields.string());
    parsed.unwrap_or_default()
}

impl Core {
    pub(super) fn new(depth: Depth) -> Self {
        let mut output = Output::default();
        output.init();
        Core {
            state: State::Greeting,
            depth: Depth {
                requests: depth.requests.clamp(1, REQUESTS_IN_FLIGHT),
                bytes: depth.bytes.clamp(1, BYTES_IN_FLIGHT),
            },
            extensions: Extensions::default(),
            read_bytes: DATA_BYTES_UNANNOUNCED,
            write_bytes: DATA_BYTES_UNANNOUNCED,
            next_id: 0,
            next_op: 0,
            pending: BTreeMap::new(),
            bytes_in_flight: 0,
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            eager: VecDeque::new(),
            output,
            events: VecDeque::new(),
        }
    }

    /// VERSION and limits are known.
    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// The server broke the protocol before.
    pub(super) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    pub(super) fn fail(&mut self, fault: Fault) -> Fault {
        self.state = State::Ended;
        fault
    }

    fn new_op(&mut self) -> Op {
        self.next_op += 1;
        Op(self.next_op)
    }

    pub(super) fn extended(&self, name: &'static str, version: &str) -> Result<Packet, NotBegun> {
        if !self.extensions.offers(name, version) {
            return Err(NotBegun::NotOffered(name));
        }
        Ok(Packet::extended(name))
    }

    pub(super) fn begin(&mut self, packet: Packet, want: Want) -> Result<Op, NotBegun> {
        if self.waiting.len() >= REQUESTS_WAITING {
            return Err(NotBegun::Full);
        }
        let op = self.new_op();
        self.waiting.push_back(Waiting { packet, pending: Pending::One { op, want } });
        self.pump();
        Ok(op)
    }

    pub(super) fn begin_list(&mut self, path: &str) -> Result<Op, NotBegun> {
        if self.waiting.len() >= REQUESTS_WAITING {
            return Err(NotBegun::Full);
        }
        let op = self.new_op();
        self.running.insert(op, Running::List(Listing::default()));
        let packet = Packet::new(table::OPENDIR).string(path.as_bytes());
        self.waiting.push_back(Waiting { packet, pending: Pending::Opendir { op } });
        self.pump();
        Ok(op)
    }

    pub(super) fn begin_get(&mut self, handle: &RemoteHandle, extent: Extent) -> Op {
        let op = self.new_op();
        self.running.insert(op, Running::Get(Getting::new(handle.clone(), extent)));
        self.eager.push_back(op);
        self.pump();
        self.settle(op);
        op
    }

    pub(super) fn begin_put(&mut self, handle: &RemoteHandle, offset: u64) -> Op {
        let op = self.new_op();
        self.running.insert(op, Running::Put(Putting::new(handle.clone(), offset)));
        op
    }

    /// No more data comes for a put.
    pub(super) fn put_end(&mut self, op: Op) {
        if let Some(Running::Put(put)) = self.running.get_mut(&op) {
            put.end();
        }
        self.settle(op);
    }

    /// True if a request with so many bytes of data may go out.
    fn has_room(&self, bytes: u32) -> bool {
        let in_flight = self.bytes_in_flight;
        let fits = in_flight == 0 || in_flight + u64::from(bytes) <= self.depth.bytes;
        self.state == State::Ready && self.pending.len() < self.depth.requests && fits
    }

    /// An id that is not in flight, for what waits under it.
    fn claim_id(&mut self, pending: Pending) -> u32 {
        // At most `depth.requests` ids are taken, so this ends.
        while self.pending.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.bytes_in_flight += pending.bytes();
        self.pending.insert(id, pending);
        id
    }

    /// Sends what there is room for: single requests first, then READs, each get in turn.
    fn pump(&mut self) {
        while self.has_room(0) {
            let Some(Waiting { packet, pending }) = self.waiting.pop_front() else { break };
            let id = self.claim_id(pending);
            self.output.packet(id, &packet);
        }
        while self.has_room(self.read_bytes) {
            let Some(op) = self.eager.pop_front() else { break };
            self.ask(op);
        }
    }

    fn ask(&mut self, op: Op) {
        let Some(Running::Get(get)) = self.running.get_mut(&op) else { return };
        let Some(Ask { offset, len }) = get.ask(self.read_bytes) else { return };
        let handle = get.handle.clone();
        let id = self.claim_id(Pending::Read { op, offset, len });
        self.output.read(id, &handle, offset, len);
        self.eager.push_back(op);
    }

    pub(super) fn want_data(&self, op: Op) -> Option<Range<u64>> {
        let Some(Running::Put(put)) = self.running.get(&op) else { return None };
        if !put.wants() || !self.waiting.is_empty() || !self.has_room(self.write_bytes) {
            return None;
        }
        Some(put.next..put.next.saturating_add(u64::from(self.write_bytes)))
    }

    pub(super) fn supply(&mut self, op: Op, mut data: Bytes) -> usize {
        if self.want_data(op).is_none() || data.is_empty() {
            return 0;
        }
        let Some(Running::Put(put)) = self.running.get_mut(&op) else { return 0 };
        data.truncate(usize::try_from(self.write_bytes).unwrap_or(usize::MAX));
        let len = len_u32(data.len());
        let (offset, handle) = (put.advance(len), put.handle.clone());
        let id = self.claim_id(Pending::Write { op, len });
        let taken = data.len();
        self.output.write(id, &handle, offset, data);
        taken
    }

    pub(super) fn cancel(&mut self, op: Op) {
        match self.running.get_mut(&op) {
            Some(Running::Get(get)) => get.cancel(),
            Some(Running::Put(put)) => put.cancel(),
            Some(Running::List(list)) => {
                list.over = true;
                list.failure.get_or_insert(OpError::Cancelled);
            }
            None => return,
        }
        self.settle(op);
        self.pump();
    }

    /// Tells the result of a running operation if it has one.
    fn settle(&mut self, op: Op) {
        let result = match self.running.get(&op) {
            Some(Running::Get(get)) => get.result(),
            Some(Running::Put(put)) => put.result(),
            Some(Running::List(_)) => return self.settle_list(op),
            None => return,
        };
        if let Some(result) = result {
            self.running.remove(&op);
            self.events.push_back(Event::Ended { op, result });
        }
    }

    /// Closes a listing that is over as soon as no READDIR is in flight.
    fn settle_list(&mut self, op: Op) {
        let Some(Running::List(list)) = self.running.get_mut(&op) else { return };
        if !list.over || list.in_flight > 0 || list.closing {
            return;
        }
        let Some(handle) = list.handle.clone() else { return };
        list.closing = true;
        let packet = Packet::new(table::CLOSE).handle(&handle);
        self.waiting.push_back(Waiting { packet, pending: Pending::Closedir { op } });
    }

    pub(super) fn list_more(&mut self, op: Op) {
        self.readdir(op);
        self.pump();
    }

    fn readdir(&mut self, op: Op) {
        let Some(Running::List(list)) = self.running.get_mut(&op) else { return };
        let Some(handle) = &list.handle else { return };
        if list.over || list.in_flight >= READDIRS_IN_FLIGHT {
            return;
        }
        let packet = Packet::new(table::READDIR).handle(handle);
        list.in_flight += 1;
        self.waiting.push_back(Waiting { packet, pending: Pending::Readdir { op } });
    }

    fn end_list(&mut self, op: Op, failure: Option<OpError>) {
        self.running.remove(&op);
        let result = failure.map_or(Ok(Answer::Done), Err);
        self.events.push_back(Event::Ended { op, result });
    }

    /// Takes one frame of the server in.
    pub(super) fn take_in(&mut self, body: &[u8]) -> Result<Brought, Fault> {
        let mut fields = Fields::new(body);
        let kind = fields.u8().map_err(|_| Fault::Malformed(0))?;
        if self.state == State::Greeting {
            self.take_version(kind, &mut fields)?;
            return Ok(Brought::Nothing);
        }
        if !(table::STATUS..=table::ATTRS).contains(&kind) && kind != table::EXTENDED_REPLY {
            return Err(Fault::Sequence(kind));
        }
        let id = fields.u32().map_err(|_| Fault::Malformed(kind))?;
        let pending = self.pending.remove(&id).ok_or(Fault::Unasked(id))?;
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(pending.bytes());
        let brought = match pending {
            Pending::Read { op, offset, len } => {
                self.take_read(kind, &mut fields, op, Ask { offset, len })
            }
            other => self.take_other(kind, &mut fields, other).map(|()| Ok(Brought::Nothing)),
        };
        let brought = brought.map_err(|amiss| match amiss {
            Amiss::Malformed => Fault::Malformed(kind),
            Amiss::WrongKind => Fault::WrongAnswer(kind),
        })?;
        self.pump();
        brought
    }

    fn take_version(&mut self, kind: u8, fields: &mut Fields<'_>) -> Result<(), Fault> {
        if kind != table::VERSION {
            return Err(Fault::Sequence(kind));
        }
        match fields.u32().map_err(|_| Fault::Malformed(kind))? {
            VERSION => {}
            other => return Err(Fault::Version(other)),
        }
        self.extensions = Extensions::parse(fields).map_err(|_| Fault::Malformed(kind))?;
        self.state = State::AskingLimits;
        if self.extensions.offers("limits@openssh.com", "1") {
            let id = self.claim_id(Pending::Limits);
            self.output.packet(id, &Packet::extended("limits@openssh.com"));
        } else {
            self.become_ready();
        }
        Ok(())
    }

    fn become_ready(&mut self) {
        self.state = State::Ready;
        self.events.push_back(Event::Ready);
        self.pump();
    }

    /// The answer to our question for limits; a refusal leaves the defaults.
    fn take_limits(&mut self, kind: u8, fields: &mut Fields<'_>) -> Result<(), Amiss> {
        match kind {
            table::EXTENDED_REPLY => {
                let (_packet, read, write) = answer::limits(fields)?;
                let within = |announced: u64| match u32::try_from(announced) {
                    Ok(0) => DATA_BYTES_UNANNOUNCED,
                    Ok(announced) => announced.min(DATA_BYTES),
                    Err(_) => DATA_BYTES,
                };
                (self.read_bytes, self.write_bytes) = (within(read), within(write));
            }
            table::STATUS => {}
            _ => return Err(Amiss::WrongKind),
        }
        self.become_ready();
        Ok(())
    }

    fn take_read(
        &mut self,
        kind: u8,
        fields: &mut Fields<'_>,
        op: Op,
        ask: Ask,
    ) -> Result<Result<Brought, Fault>, Amiss> {
        let Some(Running::Get(get)) = self.running.get_mut(&op) else {
            return Ok(Ok(Brought::Nothing));
        };
        let mut brought = Brought::Nothing;
        match kind {
            table::DATA => {
                let got = fields.string()?.len();
                let len = len_u32(got);
                if got == 0 || len > ask.len {
                    return Ok(Err(Fault::DataLength { asked: ask.len, got }));
                }
                if get.data(ask, len) {
                    brought = Brought::Data { op, offset: ask.offset };
                }
            }
            table::STATUS => match answer::status(fields)? {
                Ok(()) => return Err(Amiss::WrongKind),
                Err(error) if error.is(Status::Eof) => get.end_of_file(ask),
                Err(error) => get.refused(ask, error),
            },
            _ => return Err(Amiss::WrongKind),
        }
        if !self.eager.contains(&op) {
            self.eager.push_back(op);
        }
        self.pump();
        self.settle(op);
        Ok(Ok(brought))
    }

    fn take_other(
        &mut self,
        kind: u8,
        fields: &mut Fields<'_>,
        pending: Pending,
    ) -> Result<(), Amiss> {
        match pending {
            Pending::Limits => self.take_limits(kind, fields)?,
            Pending::One { op, want } => {
                let result = answer::one(kind, want, fields)?;
                self.events.push_back(Event::Ended { op, result });
            }
            Pending::Write { op, len } => {
                let result = status_only(kind, fields)?;
                if let Some(Running::Put(put)) = self.running.get_mut(&op) {
                    put.answered(len, result);
                }
                self.settle(op);
            }
            Pending::Opendir { op } => self.take_opendir(kind, fields, op)?,
            Pending::Readdir { op } => self.take_readdir(kind, fields, op)?,
            Pending::Closedir { op } => {
                let refused = status_only(kind, fields)?.err();
                let failure = match self.running.get_mut(&op) {
                    Some(Running::List(list)) => list.failure.take(),
                    _ => None,
                };
                self.end_list(op, failure.or(refused));
            }
            Pending::Read { .. } => {}
        }
        Ok(())
    }

    fn take_opendir(&mut self, kind: u8, fields: &mut Fields<'_>, op: Op) -> Result<(), Amiss> {
        match answer::one(kind, Want::Handle, fields)? {
            Ok(Answer::Handle(handle)) => {
                if let Some(Running::List(list)) = self.running.get_mut(&op) {
                    list.handle = Some(handle);
                }
                (0..READDIRS_IN_FLIGHT).for_each(|_| self.readdir(op));
                self.settle_list(op);
            }
            Ok(_) => return Err(Amiss::WrongKind),
            Err(refused) => self.end_list(op, Some(refused)),
        }
        Ok(())
    }

    fn take_readdir(&mut self, kind: u8, fields: &mut Fields<'_>, op: Op) -> Result<(), Amiss> {
        let Some(Running::List(list)) = self.running.get_mut(&op) else { return Ok(()) };
        list.in_flight = list.in_flight.saturating_sub(1);
        match kind {
            table::NAME => {
                let names = listing::names(fields)?;
                if list.failure.is_none() {
                    self.events.push_back(Event::Names { op, names });
                }
            }
            _ => match status_only(kind, fields)? {
                Ok(()) => return Err(Amiss::WrongKind),
                Err(error) => {
                    list.over = true;
                    if !error.is(Status::Eof) {
                        list.failure.get_or_insert(error);
                    }
                }
            },
        }
        self.settle_list(op);
        Ok(())
    }
}

fn status_only(kind: u8, fields: &mut Fields<'_>) -> Result<Result<(), OpError>, Amiss> {
    if kind != table::STATUS {
        return Err(Amiss::WrongKind);
    }
    Ok(answer::status(fields)?)
}
