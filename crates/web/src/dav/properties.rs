//! PROPFIND and PROPPATCH (RFC 4918 §9.1, §9.2). There are live properties only: what the server
//! knows of a file by itself.

use std::collections::VecDeque;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use entrepot_dav_proto::{
    Change, Depth, Element, MultiStatus, PropFind, PropStat, Property, PropertyChange,
    PropertyName, Value,
};
use entrepot_nouns::{Timestamp, VPath};
use entrepot_vfs::{Attributes, Entry, EntryKind, Listing, VfsError};
use futures_util::stream;

use super::dav_request::{DavRequest, href, read, unmet, xml};
use super::locking;
use crate::files::validators::{self, Validators};
use crate::limits::LISTING_READ;
use crate::problem::Problem;

/// The namespace of what the client of Windows sets after an upload.
const WINDOWS: &str = "urn:schemas-microsoft-com:";
/// Of RFC 4918, but for what costs extra; those of RFC 4331 are shown to who names them.
const ALL: [&str; 8] = [
    "displayname",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "resourcetype",
    "supportedlock",
    "lockdiscovery",
];
const QUOTA: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

pub(super) async fn find(asked: DavRequest, body: Body) -> Result<Response, Problem> {
    let depth = Depth::parse(asked.field("depth"), Depth::Infinity)?;
    let wanted = PropFind::parse(&read(&asked, body).await?)?;
    if depth == Depth::Infinity {
        return Ok(unmet(StatusCode::FORBIDDEN, "propfind-finite-depth"));
    }
    let attributes = asked.vfs().stat(asked.path()).await?;
    let is_listed = depth == Depth::One && attributes.kind == EntryKind::Directory;
    let listing = if is_listed { Some(asked.vfs().list(asked.path()).await?) } else { None };
    let first = Entry { name: String::new(), attributes };
    let pages = Pages {
        asked,
        wanted,
        listing,
        ready: VecDeque::from([first]),
        body: Some(MultiStatus::default()),
    };
    let chunks = stream::try_unfold(pages, |mut pages| async move {
        let chunk = pages.next().await.map_err(|problem| std::io::Error::other(problem.detail))?;
        Ok::<_, std::io::Error>(chunk.map(|chunk| (chunk, pages)))
    });
    Ok(xml(StatusCode::MULTI_STATUS, Body::from_stream(chunks)))
}

/// An answer that is made as the client takes it: one page of a listing after the other.
struct Pages {
    asked: DavRequest,
    wanted: PropFind,
    listing: Option<Listing>,
    /// Entries that are shown next; the resource itself has no name.
    ready: VecDeque<Entry>,
    /// `None`: the end was given.
    body: Option<MultiStatus>,
}

impl Pages {
    async fn next(&mut self) -> Result<Option<String>, Problem> {
        let Some(mut body) = self.body.take() else { return Ok(None) };
        if self.ready.is_empty()
            && let Some(listing) = &mut self.listing
        {
            self.ready = listing.next_page(LISTING_READ).await?.into();
        }
        if self.ready.is_empty() {
            return Ok(Some(body.finish()));
        }
        while let Some(entry) = self.ready.pop_front() {
            self.show(&entry, &mut body).await?;
        }
        let chunk = body.take();
        self.body = Some(body);
        Ok(Some(chunk))
    }

    async fn show(&self, entry: &Entry, body: &mut MultiStatus) -> Result<(), Problem> {
        let folder = self.asked.path();
        let path = match &*entry.name {
            "" => folder.clone(),
            name => folder.join(name).map_err(|it| Problem::malformed(it.to_string()))?,
        };
        let mut attributes = entry.attributes.clone();
        if attributes.kind == EntryKind::Link {
            match self.asked.vfs().stat(&path).await {
                Ok(target) => attributes = target,
                // It leads nowhere: clients of WebDAV know no links.
                Err(_) => return Ok(()),
            }
        }
        let groups = groups(&self.asked, &self.wanted, &path, &attributes).await?;
        body.properties(&href(&path, attributes.kind), &groups);
        Ok(())
    }
}

async fn groups(
    asked: &DavRequest,
    wanted: &PropFind,
    path: &VPath,
    attributes: &Attributes,
) -> Result<Vec<PropStat>, Problem> {
    let all = || ALL.iter().map(|name| PropertyName::dav(name));
    let names: Vec<PropertyName> = match wanted {
        PropFind::All(more) => all().chain(more.iter().cloned()).collect(),
        PropFind::Names => all().collect(),
        PropFind::These(names) => names.clone(),
    };
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match value(asked, &name, path, attributes).await? {
            Some(_) if *wanted == PropFind::Names => {
                found.push(Property { name, value: Value::Empty });
            }
            Some(value) => found.push(Property { name, value }),
            None => missing.push(Property { name, value: Value::Empty }),
        }
    }
    if !matches!(wanted, PropFind::These(_)) {
        missing.clear();
    }
    Ok(vec![
        PropStat { status: 200, properties: found },
        PropStat { status: 404, properties: missing },
    ])
}

/// The value of a property; `None`: the resource has no such one.
async fn value(
    asked: &DavRequest,
    name: &PropertyName,
    path: &VPath,
    attributes: &Attributes,
) -> Result<Option<Value>, Problem> {
    if name.namespace != entrepot_dav_proto::DAV {
        return Ok(None);
    }
    let is_file = attributes.kind == EntryKind::File;
    let text = |text: String| Some(Value::Text(text));
    Ok(match &*name.name {
        "displayname" => text(path.file_name().unwrap_or("/").to_owned()),
        "getcontentlength" if is_file => text(attributes.size.to_string()),
        "getcontenttype" if is_file => text("application/octet-stream".to_owned()),
        "getetag" if is_file => text(Validators::of(path, attributes).etag().to_owned()),
        "getlastmodified" => text(validators::date(attributes.modified)),
        "resourcetype" if is_file => Some(Value::Empty),
        "resourcetype" => Some(Value::Elements(vec![Element::dav("collection", Vec::new())])),
        "supportedlock" => Some(locking::supported()),
        "lockdiscovery" => Some(locking::discovery(asked, path).await?),
        word if QUOTA.contains(&word) && !is_file => {
            let space = asked.vfs().space(path).await?;
            let used = space.total_bytes.saturating_sub(space.free_bytes);
            let is_known = space.total_bytes != u64::MAX;
            let shown = if word == "quota-used-bytes" { used } else { space.free_bytes };
            is_known.then(|| Value::Text(shown.to_string()))
        }
        _ => None,
    })
}

/// What a change of a property comes to.
enum Settable {
    /// The time of the last change becomes this.
    Modified(Timestamp),
    /// The time of the last access becomes this.
    Accessed(Timestamp),
    /// It is taken and not kept: Explorer fails an upload whose attributes are refused.
    Ignored,
}

pub(super) async fn patch(asked: DavRequest, body: Body) -> Result<Response, Problem> {
    let changes = PropertyChange::parse(&read(&asked, body).await?)?;
    let path = asked.path();
    locking::check(&asked, path, Change::Contents).await?;
    let there = asked.vfs().published(path).await?.ok_or(VfsError::NotFound)?;
    let settable: Vec<Option<Settable>> = changes.iter().map(settable).collect();
    let all = settable.iter().all(Option::is_some);
    if all {
        carry_out(&asked, &settable).await?;
    }
    let mut groups = [200, 403, 424].map(|status| PropStat { status, properties: Vec::new() });
    for (change, settable) in changes.iter().zip(&settable) {
        // One that cannot be changed keeps the others from being changed (§9.2).
        let status = match settable {
            _ if all => 200,
            Some(_) => 424,
            None => 403,
        };
        let property = Property { name: change.name().clone(), value: Value::Empty };
        if let Some(group) = groups.iter_mut().find(|group| group.status == status) {
            group.properties.push(property);
        }
    }
    let mut body = MultiStatus::default();
    body.properties(&href(path, there.kind), &groups);
    Ok(xml(StatusCode::MULTI_STATUS, body.finish()))
}

async fn carry_out(asked: &DavRequest, settable: &[Option<Settable>]) -> Result<(), Problem> {
    let (mut accessed, mut modified) = (None, None);
    for change in settable.iter().flatten() {
        match change {
            Settable::Modified(at) => modified = Some(*at),
            Settable::Accessed(at) => accessed = Some(*at),
            Settable::Ignored => {}
        }
    }
    if accessed.is_some() || modified.is_some() {
        asked.vfs().set_times(asked.path(), accessed, modified).await?;
    }
    Ok(())
}

fn settable(change: &PropertyChange) -> Option<Settable> {
    let PropertyChange::Set(element) = change else { return None };
    let name = &element.name;
    let time = || validators::parse_date(&element.text());
    match (&*name.namespace, &*name.name) {
        (WINDOWS, "Win32LastModifiedTime") => time().map(Settable::Modified),
        (WINDOWS, "Win32LastAccessTime") => time().map(Settable::Accessed),
        (WINDOWS, "Win32CreationTime" | "Win32FileAttributes") => Some(Settable::Ignored),
        _ if name.is_dav("getlastmodified") => time().map(Settable::Modified),
        _ => None,
    }
}
