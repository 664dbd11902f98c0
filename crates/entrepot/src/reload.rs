//! `reload` and SIGHUP: the process file is read again. What can change while the server runs does,
//! the rest is named.

use serde::{Deserialize, Serialize};

use crate::ask::ask_server;
use crate::config::Config;
use crate::failure::Failure;
use crate::log::LogControl;
use crate::output::Output;

/// What a running server reads again.
pub(crate) struct Reload {
    /// As it was read at the start.
    running: Config,
    log: LogControl,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reloaded {
    /// Changed keys of the process file that count from the next start on.
    pub(crate) next_start: Vec<String>,
}

impl Reload {
    pub(crate) fn new(running: Config, log: LogControl) -> Reload {
        Reload { running, log }
    }

    /// Reads the process file again; if it cannot be taken nothing changes.
    pub(crate) fn now(&self) -> Result<Reloaded, Failure> {
        let new = Config::read(&self.running.file)?;
        self.log.set_base(&new.log)?;
        let next_start = self.running.fixed_keys_that_differ(&new);
        tracing::info!(level = new.log.level, ?next_start, "the process file was read again");
        Ok(Reloaded { next_start })
    }
}

/// Asks the running server to read its process file again.
pub(crate) async fn run(config: &Config, output: Output) -> Result<(), Failure> {
    let reloaded: Reloaded = ask_server(config, "/v1/reload", None).await?;
    output.value(&reloaded, || {
        println!("the process file was read again");
        if !reloaded.next_start.is_empty() {
            println!("from the next start on: {}", reloaded.next_start.join(", "));
        }
    })
}
