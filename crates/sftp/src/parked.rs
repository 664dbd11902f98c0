//! READs that wait for the client's window, as runs: a client may ask for a whole file at once
//! (paramiko does: 10 GiB are 327,680 READs, one run here).

use std::collections::VecDeque;

use entrepot_sftp_proto::Handle;

use crate::limits::PARKED_RUNS;

/// A READ request (draft-ietf-secsh-filexfer-02 §6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) id: u32,
    pub(crate) handle: Handle,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// A request that waits for the client's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A READ, waiting because its answer does not fit the client's window yet.
    Read(Read),
    /// A CLOSE behind READs of its handle.
    Close { id: u32, handle: Handle },
}

#[derive(Clone, Copy, Debug)]
enum ParkedRun {
    /// `count` READs, ids and offsets one behind the other.
    Reads {
        first: Read,
        count: u64,
    },
    Close {
        id: u32,
        handle: Handle,
    },
}

impl ParkedRun {
    fn handle(&self) -> Handle {
        match self {
            ParkedRun::Reads { first, .. } => first.handle,
            ParkedRun::Close { handle, .. } => *handle,
        }
    }
}

/// More runs than [`PARKED_RUNS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// What waits on one channel, in order.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    runs: VecDeque<ParkedRun>,
}

impl Parked {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// True if something waits for `handle`.
    pub(crate) fn has(&self, handle: Handle) -> bool {
        self.runs.iter().any(|run| run.handle() == handle)
    }

    pub(crate) fn push_read(&mut self, read: Read) -> Result<(), TooMany> {
        if let Some(ParkedRun::Reads { first, count }) = self.runs.back_mut()
            && read == nth(first, *count)
        {
            *count += 1;
            return Ok(());
        }
        self.push(ParkedRun::Reads { first: read, count: 1 })
    }

    pub(crate) fn push_close(&mut self, id: u32, handle: Handle) -> Result<(), TooMany> {
        self.push(ParkedRun::Close { id, handle })
    }

    fn push(&mut self, run: ParkedRun) -> Result<(), TooMany> {
        if self.runs.len() >= PARKED_RUNS {
            return Err(TooMany);
        }
        self.runs.push_back(run);
        Ok(())
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        match self.runs.front_mut()? {
            ParkedRun::Reads { first, count } if *count > 1 => {
                let read = *first;
                *first = nth(first, 1);
                *count -= 1;
                Some(Waiting::Read(read))
            }
            _ => match self.runs.pop_front()? {
                ParkedRun::Reads { first, .. } => Some(Waiting::Read(first)),
                ParkedRun::Close { id, handle } => Some(Waiting::Close { id, handle }),
            },
        }
    }

    /// Forgets all and its memory.
    pub(crate) fn clear(&mut self) {
        self.runs = VecDeque::new();
    }
}

/// The READ `n` places behind `first` in a run.
fn nth(first: &Read, n: u64) -> Read {
    let step = u32::try_from(n & u64::from(u32::MAX)).unwrap_or(0);
    Read {
        id: first.id.wrapping_add(step),
        offset: first.offset.wrapping_add(u64::from(first.len).wrapping_mul(n)),
        ..*first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(place: u8) -> Handle {
        Handle::from_wire(format!("{place:04x}00000001").as_bytes())
    }

    fn read(id: u32, offset: u64) -> Read {
        Read { id, handle: handle(1), offset, len: 32_768 }
    }

    #[test]
    fn a_whole_file_asked_for_at_once_is_one_run() {
        let mut parked = Parked::default();
        let start = u32::MAX - 5;
        for n in 0..327_680u32 {
            let wanted = read(start.wrapping_add(n), u64::from(n) * 32_768);
            parked.push_read(wanted).unwrap();
        }
        assert_eq!(parked.runs.len(), 1);
        for n in 0..327_680u32 {
            let wanted = read(start.wrapping_add(n), u64::from(n) * 32_768);
            assert_eq!(parked.pop(), Some(Waiting::Read(wanted)));
        }
        assert!(parked.is_empty() && parked.pop().is_none());
    }

    #[test]
    fn order_is_kept_and_runs_are_limited() {
        let mut parked = Parked::default();
        parked.push_read(read(1, 0)).unwrap();
        parked.push_close(2, handle(1)).unwrap();
        parked.push_read(read(1, 0)).unwrap();
        parked.push_read(read(256, 32_768)).unwrap();
        assert!(parked.has(handle(1)) && !parked.has(handle(2)));
        assert_eq!(parked.pop(), Some(Waiting::Read(read(1, 0))));
        assert_eq!(parked.pop(), Some(Waiting::Close { id: 2, handle: handle(1) }));
        assert_eq!(parked.pop(), Some(Waiting::Read(read(1, 0))));
        assert_eq!(parked.pop(), Some(Waiting::Read(read(256, 32_768))));
        for n in 0..4096 {
            parked.push_read(read(7, n * 7)).unwrap();
        }
        assert_eq!(parked.push_read(read(7, 1)), Err(TooMany));
        parked.clear();
        assert!(parked.is_empty());
    }
}
