//! Options of `key`.

use clap::Subcommand;
use entrepot_nouns::Name;

use super::NounCommand;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    #[command(flatten)]
    Noun(NounCommand),
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
