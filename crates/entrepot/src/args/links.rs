//! Options of `link`.

use clap::{Args, Subcommand, ValueEnum};
use entrepot_nouns::{Name, Timestamp, VPath};

use super::units;

#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// All share links: whose files they open, until when, and how often they were used.
    List(LinkListArgs),
    /// Show a link, without its addresses.
    Show {
        /// Its name, as `link list` shows it.
        name: Name,
    },
    /// Make a link to files of an account, or one that takes files for it, and show its addresses
    /// once.
    Create(Box<LinkCreateArgs>),
    /// Let a link open nothing any more. It stays in lists, so that the audit log names who still
    /// uses it; `link delete` removes it.
    Revoke {
        /// Its name, as `link list` shows it.
        name: Name,
    },
    /// Delete a link with its addresses.
    Delete {
        /// Its name, as `link list` shows it.
        name: Name,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LinkListArgs {
    /// To files of this account only.
    #[arg(long)]
    pub(crate) owner: Option<Name>,
}

/// What recipients of a link may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkAllows {
    /// See the files and take them.
    Download,
    /// Add files, and see none.
    Upload,
    /// See and take files, and add some.
    Both,
}

#[derive(Debug, Args)]
pub(crate) struct LinkCreateArgs {
    /// The account whose files it opens.
    pub(crate) owner: Name,
    /// The folder that it opens, as the account sees it.
    pub(crate) folder: VPath,
    /// Only this file of the folder. Give it as often as needed; unset: the whole folder.
    #[arg(long = "file", value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// What recipients may do.
    #[arg(long, value_enum, default_value = "download")]
    pub(crate) allow: LinkAllows,
    /// When it ends: after a time such as `30d`, `12h` or `26w`, or at a moment such as
    /// `2027-01-01T00:00:00Z`; unset: after 14 days.
    #[arg(long, value_parser = units::end, value_name = "TIME")]
    pub(crate) expires: Option<Timestamp>,
    /// Ask recipients for a password, which is read from the standard input.
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// Only for the person with this mail address, who gets a link of their own. Give it as often
    /// as needed; unset: for everybody who has the link.
    #[arg(long = "for", value_name = "MAIL")]
    pub(crate) people: Vec<String>,
    /// How often something may be taken, over all people.
    #[arg(long)]
    pub(crate) downloads: Option<u32>,
    /// Most files that may be added.
    #[arg(long)]
    pub(crate) uploads: Option<u32>,
    /// Largest file that may be added, such as `100M`.
    #[arg(long, value_parser = units::size, value_name = "SIZE")]
    pub(crate) file_size: Option<u64>,
    /// Most bytes that may be added, all files together, such as `2G`.
    #[arg(long, value_parser = units::size, value_name = "SIZE")]
    pub(crate) upload_bytes: Option<u64>,
    /// Shown to recipients above the files.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) title: String,
    /// Its name; unset: one is made up.
    #[arg(long)]
    pub(crate) name: Option<Name>,
    /// What it is for, in words that recipients do not see.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) note: String,
}
