//! A node that delivers what arrives to four places, and what its clients saw acknowledged.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::ftp::Protection;
use entrepot_testkit::clients::{Login, noise, text};
use entrepot_testkit::disk::Disk;
use entrepot_testkit::s3::S3Server;
use entrepot_testkit::server::Node;
use entrepot_testkit::sshd::Sshd;

use crate::program;

/// Who uploads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Client {
    /// OpenSSH's `sftp`.
    Sftp,
    /// Python's `ftplib`.
    Ftp(Protection),
}

/// All of them.
pub(super) const CLIENTS: [Client; 3] =
    [Client::Sftp, Client::Ftp(Protection::Clear), Client::Ftp(Protection::Tls)];

pub(super) struct Ledger {
    pub(super) node: Node,
    login: Login,
    /// Where the endpoints `inbox` and `second` are.
    folders: PathBuf,
    bucket: S3Server,
    peer: Sshd,
    disk: Option<Disk>,
    /// What every file holds that a client began to upload.
    sent: BTreeMap<String, Vec<u8>>,
    acknowledged: Vec<String>,
}

impl Ledger {
    pub(super) fn new() -> Result<Ledger> {
        let node = Node::new(program(), None)?;
        let folders = node.scratch().to_owned();
        Ledger::with(node, folders, None)
    }

    /// All that the node has, and two of the places it delivers to, are on a disk that forgets;
    /// `None`: there can be none here.
    pub(super) fn on_a_disk_that_forgets(test: &str) -> Result<Option<Ledger>> {
        let node = Node::without_home(program())?;
        std::fs::create_dir(node.home())?;
        let Some(disk) = Disk::mount(&node.home(), test)? else { return Ok(None) };
        node.initialize()?;
        let folders = node.home();
        let ledger = Ledger::with(node, folders, Some(disk))?;
        if let Some(disk) = &ledger.disk {
            disk.settle();
        }
        Ok(Some(ledger))
    }

    fn with(node: Node, folders: PathBuf, disk: Option<Disk>) -> Result<Ledger> {
        let (login, bucket, peer) =
            (Login::create(&node, "acme")?, S3Server::start()?, Sshd::start()?);
        node.add_ftp()?;
        // Python's client resumes no sessions of TLS.
        node.cli(&["listener", "change", "ftp", "ftp.tls_reuse=preferred"])?;
        let private = std::fs::read_to_string(peer.user_key())?;
        let private: String = private.lines().map(|line| format!("      {line}\n")).collect();
        let public = std::fs::read_to_string(peer.user_key().with_extension("pub"))?;
        let mut documents = format!(
            "{}---\n\
             key:\n  name: ours\n  type: ssh-user\n  public: '{}'\n  private: |\n{private}---\n\
             endpoint:\n  name: peer\n  target:\n    sftp:\n      host: 127.0.0.1\n      \
             port: {}\n      user: {}\n      key: ours\n      host_keys: ['{}']\n      \
             root: {}\n      allow_private: true\n---\n",
            bucket.endpoint("bucket"),
            public.trim(),
            peer.port(),
            peer.user(),
            peer.host_key(),
            text(peer.folder())?,
        );
        for name in ["inbox", "second"] {
            let folder = folders.join(name);
            std::fs::create_dir(&folder)?;
            let path = text(&folder)?;
            documents += &format!(
                "endpoint: {{name: {name}, target: {{directory: {{path: {path}}}}}}}\n---\n"
            );
        }
        documents += "rule:\n  name: to-partners\n  when: {event: file.uploaded}\n  do:\n    \
                      - deliver: {endpoint: second}\n    - deliver: {endpoint: bucket}\n    \
                      - deliver: {endpoint: peer}\n    - deliver: {endpoint: inbox}\n  \
                      retry: {attempts: 20, first_delay_seconds: 1, longest_delay_seconds: 1}\n";
        node.cli_with_input(&["apply", "-"], &documents)?;
        let (sent, acknowledged) = (BTreeMap::new(), Vec::new());
        Ok(Ledger { node, login, folders, bucket, peer, disk, sent, acknowledged })
    }

    /// How many uploads were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Uploads files one after another in one session; what the client saw confirmed is
    /// acknowledged. It writes each such name to a ledger that the server cannot touch.
    pub(super) fn upload(
        &mut self,
        client: Client,
        names: &[String],
        then: impl FnOnce(&mut Node, Option<&mut Disk>) -> Result<()>,
    ) -> Result<()> {
        let ledger = self.node.scratch().join("ledger");
        std::fs::write(&ledger, "")?;
        for (at, name) in names.iter().enumerate() {
            let content = content(name, at);
            std::fs::write(self.node.scratch().join(name), &content)?;
            self.sent.insert(name.clone(), content);
        }
        let mut child = match client {
            Client::Sftp => self.by_sftp(names, &ledger)?,
            Client::Ftp(protection) => self.by_ftp(protection, names, &ledger)?,
        };
        then(&mut self.node, self.disk.as_mut())?;
        child.wait()?;
        let done = std::fs::read_to_string(&ledger)?;
        self.acknowledged.extend(done.lines().map(str::to_owned));
        for name in names {
            std::fs::remove_file(self.node.scratch().join(name))?;
        }
        Ok(())
    }

    fn by_sftp(&self, names: &[String], ledger: &Path) -> Result<Child> {
        let ledger = text(ledger)?;
        let mut batch = String::new();
        for name in names {
            let local = self.node.scratch().join(name);
            batch += &format!("put {} {name}\n!echo {name} >> {ledger}\n", text(&local)?);
        }
        let mut child = self.login.sftp(&self.node)?.spawn()?;
        child.stdin.take().context("piped")?.write_all(batch.as_bytes())?;
        Ok(child)
    }

    fn by_ftp(&self, protection: Protection, names: &[String], ledger: &Path) -> Result<Child> {
        let script = "
with open(sys.argv[5], 'a', buffering=1) as ledger:
    for path in sys.argv[6:]:
        name = path.split('/')[-1]
        with open(path, 'rb') as file:
            ftp.storbinary('STOR ' + name, file)
        ledger.write(name + '\\n')
";
        let mut files = vec![ledger.to_owned()];
        files.extend(names.iter().map(|name| self.node.scratch().join(name)));
        let mut command: Command =
            self.login.ftplib_command(&self.node, protection, script, &files)?;
        Ok(command.spawn()?)
    }

    /// Turns the power of the disk on again, with what `seed` lets survive.
    pub(super) fn power_on(&mut self, seed: u64) -> Result<()> {
        self.disk.as_mut().context("a node on a disk of its own")?.power_on(seed)
    }

    /// The disk syncs nothing any more.
    pub(super) fn lie(&self) -> Result<()> {
        self.disk.as_ref().context("a node on a disk of its own")?.lie();
        Ok(())
    }

    /// Checks every promise against what is in all places and in the audit log.
    pub(super) fn check(&self) -> Result<()> {
        let home = self.node.files().join("acme");
        self.holds(&home)?;
        self.only_whole_files(&home)?;
        self.node.until("every acknowledged file to be delivered", || {
            let inbox = self.folders.join("inbox");
            let there = |name: &String| inbox.join(name).exists();
            Ok(self.acknowledged.iter().all(there).then_some(()))
        })?;
        self.node.until("the jobs to end", || {
            let ready = self.node.json(&["job", "list", "--state", "ready", "--limit", "1"])?;
            let running = self.node.json(&["job", "list", "--state", "running", "--limit", "1"])?;
            let idle =
                [ready, running].iter().all(|jobs| jobs.as_array().is_none_or(Vec::is_empty));
            Ok(idle.then_some(()))
        })?;
        let folders = [self.folders.join("inbox"), self.folders.join("second")];
        for place in folders.iter().map(PathBuf::as_path).chain([self.peer.folder()]) {
            self.holds(place)?;
            self.only_whole_files(place)?;
        }
        self.holds(&self.bucket.objects())?;
        self.only_whole_files(&self.bucket.objects())?;
        self.no_event_twice()?;
        ensure!(self.node.cli(&["journal", "verify"])?.contains("intact"));
        Ok(())
    }

    /// Every acknowledged file is in the folder, as it was sent.
    fn holds(&self, folder: &Path) -> Result<()> {
        for name in &self.acknowledged {
            let path = folder.join(name);
            let found = std::fs::read(&path)
                .with_context(|| format!("the acknowledged file {} is lost", path.display()))?;
            let sent = self.sent.get(name).context("it was never sent")?;
            ensure!(found == *sent, "the acknowledged file {} is damaged", path.display());
        }
        Ok(())
    }

    /// What is visible in the folder is what somebody sent.
    fn only_whole_files(&self, folder: &Path) -> Result<()> {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let sent = self.sent.get(&name);
            let whole = sent == Some(&std::fs::read(entry.path())?);
            ensure!(whole, "{} is visible and not whole", entry.path().display());
        }
        Ok(())
    }

    fn no_event_twice(&self) -> Result<()> {
        let mut seen = BTreeMap::new();
        for event in self.node.events("file.delivered")? {
            *seen.entry(format!("{} to {}", event["path"], event["endpoint"])).or_insert(0) += 1;
        }
        for kind in ["file.uploaded", "file.recovered"] {
            for event in self.node.events(kind)? {
                *seen.entry(format!("the upload {}", event["transfer"])).or_insert(0) += 1;
            }
        }
        for (what, count) in seen {
            ensure!(count == 1, "{what} has {count} events");
        }
        Ok(())
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // The disk is below the node's folder, which the node removes.
        let _ = self.node.kill();
        drop(self.disk.take());
    }
}

/// What a file of this name holds.
fn content(name: &str, at: usize) -> Vec<u8> {
    let seed = name.bytes().fold(17u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    noise(seed, 20_000 + at * 7_919)
}
