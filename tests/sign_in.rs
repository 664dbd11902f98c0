//! API tokens, roles and sign-ins by the command line, with and without a server.

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{local_file, text};
use serde_json::Value;

use crate::hooks::blocks;
use crate::node_with;

fn rows(value: &Value) -> Vec<&Value> {
    value.as_array().into_iter().flatten().collect()
}

#[test]
fn a_token_is_shown_once_listed_and_revoked() -> Result<()> {
    let (mut node, _) = node_with("acme")?;
    let create = ["token", "create", "acme", "--scope", "files:read", "--scope", "files:write"];
    let more = ["--expires", "30d", "--from", "192.0.2.0/24", "--name", "nightly"];
    let made = node.json(&[create.as_slice(), more.as_slice()].concat())?;
    let token = made["token"].as_str().context("no token")?.to_owned();
    ensure!(token.starts_with("ept_") && token.len() == 53, "{token}");
    let shown = node.cli(&create)?;
    ensure!(shown.contains("ept_") && shown.contains("not shown again"), "{shown}");

    node.stop()?;
    let listed = node.json(&["tokens", "--account", "acme"])?;
    let listed = rows(&listed);
    ensure!(listed.len() == 2, "{listed:?}");
    ensure!(listed[0]["name"] == "nightly" && listed[0]["state"] == "active", "{listed:?}");
    ensure!(listed[0]["scopes"] == serde_json::json!(["files:read", "files:write"]));
    ensure!(node.cli(&["token", "list"])?.contains("nightly"));
    node.start()?;

    node.cli(&["token", "revoke", "nightly"])?;
    let listed = node.json(&["token", "list"])?;
    ensure!(rows(&listed)[0]["state"] == "revoked", "{listed}");
    let wrong = node.command(&["token", "revoke", "nightli"]).output()?;
    assert_eq!(wrong.status.code(), Some(3));
    ensure!(String::from_utf8_lossy(&wrong.stderr).contains("nightly"), "{wrong:?}");
    let scope = node.command(&["token", "create", "acme", "--scope", "files"]).output()?;
    assert_eq!(scope.status.code(), Some(2));
    ensure!(String::from_utf8_lossy(&scope.stderr).contains("files:read"), "{scope:?}");

    let secret = &token[4..];
    let events = serde_json::to_string(&node.events("config.changed")?)?;
    ensure!(events.contains("nightly") && !events.contains(secret), "{events}");
    ensure!(!node.cli(&["export"])?.contains(secret) && !node.log().contains(secret));
    node.cli(&["key", "delete", "nightly"])?;
    ensure!(rows(&node.json(&["tokens"])?).len() == 1);
    Ok(())
}

#[test]
fn roles_are_kept_with_accounts_of_administrators() -> Result<()> {
    let (node, _) = node_with("acme")?;
    let shown = node.cli(&["account", "set-up-token"])?;
    ensure!(shown.starts_with("epi_"), "{shown}");
    node.cli(&["account", "create", "boss", "type=admin"])?;
    let needless = node.command(&["account", "set-up-token"]).output()?;
    ensure!(String::from_utf8_lossy(&needless.stderr).contains("EP0111"), "{needless:?}");
    node.cli(&["account", "create", "olga", "type=admin", "role=operator"])?;
    ensure!(node.cli(&["account", "show", "olga"])?.contains("operator"));
    let partner = node.command(&["account", "change", "acme", "role=viewer"]).output()?;
    assert_eq!(partner.status.code(), Some(4));
    let site = node.command(&["account", "change", "olga", "role=site-administrator"]).output()?;
    ensure!(String::from_utf8_lossy(&site.stderr).contains("EP0102"), "{site:?}");
    ensure!(rows(&node.json(&["sign-ins"])?).is_empty());
    let id = "019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a10";
    let nobody = node.command(&["sign-in", "end", id]).output()?;
    assert_eq!(nobody.status.code(), Some(3));
    ensure!(String::from_utf8_lossy(&nobody.stderr).contains("EP1041"), "{nobody:?}");
    Ok(())
}

/// The documents of `docs/howto/sign-in.md`; who signs in by a provider is tested in `web`.
#[test]
fn a_site_trusts_a_provider_whose_secret_is_never_shown() -> Result<()> {
    let (node, _) = node_with("acme")?;
    let page = include_str!("../docs/howto/sign-in.md");
    let documents = blocks(page, "yaml").into_iter().find(|block| block.contains("oidc:"));
    let file = local_file(&node, "corp.yaml", documents.context("no example")?.as_bytes())?;
    node.cli(&["apply", text(&file)?])?;
    node.cli(&["site", "change", "main", "oidc.corp.label=Corp"])?;
    let shown = node.json(&["site", "show", "main"])?;
    let corp = &shown["noun"]["site"]["oidc"]["corp"];
    ensure!(corp["client_secret_sealed"] == "***" && corp["label"] == "Corp", "{shown}");
    let exported = node.cli(&["export"])?;
    ensure!(exported.contains("248289761001"), "{exported}");
    let events = serde_json::to_string(&node.events("config.changed")?)?;
    for said in [exported, events, node.log(), shown.to_string()] {
        ensure!(!said.contains("ZmFyIHRvbyBzZWNyZXQ"), "the secret is shown: {said}");
    }
    Ok(())
}
