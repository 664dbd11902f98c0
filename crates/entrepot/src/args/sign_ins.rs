//! Options of `sign-in`.

use clap::{Args, Subcommand};
use entrepot_nouns::{Name, SessionId};

#[derive(Debug, Subcommand)]
pub(crate) enum SignInCommand {
    /// Browsers that are signed in, on all nodes, the last seen first.
    List(SignInListArgs),
    /// Sign a browser out now.
    End {
        /// Its id, as `sign-in list` shows it.
        id: SessionId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SignInListArgs {
    /// As this account only.
    #[arg(long)]
    pub(crate) account: Option<Name>,
}
