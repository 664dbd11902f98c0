//! Requests about the node that serves: its sessions, its rates, its end, and the addresses and
//! accounts that wrong passwords have locked. Every change is an event before it takes effect.

use std::collections::{BTreeMap, HashMap};

use entrepot_journal::Scope;
use entrepot_nouns::event::SessionLimitFact;
use entrepot_nouns::{Fact, Name, SessionId, SessionInfo, SiteId};

use crate::actor::Actor;
use crate::error::{AdminError, Result};
use crate::limits;
use crate::log_levels::{LogLevel, LogLevels, LogSubject, words};
use crate::login_limits::{LoginLimitRow, UnlockTarget};
use crate::parts::{AdminParts, ServingParts};
use crate::request::{RateOrder, Response, SessionRow};

/// The open sessions that the actor may see. Rates are measured, so the answer takes
/// [`limits::RATE_TIME`].
pub(crate) async fn sessions(
    parts: &AdminParts,
    serving: &ServingParts,
    actor: &Actor,
) -> Result<Response> {
    let before: HashMap<SessionId, SessionInfo> =
        serving.node.sessions().into_iter().map(|session| (session.id, session)).collect();
    let ((), names) = tokio::join!(tokio::time::sleep(limits::RATE_TIME), site_names(parts));
    let visible = serving.node.sessions().into_iter().filter(|session| may_see(actor, session));
    let rows = visible.map(|session| {
        let earlier = before.get(&session.id).unwrap_or(&session);
        let in_per_second = per_second(session.wire_in, earlier.wire_in);
        let out_per_second = per_second(session.wire_out, earlier.wire_out);
        let site = names.get(&session.site);
        let site = site.map_or_else(|| session.site.0.to_string(), Name::to_string);
        SessionRow { site, session, in_per_second, out_per_second }
    });
    Ok(Response::Sessions { sessions: rows.collect() })
}

fn per_second(now: u64, before: u64) -> u64 {
    now.saturating_sub(before).saturating_mul(1000) / limits::RATE_TIME.as_millis() as u64
}

/// The names of all sites; none while the database cannot be asked, which must not hide who is
/// connected.
async fn site_names(parts: &AdminParts) -> HashMap<SiteId, Name> {
    let sites = parts.db.sites().await.unwrap_or_default();
    sites.into_iter().map(|site| (SiteId(site.id), site.noun.name)).collect()
}

/// The site `main` owns all others, so its actors see every session of the node.
fn may_see(actor: &Actor, session: &SessionInfo) -> bool {
    actor.site == SiteId::MAIN || actor.site == session.site
}

/// The session of this id, if the actor may see it.
fn visible(serving: &ServingParts, actor: &Actor, id: SessionId) -> Result<SessionInfo> {
    let mut sessions = serving.node.sessions().into_iter();
    let found = sessions.find(|session| session.id == id && may_see(actor, session));
    found.ok_or(AdminError::NoSession { id })
}

/// Ends a session.
pub(crate) fn end_session(
    parts: &AdminParts,
    serving: &ServingParts,
    actor: &Actor,
    id: SessionId,
) -> Result<Response> {
    let session = visible(serving, actor, id)?;
    let fact = Fact::SessionEnding { name: session.account.clone(), by: actor.name.clone() };
    parts.recorder.record(&scope(actor, &session), fact)?;
    if serving.node.end_session(id, "ended by an administrator") {
        Ok(Response::Done)
    } else {
        Err(AdminError::NoSession { id })
    }
}

/// Sets the rates of a session.
pub(crate) fn limit_session(
    parts: &AdminParts,
    serving: &ServingParts,
    actor: &Actor,
    id: SessionId,
    order: RateOrder,
) -> Result<Response> {
    let session = visible(serving, actor, id)?;
    let rates = order.rates();
    let limit = SessionLimitFact {
        name: session.account.clone(),
        by_policy: rates.is_none(),
        upload: rates.and_then(|rates| rates.upload),
        download: rates.and_then(|rates| rates.download),
        by: actor.name.clone(),
    };
    let fact = Fact::SessionLimited { limit };
    parts.recorder.record(&scope(actor, &session), fact)?;
    if serving.node.limit_session(id, rates) {
        Ok(Response::Done)
    } else {
        Err(AdminError::NoSession { id })
    }
}

/// The event is found by the site and the session that it is about.
fn scope(actor: &Actor, session: &SessionInfo) -> Scope {
    let session_id = Some(session.id);
    Scope { account: actor.account(), session: session_id, ..Scope::site(session.site) }
}

/// Sets the rates that all sessions of the node share.
pub(crate) fn limit_node(
    serving: &ServingParts,
    actor: &Actor,
    order: RateOrder,
) -> Result<Response> {
    actor.must_be_of_main()?;
    let now = serving.node.limit_node(order.rates(), &actor.name)?;
    Ok(Response::Rates { upload: now.upload, download: now.download })
}

/// Begins the end of the node.
pub(crate) fn stop_node(serving: &ServingParts, actor: &Actor) -> Result<Response> {
    actor.must_be_of_main()?;
    serving.node.drain_node(&actor.name)?;
    Ok(Response::Done)
}

/// How the log of the node differs from its process file.
pub(crate) fn log_levels(serving: &ServingParts, actor: &Actor) -> Result<Response> {
    actor.must_be_of_main()?;
    Ok(Response::LogLevels { levels: serving.node.log_levels() })
}

/// Sets how much the node logs.
pub(crate) fn set_log_levels(
    parts: &AdminParts,
    serving: &ServingParts,
    actor: &Actor,
    levels: LogLevels,
) -> Result<Response> {
    actor.must_be_of_main()?;
    let fact = Fact::LogChanged { levels: words(&levels), by: actor.name.clone() };
    let scope = Scope { account: actor.account(), ..Scope::site(SiteId::MAIN) };
    parts.recorder.record(&scope, fact)?;
    let set = serving.node.set_log_levels(levels.clone());
    set.map_err(|problem| AdminError::Internal { what: "changing the log", problem })?;
    Ok(Response::LogLevels { levels })
}

/// Changes how much the node logs of some subjects.
pub(crate) fn change_log_levels(
    parts: &AdminParts,
    serving: &ServingParts,
    actor: &Actor,
    changes: BTreeMap<LogSubject, Option<LogLevel>>,
) -> Result<Response> {
    let mut levels = serving.node.log_levels();
    for (subject, level) in changes {
        match level {
            Some(level) => drop(levels.insert(subject, level)),
            None => drop(levels.remove(&subject)),
        }
    }
    set_log_levels(parts, serving, actor, levels)
}

/// The addresses, and the accounts of the site, that wrong passwords have delayed or locked.
pub(crate) async fn login_limits(serving: &ServingParts, actor: &Actor) -> Response {
    let limits = serving.gate.login_limits(actor.site).await;
    Response::LoginLimits { limits: limits.into_iter().map(LoginLimitRow::from).collect() }
}

/// Forgets the wrong passwords of an address or an account.
pub(crate) fn unlock(
    serving: &ServingParts,
    actor: &Actor,
    target: &UnlockTarget,
) -> Result<Response> {
    let unlocked = match target {
        UnlockTarget::Address(address) => {
            serving.gate.unlock_address(actor.site, *address, &actor.name)
        }
        UnlockTarget::Account(name) => serving.gate.unlock_account(actor.site, name, &actor.name),
    };
    let failures = unlocked?.ok_or(AdminError::NothingToUnlock)?;
    Ok(Response::Unlocked { failures })
}
