//! `host`: terminals of the 3270 family, and players in place of hosts.

mod given;
mod play;
mod record;
mod terminal;

use crate::args::HostCommand;
use crate::failure::Failure;
use crate::output::Output;

/// Runs one of the host commands.
pub(crate) async fn run(command: HostCommand, output: Output) -> Result<(), Failure> {
    match command {
        HostCommand::Terminal(args) => terminal::run(args, output).await,
        HostCommand::Play(args) => play::run(*args, output).await,
        HostCommand::Record(args) => record::run(args, output).await,
    }
}
