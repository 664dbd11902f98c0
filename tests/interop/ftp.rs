//! FTP and FTPS with real clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::ftp::Protection::{self, Clear, Tls};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::{Node, PATIENCE, run};

use crate::program;

/// A node that serves FTP, and an account of it.
pub(crate) fn node_with_ftp() -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    node.start()?;
    Ok((node, login))
}

fn curl_moves(
    node: &Node,
    login: &Login,
    (protection, extra): (Protection, &[&str]),
) -> Result<()> {
    let content = noise(41, 3_000_001);
    let local = local_file(node, "curl.bin", &content)?;
    let url = login.ftp_url(node, "in/é%20x.bin")?;
    let back = node.scratch().join("curl.back");
    let curl = || login.curl_ftp(node, protection);
    run(curl()?.args(extra).args(["--ftp-create-dirs", "-T"]).arg(&local).arg(&url))?;
    assert_eq!(std::fs::read(login.on_disk(node, "in/é x.bin"))?, content);
    run(curl()?.args(extra).arg("-o").arg(&back).arg(&url))?;
    assert_eq!(std::fs::read(&back)?, content);
    // Down from where it stopped, and up behind what is there.
    std::fs::write(&back, content.get(..1_000_000).unwrap_or_default())?;
    run(curl()?.args(extra).args(["-C", "-", "-o"]).arg(&back).arg(&url))?;
    assert_eq!(std::fs::read(&back)?, content);
    std::fs::write(login.on_disk(node, "in/é x.bin"), content.get(..7).unwrap_or_default())?;
    run(curl()?.args(extra).args(["-C", "-", "-T"]).arg(&local).arg(&url))?;
    assert_eq!(std::fs::read(login.on_disk(node, "in/é x.bin"))?, content);
    run(curl()?.args(extra).args(["-a", "-T"]).arg(&local).arg(&url))?;
    assert_eq!(std::fs::read(login.on_disk(node, "in/é x.bin"))?.len(), 2 * content.len());
    let listed = run(curl()?.args(extra).arg("-l").arg(login.ftp_url(node, "in/")?))?;
    assert_eq!(String::from_utf8(listed.stdout)?.trim(), "é x.bin");
    let ranged = run(curl()?.args(extra).args(["-r", "10-19"]).arg(&url))?;
    assert_eq!(Some(&ranged.stdout[..]), content.get(10..20));
    Ok(())
}

#[test]
fn curl_moves_files_in_clear_and_under_tls_passive_and_active() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    // Not active under TLS: curl 7.88 fails there with any server.
    let ways: [(Protection, &[&str]); 5] = [
        (Clear, &[]),
        (Clear, &["-P", "-"]),
        (Clear, &["--disable-epsv", "--disable-eprt"]),
        (Tls, &[]),
        (Tls, &["--tls-max", "1.2"]),
    ];
    for way in ways {
        curl_moves(&node, &login, way).with_context(|| format!("{way:?}"))?;
        std::fs::remove_dir_all(login.on_disk(&node, "in"))?;
    }
    let events = node.events("file.uploaded")?;
    ensure!(events.iter().all(|event| event["protocol"] == "ftp"), "{events:?}");
    Ok(())
}

fn same_tree(one: &Path, other: &Path) -> Result<()> {
    run(std::process::Command::new("diff").arg("-r").arg(one).arg(other)).map(drop)
}

#[test]
fn lftp_mirrors_trees_both_ways() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let tree = node.scratch().join("tree");
    for (seed, name) in (50..).zip(["a.bin", "d/b c.txt", "d/e/f.bin", "g/empty"]) {
        let file = tree.join(name);
        std::fs::create_dir_all(file.parent().context("no parent")?)?;
        let size = if name == "g/empty" { 0 } else { 100_000 };
        std::fs::write(file, noise(seed, size))?;
    }
    let ways = [(Clear, "on"), (Clear, "off"), (Tls, "on"), (Tls, "off")];
    for (number, (protection, passive)) in ways.into_iter().enumerate() {
        let remote = format!("tree{number}");
        let back = node.scratch().join(format!("back{number}"));
        let script = format!(
            "set ftp:passive-mode {passive}; mirror -R {tree} {remote}; \
             mirror {remote} {back}; cls -1 {remote}/d",
            tree = text(&tree)?,
            back = text(&back)?
        );
        login.lftp_ftp(&node, protection, &script)?;
        same_tree(&tree, &login.on_disk(&node, &remote))?;
        same_tree(&tree, &back)?;
        // The times went with them, so nothing is sent again.
        let again = format!("mirror -R -v {} {remote}", text(&tree)?);
        let said = login.lftp_ftp(&node, protection, &again)?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        ensure!(!said.contains("Transferring"), "sent again: {said}");
    }
    Ok(())
}

#[test]
fn ftplib_speaks_every_verb_it_knows() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let script = "
ftp.mkd('p'); ftp.cwd('p'); assert ftp.pwd() == '/p'
ftp.storlines('STOR l', io.BytesIO(b'one\\ntwo\\n'))
ftp.voidcmd('TYPE A'); assert ftp.sendcmd('SIZE l') == '213 10'
ftp.voidcmd('TYPE I'); assert ftp.size('l') == 8
lines = []; ftp.retrlines('RETR l', lines.append); assert lines == ['one', 'two']
put(ftp, 'l', b'three\\n', 'APPE'); assert get(ftp, 'l', 4) == b'two\\nthree\\n'
put(ftp, 'l', b'X', rest=3); assert get(ftp, 'l') == b'oneX'
assert get(ftp, 'l', 4) == b''
ftp.rename('l', 'm'); ftp.sendcmd('MFMT 20200102030405 m')
assert ftp.sendcmd('MDTM m') == '213 20200102030405'
assert ftp.nlst() == ['m']
assert dict(ftp.mlsd())['m']['size'] == '4'
said = put(ftp, '', b'unique', 'STOU'); name = said.split('FILE: ')[1]
assert get(ftp, name) == b'unique'; ftp.delete(name)
ftp.set_pasv(False); put(ftp, 'active', b'z' * 100000); ftp.set_pasv(True)
assert get(ftp, 'active') == b'z' * 100000; ftp.delete('active')
ftp.voidcmd('PASV'); assert ftp.abort()[:3] == '225'
codes = [refused(ftp, 'DELE nope'), refused(ftp, 'RMD /p'), refused(ftp, 'CWD nope'),
  refused(ftp, 'RNTO x'), refused(ftp, 'SIZE /p'), refused(ftp, 'DELE /p'), refused(ftp, 'MKD /p'),
  refused(ftp, 'PORT 127,0,0,1,0,22'), refused(ftp, 'PORT 10,0,0,1,200,1')]
assert codes == ['550', '550', '550', '503', '550', '550', '550', '504', '504'], codes
ftp.sendcmd('PASV')
assert refused(ftp, 'RETR nope') == '550' and refused(ftp, 'RETR m') == '425'
ftp.sendcmd('PASV'); ftp.sendcmd('REST 5')
assert refused(ftp, 'RETR m') == '554'
print(ftp.sendcmd('XSHA256 m')[4:])
ftp.quit()
";
    let digest = login.ftplib(&node, Clear, script)?;
    assert_eq!(std::fs::read(login.on_disk(&node, "p/m"))?, b"oneX");
    let known = "f26ce8689d649143da80c00cf06f248552e2b1d0b0e69f563995d11c33eeaa1a";
    assert_eq!(digest.trim(), known);
    Ok(())
}

#[test]
fn data_under_tls_must_resume_the_session_unless_the_listener_says_otherwise() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    // ftplib never resumes.
    let refused = "
try:
    put(ftp, 'f', b'x'); print('taken')
except (ftplib.Error, OSError) as error:
    print('refused')
";
    assert_eq!(login.ftplib(&node, Tls, refused)?.trim(), "refused");
    ensure!(!login.on_disk(&node, "f").exists());
    node.cli(&["listener", "change", "ftp", r#"ftp={"tls_reuse":"preferred"}"#])?;
    let taken = "put(ftp, 'f', b'x' * 300000); assert get(ftp, 'f') == b'x' * 300000; ftp.quit()";
    node.until("the change to count", || Ok(login.ftplib(&node, Tls, taken).ok()))?;
    let required = r#"ftp={"tls_required":"login-and-data","tls_reuse":"off"}"#;
    node.cli(&["listener", "change", "ftp", required])?;
    node.until("clear text to be refused", || {
        Ok(login.ftplib(&node, Clear, "").is_err().then_some(()))
    })?;
    login.ftplib(&node, Tls, taken)?;
    Ok(())
}

/// Bytes that lie in the staging folders of the endpoint.
pub(super) fn staged_bytes(node: &Node) -> u64 {
    let staging = node.files().join(".entrepot-staging");
    let files = std::fs::read_dir(staging).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
}

#[test]
fn an_upload_whose_client_is_killed_is_not_seen_and_goes_on_where_it_stopped() -> Result<()> {
    for protection in [Clear, Tls] {
        let (node, login) = node_with_ftp()?;
        let content = noise(60, 4_000_000);
        let local = local_file(&node, "big.bin", &content)?;
        let url = login.ftp_url(&node, "big.bin")?;
        let mut curl = login.curl_ftp(&node, protection)?;
        curl.args(["--limit-rate", "400K", "-T"]).arg(&local).arg(&url);
        let mut child = curl.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        node.until("some bytes", || Ok((staged_bytes(&node) > 100_000).then_some(())))?;
        child.kill()?;
        child.wait()?;
        node.until("the end of it", || {
            let events = node.events("file.interrupted")?;
            Ok((!events.is_empty()).then_some(()))
        })?;
        ensure!(!login.on_disk(&node, "big.bin").exists(), "a cut upload is visible");
        let mut again = login.curl_ftp(&node, protection)?;
        run(again.args(["-C", "-", "-T"]).arg(&local).arg(&url))?;
        assert_eq!(std::fs::read(login.on_disk(&node, "big.bin"))?, content);
        let stored = node.until("the event of the upload", || {
            Ok(node.events("file.uploaded")?.into_iter().next())
        })?;
        assert_eq!(stored["size"], 4_000_000);
    }
    Ok(())
}

#[test]
fn a_quota_is_told_and_leaves_nothing() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    node.cli(&["mount", "change", "acme-home", r#"quota={"size_bytes":1000000}"#])?;
    let local = local_file(&node, "big.bin", &noise(61, 3_000_000))?;
    let mut curl = login.curl_ftp(&node, Clear)?;
    let output =
        curl.args(["-v", "-T"]).arg(&local).arg(login.ftp_url(&node, "big.bin")?).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && said.contains("< 552 "), "{said}");
    ensure!(!login.on_disk(&node, "big.bin").exists());
    node.until("the room to be given back", || Ok((staged_bytes(&node) == 0).then_some(())))?;
    let small = local_file(&node, "small.bin", &noise(62, 900_000))?;
    let url = login.ftp_url(&node, "small.bin")?;
    run(login.curl_ftp(&node, Clear)?.arg("-T").arg(&small).arg(url))?;
    Ok(())
}

#[test]
fn many_sessions_move_files_at_once() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let script = "
failed = []
def work(number):
    try:
        own = session()
        for turn in range(10):
            data = (b'%d-%d ' % (number, turn)) * 2000
            put(own, 'f%d' % number, data)
            assert get(own, 'f%d' % number) == data
        own.quit()
    except Exception as error:
        failed.append(error)
threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed, failed
";
    login.ftplib(&node, Clear, script)?;
    let count = std::fs::read_dir(login.on_disk(&node, ""))?.count();
    assert_eq!(count, 40);
    Ok(())
}

#[test]
fn a_draining_server_ends_the_transfer_well_and_refuses_the_next() -> Result<()> {
    let (mut node, login) = node_with_ftp()?;
    let content = noise(63, 2_000_000);
    let local = local_file(&node, "slow.bin", &content)?;
    let mut curl = login.curl_ftp(&node, Clear)?;
    curl.args(["--limit-rate", "700K", "-T"]).arg(&local).arg(login.ftp_url(&node, "slow.bin")?);
    let mut child = curl.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    node.until("some bytes", || Ok((staged_bytes(&node) > 100_000).then_some(())))?;
    node.stop()?;
    ensure!(child.wait()?.success(), "the running upload was cut");
    assert_eq!(std::fs::read(login.on_disk(&node, "slow.bin"))?, content);
    Ok(())
}

/// A control connection that says nothing by itself.
pub(super) struct Raw {
    pub(super) replies: BufReader<TcpStream>,
}

impl Raw {
    /// Before the login.
    pub(super) fn connect(node: &Node) -> Result<Raw> {
        let stream = TcpStream::connect(("127.0.0.1", node.ftp_port()?))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut raw = Raw { replies: BufReader::new(stream) };
        raw.await_code(220)?;
        Ok(raw)
    }

    pub(super) fn log_in(node: &Node, login: &Login) -> Result<Raw> {
        let mut raw = Raw::connect(node)?;
        raw.say(&format!("USER {}", login.account), 331)?;
        raw.say(&format!("PASS {}", login.password), 230)?;
        raw.say("TYPE I", 200)?;
        Ok(raw)
    }

    pub(super) fn send(&mut self, command: &str) -> Result<()> {
        Ok(self.replies.get_mut().write_all(format!("{command}\r\n").as_bytes())?)
    }

    /// The last line of the next reply.
    pub(super) fn reply(&mut self) -> Result<String> {
        loop {
            let mut line = String::new();
            ensure!(self.replies.read_line(&mut line)? > 0, "the server hung up");
            let code = line.get(..3).is_some_and(|code| code.parse::<u16>().is_ok());
            if code && line.as_bytes().get(3) == Some(&b' ') {
                return Ok(line.trim_end().to_owned());
            }
        }
    }

    pub(super) fn await_code(&mut self, code: u16) -> Result<String> {
        let reply = self.reply()?;
        ensure!(reply.starts_with(&code.to_string()), "{reply} instead of {code}");
        Ok(reply)
    }

    pub(super) fn say(&mut self, command: &str, code: u16) -> Result<String> {
        self.send(command)?;
        self.await_code(code)
    }

    /// A data connection, passive.
    pub(super) fn data(&mut self) -> Result<TcpStream> {
        let reply = self.say("EPSV", 229)?;
        let port = reply.split('|').nth(3).context("no port")?.parse::<u16>()?;
        Ok(TcpStream::connect(("127.0.0.1", port))?)
    }
}

#[test]
fn a_control_connection_that_is_gone_at_the_end_of_the_data_publishes_nothing() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    // As when a program is killed. Often, for the server learns of both ends in the same moment.
    for number in 1..=30 {
        let mut raw = Raw::log_in(&node, &login)?;
        let mut data = raw.data()?;
        raw.say(&format!("STOR cut{number}"), 150)?;
        data.write_all(b"all of it")?;
        drop(raw);
        drop(data);
    }
    node.until("the ends of them", || {
        let ended = |kind| Ok::<_, anyhow::Error>(node.events(kind)?.len());
        Ok((ended("file.interrupted")? + ended("file.uploaded")? == 30).then_some(()))
    })?;
    assert_eq!(node.events("file.uploaded")?, Vec::<serde_json::Value>::new());
    ensure!(!login.on_disk(&node, "cut1").exists());
    // QUIT is no cut, even if nothing more is listened to.
    let mut raw = Raw::log_in(&node, &login)?;
    let mut data = raw.data()?;
    raw.say("STOR whole", 150)?;
    raw.send("QUIT")?;
    raw.replies.get_ref().shutdown(Shutdown::Write)?;
    data.write_all(b"all of it")?;
    drop(data);
    raw.await_code(226)?;
    raw.await_code(221)?;
    assert_eq!(std::fs::read(login.on_disk(&node, "whole"))?, b"all of it");
    Ok(())
}

#[test]
fn a_transfer_is_asked_about_and_aborted_and_the_session_goes_on() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    std::fs::create_dir_all(login.on_disk(&node, ""))?;
    std::fs::write(login.on_disk(&node, "big"), noise(70, 30_000_000))?;
    // More than the buffers of both ends take.
    std::fs::File::create(login.on_disk(&node, "huge"))?.set_len(4 << 30)?;
    let mut raw = Raw::log_in(&node, &login)?;
    let data = raw.data()?;
    raw.say("RETR huge", 150)?;
    raw.say("STAT", 211)?;
    raw.say("NOOP", 200)?;
    raw.say("ABOR", 426)?;
    raw.await_code(226)?;
    drop(data);
    // What waits for its connection is aborted too.
    raw.say("EPSV", 229)?;
    raw.say("STOR waiting", 150)?;
    raw.say("ABOR", 426)?;
    raw.await_code(226)?;
    let mut data = raw.data()?;
    raw.say("RETR big", 150)?;
    let mut all = Vec::new();
    data.read_to_end(&mut all)?;
    raw.await_code(226)?;
    assert_eq!(all.len(), 30_000_000);
    // Another account may log in on the same connection.
    raw.say("USER acme", 331)?;
    raw.say("PASS wrong", 530)?;
    raw.say("PWD", 530)?;
    raw.say("USER acme", 331)?;
    raw.say(&format!("PASS {}", login.password), 230)?;
    raw.say("QUIT", 221)?;
    ensure!(!login.on_disk(&node, "waiting").exists());
    Ok(())
}

#[test]
fn a_cut_replacement_goes_on_while_the_old_version_is_seen() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    std::fs::create_dir_all(login.on_disk(&node, ""))?;
    std::fs::write(login.on_disk(&node, "f"), b"the old version")?;
    let mut raw = Raw::log_in(&node, &login)?;
    let mut data = raw.data()?;
    raw.say("STOR f", 150)?;
    data.write_all(b"new")?;
    node.until("the bytes", || Ok((staged_bytes(&node) == 3).then_some(())))?;
    raw.say("ABOR", 426)?;
    raw.await_code(226)?;
    drop(data);
    assert_eq!(std::fs::read(login.on_disk(&node, "f"))?, b"the old version");
    // Before SIZE it is open which of the two is meant.
    let untold = raw.data()?;
    raw.say("REST 3", 350)?;
    raw.say("STOR f", 554)?;
    drop(untold);
    raw.say("SIZE f", 213).map(|reply| assert_eq!(reply, "213 3"))?;
    // The next login starts without any knowledge of sizes.
    raw.say("REIN", 220)?;
    raw.say("USER acme", 331)?;
    raw.say(&format!("PASS {}", login.password), 230)?;
    raw.say("TYPE I", 200)?;
    let untold = raw.data()?;
    raw.say("REST 3", 350)?;
    raw.say("STOR f", 554)?;
    drop(untold);
    raw.say("SIZE f", 213).map(|reply| assert_eq!(reply, "213 3"))?;
    let mut data = raw.data()?;
    raw.say("APPE f", 150)?;
    data.write_all(b" version")?;
    drop(data);
    raw.await_code(226)?;
    assert_eq!(std::fs::read(login.on_disk(&node, "f"))?, b"new version");
    Ok(())
}
