//! What the parts of the story have in common.

use std::path::Path;
use std::time::Duration;

use entrepot_admin::{NumberedEvent, Response};
use entrepot_nouns::Env;
use serde_json::{Value, json};

use crate::ask::ask;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::unexpected;

/// Longest wait for something to happen, such as the delivery.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// The events that pass `filter` as soon as `wanted` is among them; `missing` says
/// what is not there in the end.
pub(super) async fn wait_for_events(
    config: &Config,
    env: &Env,
    filter: Value,
    wanted: impl Fn(&NumberedEvent) -> bool,
    missing: &str,
) -> Result<Vec<NumberedEvent>, Failure> {
    let start = env.elapsed();
    let request = json!({"request": "events", "filter": filter});
    loop {
        let Response::Events { events, .. } = ask(config, request.clone()).await? else {
            return Err(unexpected());
        };
        if events.iter().any(&wanted) {
            return Ok(events);
        }
        if env.elapsed().saturating_sub(start) > PATIENCE {
            return Err(Failure::new("EP0202", Exit::Failed, missing.to_owned()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

pub(super) fn write(path: &Path, content: &str) -> Result<(), Failure> {
    std::fs::write(path, content)
        .map_err(|error| Failure::file(format!("cannot write '{}': {error}", path.display())))
}
