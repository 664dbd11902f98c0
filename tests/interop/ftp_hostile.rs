//! What unauthenticated clients, thieves of data connections and broken clients try over FTP, and
//! what the others notice of it: nothing.

use anyhow::{Result, ensure};
use entrepot_testkit::clients::Login;
use entrepot_testkit::clients::ftp::Protection::{Clear, Tls};
use entrepot_testkit::ports::free_port;
use entrepot_testkit::server::Node;

use super::ftp::node_with_ftp;

/// Changes the options of the listener and waits until they count, as `sign` tells.
fn offer(node: &Node, login: &Login, options: &str, sign: &str) -> Result<()> {
    node.cli(&["listener", "change", "ftp", &format!("ftp={options}")])?;
    node.until("the change to count", || Ok(login.ftplib(node, Clear, sign).ok()))?;
    Ok(())
}

/// A connection of its own, without a login.
const RAW: &str = "
import re, socket, time
def raw():
    s = socket.create_connection(('127.0.0.1', PORT), timeout=30)
    assert s.recv(1000)[:3] == b'220'
    return s
def rest(s):
    out = b''
    try:
        while piece := s.recv(8192):
            out += piece
    except ConnectionError:
        pass
    return out
def port(ftp):
    return int(ftp.sendcmd('EPSV').split('|')[3])
";

#[test]
fn another_host_neither_takes_nor_blocks_a_data_connection() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let script = format!(
        "{RAW}
put(ftp, 'f', b'mine')
at = port(ftp)
for turn in range(20):
    try:
        # The reset may be there before the connection is told of.
        thief = socket.create_connection(('127.0.0.1', at), 30, source_address=('127.0.0.2', 0))
        assert thief.recv(1) == b'', 'another host was served'
    except ConnectionError:
        pass
own = socket.create_connection(('127.0.0.1', at), 30)
ftp.sendcmd('RETR f')
assert rest(own) == b'mine'
ftp.voidresp()
# An expectation ends with its transfer.
assert refused(ftp, 'RETR f') == '425'
"
    );
    login.ftplib(&node, Clear, &script)?;
    Ok(())
}

#[test]
fn what_comes_in_clear_behind_auth_is_never_run() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let script = format!(
        "{RAW}
assert refused(session_clear, 'PBSZ 0') == '503' and refused(session_clear, 'PROT P') == '503'
s = raw()
s.sendall(b'AUTH TLS\\r\\nSYST\\r\\n')
said = s.recv(1000)
assert said[:3] == b'234' and said.count(b'\\n') == 1, said
s = ssl.create_default_context(cafile=CERTIFICATE).wrap_socket(s, server_hostname='localhost')
s.sendall(b'FEAT\\r\\n')
assert s.recv(1000)[:3] == b'211'
"
    );
    let script = script.replace(
        "assert refused(session_clear",
        "session_clear = ftplib.FTP(); session_clear.connect('localhost', PORT, 30)\n\
         assert refused(session_clear",
    );
    login.ftplib(&node, Tls, &script)?;
    Ok(())
}

#[test]
fn endless_lines_and_guesses_end_the_connection() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let script = format!(
        "{RAW}
s = raw()
s.sendall(b'a' * 9000)
said = rest(s)
assert said[:3] == b'500' and said.count(b'\\n') == 1, said
s = raw()
for turn in range(6):
    try:
        s.sendall(b'USER nobody\\r\\nPASS guess\\r\\n')
    except ConnectionError:
        break
    said = s.recv(1000)
    if not said or b'421' in said:
        break
else:
    raise SystemExit('it may guess on and on')
assert ftp.voidcmd('NOOP')
"
    );
    login.ftplib(&node, Clear, &script)?;
    Ok(())
}

#[test]
fn sessions_of_one_address_never_share_a_port() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let free = free_port()?;
    let options = format!(r#"{{"passive_ports":"{free}"}}"#);
    let sign = format!("assert ftp.sendcmd('EPSV').split('|')[3] == '{free}'");
    offer(&node, &login, &options, &sign)?;
    let script = "
put(ftp, 'f', b'first')
other = session()
assert refused(other, 'EPSV') == '425' and refused(other, 'PASV') == '425'
other.set_pasv(False)
assert get(other, 'f') == b'first'
assert get(ftp, 'f') == b'first'
ftp.quit()
other.set_pasv(True)
import time
end = time.time() + 30
while refused(other, 'EPSV') == '425':
    assert time.time() < end
assert get(other, 'f') == b'first'
";
    login.ftplib(&node, Clear, script)?;
    Ok(())
}

#[test]
fn names_cannot_forge_lines_of_lists_or_of_the_log() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let folder = login.on_disk(&node, "");
    std::fs::create_dir_all(&folder)?;
    for name in ["two\nlines", "return\rhere", "escape\u{1b}[31m", "plain"] {
        std::fs::write(folder.join(name), b"x")?;
    }
    let script = format!(
        "{RAW}
assert ftp.nlst() == ['plain'], ftp.nlst()
lines = []
ftp.retrlines('LIST', lines.append)
assert len(lines) == 1 and lines[0].endswith(' plain')
assert [name for name, facts in ftp.mlsd() if facts['type'] == 'file'] == ['plain']
for name in ['bell\\x07', 'escape\\x1b[31m']:
    assert refused(ftp, 'RNFR plain')[:5] == 'taken' and refused(ftp, 'RNTO ' + name) == '553'
s = raw()
s.sendall(b'CLNT bad\\x07client\\r\\nUSER \\x07forged\\r\\nPASS x\\r\\n')
while b'530' not in s.recv(1000):
    pass
"
    );
    login.ftplib(&node, Clear, &script)?;
    node.until("the refusal", || Ok((!node.events("login.refused")?.is_empty()).then_some(())))?;
    ensure!(!node.log().contains('\u{7}'), "a control character is in the log");
    Ok(())
}

#[test]
fn a_client_that_leaves_a_download_is_told_426_and_its_session_lives() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    std::fs::create_dir_all(login.on_disk(&node, ""))?;
    std::fs::File::create(login.on_disk(&node, "huge"))?.set_len(4 << 30)?;
    let script = "
ftp.voidcmd('TYPE I')
for turn in range(3):
    data = ftp.transfercmd('RETR huge')
    assert len(data.recv(1000)) > 0
    data.close()
    try:
        ftp.voidresp(); raise SystemExit('that was whole')
    except ftplib.error_temp as error:
        assert str(error)[:3] == '426', error
    ftp.voidcmd('NOOP')
put(ftp, 'small', b'small'); assert get(ftp, 'small') == b'small'
";
    login.ftplib(&node, Clear, script)?;
    Ok(())
}

#[test]
fn lists_and_patterns_have_an_end() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let deep = login.on_disk(&node, "").join(["d"; 24].join("/"));
    std::fs::create_dir_all(deep)?;
    let many = login.on_disk(&node, "many");
    std::fs::create_dir(&many)?;
    for number in 0..200 {
        std::fs::write(many.join(format!("{number:03}-{}", "a".repeat(200))), b"")?;
    }
    let script = "
lines = []
ftp.retrlines('LIST -R d', lines.append)
heads = [line for line in lines if line.endswith(':')]
assert 10 <= len(heads) <= 18, heads
assert ftp.nlst('many/' + '*a' * 60 + '*b') == []
assert len(ftp.nlst('many/1*a*')) == 100
";
    login.ftplib(&node, Clear, script)?;
    Ok(())
}

#[test]
fn a_listener_behind_a_router_tells_the_routers_address_by_network() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let options = r#"{"passive_addresses":[{"address":"10.9.9.9","clients":["10.0.0.0/8"]},
        {"address":"203.0.113.7"}]}"#;
    offer(&node, &login, options, "assert '(203,0,113,7,' in ftp.sendcmd('PASV')")?;
    // ftplib takes the control connection's address all the same.
    login.ftplib(&node, Clear, "put(ftp, 'f', b'x'); assert get(ftp, 'f') == b'x'")?;
    Ok(())
}

#[test]
fn a_control_connection_goes_back_to_clear_text_where_that_is_allowed() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    login.ftplib(&node, Tls, "assert refused(ftp, 'CCC') == '534'")?;
    let options = r#"{"clear_control":true,"tls_reuse":"preferred"}"#;
    node.cli(&["listener", "change", "ftp", &format!("ftp={options}")])?;
    let script = "
ftp.ccc()
assert getattr(ftp.sock, '_sslobj', None) is None
put(ftp, 'f', b'x' * 100000); assert get(ftp, 'f') == b'x' * 100000
assert refused(ftp, 'PBSZ 0') == '503' and refused(ftp, 'AUTH TLS') == '503'
assert refused(ftp, 'CCC') == '533'
ftp.quit()
";
    node.until("CCC to be allowed", || Ok(login.ftplib(&node, Tls, script).ok()))?;
    Ok(())
}
