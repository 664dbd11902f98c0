//! Traces give the same screens as s3270 4.1, a terminal that is not ours, fed by the same bytes.
//! s3270 is a package of Debian and Ubuntu; `scripts/need test` installs it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use entrepot_tn3270_proto::model::{Device, Model};

use crate::{blocks, feed, terminal, traces};

/// A telnet option that nobody has: the answer says that all before it was processed.
const NO_OPTION: u8 = 200;

struct S3270 {
    child: Child,
    /// Asks for the screen. Another connection has the command that connects, which waits for a
    /// field to type into, and so does all behind it.
    asking: BufReader<TcpStream>,
    _connecting: TcpStream,
    socket: TcpStream,
}

impl S3270 {
    fn start(model: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (child, scripts, mut connecting) = std::iter::repeat_with(|| started(model))
            .take(5)
            .find_map(|started| started)
            .expect("s3270 did not start five times");
        connecting.write_all(format!("Connect({address})\n").as_bytes()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let asking = TcpStream::connect(scripts).unwrap();
        asking.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        S3270 { child, asking: BufReader::new(asking), _connecting: connecting, socket }
    }

    /// Sends bytes and answers what came back once they were processed.
    fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.socket.write_all(bytes).unwrap();
        self.socket.write_all(&[255, 253, NO_OPTION]).unwrap();
        let mark = [255, 252, NO_OPTION];
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while !answer.ends_with(&mark) {
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "s3270 closed the connection");
            answer.extend_from_slice(&buffer[..count]);
        }
        answer.truncate(answer.len() - mark.len());
        answer
    }

    fn rows(&mut self) -> Vec<String> {
        self.asking.get_mut().write_all(b"Ascii()\n").unwrap();
        let mut rows = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.asking.read_line(&mut line).unwrap() > 0, "s3270 has ended");
            let line = line.trim_end_matches('\n');
            match line.strip_prefix("data: ") {
                Some(row) => rows.push(row.to_owned()),
                None if line == "ok" => return rows,
                None => assert_ne!(line, "error"),
            }
        }
    }
}

/// Starts s3270 with a port for scripts, and connects to that. `None`: somebody else took the port
/// meanwhile; s3270 has no way to choose one and to say which.
fn started(model: &str) -> Option<(Child, SocketAddr, TcpStream)> {
    let scripts = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut child = Command::new("s3270")
        .args(["-utf8", "-model", model, "-codepage", "cp037"])
        .args(["-scriptport", &scripts.port().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("s3270 is not there: scripts/need test installs it");
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(20) {
        if let Ok(stream) = TcpStream::connect(scripts) {
            return Some((child, scripts, stream));
        }
        std::thread::yield_now();
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

impl Drop for S3270 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a telnet stream may be interrupted by a command.
#[derive(Default)]
struct Cut {
    in_command: u8,
    in_sub: bool,
}

impl Cut {
    fn after(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            match (self.in_command, *byte) {
                (0, 255) => self.in_command = 1,
                (0, _) => {}
                (1, 250) => (self.in_command, self.in_sub) = (0, true),
                (1, 240) => (self.in_command, self.in_sub) = (0, false),
                (1, 251..=254) => self.in_command = 2,
                _ => self.in_command = 0,
            }
        }
        self.in_command == 0 && !self.in_sub
    }
}

fn device_of(text: &str) -> Device {
    let rows = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<usize>().ok()
    };
    let made = rows("// rows ").zip(rows("// columns "));
    let model = match made {
        Some((27, 132)) => Model::Five,
        Some((32, 80)) => Model::Three,
        Some((24, 80)) => Model::Two,
        Some(_) => Model::Four,
        None => {
            let at = text.find("Model 327").unwrap_or(0);
            let digit = text[at..].chars().nth("Model 3279-".len());
            Model::numbered(digit.unwrap_or('4')).unwrap_or(Model::Four)
        }
    };
    Device { model, ..Device::default() }
}

fn trimmed(rows: &[String]) -> Vec<&str> {
    rows.iter().map(|row| row.trim_end()).collect()
}

/// The first difference between the screens, after each block of the host.
fn difference(name: &str, text: &str) -> Option<String> {
    let device = device_of(text);
    let mut ours = terminal(device);
    let model = device.terminal_type();
    let model = model.trim_start_matches("IBM-").to_owned();
    let mut theirs = S3270::start(&model);
    let mut cut = Cut::default();
    let mut pending = Vec::new();
    for (number, block) in blocks(text).enumerate() {
        pending.extend_from_slice(&block);
        if !cut.after(&block) {
            continue;
        }
        let bytes = std::mem::take(&mut pending);
        theirs.feed(&bytes);
        feed(&mut ours, &bytes);
        let (mine, other) = (ours.rows(), theirs.rows());
        if trimmed(&mine) != trimmed(&other) {
            let rows = mine.iter().zip(&other).enumerate();
            let rows = rows.filter(|(_, (mine, other))| mine.trim_end() != other.trim_end());
            let rows: Vec<String> =
                rows.map(|(row, (mine, other))| format!("{row:2} {mine}|\n   {other}|")).collect();
            return Some(format!(
                "{name}, block {number} ({} and {} rows):\n{}",
                mine.len(),
                other.len(),
                rows.join("\n")
            ));
        }
    }
    None
}

/// Traces whose screens are others here, and why.
const OTHERS: [(&str, &str); 13] = [
    ("all_chars", "s3270 shows a dot for the code FF, which no character has"),
    ("bid", "s3270 4.1 has no CONTENTION-RESOLUTION, and takes records for text"),
    ("contention-resolution", "the same"),
    ("dbcs_combo_mod_field_mode", "DBCS is not there yet"),
    ("ibmlink", "s3270 4.1 leaves TN3270E, which the host insists on, and shows nothing"),
    ("ibmlink-cr", "the same"),
    ("ibmlink2", "s3270 4.1 has no CONTENTION-RESOLUTION, and takes records for text"),
    ("no_bid", "s3270 4.1 leaves TN3270E, which the host insists on, and shows nothing"),
    ("nvt-data", "s3270 4.1 leaves out each second letter of NVT data inside TN3270E"),
    ("short_ra_addr", "what a repeat that is cut off leaves: not looked into yet"),
    ("short_ra_char", "the same"),
    ("smoke", "a printer's session: both take records for text"),
    ("tn3270e-renegotiate", "s3270 4.1 leaves out each second letter of NVT data inside TN3270E"),
];

#[test]
fn traces_give_the_screens_of_s3270() {
    let traces = traces();
    let is_other = |name: &str| OTHERS.iter().any(|(other, _)| *other == name);
    let (mut differences, mut alike) = (Vec::new(), Vec::new());
    for (name, text) in &traces {
        match (difference(name, text), is_other(name)) {
            (Some(difference), false) => differences.push(difference),
            (None, true) => alike.push(name),
            _ => {}
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(alike.is_empty(), "take them out of the list: {alike:?}");
}
