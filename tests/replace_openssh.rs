//! The page `docs/howto/replace-openssh.md`, done: a chrooted setup is imported, and a client that
//! knew it notices nothing.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::text;
use entrepot_testkit::server::{Node, run};
use serde_json::Value;

use crate::program;

/// The name by which clients know the machine.
const ALIAS: &str = "files.example.com";

/// A machine's files: users, folders, keys and the configuration of the page.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn write(&self, path: &str, content: &str) -> Result<()> {
        let path = self.path(path);
        let folder = path.parent().context("a parent")?;
        std::fs::create_dir_all(folder)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
        std::fs::write(&path, content)?;
        Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))?)
    }

    fn folder(&self, path: &str, mode: u32) -> Result<()> {
        let path = self.path(path);
        std::fs::create_dir_all(&path)?;
        Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
    }

    fn key(&self, path: &str) -> Result<String> {
        let file = self.path(path);
        std::fs::create_dir_all(file.parent().context("a parent")?)?;
        let mut make = Command::new("ssh-keygen");
        run(make.args(["-q", "-t", "ed25519", "-N", "", "-C", "k", "-f"]).arg(&file))?;
        Ok(std::fs::read_to_string(file.with_extension("pub"))?.trim().to_owned())
    }

    /// As it stands before the import.
    fn new(root: PathBuf) -> Result<Machine> {
        let machine = Machine { root };
        let page = include_str!("../docs/howto/replace-openssh.md");
        let config = page.split("```sshd_config\n").nth(1).and_then(|it| it.split("```").next());
        let here = machine.root.display();
        let config = config.context("the page shows no configuration")?;
        let config = config.replace("/etc/", &format!("{here}/etc/"));
        let config = config.replace("/srv/", &format!("{here}/srv/"));
        let more = format!("keys/%u {here}/etc/ssh/open/%u");
        let config = config.replace("keys/%u", &more);
        machine.write("etc/ssh/sshd_config", &config)?;
        let own = format!(
            "ClientAliveInterval 60\nFrobnicate 1\nTrustedUserCAKeys {here}/client/user_ca.pub\n\
             AuthorizedPrincipalsFile {here}/etc/ssh/principals/%u\n\
             HostCertificate {here}/etc/ssh/ssh_host_ed25519_key-cert.pub\n\
             RevokedKeys {here}/etc/ssh/revoked\n"
        );
        machine.write("etc/ssh/sshd_config.d/own.conf", &own)?;
        machine.key("client/user_ca")?;
        machine.write("etc/ssh/principals/anna", "# hers\nwork # at work\n")?;
        machine.write("etc/ssh/banner", "authorised use only\n")?;
        let host_key = machine.key("etc/ssh/ssh_host_ed25519_key")?;
        machine.write("known_hosts", &format!("{ALIAS} {host_key}\n"))?;
        let signs = machine.key("client/host_ca")?;
        machine.write("known_signers", &format!("@cert-authority {ALIAS} {signs}\n"))?;
        let (ca, public) =
            (machine.path("client/host_ca"), machine.path("etc/ssh/ssh_host_ed25519_key.pub"));
        let sign = ["-q", "-s", text(&ca)?, "-h", "-I", "files", "-n", ALIAS, text(&public)?];
        run(Command::new("ssh-keygen").args(sign))?;
        // Who runs the test owns everything; users may write by their group only.
        let gid = std::fs::metadata(&machine.root)?.gid();
        let user = |name: &str, uid: u32| {
            format!("{name}:x:{uid}:{gid}:{name},,,:/home/{name}:/usr/sbin/nologin\n")
        };
        let names = ["anna", "berta", "carl", "dora"];
        let users: String = names.iter().zip(60_001..).map(|(name, uid)| user(name, uid)).collect();
        machine.write("etc/passwd", &format!("root:x:0:0:root:/root:/bin/bash\n{users}"))?;
        let group = format!("root:x:0:\nsftponly:x:60000:{}\nown:x:{gid}:\n", names.join(","));
        machine.write("etc/group", &group)?;
        for name in names {
            machine.folder(&format!("srv/sftp/{name}"), 0o755)?;
            machine.folder(&format!("srv/sftp/{name}/upload"), 0o775)?;
            machine.folder(&format!("srv/sftp/{name}/readable"), 0o755)?;
            let hello = format!("srv/sftp/{name}/readable/hello.txt");
            machine.write(&hello, &format!("hello {name}"))?;
        }
        machine.keys()?;
        Ok(machine)
    }

    fn keys(&self) -> Result<()> {
        let anna = self.key("client/anna")?;
        let bound = self.key("client/bound")?;
        let rsync = self.key("client/rsync")?;
        let ca = self.key("client/ca")?;
        let lost = self.key("client/lost")?;
        self.write("etc/ssh/revoked", &format!("# stolen\n{lost}\n"))?;
        let dsa = include_str!("../crates/auth/fixtures/dsa.pub");
        let rsa1024 = include_str!("../crates/auth/fixtures/rsa1024.pub");
        let keys = format!(
            "# anna's keys\nrestrict,from=\"127.0.0.0/8,::1\" {anna} at work # 2\n\
             from=\"192.0.2.0/24\" {bound}\ncommand=\"rsync --server\" {rsync}\nnonsense\n\
             {lost}\n{dsa}{rsa1024}"
        );
        self.write("etc/ssh/keys/anna", &keys)?;
        let keys = format!(
            "cert-authority,principals=\"batch\",command=\"internal-sftp -R\" {ca}\n\
             {}\n",
            self.key("client/berta")?
        );
        self.write("etc/ssh/keys/berta", &keys)?;
        // Everybody may write it: sshd ignores it.
        let open = self.key("client/open")?;
        self.write("etc/ssh/open/anna", &open)?;
        let file = self.path("etc/ssh/open/anna");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o666))?;
        for name in ["carl", "dora"] {
            let key = self.key(&format!("client/{name}"))?;
            self.write(&format!("etc/ssh/keys/{name}"), &key)?;
        }
        Ok(())
    }

    fn import(&self, node: &Node, more: &[&str]) -> Result<Value> {
        let (config, users) = (self.path("etc/ssh/sshd_config"), self.path("etc"));
        let paths = ["--sshd-config", text(&config)?, "--users", text(&users)?];
        node.json(&[&["import", "openssh"], &paths[..], more].concat())
    }

    /// A batch of `sftp` with a key of the client, as before the move.
    fn sftp(&self, node: &Node, login: (&str, &str), batch: &str) -> Result<Output> {
        self.sftp_by("known_hosts", node, login, batch)
    }

    /// The same; the server is known by `hosts`.
    fn sftp_by(
        &self,
        hosts: &str,
        node: &Node,
        (user, key): (&str, &str),
        batch: &str,
    ) -> Result<Output> {
        let mut command = Command::new("sftp");
        command.args(["-q", "-b", "-", "-F", "none", "-oBatchMode=yes", "-oIdentitiesOnly=yes"]);
        command.arg("-oStrictHostKeyChecking=yes").arg(format!("-oHostKeyAlias={ALIAS}"));
        command.arg(format!("-oUserKnownHostsFile={}", text(&self.path(hosts))?));
        command.arg(format!("-oIdentityFile={}", text(&self.path("client").join(key))?));
        command.args(["-P", &node.sftp_port()?.to_string(), &format!("{user}@127.0.0.1")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        {
            use std::io::Write;
            // Refused logins close it before it is read.
            let _ = child.stdin.take().context("piped")?.write_all(batch.as_bytes());
        }
        Ok(child.wait_with_output()?)
    }
}

fn succeeded(output: &Output) -> Result<String> {
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it failed: {told}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines of a report with this outcome: place, thing and reason in one text.
fn lines(report: &Value, outcome: &str) -> Vec<String> {
    let lines = report["lines"].as_array().cloned().unwrap_or_default();
    let of = lines.iter().filter(|line| line["outcome"] == outcome);
    let word = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    of.map(|line| ["place", "what", "why"].map(|field| word(line, field)).join(" | ")).collect()
}

fn has(lines: &[String], words: &[&str]) -> bool {
    lines.iter().any(|line| words.iter().all(|word| line.contains(word)))
}

fn said(report: &Value) -> Result<()> {
    let taken = lines(report, "taken");
    for words in [
        ["user anna", "account with 3 keys"],
        ["user_ca.pub:1", "signs certificates for 'anna'"],
        ["user anna", "read only as it was but for /upload"],
        ["sshd_config:17", "forcecommand internal-sftp -d /upload"],
        ["sshd_config:7", "kbdinteractiveauthentication no"],
        ["sshd_config:4", "hostkey"],
        ["own.conf:5", "of key sshd-ed25519-"],
        ["own.conf:6", "revokedkeys"],
        ["keys/anna:2", "key anna-"],
        ["keys/berta:1", "key berta-ca-"],
    ] {
        ensure!(has(&taken, &words), "{words:?} not in {taken:#?}");
    }
    let refused = lines(report, "not-taken");
    for words in [
        ["keys/anna:4", "disabled: it runs 'rsync --server'"],
        ["keys/anna:5", "the options cannot be read"],
        ["keys/anna:6", "disabled: RevokedKeys names it"],
        ["keys/anna:7", "DSA keys are too weak to log in with"],
        ["keys/anna:8", "an RSA key of 1024 bits is too weak to log in with, 2048 are the least"],
        ["user anna", "those of keys that RevokedKeys names still count"],
        ["open/anna", "sshd ignored it (StrictModes)"],
        ["user berta", "certificates"],
        ["user berta", "set a new one: entrepot account change berta --password-stdin"],
        ["user carl", "DenyUsers names it"],
        ["user dora", "an account of this name was there before"],
        ["own.conf:2", "frobnicate 1"],
        ["sshd_config:3", "listener 'sftp' stays at"],
    ] {
        ensure!(has(&refused, &words), "{words:?} not in {refused:#?}");
    }
    ensure!(!has(&refused, &["user anna", "password"]), "she logged in by key only");
    ensure!(!has(&taken, &["dora"]), "something of another's account is taken");
    let not_needed = lines(report, "not-needed");
    for words in [["own.conf:1", "clientaliveinterval"], ["sshd_config:8", "x11forwarding"]] {
        ensure!(has(&not_needed, &words), "{words:?} not in {not_needed:#?}");
    }
    Ok(())
}

#[test]
fn a_chrooted_setup_moves_over_and_clients_notice_nothing() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let machine = Machine::new(node.scratch().join("machine"))?;
    node.cli(&["account", "create", "dora", "note=ours"])?;
    let before = node.cli(&["export"])?;
    let planned = machine.import(&node, &["--dry-run"])?;
    said(&planned)?;
    ensure!(node.cli(&["export"])? == before, "a dry run changed something");

    an_endpoint_that_leads_elsewhere_is_not_used(&node, &machine)?;

    let made = machine.import(&node, &[])?;
    said(&made)?;
    ensure!(made["made"] == planned["made"] && made["made"] != 0, "{} planned", planned["made"]);
    let after = node.cli(&["export"])?;
    ensure!(!after.contains("PRIVATE KEY"), "a host key is exported in the clear");
    ensure!(!after.contains("carl"), "a denied user was taken");
    node.start()?;
    let again = machine.import(&node, &[])?;
    ensure!(again["made"] == 0, "a second run made {}", again["made"]);
    ensure!(has(&lines(&again, "already-there"), &["user anna", "account anna"]));
    ensure!(has(&lines(&again, "already-there"), &["listener sftp"]));
    ensure!(node.cli(&["export"])? == after, "a second run changed something");
    clients_notice_nothing(&node, &machine)
}

fn clients_notice_nothing(node: &Node, machine: &Machine) -> Result<()> {
    let back = machine.path("client/back");
    let put = machine.path("client/anna.pub");
    let batch = format!(
        "pwd\nls -1 /\nget /readable/hello.txt {}\nput {} new.txt\n-put {} /denied.txt\n\
         -rm /readable/hello.txt\n",
        text(&back)?,
        text(&put)?,
        text(&put)?
    );
    let seen = succeeded(&machine.sftp(node, ("anna", "anna"), &batch)?)?;
    ensure!(seen.contains("Remote working directory: /upload"), "{seen}");
    ensure!(seen.contains("/readable") && seen.contains("/upload"), "{seen}");
    assert_eq!(std::fs::read_to_string(&back)?, "hello anna");
    let on_disk = machine.path("srv/sftp/anna");
    assert_eq!(std::fs::read(on_disk.join("upload/new.txt"))?, std::fs::read(&put)?);
    ensure!(!on_disk.join("denied.txt").exists(), "'/' was not writable and is now");
    ensure!(on_disk.join("readable/hello.txt").exists(), "a file of others was removed");

    for (user, key) in [
        ("anna", "bound"),
        ("anna", "rsync"),
        ("anna", "berta"),
        ("anna", "open"),
        ("anna", "lost"),
        ("anna", "ca"),
        ("berta", "ca"),
        ("carl", "carl"),
        ("dora", "dora"),
    ] {
        let output = machine.sftp(node, (user, key), "pwd\n")?;
        ensure!(!output.status.success(), "'{user}' got in with the key of '{key}'");
    }
    succeeded(&machine.sftp(node, ("berta", "berta"), "mkdir /upload/by-key\n")?)?;
    succeeded(&machine.sftp_by("known_signers", node, ("berta", "berta"), "pwd\n")?)?;
    certificates_of_the_machine(node, machine)?;
    let (ca, key) = (machine.path("client/ca"), machine.path("client/dora.pub"));
    let sign = ["-q", "-s", text(&ca)?, "-I", "batch job", "-n", "batch", text(&key)?];
    run(Command::new("ssh-keygen").args(sign))?;
    succeeded(&machine.sftp(node, ("berta", "dora"), "get /readable/hello.txt /dev/null\n")?)?;
    let wrote = machine.sftp(node, ("berta", "dora"), "mkdir /upload/by-certificate\n")?;
    ensure!(!wrote.status.success(), "a certificate of a read-only key writes");
    ensure!(by_password(node, machine)?, "berta's new password is not taken");
    Ok(())
}

fn an_endpoint_that_leads_elsewhere_is_not_used(node: &Node, machine: &Machine) -> Result<()> {
    let root = machine.path("srv/sftp/anna");
    let name = text(&root)?.trim_matches('/').replace('/', ".");
    let target = r#"target={"directory":{"path":"/elsewhere"}}"#;
    node.cli(&["endpoint", "create", &name, target])?;
    let planned = machine.import(node, &["--dry-run"])?;
    let refused = lines(&planned, "not-taken");
    ensure!(has(&refused, &["mount anna", "leads elsewhere"]), "{refused:#?}");
    node.cli(&["endpoint", "delete", &name])?;
    Ok(())
}

/// `TrustedUserCAKeys`: for whom a file of principals says it, as they are named there.
fn certificates_of_the_machine(node: &Node, machine: &Machine) -> Result<()> {
    let (ca, key) = (machine.path("client/user_ca"), machine.path("client/carl.pub"));
    let sign = ["-q", "-s", text(&ca)?, "-I", "work", "-n", "work,berta", text(&key)?];
    run(Command::new("ssh-keygen").args(sign))?;
    succeeded(&machine.sftp(node, ("anna", "carl"), "pwd\n")?)?;
    let berta = machine.sftp(node, ("berta", "carl"), "pwd\n")?;
    ensure!(!berta.status.success(), "berta has no file of principals");
    let named = ["-q", "-s", text(&ca)?, "-I", "name", "-n", "anna", text(&key)?];
    run(Command::new("ssh-keygen").args(named))?;
    let anna = machine.sftp(node, ("anna", "carl"), "pwd\n")?;
    ensure!(!anna.status.success(), "her name is none of her principals");
    Ok(())
}

/// Sets what could not be taken, as the page says, and logs in with it.
fn by_password(node: &Node, machine: &Machine) -> Result<bool> {
    let set = ["account", "change", "berta", "--password-stdin"];
    node.cli_with_input(&set, "a new password\n")?;
    let person: &Path = &machine.path("person");
    std::fs::write(person, "#!/bin/sh\necho 'a new password'\n")?;
    std::fs::set_permissions(person, std::fs::Permissions::from_mode(0o755))?;
    let mut command = Command::new("ssh");
    command.args(["-F", "none", "-oStrictHostKeyChecking=yes", "-oPubkeyAuthentication=no"]);
    command.arg(format!("-oHostKeyAlias={ALIAS}"));
    command.arg(format!("-oUserKnownHostsFile={}", text(&machine.path("known_hosts"))?));
    command.env("SSH_ASKPASS", person).env("SSH_ASKPASS_REQUIRE", "force");
    command.args(["-p", &node.sftp_port()?.to_string(), "berta@127.0.0.1", "ls"]);
    let output = command.stdin(Stdio::null()).output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(told.contains("authorised use only"), "the banner is gone: {told}");
    Ok(told.contains("Entrepot offers"))
}

/// What `sshd` itself says of a user.
fn effective(config: &Path, user: &str) -> Result<Vec<(String, String)>> {
    let mut sshd = Command::new("/usr/sbin/sshd");
    sshd.args(["-T", "-f", text(config)?, "-C"]);
    let output = run(sshd.arg(format!("user={user},host=h.example,addr=192.0.2.1")))?;
    let told = String::from_utf8(output.stdout)?;
    let pairs = told.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.map(|(keyword, value)| (keyword.to_owned(), value.to_owned())).collect())
}

#[test]
fn settings_count_for_whom_sshd_says_they_do() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let machine = Machine { root: folder.path().to_owned() };
    machine.key("host_key")?;
    let here = folder.path().display();
    machine.write("more/a.conf", "Match User daemon\nForceCommand internal-sftp -d /a\n")?;
    machine.write("more/b.conf", "Match User *n\nForceCommand internal-sftp -d /b\n")?;
    let config = format!(
        "HostKey {here}/host_key\nPasswordAuthentication yes\nPasswordAuthentication no\n\
         Include {here}/more/*.conf\nChrootDirectory none\n\
         Match Group nogroup,!users\n  ChrootDirectory=/srv/\"a b\"/%u # why\n\
         Match User !root,*\n  ChrootDirectory /late\nForceCommand 'internal-sftp' -R\n\
         Match User root Group root\n  PasswordAuthentication no\n\
         Match User root\n  PasswordAuthentication yes\nAuthorizedKeysFile /k/%u .ssh/x\n\
         Match All\n  MaxSessions 3\n"
    );
    machine.write("sshd_config", &config)?;
    let file = machine.path("sshd_config");
    let mut include = |pattern: &str| {
        let names = ["a.conf", "b.conf"].map(|name| pattern.replace("*.conf", name));
        let read = |file: String| {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            entrepot_openssh::Included { file, text }
        };
        names.map(read).to_vec()
    };
    let ours = entrepot_openssh::Config::read("sshd_config", &config, &mut include);
    ensure!(ours.bad.is_empty(), "{:?}", ours.bad);
    for (name, group) in [("root", "root"), ("daemon", "daemon"), ("nobody", "nogroup")] {
        let groups = vec![group.to_owned()];
        let who = entrepot_openssh::Who { name, groups: &groups };
        let theirs = effective(&file, name)?;
        let keywords = ["chrootdirectory", "forcecommand", "passwordauthentication", "maxsessions"];
        for keyword in keywords.into_iter().chain(["authorizedkeysfile"]) {
            let Some(setting) = ours.first(keyword, Some(who)) else { continue };
            let said = theirs.iter().find(|(known, _)| known == keyword);
            let said = said.map(|(_, value)| value.as_str()).unwrap_or("none");
            let words = setting.arguments.join(" ");
            let value = if keyword == "forcecommand" { &setting.rest } else { &words };
            assert_eq!(value, said, "{keyword} of {name}");
        }
    }
    Ok(())
}
