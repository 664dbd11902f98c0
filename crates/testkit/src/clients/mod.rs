//! Real clients, logged in to a [`Node`].

pub mod browser;
pub mod ftp;
pub mod java;
pub mod libraries;
pub mod matrix;
pub mod openssh;
pub mod ours;
pub mod putty;
pub mod python;
pub mod sshfs;
pub mod tools;
pub mod tus;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::server::{Node, feed, run};

/// An account of a node and how to log in to it.
pub struct Login {
    /// The name to log in with, also the prefix of its mount.
    pub account: String,
    /// Has a space, which clients must pass on unharmed.
    pub password: String,
    /// File of its private key, without a passphrase.
    pub key: PathBuf,
}

impl Login {
    /// Makes an account with a password, a key made by `ssh-keygen`, and a mount of the endpoint
    /// `files` at `/` with the account's name as prefix.
    pub fn create(node: &Node, account: &str) -> Result<Login> {
        let password = format!("pass-word of {account}");
        let key = node.scratch().join(format!("{account}.key"));
        run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
        let create = ["account", "create", account, "type=partner", "--password-stdin"];
        node.cli_with_input(&create, &format!("{password}\n"))?;
        let public = format!("public={}.pub", key.display());
        let (name, owner) = (format!("{account}-key"), format!("account={account}"));
        node.cli(&["key", "create", &name, "type=ssh-user", &owner, "--from-file", &public])?;
        let (name, prefix) = (format!("{account}-home"), format!("prefix={account}"));
        node.cli(&["mount", "create", &name, &owner, "path=/", "endpoint=files", &prefix])?;
        Ok(Login { account: account.to_owned(), password, key })
    }

    /// Options that OpenSSH's programs share.
    ///
    /// # Errors
    /// The node does not run.
    pub fn ssh_options(&self, node: &Node) -> Result<Vec<String>> {
        let known_hosts = node.known_hosts()?;
        Ok(vec![
            "-F".to_owned(),
            "none".to_owned(),
            "-oBatchMode=yes".to_owned(),
            "-oStrictHostKeyChecking=yes".to_owned(),
            format!("-oUserKnownHostsFile={}", known_hosts.display()),
            "-oIdentitiesOnly=yes".to_owned(),
            format!("-oIdentityFile={}", self.key.display()),
        ])
    }

    /// OpenSSH's `sftp`, not yet run.
    pub fn sftp(&self, node: &Node) -> Result<Command> {
        let mut command = Command::new("sftp");
        command.args(self.ssh_options(node)?).args(["-q", "-b", "-"]);
        command.args(["-P", &node.sftp_port()?.to_string()]);
        command.arg(format!("{}@127.0.0.1", self.account));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs a batch with OpenSSH's `sftp`.
    pub fn sftp_batch(&self, node: &Node, batch: &str) -> Result<Output> {
        feed(&mut self.sftp(node)?, batch)
    }

    /// OpenSSH's `ssh`, not yet run.
    pub fn ssh(&self, node: &Node) -> Result<Command> {
        let mut command = Command::new("ssh");
        command.args(self.ssh_options(node)?).args(["-p", &node.sftp_port()?.to_string()]);
        command.arg(format!("{}@127.0.0.1", self.account));
        Ok(command)
    }

    /// Runs a script with `lftp`, which drives OpenSSH's `ssh`.
    pub fn lftp(&self, node: &Node, script: &str) -> Result<Output> {
        let connect = format!("ssh -a -x {}", self.ssh_options(node)?.join(" "));
        let port = node.sftp_port()?;
        let all = format!(
            "set cmd:fail-exit yes; set net:max-retries 1; set sftp:auto-confirm yes; \
             set sftp:connect-program \"{connect}\"; \
             open -u {},none sftp://127.0.0.1:{port}; {script}; bye",
            self.account
        );
        run(Command::new("lftp").args(["--norc", "-c", &all]))
    }

    /// Runs `rclone` with the remote named `node:`.
    pub fn rclone(&self, node: &Node, arguments: &[&str]) -> Result<Output> {
        let obscured = run(Command::new("rclone").args(["obscure", &self.password]))?;
        let obscured = String::from_utf8(obscured.stdout)?;
        let config = node.scratch().join("rclone.conf");
        std::fs::write(
            &config,
            format!(
                "[node]\ntype = sftp\nhost = 127.0.0.1\nport = {}\nuser = {}\npass = {}\n\
                 known_hosts_file = {}\n",
                node.sftp_port()?,
                self.account,
                obscured.trim(),
                node.known_hosts()?.display()
            ),
        )?;
        let mut command = Command::new("rclone");
        command.arg("--config").arg(&config).args(["--retries", "1", "--low-level-retries", "1"]);
        command.args(arguments);
        run(&mut command)
    }

    /// Where an uploaded file of this account lies on disk.
    pub fn on_disk(&self, node: &Node, path: &str) -> PathBuf {
        node.files().join(&self.account).join(path)
    }
}

/// A file below `target`, where `scripts/need test` installs and builds clients.
pub(crate) fn installed(path: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    let path = folder.join(path);
    if !path.exists() {
        bail!("'{}' is missing: run scripts/need test", path.display());
    }
    Ok(path)
}

/// Bytes that do not repeat and differ by seed.
pub fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Writes `content` to a new file of the scratch folder.
pub fn local_file(node: &Node, name: &str, content: &[u8]) -> Result<PathBuf> {
    let path = node.scratch().join(name);
    std::fs::write(&path, content)?;
    Ok(path)
}

/// A path as text, for commands.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}
