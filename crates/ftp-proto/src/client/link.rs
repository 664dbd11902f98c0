//! The control connection of a client: replies in, commands and events out.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::op::{Account, Event, Features, OpError, Outcome, Tls};
use super::replies::Replies;

/// The control connection and what is known of the server behind it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) account: Account,
    pub(super) peer: SocketAddr,
    pub(super) replies: Replies,
    pub(super) out: Vec<u8>,
    pub(super) events: VecDeque<Event>,
    pub(super) features: Features,
    /// TYPE I was sent.
    pub(super) binary: bool,
    /// EPSV or EPRT was refused.
    pub(super) old_commands: bool,
    /// REST was sent and no transfer has begun since: the server may keep the offset for the next.
    pub(super) offset_waits: bool,
    /// Replies of 1yz since the last command.
    pub(super) preliminary: usize,
}

impl Link {
    /// Nothing is known yet: all but UTF-8 is hoped for.
    pub(super) fn new(account: Account, peer: SocketAddr) -> Link {
        Link {
            account,
            peer,
            replies: Replies::default(),
            out: Vec::new(),
            events: VecDeque::new(),
            features: Features {
                mlst: true,
                size: true,
                mdtm: true,
                mfmt: true,
                rest: true,
                utf8: false,
            },
            binary: false,
            old_commands: false,
            offset_waits: false,
            preliminary: 0,
        }
    }

    pub(super) fn send(&mut self, verb: &str, argument: &str) {
        self.out.extend_from_slice(verb.as_bytes());
        if !argument.is_empty() {
            self.out.push(b' ');
            self.out.extend_from_slice(argument.as_bytes());
        }
        self.out.extend_from_slice(b"\r\n");
        self.preliminary = 0;
    }

    pub(super) fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(super) fn done(&mut self, outcome: Outcome) {
        self.event(Event::Done(outcome));
    }

    pub(super) fn fail(&mut self, error: OpError) {
        self.event(Event::Failed(error));
    }

    pub(super) fn is_protected(&self) -> bool {
        self.account.tls != Tls::Off
    }
}

/// Nothing in it ends the line.
pub(super) fn is_plain(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
}
