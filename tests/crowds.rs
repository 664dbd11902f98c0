//! Many logins at once from one address, as behind the NAT of a company after a restart of ours:
//! all succeed, and when all places are taken the newest is refused in its protocol.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, python, text};
use entrepot_testkit::server::{Node, PATIENCE, run};

use crate::program;

/// Connections that log in at once.
const LOGINS: usize = 100;
/// Accounts that they log in as.
const ACCOUNTS: usize = 10;

/// A hundred threads that connect, wait until all have, and then log in at once.
const BURST: &str = "
import ftplib, socket, ssl, sys, threading
port, kind, certificate, count, accounts = int(sys.argv[1]), sys.argv[2], sys.argv[3], \
int(sys.argv[4]), int(sys.argv[5])
connected, failures = threading.Barrier(count), []
def ftp_login(user, password):
    if kind == 'ftp':
        ftp = ftplib.FTP()
    else:
        ftp = ftplib.FTP_TLS(context=ssl.create_default_context(cafile=certificate))
    ftp.connect('localhost', port, timeout=200)
    connected.wait(200)
    ftp.login(user, password)
    return ftp.quit
def sftp_login(user, password):
    import paramiko
    transport = paramiko.Transport(socket.create_connection(('127.0.0.1', port), 200))
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = 200
    connected.wait(200)
    transport.connect(username=user, password=password)
    return transport.close
def one(number):
    user = 'user%d' % (number % accounts)
    try:
        leave = (sftp_login if kind == 'sftp' else ftp_login)(user, 'pass-word of ' + user)
        leave()
    except Exception as error:
        connected.abort()
        failures.append('%d: %r' % (number, error))
threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, '%d of %d failed: %s' % (len(failures), count, failures[:3])
";

/// A node with accounts `user0` and so on, and listeners of SFTP, FTP and FTPS.
fn node_for_crowds() -> Result<Node> {
    let mut node = Node::new(program(), None)?;
    let accounts: String = (0..ACCOUNTS)
        .map(|at| {
            format!(
                "account: {{name: user{at}, type: partner, password: 'pass-word of user{at}'}}\n\
                 ---\nmount: {{name: user{at}-home, account: user{at}, path: /, endpoint: files, \
                 prefix: user{at}}}\n---\n"
            )
        })
        .collect();
    let file = local_file(&node, "accounts.yaml", accounts.as_bytes())?;
    node.cli(&["apply", text(&file)?])?;
    node.add_ftp()?;
    node.start()?;
    Ok(node)
}

fn burst(node: &Node, kind: &str) -> Result<()> {
    let (port, python) = match kind {
        "sftp" => (node.sftp_port()?, python::tool("python3")?),
        _ => (node.ftp_port()?, "python3".into()),
    };
    let certificate = node.certificate_of("ftp")?;
    let mut command = Command::new(python);
    command.args(["-c", BURST, &port.to_string(), kind]).arg(certificate);
    run(command.args([LOGINS.to_string(), ACCOUNTS.to_string()]))?;
    let events = node.until("the logins in the audit log", || {
        let events = node.events("session.opened")?;
        Ok((events.len() >= LOGINS).then_some(events))
    })?;
    assert_eq!(events.len(), LOGINS);
    Ok(())
}

#[test]
fn a_hundred_log_in_at_once_from_one_address_over_ftp() -> Result<()> {
    burst(&node_for_crowds()?, "ftp")
}

#[test]
fn a_hundred_log_in_at_once_from_one_address_over_ftps() -> Result<()> {
    burst(&node_for_crowds()?, "ftps")
}

#[test]
fn a_hundred_log_in_at_once_from_one_address_over_sftp() -> Result<()> {
    burst(&node_for_crowds()?, "sftp")
}

/// The first line that each of so many connections of one address receives.
fn first_lines(port: u16, count: usize) -> Result<Vec<String>> {
    let open: std::io::Result<Vec<TcpStream>> =
        (0..count).map(|_| TcpStream::connect(("127.0.0.1", port))).collect();
    let mut lines = Vec::new();
    for stream in open? {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).context("it was told nothing")?;
        lines.push(line.trim_end().to_owned());
    }
    Ok(lines)
}

/// Lets one connection without a login in from loopback, in place of the usual number.
fn narrow(node: &Node, listener: &str) -> Result<()> {
    let named = r#"unauthenticated=[{"network":"127.0.0.0/8","connections":1}]"#;
    node.cli(&["listener", "change", listener, named])?;
    Ok(())
}

#[test]
fn the_newest_without_room_is_told_421() -> Result<()> {
    let node = node_for_crowds()?;
    let port = node.ftp_port()?;
    let lines = first_lines(port, 300)?;
    let told = |code: &str| lines.iter().filter(|line| line.starts_with(code)).count();
    assert_eq!(told("220") + told("421"), 300, "{lines:?}");
    // On a busy machine some make room for others, and get 421 behind their 220.
    ensure!(told("220") >= 256, "{} were let in", told("220"));
    narrow(&node, "ftp")?;
    let refused = "421 Too many connections have not logged in yet: try again in a moment.";
    node.until("the second of two to be refused", || {
        let lines = first_lines(port, 2)?;
        Ok(lines.iter().any(|line| line == refused).then_some(()))
    })?;
    node.until("the refusals in the log", || Ok(node.log().contains("EP0214").then_some(())))
}

#[test]
fn openssh_shows_why_there_is_no_room() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.start()?;
    narrow(&node, "sftp")?;
    let sentence = "too many connections have not logged in yet, try again in a moment";
    node.until("a client to be refused", || {
        let mut waiting = TcpStream::connect(("127.0.0.1", node.sftp_port()?))?;
        waiting.write_all(b"SSH-2.0-waiting\r\n")?;
        waiting.set_read_timeout(Some(PATIENCE))?;
        waiting.read_exact(&mut [0; 18])?;
        let output = login.ssh(&node)?.arg("pwd").output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        Ok((!output.status.success() && told.contains(sentence)).then_some(()))
    })?;
    login.sftp_batch(&node, "ls\n").map(drop)
}

/// One question of a login hook that is not answered yet: its connection.
fn question(hook: &TcpListener) -> Result<TcpStream> {
    let (stream, _) = hook.accept()?;
    let mut reader = BufReader::new(stream);
    let mut bytes = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some((_, length)) = line.to_lowercase().split_once("content-length:") {
            bytes = length.trim().parse()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; bytes])?;
    Ok(reader.into_inner())
}

/// A control connection that has sent its password, and has no answer yet.
fn log_in(port: u16) -> Result<BufReader<TcpStream>> {
    let mut control = BufReader::new(TcpStream::connect(("127.0.0.1", port))?);
    control.get_ref().set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    control.read_line(&mut line)?;
    ensure!(line.starts_with("220"), "{line}");
    control.get_mut().write_all(b"USER anna\r\n")?;
    line.clear();
    control.read_line(&mut line)?;
    ensure!(line.starts_with("331"), "{line}");
    control.get_mut().write_all(b"PASS open sesame\r\n")?;
    Ok(control)
}

#[test]
fn a_login_that_is_being_checked_leaves_room_and_is_not_cut() -> Result<()> {
    let node = node_for_crowds()?;
    let hook = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/", hook.local_addr()?);
    let login = format!(r#"login={{"hook":{{"http":{{"url":"{url}"}}}},"seconds":25}}"#);
    node.cli(&["account", "create", "guest", "type=partner"])?;
    node.cli(&["listener", "change", "ftp", &login])?;
    narrow(&node, "ftp")?;
    let port = node.ftp_port()?;
    node.until("the limit to count", || {
        let lines = first_lines(port, 2)?;
        Ok(lines.iter().any(|line| line.starts_with("421")).then_some(()))
    })?;
    let (mut asked, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let control = node.until("room for one more", || Ok(log_in(port).ok()))?;
        asked.push(question(&hook)?);
        waiting.push(control);
    }
    let answer = r#"{"allow": true, "account": "guest"}"#;
    for mut stream in asked {
        let length = answer.len();
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}");
        stream.write_all(reply.as_bytes())?;
    }
    for mut control in waiting {
        let mut line = String::new();
        control.read_line(&mut line)?;
        ensure!(line.starts_with("230"), "{line}");
    }
    Ok(())
}
