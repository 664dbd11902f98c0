//! Transfers: TYPE I, EPSV or PASV (EPRT or PORT), REST, the command, 150, the bytes, 226.

use std::net::SocketAddr;

use super::link::Link;
use super::op::{Event, Mode, Moves, Op, OpError, Outcome};
use super::replies::Fault;
use crate::hostport::{eprt_argument, parse_227, parse_229, port_argument};
use crate::reply::Reply;

/// A transfer on its way.
#[derive(Debug)]
pub(super) struct TransferStep {
    op: Op,
    at: At,
    /// The adapter said how the data connection ended.
    data: Option<DataEnd>,
    /// The server's last reply, while the data connection has not ended.
    last: Option<Reply>,
    /// ABOR was sent; so many last replies are awaited.
    aborting: Option<u8>,
    /// The directory to be listed is the current one.
    entered: bool,
}

/// The command whose reply is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Type,
    /// CWD before LIST.
    Enter,
    Passive,
    OldPassive,
    /// The adapter listens.
    Listen,
    Active(SocketAddr),
    OldActive,
    Rest,
    /// The command was sent.
    Command,
    /// The 150 has come: bytes are moved.
    Running,
}

/// How the data connection of a transfer ended on our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataEnd {
    Whole,
    Failed,
}

/// What follows in a transfer.
pub(super) enum TransferNext {
    Await(TransferStep),
    /// TYPE I stands, which is all that this operation needed of a transfer.
    Simple(Op),
    /// The adapter has an event that says how it ended.
    Over,
}

impl TransferStep {
    pub(super) fn begin(link: &mut Link, op: Op) -> TransferStep {
        let (data, last, aborting) = (None, None, None);
        let step = TransferStep { op, at: At::Type, data, last, aborting, entered: false };
        if link.binary {
            return step.open_data(link);
        }
        link.send("TYPE", "I");
        step
    }

    /// The adapter listens at this address.
    pub(super) fn listening(&mut self, link: &mut Link, address: SocketAddr) {
        if self.at == At::Listen {
            self.at = At::Active(address);
            self.send_address(link, address);
        }
    }

    fn send_address(&mut self, link: &mut Link, address: SocketAddr) {
        match address {
            SocketAddr::V4(address) if link.old_commands => {
                link.send("PORT", &port_argument(address));
                self.at = At::OldActive;
            }
            _ => link.send("EPRT", &eprt_argument(address)),
        }
    }

    /// True if the operation is over with it.
    pub(super) fn data_ended(&mut self, link: &mut Link, end: DataEnd) -> bool {
        self.data = Some(end);
        if self.last.is_some() {
            finish(link, end);
        }
        self.last.is_some()
    }

    pub(super) fn abort(&mut self, link: &mut Link) {
        let begun = matches!(self.at, At::Command | At::Running) && self.last.is_none();
        if begun && self.aborting.is_none() {
            self.aborting = Some(2);
            link.send("ABOR", "");
        }
    }

    pub(super) fn take(mut self, link: &mut Link, reply: Reply) -> Result<TransferNext, Fault> {
        let code = reply.code;
        if code < 200 && self.at != At::Command {
            return Ok(TransferNext::Await(self));
        }
        let next = match (self.at, code) {
            (At::Type, 200..300) => {
                link.binary = true;
                match self.op {
                    op @ Op::Size(_) => return Ok(TransferNext::Simple(op)),
                    _ => self.open_data(link),
                }
            }
            (At::Enter, 200..300) => {
                self.entered = true;
                self.open_data(link)
            }
            (At::Passive, 200..300) => match parse_229(&reply.text).filter(|_| code == 229) {
                Some(port) => self.connect(link, port),
                None => return Ok(fail(link, OpError::NotUnderstood(reply))),
            },
            (At::Passive | At::Active(_), 500..) => {
                link.old_commands = true;
                return Ok(self.open_data_again(link));
            }
            (At::OldPassive, 200..300) => match parse_227(&reply.text).filter(|_| code == 227) {
                // The address is ignored: it may lie behind NAT, or be somebody else's.
                Some(address) => self.connect(link, address.port()),
                None => return Ok(fail(link, OpError::NotUnderstood(reply))),
            },
            (At::Active(_) | At::OldActive, 200..300) => self.command_or_rest(link),
            (At::Rest, 300..400) => {
                link.offset_waits = true;
                self.command(link)
            }
            (At::Command, 100..200) => {
                self.begun(link);
                self
            }
            (At::Command | At::Running, _) => return self.take_last(link, reply),
            (At::Listen, _) => return Err(Fault::Unexpected(code)),
            _ => {
                self.drop_data(link);
                return Ok(fail(link, OpError::Refused(reply)));
            }
        };
        Ok(TransferNext::Await(next))
    }

    /// The 150 came: bytes are moved.
    fn begun(&mut self, link: &mut Link) {
        self.at = At::Running;
        link.offset_waits = false;
        let moves = match (&self.op, link.features.mlst) {
            (Op::List { .. }, true) => Moves::Facts,
            (Op::List { .. }, false) => Moves::Long,
            (Op::Retrieve { .. }, _) => Moves::Download,
            _ => Moves::Upload,
        };
        if self.aborting.is_none() {
            link.event(Event::Transfer(moves));
        }
    }

    fn drop_data(&self, link: &mut Link) {
        if !matches!(self.at, At::Type | At::Enter) {
            link.event(Event::DropData);
        }
    }

    fn open_data(mut self, link: &mut Link) -> TransferStep {
        // LIST takes its argument for options, a pattern or several names, each server its own way.
        if let Op::List { path } = &self.op
            && !link.features.mlst
            && !self.entered
            && !path.is_empty()
        {
            link.send("CWD", path);
            self.at = At::Enter;
            return self;
        }
        match (link.account.mode, link.old_commands) {
            (Mode::Active, _) => {
                self.at = At::Listen;
                let protected = link.is_protected();
                link.event(Event::Listen { protected });
            }
            (Mode::Passive, true) => {
                self.at = At::OldPassive;
                link.send("PASV", "");
            }
            (Mode::Passive, false) => {
                self.at = At::Passive;
                link.send("EPSV", "");
            }
        }
        self
    }

    /// By the older commands, which know IPv4 only.
    fn open_data_again(mut self, link: &mut Link) -> TransferNext {
        match self.at {
            At::Active(address @ SocketAddr::V4(_)) => {
                self.at = At::OldActive;
                self.send_address(link, address);
                TransferNext::Await(self)
            }
            At::Active(_) => {
                self.drop_data(link);
                let text = "no way to name an IPv6 address".to_owned();
                fail(link, OpError::NotUnderstood(Reply { code: 522, text }))
            }
            _ => TransferNext::Await(self.open_data(link)),
        }
    }

    fn connect(self, link: &mut Link, port: u16) -> TransferStep {
        let address = SocketAddr::new(link.peer.ip(), port);
        let protected = link.is_protected();
        link.event(Event::Connect { address, protected });
        self.command_or_rest(link)
    }

    fn command_or_rest(mut self, link: &mut Link) -> TransferStep {
        let offset = match self.op {
            Op::Retrieve { offset, .. } | Op::Store { offset, .. } => offset,
            _ => 0,
        };
        if offset == 0 && !link.offset_waits {
            return self.command(link);
        }
        link.send("REST", &offset.to_string());
        self.at = At::Rest;
        self
    }

    fn command(mut self, link: &mut Link) -> TransferStep {
        match &self.op {
            Op::Retrieve { path, .. } => link.send("RETR", path),
            Op::Store { path, .. } => link.send("STOR", path),
            Op::List { path } if link.features.mlst => link.send("MLSD", path),
            // With the names that begin with a dot.
            Op::List { .. } => link.send("LIST", "-a"),
            // Append; nothing else gets here.
            op => link.send("APPE", op.paths().0),
        }
        self.at = At::Command;
        self
    }

    /// The last reply of the transfer, or one of those that follow ABOR.
    fn take_last(mut self, link: &mut Link, reply: Reply) -> Result<TransferNext, Fault> {
        if let Some(awaited) = &mut self.aborting {
            *awaited -= 1;
            if *awaited > 0 {
                return Ok(TransferNext::Await(self));
            }
            link.event(Event::DropData);
            return Ok(fail(link, OpError::Aborted));
        }
        let no_mlsd = matches!(reply.code, 500 | 502) && link.features.mlst;
        if no_mlsd && self.at == At::Command && matches!(self.op, Op::List { .. }) {
            link.features.mlst = false;
            link.event(Event::DropData);
            return Ok(TransferNext::Await(self.open_data(link)));
        }
        let done = (200..300).contains(&reply.code);
        if done && self.at == At::Command {
            // A transfer without its 150: nothing was moved.
            return Err(Fault::Unexpected(reply.code));
        }
        if !done {
            link.event(Event::DropData);
            return Ok(fail(link, OpError::Refused(reply)));
        }
        self.last = Some(reply);
        Ok(match self.data {
            Some(end) => {
                finish(link, end);
                TransferNext::Over
            }
            None => TransferNext::Await(self),
        })
    }
}

fn fail(link: &mut Link, error: OpError) -> TransferNext {
    link.fail(error);
    TransferNext::Over
}

/// Both ends are there.
fn finish(link: &mut Link, end: DataEnd) {
    match end {
        DataEnd::Whole => link.done(Outcome::Transferred),
        DataEnd::Failed => link.fail(OpError::Data),
    }
}
