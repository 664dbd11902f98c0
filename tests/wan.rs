//! Over a long line many bytes are on their way at a time, or it would stand empty: windows and
//! requests are deep enough, up and down.

use std::time::Duration;

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{local_file, noise, text};
use entrepot_testkit::server::run;
use entrepot_testkit::wan::Line;

use crate::node_with;

/// Long enough that the windows fill before the first answer.
const ROUND_TRIP: Duration = Duration::from_millis(300);
/// 1 Gbit/s over 50 ms is 6 MiB.
const DEEP_BYTES: u64 = 8 << 20;

#[test]
fn our_client_fills_a_long_line() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(1, 32 << 20);
    let (up, down) = (local_file(&node, "up", &content)?, node.scratch().join("down"));
    let line = Line::to(node.sftp_port()?, ROUND_TRIP)?;
    let known = run(std::process::Command::new("ssh-keygen").arg("-lf").arg(node.known_hosts()?))?;
    let known = String::from_utf8(known.stdout)?;
    let key = known.split_whitespace().nth(1).unwrap_or_default();
    let url = format!("sftp://acme@127.0.0.1:{}/big", line.port());
    let options = ["--identity", text(&login.key)?, "--accept-host-key", key];
    run(node.command(&["put", text(&up)?, &url]).args(options))?;
    ensure!(line.peaks().up_bytes > DEEP_BYTES, "{:?}", line.peaks());
    run(node.command(&["get", &url, text(&down)?]).args(options))?;
    ensure!(line.peaks().down_bytes > DEEP_BYTES, "{:?}", line.peaks());
    ensure!(std::fs::read(&down)? == content, "it came back different");
    Ok(())
}

#[test]
fn the_load_generator_fills_a_long_line() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let target = format!("127.0.0.1:{}", node.sftp_port()?);
    let report = node.json(&[
        "bench",
        "sftp",
        "--target",
        &target,
        "--user",
        "acme",
        "--key",
        text(&login.key)?,
        "--delay",
        "300ms",
        "--size",
        "32M",
        "--rounds",
        "1",
        "--workload",
        "upload",
        "--workload",
        "download",
    ])?;
    let peaks = &report["on_the_way"];
    ensure!(peaks["up_bytes"].as_u64() > Some(DEEP_BYTES), "{peaks}");
    ensure!(peaks["down_bytes"].as_u64() > Some(DEEP_BYTES), "{peaks}");
    Ok(())
}

/// Many at once, of many sizes, both ways: none fails, and the table counts them all.
#[test]
fn a_mixed_load_has_no_failures() -> Result<()> {
    let (node, login) = node_with("acme")?;
    node.cli(&["policy", "create", "many", "sessions=1000"])?;
    node.cli(&["account", "change", "acme", "policy=many"])?;
    let target = format!("127.0.0.1:{}", node.sftp_port()?);
    let key = text(&login.key)?;
    let words = ["bench", "sftp", "--target", &target, "--user", "acme", "--key", key];
    let mix = ["--workload", "mixed", "--uploads", "100", "--downloads", "20", "--scale", "1000"];
    let report = node.json(&[&words[..], &mix[..], &["--rounds", "1"]].concat())?;
    let groups = report["groups"].as_array().cloned().unwrap_or_default();
    let sum = |field: &str| groups.iter().filter_map(|g| g[field].as_u64()).sum::<u64>();
    ensure!((sum("count"), sum("failed")) == (120, 0), "{report:#}");
    ensure!(groups.len() == 8, "{groups:#?}");
    ensure!(std::fs::read_dir(login.on_disk(&node, ""))?.next().is_none(), "files are left");
    Ok(())
}
