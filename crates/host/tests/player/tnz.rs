//! tnz as a client that is not ours: a library of PyPI; `scripts/need test` installs it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use entrepot_host::{Device, HostAddress, Key};
use serde_json::{Value, json};

use crate::steps::Step;

/// Does the steps, and answers what the screen showed before the last key.
pub(crate) fn works(device: &str, address: &HostAddress, steps: &[Step]) -> Vec<String> {
    let size = Device::named(device).unwrap().model.alternate();
    let order = json!({
        "host": address.host,
        "port": address.port,
        "device": device,
        "rows": size.rows,
        "columns": size.columns,
        "steps": steps.iter().map(order).collect::<Vec<_>>(),
    });
    // It writes a log where it is.
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(python())
        .current_dir(folder.path())
        .args(["-c", include_str!("tnz_peer.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(order.to_string().as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    serde_json::from_slice(&done.stdout).unwrap()
}

fn python() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    let python = std::path::absolute(target.join("clients-venv/bin/python3")).unwrap();
    assert!(python.exists(), "'{}' is missing: run scripts/need test", python.display());
    python
}

fn order(step: &Step) -> Value {
    match step {
        Step::See { at, text } => json!({"see": [at.row, at.column, text]}),
        Step::Fill { at, text } => json!({"fill": [at.row, at.column, text]}),
        Step::Press(Key::Aid(aid)) => json!({"press": aid.code()}),
        Step::Press(key) => panic!("no trace has {key:?}"),
    }
}
