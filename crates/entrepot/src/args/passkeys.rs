//! Options of `passkey`.

use clap::{Args, Subcommand};
use entrepot_nouns::Name;

#[derive(Debug, Subcommand)]
pub(crate) enum PasskeyCommand {
    /// All passkeys: whose they are, where they were made, and when they were used last. Their
    /// owners add them at /account, with a browser.
    List(PasskeyListArgs),
    /// Remove a passkey. Browsers that it has signed in are signed out.
    Remove {
        /// Its name, as `passkey list` shows it.
        name: Name,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PasskeyListArgs {
    /// Of this account only.
    #[arg(long)]
    pub(crate) account: Option<Name>,
}
