//! Requests as bytes, and the bytes that wait to be sent.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

use super::op::RemoteHandle;
use crate::attrs::Attrs;
use crate::limits::{JOINED_WRITE_BYTES, VERSION};
use crate::table;
use crate::wire::{len_u32, put_string};

/// A request without its id: that is given when it is sent.
#[derive(Debug)]
pub(super) struct Packet {
    kind: u8,
    fields: BytesMut,
}

impl Packet {
    pub(super) fn new(kind: u8) -> Self {
        Packet { kind, fields: BytesMut::new() }
    }

    pub(super) fn extended(name: &str) -> Self {
        Packet::new(table::EXTENDED).string(name.as_bytes())
    }

    pub(super) fn string(mut self, bytes: &[u8]) -> Self {
        put_string(&mut self.fields, bytes);
        self
    }

    pub(super) fn handle(self, handle: &RemoteHandle) -> Self {
        self.string(&handle.0)
    }

    pub(super) fn number(mut self, number: u32) -> Self {
        self.fields.put_u32(number);
        self
    }

    pub(super) fn long(mut self, number: u64) -> Self {
        self.fields.put_u64(number);
        self
    }

    pub(super) fn attrs(mut self, attrs: &Attrs) -> Self {
        attrs.put(&mut self.fields);
        self
    }
}

/// Bytes to send. Small requests share a buffer; the data of a WRITE is passed on as it came.
#[derive(Debug, Default)]
pub(super) struct Output {
    queue: VecDeque<Bytes>,
    tail: BytesMut,
}

/// Type and id, the part of a length that every request has.
const TYPE_AND_ID: usize = 5;

impl Output {
    pub(super) fn init(&mut self) {
        self.tail.put_u32(5);
        self.tail.put_u8(table::INIT);
        self.tail.put_u32(VERSION);
    }

    fn head(&mut self, kind: u8, id: u32, fields: usize) {
        self.tail.put_u32(len_u32(TYPE_AND_ID + fields));
        self.tail.put_u8(kind);
        self.tail.put_u32(id);
    }

    pub(super) fn packet(&mut self, id: u32, packet: &Packet) {
        self.head(packet.kind, id, packet.fields.len());
        self.tail.put_slice(&packet.fields);
    }

    pub(super) fn read(&mut self, id: u32, handle: &RemoteHandle, offset: u64, len: u32) {
        self.head(table::READ, id, 4 + handle.0.len() + 12);
        put_string(&mut self.tail, &handle.0);
        self.tail.put_u64(offset);
        self.tail.put_u32(len);
    }

    pub(super) fn write(&mut self, id: u32, handle: &RemoteHandle, offset: u64, data: Bytes) {
        self.head(table::WRITE, id, 4 + handle.0.len() + 12 + data.len());
        put_string(&mut self.tail, &handle.0);
        self.tail.put_u64(offset);
        self.tail.put_u32(len_u32(data.len()));
        if data.len() < JOINED_WRITE_BYTES {
            self.tail.put_slice(&data);
        } else {
            self.queue.push_back(self.tail.split().freeze());
            self.queue.push_back(data);
        }
    }

    pub(super) fn poll(&mut self) -> Option<Bytes> {
        self.queue.pop_front().or_else(|| {
            let rest = self.tail.split().freeze();
            (!rest.is_empty()).then_some(rest)
        })
    }
}
