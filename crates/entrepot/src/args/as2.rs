//! Options of `as2`.

use std::path::PathBuf;
use std::str::FromStr;

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
    /// Send a file to a partner, as one message: a job does it, and tries again as jobs do.
    Send(As2SendArgs),
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
pub(crate) struct As2SendArgs {
    /// The endpoint of the partner.
    pub(crate) partner: Name,
    /// The file: an endpoint, a colon and the path there, such as `orders:/out/4711.edi`.
    #[arg(value_name = "ENDPOINT:PATH")]
    pub(crate) file: FileAtEndpoint,
    /// What it is called at the partner; unset: its own name.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Its media type, such as `application/edi-x12`; unset: by the extension of its name.
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// One line for people.
    #[arg(long)]
    pub(crate) subject: Option<String>,
}

/// A file of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct FileAtEndpoint {
    pub(crate) endpoint: Name,
    pub(crate) path: String,
}

impl FromStr for FileAtEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (endpoint, path) = text
            .split_once(':')
            .filter(|(_, path)| !path.is_empty())
            .ok_or("say the endpoint and the path there, as in orders:/out/4711.edi")?;
        let endpoint = Name::from_str(endpoint).map_err(|error| error.to_string())?;
        Ok(FileAtEndpoint { endpoint, path: path.to_owned() })
    }
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
