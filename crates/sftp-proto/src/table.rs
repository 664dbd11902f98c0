//! Every packet and extension, once: dispatch, VERSION and the coverage page read these tables.

use crate::request::{self, Parsed};
use crate::wire::Fields;

pub(crate) type Parse = for<'a> fn(&mut Fields<'a>) -> Parsed<'a>;

pub(crate) const INIT: u8 = 1;
pub(crate) const VERSION: u8 = 2;
pub(crate) const OPEN: u8 = 3;
pub(crate) const CLOSE: u8 = 4;
pub(crate) const READ: u8 = 5;
pub(crate) const WRITE: u8 = 6;
pub(crate) const LSTAT: u8 = 7;
pub(crate) const FSTAT: u8 = 8;
pub(crate) const SETSTAT: u8 = 9;
pub(crate) const FSETSTAT: u8 = 10;
pub(crate) const OPENDIR: u8 = 11;
pub(crate) const READDIR: u8 = 12;
pub(crate) const REMOVE: u8 = 13;
pub(crate) const MKDIR: u8 = 14;
pub(crate) const RMDIR: u8 = 15;
pub(crate) const REALPATH: u8 = 16;
pub(crate) const STAT: u8 = 17;
pub(crate) const RENAME: u8 = 18;
pub(crate) const READLINK: u8 = 19;
pub(crate) const SYMLINK: u8 = 20;
pub(crate) const STATUS: u8 = 101;
pub(crate) const HANDLE: u8 = 102;
pub(crate) const DATA: u8 = 103;
pub(crate) const NAME: u8 = 104;
pub(crate) const ATTRS: u8 = 105;
pub(crate) const EXTENDED: u8 = 200;
pub(crate) const EXTENDED_REPLY: u8 = 201;

/// What a packet changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It changes nothing.
    Reads,
    /// Files or names.
    Writes,
    /// Depends on its fields: OPEN and CLOSE.
    Either,
}

/// A row of [`PACKETS`].
pub struct Packet {
    /// Type on the wire.
    pub code: u8,
    /// Name without `SSH_FXP_`.
    pub name: &'static str,
    /// Whether it changes anything.
    pub effect: Effect,
    /// Section of draft-ietf-secsh-filexfer-02.
    pub section: &'static str,
    pub(crate) parse: Option<Parse>,
}

impl Packet {
    /// True for what a client sends after INIT; false for INIT, EXTENDED and answers.
    pub fn is_request(&self) -> bool {
        self.parse.is_some()
    }
}

const fn request(
    code: u8,
    name: &'static str,
    effect: Effect,
    section: &'static str,
    parse: Parse,
) -> Packet {
    Packet { code, name, effect, section, parse: Some(parse) }
}

const fn other(code: u8, name: &'static str, section: &'static str) -> Packet {
    Packet { code, name, effect: Effect::Reads, section, parse: None }
}

use Effect::{Either, Reads, Writes};

/// All packet types; the requests of the byte path first, for they are found from the front.
pub const PACKETS: &[Packet] = &[
    request(READ, "READ", Reads, "6.4", request::read),
    request(WRITE, "WRITE", Writes, "6.4", request::write),
    request(OPEN, "OPEN", Either, "6.3", request::open),
    request(CLOSE, "CLOSE", Either, "6.3", request::close),
    request(STAT, "STAT", Reads, "6.8", request::stat),
    request(LSTAT, "LSTAT", Reads, "6.8", request::lstat),
    request(FSTAT, "FSTAT", Reads, "6.8", request::fstat),
    request(SETSTAT, "SETSTAT", Writes, "6.9", request::setstat),
    request(FSETSTAT, "FSETSTAT", Writes, "6.9", request::fsetstat),
    request(OPENDIR, "OPENDIR", Reads, "6.7", request::opendir),
    request(READDIR, "READDIR", Reads, "6.7", request::readdir),
    request(REMOVE, "REMOVE", Writes, "6.5", request::remove),
    request(MKDIR, "MKDIR", Writes, "6.6", request::mkdir),
    request(RMDIR, "RMDIR", Writes, "6.6", request::rmdir),
    request(REALPATH, "REALPATH", Reads, "6.11", request::realpath),
    request(RENAME, "RENAME", Writes, "6.5", request::rename),
    request(READLINK, "READLINK", Reads, "6.10", request::readlink),
    request(SYMLINK, "SYMLINK", Writes, "6.10", request::symlink),
    other(INIT, "INIT", "4"),
    other(VERSION, "VERSION", "4"),
    other(STATUS, "STATUS", "7"),
    other(HANDLE, "HANDLE", "7"),
    other(DATA, "DATA", "7"),
    other(NAME, "NAME", "7"),
    other(ATTRS, "ATTRS", "7"),
    other(EXTENDED, "EXTENDED", "8"),
    other(EXTENDED_REPLY, "EXTENDED_REPLY", "8"),
];

/// A row of [`EXTENSIONS`].
pub struct Extension {
    /// Name in VERSION and in the EXTENDED packet.
    pub name: &'static str,
    /// Its data in VERSION.
    pub data: &'static str,
    /// Whether it changes anything.
    pub effect: Effect,
    /// Where it is described.
    pub source: &'static str,
    pub(crate) parse: Parse,
}

const fn extension(
    name: &'static str,
    data: &'static str,
    effect: Effect,
    source: &'static str,
    parse: Parse,
) -> Extension {
    Extension { name, data, effect, source, parse }
}

const CHECK_FILE: &str = "draft-ietf-secsh-filexfer-extensions-00 §3";

/// All extensions we serve.
pub const EXTENSIONS: &[Extension] = &[
    extension(
        "posix-rename@openssh.com",
        "1",
        Writes,
        "OpenSSH PROTOCOL §4.3",
        request::posix_rename,
    ),
    extension("limits@openssh.com", "1", Reads, "OpenSSH PROTOCOL §4.8", request::limits),
    extension("statvfs@openssh.com", "2", Reads, "OpenSSH PROTOCOL §4.4", request::statvfs),
    extension("fstatvfs@openssh.com", "2", Reads, "OpenSSH PROTOCOL §4.4", request::fstatvfs),
    extension("fsync@openssh.com", "1", Writes, "OpenSSH PROTOCOL §4.6", request::fsync),
    extension("hardlink@openssh.com", "1", Writes, "OpenSSH PROTOCOL §4.5", request::hardlink),
    extension("lsetstat@openssh.com", "1", Writes, "OpenSSH PROTOCOL §4.7", request::lsetstat),
    extension("copy-data", "1", Writes, "OpenSSH PROTOCOL §4.10", request::copy_data),
    extension("expand-path@openssh.com", "1", Reads, "OpenSSH PROTOCOL §4.9", request::expand_path),
    extension("home-directory", "1", Reads, "OpenSSH PROTOCOL §4.11", request::home_directory),
    extension(
        "users-groups-by-id@openssh.com",
        "1",
        Reads,
        "OpenSSH PROTOCOL §4.12",
        request::users_groups_by_id,
    ),
    // Apache SSHD asks by these names only if they are announced, WinSCP if the third is.
    extension("check-file-name", "1", Reads, CHECK_FILE, request::check_file_name),
    extension("check-file-handle", "1", Reads, CHECK_FILE, request::check_file_handle),
    // Asked by this name by paramiko only.
    extension("check-file", "1", Reads, CHECK_FILE, request::check_file_paramiko),
];

pub(crate) fn packet(code: u8) -> Option<&'static Packet> {
    PACKETS.iter().find(|packet| packet.code == code)
}

pub(crate) fn extension_named(name: &[u8]) -> Option<&'static Extension> {
    EXTENSIONS.iter().find(|extension| extension.name.as_bytes() == name)
}

/// Requests that rules are not asked about: what READ, WRITE and READDIR work on was opened before,
/// and the others are about the server alone.
const UNASKED: [&str; 5] =
    ["read", "write", "readdir", "limits@openssh.com", "users-groups-by-id@openssh.com"];

/// The requests that rules are asked about: of a packet its name without `SSH_FXP_`, of an
/// extension that without what follows the `@`.
pub fn asked_about() -> impl Iterator<Item = &'static str> {
    let packets = PACKETS.iter().filter(|packet| packet.is_request()).map(|packet| packet.name);
    let extensions = EXTENSIONS.iter().map(|extension| extension.name);
    packets
        .chain(extensions)
        .filter(|known| !UNASKED.iter().any(|it| it.eq_ignore_ascii_case(known)))
        .map(short)
}

fn short(name: &'static str) -> &'static str {
    name.split_once('@').map_or(name, |(short, _)| short)
}

/// What VERSION announces, in table order.
pub fn announced() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXTENSIONS.iter().map(|extension| (extension.name, extension.data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_asked_by_the_names_of_the_tables() {
        let is_asked = |name: &str| asked_about().any(|known| known.eq_ignore_ascii_case(name));
        for name in ["open", "OPENDIR", "posix-rename", "check-file", "statvfs", "copy-data"] {
            assert!(is_asked(name), "{name}");
        }
        for name in ["read", "write", "READDIR", "limits", "init", "data", "opne", ""] {
            assert!(!is_asked(name), "{name}");
        }
        for name in UNASKED {
            let known = PACKETS.iter().any(|packet| packet.name.eq_ignore_ascii_case(name))
                || extension_named(name.as_bytes()).is_some();
            assert!(known, "{name}");
        }
    }

    #[test]
    fn no_type_and_no_name_stands_twice() {
        for (place, packet) in PACKETS.iter().enumerate() {
            assert!(PACKETS[..place].iter().all(|other| other.code != packet.code));
            assert!(PACKETS[..place].iter().all(|other| other.name != packet.name));
        }
        for (place, extension) in EXTENSIONS.iter().enumerate() {
            assert!(EXTENSIONS[..place].iter().all(|other| other.name != extension.name));
        }
        // Every type of the draft: 1-20, 101-105, 200, 201.
        assert_eq!(PACKETS.len(), 27);
        assert!((3..=20).all(|code| packet(code).is_some_and(Packet::is_request)));
    }
}
