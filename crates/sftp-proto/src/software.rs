//! What clients do differently where version 3 leaves it open, known by their SSH identification.

use crate::request::{CheckDialect, SymlinkOrder};

/// A kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSoftware {
    /// How the software of its identification begins (RFC 4253 §4.2): the line without `SSH-2.0-`.
    pub prefix: &'static str,
    /// Which path of a SYMLINK it sends first.
    pub symlinks: SymlinkOrder,
    /// Which answer to `check-file` it reads, where the name it asks by does not tell.
    pub check_file: Option<CheckDialect>,
}

/// All whose software is in no row of [`SOFTWARE`], OpenSSH's own client among them.
const OTHERS: ClientSoftware =
    ClientSoftware { prefix: "", symlinks: SymlinkOrder::TargetFirst, check_file: None };

const fn link_first(prefix: &'static str) -> ClientSoftware {
    ClientSoftware { prefix, symlinks: SymlinkOrder::LinkFirst, ..OTHERS }
}

/// Clients that are not as OpenSSH's. In the first ten it is the link that comes first in a
/// SYMLINK: some look whether the server is named OpenSSH, the others send so to every server.
pub const SOFTWARE: &[ClientSoftware] = &[
    // To servers that are not named OpenSSH (paramiko, dropbear).
    link_first("AsyncSSH_"),
    // With what follows the name: `libssh2_1.10.0` is another library.
    link_first("libssh_"),
    link_first("libssh-"),
    link_first("phpseclib_"),
    // Since 0.4, of 2014; those before are named alike and cannot be told.
    link_first("ssh2js"),
    link_first("WinSCP_"),
    // To all servers.
    link_first("Erlang/"),
    link_first("russh_"),
    link_first("SSHJ_"),
    link_first("Twisted_"),
    ClientSoftware { prefix: "APACHE-SSHD-", check_file: Some(CheckDialect::ApacheSshd), ..OTHERS },
];

impl ClientSoftware {
    /// The row of a client, by its whole identification line.
    pub fn of(identification: &str) -> ClientSoftware {
        let software = identification.splitn(3, '-').nth(2).unwrap_or_default();
        let row = SOFTWARE.iter().find(|row| software.starts_with(row.prefix));
        row.copied().unwrap_or(OTHERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_symlink_depends_on_the_client() {
        for (id, order) in [
            ("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3", SymlinkOrder::TargetFirst),
            ("SSH-2.0-paramiko_5.1.0", SymlinkOrder::TargetFirst),
            ("SSH-2.0-libssh2_1.10.0", SymlinkOrder::TargetFirst),
            ("SSH-2.0-Go", SymlinkOrder::TargetFirst),
            ("SSH-2.0-JSCH_0.2.20", SymlinkOrder::TargetFirst),
            ("SSH-2.0-APACHE-SSHD-2.15.0", SymlinkOrder::TargetFirst),
            ("SSH-2.0-Ruby/Net::SSH_7.0.1 x86_64-linux", SymlinkOrder::TargetFirst),
            ("SSH-2.0-Renci.SshNet.SshClient.2024.2.0", SymlinkOrder::TargetFirst),
            // Made of sshj, whose paths it turns round.
            ("SSH-2.0-Cyberduck/9.1.3.42945 (Mac OS X/14.5) (aarch64)", SymlinkOrder::TargetFirst),
            ("", SymlinkOrder::TargetFirst),
            ("SSH-2.0-libssh_0.10.6", SymlinkOrder::LinkFirst),
            ("SSH-2.0-libssh-0.5.2", SymlinkOrder::LinkFirst),
            ("SSH-2.0-AsyncSSH_2.24.0", SymlinkOrder::LinkFirst),
            ("SSH-2.0-WinSCP_release_6.3.3", SymlinkOrder::LinkFirst),
            ("SSH-2.0-ssh2js1.17.0", SymlinkOrder::LinkFirst),
            ("SSH-2.0-phpseclib_3.0 (openssl, gmp)", SymlinkOrder::LinkFirst),
            ("SSH-2.0-SSHJ_0.40.0", SymlinkOrder::LinkFirst),
            ("SSH-2.0-russh_0.54.1", SymlinkOrder::LinkFirst),
            ("SSH-2.0-Twisted_24.3.0", SymlinkOrder::LinkFirst),
            ("SSH-2.0-Erlang/4.15.3", SymlinkOrder::LinkFirst),
        ] {
            assert_eq!(ClientSoftware::of(id).symlinks, order, "{id}");
        }
    }

    #[test]
    fn the_page_of_the_protocol_names_all() {
        let page = include_str!("../../../docs/protocols/sftp.md");
        for row in SOFTWARE {
            assert!(page.contains(&format!("`{}", row.prefix)), "{}", row.prefix);
        }
    }
}
