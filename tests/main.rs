//! End-to-end tests: the real program, real clients, real servers. One binary, so that it is
//! linked once.

mod acme;
mod approvals;
mod as2;
mod as2_bench;
mod as2_nodes;
mod as2_send;
mod as2_stations;
mod backup;
mod bad_input;
mod balanced;
mod book;
mod browser;
mod budgets;
mod calls;
mod check_rules;
mod cli;
mod client;
mod client_certificates;
mod clocks;
mod cluster;
mod crash;
mod crowds;
mod disk_full;
mod expects;
mod explain;
mod floods;
mod foresight;
mod holds;
mod hooks;
mod hooks_http;
mod hooks_kept;
mod hooks_sftp;
mod host_away;
mod host_bench;
mod host_clients;
mod host_debug;
mod hosts;
mod interop;
mod limits;
mod links;
mod live;
mod locked;
mod login;
mod login_hook;
mod loops;
mod migrate;
mod partners;
mod policies;
mod pools;
mod programs;
mod readme;
mod receipts;
mod replace_openssh;
mod rest;
mod rotation;
mod routes;
mod scan;
mod schedules;
mod secrets;
mod service;
mod sign_in;
mod steps;
mod stores;
mod storm;
mod talk;
mod thresholds;
mod trace_far;
mod transforms;
mod upgrade;
mod wan;
mod watch_cuts;
mod watches;
mod web_hooks;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::Result;
use entrepot_testkit::clients::{Login, text};
use entrepot_testkit::server::Node;

/// The program under test: `ENTREPOT_PROGRAM`, else the one that was built with the tests.
fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let built = || env!("CARGO_BIN_EXE_entrepot").into();
        std::env::var_os("ENTREPOT_PROGRAM").unwrap_or_else(built).into()
    });
    &PROGRAM
}

/// The program as somebody runs it far from a node: by its API alone.
fn far(node: &Node) -> Result<Command> {
    let certificate = format!("@{}", text(&node.certificate_of("https")?)?);
    let server = format!("https://127.0.0.1:{}", node.port_of("https")?);
    let mut command = Command::new(program());
    command.current_dir(node.scratch()).env_remove("ENTREPOT_CONFIG");
    command.args(["--server", &server, "--server-certificate", &certificate]);
    Ok(command)
}

/// A node that runs, and an account of it.
fn node_with(account: &str) -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, account)?;
    node.start()?;
    Ok((node, login))
}
