//! The nodes of an installation: each says in the database that it lives, and all are listed.

use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::limits;
use crate::parts::AdminParts;
use crate::request::{Actor, NodeRow, NodeState, Response};

/// All nodes that ever served or projected events.
pub(crate) async fn list(parts: &AdminParts, actor: &Actor) -> Result<Response> {
    actor.must_be_of_main()?;
    let now = parts.env.now();
    let nodes = parts.db.nodes().await?.into_iter().map(|node| NodeRow {
        state: if node.drained {
            NodeState::Drained
        } else if now.since(node.heartbeat_at) > limits::NODE_SILENT_AFTER {
            NodeState::Silent
        } else {
            NodeState::Serving
        },
        name: node.name,
        heartbeat_at: node.heartbeat_at,
        projected_up_to: node.projected_up_to,
    });
    Ok(Response::Nodes { nodes: nodes.collect() })
}

/// Writes this node's heartbeat until `until`, and whether it drains. A database that is away
/// delays it: the others see the node as silent meanwhile.
pub(crate) async fn keep_alive(
    parts: &AdminParts,
    draining: CancellationToken,
    until: CancellationToken,
) {
    let mut ticks = tokio::time::interval(limits::HEARTBEAT_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // What the database says of this node; nothing is known of an earlier run.
    let mut written = None;
    let mut drain_seen = false;
    loop {
        tokio::select! {
            () = until.cancelled() => break,
            () = draining.cancelled(), if !drain_seen => drain_seen = true,
            _ = ticks.tick() => {}
        }
        let state = Written { drained: drain_seen };
        tokio::select! {
            () = until.cancelled() => break,
            result = write(parts, state, written) => match result {
                Ok(()) => written = Some(state),
                Err(error) => tracing::debug!(%error, "the heartbeat of this node is late"),
            },
        }
    }
    let state = Written { drained: true };
    if written != Some(state) {
        let last = tokio::time::timeout(limits::HEARTBEAT_LAST, write(parts, state, written));
        if !matches!(last.await, Ok(Ok(()))) {
            tracing::warn!("the other nodes see this one as silent, not as drained");
        }
    }
}

/// What the row of this node says besides its heartbeat.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Written {
    drained: bool,
}

async fn write(parts: &AdminParts, state: Written, before: Option<Written>) -> Result<()> {
    let node = parts.recorder.node();
    parts.db.heartbeat(node, parts.env.now()).await?;
    if before != Some(state) {
        if state.drained {
            parts.db.drain(node).await?;
        } else {
            parts.db.undrain(node).await?;
        }
    }
    Ok(())
}
