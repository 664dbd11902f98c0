//! Permission bits by clients that set them: where they are kept, and where they are not.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::ftp::Protection::{Clear, Tls};
use entrepot_testkit::clients::matrix::Seat;
use entrepot_testkit::clients::putty::Psftp;
use entrepot_testkit::clients::{Login, local_file, noise, python, text};
use entrepot_testkit::server::Node;

use super::ftp::node_with_ftp;
use crate::node_with;

fn mode(path: &Path) -> Result<u32> {
    let found = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(found.permissions().mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
}

/// A local file with a mode.
fn tool(node: &Node, name: &str, bits: u32) -> Result<PathBuf> {
    let file = local_file(node, name, &noise(91, 10_000))?;
    set_mode(&file, bits)?;
    Ok(file)
}

/// From now on clients may change no mode, as on a store that keeps none.
fn keep_no_modes(node: &Node) -> Result<()> {
    node.cli(&["mount", "change", "acme-home", "mode_mask=0000"]).map(drop)
}

#[test]
fn openssh_sets_and_keeps_modes() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let (up, back) = (tool(&node, "up", 0o751)?, node.scratch().join("back"));
    let batch = format!(
        "put {up} plain\nput -p {up} kept\nchmod 640 plain\nmkdir d\nchmod 750 d\nls -l\n\
         get -p plain {back}\n",
        up = text(&up)?,
        back = text(&back)?
    );
    let told = login.sftp_batch(&node, &batch)?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    for (name, bits, letters) in
        [("plain", 0o640, "-rw-r-----"), ("kept", 0o751, "-rwxr-x--x"), ("d", 0o750, "drwxr-x---")]
    {
        assert_eq!(mode(&login.on_disk(&node, name))?, bits, "{name}");
        let shows = |line: &str| line.starts_with(letters) && line.ends_with(&format!(" {name}"));
        ensure!(told.lines().any(shows), "'{name}' is not {letters}: {told}");
    }
    assert_eq!(mode(&back)?, 0o640);
    // A newer version does not lose the mode, as on servers that write in place.
    login.sftp_batch(&node, &format!("put {} kept\n", text(&tool(&node, "newer", 0o600)?)?))?;
    assert_eq!(mode(&login.on_disk(&node, "kept"))?, 0o751);
    node.until("the events", || {
        let changes = node.events("mode.changed")?;
        let told = |path: &str, to: &str| {
            let is_told = |event: &&serde_json::Value| event["path"] == path && event["to"] == to;
            changes.iter().filter(is_told).count() == 1
        };
        let uploads = changes.iter().any(|event| event["path"] == "/kept");
        Ok((told("/plain", "0640") && told("/d", "0750") && !uploads).then_some(()))
    })
}

#[test]
fn psftp_lftp_paramiko_and_asyncssh_set_modes() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let seat = Seat { node: &node, login: &login };
    let up = tool(&node, "up", 0o644)?;
    let up = text(&up)?;
    let there = |name: &str| mode(&login.on_disk(&node, name));
    let psftp = Psftp { rekeys: false };
    psftp.batch(seat, &format!("put {up} psftp\nchmod 600 psftp\nchmod g+rx psftp\n"))?;
    assert_eq!(there("psftp")?, 0o650, "psftp reads the mode that it changes");
    login.lftp(&node, &format!("put {up} -o lftp; chmod 750 lftp"))?;
    assert_eq!(there("lftp")?, 0o750);
    for library in [&python::PARAMIKO, &python::ASYNCSSH] {
        library.call(seat, &["put", up, "library"])?;
        library.call(seat, &["chmod", "library", "0611"])?;
        assert_eq!(there("library")?, 0o611);
        assert_eq!(library.call(seat, &["mode", "library"])?.trim(), "0o100611");
        std::fs::remove_file(login.on_disk(&node, "library"))?;
    }
    Ok(())
}

/// Which clients set modes behind their uploads, and would fail them if that were refused.
#[test]
fn no_client_fails_where_no_modes_are_kept() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    keep_no_modes(&node)?;
    let seat = Seat { node: &node, login: &login };
    let up = tool(&node, "up", 0o600)?;
    let (up, folder) = (text(&up)?, node.scratch().join("tree"));
    std::fs::create_dir_all(folder.join("d"))?;
    std::fs::copy(up, folder.join("d/f"))?;
    set_mode(&folder.join("d"), 0o700)?;
    let most = |name: &str| -> Result<()> {
        let found = mode(&login.on_disk(&node, name))?;
        ensure!(found != 0o600 && found != 0o700, "'{name}' has the mode of the client");
        Ok(())
    };
    login.sftp_batch(&node, &format!("put -p {up} openssh\nchmod 600 openssh\n"))?;
    most("openssh")?;
    Psftp { rekeys: false }.batch(seat, &format!("put {up} psftp\nchmod 600 psftp\n"))?;
    most("psftp")?;
    let tree = text(&folder)?;
    login.lftp(&node, &format!("mirror -R {tree} lftp; chmod 600 lftp/d/f"))?;
    most("lftp/d/f")?;
    most("lftp/d")?;
    for (name, library) in [("paramiko", &python::PARAMIKO), ("asyncssh", &python::ASYNCSSH)] {
        library.call(seat, &["put", up, name])?;
        library.call(seat, &["chmod", name, "0600"])?;
        most(name)?;
    }
    login.lftp_ftp(&node, Clear, &format!("mirror -R {tree} ftp; chmod 600 ftp/d/f"))?;
    most("ftp/d/f")?;
    let said = login.ftplib(
        &node,
        Clear,
        "
print(ftp.sendcmd('SITE CHMOD 600 ftp/d/f'))
try:
    ftp.sendcmd('MFF UNIX.mode=600;modify=20200101000000; ftp/d/f')
except ftplib.error_perm as refused:
    print(refused)
print(dict(ftp.mlsd('ftp/d', ['UNIX.mode', 'modify']))['f']['modify'].startswith('2020'))
",
    )?;
    let lines: Vec<&str> = said.lines().collect();
    ensure!(
        matches!(lines[..], [chmod, mff, "False"]
        if chmod.starts_with("202 ") && mff.starts_with("504 ")),
        "{said}"
    );
    ensure!(node.events("mode.changed")?.is_empty());
    Ok(())
}

fn ftp_clients(node: &Node, login: &Login) -> Result<()> {
    let tree = node.scratch().join("tree");
    std::fs::create_dir_all(tree.join("d"))?;
    std::fs::write(tree.join("d/tool"), "#!")?;
    set_mode(&tree.join("d/tool"), 0o751)?;
    set_mode(&tree.join("d"), 0o750)?;
    let there = |name: &str| mode(&login.on_disk(node, name));
    for (number, protection) in [Clear, Tls].into_iter().enumerate() {
        let to = format!("tree{number}");
        let back = node.scratch().join(format!("back{number}"));
        let script = format!("mirror -R {} {to}; mirror {to} {}", text(&tree)?, text(&back)?);
        login.lftp_ftp(node, protection, &script)?;
        assert_eq!((there(&format!("{to}/d/tool"))?, there(&format!("{to}/d"))?), (0o751, 0o750));
        assert_eq!((mode(&back.join("d/tool"))?, mode(&back.join("d"))?), (0o751, 0o750));
        login.lftp_ftp(node, protection, &format!("chmod 640 {to}/d/tool"))?;
        assert_eq!(there(&format!("{to}/d/tool"))?, 0o640);
    }
    Ok(())
}

#[test]
fn ftp_clients_set_and_see_modes() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    ftp_clients(&node, &login)?;
    let said = login.ftplib(
        &node,
        Clear,
        "
print(ftp.sendcmd('SITE CHMOD 4755 tree0/d/tool'))
print(ftp.sendcmd('MFF UNIX.mode=0604;modify=20200101000000; tree0/d/tool'))
print(dict(ftp.mlsd('tree0/d', ['UNIX.mode', 'modify']))['tool'])
ftp.retrlines('LIST tree0/d')
",
    )?;
    let lines: Vec<&str> = said.lines().collect();
    let [chmod, mff, facts, listed] = lines[..] else { anyhow::bail!("{said}") };
    assert_eq!(chmod, "200 The permissions are 0755.");
    assert_eq!(mff, "213 UNIX.mode=0604;modify=20200101000000; tree0/d/tool");
    ensure!(facts.contains("'0604'") && facts.contains("20200101000000"), "{facts}");
    ensure!(listed.starts_with("-rw----r--   1 "), "{listed}");
    assert_eq!(mode(&login.on_disk(&node, "tree0/d/tool"))?, 0o604);
    // An upload that replaces it keeps it.
    let storing = "ftp.storbinary('STOR tree0/d/tool', io.BytesIO(b'newer'))";
    login.ftplib(&node, Clear, storing)?;
    assert_eq!(std::fs::read(login.on_disk(&node, "tree0/d/tool"))?, b"newer");
    assert_eq!(mode(&login.on_disk(&node, "tree0/d/tool"))?, 0o604);
    Ok(())
}
