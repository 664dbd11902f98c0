//! Addresses and accounts that wrong passwords have locked: who is let in all the same, what an
//! operator sees, and how he lets them go.

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::Login;
use entrepot_testkit::clients::ftp::Protection::Clear;
use entrepot_testkit::server::Node;

use crate::program;

/// A node of FTP that locks an address after four wrong passwords, and three accounts.
fn node_that_locks() -> Result<(Node, [Login; 3])> {
    let mut node = Node::new(program(), None)?;
    let accounts = ["acme", "beta", "newcomer"];
    let logins = accounts.map(|account| Login::create(&node, account));
    node.add_ftp()?;
    node.cli(&["policy", "create", "strict", "address_failures=4", "account_failures=3"])?;
    node.cli(&["site", "change", "main", "policy=strict"])?;
    node.start()?;
    let [acme, beta, newcomer] = logins;
    Ok((node, [acme?, beta?, newcomer?]))
}

fn is_let_in(node: &Node, login: &Login) -> Result<bool> {
    let mut curl = login.curl_ftp(node, Clear)?;
    let output = curl.arg(login.ftp_url(node, "")?).output()?;
    Ok(output.status.success())
}

#[test]
fn a_forgotten_job_shuts_out_nobody_who_is_known_and_its_address_can_be_let_go() -> Result<()> {
    let (node, [acme, beta, newcomer]) = node_that_locks()?;
    ensure!(is_let_in(&node, &acme)? && is_let_in(&node, &beta)?);
    ensure!(node.json(&["address", "list"])?.as_array().is_some_and(Vec::is_empty));
    let job =
        Login { password: "old".to_owned(), key: beta.key.clone(), account: beta.account.clone() };
    for _ in 0..8 {
        ensure!(!is_let_in(&node, &job)?, "a wrong password was taken");
    }
    ensure!(is_let_in(&node, &acme)?, "the forgotten job of another shut it out");
    ensure!(!is_let_in(&node, &newcomer)?, "the address is not locked");
    let log = node.log();
    ensure!(log.contains("EP0307") && log.contains("until"), "{log}");

    let rows = node.json(&["addresses"])?;
    let row = rows.as_array().and_then(|rows| rows.first()).context("nothing is listed")?;
    ensure!(row["address"] == "127.0.0.1" && row["account"].is_null(), "{rows}");
    ensure!(row["state"] == "locked" && row["failures"] == 4, "{rows}");
    ensure!(row["since"].as_str() < row["until"].as_str(), "{rows}");
    ensure!(node.cli(&["address", "list"])?.contains("127.0.0.1"));

    node.cli(&["address", "unlock", "127.0.0.1"])?;
    ensure!(is_let_in(&node, &newcomer)? && is_let_in(&node, &beta)?, "it is locked still");
    let events = node.until("the event", || {
        let events = node.events("address.unlocked")?;
        Ok((!events.is_empty()).then_some(events))
    })?;
    ensure!(events[0]["address"] == "127.0.0.1" && events[0]["failures"] == 4, "{events:?}");
    ensure!(events[0]["by"].as_str().is_some_and(|by| by.starts_with("cli:uid-")), "{events:?}");
    let again = node.command(&["address", "unlock", "127.0.0.1"]).output()?;
    ensure!(again.status.code() == Some(3), "{again:?}");
    ensure!(String::from_utf8_lossy(&again.stderr).contains("EP0215"), "{again:?}");
    Ok(())
}

#[test]
fn an_account_that_others_guess_at_can_be_let_go() -> Result<()> {
    let (node, [acme, _, newcomer]) = node_that_locks()?;
    ensure!(is_let_in(&node, &acme)?, "it is known from then on");
    for account in [&acme, &newcomer] {
        let mut wrong = account.curl_ftp(&node, Clear)?;
        wrong.args(["--interface", "127.0.0.2", "-u", &format!("{}:wrong", account.account)]);
        wrong.arg(account.ftp_url(&node, "")?);
        for _ in 0..2 {
            ensure!(!wrong.output()?.status.success());
        }
    }
    let mut wrong = newcomer.curl_ftp(&node, Clear)?;
    wrong.args(["--interface", "127.0.0.3", "-u", "newcomer:wrong"]);
    ensure!(!wrong.arg(newcomer.ftp_url(&node, "")?).output()?.status.success());
    ensure!(!is_let_in(&node, &newcomer)?, "it is not locked");
    ensure!(is_let_in(&node, &acme)?);
    let rows = node.json(&["address", "list"])?;
    let locked: Vec<_> = rows
        .as_array()
        .into_iter()
        .flatten()
        .filter(|row| row["account"] == "newcomer")
        .map(|row| (row["address"].is_null(), row["failures"].as_u64()))
        .collect();
    assert_eq!(locked, [(true, Some(3))], "{rows}");
    node.cli(&["address", "unlock", "--account", "newcomer"])?;
    ensure!(is_let_in(&node, &newcomer)?, "it is locked still");
    node.until("the event", || {
        let events = node.events("account.unlocked")?;
        Ok(events.iter().any(|event| event["name"] == "newcomer").then_some(()))
    })
}

#[test]
fn a_lock_outlives_a_restart_until_it_is_lifted() -> Result<()> {
    let (mut node, [acme, beta, newcomer]) = node_that_locks()?;
    ensure!(is_let_in(&node, &acme)?, "it is known from then on");
    // Three lock the account where it is not known, and the fourth locks the address for all.
    for account in [&newcomer, &newcomer, &newcomer, &beta] {
        let (account, key) = (account.account.clone(), account.key.clone());
        let guess = Login { password: "old".to_owned(), account, key };
        ensure!(!is_let_in(&node, &guess)?, "a wrong password was taken");
    }
    node.stop()?;
    node.start()?;
    ensure!(!is_let_in(&node, &newcomer)?, "the restart has lifted the lock");
    ensure!(is_let_in(&node, &acme)?, "where it was known before the restart");
    let banned = node.cli(&["account", "banned"])?;
    ensure!(banned.contains("127.0.0.1") && banned.contains("locked"), "{banned}");
    node.cli(&["account", "unban", "127.0.0.1"])?;
    node.cli(&["account", "unban", "newcomer"])?;
    ensure!(is_let_in(&node, &newcomer)?, "it is locked still");
    for kind in ["address.unlocked", "account.unlocked"] {
        node.until(kind, || {
            let events = node.events(kind)?;
            let by_cli = |by: &str| by.starts_with("cli:uid-");
            Ok(events.iter().any(|event| event["by"].as_str().is_some_and(by_cli)).then_some(()))
        })?;
    }
    node.stop()
}
