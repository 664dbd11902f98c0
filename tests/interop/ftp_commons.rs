//! Apache Commons Net's FTPClient and FTPSClient beside the matrix: what one session is asked for
//! in a row, and APPE as its way to resume.

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::ftp::Protection::{Clear, Implicit, Tls};
use entrepot_testkit::clients::ftp::{Line, call_commons_net};
use entrepot_testkit::clients::matrix::Seat;
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::Node;

use crate::program;

/// A node whose listeners take data connections that resume no session of TLS, as those of the
/// library do.
fn node_that_prefers_resumption() -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    node.cli(&["listener", "change", "ftp", r#"ftp={"tls_reuse":"preferred"}"#])?;
    node.add_ftps(r#","tls_reuse":"preferred""#)?;
    node.start()?;
    Ok((node, login))
}

fn lines() -> impl Iterator<Item = Line> {
    [Clear, Tls, Implicit]
        .into_iter()
        .flat_map(|protection| [false, true].map(|active| Line { protection, active, ipv6: false }))
}

#[test]
fn one_session_sends_appends_resumes_and_lists() -> Result<()> {
    let (node, login) = node_that_prefers_resumption()?;
    let seat = Seat { node: &node, login: &login };
    let content = noise(61, 300_001);
    let local = local_file(&node, "local", &content)?;
    for (number, line) in lines().enumerate() {
        let folder = format!("session{number}");
        let said = call_commons_net(seat, line, &["in_one_session", text(&local)?, &folder])
            .with_context(|| format!("{line:?}; log of the server:\n{}", node.log()))?;
        let mut names: Vec<&str> = said.lines().collect();
        names.sort_unstable();
        ensure!(names == ["sent0 600002", "sent1 300001", "sent3 300001"], "{line:?}: {said}");
        let there = login.on_disk(&node, &folder);
        ensure!(std::fs::read(there.join("sent0"))? == content.repeat(2), "{line:?}: APPE");
        ensure!(std::fs::read(there.join("sent3"))? == content, "{line:?}: STOR");
        ensure!(std::fs::read(local.with_extension("back"))? == content, "{line:?}: REST, RETR");
        std::fs::remove_file(local.with_extension("back"))?;
    }
    Ok(())
}

#[test]
fn appe_goes_on_with_what_is_there() -> Result<()> {
    let (node, login) = node_that_prefers_resumption()?;
    let seat = Seat { node: &node, login: &login };
    let content = noise(62, 2_000_003);
    let local = local_file(&node, "local", &content)?;
    std::fs::create_dir_all(login.on_disk(&node, ""))?;
    for line in lines() {
        let first = content.get(..700_001).unwrap_or_default();
        std::fs::write(login.on_disk(&node, "part"), first)?;
        call_commons_net(seat, line, &["append", text(&local)?, "part"])
            .with_context(|| format!("{line:?}; log of the server:\n{}", node.log()))?;
        ensure!(std::fs::read(login.on_disk(&node, "part"))? == content, "{line:?}: it differs");
    }
    Ok(())
}
