//! What `bench as2` measures, and against what.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use entrepot_crypto::Certificate;
use entrepot_net::tls::TlsVersion;

use super::recipe::MessageRecipe;
use super::saved::SavedMessage;
use crate::https::{Login, Target};

/// What is measured, and against what.
pub struct As2Bench {
    /// The address that takes messages: [`Target::address`].
    pub target: Target,
    /// The only version of TLS.
    pub tls_version: TlsVersion,
    /// Who signs in, with every request; none: nobody.
    pub login: Option<Login>,
    /// Where messages come from.
    pub source: MessageSource,
    /// Certificates that may sign receipts.
    pub trusted: Vec<Arc<Certificate>>,
    /// Messages of each iteration.
    pub messages: u64,
    /// Messages under way at a time, each on a connection of its own.
    pub concurrency: usize,
    /// How often it is measured.
    pub iterations: u32,
    /// Messages a second over all connections; none: as fast as the server answers.
    pub rate: Option<f64>,
    /// What one message may take.
    pub deadline: Duration,
    /// Process id of a local server, for what it spends.
    pub server_pid: Option<u32>,
    /// Folder of its control group, where it has one of its own: finer than the process tree.
    pub server_group: Option<PathBuf>,
}

/// Where messages come from.
pub enum MessageSource {
    /// They are made here.
    Built(Arc<MessageRecipe>),
    /// A message that was saved, with its header.
    Saved(SavedMessage),
}

impl As2Bench {
    /// The name in reports.
    pub(super) fn name(&self) -> &'static str {
        match self.source {
            MessageSource::Built(_) => "as2-built",
            MessageSource::Saved(_) => "as2-saved",
        }
    }
}
