//! The node that a bench measures: a process of its own, in a folder of its own.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use entrepot_admin::Document;
use entrepot_net::listen;
use entrepot_nouns::{Env, Name};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::args::InitArgs;
use crate::ask::ask;
use crate::config::Config;
use crate::failure::Failure;
use crate::init;

/// Longest wait until the node answers, or does what it was asked for.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether it does.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// A node that serves, until it is ended.
pub(super) struct NodeProcess {
    child: Child,
    folder: PathBuf,
}

impl NodeProcess {
    /// Starts a node that was made, and waits until it answers.
    pub(super) async fn start(
        config: &Config,
        folder: &Path,
        env: &Env,
        answers: impl AsyncFn() -> Result<bool, Failure>,
    ) -> Result<NodeProcess, Failure> {
        let log = folder.join("server.log");
        let cannot = |error| Failure::file(format!("cannot write '{}': {error}", log.display()));
        let log = File::create(&log).map_err(cannot)?;
        let child = program()?
            .arg("-c")
            .arg(&config.file)
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| Failure::start(format!("cannot start the node: {error}")))?;
        let mut node = NodeProcess { child, folder: folder.to_owned() };
        let began = env.elapsed();
        while !answers().await? {
            if let Ok(Some(status)) = node.child.try_wait() {
                let what = format!("the node ended with {status}: {}", node.log());
                return Err(Failure::start(what));
            }
            if env.elapsed().saturating_sub(began) > PATIENCE {
                return Err(Failure::start("the node does not answer"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(node)
    }

    /// The number of its process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it has told so far.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default()
    }

    /// Stops it as a crash would, without a word.
    pub(super) async fn stop(&mut self) -> Result<(), Failure> {
        let stopped = self.child.kill().await;
        stopped.map_err(|error| Failure::start(format!("the node cannot be stopped: {error}")))
    }

    /// Stops it and removes its folder.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        let stopped = self.stop().await;
        remove(&self.folder);
        stopped
    }
}

/// Makes something in a folder that is not there yet; where that fails the folder goes again.
pub(super) async fn in_new_folder<T>(
    folder: &Path,
    make: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    if folder.exists() {
        let folder = folder.display();
        return Err(Failure::usage(format!("'{folder}' exists: name a folder to be made")));
    }
    let made = make.await;
    if made.is_err() {
        remove(folder);
    }
    made
}

/// A node of a bench holds nothing that anybody wants.
fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        eprintln!("the folder of the bench stays: {error}");
    }
}

/// A node of its own, on SQLite, without listeners for the world.
pub(super) async fn new_node(folder: &Path) -> Result<Config, Failure> {
    let made = InitArgs {
        folder: folder.to_owned(),
        data: "data".into(),
        sftp: ([127, 0, 0, 1], 0).into(),
        ftp: None,
        https: None,
        ops: ([127, 0, 0, 1], 0).into(),
        database: "sqlite".to_owned(),
        node: None::<Name>,
        master_key: None,
    };
    init::make(&made).await
}

/// Applies nouns to a node; others stay.
pub(super) async fn apply(config: &Config, nouns: &[Value]) -> Result<(), Failure> {
    let document = |noun: &Value| Document { file: "<bench>".to_owned(), text: noun.to_string() };
    let documents: Vec<Document> = nouns.iter().map(document).collect();
    let request = json!({"request": "apply", "documents": documents, "prune": false});
    ask(config, request).await.map(drop)
}

/// An address of this machine that nobody listens on.
pub(super) fn free_address() -> Result<SocketAddr, Failure> {
    let address = listen::free_address(([127, 0, 0, 1], 0).into());
    address.map_err(|error| Failure::start(error.to_string()))
}

/// This program, for a process that ends with what holds it.
pub(super) fn program() -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::start(error.to_string()))?;
    let mut command = Command::new(program);
    command.kill_on_drop(true);
    Ok(command)
}
