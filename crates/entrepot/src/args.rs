//! The command line: verbs of the program, and `NOUN VERB` for everything that it keeps.

mod as2;
mod bench;
mod bench_as2;
mod examples;
mod facts;
mod host;
mod keys;
mod links;
mod passkeys;
mod plural;
mod remote;
mod rules;
mod sign_ins;
mod tokens;
mod units;
mod upkeep;
mod watches;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use entrepot_admin::UnlockTarget;
use entrepot_nouns::{Name, SessionId, TransferId};

pub(crate) use as2::{As2Command, As2MessagesArgs, As2SendArgs, As2VerifyArgs};
pub(crate) use bench::{
    BareFtpArgs, BareHttpsArgs, BareSftpArgs, BenchCommand, BenchFtpArgs, BenchHttpsArgs,
    BenchPageArgs, BenchRulesArgs, BenchSftpArgs, FtpTls, FtpWorkload, HttpVersionWord,
    HttpsWorkload, RulesWorkload, Workload,
};
pub(crate) use bench_as2::BenchAs2Args;
pub(crate) use facts::{
    EventCommand, EventExportArgs, JobCommand, JobListArgs, TransferCommand, TransferListArgs,
};
pub(crate) use host::{
    BenchHostArgs, BenchHostPart, HostCallArgs, HostCommand, HostDebugArgs, HostModelArgs,
    HostModelCommand, HostPlayArgs, HostRecordArgs, HostSampleArgs, HostTerminalArgs,
    HostTrustArgs, MatchWord, NamedValue, NoMatchWord,
};
pub(crate) use keys::{ImportedKeyType, KeyImportArgs};
pub(crate) use links::{LinkAllows, LinkCommand, LinkCreateArgs};
pub(crate) use passkeys::PasskeyCommand;
use plural::PluralCommand;
pub(crate) use remote::RemoteArgs;
pub(crate) use rules::{
    ExplainArgs, ReplayArgs, RuleDiffArgs, RuleDryRunArgs, RuleSourceArgs, RunArgs, TraceArgs,
};
pub(crate) use sign_ins::SignInCommand;
pub(crate) use tokens::{TokenCommand, TokenCreateArgs};
use units::size;
pub(crate) use upkeep::{BackupArgs, MigrateArgs, RestoreArgs, RotateArgs, SecretsCommand};
pub(crate) use watches::WatchCommand;

/// Heading of the options that stand on each page.
const EVERYWHERE: &str = "Options of every command";

/// Managed file transfer: SFTP and FTP in front, rules behind, every fact durable.
///
/// Everything that is kept is reached by NOUN VERB; the plural of a noun lists: `entrepot accounts`
/// is `entrepot account list`.
#[derive(Debug, Parser)]
#[command(name = "entrepot", version, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// The process file; unset: `entrepot.toml` here, or else `/etc/entrepot/entrepot.toml`.
    #[arg(long, short, global = true, help_heading = EVERYWHERE, env = "ENTREPOT_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The site whose nouns and facts are meant.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    #[arg(env = "ENTREPOT_SITE", value_name = "NAME")]
    pub(crate) site: Option<Name>,
    /// Print JSON instead of a table.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(subcommand)]
    pub(crate) given: Given,
}

/// What was written on the command line.
#[derive(Debug, Subcommand)]
pub(crate) enum Given {
    #[command(flatten)]
    Command(Command),
    #[command(flatten)]
    Plural(PluralCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server until it is told to stop.
    Serve,
    /// Make a process file, a data directory, a master key and the first listeners.
    Init(InitArgs),
    /// Start a server in ./demo, move a file through the whole path and tell the story.
    Demo,
    /// Make the configuration as the documents say, all or nothing.
    Apply(ApplyArgs),
    /// Show what `apply` would do.
    Plan(ApplyArgs),
    /// Print the configuration as documents.
    Export(ExportArgs),
    /// Take over accounts, folders and keys of another server.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Sites: tenants, each with accounts, mounts and rules of its own.
    #[command(subcommand)]
    Site(NounCommand),
    /// Accounts and groups: who logs in, and how.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Mounts: which folders an account sees, where their files lie, and what it may do there.
    #[command(subcommand)]
    Mount(NounCommand),
    /// Endpoints: where files lie, and where rules deliver them.
    #[command(subcommand)]
    Endpoint(NounCommand),
    /// Models: host applications, whose procedures are called.
    #[command(subcommand)]
    Model(NounCommand),
    /// Rules: what happens after an upload, at a time of day, or before a command.
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Keys of users and hosts, and certificates.
    #[command(subcommand)]
    Key(KeyCommand),
    /// API tokens: what programs log in with.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Passkeys: what people sign in with by browser, without a password.
    #[command(subcommand)]
    Passkey(PasskeyCommand),
    /// Share links: files for people who have no account, and from them.
    #[command(subcommand)]
    Link(LinkCommand),
    /// Listeners: addresses and protocols at which clients reach this server.
    #[command(subcommand)]
    Listener(ListenerCommand),
    /// Policies: rates, limits, addresses and algorithms.
    #[command(subcommand)]
    Policy(NounCommand),
    /// Sessions: who is connected now.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Sign-ins: browsers that are signed in.
    #[command(subcommand)]
    SignIn(SignInCommand),
    /// Addresses and accounts that wrong passwords have delayed or locked.
    #[command(subcommand)]
    Address(AddressCommand),
    /// The nodes of the installation, and this one as a whole.
    #[command(subcommand)]
    Node(NodeCommand),
    /// The log of the running server.
    #[command(subcommand)]
    Log(LogCommand),
    /// Transfers: files on their way, and what became of the others.
    #[command(subcommand)]
    Transfer(TransferCommand),
    /// Events: the audit log.
    #[command(subcommand)]
    Event(EventCommand),
    /// Jobs: runs of rules, which go on after a restart.
    #[command(subcommand)]
    Job(JobCommand),
    /// Say where a file is: from its arrival through rules and jobs to its deliveries.
    Trace(TraceArgs),
    /// Files that rules have found in the folders that they watch.
    #[command(subcommand)]
    Watch(WatchCommand),
    /// Messages of AS2, their receipts and evidence.
    #[command(subcommand)]
    As2(As2Command),
    /// The journal of this node.
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Proof that a file arrived or left, which anyone can verify with the public key of the node.
    Receipt(ReceiptArgs),
    /// Bring the tables of a stopped node up to date with this program, and set a torn end of its
    /// journal aside. The server does the same at its start; no other command does.
    Migrate(MigrateArgs),
    /// Copy database, journal and process file into a new folder, and list the published files;
    /// the node may run.
    Backup(BackupArgs),
    /// Make a node from a backup on a machine that has none, or compare files with a backup.
    Restore(RestoreArgs),
    /// The master key and what is sealed under it.
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Check configuration, permissions, clock, disk and database, and say what to do.
    Doctor,
    /// Ask the running server whether it takes uploads; exit code 1 if not.
    Health(HealthArgs),
    /// Send files to any SFTP, FTP or FTPS server.
    Put(PutArgs),
    /// Fetch files from any SFTP, FTP or FTPS server.
    Get(GetArgs),
    /// Work at a terminal of a mainframe host (TN3270), or stand for a host.
    #[command(subcommand)]
    Host(HostCommand),
    /// Measure a server.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Let a running server read its process file again, as SIGHUP does.
    Reload,
    /// Tell a running server to stop in good order.
    Stop,
    /// The helper that starts programs for the server.
    #[command(hide = true)]
    Spawner,
    /// Write the manual pages of all commands into a folder.
    #[command(hide = true)]
    Manual {
        /// It must exist.
        folder: PathBuf,
    },
    /// Print a completion script.
    Completion {
        /// The shell that reads the script.
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// True if it reads or writes the data folder itself, whether a server runs or not, and
    /// nothing else: run by root it is to be the user whom that folder belongs to.
    pub(crate) fn is_of_the_owner(&self) -> bool {
        matches!(
            self,
            Command::Doctor
                | Command::Migrate(_)
                | Command::Journal(JournalCommand::Verify { folder: None, .. })
        )
    }
}

impl Given {
    /// The command that is meant: the plural of a noun stands for its `list`.
    pub(crate) fn command(self) -> Command {
        let plural = match self {
            Given::Command(command) => return command,
            Given::Plural(plural) => plural,
        };
        match plural {
            PluralCommand::Sites => Command::Site(NounCommand::List),
            PluralCommand::Accounts => Command::Account(AccountCommand::Noun(NounCommand::List)),
            PluralCommand::Mounts => Command::Mount(NounCommand::List),
            PluralCommand::Endpoints => Command::Endpoint(NounCommand::List),
            PluralCommand::Models => Command::Model(NounCommand::List),
            PluralCommand::Rules => Command::Rule(RuleCommand::Noun(NounCommand::List)),
            PluralCommand::Keys => Command::Key(KeyCommand::Noun(NounCommand::List)),
            PluralCommand::Tokens(args) => Command::Token(TokenCommand::List(args)),
            PluralCommand::Passkeys(args) => Command::Passkey(PasskeyCommand::List(args)),
            PluralCommand::Links(args) => Command::Link(LinkCommand::List(args)),
            PluralCommand::Listeners => Command::Listener(ListenerCommand::Noun(NounCommand::List)),
            PluralCommand::Policies => Command::Policy(NounCommand::List),
            PluralCommand::Sessions => Command::Session(SessionCommand::List),
            PluralCommand::SignIns(args) => Command::SignIn(SignInCommand::List(args)),
            PluralCommand::Nodes => Command::Node(NodeCommand::List),
            PluralCommand::Addresses => Command::Address(AddressCommand::List),
            PluralCommand::Transfers(args) => Command::Transfer(TransferCommand::List(args)),
            PluralCommand::Events(args) => Command::Event(EventCommand::List(args)),
            PluralCommand::Jobs(args) => Command::Job(JobCommand::List(args)),
        }
    }
}

impl Cli {
    /// The whole command line, with examples on the page of each command.
    pub(crate) fn page() -> clap::Command {
        examples::add(Cli::command())
    }
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Folder for the process file and the data.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Folder for the data; relative to that of the process file.
    #[arg(long, default_value = "data")]
    pub(crate) data: PathBuf,
    /// Address of the first SFTP listener.
    #[arg(long, default_value = "0.0.0.0:2022")]
    pub(crate) sftp: SocketAddr,
    /// Address of a listener of FTP; unset: none.
    #[arg(long)]
    pub(crate) ftp: Option<SocketAddr>,
    /// Address of a listener of HTTPS; unset: none.
    #[arg(long)]
    pub(crate) https: Option<SocketAddr>,
    /// Address of metrics and health.
    #[arg(long, default_value = "127.0.0.1:9422")]
    pub(crate) ops: SocketAddr,
    /// `sqlite` or a PostgreSQL URL.
    #[arg(long, default_value = "sqlite")]
    pub(crate) database: String,
    /// Name of this node; unset: that of the machine.
    #[arg(long)]
    pub(crate) node: Option<Name>,
    /// A copy of the master key of an installation whose database is in use: this machine becomes
    /// one more node of it, as by `node join`, and nothing that it has is changed.
    #[arg(long, value_name = "FILE")]
    pub(crate) master_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Documents, or folders of `*.yaml` and `*.yml`; `-` is standard input.
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Also delete what the documents do not name.
    #[arg(long)]
    pub(crate) prune: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only these kinds.
    #[arg(value_parser = units::kind())]
    pub(crate) kinds: Vec<entrepot_nouns::Kind>,
    /// Write one file a kind into this folder instead of printing.
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// From the sshd of this machine: those who are confined to SFTP, their folders and keys, and
    /// the host keys. What is there already is left as it is; run it again as often as you like.
    Openssh(ImportOpensshArgs),
    /// Holidays from an iCalendar file, for the calendar of a policy: `when.cron.calendar` and
    /// `when.expect.calendar` of rules name that policy. What its calendar has stays.
    Calendar(ImportCalendarArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportCalendarArgs {
    /// The file, as calendars of the web and of office programs give it (`.ics`).
    pub(crate) file: PathBuf,
    /// The policy; it is made if there is none of this name.
    #[arg(long)]
    pub(crate) policy: Name,
    /// Report what would be taken and take nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportOpensshArgs {
    /// The configuration of sshd.
    #[arg(long = "sshd-config", value_name = "FILE", default_value = "/etc/ssh/sshd_config")]
    pub(crate) config_file: PathBuf,
    /// Folder of the files `passwd` and `group`.
    #[arg(long, value_name = "FOLDER", default_value = "/etc")]
    pub(crate) users: PathBuf,
    /// The listener that shows the host keys.
    #[arg(long, default_value = "sftp")]
    pub(crate) listener: Name,
    /// Report what would be made and make nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NounCommand {
    /// All of them.
    List,
    /// One of them, whole.
    Show {
        /// Its name, as `list` shows it.
        name: Name,
    },
    /// Make a new one.
    Create(FieldArgs),
    /// Change fields of one.
    Change(FieldArgs),
    /// Delete one that nothing refers to.
    Delete {
        /// Its name, as `list` shows it.
        name: Name,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    #[command(flatten)]
    Noun(NounCommand),
    /// Make a key of a certificate, and of its private half, in a file of another program: PEM,
    /// DER, PKCS #7 (`.p7b`) or PKCS #12 (`.p12`, `.pfx`).
    Import(KeyImportArgs),
    /// Make an OpenPGP key of ours, with which rules decrypt and sign, and show its public half,
    /// which partners need. The private half is stored sealed and is shown to nobody.
    Generate {
        /// Its name here.
        name: Name,
        /// Whose key it is, as partners see it, such as `Example Ltd <edi@example.com>`.
        #[arg(long)]
        owner: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RuleCommand {
    #[command(flatten)]
    Noun(NounCommand),
    /// Say why an event started which rules and which not: trigger, condition with the values of
    /// its parts, depth and job. The rules are taken as they are now.
    Explain(ExplainArgs),
    /// Start a rule by hand, one whose `when` is `call`.
    Run(RunArgs),
    /// Say step by step what a rule would do, stored or not: values, branches, targets and what is
    /// there now. Nothing is touched, nothing is recorded.
    DryRun(RuleDryRunArgs),
    /// Try the tests of rules, stored or not; 6: one failed.
    Test(RuleSourceArgs),
    /// Say what of rules, stored or not, is probably not meant; 6: something is.
    Lint(RuleSourceArgs),
    /// Say what differs between rules of documents and those that are stored, and on which events
    /// of late only one of the two starts.
    Diff(RuleDiffArgs),
    /// Say which jobs a rule would make again of events that have happened, and with the id that is
    /// shown then, make them: each once, however often it is said.
    Replay(ReplayArgs),
    /// Have the jobs of a rule wait until it is resumed. What runs goes on, and events go on to
    /// make jobs.
    Pause {
        /// Its name, as `list` shows it.
        name: Name,
    },
    /// Let the jobs of a paused rule go on; also of one that the server paused because it ran too
    /// often on one path.
    Resume {
        /// Its name, as `list` shows it.
        name: Name,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    #[command(flatten)]
    Noun(NounCommand),
    /// Make a code generator for an account and show once what it is set up with; from then on
    /// its code is asked for after the password or key.
    Totp {
        /// The account that logs in with the code.
        name: Name,
        /// Replace the generator that it has.
        #[arg(long)]
        replace: bool,
        /// Take the generator away.
        #[arg(long, conflicts_with = "replace")]
        remove: bool,
    },
    /// Make the token by which the first administrator is made and show it once, while there is
    /// none. `init` makes the first such token.
    SetUpToken,
    /// Make ten recovery codes for an account with a code generator and show them once: each
    /// stands in for one code of a generator that is lost. Those made before are void.
    RecoveryCodes {
        /// The account that logs in with them.
        name: Name,
    },
    /// Accounts and addresses that wrong passwords have delayed or locked. As `address list`.
    Banned,
    /// Let an account or an address log in again: its wrong passwords are forgotten on all nodes.
    /// As `address unlock`.
    Unban {
        /// An account, or an address, or a network of IPv6 as `banned` shows it.
        #[arg(value_name = "NAME|ADDRESS", value_parser = units::unban_target)]
        target: UnlockTarget,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ListenerCommand {
    #[command(flatten)]
    Noun(NounCommand),
    /// Certificates that listeners have from authorities (ACME): until when, when the next one is
    /// asked for, and why there is none.
    Certificates,
    /// Ask the authority for the certificate of a listener now, whatever is left of it. Open
    /// connections stay.
    RenewCertificate {
        /// Its name, as `list` shows it.
        name: Name,
    },
}

#[derive(Debug, Args)]
pub(crate) struct FieldArgs {
    /// Its name: 1 to 64 letters, digits, `.`, `_`, `-`, `@`; a letter or digit comes first.
    pub(crate) name: Name,
    /// Fields, `path=value`: the value is read as JSON if it is JSON, else as text; an empty
    /// value removes the field. Example: `quota.files=100 rights=read-only`.
    pub(crate) fields: Vec<String>,
    /// Read the account's password from standard input.
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// Read a field's value from a file: `private=host_key`.
    #[arg(long, value_name = "FIELD=FILE")]
    pub(crate) from_file: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Who is connected.
    List,
    /// End a session now.
    End {
        /// Its id, as `session list` shows it.
        id: SessionId,
    },
    /// Set how fast one session may go, until it ends; limits that it shares with others stay.
    Limit {
        /// Its id, as `session list` shows it.
        id: SessionId,
        /// Bytes a second from the client, such as `500K`; unset: no limit of its own.
        #[arg(long, value_parser = size)]
        upload: Option<u64>,
        /// Bytes a second to the client; unset: no limit of its own.
        #[arg(long, value_parser = size)]
        download: Option<u64>,
        /// As the policies say again.
        #[arg(long, conflicts_with_all = ["upload", "download"])]
        reset: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AddressCommand {
    /// Which are delayed or locked, on all nodes together, since when and until when.
    List,
    /// Forget the wrong passwords of an address or an account: it may log in again at once.
    Unlock {
        /// An address, or a network of IPv6 as `list` shows it.
        #[arg(value_parser = units::address, required_unless_present = "account")]
        address: Option<IpAddr>,
        /// An account, wherever its wrong passwords came from.
        #[arg(long, conflicts_with = "address")]
        account: Option<Name>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// All nodes: whether they serve, their last heartbeat and how long it took, how far their
    /// clock is ahead of the database's, how much of their journal is in the database.
    List,
    /// Set how fast everything together may go, of all sites, until the server ends.
    Limit {
        /// Bytes a second from clients, such as `50M`; unset: no limit.
        #[arg(long, value_parser = size)]
        upload: Option<u64>,
        /// Bytes a second to clients; unset: no limit.
        #[arg(long, value_parser = size)]
        download: Option<u64>,
        /// As the policy of the site `main` says again.
        #[arg(long, conflicts_with_all = ["upload", "download"])]
        reset: bool,
    },
    /// One node, whole.
    Show {
        /// Its name, as `list` shows it.
        name: Name,
    },
    /// Let a node take no new sessions and no new jobs until `undrain`; it goes on running, and
    /// what it has begun ends.
    Drain {
        /// Its name, as `list` shows it; unset: this one.
        name: Option<Name>,
    },
    /// Let a node take new sessions and jobs again.
    Undrain {
        /// Its name, as `list` shows it; unset: this one.
        name: Option<Name>,
    },
    /// Set how many steps of jobs a node runs at once, by pool. It holds at once, and what runs
    /// goes on.
    Pools {
        /// Its name, as `list` shows it; unset: this one.
        name: Option<Name>,
        /// Steps that work on the node itself, programs among them.
        #[arg(long, required_unless_present_any = ["source", "target"])]
        instance: Option<u32>,
        /// Steps that read from partners.
        #[arg(long)]
        source: Option<u32>,
        /// Steps that write to partners.
        #[arg(long)]
        target: Option<u32>,
    },
    /// Make a process file and a data directory for one more node of an installation.
    Join(JoinArgs),
    /// Take a node that has ended off the list; another one may have its name then.
    Remove {
        /// Its name, as `list` shows it.
        name: Name,
        /// Its journal is lost, with the events that the database does not have of it.
        #[arg(long)]
        lost: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// Folder for the process file and the data.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Folder for the data; relative to that of the process file.
    #[arg(long, default_value = "data")]
    pub(crate) data: PathBuf,
    /// The PostgreSQL URL of the installation.
    #[arg(long)]
    pub(crate) database: String,
    /// A copy of the installation's master key, which is the file `data/master.key` of its first
    /// node.
    #[arg(long, value_name = "FILE")]
    pub(crate) master_key: PathBuf,
    /// Name of this node; unset: that of the machine.
    #[arg(long)]
    pub(crate) node: Option<Name>,
    /// Address of metrics and health.
    #[arg(long, default_value = "127.0.0.1:9422")]
    pub(crate) ops: SocketAddr,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Set how much is logged of a subject, until the server ends; without one, show what differs
    /// from the process file.
    Level {
        /// Subjects: all, admin, auth, db, engine, ftp, journal, net, server, sftp, spawn, ssh,
        /// storage, vfs. Levels: off, error, warn, info, debug, trace; an empty one is
        /// that of the process file.
        #[arg(value_name = "SUBJECT=LEVEL")]
        levels: Vec<String>,
        /// As the process file says again.
        #[arg(long, conflicts_with = "levels")]
        reset: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// The signed heads of the journal, the shortest first.
    Heads {
        /// Only those that cover more records than this.
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// Show no more than so many; at most 10000.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Check the chain of every record, and compare the journal with its signed heads and the
    /// events in the database; exit code 6 if anything was changed, cut, dropped or added.
    Verify {
        /// Folder of a journal, whose chain is then checked by itself; unset: the one of the
        /// process file, with its database.
        folder: Option<PathBuf>,
        /// A file of heads that a sink wrote, or that was taken from a collector of syslog: what
        /// these heads cover must still be the same.
        #[arg(long, value_name = "FILE", conflicts_with = "folder")]
        heads: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct ReceiptArgs {
    /// Print the receipt of this transfer, as JSON.
    pub(crate) transfer: Option<TransferId>,
    #[command(subcommand)]
    pub(crate) command: Option<ReceiptCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptCommand {
    /// Verify a receipt, without a server, and print what it proves; exit code 6 if it is not
    /// valid.
    Verify {
        /// The receipt; `-` reads standard input.
        file: PathBuf,
        /// The public key of the node, as `receipt key` prints it there, or `@` and a file that
        /// holds it. Have it from someone you trust, not from the receipt.
        #[arg(long)]
        key: String,
    },
    /// Print the public key of this node, for those who verify its receipts and heads.
    Key,
}

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Ask only whether it runs and answers.
    #[arg(long)]
    pub(crate) live: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// Files, and folders with `--recursive`.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// `sftp://user@host:port/path`, or the same with `ftp`, where TLS begins before the login, or
    /// `ftps`, where it begins with the connection; `/~/path` lies below the home. A path that is a
    /// directory, or ends in a slash, keeps the files' names.
    #[arg(value_name = "URL")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// `sftp://user@host:port/path`, or the same with `ftp`, where TLS begins before the login, or
    /// `ftps`, where it begins with the connection; `/~/path` lies below the home.
    #[arg(value_name = "URL")]
    pub(crate) from: String,
    /// File or folder to write to.
    #[arg(default_value = ".")]
    pub(crate) local: PathBuf,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// How to log in to a server, and how to move.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Private key for SFTP, OpenSSH form; without one the password is asked for.
    #[arg(long, short)]
    pub(crate) identity: Option<PathBuf>,
    /// Read the password from standard input.
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// A host key that is right: its `SHA256:…` fingerprint, or its whole line.
    #[arg(long, value_name = "KEY")]
    pub(crate) accept_host_key: Vec<String>,
    /// Host keys that are right, as OpenSSH keeps them; unset: `~/.ssh/known_hosts`.
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,
    /// The certificate that an FTP server shows: its SHA-256 fingerprint, or PEM.
    #[arg(long, value_name = "CERTIFICATE")]
    pub(crate) accept_certificate: Vec<String>,
    /// Authorities that sign an FTP server's certificate, PEM; unset: those this machine trusts.
    #[arg(long, value_name = "FILE")]
    pub(crate) authorities: Option<PathBuf>,
    /// Give an `ftp://` server password and files in clear text, without TLS.
    #[arg(long)]
    pub(crate) clear_text: bool,
    /// Let an FTP server connect for data.
    #[arg(long)]
    pub(crate) active: bool,
    /// Go on where an earlier run was cut.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Folders with all that is in them.
    #[arg(long, short)]
    pub(crate) recursive: bool,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    fn meant(line: &str) -> String {
        let matches = Cli::page().try_get_matches_from(line.split(' ')).unwrap();
        format!("{:?}", Cli::from_arg_matches(&matches).unwrap().given.command())
    }

    #[test]
    fn the_plural_of_a_noun_lists() {
        let nouns = [
            "site", "account", "mount", "endpoint", "rule", "key", "listener", "policy", "session",
            "transfer", "event", "job", "address", "node", "token", "passkey", "sign-in",
        ];
        for noun in nouns {
            let plural = match noun {
                "policy" => "policies".to_owned(),
                "address" => "addresses".to_owned(),
                noun => format!("{noun}s"),
            };
            let list = meant(&format!("entrepot {noun} list"));
            assert_eq!(meant(&format!("entrepot {plural}")), list);
        }
        let list = meant("entrepot event list --kind file.uploaded --limit 7");
        assert_eq!(meant("entrepot events --kind file.uploaded --limit 7"), list);
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
