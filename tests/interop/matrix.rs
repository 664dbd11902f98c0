//! Every client × every operation, byte for byte. What a client cannot do is said by it and by
//! the table of `docs/clients/README.md`, which each test compares with what it saw.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::matrix::{Client, Did, How, Seat, Task};
use entrepot_testkit::clients::{noise, openssh, ours, putty, python, tools};

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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Yes,
    Most,
    No,
}

struct Row<'a> {
    client: &'a dyn Client,
    seat: Seat<'a>,
}

impl Row<'_> {
    fn task(&self, task: &Task<'_>) -> Result<Did> {
        let name = self.client.name();
        self.client.run(self.seat, task).with_context(|| format!("{name}: {task:?}"))
    }

    fn move_it(&self, how: How, local: &Path, remote: &str) -> Result<Did> {
        self.task(&Task::Move { how, local, remote })
    }

    fn there(&self, path: &str) -> std::path::PathBuf {
        self.seat.login.on_disk(self.seat.node, path)
    }

    fn here(&self, path: &str) -> std::path::PathBuf {
        self.seat.node.scratch().join("here").join(path)
    }

    /// A file up and down again.
    fn round(&self, name: &str, size: usize) -> Result<Cell> {
        let content = noise(size as u64, size);
        let local = self.here(name);
        std::fs::write(&local, &content)?;
        let remote = format!("in/{name}");
        if let Did::Cannot(_) = self.move_it(How::Put, &local, &remote)? {
            return Ok(Cell::No);
        }
        ensure!(std::fs::read(self.there(&remote))? == content, "{name} came up different");
        std::fs::remove_file(&local)?;
        if let Did::Cannot(_) = self.move_it(How::Get, &local, &remote)? {
            return Ok(Cell::No);
        }
        ensure!(std::fs::read(&local)? == content, "{name} came down different");
        Ok(Cell::Yes)
    }

    fn put_and_get(&self) -> Result<Cell> {
        self.round("empty", 0)?;
        self.round("large", 3_000_001)
    }

    fn resume_up(&self) -> Result<Cell> {
        let content = noise(5, 2_000_003);
        std::fs::write(self.there("in/up.part"), content.get(..700_001).unwrap_or_default())?;
        std::fs::write(self.here("up"), &content)?;
        let did = self.move_it(How::ResumeUp, &self.here("up"), "in/up.part")?;
        self.or_same(did, &self.there("in/up.part"), &content)
    }

    fn resume_down(&self) -> Result<Cell> {
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

    fn recursive(&self) -> Result<Cell> {
        let from = self.here("tree");
        for (path, size) in TREE {
            let file = from.join(path);
            std::fs::create_dir_all(file.parent().context("a parent")?)?;
            std::fs::write(file, noise(size as u64, size))?;
        }
        let to = self.here("tree-back");
        if let Did::Cannot(_) = self.move_it(How::PutTree, &from, "tree")? {
            return Ok(Cell::No);
        }
        self.move_it(How::GetTree, &to, "tree")?;
        for (path, size) in TREE {
            let content = noise(size as u64, size);
            ensure!(std::fs::read(self.there("tree").join(path))? == content, "{path} there");
            ensure!(std::fs::read(to.join(path))? == content, "{path} came back different");
        }
        Ok(Cell::Yes)
    }

    /// Times down alone are most of it.
    fn times(&self) -> Result<Cell> {
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

    fn rename_over(&self) -> Result<Cell> {
        // Of another length: rclone compares before it moves.
        std::fs::write(self.there("in/new"), b"new content")?;
        std::fs::write(self.there("in/taken"), b"old")?;
        let did = self.task(&Task::RenameOver { from: "in/new", to: "in/taken" })?;
        let cell = self.or_same(did, &self.there("in/taken"), b"new content")?;
        ensure!(cell == Cell::No || !self.there("in/new").exists(), "the old name is still there");
        Ok(cell)
    }

    fn large_directory(&self) -> Result<Cell> {
        std::fs::create_dir(self.there("many"))?;
        let names: BTreeSet<String> = (0..MANY).map(|n| format!("entry-{n:05}")).collect();
        for name in &names {
            std::fs::File::create(self.there("many").join(name))?;
        }
        let Did::Done(said) = self.task(&Task::List { remote: "many" })? else {
            return Ok(Cell::No);
        };
        let listed = said.lines().map(str::trim).filter(|name| name.starts_with("entry-"));
        let listed: Vec<&str> = listed.collect();
        ensure!(listed.len() == MANY, "{} entries of {MANY}", listed.len());
        ensure!(listed.iter().all(|name| names.contains(*name)), "other names");
        Ok(Cell::Yes)
    }

    fn odd_names(&self) -> Result<Cell> {
        let mut done = 0;
        for name in ODD {
            done += usize::from(self.round(name, 1_000)? == Cell::Yes);
        }
        Ok(if done == ODD.len() { Cell::Yes } else { Cell::Most })
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
    let row = Row { client, seat };
    std::fs::create_dir(row.here(""))?;
    std::fs::create_dir_all(row.there("in"))?;
    let cells = row.cells()?;
    let said = in_page(client.name())?;
    let seen: Vec<&str> = cells
        .iter()
        .map(|cell| match cell {
            Cell::Yes => "yes",
            Cell::Most => "most",
            Cell::No => "no",
        })
        .collect();
    ensure!(
        said.iter().map(String::as_str).take(seen.len()).eq(seen.iter().copied()),
        "docs/clients/README.md says {said:?} of {}, seen: {seen:?}",
        client.name()
    );
    Ok(())
}

/// The cells of a client in the page's table.
fn in_page(client: &str) -> Result<Vec<String>> {
    let page = include_str!("../../docs/clients/README.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| {client} |")));
    let row = row.with_context(|| format!("no row of '{client}' in docs/clients/README.md"))?;
    let words = row.split('|').skip(2).map(str::trim).filter(|cell| !cell.is_empty());
    Ok(words.map(|cell| cell.split_whitespace().next().unwrap_or_default().to_owned()).collect())
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
fn our_own() -> Result<()> {
    check(&ours::Ours)
}
