//! The `entrepot` program: command line and wiring. Each protocol is started by one arm of one
//! match in `listeners.rs`; everything else lives in the crates below.

mod account;
mod addresses;
mod addresses_file;
mod admin_client;
mod api_node;
mod args;
mod as2;
mod as2_certificate;
mod ask;
mod audit_file;
mod backup;
mod backup_manifest;
mod bench;
mod certificates;
mod client;
mod condition_tree;
mod config;
mod debug_folder;
mod demo;
mod deployed;
mod descriptors;
mod doctor;
mod dry_run_text;
mod event_export;
mod facts;
mod failed_journal;
mod failure;
mod health;
mod host;
mod import;
mod init;
mod join;
mod journal;
mod keys;
mod links;
mod listeners;
mod local_copy;
mod log;
mod metrics;
mod migrate;
mod node;
mod nouns;
mod ops;
mod ops_token;
mod output;
mod own_rights;
mod owner;
mod parts;
mod passkeys;
mod process_file;
mod published;
mod readiness;
mod receipt;
mod reload;
mod remote;
mod restore;
mod rule_reports;
mod rules;
mod sandbox;
mod secrets;
mod serve;
mod served;
mod sign_ins;
mod sinks;
mod standard_input;
mod table;
mod tokens;
mod trace;
mod watches;
mod without_database;

use std::process::ExitCode;

use clap::FromArgMatches;
use entrepot_nouns::Kind;

use admin_client::AdminClient;
use args::{Cli, Command, JournalCommand, NodeCommand, NounCommand, SecretsCommand};
use config::Config;
use failure::Failure;
use output::Output;
use remote::{RemoteServer, local_only};

fn main() -> ExitCode {
    let cli =
        Cli::from_arg_matches(&Cli::page().get_matches()).unwrap_or_else(|error| error.exit());
    let Cli { config, site, json, remote, given } = cli;
    let command = given.command();
    if matches!(command, Command::Spawner) {
        // One thread, so that starting a program is cheap; see `entrepot_spawn`.
        descriptors::lower_for_programs();
        return entrepot_spawn::serve_as_helper();
    }
    let output = if json { Output::Json } else { Output::Human };
    let config = config.unwrap_or_else(config::usual_file);
    let client = || match RemoteServer::of(&remote, site.as_ref())? {
        Some(server) => Ok(AdminClient::Remote(server)),
        None => {
            let config = Config::read(&config)?;
            Ok(AdminClient::Local(Box::new(Config { site: site.clone(), ..config })))
        }
    };
    let config = || match &remote.server {
        Some(_) => Err(local_only("it works on the node of this machine")),
        None => client()?.config(),
    };
    let result = match command {
        Command::Serve => serve(config),
        command if command.is_of_the_owner() => as_owner(config).and_then(|config| {
            let client = || Ok(AdminClient::Local(Box::new(config.clone())));
            on_threads(run(command, client, output))
        }),
        command => on_threads(run(command, client, output)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", table::printable_lines(&failure.to_string()));
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Gives up rights while this is the only thread, then serves.
fn serve(config: impl Fn() -> Result<Config, Failure>) -> Result<(), Failure> {
    let config = config()?;
    let given_up = own_rights::give_up(&config)
        .map_err(|error| Failure::start(format!("cannot give up rights: {error}")))?;
    on_threads(serve::run(&config, &given_up))
}

/// Reads the process file, which may be root's, and then becomes the owner of the data if this is
/// root.
fn as_owner(config: impl Fn() -> Result<Config, Failure>) -> Result<Config, Failure> {
    let config = config()?;
    owner::become_owner_of(&config.data)?;
    Ok(config)
}

fn on_threads(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::start(format!("cannot start threads: {error}")))?;
    runtime.block_on(work)
}

async fn run(
    command: Command,
    client: impl Fn() -> Result<AdminClient, Failure>,
    output: Output,
) -> Result<(), Failure> {
    let config = || client()?.config();
    match command {
        Command::Serve => Err(Failure::start("the server starts before all threads")),
        Command::Init(args) => init::run(&args, output).await,
        Command::Demo => demo::run().await,
        Command::Apply(args) => nouns::apply(&client()?, output, "apply", &args).await,
        Command::Plan(args) => nouns::apply(&client()?, output, "plan", &args).await,
        Command::Export(args) => nouns::export(&client()?, output, &args).await,
        Command::Import(command) => import::run(command, client()?, output).await,
        // The site main owns them all.
        Command::Site(command) => noun(&client()?.at_main(), output, Kind::Site, command).await,
        Command::Account(command) => account::run(&client()?, output, command).await,
        Command::Mount(command) => noun(&client()?, output, Kind::Mount, command).await,
        Command::Model(command) => noun(&client()?, output, Kind::Model, command).await,
        Command::Endpoint(command) => noun(&client()?, output, Kind::Endpoint, command).await,
        Command::Rule(command) => rules::run(&client()?, output, command).await,
        Command::Key(command) => keys::run(&client()?, output, command).await,
        Command::Link(command) => links::run(&client()?, output, command).await,
        Command::Passkey(command) => passkeys::run(&client()?, output, command).await,
        Command::Token(command) => tokens::run(&client()?, output, command).await,
        Command::Listener(command) => certificates::run(&client()?, output, command).await,
        Command::Policy(command) => noun(&client()?, output, Kind::Policy, command).await,
        Command::Session(command) => node::sessions(&client()?, output, command).await,
        Command::SignIn(command) => sign_ins::run(&client()?, output, command).await,
        Command::Address(command) => addresses::run(&client()?, output, command).await,
        Command::Node(NodeCommand::Join(args)) => join::run(&args, output).await,
        Command::Node(command) => node::nodes(&client()?, output, command).await,
        Command::Log(command) => node::log(&client()?, output, command).await,
        Command::Transfer(command) => facts::transfers(&client()?, output, command).await,
        Command::Event(command) => facts::events(&client()?, output, command).await,
        Command::Job(command) => facts::jobs(&client()?, output, command).await,
        Command::Trace(args) => trace::run(&client()?, output, args).await,
        Command::Watch(command) => watches::run(&client()?, output, command).await,
        Command::Journal(JournalCommand::Heads { after, limit }) => {
            node::journal_heads(&client()?, output, after, limit).await
        }
        Command::Journal(JournalCommand::Verify { folder, heads }) => {
            journal::run(config, output, folder.as_deref(), heads.as_deref()).await
        }
        Command::As2(command) => as2::run(client, output, command).await,
        Command::Receipt(args) => receipt::run(client, output, args).await,
        Command::Host(command) => host::run(command, output).await,
        Command::Health(args) => health::run(&config()?, output, &args).await,
        Command::Migrate(args) => migrate::run(&config()?, output, &args).await,
        Command::Backup(args) => backup::run(&config()?, output, &args).await,
        Command::Restore(args) => restore::run(config, output, &args).await,
        Command::Secrets(SecretsCommand::Rotate(args)) => {
            secrets::rotate(&config()?, output, &args).await
        }
        Command::Doctor => doctor::run(&config()?, output).await,
        Command::Put(args) => client::put(output, args).await,
        Command::Get(args) => client::get(output, args).await,
        Command::Bench(command) => bench::run(output, command).await,
        Command::Spawner => Err(Failure::start("the helper has no server to serve")),
        Command::Reload => reload::run(&config()?, output).await,
        Command::Stop => node::stop(&client()?, output).await,
        Command::Manual { folder } => clap_mangen::generate_to(Cli::page(), &folder)
            .map_err(|error| Failure::file(format!("cannot write manual pages: {error}"))),
        Command::Completion { shell } => {
            let mut command = Cli::page();
            clap_complete::generate(shell, &mut command, "entrepot", &mut std::io::stdout());
            Ok(())
        }
    }
}

async fn noun(
    client: &AdminClient,
    output: Output,
    kind: Kind,
    command: NounCommand,
) -> Result<(), Failure> {
    nouns::run(client, output, kind, command).await
}
