//! An adapter over files in memory: the server machine as a whole server without sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use entrepot_ftp_proto::entry::{Kind, Rights, Stat};
use entrepot_ftp_proto::listing::{Format, is_listed};
use entrepot_ftp_proto::path::split;
use entrepot_ftp_proto::pattern::matches;
use entrepot_ftp_proto::{
    Answer, Changes, End, Login, Refusal, Request, Server, Settings, StoreHow, Target, Time, Why,
    ascii,
};

pub(crate) const NOW: &str = "20261121034506";

/// What a session of the model is to do, and what it did.
pub(crate) struct Model {
    pub(crate) server: Server,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) directories: BTreeSet<String>,
    pub(crate) times: BTreeMap<String, Time>,
    /// Permission bits that were set. What is named `bare…` has none.
    pub(crate) modes: BTreeMap<String, u32>,
    /// Bytes the client sends on the next data connection.
    pub(crate) upload: Vec<u8>,
    /// Bytes that went to the client on data connections.
    pub(crate) download: Vec<u8>,
    /// Transfers wait to be told how they end.
    pub(crate) hold: bool,
    running: Option<Request>,
    /// Verb, code and sentence of a rule.
    pub(crate) rule: Option<(String, u16, String)>,
    /// Refuse the next request but logins with this.
    pub(crate) refuse: Option<Refusal>,
    /// Requests are written to the log.
    pub(crate) log: Option<String>,
    pub(crate) wire: Vec<u8>,
    pub(crate) now: Duration,
    /// How long credentials wait for their answer.
    pub(crate) thinking: Duration,
}

pub(crate) fn now() -> Time {
    Time::parse(NOW).unwrap()
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        Model {
            server: Server::new(settings, Duration::ZERO),
            files: BTreeMap::new(),
            directories: BTreeSet::from(["/".to_owned()]),
            times: BTreeMap::new(),
            modes: BTreeMap::new(),
            upload: Vec::new(),
            download: Vec::new(),
            hold: false,
            running: None,
            rule: None,
            refuse: None,
            log: None,
            wire: Vec::new(),
            now: Duration::ZERO,
            thinking: Duration::ZERO,
        }
    }

    /// Gives the machine bytes and does what it asks.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.server.receive(bytes, self.now);
        self.run();
    }

    pub(crate) fn run(&mut self) {
        loop {
            let request = self.server.poll_request();
            let flushed = self.flush();
            let Some(request) = request else {
                if flushed {
                    continue;
                }
                return;
            };
            if let Some(log) = &mut self.log {
                writeln!(log, "= {request:?}").unwrap();
            }
            self.handle(request);
            self.flush();
        }
    }

    fn flush(&mut self) -> bool {
        let output = self.server.output().to_vec();
        self.server.written(output.len());
        if let Some(log) = &mut self.log {
            let mut rest: &[u8] = &output;
            while rest.first() == Some(&255) {
                writeln!(log, "< IAC {} {}", rest[1], rest[2]).unwrap();
                rest = &rest[3..];
            }
            let text = std::str::from_utf8(rest).expect("replies are UTF-8");
            assert!(text.is_empty() || text.ends_with("\r\n"), "a reply without an end");
            text.lines().for_each(|line| writeln!(log, "< {line}").unwrap());
        }
        let flushed = !output.is_empty();
        self.wire.extend(output);
        flushed
    }

    fn answer(&mut self, answer: Answer) {
        self.server.answer(answer, self.now);
    }

    fn handle(&mut self, request: Request) {
        let answer = match request {
            Request::After { .. } | Request::Logout | Request::DropData | Request::Close => return,
            Request::Abort => return self.end(End::Aborted),
            Request::Retrieve { .. } | Request::Store { .. } | Request::List { .. } => {
                return self.begin(request);
            }
            Request::Before(command) => match &self.rule {
                Some((verb, code, sentence)) if verb == command.verb => {
                    Answer::Refused(Refusal::told(*code, sentence.replace("\\n", "\n")))
                }
                _ => Answer::Proceed,
            },
            Request::Password { .. } | Request::User(_) | Request::Account(_) => {
                self.now += self.thinking;
                self.server.handle_timeout(self.now);
                self.login(&request)
            }
            Request::StartTls => Answer::TlsStands,
            Request::ClearControl => Answer::Done,
            request => match self.refuse.take() {
                Some(refusal) => Answer::Refused(refusal),
                None => {
                    self.files(request).unwrap_or_else(|why| Answer::Refused(Refusal::new(why)))
                }
            },
        };
        self.answer(answer);
    }

    fn login(&self, request: &Request) -> Answer {
        let login = Login::at_root();
        match request {
            Request::User(user) if user == "cert" => Answer::LoggedIn(login),
            Request::User(_) => Answer::NeedPassword,
            Request::Password { user, password } if password.expose() == "secret" => {
                match user.as_str() {
                    "accounted" => Answer::NeedAccount,
                    "admin" => Answer::LoggedIn(Login { administrator: true, ..login }),
                    "reader" => Answer::LoggedIn(Login { may_write: false, ..login }),
                    "private" => Answer::LoggedIn(Login { protect_data: true, ..login }),
                    "home" => Answer::LoggedIn(Login {
                        directory: "/home".into(),
                        message: Some("Hello.\n230 You are root.\nWelcome.".into()),
                        ..login
                    }),
                    "alice" => Answer::LoggedIn(login),
                    _ => Answer::Denied,
                }
            }
            Request::Account(account) if account.expose() == "red" => {
                if self.server.user().is_some() { Answer::Done } else { Answer::LoggedIn(login) }
            }
            _ => Answer::Denied,
        }
    }

    pub(crate) fn stat(&self, path: &str) -> Option<Stat> {
        let directory = self.directories.contains(path);
        let size = match self.files.get(path) {
            Some(file) => file.len() as u64,
            None if directory => 0,
            None => return None,
        };
        Some(Stat {
            kind: if directory { Kind::Directory } else { Kind::File },
            size,
            modified: Some(self.times.get(path).copied().unwrap_or_else(now)),
            created: None,
            mode: self.modes.get(path).copied().unwrap_or(if directory { 0o755 } else { 0o644 }),
            rights: Rights(u16::MAX),
            unique: None,
        })
    }

    fn file(&self, path: &str) -> Result<&Vec<u8>, Why> {
        if self.directories.contains(path) {
            return Err(Why::IsDirectory);
        }
        self.files.get(path).ok_or(Why::NotFound)
    }

    fn files(&mut self, request: Request) -> Result<Answer, Why> {
        match request {
            Request::ChangeDir(path) if self.directories.contains(&path) => {}
            Request::ChangeDir(path) if self.files.contains_key(&path) => {
                return Err(Why::NotDirectory);
            }
            Request::ChangeDir(_) => return Err(Why::NotFound),
            Request::MakeDir { path, parents } => {
                let above = split(&path).0.to_owned();
                if self.stat(&path).is_some() {
                    return Err(Why::Exists);
                }
                if !parents && !self.directories.contains(&above) {
                    return Err(Why::NotFound);
                }
                self.directories.extend([path, above]);
            }
            Request::RemoveDir(path) => {
                let inside = format!("{path}/");
                if self.files.keys().chain(&self.directories).any(|name| name.starts_with(&inside))
                {
                    return Err(Why::NotEmpty);
                }
                self.directories.remove(&path).then_some(()).ok_or(Why::NotFound)?;
            }
            Request::RemoveTree(path) => {
                let inside = format!("{path}/");
                self.files.retain(|name, _| !name.starts_with(&inside));
                self.directories.retain(|name| !name.starts_with(&inside) && *name != path);
            }
            Request::Delete(path) => {
                self.file(&path)?;
                self.files.remove(&path);
            }
            Request::RenameFrom(path) => drop(self.stat(&path).ok_or(Why::NotFound)?),
            Request::Rename { from, to } => {
                if self.directories.contains(&to) {
                    return Err(Why::IsDirectory);
                }
                let file = self.files.remove(&from).ok_or(Why::NotFound)?;
                self.files.insert(to, file);
            }
            Request::Copy { from, to } => {
                let file = self.file(&from)?.clone();
                self.files.insert(to, file);
            }
            Request::Combine { target, parts } => {
                let mut whole = Vec::new();
                for part in parts {
                    whole.extend_from_slice(self.file(&part)?);
                }
                self.files.insert(target, whole);
            }
            Request::Change { path, changes } => return self.change(path, &changes),
            Request::Host(name) if name != "other.example" => return Err(Why::NotFound),
            Request::Allocate(bytes) if bytes > 1_000_000 => return Err(Why::NoSpace),
            other => return self.ask(other),
        }
        Ok(Answer::Done)
    }

    fn change(&mut self, path: String, changes: &Changes) -> Result<Answer, Why> {
        self.stat(&path).ok_or(Why::NotFound)?;
        if changes.mode.is_some() && path.starts_with("/bare") {
            return Ok(Answer::NoModes);
        }
        if let Some(time) = changes.modified {
            self.times.insert(path.clone(), time);
        }
        let Some(mode) = changes.mode else { return Ok(Answer::Done) };
        // Whoever owns it may always read it.
        self.modes.insert(path, mode | 0o400);
        Ok(Answer::Mode(mode | 0o400))
    }

    fn ask(&self, request: Request) -> Result<Answer, Why> {
        Ok(match request {
            Request::Size { path, ascii: false } => Answer::Number(self.file(&path)?.len() as u64),
            Request::Size { .. } => {
                let sentence = "SIZE is for TYPE I.";
                Answer::Refused(Refusal::because(Why::NotFound, sentence))
            }
            Request::Modified(path) => {
                Answer::Modified(self.stat(&path).ok_or(Why::NotFound)?.modified.unwrap())
            }
            Request::Entry(path) => Answer::Entry(self.stat(&path).ok_or(Why::NotFound)?),
            Request::Hash { path, range, .. } => {
                let length = self.file(&path)?.len() as u64;
                let (start, end) = range.map_or((0, length), |range| (range.start, range.end));
                Answer::Digest { digest: vec![0xab, 0xcd], start, end: end.min(length) }
            }
            Request::Space(_) => Answer::Number(1_000_000),
            Request::TreeSize(_) => Answer::Number(42),
            Request::Progress => Answer::Number(7),
            Request::Passive { .. } => Answer::Passive("127.0.0.1:1025".parse().unwrap()),
            Request::StatPath(target) => {
                let (directory, entries) = self.entries(&target)?;
                Answer::Listing { directory, entries, now: now() }
            }
            _ => Answer::Done,
        })
    }

    /// What a target means: a directory's entries, the one file, or what matches.
    fn entries(&self, target: &Target) -> Result<(bool, Vec<(String, Stat)>), Why> {
        let stat = self.stat(&target.path);
        if let Some(stat) = stat.filter(|stat| stat.kind == Kind::File) {
            return Ok((false, vec![(target.name.clone(), stat)]));
        }
        let (directory, pattern) = match (stat, target.pattern()) {
            (Some(_), _) => (target.path.as_str(), "*"),
            (None, Some(both)) => both,
            (None, None) => return Err(Why::NotFound),
        };
        let names = self.files.keys().chain(&self.directories);
        let inside = names.filter(|name| *name != "/" && split(name).0 == directory);
        let listed = inside.filter_map(|name| {
            let last = split(name).1;
            let shown = is_listed(last) && matches(pattern, last);
            shown.then(|| (last.to_owned(), self.stat(name).unwrap()))
        });
        Ok((true, listed.collect()))
    }

    fn begin(&mut self, request: Request) {
        let missing = match (&request, self.refuse.take()) {
            (_, Some(refusal)) => Some(refusal),
            (Request::Retrieve { path, .. }, _) => self.file(path).err().map(Refusal::new),
            (Request::List { target, format: Format::Facts(_), .. }, _) => {
                let missing = Refusal::new(Why::NotFound);
                match self.stat(&target.path) {
                    Some(stat) if stat.kind == Kind::Directory => None,
                    Some(_) => Some(Refusal::new(Why::NotDirectory)),
                    None => Some(missing),
                }
            }
            (Request::List { target, .. }, _) => self.entries(target).err().map(Refusal::new),
            _ => None,
        };
        if let Some(refusal) = missing {
            return self.answer(Answer::TransferEnded(End::Refused(refusal)));
        }
        let (mut size, mut name) = (None, None);
        match &request {
            Request::Retrieve { path, offset, ascii: false, .. } => {
                size = Some((self.files[path].len() as u64).saturating_sub(*offset));
            }
            Request::Store { how: StoreHow::Unique { prefix }, .. } => {
                name = Some(format!("{}.1", prefix.as_deref().unwrap_or("file")));
            }
            _ => {}
        }
        self.answer(Answer::TransferStarted { connected: false, size, name });
        self.running = Some(request);
        if !self.hold {
            self.end(End::Complete);
        }
    }

    /// The running transfer ends like this.
    pub(crate) fn end(&mut self, end: End) {
        let running = self.running.take();
        if let (Some(request), End::Complete) = (running, &end) {
            self.move_bytes(request);
        }
        self.answer(Answer::TransferEnded(end));
    }

    fn move_bytes(&mut self, request: Request) {
        match request {
            Request::Retrieve { path, offset, length, ascii, .. } => {
                let file = &self.files[&path];
                let mut wire = Vec::new();
                if ascii {
                    ascii::ToNetwork::skipping(offset).convert(file, &mut wire);
                } else {
                    wire.extend_from_slice(file.get(offset as usize..).unwrap_or(&[]));
                }
                wire.truncate(length.map_or(usize::MAX, |length| length as usize));
                self.download.extend(wire);
            }
            Request::Store { path, how, ascii, .. } => {
                let (sent, mut data) = (std::mem::take(&mut self.upload), Vec::new());
                if ascii {
                    let mut converter = ascii::FromNetwork::new();
                    converter.convert(&sent, &mut data);
                    converter.finish(&mut data);
                } else {
                    data = sent;
                }
                self.store(path, &how, data);
            }
            Request::List { target, format, .. } => self.list(&target, &format),
            _ => {}
        }
    }

    fn store(&mut self, path: String, how: &StoreHow, data: Vec<u8>) {
        let mut before = self.files.remove(&path).unwrap_or_default();
        let path = match how {
            StoreHow::Unique { prefix } => {
                format!("{path}/{}.1", prefix.as_deref().unwrap_or("file")).replace("//", "/")
            }
            _ => path,
        };
        match how {
            StoreHow::Replace | StoreHow::Unique { .. } => before.clear(),
            StoreHow::ResumeAt(offset) => before.truncate(*offset as usize),
            StoreHow::Append => {}
        }
        before.extend(data);
        self.files.insert(path, before);
    }

    fn list(&mut self, target: &Target, format: &Format) {
        let mut out = Vec::new();
        let (directory, entries) = self.entries(target).unwrap();
        if let Some(stat) = self.stat(&target.path) {
            let above = self.stat("/").filter(|_| target.path != "/");
            format.write_self(&stat, above.as_ref(), &mut out);
        }
        for (name, stat) in entries {
            if directory {
                format.write(&name, &stat, now(), &mut out);
            } else {
                format.write_file(&name, &stat, now(), &mut out);
            }
        }
        self.download.extend(out);
    }
}
