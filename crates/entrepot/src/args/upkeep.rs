//! Options of the commands that keep an installation.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Say what there is to do and change nothing; exit code 7 if there is something.
    #[arg(long)]
    pub(crate) check: bool,
}
