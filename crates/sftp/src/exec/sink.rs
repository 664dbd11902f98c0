//! `scp -t`: takes files as the SFTP adapter does, into hidden staging, published by the source's
//! word that they are whole and answered when that is durable.

use bytes::Bytes;
use entrepot_net::meter::Running;
use entrepot_nouns::{Timestamp, VPath};
use entrepot_sftp_proto::scp::{self, ACK, Command, Directories, Fatal, Incoming, Sink, Times};
use entrepot_vfs::{
    Create, CreateIntent, EntryKind, IncomingCommand, ModeOrigin, Upload, VfsError,
};
use tokio_util::sync::CancellationToken;

use super::ends::{Ended, Ends, Next, resolve};
use crate::connection::ConnectionShared;
use crate::limits::SCP_DEPTH;
use crate::out::Out as _;

/// A copy from the client while it runs.
struct SinkCopy<'a> {
    account: &'a ConnectionShared,
    /// What was named on the command line.
    target: VPath,
    /// It is a directory: names go into it. Else it is the name.
    into: bool,
    /// `-p`: permission bits are as at the source.
    preserve: bool,
    /// The directories entered, outermost first.
    entered: Vec<Entered>,
    /// Of the next record.
    times: Option<Times>,
    file: Option<File>,
    /// The channel is gone.
    gone: CancellationToken,
    /// Something did not work.
    failed: bool,
}

/// A directory into which names go, with what it gets at its end.
struct Entered {
    path: VPath,
    mode: Option<u32>,
    times: Option<Times>,
}

/// The file that is coming.
struct File {
    upload: Upload,
    name: String,
    offset: u64,
    /// Why its bytes are no longer taken.
    refused: Option<VfsError>,
    _running: Running,
}

/// Runs to the end; gives the exit status.
pub(super) async fn run(command: &Command, account: &ConnectionShared, mut ends: Ends) -> u32 {
    let (target, into) = match target(command, account).await {
        Ok(target) => target,
        Err(sentence) => {
            ends.outbox.send(scp::warning(&sentence));
            return 1;
        }
    };
    let mut copy = SinkCopy {
        account,
        target,
        into,
        preserve: command.preserve,
        entered: Vec::new(),
        times: None,
        file: None,
        gone: ends.gone.clone(),
        failed: false,
    };
    let directories = if command.recursive { Directories::Taken } else { Directories::Refused };
    let mut sink = Sink::new(directories);
    ends.outbox.send(ACK);
    let ended = loop {
        match ends.next().await {
            Next::Data(piece, _room) => {
                if let Err(ended) = copy.take(&mut sink, &piece, &mut ends).await {
                    break ended;
                }
            }
            Next::Eof if sink.is_between() => return u32::from(copy.failed),
            Next::Eof if sink.has_whole_file() => {
                let published = Box::pin(copy.publish()).await;
                let answer = published.map_or_else(|text| scp::warning(&text), |()| ACK);
                copy.failed |= answer != ACK;
                ends.outbox.send(answer);
                return u32::from(copy.failed);
            }
            Next::Eof | Next::Gone => break Ended::Gone,
        }
    };
    let reason = match ended {
        Ended::Gone => "the client ended the channel".to_owned(),
        Ended::Broken(reason) => reason,
    };
    tracing::debug!(reason, "a copy by scp was ended");
    if let Some(file) = copy.file {
        match file.refused {
            Some(_) => file.upload.abort().await,
            None => file.upload.interrupt(&reason).await,
        }
    }
    1
}

/// The target of the command line, and whether it is a directory.
async fn target(command: &Command, account: &ConnectionShared) -> Result<(VPath, bool), String> {
    let Some(word) = command.paths.first() else { return Err("name a target".to_owned()) };
    let tell = |error: VfsError| format!("{}: {error}", word.text());
    let path = resolve(account, word).map_err(tell)?;
    match account.session.vfs().stat(&path).await {
        Ok(found) if found.kind == EntryKind::Directory => Ok((path, true)),
        Ok(_) if command.directory => Err(tell(VfsError::NotDirectory)),
        Err(error) if command.directory || error != VfsError::NotFound => Err(tell(error)),
        Ok(_) | Err(_) => Ok((path, false)),
    }
}

impl SinkCopy<'_> {
    /// Carries out what a piece of the client's bytes says.
    async fn take(&mut self, sink: &mut Sink, piece: &Bytes, ends: &mut Ends) -> Result<(), Ended> {
        let mut input: &[u8] = piece;
        loop {
            let answer = match sink.next(&mut input) {
                Ok(None) => break,
                Ok(Some(Incoming::Data(data))) => {
                    self.write(piece, data).await;
                    continue;
                }
                Ok(Some(Incoming::Told(text))) => {
                    tracing::debug!(text, "the source of a copy tells");
                    self.failed = true;
                    continue;
                }
                Ok(Some(Incoming::Times(times))) => {
                    self.times = Some(times);
                    Ok(())
                }
                Ok(Some(Incoming::Refused(sentence))) => Err(sentence.to_owned()),
                Ok(Some(Incoming::File { mode, size, name })) => {
                    let name = name.to_owned();
                    let begun = self.begin(mode, size, &name).await;
                    begun.map(|()| sink.accept()).map_err(|error| format!("{name}: {error}"))
                }
                Ok(Some(Incoming::Directory { mode, name })) => {
                    let name = name.to_owned();
                    let entered = Box::pin(self.enter(mode, &name)).await;
                    entered.map(|()| sink.accept()).map_err(|error| format!("{name}: {error}"))
                }
                Ok(Some(Incoming::FileEnd)) => Box::pin(self.publish()).await,
                Ok(Some(Incoming::FileBroken(text))) => Err(self.drop_file(text.to_owned()).await),
                Ok(Some(Incoming::DirectoryEnd)) => self.leave().await,
                Err(fatal) => {
                    if let Fatal::Protocol(_) = fatal {
                        ends.outbox.send(scp::stop(&fatal.to_string()));
                    }
                    return Err(Ended::Broken(fatal.to_string()));
                }
            };
            match answer {
                Ok(()) => ends.outbox.send(ACK),
                Err(sentence) => {
                    self.failed = true;
                    self.times = None;
                    ends.outbox.send(scp::warning(&sentence));
                }
            }
            ends.check_owed()?;
        }
        Ok(())
    }

    /// Where a name goes.
    fn place(&self, name: &str) -> Result<VPath, VfsError> {
        Ok(match self.entered.last() {
            Some(entered) => entered.path.join(name)?,
            None if self.into => self.target.join(name)?,
            None => self.target.clone(),
        })
    }

    async fn begin(&mut self, mode: u32, size: u64, name: &str) -> Result<(), String> {
        let path = self.place(name).map_err(|error| error.to_string())?;
        let running = self.account.meter.running();
        let how = Create { intent: CreateIntent::New, expected_size: Some(size), append: false };
        let command = || IncomingCommand::writing("open", name, Some(&path));
        let creating = self.account.session.vfs().create(&path, how);
        let created = Box::pin(self.account.with_rules(command, &self.gone, creating)).await;
        let mut upload = created.map_err(|error| error.to_string())?;
        if let Some(times) = self.times.take() {
            let (accessed, modified) = stamps(times);
            upload.set_times(Some(accessed), Some(modified));
        }
        let origin = if self.preserve { ModeOrigin::Request } else { ModeOrigin::Creation };
        upload.set_mode(mode, origin);
        let name = name.to_owned();
        self.file = Some(File { upload, name, offset: 0, refused: None, _running: running });
        Ok(())
    }

    /// Writes bytes of the file, which lie in `piece`. After a refusal they are thrown away: the
    /// source cannot be stopped in the middle.
    async fn write(&mut self, piece: &Bytes, data: &[u8]) {
        let Some(file) = self.file.as_mut().filter(|file| file.refused.is_none()) else { return };
        let written = match file.upload.try_write_at(file.offset, data) {
            Ok(true) => Ok(()),
            Ok(false) => file.upload.write_at(file.offset, piece.slice_ref(data)).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => file.offset += u64::try_from(data.len()).unwrap_or(u64::MAX),
            Err(error) => file.refused = Some(error),
        }
    }

    async fn publish(&mut self) -> Result<(), String> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let File { upload, name, refused, .. } = file;
        let told = |error: String| format!("{name}: {error}");
        if let Some(error) = refused {
            upload.abort().await;
            return Err(told(error.to_string()));
        }
        let command = if !self.account.has_rules() {
            None
        } else {
            let command = IncomingCommand::writing("close", "", Some(upload.path()));
            match self.account.before(command, &self.gone).await {
                Ok(command) => Some(command),
                Err(refused) => {
                    if refused.is_permanent() {
                        upload.abort().await
                    } else {
                        upload.interrupt(&refused.text).await
                    }
                    return Err(told(refused.text));
                }
            }
        };
        let published = self.account.publish(command, upload.finish(), &self.gone).await;
        published.map_err(|error| told(error.to_string()))
    }

    /// The source could not read all of it.
    async fn drop_file(&mut self, text: String) -> String {
        match self.file.take() {
            Some(file) => {
                file.upload.abort().await;
                format!("{}: not published, for its source failed", file.name)
            }
            None => text,
        }
    }

    async fn enter(&mut self, mode: u32, name: &str) -> Result<(), String> {
        let path = self.place(name).map_err(|error| error.to_string())?;
        if self.entered.len() >= SCP_DEPTH {
            return Err(entrepot_nouns::path::PathError::TooLong.to_string());
        }
        let vfs = self.account.session.vfs();
        let command = || IncomingCommand::writing("mkdir", name, Some(&path));
        let making = vfs.make_directory_with_mode(&path, mode);
        if let Err(error) = self.account.with_rules(command, &self.gone, making).await {
            match vfs.stat(&path).await {
                Ok(found) if found.kind == EntryKind::Directory => {}
                Ok(_) => return Err(VfsError::NotDirectory.to_string()),
                Err(_) => return Err(error.to_string()),
            }
        }
        let mode = Some(mode).filter(|_| self.preserve);
        self.entered.push(Entered { path, mode, times: self.times.take() });
        Ok(())
    }

    async fn leave(&mut self) -> Result<(), String> {
        let Some(Entered { path, mode, times }) = self.entered.pop() else { return Ok(()) };
        if mode.is_none() && times.is_none() {
            return Ok(());
        }
        let vfs = self.account.session.vfs();
        let command = || IncomingCommand::writing("setstat", "", Some(&path));
        let setting = async {
            if let Some(mode) = mode {
                vfs.set_mode(&path, mode).await?;
            }
            if let Some((accessed, modified)) = times.map(stamps) {
                vfs.set_times(&path, Some(accessed), Some(modified)).await?;
            }
            Ok(())
        };
        let set = self.account.with_rules(command, &self.gone, setting).await;
        set.map_err(|error| format!("{}: {error}", path.as_str()))
    }
}

/// Access and change.
fn stamps(times: Times) -> (Timestamp, Timestamp) {
    (Timestamp::from_seconds(times.accessed), Timestamp::from_seconds(times.modified))
}
