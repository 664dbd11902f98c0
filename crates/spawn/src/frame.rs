//! Frames between server and helper: `u32` length, `u8` kind, fields. Numbers are little-endian,
//! texts and bytes have a `u32` length before them, lists a `u32` count.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::isolation::{Isolation, ProgramUser, Reach};
use crate::limits::{ARGUMENTS, FRAME_BYTES, REACHED};
use crate::program::{Ended, How, Output};

/// What is not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other end sent what is no frame")]
pub struct NotFrame;

/// The program that a helper is to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) id: u64,
    /// A descriptor comes with it, to read from.
    pub(crate) stdin: bool,
    /// A descriptor comes with it, behind that one, to write to.
    pub(crate) stdout: bool,
    pub(crate) limit: Duration,
    pub(crate) memory_bytes: u64,
    /// So many processes it may have.
    pub(crate) processes: u64,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Files that it may use wherever they lie.
    pub(crate) files: Vec<PathBuf>,
}

/// What holds for every program that a helper starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Where each program has a folder of its own while it runs.
    pub(crate) temporary: PathBuf,
    pub(crate) isolation: Isolation,
}

/// A message between the server and a helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// To the helper, before all others.
    Settings(Settings),
    /// To the helper.
    Start(Start),
    /// To the helper: end it, its result is not wanted any more.
    Cancel(u64),
    /// To the server.
    Ended(u64, Ended),
    /// To the server: it was not started.
    NotStarted(u64, String),
}

impl Frame {
    /// Adds the frame to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            Frame::Start(start) => {
                out.push(1);
                number(out, start.id);
                number(out, u64::from(start.stdin) | u64::from(start.stdout) << 1);
                number(out, millis(start.limit));
                number(out, start.memory_bytes);
                number(out, start.processes);
                count(out, start.argv.len());
                start.argv.iter().for_each(|item| bytes(out, item.as_bytes()));
                count(out, start.env.len());
                for (name, value) in &start.env {
                    bytes(out, name.as_bytes());
                    bytes(out, value.as_bytes());
                }
                paths(out, &start.files);
            }
            Frame::Cancel(id) => {
                out.push(2);
                number(out, *id);
            }
            Frame::Ended(id, ended) => {
                out.push(3);
                number(out, *id);
                let (how, value) = match ended.how {
                    How::Code(code) => (0, code),
                    How::Signal(signal) => (1, signal),
                    How::TimeLimit => (2, 0),
                    How::OutputLimit => (3, 0),
                    How::ProcessLimit => (4, 0),
                };
                number(out, how);
                number(out, u64::from(value.cast_unsigned()));
                number(out, u64::try_from(ended.duration.as_micros()).unwrap_or(u64::MAX));
                for output in [&ended.stdout, &ended.stderr] {
                    number(out, output.dropped);
                    bytes(out, &output.bytes);
                }
            }
            Frame::NotStarted(id, why) => {
                out.push(4);
                number(out, *id);
                bytes(out, why.as_bytes());
            }
            Frame::Settings(settings) => {
                out.push(5);
                settings.write(out);
            }
        }
        let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
        if let Some(place) = out.get_mut(at..at + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    /// The first frame of `input` and its length; `None` if not all of it is there.
    pub(crate) fn read(input: &[u8]) -> Result<Option<(Frame, usize)>, NotFrame> {
        let Some((length, rest)) = input.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_BYTES {
            return Err(NotFrame);
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let mut fields = Fields(body);
        let frame = fields.frame()?;
        if !fields.0.is_empty() {
            return Err(NotFrame);
        }
        Ok(Some((frame, length + 4)))
    }
}

impl Settings {
    fn write(&self, out: &mut Vec<u8>) {
        path(out, &self.temporary);
        match &self.isolation {
            Isolation::None => number(out, 0),
            Isolation::User(user) => {
                number(out, 1);
                number(out, u64::from(user.uid));
                number(out, u64::from(user.gid));
                bytes(out, user.name.as_bytes());
            }
            Isolation::Landlock(reach) => {
                number(out, 2);
                paths(out, &reach.read);
                paths(out, &reach.write);
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn path(out: &mut Vec<u8>, path: &Path) {
    bytes(out, path.as_os_str().as_bytes());
}

fn paths(out: &mut Vec<u8>, paths: &[PathBuf]) {
    count(out, paths.len());
    paths.iter().for_each(|item| path(out, item));
}

/// What is left of a frame.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn frame(&mut self) -> Result<Frame, NotFrame> {
        let (kind, rest) = self.0.split_first().ok_or(NotFrame)?;
        self.0 = rest;
        if *kind == 5 {
            return Ok(Frame::Settings(self.settings()?));
        }
        let id = self.number()?;
        Ok(match kind {
            1 => Frame::Start(self.start(id)?),
            2 => Frame::Cancel(id),
            3 => Frame::Ended(id, self.ended()?),
            4 => Frame::NotStarted(id, self.text()?),
            _ => return Err(NotFrame),
        })
    }

    fn start(&mut self, id: u64) -> Result<Start, NotFrame> {
        let descriptors = self.number()?;
        if descriptors > 3 {
            return Err(NotFrame);
        }
        Ok(Start {
            id,
            stdin: descriptors & 1 != 0,
            stdout: descriptors & 2 != 0,
            limit: Duration::from_millis(self.number()?),
            memory_bytes: self.number()?,
            processes: self.number()?,
            argv: self.list(ARGUMENTS, Fields::text)?,
            env: self.list(ARGUMENTS, |fields| Ok((fields.text()?, fields.text()?)))?,
            files: self.list(ARGUMENTS, Fields::path)?,
        })
    }

    fn settings(&mut self) -> Result<Settings, NotFrame> {
        let temporary = self.path()?;
        let isolation = match self.number()? {
            0 => Isolation::None,
            1 => {
                let mut id = || u32::try_from(self.number()?).map_err(|_| NotFrame);
                let (uid, gid) = (id()?, id()?);
                Isolation::User(ProgramUser { uid, gid, name: self.text()? })
            }
            2 => Isolation::Landlock(Reach {
                read: self.list(REACHED, Fields::path)?,
                write: self.list(REACHED, Fields::path)?,
            }),
            _ => return Err(NotFrame),
        };
        Ok(Settings { temporary, isolation })
    }

    fn ended(&mut self) -> Result<Ended, NotFrame> {
        let how = self.number()?;
        let value = u32::try_from(self.number()?).map_err(|_| NotFrame)?.cast_signed();
        let how = match how {
            0 => How::Code(value),
            1 => How::Signal(value),
            2 => How::TimeLimit,
            3 => How::OutputLimit,
            4 => How::ProcessLimit,
            _ => return Err(NotFrame),
        };
        let duration = Duration::from_micros(self.number()?);
        let (stdout, stderr) = (self.output()?, self.output()?);
        Ok(Ended { how, duration, stdout, stderr })
    }

    fn output(&mut self) -> Result<Output, NotFrame> {
        Ok(Output { dropped: self.number()?, bytes: self.bytes()?.to_vec() })
    }

    fn number(&mut self) -> Result<u64, NotFrame> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or(NotFrame)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    fn count(&mut self) -> Result<usize, NotFrame> {
        let (count, rest) = self.0.split_first_chunk::<4>().ok_or(NotFrame)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*count) as usize)
    }

    fn list<T>(
        &mut self,
        most: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, NotFrame>,
    ) -> Result<Vec<T>, NotFrame> {
        let count = self.count()?;
        if count > most {
            return Err(NotFrame);
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn bytes(&mut self) -> Result<&[u8], NotFrame> {
        let length = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(NotFrame)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn path(&mut self) -> Result<PathBuf, NotFrame> {
        Ok(OsString::from_vec(self.bytes()?.to_vec()).into())
    }

    fn text(&mut self) -> Result<String, NotFrame> {
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| NotFrame)
    }
}

/// For the fuzzer: whatever is read as a frame is written as the very same bytes.
///
/// # Panics
/// If it is not.
pub fn fuzz(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some((frame, length))) = Frame::read(rest) {
        let mut again = Vec::new();
        frame.write(&mut again);
        let back = Frame::read(&again).map(|read| read.map(|(frame, _)| frame));
        assert_eq!(back, Ok(Some(frame)));
        rest = rest.get(length..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        let start = Start {
            id: 7,
            stdin: true,
            stdout: true,
            limit: Duration::from_millis(1500),
            memory_bytes: 1 << 30,
            processes: 1024,
            argv: vec!["/bin/x".to_owned(), "a b".to_owned(), String::new()],
            env: vec![("NAME".to_owned(), "välue".to_owned())],
            files: vec!["/srv/a b".into()],
        };
        let output = Output { bytes: vec![0, 255, 10], dropped: 3 };
        let ended = |how| Ended {
            how,
            duration: Duration::from_micros(42),
            stdout: output.clone(),
            stderr: Output::default(),
        };
        let settings =
            |isolation| Frame::Settings(Settings { temporary: "/tmp".into(), isolation });
        let user = ProgramUser { name: "programs".to_owned(), uid: 990, gid: 991 };
        let reach = Reach { read: vec!["/usr".into(), "/etc".into()], write: vec!["/x".into()] };
        let mut frames = vec![
            settings(Isolation::None),
            settings(Isolation::User(user)),
            settings(Isolation::Landlock(reach)),
            Frame::Start(start),
            Frame::Cancel(u64::MAX),
            Frame::NotStarted(3, "there is no such program".to_owned()),
        ];
        let by_itself = [How::Code(255), How::Code(-1), How::Signal(9)];
        let at_a_limit = [How::TimeLimit, How::OutputLimit, How::ProcessLimit];
        let hows = by_itself.into_iter().chain(at_a_limit);
        frames.extend(hows.map(|how| Frame::Ended(1, ended(how))));
        frames
    }

    #[test]
    fn frames_go_round_and_wait_for_their_last_byte() {
        let mut bytes = Vec::new();
        for frame in frames() {
            bytes.clear();
            frame.write(&mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(Frame::read(&bytes[..cut]), Ok(None));
            }
            assert_eq!(Frame::read(&bytes), Ok(Some((frame, bytes.len()))));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_and_never_panics() {
        let mut all = Vec::new();
        frames().iter().for_each(|frame| frame.write(&mut all));
        fuzz(&all);
        for at in 0..all.len() {
            for bit in 0..8 {
                let mut broken = all.clone();
                broken[at] ^= 1 << bit;
                fuzz(&broken);
            }
        }
        for bad in
            [&[255, 255, 255, 255, 1][..], &[1, 0, 0, 0, 9], &[0, 0, 0, 0], &[2, 0, 0, 0, 2, 0]]
        {
            assert_eq!(Frame::read(bad), Err(NotFrame), "{bad:?}");
        }
    }
}
