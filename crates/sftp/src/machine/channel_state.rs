//! The state of one SFTP channel beside its protocol machine.

use std::sync::Arc;

use entrepot_sftp_proto::Handles;
use entrepot_sftp_proto::reply::DataBuffer;
use entrepot_vfs::CommandRuleWatch;
use tokio_util::sync::CancellationToken;

use super::long_request::Long;
use super::open::Open;
use crate::connection::ConnectionShared;
use crate::parked::Parked;

/// All but the protocol machine, which lends the requests that this carries out.
pub(super) struct ChannelState {
    pub(super) shared: Arc<ConnectionShared>,
    pub(super) handles: Handles<Open>,
    pub(super) parked: Parked,
    pub(super) buffer: DataBuffer,
    /// Uploads begun so far.
    pub(super) uploads: u64,
    /// Bytes of answers that may still be made in this call.
    pub(super) budget: u64,
    /// Bytes answered while the client took nothing.
    pub(super) owed: u64,
    /// A path of a store that waits for a network was used.
    pub(super) waits: bool,
    /// The channel is gone: what takes long is given up.
    pub(super) gone: CancellationToken,
    /// Waits for the channel's own task.
    pub(super) long: Option<Box<Long>>,
    /// Whether rules look at requests.
    pub(super) rules: CommandRuleWatch,
    pub(super) broken: Option<&'static str>,
}

impl ChannelState {
    pub(super) fn new(shared: Arc<ConnectionShared>, gone: CancellationToken) -> ChannelState {
        ChannelState {
            rules: shared.watch_rules(),
            shared,
            handles: Handles::default(),
            parked: Parked::default(),
            buffer: DataBuffer::default(),
            uploads: 0,
            budget: 0,
            owed: 0,
            waits: false,
            gone,
            long: None,
            broken: None,
        }
    }
}
