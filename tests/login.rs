//! Logins with the real OpenSSH client: chains, codes asked by keyboard-interactive, and
//! certificates made by `ssh-keygen`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use entrepot_crypto::totp;
use entrepot_nouns::{Env, Secret};
use entrepot_testkit::clients::{Login, text};
use entrepot_testkit::server::{Node, run};

use crate::{node_with, program};

/// A program that answers what OpenSSH asks a person, and notes each question.
fn askpass(node: &Node, password: &str, code: &str) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let file = node.scratch().join("askpass");
    let asked = node.scratch().join("asked");
    let _ = std::fs::remove_file(&asked);
    let script = format!(
        "#!/bin/sh\necho \"$1\" >> '{}'\ncase \"$1\" in *Code:*) echo '{code}';; \
         *) echo '{password}';; esac\n",
        asked.display()
    );
    std::fs::write(&file, script)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

/// What the person was asked, in order.
fn asked(node: &Node) -> Vec<String> {
    let text = std::fs::read_to_string(node.scratch().join("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Lists the root with `sftp`, logging in with these options and a person who answers.
fn sftp(node: &Node, account: &str, options: &[&str], person: Option<&Path>) -> Result<Output> {
    let known_hosts = node.known_hosts()?;
    let mut command = Command::new("sftp");
    command.args(["-q", "-F", "none", "-oStrictHostKeyChecking=yes", "-oIdentitiesOnly=yes"]);
    command.arg(format!("-oUserKnownHostsFile={}", known_hosts.display()));
    match person {
        // A batch never asks, but for this: what `sftp` reads is no terminal either way.
        Some(person) => {
            command.arg("-oBatchMode=no").env("SSH_ASKPASS", person);
            command.env("SSH_ASKPASS_REQUIRE", "force");
        }
        None => drop(command.arg("-oBatchMode=yes")),
    }
    command.args(options.iter().map(|option| format!("-o{option}")));
    command.args(["-P", &node.sftp_port()?.to_string(), &format!("{account}@127.0.0.1")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("sftp")?;
    {
        use std::io::Write;
        let mut input = child.stdin.take().context("piped")?;
        // Refused logins close it before it is read.
        let _ = input.write_all(b"pwd\nmkdir made\n");
    }
    Ok(child.wait_with_output()?)
}

/// What proved the first login.
fn first_proof(node: &Node) -> Result<String> {
    node.until("the event of the login", || {
        let opened = node.events("session.opened")?;
        Ok(opened.first().and_then(|event| event["proof"].as_str().map(str::to_owned)))
    })
}

fn admitted(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stdout).contains("Remote working directory: /")
}

fn logged_in(output: &Output, what: &str) -> Result<()> {
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(admitted(output), "{what}: was refused: {told}");
    Ok(())
}

/// The code that a generator shows; another one each time, for each is taken once.
pub(crate) struct Generator {
    secret: Secret,
    last: i64,
}

impl Generator {
    pub(crate) fn of(node: &Node, account: &str) -> Result<Generator> {
        let made = node.json(&["account", "totp", account])?;
        let uri = made["uri"].as_str().context("no uri")?;
        ensure!(uri.starts_with(&format!("otpauth://totp/Entrepot:{account}?secret=")), "{uri}");
        let secret = Secret::new(made["secret"].as_str().context("no secret")?);
        Ok(Generator { secret, last: 0 })
    }

    /// Steps before, at and after now are taken, each once: three logins need no wait.
    pub(crate) fn next(&mut self, offset: i64) -> Result<String> {
        let at = Env::real().now().seconds() + offset * 30;
        ensure!(at / 30 > self.last, "this step was used");
        self.last = at / 30;
        totp::code_at(&self.secret, at).context("no code")
    }
}

pub(crate) fn set_login(node: &Node, account: &str, chain: &str) -> Result<()> {
    node.cli(&["account", "change", account, &format!("login={chain}")])?;
    Ok(())
}

fn identity(login: &Login) -> Result<String> {
    Ok(format!("IdentityFile={}", text(&login.key)?))
}

#[test]
fn a_key_then_a_password_and_not_one_of_them() -> Result<()> {
    let (node, login) = node_with("acme")?;
    set_login(&node, "acme", r#"[["public-key","password"]]"#)?;
    let identity = identity(&login)?;
    let person = askpass(&node, &login.password, "000000")?;
    let both = ["PreferredAuthentications=publickey,password", identity.as_str()];
    logged_in(&sftp(&node, "acme", &both, Some(&person))?, "key, password")?;
    let proof = first_proof(&node)?;
    ensure!(proof.starts_with("public-key SHA256:") && proof.ends_with(" + password"), "{proof}");
    let by_rounds = ["PreferredAuthentications=publickey,keyboard-interactive", &identity];
    logged_in(&sftp(&node, "acme", &by_rounds, Some(&person))?, "key, interactive password")?;
    let key = ["PreferredAuthentications=publickey", identity.as_str()];
    ensure!(!admitted(&sftp(&node, "acme", &key, Some(&person))?), "the key alone was enough");
    let password = ["PreferredAuthentications=password", "PubkeyAuthentication=no"];
    ensure!(!admitted(&sftp(&node, "acme", &password, Some(&person))?), "the password alone");
    Ok(())
}

#[test]
fn codes_follow_a_key_or_a_password_and_are_good_once() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let mut generator = Generator::of(&node, "acme")?;
    set_login(&node, "acme", r#"[["public-key","totp"],["password","totp"]]"#)?;
    let again = node.command(&["account", "totp", "acme"]).output()?;
    assert_eq!(again.status.code(), Some(4), "a second generator came by mistake");

    let identity = identity(&login)?;
    let with_key = ["PreferredAuthentications=publickey,keyboard-interactive", &identity];
    let code = generator.next(-1)?;
    let person = askpass(&node, "not asked", &code)?;
    logged_in(&sftp(&node, "acme", &with_key, Some(&person))?, "key, code")?;
    assert_eq!(asked(&node).len(), 1, "only the code is asked");

    let code = generator.next(0)?;
    let person = askpass(&node, &login.password, &code)?;
    let without = ["PreferredAuthentications=keyboard-interactive", "PubkeyAuthentication=no"];
    logged_in(&sftp(&node, "acme", &without, Some(&person))?, "password and code in one round")?;
    assert_eq!(asked(&node).len(), 2);
    let used = sftp(&node, "acme", &without, Some(&person))?;
    ensure!(!admitted(&used), "a code was taken twice");
    assert_eq!(asked(&node).len(), 2 + 6, "three rounds of two prompts, no more");

    let code = generator.next(1)?;
    let person = askpass(&node, &login.password, &code)?;
    let apart =
        ["PreferredAuthentications=password,keyboard-interactive", "PubkeyAuthentication=no"];
    logged_in(&sftp(&node, "acme", &apart, Some(&person))?, "password, then code")?;
    let secret = String::from_utf8_lossy(generator.secret.expose()).into_owned();
    ensure!(!node.cli(&["export"])?.contains(&secret) && !node.log().contains(&secret));

    node.cli(&["account", "totp", "acme", "--remove"])?;
    set_login(&node, "acme", "")?;
    logged_in(&sftp(&node, "acme", &without, Some(&person))?, "the password alone again")
}

#[test]
fn a_recovery_code_stands_in_for_a_lost_generator_once() -> Result<()> {
    let (node, login) = node_with("acme")?;
    Generator::of(&node, "acme")?;
    let made = node.json(&["account", "recovery-codes", "acme"])?;
    let codes: Vec<&str> =
        made["codes"].as_array().into_iter().flatten().flat_map(|it| it.as_str()).collect();
    ensure!(codes.len() == 10, "{made}");
    let person = askpass(&node, &login.password, codes[3])?;
    let rounds = ["PreferredAuthentications=keyboard-interactive", "PubkeyAuthentication=no"];
    logged_in(&sftp(&node, "acme", &rounds, Some(&person))?, "password and recovery code")?;
    let proof = first_proof(&node)?;
    ensure!(proof == "password + recovery code", "{proof}");
    ensure!(!admitted(&sftp(&node, "acme", &rounds, Some(&person))?), "it was taken twice");
    let used = node.until("the event", || {
        let events = node.events("recovery-code.used")?;
        Ok((!events.is_empty()).then_some(events))
    })?;
    ensure!(used.len() == 1 && used[0]["left"] == 9 && used[0]["account"] == "acme", "{used:?}");
    for code in &codes {
        ensure!(!node.cli(&["export"])?.contains(code) && !node.log().contains(code), "{code}");
    }
    node.cli(&["account", "totp", "acme", "--replace"])?;
    let person = askpass(&node, &login.password, codes[4])?;
    ensure!(!admitted(&sftp(&node, "acme", &rounds, Some(&person))?), "of the generator before");
    Ok(())
}

/// A key pair, by path of its private half.
fn make_key(folder: &Path, name: &str, kind: &str) -> Result<PathBuf> {
    let key = folder.join(name);
    run(Command::new("ssh-keygen").args(["-q", "-t", kind, "-N", "", "-f"]).arg(&key))?;
    Ok(key)
}

/// Signs `key` with the certification key `ca`; the certificate is left where `ssh` finds it.
fn certify(ca: &Path, key: &Path, options: &[&str]) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-s", text(ca)?, "-I", "anna's key"]).args(options);
    run(command.arg(key.with_extension("pub")))?;
    Ok(())
}

/// A node whose account `acme` has no key or password of its own, but a signer.
fn certified_node() -> Result<(Node, PathBuf, PathBuf)> {
    let mut node = Node::new(program(), None)?;
    node.cli(&["account", "create", "acme", "type=partner"])?;
    let mount = ["account=acme", "path=/", "endpoint=files", "prefix=acme"];
    node.cli(&[&["mount", "create", "acme-home"], &mount[..]].concat())?;
    let ca = make_key(node.scratch(), "ca", "ed25519")?;
    let key = make_key(node.scratch(), "user", "ecdsa")?;
    let public = format!("public={}.pub", text(&ca)?);
    node.cli(&["key", "create", "ca", "type=ssh-user-ca", "--from-file", &public])?;
    node.start()?;
    Ok((node, ca, key))
}

#[test]
fn certificates_admit_whom_their_signer_meant() -> Result<()> {
    let (node, ca, key) = certified_node()?;
    let identity = format!("IdentityFile={}", text(&key)?);
    let shown = |options: &[&str]| -> Result<Output> {
        certify(&ca, &key, options)?;
        sftp(&node, "acme", &[&identity], None)
    };
    let good = ["-n", "acme", "-z", "7", "-V", "-1h:+1h"];
    logged_in(&shown(&good)?, "a good certificate")?;
    let proof = first_proof(&node)?;
    ensure!(proof.starts_with("certificate 7 'anna's key' of SHA256:"), "{proof}");
    let here = ["-n", "acme,x", "-O", "source-address=127.0.0.0/8"];
    logged_in(&shown(&here)?, "from here")?;
    let refusals: [(&str, &[&str]); 7] = [
        ("expired", &["-n", "acme", "-V", "-2h:-1h"]),
        ("not yet valid", &["-n", "acme", "-V", "+1h:+2h"]),
        ("another principal", &["-n", "other"]),
        ("no principal", &[]),
        ("another address", &["-n", "acme", "-O", "source-address=192.0.2.0/24"]),
        ("another command", &["-n", "acme", "-O", "force-command=/bin/sh"]),
        ("of a host", &["-h", "-n", "acme"]),
    ];
    for (what, options) in refusals {
        ensure!(!admitted(&shown(options)?), "{what}: was taken");
    }
    certify(&make_key(node.scratch(), "ca2", "ed25519")?, &key, &["-n", "acme"])?;
    ensure!(!admitted(&sftp(&node, "acme", &[&identity], None)?), "an unknown signer");
    std::fs::remove_file(node.scratch().join("user-cert.pub"))?;
    ensure!(!admitted(&sftp(&node, "acme", &[&identity], None)?), "the bare key was taken");
    Ok(())
}

#[test]
fn certificates_of_rsa_keys_need_signatures_of_sha_2() -> Result<()> {
    let (node, _, _) = certified_node()?;
    let ca = make_key(node.scratch(), "rsa-ca", "rsa")?;
    let key = make_key(node.scratch(), "rsa-user", "rsa")?;
    let public = format!("public={}.pub", text(&ca)?);
    node.cli(&["key", "create", "rsa-ca", "type=ssh-user-ca", "--from-file", &public])?;
    let identity = format!("IdentityFile={}", text(&key)?);
    // The client shall not be the one who refuses.
    let weak = "CASignatureAlgorithms=+ssh-rsa,rsa-sha2-512";
    for (algorithm, taken) in [("rsa-sha2-512", true), ("rsa-sha2-256", true), ("ssh-rsa", false)] {
        certify(&ca, &key, &["-t", algorithm, "-n", "acme"])?;
        let output = sftp(&node, "acme", &[&identity, weak], None)?;
        ensure!(admitted(&output) == taken, "signed with {algorithm}: {output:?}");
    }
    node.until("the refusal in the audit", || {
        let refused = node.events("login.refused")?;
        let why =
            |event: &serde_json::Value| event["reason"] == "the certificate is signed too weakly";
        Ok(refused.iter().any(why).then_some(()))
    })
}

#[test]
fn certificates_narrow_and_are_revoked() -> Result<()> {
    let (node, ca, key) = certified_node()?;
    let identity = format!("IdentityFile={}", text(&key)?);
    certify(&ca, &key, &["-n", "acme", "-O", "force-command=internal-sftp -R"])?;
    let output = sftp(&node, "acme", &[&identity], None)?;
    logged_in(&output, "read only")?;
    let made = node.files().join("acme/made");
    ensure!(!made.exists(), "a read-only certificate made a directory");
    certify(&ca, &key, &["-n", "acme", "-z", "8"])?;
    logged_in(&sftp(&node, "acme", &[&identity], None)?, "all rights")?;
    ensure!(made.exists(), "the directory was not made: {output:?}");
    node.cli(&["key", "change", "ca", "revoked_serials=[8]"])?;
    ensure!(!admitted(&sftp(&node, "acme", &[&identity], None)?), "a revoked serial was taken");
    node.cli(&["key", "change", "ca", "revoked_serials=", r#"revoked_key_ids=["anna's key"]"#])?;
    ensure!(!admitted(&sftp(&node, "acme", &[&identity], None)?), "a revoked key id was taken");
    Ok(())
}

#[test]
fn a_key_is_bound_to_its_addresses_and_may_be_read_only() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let identity = identity(&login)?;
    node.cli(&["key", "change", "acme-key", r#"from=["192.0.2.*"]"#])?;
    ensure!(!admitted(&sftp(&node, "acme", &[&identity], None)?), "from elsewhere");
    node.cli(&["key", "change", "acme-key", r#"from=["127.0.0.0/8"]"#, "read_only=true"])?;
    logged_in(&sftp(&node, "acme", &[&identity], None)?, "from here")?;
    ensure!(!login.on_disk(&node, "made").exists(), "a read-only key made a directory");
    Ok(())
}
