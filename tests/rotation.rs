//! Another master key: killed at each step, the same command goes on, and nothing is lost.

use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::Node;

use crate::{node_with, program};

/// Where a rotation can be cut, and whether the new key is in its place by then.
const STEPS: [&str; 3] = ["rotation.key", "rotation.sealed", "rotation.kept"];

fn id_of_key(node: &Node) -> Result<String> {
    let backup = node.scratch().join("backup");
    let _ = std::fs::remove_dir_all(&backup);
    node.cli(&["backup", text(&backup)?, "--no-digests"])?;
    let manifest = std::fs::read(backup.join("manifest.json"))?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest)?;
    Ok(manifest["master_key_id"].as_str().context("an id")?.to_owned())
}

/// Starts, logs in, uploads and stops: host keys and the key of the node open.
fn serves(node: &mut Node, login: &Login) -> Result<()> {
    node.start()?;
    let local = local_file(node, "orders", b"ten boxes")?;
    login.sftp_batch(node, &format!("put {} orders\n", text(&local)?))?;
    node.stop()?;
    ensure!(node.cli(&["journal", "verify"])?.contains("they agree"));
    Ok(())
}

#[test]
fn a_rotation_goes_on_wherever_it_was_cut() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    let refused = node.command(&["secrets", "rotate"]).output()?;
    ensure!(String::from_utf8_lossy(&refused.stderr).contains("EP0297"), "the node serves");
    node.stop()?;
    for step in STEPS {
        let before = id_of_key(&node)?;
        let cut = node.command(&["secrets", "rotate"]).env("ENTREPOT_CRASH_AT", step).output()?;
        ensure!(!cut.status.success(), "it was not cut at {step}");
        let told = node.command(&["account", "list"]).output()?;
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        ensure!(told.contains("EP0908"), "at {step}: {told}");
        let said = node.cli(&["secrets", "rotate"])?;
        ensure!(said.contains("are sealed under the master key"), "{said}");
        let data = node.home().join("data");
        let mode = |name: &str| -> Result<u32> {
            let meta = std::fs::metadata(data.join(name)).with_context(|| name.to_owned())?;
            Ok(meta.permissions().mode() & 0o777)
        };
        assert_eq!(
            (mode("master.key")?, mode(&format!("master.key.old-{before}"))?),
            (0o600, 0o600)
        );
        ensure!(!data.join("master.key.new").exists(), "{step}");
        ensure!(id_of_key(&node)? != before, "the key is another one");
        serves(&mut node, &login).with_context(|| format!("cut at {step}"))?;
    }
    assert_eq!(node.events("secrets.rotated")?.len(), STEPS.len());
    Ok(())
}

#[test]
fn a_key_of_the_environment_is_replaced_by_another_one() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    node.stop()?;
    let key = node.home().join("data/master.key");
    let old = std::fs::read_to_string(&key)?;
    std::fs::remove_file(&key)?;
    let file = node.home().join("entrepot.toml");
    let before = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("master_key = \"env:OLD_KEY\"\n{before}"))?;
    let other = Node::new(program(), None)?;
    let new = std::fs::read_to_string(other.home().join("data/master.key"))?;
    let mut rotate = node.command(&["secrets", "rotate"]);
    let unnamed = rotate.env("OLD_KEY", &old).output()?;
    ensure!(String::from_utf8_lossy(&unnamed.stderr).contains("--to"));
    let mut rotate = node.command(&["secrets", "rotate", "--to", "env:NEW_KEY"]);
    let done = rotate.env("OLD_KEY", &old).env("NEW_KEY", &new).output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // The old key opens nothing any more.
    node.set("OLD_KEY", &old);
    ensure!(node.start().is_err(), "it starts with the old key");
    node.unset();
    std::fs::write(&file, format!("master_key = \"env:NEW_KEY\"\n{before}"))?;
    node.set("NEW_KEY", &new);
    node.start()?;
    let local = local_file(&node, "orders", b"ten boxes")?;
    login.sftp_batch(&node, &format!("put {} orders\n", text(&local)?))?;
    node.stop()
}
