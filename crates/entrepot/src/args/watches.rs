//! Options of `watch`.

use clap::Subcommand;
use entrepot_nouns::Name;

#[derive(Debug, Subcommand)]
pub(crate) enum WatchCommand {
    /// Files that a rule has found in the folder that it watches, by path.
    List {
        /// The rule that watches it, by name.
        rule: Name,
        /// Only those whose paths come after this one.
        #[arg(long)]
        after: Option<String>,
        /// Most of them; 100 unless given.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Have a file found anew, as if it had just come.
    Forget {
        /// The rule that watches it, by name.
        rule: Name,
        /// The file, as `watch list` shows it.
        path: String,
    },
}
