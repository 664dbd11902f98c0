//! The `entrepot` program: command line and wiring. Each protocol is started by one arm of one
//! match in `listeners.rs`; everything else lives in the crates below.

mod account;
mod addresses;
mod addresses_file;
mod args;
mod ask;
mod bench;
mod client;
mod config;
mod demo;
mod doctor;
mod facts;
mod failure;
mod import;
mod init;
mod journal;
mod listeners;
mod log;
mod metrics;
mod node;
mod nouns;
mod ops;
mod output;
mod parts;
mod serve;
mod served;
mod table;

use std::process::ExitCode;

use clap::FromArgMatches;
use entrepot_nouns::Kind;

use args::{Cli, Command, ImportCommand, NounCommand};
use config::Config;
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    let cli =
        Cli::from_arg_matches(&Cli::page().get_matches()).unwrap_or_else(|error| error.exit());
    let Cli { config, site, json, given } = cli;
    let command = given.command();
    if matches!(command, Command::Spawner) {
        // One thread, so that starting a program is cheap; see `entrepot_spawn`.
        return entrepot_spawn::serve_as_helper();
    }
    let output = if json { Output::Json } else { Output::Human };
    let config = || Config::read(&config).map(|it| Config { site: site.clone(), ..it });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(command, config, output)),
        Err(error) => Err(Failure::start(format!("cannot start threads: {error}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", table::printable_lines(&failure.to_string()));
            ExitCode::from(failure.exit as u8)
        }
    }
}

async fn run(
    command: Command,
    config: impl Fn() -> Result<Config, Failure>,
    output: Output,
) -> Result<(), Failure> {
    match command {
        Command::Serve => serve::run(&config()?).await,
        Command::Init(args) => init::run(&args, output).await,
        Command::Demo => demo::run().await,
        Command::Apply(args) => nouns::apply(&config()?, output, "apply", &args).await,
        Command::Plan(args) => nouns::apply(&config()?, output, "plan", &args).await,
        Command::Export(args) => nouns::export(&config()?, output, &args).await,
        Command::Import(ImportCommand::Openssh(args)) => {
            import::run(&config()?, output, &args).await
        }
        Command::Site(command) => {
            // The site main owns them all.
            noun(Config { site: None, ..config()? }, output, Kind::Site, command).await
        }
        Command::Account(command) => account::run(&config()?, output, command).await,
        Command::Mount(command) => noun(config()?, output, Kind::Mount, command).await,
        Command::Endpoint(command) => noun(config()?, output, Kind::Endpoint, command).await,
        Command::Rule(command) => noun(config()?, output, Kind::Rule, command).await,
        Command::Key(command) => noun(config()?, output, Kind::Key, command).await,
        Command::Listener(command) => noun(config()?, output, Kind::Listener, command).await,
        Command::Policy(command) => noun(config()?, output, Kind::Policy, command).await,
        Command::Session(command) => node::sessions(&config()?, output, command).await,
        Command::Address(command) => addresses::run(&config()?, output, command).await,
        Command::Node(command) => node::nodes(&config()?, output, command).await,
        Command::Log(command) => node::log(&config()?, output, command).await,
        Command::Transfer(command) => facts::transfers(&config()?, output, command).await,
        Command::Event(command) => facts::events(&config()?, output, command).await,
        Command::Job(command) => facts::jobs(&config()?, output, command).await,
        Command::Journal(command) => journal::run(config, output, command),
        Command::Doctor => doctor::run(&config()?, output).await,
        Command::Put(args) => client::put(output, args).await,
        Command::Get(args) => client::get(output, args).await,
        Command::Bench(command) => bench::run(output, command).await,
        Command::Spawner => Err(Failure::start("the helper has no server to serve")),
        Command::Stop => node::stop(&config()?, output).await,
        Command::Completion { shell } => {
            let mut command = Cli::page();
            clap_complete::generate(shell, &mut command, "entrepot", &mut std::io::stdout());
            Ok(())
        }
    }
}

async fn noun(
    config: Config,
    output: Output,
    kind: Kind,
    command: NounCommand,
) -> Result<(), Failure> {
    nouns::run(&config, output, kind, command).await
}
