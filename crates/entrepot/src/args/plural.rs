//! The plural of a noun lists: `entrepot accounts` is `entrepot account list`.

use clap::Subcommand;

use super::facts::{EventListArgs, JobListArgs, TransferListArgs};
use super::links::LinkListArgs;
use super::passkeys::PasskeyListArgs;
use super::sign_ins::SignInListArgs;
use super::tokens::TokenListArgs;

/// Not shown on the first page, which would be twice as long.
#[derive(Debug, Subcommand)]
pub(crate) enum PluralCommand {
    /// As `site list`.
    #[command(hide = true)]
    Sites,
    /// As `account list`.
    #[command(hide = true)]
    Accounts,
    /// As `mount list`.
    #[command(hide = true)]
    Mounts,
    /// As `endpoint list`.
    #[command(hide = true)]
    Endpoints,
    /// As `model list`.
    #[command(hide = true)]
    Models,
    /// As `rule list`.
    #[command(hide = true)]
    Rules,
    /// As `key list`.
    #[command(hide = true)]
    Keys,
    /// As `token list`.
    #[command(hide = true)]
    Tokens(TokenListArgs),
    /// As `passkey list`.
    #[command(hide = true)]
    Passkeys(PasskeyListArgs),
    /// As `link list`.
    #[command(hide = true)]
    Links(LinkListArgs),
    /// As `listener list`.
    #[command(hide = true)]
    Listeners,
    /// As `policy list`.
    #[command(hide = true)]
    Policies,
    /// As `session list`.
    #[command(hide = true)]
    Sessions,
    /// As `sign-in list`.
    #[command(hide = true)]
    SignIns(SignInListArgs),
    /// As `node list`.
    #[command(hide = true)]
    Nodes,
    /// As `address list`.
    #[command(hide = true)]
    Addresses,
    /// As `transfer list`.
    #[command(hide = true)]
    Transfers(TransferListArgs),
    /// As `event list`.
    #[command(hide = true)]
    Events(EventListArgs),
    /// As `job list`.
    #[command(hide = true)]
    Jobs(JobListArgs),
}
