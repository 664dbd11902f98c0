//! Options of `token`.

use clap::{Args, Subcommand};
use entrepot_nouns::{Name, Source, Timestamp, TokenScope};

use super::units;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// All API tokens: whose they are, what for, until when, and when they were used last.
    List(TokenListArgs),
    /// Make an API token for an account and show it once. It logs in alone: whatever else the
    /// account is asked for at a login is not asked for.
    Create(TokenCreateArgs),
    /// Let an API token count no more. Its key stays, so that the audit log names who still uses
    /// it; `key delete` removes it.
    Revoke {
        /// Its name, as `token list` shows it.
        name: Name,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenListArgs {
    /// Of this account only.
    #[arg(long)]
    pub(crate) account: Option<Name>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// The account that it lets in.
    pub(crate) account: Name,
    /// What it may be used for: files:read, files:write, audit:read, admin:read, admin:write. Give
    /// it as often as needed.
    #[arg(long = "scope", required = true)]
    pub(crate) scopes: Vec<TokenScope>,
    /// When it ends: after a time such as `30d`, `12h` or `26w`, or at a moment such as
    /// `2027-01-01T00:00:00Z`; unset: as the policy of the account says, else after 90 days.
    #[arg(long, value_parser = units::end, value_name = "TIME")]
    pub(crate) expires: Option<Timestamp>,
    /// An address or a network that it may be used from; `!` in front refuses. Give it as often as
    /// needed; unset: anywhere.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: Vec<Source>,
    /// Name of its key; unset: one is made up.
    #[arg(long)]
    pub(crate) name: Option<Name>,
    /// What it is for, in words.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) note: String,
}
