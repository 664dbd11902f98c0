//! What a protocol adapter is given to serve one listener.

use std::fmt;

use entrepot_auth::Gate;
use entrepot_nouns::{Env, Name, SiteId};

use crate::Service;

/// The site and name of a listener, and the parts of the node that its sessions use.
#[derive(Clone)]
pub struct ListenerContext {
    /// The site that the listener belongs to.
    pub site: SiteId,
    /// The listener's name, unique in its site.
    pub listener: Name,
    /// Lets accounts log in.
    pub gate: Gate,
    /// Opens a session with files for what the gate has granted.
    pub vfs: Service,
    /// Clock and randomness.
    pub env: Env,
}

impl fmt::Debug for ListenerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerContext").field("listener", &self.listener).finish_non_exhaustive()
    }
}
