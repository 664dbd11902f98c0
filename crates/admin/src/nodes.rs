//! The nodes of an installation: who they are, whether they take new work, and how one joins and
//! leaves. What a node says of itself it writes in its heartbeat (crate `engine`).

use entrepot_db::{Drained, Node, NodeIdentity, StoredHead};
use entrepot_journal::Scope;
use entrepot_nouns::event::{JoinedFact, PoolsFact, RemovedFact};
use entrepot_nouns::{Event, Fact, Name, PoolPlaces, SiteId};

use crate::actor::Actor;
use crate::error::{AdminError, Result};
use crate::node_row::{NodeRow, NodeState};
use crate::parts::AdminParts;
use crate::request::{JournalHead, Response};
use crate::{limits, near};

/// All nodes that ever joined and were not removed.
pub(crate) async fn list(parts: &AdminParts, actor: &Actor) -> Result<Response> {
    actor.must_be_of_main()?;
    let nodes = parts.db.nodes().await?.into_iter().map(row).collect();
    Ok(Response::Nodes { nodes })
}

/// The node of this name.
pub(crate) async fn show(parts: &AdminParts, actor: &Actor, name: &Name) -> Result<Response> {
    actor.must_be_of_main()?;
    let nodes = parts.db.nodes().await?;
    Ok(Response::Node { node: Box::new(row(find(nodes, name)?)) })
}

/// Signed heads of this node's journal that cover more than `after` records.
pub(crate) async fn heads(
    parts: &AdminParts,
    actor: &Actor,
    after: u64,
    limit: Option<u32>,
) -> Result<Response> {
    actor.must_be_of_main()?;
    let limit = limit.unwrap_or(limits::QUERY_ROWS_DEFAULT).clamp(1, limits::QUERY_ROWS);
    let found = parts.db.heads_after(parts.recorder.node_id(), after, limit).await?;
    let is_full = found.len() >= limit as usize;
    let next = found.last().filter(|_| is_full).map(|head| head.size);
    let shown =
        |head: StoredHead| JournalHead { records: head.size, signed_at: head.at, note: head.note };
    Ok(Response::JournalHeads { heads: found.into_iter().map(shown).collect(), next })
}

fn row(node: Node) -> NodeRow {
    let state = if node.stopped {
        NodeState::Stopped
    } else if node.is_silent() {
        NodeState::Silent
    } else if node.drained {
        NodeState::Drained
    } else {
        NodeState::Serving
    };
    NodeRow {
        name: node.name,
        state,
        id: node.id,
        slot: node.slot,
        incarnation: node.incarnation,
        program: node.program,
        speaks: node.speaks,
        drained: node.drained,
        rebuilding: node.rebuilding,
        heartbeat_at: node.heartbeat_at,
        clock_ahead_us: node.clock_ahead_us,
        round_trip_us: node.round_trip_us,
        projected_up_to: node.projected_up_to,
        unprojected: node.unprojected,
        pools: node.pools,
    }
}

fn find(nodes: Vec<Node>, name: &Name) -> Result<Node> {
    let hint = near::hint(name.as_str(), nodes.iter().map(|node| node.name.as_str()));
    let found = nodes.into_iter().find(|node| node.name == *name);
    found.ok_or_else(|| AdminError::NotFound { what: "node", name: name.to_string(), hint })
}

/// This process's node.
fn identity(parts: &AdminParts) -> NodeIdentity {
    NodeIdentity {
        id: parts.recorder.node_id(),
        name: parts.recorder.node().clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Binds the name of this process's node to its journal, unless that was done before; the
/// committed event then, to be sealed.
///
/// # Errors
/// [`AdminError::NodeServes`], [`AdminError::NodeKnown`]: the name is another journal's.
pub(crate) async fn join(parts: &AdminParts) -> Result<Option<Event>> {
    let own = identity(parts);
    if is_bound(&parts.db.nodes().await?, &own)? {
        return Ok(None);
    }
    let mut tx = parts.db.begin().await?;
    // From here on nobody else joins.
    if is_bound(&tx.nodes(&parts.db).await?, &own)? {
        return Ok(None);
    }
    let Some(slot) = tx.join_node(&parts.db, &own).await? else { return Ok(None) };
    let by = format!("node:{}", own.name);
    let fact = Fact::NodeJoined { node: JoinedFact { node_id: own.id, slot, by } };
    let event = parts.recorder.event(&Scope::site(SiteId::MAIN), fact);
    tx.insert_event(&event).await?;
    tx.commit().await?;
    Ok(Some(event))
}

/// True if the node is known already; an error if another one has its name.
fn is_bound(known: &[Node], own: &NodeIdentity) -> Result<bool> {
    if let Some(other) = known.iter().find(|node| node.name == own.name && node.id != own.id) {
        let name = own.name.clone();
        return Err(if other.stopped || other.is_silent() {
            AdminError::NodeKnown { name }
        } else {
            AdminError::NodeServes { name }
        });
    }
    Ok(known.iter().any(|node| node.id == own.id && node.slot.is_some()))
}

/// Asks a node to take no new work, or to take it again; the committed event, to be sealed.
pub(crate) async fn set_drained(
    parts: &AdminParts,
    actor: &Actor,
    name: Name,
    drained: Drained,
) -> Result<Event> {
    actor.must_be_of_main()?;
    let mut tx = parts.db.begin().await?;
    find(tx.nodes(&parts.db).await?, &name)?;
    tx.set_drained(&name, drained).await?;
    let by = actor.name.clone();
    let fact = match drained {
        Drained::Yes => Fact::NodeDrained { name, by },
        Drained::No => Fact::NodeUndrained { name, by },
    };
    let event = parts.recorder.event(&scope(actor), fact);
    tx.insert_event(&event).await?;
    tx.commit().await?;
    Ok(event)
}

/// Sets the sizes of pools of a node; the committed event, to be sealed.
pub(crate) async fn set_pools(
    parts: &AdminParts,
    actor: &Actor,
    name: Name,
    places: PoolPlaces,
) -> Result<Event> {
    actor.must_be_of_main()?;
    let mut tx = parts.db.begin().await?;
    find(tx.nodes(&parts.db).await?, &name)?;
    tx.set_pools(&name, places).await?;
    let pools = PoolsFact { name, places, by: actor.name.clone() };
    let fact = Fact::NodePools { pools };
    let event = parts.recorder.event(&scope(actor), fact);
    tx.insert_event(&event).await?;
    tx.commit().await?;
    Ok(event)
}

/// What becomes of a journal whose node is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Journal {
    /// All of it must be in the database.
    Projected,
    /// It is lost, with what the database does not have of it.
    Lost,
}

/// Takes a node off the list; the committed event, to be sealed.
pub(crate) async fn remove(
    parts: &AdminParts,
    actor: &Actor,
    name: Name,
    journal: Journal,
) -> Result<Event> {
    actor.must_be_of_main()?;
    let mut tx = parts.db.begin().await?;
    let node = find(tx.nodes(&parts.db).await?, &name)?;
    if node.id == parts.recorder.node_id() || !(node.stopped || node.is_silent()) {
        let problem = format!("node '{name}' serves; stop it first");
        return Err(AdminError::NodeStays { problem });
    }
    let lost = !node.stopped || node.unprojected > 0;
    if lost && journal == Journal::Projected {
        let problem = format!(
            "the journal of node '{name}' may hold events that the database does not have; start \
             the node and stop it in good order, or say with '--lost' that its journal is lost"
        );
        return Err(AdminError::NodeStays { problem });
    }
    tx.remove_node(node.id).await?;
    let (projected, unprojected) = (node.projected_up_to, node.unprojected);
    let by = actor.name.clone();
    let fact = Fact::NodeRemoved { node: RemovedFact { name, projected, unprojected, lost, by } };
    let event = parts.recorder.event(&scope(actor), fact);
    tx.insert_event(&event).await?;
    tx.commit().await?;
    Ok(event)
}

fn scope(actor: &Actor) -> Scope {
    Scope { account: actor.account(), ..Scope::site(SiteId::MAIN) }
}
