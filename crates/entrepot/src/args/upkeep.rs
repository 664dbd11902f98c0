//! Options of the commands that keep an installation: upgrade, backup, restore, master key.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Say what there is to do and change nothing; exit code 7 if there is something.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// A new folder, or an empty one.
    pub(crate) folder: PathBuf,
    /// Put the master key into the backup too: whoever can read it can then read all secrets.
    #[arg(long)]
    pub(crate) with_master_key: bool,
    /// List published files with their sizes only, and read none of them.
    #[arg(long)]
    pub(crate) no_digests: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The folder that `backup` made.
    pub(crate) backup: PathBuf,
    /// Folder for the process file; it must have none.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Folder for the data, new or empty; relative to that of the process file.
    #[arg(long, default_value = "data")]
    pub(crate) data: PathBuf,
    /// The master key, where the backup does not hold it.
    #[arg(long, value_name = "FILE")]
    pub(crate) master_key: Option<PathBuf>,
    /// Restore nothing: name each published file of this node that is missing, changed or not in
    /// the backup; exit code 6 if there is one.
    #[arg(long, conflicts_with_all = ["folder", "data", "master_key"])]
    pub(crate) check: bool,
    /// With `--check`: compare sizes only.
    #[arg(long, requires = "check")]
    pub(crate) no_digests: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Seal all secrets of the installation anew under another master key. All nodes must be
    /// stopped.
    Rotate(RotateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Where the new master key is: `file:PATH`, which is made if it is not there, or `env:NAME`.
    /// Unset: a new one takes the place of the file that the process file names.
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<String>,
}
