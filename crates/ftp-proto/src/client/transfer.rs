//! Transfers: TYPE I, EPSV or PASV (EPRT or PORT), REST, the command, 150, the bytes, 226.

use std::net::SocketAddr;

use super::{
    Client, Event, Fault, Mode, Moves, Op, OpError, Outcome, State, eprt_argument, parse_227,
    parse_229, port_argument,
};
use crate::reply::Reply;

/// Where a transfer is.
#[derive(Debug)]
pub(super) struct TransferStep {
    op: Op,
    at: At,
    /// The adapter said how the data connection ended.
    data: Option<bool>,
    /// The server's last word.
    last: Option<Reply>,
    /// ABOR was said; so many last replies are awaited.
    aborting: Option<u8>,
    /// The directory to be listed was gone to.
    entered: bool,
}

/// Whose reply is awaited.
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
    /// 150 came.
    Running,
}

impl Client {
    pub(super) fn begin_transfer(&mut self, op: Op) {
        let (data, last, aborting) = (None, None, None);
        let step = TransferStep { op, at: At::Type, data, last, aborting, entered: false };
        if self.binary {
            self.open_data(step);
        } else {
            self.send("TYPE", "I");
            self.state = State::Transfer(step);
        }
    }

    /// The adapter listens here.
    pub fn listening(&mut self, address: SocketAddr) {
        let State::Transfer(step) = &mut self.state else { return };
        if step.at != At::Listen {
            return;
        }
        step.at = At::Active(address);
        self.say_address(address);
    }

    fn say_address(&mut self, address: SocketAddr) {
        match address {
            SocketAddr::V4(address) if self.old_commands => {
                self.send("PORT", &port_argument(address));
                if let State::Transfer(step) = &mut self.state {
                    step.at = At::OldActive;
                }
            }
            _ => self.send("EPRT", &eprt_argument(address)),
        }
    }

    /// The bytes are moved and the data connection is closed; or it failed (`whole` false).
    pub fn data_ended(&mut self, whole: bool) {
        let State::Transfer(step) = &mut self.state else { return };
        step.data = Some(whole);
        if step.last.is_some() {
            let State::Transfer(step) = std::mem::replace(&mut self.state, State::Idle) else {
                return;
            };
            self.finish(step);
        }
    }

    /// Stops a transfer by ABOR; what the server says to it comes as [`OpError::Aborted`].
    /// Nothing happens if none was begun on the server.
    pub fn abort(&mut self) {
        let State::Transfer(step) = &mut self.state else { return };
        let begun = matches!(step.at, At::Command | At::Running) && step.last.is_none();
        if begun && step.aborting.is_none() {
            step.aborting = Some(2);
            self.send("ABOR", "");
        }
    }

    pub(super) fn take_transfer(
        &mut self,
        mut step: TransferStep,
        reply: Reply,
    ) -> Result<(), Fault> {
        let code = reply.code;
        if code < 200 && step.at != At::Command {
            self.state = State::Transfer(step);
            return Ok(());
        }
        match (step.at, code) {
            (At::Type, 200..300) => {
                self.binary = true;
                match step.op {
                    op @ Op::Size(_) => self.begin_simple(op),
                    _ => self.open_data(step),
                }
            }
            (At::Enter, 200..300) => {
                step.entered = true;
                self.open_data(step);
            }
            (At::Passive, 200..300) => match parse_229(&reply.text).filter(|_| code == 229) {
                Some(port) => self.connect(step, port),
                None => self.fail(OpError::NotUnderstood(reply)),
            },
            (At::Passive | At::Active(_), 500..) => {
                self.old_commands = true;
                self.open_data_again(step);
            }
            (At::OldPassive, 200..300) => match parse_227(&reply.text).filter(|_| code == 227) {
                // The address is ignored: it may lie behind NAT, or be somebody else's.
                Some(address) => self.connect(step, address.port()),
                None => self.fail(OpError::NotUnderstood(reply)),
            },
            (At::Active(_) | At::OldActive, 200..300) => self.command_or_rest(step),
            (At::Rest, 300..400) => {
                self.offset_waits = true;
                self.command(step);
            }
            (At::Command, 100..200) => {
                step.at = At::Running;
                self.offset_waits = false;
                let moves = match (&step.op, self.features.mlst) {
                    (Op::List { .. }, true) => Moves::Facts,
                    (Op::List { .. }, false) => Moves::Long,
                    (Op::Retrieve { .. }, _) => Moves::Download,
                    _ => Moves::Upload,
                };
                if step.aborting.is_none() {
                    self.events.push_back(Event::Transfer(moves));
                }
                self.state = State::Transfer(step);
            }
            (At::Command | At::Running, _) => return self.last(step, reply),
            (At::Listen, _) => return Err(Fault::Unexpected(code)),
            _ => {
                self.drop_data(&step);
                self.fail(OpError::Refused(reply));
            }
        }
        Ok(())
    }

    fn drop_data(&mut self, step: &TransferStep) {
        if !matches!(step.at, At::Type | At::Enter) {
            self.events.push_back(Event::DropData);
        }
    }

    fn open_data(&mut self, mut step: TransferStep) {
        // LIST takes its argument for options, a pattern or several names, each server its own way.
        if let Op::List { path } = &step.op
            && !self.features.mlst
            && !step.entered
            && !path.is_empty()
        {
            let path = path.clone();
            self.send("CWD", &path);
            step.at = At::Enter;
            self.state = State::Transfer(step);
            return;
        }
        match (self.account.mode, self.old_commands) {
            (Mode::Active, _) => {
                step.at = At::Listen;
                let protected = self.is_protected();
                self.events.push_back(Event::Listen { protected });
            }
            (Mode::Passive, true) => {
                step.at = At::OldPassive;
                self.send("PASV", "");
            }
            (Mode::Passive, false) => {
                step.at = At::Passive;
                self.send("EPSV", "");
            }
        }
        self.state = State::Transfer(step);
    }

    /// By the older commands, which know IPv4 only.
    fn open_data_again(&mut self, mut step: TransferStep) {
        match step.at {
            At::Active(address @ SocketAddr::V4(_)) => {
                step.at = At::OldActive;
                self.state = State::Transfer(step);
                self.say_address(address);
            }
            At::Active(_) => {
                self.drop_data(&step);
                let text = "no way to name an IPv6 address".to_owned();
                self.fail(OpError::NotUnderstood(Reply { code: 522, text }));
            }
            _ => self.open_data(step),
        }
    }

    fn connect(&mut self, step: TransferStep, port: u16) {
        let address = SocketAddr::new(self.peer.ip(), port);
        let protected = self.is_protected();
        self.events.push_back(Event::Connect { address, protected });
        self.command_or_rest(step);
    }

    fn command_or_rest(&mut self, mut step: TransferStep) {
        let offset = match step.op {
            Op::Retrieve { offset, .. } | Op::Store { offset, .. } => offset,
            _ => 0,
        };
        if offset == 0 && !self.offset_waits {
            return self.command(step);
        }
        self.send("REST", &offset.to_string());
        step.at = At::Rest;
        self.state = State::Transfer(step);
    }

    fn command(&mut self, mut step: TransferStep) {
        let (verb, path) = match &step.op {
            Op::Retrieve { path, .. } => ("RETR", path),
            Op::Store { path, .. } => ("STOR", path),
            Op::List { path } if self.features.mlst => ("MLSD", path),
            // With the names that begin with a dot.
            Op::List { .. } => ("LIST", &"-a".to_owned()),
            // Append; nothing else gets here.
            op => ("APPE", &op.paths().0.to_owned()),
        };
        let path = path.clone();
        self.send(verb, &path);
        step.at = At::Command;
        self.state = State::Transfer(step);
    }

    /// The last reply of the transfer, or one of those that follow ABOR.
    fn last(&mut self, mut step: TransferStep, reply: Reply) -> Result<(), Fault> {
        if let Some(awaited) = &mut step.aborting {
            *awaited -= 1;
            if *awaited > 0 {
                self.state = State::Transfer(step);
            } else {
                self.events.push_back(Event::DropData);
                self.fail(OpError::Aborted);
            }
            return Ok(());
        }
        let no_mlsd = matches!(reply.code, 500 | 502) && self.features.mlst;
        if no_mlsd && step.at == At::Command && matches!(step.op, Op::List { .. }) {
            self.features.mlst = false;
            self.events.push_back(Event::DropData);
            self.open_data(step);
            return Ok(());
        }
        let done = (200..300).contains(&reply.code);
        if done && step.at == At::Command {
            // A transfer without its 150: nothing was moved.
            return Err(Fault::Unexpected(reply.code));
        }
        if !done {
            self.events.push_back(Event::DropData);
            self.fail(OpError::Refused(reply));
            return Ok(());
        }
        step.last = Some(reply);
        match step.data {
            Some(_) => self.finish(step),
            None => self.state = State::Transfer(step),
        }
        Ok(())
    }

    /// Both ends are there.
    fn finish(&mut self, step: TransferStep) {
        match step.data {
            Some(true) => self.done(Outcome::Transferred),
            _ => self.fail(OpError::Data),
        }
    }
}
