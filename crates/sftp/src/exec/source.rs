//! `scp -f`: gives files and trees, one after the other, with a bounded number of bytes on the way
//! and one page of each directory above in memory.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use entrepot_nouns::VPath;
use entrepot_sftp_proto::scp::{self, ACK, Answer, Answers, Command, END, Fatal, Times};
use entrepot_vfs::{Attributes, Download, Entry, EntryKind, IncomingCommand, Listing, VfsError};

use super::ends::{Ended, Ends, Next, resolve};
use super::glob::{self, TooMany};
use crate::connection::ConnectionShared;
use crate::limits::{
    EARLY_BYTES, LISTING_PAGE, SCP_BLOCK_BYTES, SCP_BLOCKS, SCP_DEPTH, SCP_LINKED,
};
use crate::out::Out as _;
use crate::problem::Problem;

/// A copy to the client while it runs.
struct SourceCopy<'a> {
    account: &'a ConnectionShared,
    command: &'a Command,
    ends: Ends,
    answers: Answers,
    /// What the client has sent and was not yet asked for.
    early: BytesMut,
    /// Blocks that were sent, to be used again.
    blocks: VecDeque<Bytes>,
    /// Links to directories gone into.
    linked: usize,
    failed: bool,
}

/// A directory that is being sent.
struct Level {
    path: VPath,
    /// The same with links resolved.
    resolved: VPath,
    listing: Listing,
    page: Vec<Entry>,
}

/// Runs to the end; gives the exit status.
pub(super) async fn run(command: &Command, account: &ConnectionShared, ends: Ends) -> u32 {
    let mut copy = SourceCopy {
        account,
        command,
        ends,
        answers: Answers::default(),
        early: BytesMut::new(),
        blocks: VecDeque::new(),
        linked: 0,
        failed: false,
    };
    match copy.all().await {
        Ok(()) => u32::from(copy.failed),
        Err(Ended::Gone) => 1,
        Err(Ended::Broken(reason)) => {
            tracing::debug!(reason, "a copy by scp was ended");
            1
        }
    }
}

impl SourceCopy<'_> {
    async fn all(&mut self) -> Result<(), Ended> {
        self.answer().await?;
        for word in &self.command.paths {
            if !word.is_pattern() {
                match resolve(self.account, word) {
                    Ok(path) => self.path(&path, word.text()).await?,
                    Err(error) => self.warn(word.text(), &error.to_string())?,
                }
                continue;
            }
            match glob::expand(self.account, word).await {
                Ok(paths) if paths.is_empty() => {
                    self.warn(word.text(), "No such file or directory")?;
                }
                Ok(paths) => {
                    for path in paths {
                        self.path(&path, path.as_str()).await?;
                    }
                }
                Err(TooMany) => {
                    self.warn(word.text(), "more than 10000 files look so; name fewer")?;
                }
            }
        }
        Ok(())
    }

    /// Tells that something is left out.
    fn warn(&mut self, name: &str, why: &str) -> Result<(), Ended> {
        self.failed = true;
        self.ends.outbox.send(scp::warning(&format!("{name}: {why}")));
        self.ends.check_owed()
    }

    fn refuse(&mut self, name: &str, error: &VfsError) -> Result<(), Ended> {
        match error {
            // In the words of scp, which scripts look for.
            VfsError::NotFound => self.warn(name, "No such file or directory"),
            other => self.warn(name, &other.to_string()),
        }
    }

    /// Does what rules may look at; `None`: it was not done, and the client was warned. `told` is
    /// the path as warnings name it.
    async fn asked<T>(
        &mut self,
        verb: &'static str,
        path: &VPath,
        told: &str,
        work: impl Future<Output = Result<T, VfsError>>,
    ) -> Result<Option<T>, Ended> {
        let command = || IncomingCommand::reading(verb, told, Some(path));
        match self.account.with_rules(command, &self.ends.gone, work).await {
            Ok(done) => return Ok(Some(done)),
            Err(Problem::Vfs(error)) => self.refuse(told, &error)?,
            Err(problem) => self.warn(told, &problem.to_string())?,
        }
        Ok(None)
    }

    /// Sends a file or, if asked, a directory.
    async fn path(&mut self, path: &VPath, told: &str) -> Result<(), Ended> {
        let found = match self.account.session.vfs().stat(path).await {
            Ok(found) => found,
            Err(error) => return self.refuse(told, &error),
        };
        match found.kind {
            EntryKind::File => self.file(path, told).await,
            EntryKind::Directory if !self.command.recursive => {
                self.warn(told, "not a regular file")
            }
            EntryKind::Directory => self.tree(path, told, &found).await,
            // Not told of a name that was followed.
            EntryKind::Link => self.refuse(told, &VfsError::NotFound),
        }
    }

    /// Sends one file.
    async fn file(&mut self, path: &VPath, told: &str) -> Result<(), Ended> {
        let Some(name) = path.file_name().filter(|name| scp::can_be_sent(name)) else {
            return self.warn(told, "its name cannot be sent by scp; use sftp");
        };
        let _running = self.account.meter.running();
        let opening = self.account.session.vfs().open(path);
        let Some(file) = self.asked("open", path, told, opening).await? else { return Ok(()) };
        let size = file.attributes().size;
        let attributes = file.attributes().clone();
        let record = scp::file(attributes.mode.unwrap_or(0o644), size, name);
        if !self.times(&attributes).await? || !self.record(record).await? {
            return Ok(());
        }
        match self.bytes(&file, size).await? {
            Ok(()) => self.ends.outbox.send(ACK),
            // The size was promised: the rest cannot be left out, so the copy ends here.
            Err(error) => return Err(Ended::Broken(error.to_string())),
        }
        let closing = async {
            file.finish().await;
            Ok(())
        };
        self.asked("close", path, told, closing).await?;
        self.accepted().await.map(drop)
    }

    /// Sends the bytes of a file; the inner error is that of reading it.
    async fn bytes(&mut self, file: &Download, size: u64) -> Result<Result<(), VfsError>, Ended> {
        let mut at = 0;
        while at < size {
            self.room().await?;
            let left = usize::try_from(size - at).unwrap_or(usize::MAX);
            let block = match self.read(file, at, left.min(SCP_BLOCK_BYTES)).await {
                Ok(block) if block.is_empty() => return Ok(Err(VfsError::Conflict)),
                Ok(block) => block,
                Err(error) => return Ok(Err(error)),
            };
            at += u64::try_from(block.len()).unwrap_or(u64::MAX);
            self.ends.outbox.send(block);
        }
        Ok(Ok(()))
    }

    /// Reads into a block that was sent, if there is one.
    async fn read(&mut self, file: &Download, at: u64, len: usize) -> Result<Bytes, VfsError> {
        let old = if self.blocks.len() >= SCP_BLOCKS {
            self.blocks.pop_front().map(Bytes::try_into_mut)
        } else {
            None
        };
        let mut block = match old {
            Some(Ok(block)) => block,
            _ => BytesMut::with_capacity(SCP_BLOCK_BYTES),
        };
        block.resize(len, 0);
        let block = match file.try_read_at(at, &mut block)? {
            Some(filled) => {
                block.truncate(filled);
                block
            }
            None => {
                block.clear();
                file.read_at(at, block, len).await?
            }
        };
        let block = block.freeze();
        self.blocks.push_back(block.clone());
        Ok(block)
    }

    /// Sends a directory and all below it.
    async fn tree(
        &mut self,
        path: &VPath,
        told: &str,
        attributes: &Attributes,
    ) -> Result<(), Ended> {
        let mut levels = Vec::new();
        levels.extend(self.enter(path, told, attributes).await?);
        while let Some(level) = levels.last_mut() {
            if level.page.is_empty() {
                // A directory that cannot be read on ends here, as one that is empty.
                level.page = level.listing.next_page(LISTING_PAGE).await.unwrap_or_default();
                level.page.reverse();
            }
            let Some(entry) = level.page.pop() else {
                levels.pop();
                self.record(END).await?;
                continue;
            };
            let Ok(path) = level.path.join(&entry.name) else { continue };
            let told = path.as_str().to_owned();
            let Some(attributes) = self.followed(&path, entry.attributes, &levels).await? else {
                continue;
            };
            match attributes.kind {
                EntryKind::Directory if levels.len() >= SCP_DEPTH => {
                    self.warn(&told, "too deep to be sent by scp; use sftp")?;
                }
                EntryKind::Directory => {
                    levels.extend(self.enter(&path, &told, &attributes).await?);
                }
                EntryKind::File | EntryKind::Link => self.file(&path, &told).await?,
            }
        }
        Ok(())
    }

    /// What of a tree is sent, a link as what it leads to, as scp does; `None`: it is left out. A
    /// directory that is being sent is not begun again, and only so many links to others are gone
    /// into.
    async fn followed(
        &mut self,
        path: &VPath,
        entry: Attributes,
        levels: &[Level],
    ) -> Result<Option<Attributes>, Ended> {
        let is_link = entry.kind == EntryKind::Link;
        // Without links the same directory is not met twice.
        if !is_link && (self.linked == 0 || entry.kind == EntryKind::File) {
            return Ok(Some(entry));
        }
        let vfs = self.account.session.vfs();
        let (resolved, attributes) = match (vfs.resolve(path).await, vfs.stat(path).await) {
            (Ok(resolved), Ok(attributes)) => (resolved, attributes),
            (Err(error), _) | (_, Err(error)) => {
                self.refuse(path.as_str(), &error)?;
                return Ok(None);
            }
        };
        if attributes.kind != EntryKind::Directory {
            return Ok(Some(attributes));
        }
        self.linked += usize::from(is_link);
        let why = if levels.iter().any(|level| level.resolved == resolved) {
            "the directory is being copied already; copy it by itself"
        } else if self.linked > SCP_LINKED {
            "too many links to directories for one copy; copy it by itself"
        } else {
            return Ok(Some(attributes));
        };
        self.warn(path.as_str(), why)?;
        Ok(None)
    }

    async fn enter(
        &mut self,
        path: &VPath,
        told: &str,
        attributes: &Attributes,
    ) -> Result<Option<Level>, Ended> {
        let Some(name) = path.file_name().filter(|name| scp::can_be_sent(name)) else {
            self.warn(told, "it has no name that scp can send; name what is in it")?;
            return Ok(None);
        };
        let listing = self.account.session.vfs().list(path);
        let Some(listing) = self.asked("opendir", path, told, listing).await? else {
            return Ok(None);
        };
        let record = scp::directory(attributes.mode.unwrap_or(0o755), name);
        if !self.times(attributes).await? || !self.record(record).await? {
            return Ok(None);
        }
        Ok(Some(Level {
            resolved: listing.path().clone(),
            path: path.clone(),
            listing,
            page: Vec::new(),
        }))
    }

    /// Sends times if they were asked for; false: the sink does not want what follows.
    async fn times(&mut self, attributes: &Attributes) -> Result<bool, Ended> {
        if !self.command.preserve {
            return Ok(true);
        }
        let (modified, accessed) = (attributes.modified.seconds(), attributes.accessed.seconds());
        self.record(scp::times(Times { modified, accessed })).await
    }

    async fn record(&mut self, record: Bytes) -> Result<bool, Ended> {
        self.ends.outbox.send(record);
        self.accepted().await
    }

    async fn accepted(&mut self) -> Result<bool, Ended> {
        match self.answer().await? {
            Answer::Ok => Ok(true),
            Answer::Failed(text) => {
                tracing::debug!(text, "the sink of a copy refuses");
                self.failed = true;
                Ok(false)
            }
        }
    }

    /// Waits for the sink's next answer.
    async fn answer(&mut self) -> Result<Answer, Ended> {
        loop {
            let early = self.early.split();
            let mut input: &[u8] = &early;
            match self.answers.next(&mut input) {
                Ok(Some(answer)) => {
                    self.early.extend_from_slice(input);
                    return Ok(answer);
                }
                Ok(None) => {}
                Err(fatal @ Fatal::Protocol(_)) => {
                    self.ends.outbox.send(scp::stop(&fatal.to_string()));
                    return Err(Ended::Broken(fatal.to_string()));
                }
                Err(fatal) => return Err(Ended::Broken(fatal.to_string())),
            }
            match self.ends.next().await {
                Next::Data(piece, _room) => self.keep_early(&piece)?,
                Next::Eof | Next::Gone => return Err(Ended::Gone),
            }
        }
    }

    fn keep_early(&mut self, piece: &[u8]) -> Result<(), Ended> {
        if self.early.len() + piece.len() > EARLY_BYTES {
            return Err(Ended::Broken("the client sends what nobody asked for".to_owned()));
        }
        self.early.extend_from_slice(piece);
        Ok(())
    }

    /// Waits until the client has taken enough. What it sends meanwhile is taken in, or the session
    /// task, which must send for us, would wait for room.
    async fn room(&mut self) -> Result<(), Ended> {
        loop {
            let next = tokio::select! {
                () = self.ends.outbox.room() => return Ok(()),
                piece = self.ends.pieces.recv() => piece,
            };
            match next {
                Some(crate::queue::Piece::Data(piece, _room)) => self.keep_early(&piece)?,
                Some(crate::queue::Piece::Eof) | None => return Err(Ended::Gone),
            }
        }
    }
}
