//! Every client × every operation, byte for byte. What a client cannot do is said by it and by
//! the table of `docs/clients/README.md`, which each test compares with what it saw.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::matrix::{Client, Did, How, Seat, Task};
use entrepot_testkit::clients::{libraries, noise, openssh, ours, putty, python, tools};
use entrepot_testkit::server::run;

use crate::node_with;

/// Names that clients, shells and patterns stumble over.
const ODD: [&str; 8] = [
    "with space",
    "double\"quote",
    "single'quote",
    "ünï 文件",
    "-dash",
    "back\\slash",
    "star*[a]?",
    "$dollar `tick` %25",
];
/// Entries of the large directory.
const MANY: usize = 3_000;
/// Files of the tree that goes both ways.
const TREE: [(&str, usize); 4] = [("a.txt", 10), ("b/c.bin", 300_000), ("b/d/e", 40_000), ("f", 0)];
/// A time that no clock of today shows.
const OLD: Duration = Duration::from_secs(1_000_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Yes,
    Most,
    No,
}

impl Cell {
    /// As the pages have it.
    fn word(self) -> &'static str {
        match self {
            Cell::Yes => "yes",
            Cell::Most => "most",
            Cell::No => "no",
        }
    }
}

/// One client and where it works.
pub(super) struct Row<'a> {
    pub(super) client: &'a dyn Client,
    pub(super) seat: Seat<'a>,
    /// A folder of its own, here and there.
    pub(super) place: &'a str,
}

impl Row<'_> {
    fn task(&self, task: &Task<'_>) -> Result<Did> {
        let name = self.client.name();
        self.client.run(self.seat, task).with_context(|| format!("{name}: {task:?}"))
    }

    fn move_it(&self, how: How, local: &Path, remote: &str) -> Result<Did> {
        self.task(&Task::Move { how, local, remote: &self.at(remote) })
    }

    /// As the client names it.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.place)
    }

    pub(super) fn there(&self, path: &str) -> PathBuf {
        self.seat.login.on_disk(self.seat.node, &self.at(path))
    }

    pub(super) fn here(&self, path: &str) -> PathBuf {
        self.seat.node.scratch().join("here").join(self.place).join(path)
    }

    /// Makes the folders.
    pub(super) fn prepare(&self) -> Result<()> {
        std::fs::create_dir_all(self.here(""))?;
        Ok(std::fs::create_dir_all(self.there("in"))?)
    }

    /// A file up and down again; down alone is most of it.
    pub(super) fn round(&self, name: &str, size: usize) -> Result<Cell> {
        let content = noise(size as u64, size);
        let local = self.here(name);
        std::fs::write(&local, &content)?;
        let remote = format!("in/{name}");
        let mut cell = Cell::Yes;
        if let Did::Cannot(_) = self.move_it(How::Put, &local, &remote)? {
            cell = Cell::Most;
            std::fs::copy(&local, self.there(&remote))?;
        }
        ensure!(std::fs::read(self.there(&remote))? == content, "{name} came up different");
        std::fs::remove_file(&local)?;
        if let Did::Cannot(_) = self.move_it(How::Get, &local, &remote)? {
            return Ok(Cell::No);
        }
        ensure!(std::fs::read(&local)? == content, "{name} came down different");
        Ok(cell)
    }

    pub(super) fn put_and_get(&self) -> Result<Cell> {
        self.round("empty", 0)?;
        self.round("large", 3_000_001)
    }

    pub(super) fn resume_up(&self) -> Result<Cell> {
        let content = noise(5, 2_000_003);
        std::fs::write(self.there("in/up.part"), content.get(..700_001).unwrap_or_default())?;
        std::fs::write(self.here("up"), &content)?;
        let did = self.move_it(How::ResumeUp, &self.here("up"), "in/up.part")?;
        self.or_same(did, &self.there("in/up.part"), &content)
    }

    pub(super) fn resume_down(&self) -> Result<Cell> {
        let content = noise(6, 2_000_003);
        std::fs::write(self.there("in/down"), &content)?;
        std::fs::write(self.here("down"), content.get(..700_001).unwrap_or_default())?;
        let did = self.move_it(How::ResumeDown, &self.here("down"), "in/down")?;
        self.or_same(did, &self.here("down"), &content)
    }

    fn or_same(&self, did: Did, path: &Path, content: &[u8]) -> Result<Cell> {
        if let Did::Cannot(_) = did {
            return Ok(Cell::No);
        }
        ensure!(std::fs::read(path)? == content, "'{}' differs", path.display());
        Ok(Cell::Yes)
    }

    pub(super) fn recursive(&self) -> Result<Cell> {
        let from = self.here("tree");
        for (path, size) in TREE {
            let file = from.join(path);
            std::fs::create_dir_all(file.parent().context("a parent")?)?;
            std::fs::write(file, noise(size as u64, size))?;
        }
        let to = self.here("tree-back");
        let mut cell = Cell::Yes;
        if let Did::Cannot(_) = self.move_it(How::PutTree, &from, "tree")? {
            cell = Cell::Most;
            let there = self.there("tree");
            run(std::process::Command::new("cp").arg("-r").arg(&from).arg(there))?;
        }
        if let Did::Cannot(_) = self.move_it(How::GetTree, &to, "tree")? {
            return Ok(Cell::No);
        }
        for (path, size) in TREE {
            let content = noise(size as u64, size);
            ensure!(std::fs::read(self.there("tree").join(path))? == content, "{path} there");
            ensure!(std::fs::read(to.join(path))? == content, "{path} came back different");
        }
        Ok(cell)
    }

    /// Times down alone are most of it.
    pub(super) fn times(&self) -> Result<Cell> {
        let when = SystemTime::UNIX_EPOCH + OLD;
        let dated = |path: &Path| -> Result<()> {
            std::fs::write(path, b"old")?;
            Ok(std::fs::File::options().write(true).open(path)?.set_modified(when)?)
        };
        dated(&self.here("old"))?;
        let mut cell = Cell::Yes;
        match self.move_it(How::PutTimes, &self.here("old"), "in/old")? {
            Did::Cannot(_) => {
                cell = Cell::Most;
                dated(&self.there("in/old"))?;
            }
            Did::Done(_) => {
                ensure!(std::fs::metadata(self.there("in/old"))?.modified()? == when, "time there");
            }
        }
        match self.move_it(How::GetTimes, &self.here("old-back"), "in/old")? {
            Did::Cannot(_) => return Ok(Cell::No),
            Did::Done(_) => {
                let got = std::fs::metadata(self.here("old-back"))?.modified()?;
                ensure!(got == when, "time here: {got:?}");
            }
        }
        Ok(cell)
    }

    pub(super) fn rename_over(&self) -> Result<Cell> {
        // Of another length: rclone compares before it moves.
        std::fs::write(self.there("in/new"), b"new content")?;
        std::fs::write(self.there("in/taken"), b"old")?;
        let (from, to) = (&self.at("in/new"), &self.at("in/taken"));
        let did = self.task(&Task::RenameOver { from, to })?;
        let cell = self.or_same(did, &self.there("in/taken"), b"new content")?;
        ensure!(cell == Cell::No || !self.there("in/new").exists(), "the old name is still there");
        Ok(cell)
    }

    pub(super) fn large_directory(&self) -> Result<Cell> {
        std::fs::create_dir(self.there("many"))?;
        let names: BTreeSet<String> = (0..MANY).map(|n| format!("entry-{n:05}")).collect();
        for name in &names {
            std::fs::File::create(self.there("many").join(name))?;
        }
        let Did::Done(said) = self.task(&Task::List { remote: &self.at("many") })? else {
            return Ok(Cell::No);
        };
        let listed = said.lines().map(str::trim).filter(|name| name.starts_with("entry-"));
        let listed: Vec<&str> = listed.collect();
        ensure!(listed.len() == MANY, "{} entries of {MANY}", listed.len());
        ensure!(listed.iter().all(|name| names.contains(*name)), "other names");
        Ok(Cell::Yes)
    }

    pub(super) fn odd_names(&self) -> Result<Cell> {
        let mut all = Cell::Yes;
        for name in ODD {
            if self.round(name, 1_000)? != Cell::Yes {
                all = Cell::Most;
            }
        }
        Ok(all)
    }

    /// All operations, in the order of the table's columns (without the digest).
    fn cells(&self) -> Result<Vec<Cell>> {
        Ok(vec![
            self.put_and_get()?,
            self.resume_up()?,
            self.resume_down()?,
            self.recursive()?,
            self.times()?,
            self.rename_over()?,
            self.large_directory()?,
            self.odd_names()?,
        ])
    }
}

/// Does all a client can, and compares its row of the page.
pub(super) fn check(client: &dyn Client) -> Result<()> {
    let (node, login) = node_with("acme")?;
    check_on(client, Seat { node: &node, login: &login })
}

/// The same on a node that runs.
pub(super) fn check_on(client: &dyn Client, seat: Seat<'_>) -> Result<()> {
    let row = Row { client, seat, place: "" };
    row.prepare()?;
    let page = include_str!("../../docs/clients/README.md");
    said_in(page, client.name(), &row.cells()?)
}

/// Fails unless the page's row of the client begins with these cells.
pub(super) fn said_in(page: &str, client: &str, seen: &[Cell]) -> Result<()> {
    let row = page.lines().find(|line| line.starts_with(&format!("| {client} |")));
    let row = row.with_context(|| format!("no row of '{client}' in docs/clients"))?;
    let words = row.split('|').skip(2).filter_map(|cell| cell.split_whitespace().next());
    let said: Vec<&str> = words.take(seen.len()).collect();
    let seen: Vec<&str> = seen.iter().map(|cell| cell.word()).collect();
    ensure!(said == seen, "docs/clients says {said:?} of {client}, seen: {seen:?}");
    Ok(())
}

#[test]
fn openssh_sftp() -> Result<()> {
    check(&openssh::Sftp)
}

#[test]
fn openssh_scp() -> Result<()> {
    check(&openssh::Scp { old: false })
}

#[test]
fn psftp() -> Result<()> {
    check(&putty::Psftp { rekeys: false })
}

#[test]
fn pscp() -> Result<()> {
    check(&putty::Pscp { old: false })
}

#[test]
fn lftp() -> Result<()> {
    check(&tools::Lftp)
}

#[test]
fn rclone() -> Result<()> {
    check(&tools::Rclone)
}

#[test]
fn paramiko() -> Result<()> {
    check(&python::PARAMIKO)
}

#[test]
fn asyncssh() -> Result<()> {
    check(&python::ASYNCSSH)
}

#[test]
fn go_pkg_sftp() -> Result<()> {
    check(&libraries::PKG_SFTP)
}

#[test]
fn node_ssh2() -> Result<()> {
    check(&libraries::SSH2)
}

#[test]
fn phpseclib() -> Result<()> {
    check(&libraries::PHPSECLIB)
}

#[test]
fn libssh() -> Result<()> {
    check(&libraries::LIBSSH)
}

#[test]
fn our_own() -> Result<()> {
    check(&ours::Ours)
}
