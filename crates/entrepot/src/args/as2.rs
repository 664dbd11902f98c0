//! Options of `as2`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use entrepot_nouns::as2::{As2MessageName, As2State};
use entrepot_nouns::{Direction, Name, Timestamp};

use super::units::word;

#[derive(Debug, Subcommand)]
pub(crate) enum As2Command {
    /// Messages, both ways, the newest first.
    Messages(As2MessagesArgs),
    /// One message: who, what, its receipt and what is known of its connection.
    Show {
        /// Its id, as `as2 messages` shows it, or its Message-ID.
        message: As2MessageName,
    },
    /// Write all that proves a message into one file, which `as2 verify` checks anywhere.
    Evidence {
        /// Its id, as `as2 messages` shows it, or its Message-ID.
        message: As2MessageName,
        /// The file; unset: it is printed.
        #[arg(long, short)]
        output: Option<PathBuf>,
    },
    /// Try everything that a delivery to a partner needs: keys, connection, TLS, a signed test
    /// message and its receipt. The partner gets a small file; 6: a step failed.
    Test {
        /// The endpoint of the partner.
        partner: Name,
    },
    /// Send a message again that left here: the same one, by its Message-ID, if its job failed or
    /// was cancelled; if its partner has confirmed it, the file as a new message.
    Resend {
        /// Its id, as `as2 messages` shows it, or its Message-ID.
        message: As2MessageName,
    },
    /// End the job that sends a message: it is not sent again.
    Cancel {
        /// Its id, as `as2 messages` shows it, or its Message-ID.
        message: As2MessageName,
    },
    /// Check what `as2 evidence` wrote, offline: signature, MIC, digests and our own receipt; 6:
    /// something does not hold.
    Verify(As2VerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct As2MessagesArgs {
    /// Of the partner of this endpoint.
    #[arg(long)]
    pub(crate) partner: Option<Name>,
    /// This one, by its id, or those with this Message-ID.
    #[arg(long, value_name = "ID")]
    pub(crate) message: Option<As2MessageName>,
    /// `in` or `out`.
    #[arg(long, value_parser = word::<Direction>)]
    pub(crate) direction: Option<Direction>,
    /// In this state.
    #[arg(long, value_parser = word::<As2State>)]
    pub(crate) state: Option<As2State>,
    /// In their state at or after, RFC 3339.
    #[arg(long)]
    pub(crate) since: Option<Timestamp>,
    /// In their state before, RFC 3339.
    #[arg(long)]
    pub(crate) until: Option<Timestamp>,
    /// Show no more than so many, the newest; at most 10000.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct As2VerifyArgs {
    /// The evidence; `-` is standard input.
    pub(crate) bundle: PathBuf,
    /// The public key of the node that recorded it, or `@` and a file that has it; unset: the one
    /// that the evidence names, and then it is for you to know whose that is.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// The certificate that must have signed the receipt: a file of PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    /// The file of the message, to compare its digests.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
