//! The matrix of clients of FTP: each program over each line.

use std::path::Path;

use anyhow::Result;

use super::order::{Form, Order};
use super::{Line, Protection, classic, libraries, modern};
use crate::clients::matrix::{Client, Did, How, Seat, Task};
use crate::clients::ours;

/// A client of FTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `curl`.
    Curl,
    /// `wget`, which only fetches.
    Wget,
    /// `lftp`.
    Lftp,
    /// `ncftpput`, `ncftpget` and `ncftpls`.
    Ncftp,
    /// `tnftp`.
    Tnftp,
    /// `rclone`.
    Rclone,
    /// Python's `ftplib`, by a script of ours.
    Ftplib,
    /// Perl's `Net::FTP`, by a script of ours.
    NetFtp,
    /// Apache Commons Net, by a program of ours.
    CommonsNet,
    /// `entrepot put` and `entrepot get`.
    Ours,
}

/// Up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// From the server.
    Down,
}

/// A program on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ftp {
    /// The program.
    pub program: Program,
    /// The line.
    pub line: Line,
}

impl Ftp {
    /// Why the program has no way to use the line.
    pub fn cannot(&self) -> Option<&'static str> {
        let Line { protection, active, ipv6 } = self.line;
        let tls = protection != Protection::Clear;
        match self.program {
            Program::Curl if tls && active => Some("curl 7.88 fails there with any server"),
            Program::Ncftp if tls || ipv6 => Some("ncftp 3.2 knows neither TLS nor IPv6"),
            Program::Tnftp if tls => Some("tnftp has no TLS for FTP"),
            Program::Rclone if active => Some("rclone has no active mode"),
            Program::Ftplib if protection == Protection::Implicit => {
                Some("ftplib has no implicit TLS")
            }
            _ => None,
        }
    }

    /// Moves a file as text.
    ///
    /// # Errors
    /// What the client said when it failed.
    pub fn text(&self, seat: Seat<'_>, way: Way, local: &Path, remote: &str) -> Result<Did> {
        let how = if way == Way::Up { How::Put } else { How::Get };
        self.order(seat, Form::Text, &Task::Move { how, local, remote })
    }

    fn order(&self, seat: Seat<'_>, form: Form, task: &Task<'_>) -> Result<Did> {
        let order = Order { line: self.line, seat, form };
        match self.program {
            Program::Curl => modern::curl(order, task),
            Program::Wget => modern::wget(order, task),
            Program::Lftp => modern::lftp(order, task),
            Program::Rclone => modern::rclone(order, task),
            Program::Ncftp => classic::ncftp(order, task),
            Program::Tnftp => classic::tnftp(order, task),
            Program::Ftplib => libraries::ftplib(order, task),
            Program::NetFtp => libraries::net_ftp(order, task),
            Program::CommonsNet => libraries::commons_net(order, task),
            Program::Ours => ours::ftp(order, task),
        }
    }
}

impl Client for Ftp {
    fn name(&self) -> &'static str {
        match self.program {
            Program::Curl => "curl",
            Program::Wget => "wget",
            Program::Lftp => "lftp",
            Program::Ncftp => "ncftp",
            Program::Tnftp => "tnftp",
            Program::Rclone => "rclone",
            Program::Ftplib => "ftplib",
            Program::NetFtp => "Net::FTP",
            Program::CommonsNet => "Commons Net",
            Program::Ours => "entrepot",
        }
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        self.order(seat, Form::Binary, task)
    }
}
