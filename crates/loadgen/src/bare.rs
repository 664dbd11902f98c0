//! Servers that do nothing but their protocol, with files in memory: what the protocol alone costs
//! with the libraries that this program uses, as the floor of what is measured beside it. They know
//! no accounts, and whoever reaches them can fill the memory: they are for measuring.

pub(crate) mod files;

use std::net::SocketAddr;

use tokio::task::JoinHandle;

/// Serves until it is dropped.
#[derive(Debug)]
pub struct BareServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl BareServer {
    /// What listens at `address` and is served by this future, which never ends by itself.
    pub(crate) fn spawn(
        address: SocketAddr,
        serving: impl Future<Output = ()> + Send + 'static,
    ) -> BareServer {
        BareServer { address, task: tokio::spawn(serving) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
