//! Every client of FTP × every line (clear, explicit and implicit TLS; passive, active; IPv4 and
//! IPv6) × every operation, byte for byte, compared with the tables of `docs/clients/ftp.md`.

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::Login;
use entrepot_testkit::clients::ftp::Protection::{Clear, Implicit, Tls};
use entrepot_testkit::clients::ftp::{Ftp, Line, Program, Way};
use entrepot_testkit::clients::matrix::{Client as _, Did, Seat};
use entrepot_testkit::server::Node;

use super::matrix::{Cell, Row, said_in};
use crate::program;

/// The columns of the second table.
const LINES: [(&str, Line); 8] = [
    ("clear-passive/", Line::PLAIN),
    ("clear-active/", Line { protection: Clear, active: true, ipv6: false }),
    ("explicit-passive/", Line { protection: Tls, active: false, ipv6: false }),
    ("explicit-active/", Line { protection: Tls, active: true, ipv6: false }),
    ("implicit-passive/", Line { protection: Implicit, active: false, ipv6: false }),
    ("implicit-active/", Line { protection: Implicit, active: true, ipv6: false }),
    ("ipv6-passive/", Line { protection: Clear, active: false, ipv6: true }),
    ("ipv6-active/", Line { protection: Clear, active: true, ipv6: true }),
];

/// A file as text, both ways. On the server a line ends in LF or, told by the client, CR LF.
fn text(row: &Row<'_>, ftp: Ftp) -> Result<Cell> {
    let mut cell = Cell::Yes;
    std::fs::write(row.here("up.txt"), "one\ntwo\n\nlast")?;
    match ftp.text(row.seat, Way::Up, &row.here("up.txt"), &row.at("in/up.txt"))? {
        Did::Cannot(_) => cell = Cell::Most,
        Did::Done(_) => {
            // ftplib and others end the last line.
            let came = std::fs::read_to_string(row.there("in/up.txt"))?;
            ensure!(came.trim_end_matches('\n') == "one\ntwo\n\nlast", "{came:?} came up");
        }
    }
    std::fs::write(row.there("in/down.txt"), "one\r\ntwo\n")?;
    match ftp.text(row.seat, Way::Down, &row.here("down.txt"), &row.at("in/down.txt"))? {
        Did::Cannot(_) => return Ok(Cell::No),
        Did::Done(_) => {
            // Unlike the file itself: so the client did ask for text.
            let came = std::fs::read_to_string(row.here("down.txt"))?;
            ensure!(came == "one\ntwo\n" || came == "one\r\ntwo\r\n", "{came:?} came down");
        }
    }
    Ok(cell)
}

/// All operations, in the order of the first table's columns.
fn everything(row: &Row<'_>, ftp: Ftp) -> Result<Vec<Cell>> {
    Ok(vec![
        row.put_and_get()?,
        row.resume_up()?,
        row.resume_down()?,
        row.recursive()?,
        row.times()?,
        row.rename_over()?,
        row.large_directory()?,
        row.odd_names()?,
        text(row, ftp)?,
    ])
}

/// What can go otherwise on another line, with the same result as on the first.
fn the_same(row: &Row<'_>, ftp: Ftp, first: &[Cell]) -> Result<()> {
    let cells = [
        row.round("large", 1_000_003)?,
        row.resume_up()?,
        row.resume_down()?,
        row.recursive()?,
        text(row, ftp)?,
    ];
    let places = [0, 1, 2, 3, 8];
    let want: Vec<Cell> = places.iter().filter_map(|at| first.get(*at).copied()).collect();
    ensure!(cells == want[..], "{cells:?} instead of {want:?}");
    Ok(())
}

/// A node with a listener for each line. Some clients do not resume the session of their control
/// connection: those listeners must not ask for it.
fn node(client: Program) -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    use Program::{Curl, Lftp, Ours, Rclone, Wget};
    let resumes = matches!(client, Curl | Wget | Lftp | Rclone | Ours);
    node.add_ftp()?;
    node.add_ftps(if resumes { "" } else { r#","tls_reuse":"off""# })?;
    if !resumes {
        node.cli(&["listener", "change", "ftp", r#"ftp={"tls_reuse":"preferred"}"#])?;
    }
    node.start()?;
    Ok((node, login))
}

fn check(program: Program) -> Result<()> {
    let page = include_str!("../../docs/clients/ftp.md");
    let (operations, lines) = page.split_once("## Lines").context("no second table")?;
    let (node, login) = node(program)?;
    let seat = Seat { node: &node, login: &login };
    let (mut first, mut seen) = (Vec::new(), Vec::new());
    for (place, line) in LINES {
        let ftp = Ftp { program, line };
        if ftp.cannot().is_some() {
            seen.push(Cell::No);
            continue;
        }
        let row = Row { client: &ftp, seat, place };
        row.prepare()?;
        let place = || format!("{place}; log of the server:\n{}", node.log());
        if first.is_empty() {
            first = everything(&row, ftp).with_context(place)?
        } else {
            the_same(&row, ftp, &first).with_context(place)?
        }
        seen.push(Cell::Yes);
    }
    let name = Ftp { program, line: Line::PLAIN }.name();
    said_in(operations, name, &first)?;
    said_in(lines, name, &seen)
}

#[test]
fn curl() -> Result<()> {
    check(Program::Curl)
}

#[test]
fn wget() -> Result<()> {
    check(Program::Wget)
}

#[test]
fn lftp() -> Result<()> {
    check(Program::Lftp)
}

#[test]
fn ncftp() -> Result<()> {
    check(Program::Ncftp)
}

#[test]
fn tnftp() -> Result<()> {
    check(Program::Tnftp)
}

#[test]
fn rclone() -> Result<()> {
    check(Program::Rclone)
}

#[test]
fn ftplib() -> Result<()> {
    check(Program::Ftplib)
}

#[test]
fn net_ftp() -> Result<()> {
    check(Program::NetFtp)
}

#[test]
fn commons_net() -> Result<()> {
    check(Program::CommonsNet)
}

#[test]
fn entrepot() -> Result<()> {
    check(Program::Ours)
}
