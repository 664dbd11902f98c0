//! LOCK and UNLOCK, and the question before every change whether the tokens for it are there. A
//! lock is on a place of an endpoint, so that accounts which see one file by several names share
//! its locks. Locks are known to one node, keep out clients of WebDAV alone, and end with the node.

use std::collections::HashMap;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use entrepot_dav_proto::limits::LOCK_TIME_DEFAULT;
use entrepot_dav_proto::locks::Asks;
use entrepot_dav_proto::{
    Change, Depth, Element, If, Lock, LockInfo, Property, PropertyName, Scope, State, Taken, Value,
    WantedLock, headers, multistatus,
};
use entrepot_nouns::{Right, VPath};
use entrepot_vfs::{Create, CreateIntent, EntryKind, VfsError};
use uuid::Uuid;

use super::dav_request::{DavRequest, href, read, target_of, without_parent, xml};
use crate::files::validators::Validators;
use crate::hooks::{to_its_end, writing};
use crate::problem::Problem;

/// The place of a path in the tree of locks.
async fn place(asked: &DavRequest, path: &VPath) -> Result<String, Problem> {
    let place = match asked.vfs().location(path).await? {
        Some(location) => {
            let below: Vec<&str> = location.path.components().collect();
            let mut place = format!("/{}", location.endpoint);
            for name in below {
                place.push('/');
                place.push_str(name);
            }
            place
        }
        // A directory that exists because of mounts: nothing in it can be changed.
        None => format!("/mounts{}", path.as_str().trim_end_matches('/')),
    };
    Ok(place)
}

/// Refuses a change whose tokens are missing, or whose If header does not hold.
pub(super) async fn check(asked: &DavRequest, path: &VPath, change: Change) -> Result<(), Problem> {
    let condition = condition(asked).await?;
    let account = account(asked);
    let tokens: Vec<&str> = condition.iter().flat_map(If::tokens).collect();
    let place = place(asked, path).await?;
    let now = asked.context.shared().env().elapsed();
    let asks = Asks { account: &account, tokens: &tokens };
    let locks = &asked.context.shared().dav_locks;
    locks.lock().check(&place, change, asks, now).map_err(|_| locked())
}

fn locked() -> Problem {
    let why = "it is locked, or something in it is; whoever has the lock must give it back, or it \
               ends by itself";
    Problem::new(StatusCode::LOCKED, "EP1150", why)
}

/// Accounts of several sites may have one name.
fn account(asked: &DavRequest) -> String {
    let principal = asked.signed_in.principal();
    format!("{}/{}", principal.site, principal.account.name)
}

/// The If header, which holds if it is there.
async fn condition(asked: &DavRequest) -> Result<Option<If>, Problem> {
    let Some(text) = asked.field("if") else { return Ok(None) };
    let condition = If::parse(text)?;
    let mut known: HashMap<Option<String>, Known> = HashMap::new();
    known.insert(None, look(asked, asked.path()).await?);
    for resource in condition.resources() {
        let named = headers::destination(resource, asked.host.as_deref());
        if let Ok(target) = named.map_err(Problem::from).and_then(target_of) {
            known.insert(Some(resource.to_owned()), look(asked, &target.path).await?);
        }
    }
    let now = asked.context.shared().env().elapsed();
    let mut locks = asked.context.shared().dav_locks.lock();
    let holds = condition.holds(|resource, state| {
        let Some(known) = known.get(&resource.map(str::to_owned)) else { return false };
        match state {
            State::Token(token) => locks.is_locked_with(&known.place, token, now),
            State::ETag(tag) => known.etag.as_ref() == Some(tag),
        }
    });
    if holds {
        return Ok(Some(condition));
    }
    let why = "what the If header asks for does not hold; look at the resource again";
    Err(Problem::new(StatusCode::PRECONDITION_FAILED, "EP1151", why))
}

/// What the If header may ask about a resource.
struct Known {
    place: String,
    etag: Option<String>,
}

async fn look(asked: &DavRequest, path: &VPath) -> Result<Known, Problem> {
    let there = asked.vfs().published(path).await?;
    let etag = there.map(|attributes| Validators::of(path, &attributes).etag().to_owned());
    Ok(Known { place: place(asked, path).await?, etag })
}

/// Ends the locks on what is gone or has another name.
pub(super) async fn forget(asked: &DavRequest, path: &VPath) {
    if let Ok(place) = place(asked, path).await {
        asked.context.shared().dav_locks.lock().forget_tree(&place);
    }
}

/// The property that shows the locks on a resource.
pub(super) async fn discovery(asked: &DavRequest, path: &VPath) -> Result<Value, Problem> {
    let place = place(asked, path).await?;
    let now = asked.context.shared().env().elapsed();
    let mut locks = asked.context.shared().dav_locks.lock();
    let shown = |lock: &Lock| lock.to_element(&root_of(lock, &place, path), now);
    let locks: Vec<Element> = locks.on(&place, now).into_iter().map(shown).collect();
    Ok(if locks.is_empty() { Value::Empty } else { Value::Elements(locks) })
}

/// The address of what was locked, as seen by who asks about `path`, which lies in it.
fn root_of(lock: &Lock, place: &str, path: &VPath) -> String {
    let count = |path: &str| path.split('/').count();
    let above = count(place).saturating_sub(count(&lock.path));
    let mut root = path.clone();
    for _ in 0..above {
        root = root.parent().unwrap_or_else(VPath::root);
    }
    href(&root, EntryKind::File)
}

pub(super) async fn lock(asked: DavRequest, body: Body) -> Result<Response, Problem> {
    let body = read(&asked, body).await?;
    let timeout = asked.field("timeout").map_or(LOCK_TIME_DEFAULT, |it| headers::timeout(Some(it)));
    let Some(info) = LockInfo::parse(&body)? else { return refresh(&asked, timeout).await };
    let depth = Depth::parse(asked.field("depth"), Depth::Infinity)?;
    if depth == Depth::One {
        return Err(Problem::malformed("Depth is 0 or infinity here"));
    }
    let path = asked.path();
    // Who may not write may not keep those out who may.
    if asked.vfs().need(path, Right::Write).await.is_err() {
        asked.vfs().need(path, Right::Overwrite).await?;
    }
    condition(&asked).await?;
    let there = asked.vfs().published(path).await?;
    let place = place(&asked, path).await?;
    let token = format!("urn:uuid:{}", asked.context.shared().env().new_id::<Uuid>());
    let wanted = WantedLock {
        token: token.clone(),
        path: place,
        depth,
        scope: info.scope,
        account: account(&asked),
        owner: info.owner,
        timeout,
    };
    let now = asked.context.shared().env().elapsed();
    let taken = asked.context.shared().dav_locks.lock().take(wanted, now).map(drop);
    taken.map_err(|why| match why {
        Taken::Locked(_) => locked(),
        Taken::Full => {
            let why = "there are as many locks as this server keeps; try again later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1150", why)
        }
    })?;
    let status = if there.is_some() {
        StatusCode::OK
    } else {
        match make_empty(&asked).await {
            Ok(status) => status,
            Err(problem) => {
                forget(&asked, path).await;
                return Err(problem);
            }
        }
    };
    let mut response = shown(&asked, status).await?;
    if let Ok(token) = HeaderValue::from_str(&format!("<{token}>")) {
        response.headers_mut().insert("lock-token", token);
    }
    Ok(response)
}

/// A lock on a name that nothing has makes an empty file of it (RFC 4918 §7.3).
async fn make_empty(asked: &DavRequest) -> Result<StatusCode, Problem> {
    let how = Create { intent: CreateIntent::Exclusive, expected_size: Some(0), append: false };
    let (rules, path) = (asked.signed_in.rules(&asked.context), asked.path());
    let command = rules.before(|| writing("write", "LOCK", path)).await?;
    let upload = match asked.vfs().create(path, how).await {
        Ok(upload) => upload,
        Err(VfsError::Exists) => {
            return rules.after(command, Ok(StatusCode::OK), StatusCode::OK).await;
        }
        Err(error) => {
            let problem = without_parent(error.into());
            return rules.after(command, Err(problem), StatusCode::CREATED).await;
        }
    };
    if !rules.look() {
        return Ok(upload.finish().await.map(|_| StatusCode::CREATED)?);
    }
    let finishing = async move {
        let uploaded = upload.finish().await.map_err(Problem::from);
        rules.after_upload(command, uploaded, StatusCode::CREATED).await
    };
    to_its_end(Box::pin(finishing)).await.map(|_| StatusCode::CREATED)
}

async fn refresh(asked: &DavRequest, timeout: std::time::Duration) -> Result<Response, Problem> {
    let Some(condition) = condition(asked).await? else {
        return Err(Problem::malformed("LOCK without a body refreshes the lock of an If header"));
    };
    let (account, place) = (account(asked), place(asked, asked.path()).await?);
    let tokens: Vec<&str> = condition.tokens().collect();
    let now = asked.context.shared().env().elapsed();
    let asks = Asks { account: &account, tokens: &tokens };
    let refreshed = {
        let mut locks = asked.context.shared().dav_locks.lock();
        locks.refresh(&place, asks, timeout, now).is_some()
    };
    if !refreshed {
        let why = "there is no such lock of this account; ask for a new one";
        return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "EP1151", why));
    }
    shown(asked, StatusCode::OK).await
}

async fn shown(asked: &DavRequest, status: StatusCode) -> Result<Response, Problem> {
    let value = discovery(asked, asked.path()).await?;
    let property = Property { name: PropertyName::dav("lockdiscovery"), value };
    Ok(xml(status, multistatus::property_body(&property)))
}

pub(super) async fn unlock(asked: DavRequest) -> Result<Response, Problem> {
    let token = asked.field("lock-token").unwrap_or_default();
    let token = headers::lock_token(token)?;
    let (account, place) = (account(&asked), place(&asked, asked.path()).await?);
    let released = {
        let mut locks = asked.context.shared().dav_locks.lock();
        locks.release(token, &place, &account)
    };
    if released {
        return Ok(axum::response::IntoResponse::into_response(StatusCode::NO_CONTENT));
    }
    let why = "this account has no such lock here";
    Err(Problem::new(StatusCode::CONFLICT, "EP1151", why))
}

/// What kinds of locks there are, as the property `supportedlock` says.
pub(super) fn supported() -> Value {
    let entry = |scope: Scope| {
        let scope = match scope {
            Scope::Exclusive => "exclusive",
            Scope::Shared => "shared",
        };
        let inside = |name: &str, inner: &str| {
            let inner = entrepot_dav_proto::Node::Element(Element::dav(inner, Vec::new()));
            entrepot_dav_proto::Node::Element(Element::dav(name, vec![inner]))
        };
        Element::dav("lockentry", vec![inside("lockscope", scope), inside("locktype", "write")])
    };
    Value::Elements(vec![entry(Scope::Exclusive), entry(Scope::Shared)])
}
