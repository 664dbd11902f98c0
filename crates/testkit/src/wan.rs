//! A long line to a server of this machine, for tests that run no runtime of their own.

use std::time::Duration;

use anyhow::Result;
pub use entrepot_loadgen::wan::Peaks;
use entrepot_loadgen::wan::{Relay, Wan};
use entrepot_nouns::Env;
use tokio::runtime::Runtime;

/// A relay; it ends, with all its connections, when dropped.
pub struct Line {
    relay: Relay,
    _runtime: Runtime,
}

impl Line {
    /// To `port` of loopback, with this round trip, as fast as this machine.
    ///
    /// # Errors
    /// No threads or no port.
    pub fn to(port: u16, delay: Duration) -> Result<Line> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let entered = runtime.enter();
        let relay = Relay::start("127.0.0.1", port, Wan { delay, rate: None }, &Env::real())?;
        drop(entered);
        Ok(Line { relay, _runtime: runtime })
    }

    /// Port of its near end.
    pub fn port(&self) -> u16 {
        self.relay.address().port()
    }

    /// What was on its way at most.
    pub fn peaks(&self) -> Peaks {
        self.relay.peaks()
    }
}
