//! Rules of FTP that need a real node: compression, room, facts, sites.

use anyhow::{Result, ensure};
use entrepot_testkit::clients::ftp::Protection::{Clear, Tls};
use entrepot_testkit::clients::{local_file, noise, text};

use super::ftp::{node_with_ftp, staged_bytes};

#[test]
fn data_is_compressed_where_the_listener_offers_it() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    node.cli(&["listener", "change", "ftp", r#"ftp={"compression":6}"#])?;
    node.until("the offer", || {
        let said = login.ftplib(&node, Clear, "print(ftp.sendcmd('FEAT'))")?;
        Ok(said.contains("MODE Z").then_some(()))
    })?;
    let content: Vec<u8> = noise(80, 10_000).repeat(200);
    let local = local_file(&node, "dense.bin", &content)?;
    let back = node.scratch().join("back.bin");
    for protection in [Clear, Tls] {
        let script = format!(
            "debug 9; put {here} -o d.bin; get d.bin -o {back}; put -c {here} -o e.bin; \
             cls -1",
            here = text(&local)?,
            back = text(&back)?,
        );
        std::fs::create_dir_all(login.on_disk(&node, ""))?;
        let part = content.get(..1_000_000).unwrap_or_default();
        std::fs::write(login.on_disk(&node, "e.bin"), part)?;
        let output = login.lftp_ftp(&node, protection, &script)?;
        let (said, told) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(told.contains("MODE Z"), "lftp did not ask for it: {told}");
        ensure!(said.contains("d.bin") && said.contains("e.bin"), "{said}");
        for file in [&login.on_disk(&node, "d.bin"), &login.on_disk(&node, "e.bin"), &back] {
            ensure!(std::fs::read(file)? == content, "{} differs", file.display());
        }
        std::fs::remove_file(&back)?;
    }
    // One session in clear and one under TLS; those that asked for the offer brought nothing.
    let bytes = node.until("the ends of both sessions in the audit log", || {
        let closed = node.events("session.closed")?;
        let bytes = closed.iter().filter_map(|event| event["bytes_in"].as_u64());
        let bytes: Vec<u64> = bytes.filter(|bytes| *bytes > 1_000).collect();
        Ok((bytes.len() >= 2).then_some(bytes))
    })?;
    ensure!(bytes.iter().all(|bytes| *bytes < 1_000_000), "{bytes:?} came on the sessions");
    Ok(())
}

#[test]
fn a_compressed_upload_must_be_whole_sound_and_honest() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    node.cli(&["listener", "change", "ftp", r#"ftp={"compression":1}"#])?;
    let script = "
import zlib
assert ftp.sendcmd('OPTS MODE Z LEVEL 9')[:3] == '200'
assert ftp.sendcmd('MODE Z')[:3] == '200'
def code(name, data):
    try:
        return put(ftp, name, data)[:3]
    except ftplib.Error as error:
        return str(error)[:3]
whole = zlib.compress(b'some words ' * 5000)
assert code('whole', whole) == '226'
assert zlib.decompress(get(ftp, 'whole')) == b'some words ' * 5000
assert zlib.decompress(get(ftp, 'whole', 54995)) == b'ords '
assert code('none', b'') == '226'
assert code('cut', whole[:-3]) == '426'
assert code('plain', b'some words ' * 5000) == '451'
assert code('bomb', zlib.compress(bytes(40 << 20))) == '552'
ftp.voidcmd('TYPE I')
with ftp.transfercmd('NLST') as data:
    listed = b''.join(iter(lambda: data.recv(8192), b''))
ftp.voidresp()
print(zlib.decompress(listed).decode().split())
";
    let listed = node.until("the offer", || Ok(login.ftplib(&node, Clear, script).ok()))?;
    assert_eq!(listed.trim(), "['none', 'whole']");
    // Only what was cut is kept, to go on with.
    ensure!(staged_bytes(&node) <= 55_000, "{} bytes are left", staged_bytes(&node));
    Ok(())
}

#[test]
fn allo_reserves_and_facts_tell_files_apart() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    node.cli(&["mount", "change", "acme-home", r#"quota={"size_bytes":1000000}"#])?;
    let script = "
put(ftp, 'a', b'a'); put(ftp, 'b', b'b')
other = session()
ftp.voidcmd('ALLO 900000')
assert refused(other, 'ALLO 200000') == '552'
try:
    put(other, 'c', b'c' * 200000); raise SystemExit('there was room')
except ftplib.Error as error:
    assert str(error)[:3] == '552', error
put(ftp, 'd', b'd' * 800000)
ftp.delete('d')
other.voidcmd('ALLO 900000'); other.quit(); put(ftp, 'd', b'd' * 200000)
assert refused(ftp, 'ALLO 1000001') == '552' and refused(ftp, 'ALLO x') == '501'
def unique(ftp, name):
    return dict(ftp.mlsd())[name]['unique']
a = unique(ftp, 'a')
assert len(a) > 8 and a != unique(ftp, 'b') and a == unique(session(), 'a')
assert ('unique=' + a + ';') in ftp.sendcmd('MLST a')
ftp.rename('a', 'z')
assert unique(ftp, 'z') == a
put(ftp, 'z', b'new'); assert unique(ftp, 'z') != a
";
    login.ftplib(&node, Clear, script)?;
    Ok(())
}

#[test]
fn a_session_begins_at_home_and_allo_asks_for_room_there() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let documents = "endpoint: {name: small, target: {memory: {}}}\n---\n\
                     mount: {name: acme-in, account: acme, path: /in, endpoint: small, \
                     quota: {size_bytes: 1000}}\n";
    node.cli_with_input(&["apply", "-"], documents)?;
    node.cli(&["account", "change", "acme", "home=/in"])?;
    node.until("the home", || {
        let said = login.ftplib(&node, Clear, "print(ftp.pwd())")?;
        Ok((said.trim() == "/in").then_some(()))
    })?;
    let script = "
assert refused(ftp, 'ALLO 2000') == '552'
ftp.voidcmd('ALLO 900')
ftp.cwd('/'); ftp.voidcmd('ALLO 2000')
ftp.cwd('in'); assert refused(ftp, 'ALLO 2000') == '552'
";
    login.ftplib(&node, Clear, script)?;
    Ok(())
}
