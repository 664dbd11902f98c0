//! Receipts: made by the running node, verified by the program's own command, by the Python program
//! of the page on receipts, and by neither once anything was changed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::s3::S3Server;
use entrepot_testkit::server::Node;

use crate::{node_with, program};

/// The Python program of the page.
fn python() -> Result<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/receipts.md");
    let page = std::fs::read_to_string(page)?;
    let (_, rest) = page.split_once("```python\n").context("the page has a program")?;
    let (program, _) = rest.split_once("```").context("the program ends")?;
    Ok(program.to_owned())
}

/// Runs the statement in the SQLite database; it must change one row.
const CHANGE_ONE_ROW: &str = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute(sys.argv[2]).rowcount == 1
db.commit()";

fn by_python(program: &Path, receipt: &Path, key: &str) -> Result<Output> {
    let run = Command::new("python3").args([program, receipt]).arg(key).output();
    run.context("python3 does not start")
}

#[test]
fn a_receipt_is_verified_by_the_command_and_by_the_program_of_its_page() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    let local = local_file(&node, "orders", b"ten boxes")?;
    for name in ["a", "b\u{e9} \"c\""] {
        login.sftp_batch(&node, &format!("put {} '{name}'\n", text(&local)?))?;
    }
    let transfers = node.until("both transfers to be in the database", || {
        let listed = node.json(&["transfer", "list"])?;
        Ok(listed.as_array().filter(|rows| rows.len() == 2).cloned())
    })?;
    let key = node.cli(&["receipt", "key"])?.trim().to_owned();
    let program = node.scratch().join("verify.py");
    std::fs::write(&program, python()?)?;
    for transfer in &transfers {
        let id = transfer["id"].as_str().context("an id")?;
        let made = node.cli(&["receipt", id])?;
        let file = node.scratch().join("receipt.json");
        std::fs::write(&file, &made)?;
        let told = node.cli(&["receipt", "verify", text(&file)?, "--key", &key])?;
        ensure!(told.starts_with("valid") && told.contains("9 bytes"), "{told}");
        let checked = by_python(&program, &file, &key)?;
        let errors = String::from_utf8_lossy(&checked.stderr);
        ensure!(checked.status.success(), "the program of the page refuses it: {errors}");
        std::fs::write(&file, made.replace("\"size\": 9", "\"size\": 8"))?;
        let refused = node.command(&["receipt", "verify", text(&file)?, "--key", &key]).output()?;
        assert_eq!(refused.status.code(), Some(6));
        ensure!(String::from_utf8_lossy(&refused.stderr).contains("EP0625"));
        ensure!(!by_python(&program, &file, &key)?.status.success());
    }
    // The same without a server, and of something that there is not.
    node.stop()?;
    let id = transfers[0]["id"].as_str().context("an id")?;
    node.cli(&["receipt", id])?;
    let unknown = node.command(&["receipt", "019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a11"]).output()?;
    assert_eq!(unknown.status.code(), Some(3));
    ensure!(node.cli(&["journal", "verify"])?.contains("they agree"));
    Ok(())
}

#[test]
fn what_was_cut_or_changed_behind_the_node_is_named() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    let local = local_file(&node, "orders", b"ten boxes")?;
    for number in 0..10 {
        login.sftp_batch(&node, &format!("put {} file-{number}\n", text(&local)?))?;
    }
    node.stop()?;
    ensure!(node.cli(&["journal", "verify"])?.contains("they agree"));
    let database = node.home().join("data/entrepot.db");
    let sql = |statement: &str| -> Result<()> {
        let done = Command::new("python3")
            .args(["-c", CHANGE_ONE_ROW])
            .arg(&database)
            .arg(statement)
            .output()?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    };
    let refused = || -> Result<String> {
        let output = node.command(&["journal", "verify"]).output()?;
        assert_eq!(output.status.code(), Some(6));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    sql("UPDATE events SET body = replace(body, '/file-4', '/file-x') \
         WHERE kind = 'file.uploaded' AND path = '/file-4'")?;
    ensure!(refused()?.contains("the row of this event was changed"));
    sql("UPDATE events SET body = replace(body, '/file-x', '/file-4') \
         WHERE kind = 'file.uploaded' AND path = '/file-4'")?;
    ensure!(node.cli(&["journal", "verify"])?.contains("they agree"));
    sql("DELETE FROM events WHERE kind = 'file.uploaded' AND path = '/file-7'")?;
    ensure!(refused()?.contains("is missing in the table"));
    Ok(())
}

#[test]
fn heads_go_to_a_file_and_to_a_bucket_and_the_journal_is_compared_with_them() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let bucket = S3Server::start()?;
    let document = bucket.endpoint("locked") + "      object_lock: true\n";
    node.cli_with_input(&["apply", "-"], &document)?;
    node.configure(
        "[[audit.sinks]]\nname = 'file'\nfile = 'heads'\n\
         [[audit.sinks]]\nname = 'bucket'\nendpoint = 'locked'",
    )?;
    node.start()?;
    let local = local_file(&node, "orders", b"ten boxes")?;
    login.sftp_batch(&node, &format!("put {} a\n", text(&local)?))?;
    let file = node.home().join("heads");
    node.until("a head in the file", || Ok(std::fs::read(&file).is_ok().then_some(())))?;
    // What was not sent yet is sent as the node stops.
    node.stop()?;
    let first_in = |folder: &Path| -> Result<PathBuf> {
        let entry = std::fs::read_dir(folder)?.flatten().next();
        Ok(entry.with_context(|| format!("nothing in {}", folder.display()))?.path())
    };
    let object = first_in(&first_in(&bucket.objects().join("heads"))?)?;
    for heads in [&file, &object] {
        let told = node.cli(&["journal", "verify", "--heads", text(heads)?])?;
        ensure!(told.contains("they agree"), "{told}");
    }
    // A head that speaks of more than the journal has.
    let size = |text: &str| -> Result<u64> {
        let head: serde_json::Value = serde_json::from_str(text.lines().last().context("a head")?)?;
        head["size"].as_u64().context("a size")
    };
    let text_of_heads = std::fs::read_to_string(&file)?;
    let said = size(&text_of_heads)?;
    let other =
        text_of_heads.replace(&format!("\"size\":{said}"), &format!("\"size\":{}", said + 1));
    std::fs::write(&file, other)?;
    let refused = node.command(&["journal", "verify", "--heads", text(&file)?]).output()?;
    assert_eq!(refused.status.code(), Some(6), "{}", String::from_utf8_lossy(&refused.stdout));
    Ok(())
}
