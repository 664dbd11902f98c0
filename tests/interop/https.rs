//! HTTPS with real clients.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise};
use entrepot_testkit::server::{Node, run};

use super::ftp_login::Certificates;
use crate::program;

/// A node that serves HTTPS, and an account of it.
fn node_with_https() -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli(&["listener", "create", "web", "protocol=https", "address=127.0.0.1:0"])?;
    node.start()?;
    Ok((node, login))
}

fn curl(node: &Node, user: &str) -> Result<Command> {
    let mut command = Command::new("curl");
    command.args(["-sS", "-g", "-u", user]);
    command.arg("--cacert").arg(node.certificate_of("web")?);
    Ok(command)
}

fn url(node: &Node, path: &str) -> Result<String> {
    Ok(format!("https://localhost:{}{path}", node.port_of("web")?))
}

fn curl_moves(node: &Node, login: &Login, version: &str, number: &str) -> Result<()> {
    let user = format!("{}:{}", login.account, login.password);
    let content = noise(43, 30_000_001);
    let local = local_file(node, "web.bin", &content)?;
    let back = node.scratch().join("web.back");
    let curl = || -> Result<Command> {
        let mut command = curl(node, &user)?;
        command.arg(version);
        Ok(command)
    };
    let file = url(node, "/files/in/%C3%A9%20x.bin")?;
    run(curl()?.args(["-f", "-X", "POST"]).arg(url(node, "/files/in?mkdir")?))?;
    let put = run(curl()?
        .args(["-f", "-w", "%{http_code} %{http_version}", "-T"])
        .arg(&local)
        .arg(&file))?;
    assert_eq!(String::from_utf8(put.stdout)?, format!("201 {number}"));
    assert_eq!(std::fs::read(login.on_disk(node, "in/é x.bin"))?, content);
    run(curl()?.args(["-f", "-o"]).arg(&back).arg(&file))?;
    assert_eq!(std::fs::read(&back)?, content);
    // Down from where it stopped.
    std::fs::write(&back, content.get(..1_000_000).unwrap_or_default())?;
    run(curl()?.args(["-f", "-C", "-", "-o"]).arg(&back).arg(&file))?;
    assert_eq!(std::fs::read(&back)?, content);
    let ranged = run(curl()?.args(["-f", "-r", "10-19"]).arg(&file))?;
    assert_eq!(Some(&ranged.stdout[..]), content.get(10..20));
    // A form, as a browser sends it.
    let form = format!("file=@{};filename=by form.bin", local.display());
    run(curl()?.args(["-f", "-F", &form]).arg(url(node, "/files/in/")?))?;
    assert_eq!(std::fs::read(login.on_disk(node, "in/by form.bin"))?, content);
    let listed = run(curl()?.arg("-f").arg(url(node, "/files/in/")?))?;
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
    assert_eq!(listed["entries"][0]["name"], "by form.bin");
    assert_eq!(listed["entries"][1]["size"], content.len());
    run(curl()?.args(["-f", "-X", "DELETE"]).arg(url(node, "/files/in/by%20form.bin")?))?;
    run(curl()?.args(["-f", "-X", "DELETE"]).arg(&file))?;
    run(curl()?.args(["-f", "-X", "DELETE"]).arg(url(node, "/files/in/")?))?;
    ensure!(!login.on_disk(node, "in").exists(), "the folder is still there");
    Ok(())
}

#[test]
fn curl_moves_files_over_http_1_and_2() -> Result<()> {
    let (node, login) = node_with_https()?;
    for (version, number) in [("--http1.1", "1.1"), ("--http2", "2")] {
        curl_moves(&node, &login, version, number).context(version)?;
    }
    let events = node.events("file.uploaded")?;
    ensure!(events.len() == 4, "{events:?}");
    ensure!(events.iter().all(|event| event["protocol"] == "https"), "{events:?}");
    Ok(())
}

#[test]
fn who_may_not_is_told_so_and_sessions_are_listed_and_ended() -> Result<()> {
    let (node, login) = node_with_https()?;
    let wrong = curl(&node, "acme:wrong")?.arg(url(&node, "/files/")?).output()?;
    let problem: serde_json::Value = serde_json::from_slice(&wrong.stdout)?;
    assert_eq!((&problem["status"], &problem["code"]), (&401.into(), &"EP1001".into()));
    let page = url(&node, problem["type"].as_str().context("it leads nowhere")?)?;
    let page = run(curl(&node, "nobody:")?.arg("-f").arg(page))?;
    ensure!(page.stdout.starts_with(b"# EP1001: "), "{page:?}");
    let user = format!("{}:{}", login.account, login.password);
    let me = run(curl(&node, &user)?.arg("-f").arg(url(&node, "/api/v1/session")?))?;
    let me: serde_json::Value = serde_json::from_slice(&me.stdout)?;
    let sessions = || -> Result<serde_json::Value> {
        Ok(serde_json::from_str(&node.cli(&["--json", "session", "list"])?)?)
    };
    let listed = sessions()?.to_string();
    let id = me["id"].as_str().context("no id")?;
    ensure!(listed.contains(id) && listed.contains("https"), "{listed}");
    node.cli(&["session", "end", id])?;
    let again = run(curl(&node, &user)?.arg("-f").arg(url(&node, "/api/v1/session")?))?;
    let again: serde_json::Value = serde_json::from_slice(&again.stdout)?;
    ensure!(again["id"] != me["id"], "the session goes on");
    // Clear text is refused on an address that others can reach.
    let open = ["listener", "create", "open", "protocol=http", "address=0.0.0.0:0"];
    let refused = node.cli(&open).err().context("it was taken")?.to_string();
    ensure!(refused.contains("EP0102"), "{refused}");
    Ok(())
}

#[test]
fn a_certificate_signs_in_alone_or_before_the_password() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let made = Certificates::new(&node)?;
    let alone = Login::create(&node, "acme")?;
    let both = Login::create(&node, "careful")?;
    let print = format!("certificates=[\"SHA256:{}\"]", made.fingerprint("acme")?);
    for account in [&alone, &both] {
        node.cli(&["account", "change", &account.account, &print])?;
    }
    node.cli(&["account", "change", "careful", r#"login=[["certificate","password"]]"#])?;
    let listener = ["listener", "create", "web", "protocol=https", "address=127.0.0.1:0"];
    node.cli(&[&listener[..], &["tls.client_certificates=ask"]].concat())?;
    node.start()?;
    let ask = |user: &str, shown: Option<&str>| -> Result<(String, String)> {
        let mut curl = curl(&node, user)?;
        if let Some(name) = shown {
            curl.arg("--cert").arg(made.file(name, "pem"));
            curl.arg("--key").arg(made.file(name, "key"));
        }
        let address = url(&node, "/api/v1/session")?;
        let answer = run(curl.args(["-w", "\n%{http_code}"]).arg(address))?;
        let answer = String::from_utf8(answer.stdout)?;
        let (body, status) = answer.rsplit_once('\n').context("no status")?;
        Ok((status.to_owned(), body.to_owned()))
    };
    let (empty, right) = ("acme:", format!("careful:{}", both.password));
    for (user, shown, status, says) in [
        (empty, Some("acme"), "200", "\"acme\""),
        // Its session is not that of whoever knows the name.
        (empty, None, "401", "EP1001"),
        (empty, Some("rogue"), "401", "EP1001"),
        ("careful:", Some("acme"), "401", "EP1002"),
        (&right, None, "401", "EP1001"),
        (&right, Some("rogue"), "401", "EP1001"),
        (&right, Some("acme"), "200", "\"careful\""),
    ] {
        let (answered, body) = ask(user, shown)?;
        ensure!(answered == status && body.contains(says), "{user} {shown:?}: {answered} {body}");
        node.cli(&["address", "unban", "127.0.0.1"]).ok();
    }
    let opened = node.until("both sessions in the audit log", || {
        Ok(Some(node.events("session.opened")?).filter(|opened| opened.len() >= 2))
    })?;
    let proofs: Vec<&str> = opened.iter().filter_map(|event| event["proof"].as_str()).collect();
    ensure!(proofs.len() == 2 && proofs[0].starts_with("certificate SHA256:"), "{proofs:?}");
    ensure!(proofs[1].ends_with(" + password"), "{proofs:?}");
    Ok(())
}
