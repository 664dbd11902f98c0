//! `host`: terminals of the 3270 family, and players in place of hosts.

mod call;
mod debug;
mod given;
mod model;
mod play;
mod record;
mod sample;
mod terminal;

pub(crate) use given::host_options;

use crate::args::{HostCommand, HostModelCommand};
use crate::failure::Failure;
use crate::output::Output;

/// Runs one of the host commands.
pub(crate) async fn run(command: HostCommand, output: Output) -> Result<(), Failure> {
    match command {
        HostCommand::Terminal(args) => terminal::run(args, output).await,
        HostCommand::Play(args) => play::run(*args, output).await,
        HostCommand::Model(HostModelCommand::Check(args)) => model::check(&args, output),
        HostCommand::Model(HostModelCommand::Test(args)) => model::test(&args, output).await,
        HostCommand::Model(HostModelCommand::Schema) => model::schema(),
        HostCommand::Sample(args) => sample::run(&args, output).await,
        HostCommand::Call(args) => call::run(args).await,
        HostCommand::Debug(args) => debug::run(&args, output),
        HostCommand::Record(args) => record::run(args, output).await,
    }
}
