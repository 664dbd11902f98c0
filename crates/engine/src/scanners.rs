//! What scanners can, as long as what they said of that counts.

use std::collections::HashMap;
use std::time::Duration;

use entrepot_icap_proto::ServiceOptions;
use entrepot_nouns::Endpoint;
use entrepot_nouns::noun::Stored;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::limits::SCAN_OPTIONS_TIME;

/// What services of ICAP said of themselves.
#[derive(Default)]
pub(crate) struct Scanners(Mutex<HashMap<Uuid, Known>>);

struct Known {
    revision: i64,
    options: ServiceOptions,
    /// In the time of `Env::elapsed`.
    until: Duration,
}

impl Scanners {
    pub(crate) fn get(&self, endpoint: &Stored<Endpoint>, now: Duration) -> Option<ServiceOptions> {
        let known = self.0.lock();
        let known = known.get(&endpoint.id)?;
        let counts = known.revision == endpoint.revision && now < known.until;
        counts.then(|| known.options.clone())
    }

    pub(crate) fn keep(
        &self,
        endpoint: &Stored<Endpoint>,
        options: &ServiceOptions,
        now: Duration,
    ) {
        let ttl = Duration::from_secs(options.ttl_seconds.unwrap_or_default());
        let until = now.saturating_add(ttl.min(SCAN_OPTIONS_TIME));
        let known = Known { revision: endpoint.revision, options: options.clone(), until };
        self.0.lock().insert(endpoint.id, known);
    }
}
