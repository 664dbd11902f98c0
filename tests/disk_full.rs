//! A full disk: the answer says so, nothing is torn, room is given back, it works again.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use entrepot_testkit::clients::ftp::Protection;
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::{Node, run};
use entrepot_testkit::{is_root, not_run};

use crate::program;

/// A file with ext4 in it, mounted; unmounted at the end.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// `None`: it cannot be mounted here.
    fn mount(node: &Node, mib: u64) -> Result<Option<SmallDisk>> {
        let (folder, image) = (node.scratch().join("small"), node.scratch().join("small.img"));
        std::fs::create_dir_all(&folder)?;
        if !is_root() {
            not_run("a full disk", "only root can mount a small disk")?;
            return Ok(None);
        }
        std::fs::File::create(&image)?.set_len(mib << 20)?;
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image))?;
        let mounted = run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder));
        if let Err(error) = mounted {
            not_run("a full disk", &format!("no loop device: {error:#}"))?;
            return Ok(None);
        }
        std::fs::remove_dir(folder.join("lost+found"))?;
        Ok(Some(SmallDisk { folder }))
    }

    /// Bytes that are free.
    fn free(&self) -> Result<u64> {
        let mut df = Command::new("df");
        let said = run(df.args(["--output=avail", "-B1"]).arg(&self.folder))?;
        let said = String::from_utf8(said.stdout)?;
        Ok(said.lines().last().unwrap_or_default().trim().parse()?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// An account with a disk of 32 MiB at `/small`; `None`: there cannot be one here.
fn with_small_disk(node: &Node) -> Result<Option<(Login, SmallDisk)>> {
    let login = Login::create(node, "acme")?;
    let Some(disk) = SmallDisk::mount(node, 32)? else { return Ok(None) };
    let path = format!("target={{\"directory\":{{\"path\":\"{}\"}}}}", text(&disk.folder)?);
    node.cli(&["endpoint", "create", "small", &path])?;
    node.cli(&["mount", "create", "small", "account=acme", "path=/small", "endpoint=small"])?;
    Ok(Some((login, disk)))
}

#[test]
fn a_full_disk_is_refused_and_nothing_is_torn() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let Some((login, disk)) = with_small_disk(&node)? else { return Ok(()) };
    node.start()?;
    let before = disk.free()?;
    fills_and_recovers(&node, &login, "small")?;
    let litter = std::fs::read_dir(&disk.folder)?
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|meta| meta.is_file()));
    assert_eq!(litter.count(), 1, "only the small file may be there");
    node.until("the room of what was refused and removed", || {
        // The small file, and what the file system itself needs for names.
        Ok((disk.free()? + 1_200_000 > before).then_some(()))
    })
}

#[test]
fn a_full_disk_is_552_over_ftp_and_the_session_goes_on() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let Some((login, _disk)) = with_small_disk(&node)? else { return Ok(()) };
    node.add_ftp()?;
    node.start()?;
    let script = "
ftp.cwd('small')
put(ftp, 'kept', b'k' * 1000000)
assert refused(ftp, 'ALLO 40000000') == '552'
for verb in ['STOR', 'APPE', 'STOU']:
    try:
        put(ftp, 'kept' if verb == 'APPE' else 'large', b'l' * 40000000, verb)
        raise SystemExit('40 MB fitted into a full disk')
    except ftplib.Error as error:
        assert str(error)[:3] == '552', error
    assert ftp.nlst() == ['kept'], ftp.nlst()
    assert get(ftp, 'kept') == b'k' * 1000000
put(ftp, 'medium', b'm' * 15000000)
";
    login.ftplib(&node, Protection::Clear, script)?;
    Ok(())
}

#[test]
fn a_quota_is_refused_and_gives_room_back() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli(&["mount", "change", "acme-home", "quota.size_bytes=20000000"])?;
    node.start()?;
    fills_and_recovers(&node, &login, ".")
}

/// Fails to put 40 MB, and works on: before, after, reading, without a restart.
fn fills_and_recovers(node: &Node, login: &Login, folder: &str) -> Result<()> {
    let small = local_file(node, "s.bin", &noise(5, 1_000_000))?;
    let large = local_file(node, "l.bin", &noise(6, 40_000_000))?;
    let medium = local_file(node, "m.bin", &noise(7, 15_000_000))?;
    let back = node.scratch().join("back");
    login.sftp_batch(node, &format!("put {} {folder}/kept\n", text(&small)?))?;
    let refused = login.sftp_batch(node, &format!("put {} {folder}/large\n", text(&large)?));
    let said = format!("{:#}", refused.expect_err("40 MB fitted into a full disk"));
    ensure!(
        said.contains("full") || said.contains("quota") || said.contains("room"),
        "the sentence does not say why: {said}"
    );
    let listed = login.sftp_batch(node, &format!("ls -1 {folder}\n"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    ensure!(!listed.contains("large"), "a refused upload is visible: {listed}");
    login.sftp_batch(
        node,
        &format!(
            "get {folder}/kept {}\nput {} {folder}/medium\nrm {folder}/medium\n",
            text(&back)?,
            text(&medium)?
        ),
    )?;
    ensure!(std::fs::read(&back)? == noise(5, 1_000_000));
    Ok(())
}
