//! What policies and listeners ask for, seen by OpenSSH, and changed while they serve.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::{Node, run};

use crate::node_with;

/// What `ssh -v` with more options says; the connection ends after login.
fn ssh_says(node: &Node, login: &Login, options: &[&str]) -> Result<String> {
    let mut ssh = Command::new("ssh");
    ssh.arg("-v").args(options);
    let base = login.ssh(node)?;
    let output = ssh.args(base.get_args()).arg("pwd").output()?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn logs_in(node: &Node, login: &Login, options: &[&str]) -> Result<bool> {
    Ok(ssh_says(node, login, options)?.contains("Authenticated to"))
}

/// A policy of the listener takes effect within a second or so.
fn until_login(node: &Node, login: &Login, options: &[&str], wanted: bool) -> Result<()> {
    node.until("the listener to change", || {
        Ok((logs_in(node, login, options)? == wanted).then_some(()))
    })
}

#[test]
fn algorithms_follow_the_policy_of_a_listener_while_it_serves() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let mut open = login.sftp(&node)?.spawn()?;
    node.until("a session", || {
        Ok((node.json(&["session", "list"])?.as_array().map_or(0, Vec::len) == 1).then_some(()))
    })?;
    let nist = ["-oKexAlgorithms=ecdh-sha2-nistp256"];
    let curve = ["-oKexAlgorithms=curve25519-sha256"];
    let cbc = ["-oCiphers=aes128-cbc", "-oMACs=hmac-sha2-256-etm@openssh.com"];
    ensure!(logs_in(&node, &login, &curve)? && !logs_in(&node, &login, &nist)?, "modern");

    node.cli(&["policy", "create", "ssh", "algorithms=compatible"])?;
    node.cli(&["listener", "change", "sftp", "policy=ssh"])?;
    until_login(&node, &login, &nist, true)?;
    ensure!(!logs_in(&node, &login, &cbc)?, "aes128-cbc without being named");
    let rsa = ssh_says(&node, &login, &["-oHostKeyAlgorithms=rsa-sha2-512"])?;
    ensure!(rsa.contains("Authenticated to"), "an RSA host key was made: {rsa}");

    let legacy = r#"legacy_algorithms=[{"name":"aes128-cbc","until":"2999-01-01T00:00:00Z"}]"#;
    node.cli(&["policy", "change", "ssh", legacy])?;
    until_login(&node, &login, &cbc, true)?;
    let ended = r#"legacy_algorithms=[{"name":"aes128-cbc","until":"2020-01-01T00:00:00Z"}]"#;
    node.cli(&["policy", "change", "ssh", ended])?;
    until_login(&node, &login, &cbc, false)?;

    node.cli(&["policy", "change", "ssh", "algorithms=fips"])?;
    until_login(&node, &login, &curve, false)?;
    let said = ssh_says(&node, &login, &nist)?;
    let host_key = "host key algorithm: ecdsa-sha2-nistp256";
    ensure!(said.contains(host_key) && !said.contains("Authenticated to"), "Ed25519 in {said}");
    ensure!(open.try_wait()?.is_none(), "a session was cut by a change of its listener");
    open.kill()?;
    open.wait()?;
    Ok(())
}

#[test]
fn weak_signatures_of_user_keys_are_taken_where_the_policy_names_them() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let key = node.scratch().join("rsa");
    run(Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-b", "3072", "-N", "", "-f"])
        .arg(&key))?;
    let public = format!("public={}.pub", key.display());
    node.cli(&["key", "create", "old", "type=ssh-user", "account=acme", "--from-file", &public])?;
    let login = Login { key, ..login };
    let sha1 = ["-oPubkeyAcceptedAlgorithms=ssh-rsa"];
    ensure!(logs_in(&node, &login, &[])?, "with SHA-2");
    ensure!(!logs_in(&node, &login, &sha1)?, "with SHA-1");
    let legacy = r#"legacy_algorithms=[{"name":"ssh-rsa","until":"2999-01-01T00:00:00Z"}]"#;
    node.cli(&["policy", "create", "ssh", legacy])?;
    node.cli(&["listener", "change", "sftp", "policy=ssh"])?;
    until_login(&node, &login, &sha1, true)
}

#[test]
fn old_clients_are_told_to_update() -> Result<()> {
    let (node, login) = node_with("acme")?;
    node.cli(&["policy", "create", "ssh", r#"least_clients=["OpenSSH_99.1"]"#])?;
    node.cli(&["listener", "change", "sftp", "policy=ssh"])?;
    until_login(&node, &login, &[], false)?;
    let said = ssh_says(&node, &login, &[])?;
    ensure!(said.contains("asks for OpenSSH_99.1 or newer"), "it said {said}");
    let refused = node.until("the refusal in the audit log", || {
        Ok(node.events("login.refused")?.first().cloned())
    })?;
    assert_eq!(refused["reason"], "the client is older than OpenSSH_99.1");
    Ok(())
}

#[test]
fn a_session_is_shown_and_limited_while_it_moves_a_file() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(1, 48 << 20);
    std::fs::create_dir_all(node.files().join("acme"))?;
    std::fs::write(login.on_disk(&node, "big.bin"), &content)?;
    node.cli(&["policy", "create", "slow", "session_download_bytes_per_second=200000"])?;
    node.cli(&["account", "change", "acme", "policy=slow"])?;
    let back = node.scratch().join("back.bin");
    let mut child = login.sftp(&node)?.spawn()?;
    {
        use std::io::Write;
        let mut input = child.stdin.take().context("piped")?;
        writeln!(input, "get big.bin {}", text(&back)?)?;
    }
    let moving = || -> Result<Option<serde_json::Value>> {
        let rows = node.json(&["session", "list"])?;
        let row = rows.as_array().and_then(|rows| rows.first()).cloned();
        Ok(row.filter(|row| row["out_per_second"].as_u64().unwrap_or(0) > 0))
    };
    let row = node.until("the download in the list of sessions", moving)?;
    assert_eq!(
        row["algorithms"].as_str().map(|it| it.contains("aes128-gcm@openssh.com")),
        Some(true)
    );
    ensure!(row["client"].as_str().is_some_and(|client| client.contains("OpenSSH_")), "{row}");
    let id = row["id"].as_str().context("an id")?;
    let metrics = page(&format!("{}/metrics", node.ops_url()?))?;
    ensure!(metrics.contains("entrepot_sessions_by_client{client=\"OpenSSH\"} 1"), "{metrics}");
    // At such a rate the file would take an hour.
    node.cli(&["session", "limit", id, "--download", "12K"])?;
    node.until("the download to be slow", || {
        Ok(moving()?.filter(|row| row["out_per_second"].as_u64().unwrap_or(0) < 100_000))
    })?;
    node.cli(&["session", "limit", id])?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    ensure!(std::fs::read(&back)? == content, "the file came back different");
    Ok(())
}

fn page(url: &str) -> Result<String> {
    let output = run(Command::new("curl").args(["-sS", url]))?;
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn a_listed_proxy_tells_the_address_of_the_client() -> Result<()> {
    let (node, login) = node_with("acme")?;
    node.cli(&["listener", "change", "sftp", r#"proxies=["127.0.0.0/8"]"#])?;
    until_login(&node, &login, &[], false)?;
    let header =
        r"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc6\x33\x64\x07\x7f\x00\x00\x01\x30\x39\x00\x16";
    let script = node.scratch().join("proxy.sh");
    let port = node.sftp_port()?;
    let lines = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}\nprintf '{header}' >&3\n\
         cat <&3 2>/dev/null &\nexec cat >&3\n"
    );
    std::fs::write(&script, lines)?;
    let option = format!("-oProxyCommand=bash {}", text(&script)?);
    ensure!(logs_in(&node, &login, &[&option])?, "through the proxy");
    let opened = node.until("the session in the audit log", || {
        Ok(node.events("session.opened")?.first().cloned())
    })?;
    assert_eq!(opened["address"], "198.51.100.7");
    Ok(())
}

#[test]
fn a_host_certificate_is_shown_to_who_trusts_its_authority() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let authority = node.scratch().join("authority");
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&authority))?;
    let key = node.json(&["key", "show", "sftp-ed25519"])?;
    let public = key["noun"]["key"]["public"].as_str().context("the host key")?;
    let host = local_file(&node, "host.pub", format!("{public}\n").as_bytes())?;
    let names = ["-h", "-I", "node1", "-n", "files.example", "-s"];
    run(Command::new("ssh-keygen").arg("-q").args(names).arg(&authority).arg(&host))?;
    let certificate = format!("certificate={}", node.scratch().join("host-cert.pub").display());
    node.cli(&["key", "change", "sftp-ed25519", "--from-file", &certificate])?;
    let trusted = std::fs::read_to_string(node.scratch().join("authority.pub"))?;
    let known =
        local_file(&node, "known", format!("@cert-authority files.example {trusted}").as_bytes())?;
    let known = format!("-oUserKnownHostsFile={}", text(&known)?);
    let options = [known.as_str(), "-oHostKeyAlias=files.example"];
    until_login(&node, &login, &options, true)?;
    let said = ssh_says(&node, &login, &options)?;
    ensure!(said.contains("ssh-ed25519-cert-v01@openssh.com"), "{said}");
    ensure!(!logs_in(&node, &login, &[known.as_str(), "-oHostKeyAlias=other.example"])?);
    Ok(())
}

#[test]
fn a_new_host_key_is_learned_before_the_old_one_goes() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let new = node.scratch().join("new");
    for (kind, name) in [("ed25519", "next"), ("rsa", "next-rsa")] {
        run(Command::new("ssh-keygen").args(["-q", "-t", kind, "-N", "", "-f"]).arg(&new))?;
        let (private, public) = (new.display(), format!("{}.pub", new.display()));
        node.cli(&[
            "key",
            "create",
            name,
            "type=ssh-host",
            "--from-file",
            &format!("private={private}"),
            "--from-file",
            &format!("public={public}"),
        ])?;
        std::fs::remove_file(&new)?;
    }
    let known = node.known_hosts()?;
    let known = local_file(&node, "known", &std::fs::read(known)?)?;
    let option = format!("-oUserKnownHostsFile={}", text(&known)?);
    let learn = [option.as_str(), "-oUpdateHostKeys=yes"];
    // The old key is shown first, the new ones are announced.
    let keys = r#"host_keys=["sftp-ed25519","next","next-rsa"]"#;
    node.cli(&["listener", "change", "sftp", keys])?;
    node.until("the client to learn the new keys", || {
        let said = ssh_says(&node, &login, &learn)?;
        ensure!(!said.contains("failed to confirm"), "{said}");
        Ok((std::fs::read_to_string(&known)?.lines().count() == 3).then_some(()))
    })?;
    node.cli(&["listener", "change", "sftp", r#"host_keys=["next","next-rsa"]"#])?;
    node.until("the client to forget the old key", || {
        ensure!(logs_in(&node, &login, &learn)?, "with the new key only");
        Ok((std::fs::read_to_string(&known)?.lines().count() == 2).then_some(()))
    })
}
