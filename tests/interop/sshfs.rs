//! Programs that know nothing of SFTP, on a mount of `sshfs`: editors, sqlite, git, rsync. Where a
//! machine lets nobody mount, each of these tests says so beside the captured output, and the bytes
//! of `sshfs` are still sent by `orders`.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use entrepot_testkit::clients::matrix::Seat;
use entrepot_testkit::clients::sshfs::{Mount, Sshfs, cannot_mount};
use entrepot_testkit::clients::{Login, noise, text};
use entrepot_testkit::server::{Node, run};

use super::matrix;
use crate::node_with;

/// A node and an account of it, unless nothing can be mounted here.
fn mountable(test: &str) -> Result<Option<(Node, Login)>> {
    let (node, login) = node_with("acme")?;
    let Some(why) = cannot_mount(Seat { node: &node, login: &login })? else {
        return Ok(Some((node, login)));
    };
    // Not by a macro, whose lines the test runner keeps to itself when a test passes.
    writeln!(std::io::stderr(), "NOT TESTED: {test} on sshfs, which cannot mount here: {why}")?;
    Ok(None)
}

fn shell(folder: &Path, script: &str) -> Result<String> {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(folder);
    // Nothing of the machine's own configuration of git.
    command.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
    for (role, name) in [("AUTHOR", "anna"), ("COMMITTER", "anna")] {
        command.env(format!("GIT_{role}_NAME"), name);
        command.env(format!("GIT_{role}_EMAIL"), "anna@acme.example");
    }
    Ok(String::from_utf8(run(&mut command)?.stdout)?)
}

#[test]
fn the_row_of_the_table() -> Result<()> {
    let Some((node, login)) = mountable("the matrix")? else { return Ok(()) };
    matrix::check_on(&Sshfs, Seat { node: &node, login: &login })
}

/// What editors do when they save, twenty times over, read back after each.
fn saves(script: &str) -> Result<()> {
    let Some((node, login)) = mountable("saving by an editor")? else { return Ok(()) };
    let seat = Seat { node: &node, login: &login };
    let mount = Mount::new(seat, "mnt")?;
    std::fs::write(mount.folder().join("doc"), "version 0\n")?;
    let all = format!(
        "for n in $(seq 20); do\n\
         {script}\n\
         test \"$(cat doc)\" = \"version $n\" || {{ echo \"$n: $(cat doc)\" >&2; exit 1; }}\n\
         done\n"
    );
    shell(mount.folder(), &all)?;
    let left = shell(mount.folder(), "ls -A")?;
    mount.end(seat)?;
    ensure!(std::fs::read(login.on_disk(&node, "doc"))? == b"version 20\n", "on disk");
    ensure!(left.lines().all(|name| ["doc", "doc~"].contains(&name)), "left behind: {left}");
    Ok(())
}

#[test]
fn an_editor_writes_beside_and_renames_over() -> Result<()> {
    // Also `sed -i`, most libraries, office programs.
    saves("echo \"version $n\" >.doc.new; sync .doc.new; chmod 600 .doc.new; mv -f .doc.new doc")
}

#[test]
fn vim_renames_the_old_file_away_and_writes_anew() -> Result<()> {
    // First its probe for a folder it can write to, then backup, write, sync, remove the backup.
    saves(
        "touch 4913; chmod 644 4913; rm 4913; mv doc doc~; echo \"version $n\" >doc; \
         sync doc; chmod 644 doc; rm doc~",
    )
}

#[test]
fn vim_copies_the_old_file_and_writes_in_place() -> Result<()> {
    saves("cp -p doc doc~; printf 'version %s\\n' $n 1<>doc; truncate -s $((9+${#n})) doc; rm doc~")
}

#[test]
fn emacs_keeps_a_backup_and_an_auto_save() -> Result<()> {
    saves(
        "echo draft >'#doc#'; ln -s anna@acme.1 '.#doc' 2>/dev/null || true; \
         mv -f doc doc~; echo \"version $n\" >doc; sync doc; rm -f '#doc#' '.#doc'; \
         test \"$(cat doc~)\" = \"version $((n - 1))\"",
    )
}

#[test]
fn sqlite_keeps_a_database() -> Result<()> {
    let Some((node, login)) = mountable("sqlite")? else { return Ok(()) };
    let seat = Seat { node: &node, login: &login };
    let mount = Mount::new(seat, "mnt")?;
    shell(mount.folder(), "sqlite3 db 'create table t(n integer, blob)'")?;
    let script = "for n in $(seq 10); do\n\
         sqlite3 db \"insert into t values ($n, randomblob(20000))\"\n\
         done\n\
         sqlite3 db 'begin; delete from t; rollback'\n\
         sqlite3 db 'update t set blob = zeroblob(100) where n > 5; vacuum'\n\
         sqlite3 db 'pragma integrity_check; select count(*), sum(n) from t'\n";
    let said = shell(mount.folder(), script)?;
    ensure!(said == "ok\n10|55\n", "{said}");
    mount.end(seat)?;
    let script = "sqlite3 db 'pragma integrity_check; select count(*), sum(n) from t'; ls -A";
    let said = shell(&login.on_disk(&node, ""), script)?;
    ensure!(said == "ok\n10|55\ndb\n", "on disk: {said}");
    Ok(())
}

#[test]
fn git_clones_commits_and_collects() -> Result<()> {
    let Some((node, login)) = mountable("git")? else { return Ok(()) };
    let seat = Seat { node: &node, login: &login };
    let origin = node.scratch().join("origin");
    std::fs::create_dir(&origin)?;
    let script = "git init -q -b main\n\
         for n in $(seq 40); do mkdir -p d$((n % 4)); echo $n >d$((n % 4))/f$n; done\n\
         git add . && git commit -q -m one\n";
    shell(&origin, script)?;
    let mount = Mount::new(seat, "mnt")?;
    let script = format!(
        "git clone -q {origin} clone && cd clone\n\
         test -z \"$(git status --porcelain)\"\n\
         echo more >>d1/f1 && git mv d2/f2 d3/moved && git commit -q -a -m two\n\
         git checkout -q -b side HEAD~1 && echo side >side\n\
         git add side && git commit -q -m side\n\
         git merge -q -m merged main && git gc -q && git fsck --strict\n\
         git push -q origin side && git log --format=%s side --",
        origin = text(&origin)?
    );
    let log = shell(mount.folder(), &script)?;
    ensure!(log.lines().count() == 4 && log.starts_with("merged"), "{log}");
    mount.end(seat)?;
    let clone = login.on_disk(&node, "clone");
    let said = shell(&clone, "git -c safe.directory='*' fsck --strict; git status --porcelain")?;
    ensure!(said.is_empty(), "on disk: {said}");
    ensure!(shell(&origin, "git log --format=%s side --")? == log, "what was pushed");
    Ok(())
}

#[test]
fn rsync_keeps_a_copy() -> Result<()> {
    let Some((node, login)) = mountable("rsync")? else { return Ok(()) };
    let seat = Seat { node: &node, login: &login };
    let here = node.scratch().join("here");
    std::fs::create_dir_all(here.join("a/b"))?;
    for n in 0..30 {
        std::fs::write(here.join(format!("a/f{n}")), noise(n, 1_000 + 500 * n as usize))?;
    }
    shell(&here, "touch -d 2001-02-03T04:05:06 a/f1; cp -p a/f1 a/b/old; touch -d 2002-02-02 a/b")?;
    let mount = Mount::new(seat, "mnt")?;
    let copy = |options: &str| -> Result<String> {
        let to = mount.folder().join("copy/");
        shell(&here, &format!("rsync -ai {options} ./ {}", text(&to)?))
    };
    copy("")?;
    let again = copy("")?;
    ensure!(again.is_empty(), "sent again: {again}");
    shell(&here, "echo tail >>a/f2; rm a/f3; mv a/f4 a/b/f4")?;
    copy("--inplace --no-whole-file --delete")?;
    shell(&here, "echo another >>a/f5")?;
    copy("--append-verify")?;
    let again = copy("--checksum --delete")?;
    ensure!(again.is_empty(), "sent again: {again}");
    mount.end(seat)?;
    let there = login.on_disk(&node, "copy");
    run(Command::new("diff").arg("-r").arg(&here).arg(&there))?;
    let modified = |folder: &Path| std::fs::metadata(folder.join("a/b/old"))?.modified();
    ensure!(modified(&here)? == modified(&there)?, "the time of a file");
    Ok(())
}

#[test]
fn files_are_used_while_they_are_open() -> Result<()> {
    let Some((node, login)) = mountable("open files")? else { return Ok(()) };
    let seat = Seat { node: &node, login: &login };
    let mount = Mount::new(seat, "mnt")?;
    std::fs::write(mount.folder().join("doc"), "old")?;
    let script = "
import os, tempfile
with open('doc.new', 'w') as file:
    file.write('one')
    os.replace('doc.new', 'doc')
    assert open('doc').read() in ('', 'one')
    file.write(' two'); file.flush()
    assert open('doc').read() == 'one two'
with open('log', 'w') as first, open('log', 'a') as second:
    first.write('1\\n'); first.flush()
    second.write('2\\n'); second.flush()
    assert open('log').read() == '1\\n2\\n'
with tempfile.TemporaryFile(dir='.') as file:
    file.write(b'x' * 300000); file.seek(299999)
    assert file.read() == b'x'
with open('gone', 'w') as file:
    file.write('never seen')
    os.unlink('gone')
    assert not os.path.exists('gone')
";
    let mut python = Command::new("python3");
    run(python.args(["-c", script]).current_dir(mount.folder()))?;
    mount.end(seat)?;
    ensure!(std::fs::read(login.on_disk(&node, "doc"))? == b"one two");
    ensure!(std::fs::read(login.on_disk(&node, "log"))? == b"1\n2\n");
    let left = shell(&login.on_disk(&node, ""), "ls -A")?;
    ensure!(left == "doc\nlog\n", "left behind: {left}");
    Ok(())
}
