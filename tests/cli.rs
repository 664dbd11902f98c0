//! The command line: with and without a running server, tables and JSON, exit codes.

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::{Node, run};

use crate::{node_with, program};

#[test]
fn the_same_commands_work_with_and_without_a_server() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    for running in [false, true] {
        if running {
            node.start()?;
        }
        let name = format!("bob-{running}");
        node.cli(&["account", "create", &name, "type=service", "note=hello there"])?;
        let shown = node.json(&["account", "show", &name])?;
        assert_eq!(shown["noun"]["account"]["note"], "hello there");
        node.cli(&["account", "change", &name, "note="])?;
        ensure!(node.cli(&["account", "list"])?.contains(&name));
        assert_eq!(node.cli(&["accounts"])?, node.cli(&["account", "list"])?);
        node.cli(&["account", "delete", &name])?;
        let gone = node.command(&["account", "show", &name]).output()?;
        assert_eq!(gone.status.code(), Some(3), "not found has its own exit code");
    }
    Ok(())
}

#[test]
fn what_is_mistyped_is_answered_with_what_is_meant() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.cli(&["account", "create", "acme"])?;
    let mount = ["mount", "create", "m", "account=acem", "path=/", "endpoint=files"];
    let cases: [(&[&str], i32, &str); 10] = [
        (&["account", "show", "acem"], 3, "'acme'"),
        (&["account", "delete", "acem"], 3, "'acme'"),
        (&mount, 4, "'acme'"),
        (&["account", "create", "x", "tpye=partner"], 4, "'type'"),
        (&["account", "change", "acme", "enabld=false"], 4, "'enabled'"),
        (&["--site", "mian", "account", "list"], 3, "'main'"),
        (&["event", "list", "--kind", "file.uplaoded"], 4, "'file.uploaded'"),
        (&["job", "list", "--state", "faild"], 2, "'failed'"),
        (&["account", "lsit"], 2, "'list'"),
        (&["export", "acount"], 2, "'account'"),
    ];
    for running in [false, true] {
        if running {
            node.start()?;
        }
        for (words, code, meant) in cases {
            let output = node.command(words).output()?;
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{words:?}: {told}");
            let hints = [format!("(did you mean {meant}?)"), format!("exists: {meant}")];
            ensure!(hints.iter().any(|hint| told.contains(hint)), "{words:?}: {told}");
        }
        let unlike = node.command(&["account", "show", "zulu"]).output()?;
        ensure!(!String::from_utf8_lossy(&unlike.stderr).contains("did you mean"));
    }
    Ok(())
}

#[test]
fn what_is_exported_applies_unchanged() -> Result<()> {
    let node = Node::new(program(), None)?;
    Login::create(&node, "acme")?;
    let exported = node.cli(&["export"])?;
    ensure!(!exported.contains("pass-word of acme"), "an export shows a password");
    let changes = node.command(&["plan", "-", "--json"]);
    let mut changes = changes;
    let output = entrepot_testkit::server::feed(&mut changes, &exported)?;
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let plan = plan.as_array().cloned().unwrap_or_default();
    ensure!(!plan.is_empty());
    ensure!(plan.iter().all(|change| change["action"] == "unchanged"), "{plan:#?}");
    Ok(())
}

#[test]
fn deleting_what_is_referred_to_is_refused() -> Result<()> {
    let node = Node::new(program(), None)?;
    Login::create(&node, "acme")?;
    let output = node.command(&["endpoint", "delete", "files"]).output()?;
    assert_eq!(output.status.code(), Some(4));
    ensure!(String::from_utf8_lossy(&output.stderr).contains("acme-home"));
    Ok(())
}

#[test]
fn a_key_that_can_never_log_in_is_refused_when_it_is_made() -> Result<()> {
    let node = Node::new(program(), None)?;
    node.cli(&["account", "create", "acme"])?;
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/fixtures");
    let create = |file: &str| {
        let public = format!("public={fixtures}/{file}.pub");
        let create = ["key", "create", file, "type=ssh-user", "account=acme"];
        node.command(&[&create[..], &["--from-file", &public]].concat()).output()
    };
    for (file, words) in [("rsa1024", "2048 are the least"), ("dsa", "DSA keys are too weak")] {
        let refused = create(file)?;
        let told = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(4), "{told}");
        ensure!(told.contains(words) && told.contains("EP0114"), "{told}");
        ensure!(told.contains("ssh-keygen -t ed25519"), "it does not say what to do: {told}");
    }
    ensure!(create("rsa2048")?.status.success(), "2048 bits are enough");
    Ok(())
}

#[test]
fn the_journal_shows_tampering() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    let local = local_file(&node, "a", b"content")?;
    login.sftp_batch(&node, &format!("put {} a\n", text(&local)?))?;
    node.stop()?;
    ensure!(node.cli(&["journal", "verify"])?.contains("they agree"));
    let folder = node.home().join("data/journal");
    let mut segments: Vec<_> = std::fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && path.metadata().is_ok_and(|meta| meta.len() > 500))
        .collect();
    segments.sort();
    let segment = segments.first().expect("a segment");
    let mut bytes = std::fs::read(segment)?;
    let at = bytes.windows(7).position(|seven| seven == b"session").expect("an event of a session");
    bytes[at] ^= 1;
    std::fs::write(segment, bytes)?;
    let output = node.command(&["journal", "verify"]).output()?;
    assert_eq!(output.status.code(), Some(6));
    Ok(())
}

#[test]
fn a_folder_without_a_journal_is_not_called_intact() -> Result<()> {
    let node = Node::new(program(), None)?;
    let other = node.scratch().join("other");
    let emptied = node.scratch().join("emptied");
    for folder in [other.clone(), emptied.join("archive"), emptied.join("torn")] {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(other.join("report.txt"), "no journal")?;
    let missing = node.scratch().join("missing");
    for folder in [&other, &emptied, &missing, &other.join("report.txt")] {
        let output = node.command(&["journal", "verify", text(folder)?]).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{}: {told}", folder.display());
        ensure!(told.contains("there is no journal in") && told.contains("EP0610"), "{told}");
        ensure!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let names: Vec<_> = std::fs::read_dir(&other)?.collect::<std::io::Result<_>>()?;
    assert_eq!(names.len(), 1, "verifying left something behind: {names:?}");
    // A journal without records: made, and nothing happened yet.
    let journal = node.home().join("data/journal");
    ensure!(node.cli(&["journal", "verify", text(&journal)?])?.contains("intact"));
    Ok(())
}

#[test]
fn doctor_finds_what_is_wrong() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let node = Node::new(program(), None)?;
    node.cli(&["doctor"])?;
    let key = node.home().join("data/master.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644))?;
    let output = node.command(&["doctor"]).output()?;
    assert_eq!(output.status.code(), Some(6));
    ensure!(String::from_utf8_lossy(&output.stdout).contains("BAD   master key"));
    Ok(())
}

#[test]
fn the_process_file_is_its_owners_alone_and_doctor_looks() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let node = Node::without_home(program())?;
    // A folder that was there before, open to all.
    std::fs::create_dir(node.home())?;
    std::fs::set_permissions(node.home(), std::fs::Permissions::from_mode(0o755))?;
    run(std::process::Command::new(program()).arg("init").arg(node.home()))?;
    let file = node.home().join("entrepot.toml");
    assert_eq!(std::fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    let doctor =
        || -> Result<String> { Ok(String::from_utf8(node.command(&["doctor"]).output()?.stdout)?) };
    ensure!(doctor()?.contains("ok    process file"), "{}", doctor()?);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
    ensure!(doctor()?.contains("warn  process file"), "{}", doctor()?);
    let text = std::fs::read_to_string(&file)?;
    let nowhere = "postgres://entrepot:secret@127.0.0.1:1/entrepot";
    std::fs::write(&file, text.replace("\"sqlite\"", &format!("{nowhere:?}")))?;
    ensure!(doctor()?.contains("BAD   process file"), "{}", doctor()?);
    Ok(())
}

#[test]
fn a_listener_of_ftp_wants_tls_and_one_that_does_not_is_named() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let create = ["listener", "create", "ftp", "protocol=ftp", "address=127.0.0.1:0"];
    node.cli(&create)?;
    ensure!(node.cli(&["doctor"])?.contains("none in clear text"));
    node.start()?;
    ensure!(!node.log().contains("EP0280"), "{}", node.log());
    node.cli(&["listener", "change", "ftp", "ftp.tls_required=none"])?;
    node.until("the log to name the listener", || Ok(node.log().contains("EP0280").then_some(())))?;
    let doctor = node.cli(&["doctor"])?;
    ensure!(doctor.contains("'ftp' lets passwords and files cross"), "{doctor}");
    node.stop()?;
    node.start()?;
    assert_eq!(node.log().matches("EP0280").count(), 2, "{}", node.log());
    node.stop()
}

#[test]
fn completion_scripts_are_printed() -> Result<()> {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(std::process::Command::new(program()).args(["completion", shell]))?;
        ensure!(String::from_utf8_lossy(&output.stdout).contains("listener"));
    }
    Ok(())
}

#[test]
fn metrics_and_health_answer() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let local = local_file(&node, "a", &[7; 100_000])?;
    login.sftp_batch(&node, &format!("put {} a\n", text(&local)?))?;
    let url = node.ops_url()?;
    let fetch = |path: &str| -> Result<String> {
        let output =
            run(std::process::Command::new("curl").args(["-sf", &format!("{url}{path}")]))?;
        Ok(String::from_utf8(output.stdout)?)
    };
    assert_eq!(fetch("/live")?, "live\n");
    assert_eq!(fetch("/ready")?, "ready\n");
    let metrics = fetch("/metrics")?;
    for name in [
        "entrepot_sessions",
        "entrepot_bytes_total{direction=\"in\",protocol=\"sftp\"} 100000",
        "entrepot_transfers_total",
        "entrepot_jobs",
        "entrepot_journal_lag_records",
        "entrepot_journal_fsync_seconds",
        "entrepot_logins_total",
        "entrepot_connections_without_login",
        "entrepot_connections_turned_away_total",
    ] {
        ensure!(metrics.contains(name), "{name} is missing in\n{metrics}");
    }
    Ok(())
}
