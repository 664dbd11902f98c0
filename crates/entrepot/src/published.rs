//! The published files of directory endpoints: walked through their stores, so that staging and
//! links are left out as they are for clients, written down as a list, and compared with one.
//!
//! Memory is bounded whatever the number of files: a walk holds a page of each folder that it is
//! in, and what a list has is remembered for a part of all names at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use bytes::BytesMut;
use entrepot_crypto::digest::{Sha256, StreamDigest};
use entrepot_db::Db;
use entrepot_nouns::{Endpoint, EndpointTarget, Env, Name, SiteId, StorePath};
use entrepot_storage::limits::STAGING_NAME;
use entrepot_storage::{AnyStore, Entry, EntryKind, Listing, ResolvedSecrets, StoreError};
use serde::{Deserialize, Serialize};

use crate::backup_manifest::{FileCounts, blake3_of, damaged};
use crate::config::Config;
use crate::failure::Failure;
use crate::owner;
use crate::parts::db_failure;

/// Entries of a folder that are read at a time.
const PAGE: usize = 256;
/// Bytes of a file that are read at a time.
const READ_BYTES: usize = 1 << 20;
/// Names of a list that are remembered at a time, 16 bytes each.
const NAMES: u64 = 1 << 20;

/// Whether contents are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Each file is read whole for its digest.
    Digested,
    /// Sizes must do.
    NotRead,
}

/// A published file, as a line of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PublishedFile {
    pub(crate) site: Name,
    pub(crate) endpoint: Name,
    pub(crate) path: StorePath,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) blake3: Option<String>,
}

/// An endpoint in a directory of this machine.
struct DirectoryEndpoint {
    site: Name,
    name: Name,
    store: Result<AnyStore, String>,
}

/// All directory endpoints of an installation.
pub(crate) struct Published {
    endpoints: Vec<DirectoryEndpoint>,
}

/// What a comparison found of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Difference {
    /// The list has it, the endpoint does not.
    Missing,
    /// It has another size or other bytes.
    Changed,
    /// The endpoint has it, the list does not.
    Surplus,
}

/// One file that is not as the list says.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Found<'a> {
    pub(crate) difference: Difference,
    pub(crate) site: &'a Name,
    pub(crate) endpoint: &'a Name,
    pub(crate) path: &'a str,
}

impl Published {
    /// Opens the directory endpoints that are configured. A folder that is not there is one without
    /// files, and none is made.
    pub(crate) async fn open(config: &Config, db: &Db, env: &Env) -> Result<Published, Failure> {
        let mut endpoints = Vec::new();
        for site in db.sites().await.map_err(db_failure)? {
            let all = db.list::<Endpoint>(SiteId(site.id)).await.map_err(db_failure)?;
            for endpoint in all {
                let EndpointTarget::Directory(target) = &endpoint.noun.target else { continue };
                let folder = Path::new(&target.path);
                let store = if folder.is_dir() {
                    open_folder(config, &endpoint.noun.target, folder, env).await?
                } else {
                    Err(format!("the folder '{}' is not there", folder.display()))
                };
                let (site, name) = (site.noun.name.clone(), endpoint.noun.name);
                endpoints.push(DirectoryEndpoint { site, name, store });
            }
        }
        Ok(Published { endpoints })
    }

    /// Writes a line for each published file. What cannot be read is counted and named on standard
    /// error.
    pub(crate) async fn list(
        &self,
        contents: Contents,
        into: &mut dyn Write,
    ) -> Result<FileCounts, Failure> {
        let digests = contents == Contents::Digested;
        let mut counts = FileCounts { digests, ..FileCounts::default() };
        for endpoint in &self.endpoints {
            let mut walk = match endpoint.walk().await {
                Ok(walk) => walk,
                Err(problem) => {
                    counts.unreadable += 1;
                    endpoint.complain("", &problem);
                    continue;
                }
            };
            while let Some(step) = walk.next().await {
                let (path, size) = match step {
                    Walked::File { path, size } => (path, size),
                    Walked::Unreadable { path, problem } => {
                        counts.unreadable += 1;
                        endpoint.complain(path.as_str(), &problem);
                        continue;
                    }
                };
                let (size, blake3) = match contents {
                    Contents::NotRead => (size, None),
                    Contents::Digested => match digest(&walk.store, &path).await {
                        Ok((size, blake3)) => (size, Some(blake3)),
                        // It was removed or renamed since it was listed.
                        Err(StoreError::NotFound) => continue,
                        Err(error) => {
                            counts.unreadable += 1;
                            endpoint.complain(path.as_str(), &error.to_string());
                            continue;
                        }
                    },
                };
                let (site, name) = (endpoint.site.clone(), endpoint.name.clone());
                let line = PublishedFile { site, endpoint: name, path, size, blake3 };
                write_line(into, &line)?;
                counts.files += 1;
                counts.bytes = counts.bytes.saturating_add(size);
            }
        }
        Ok(counts)
    }

    /// Compares what is published with the list in a file, and tells each difference once.
    pub(crate) async fn compare(
        &self,
        list: &Path,
        contents: Contents,
        mut tell: impl FnMut(Found<'_>),
    ) -> Result<(), Failure> {
        let stores: HashMap<(&Name, &Name), &AnyStore> = self
            .endpoints
            .iter()
            .filter_map(|it| Some(((&it.site, &it.name), it.store.as_ref().ok()?)))
            .collect();
        let mut count = 0;
        for line in lines(list)? {
            let line = line?;
            count += 1;
            let store = stores.get(&(&line.site, &line.endpoint));
            let difference = match store {
                Some(store) => differs(store, &line, contents).await,
                None => Some(Difference::Missing),
            };
            if let Some(difference) = difference {
                let (site, endpoint) = (&line.site, &line.endpoint);
                tell(Found { difference, site, endpoint, path: line.path.as_str() });
            }
        }
        let rounds = count / NAMES + 1;
        for round in 0..rounds {
            self.surplus(list, &Share { round, rounds }, &mut tell).await?;
        }
        Ok(())
    }

    /// Tells of files that the list does not have, among a share of all names.
    async fn surplus(
        &self,
        list: &Path,
        share: &Share,
        tell: &mut impl FnMut(Found<'_>),
    ) -> Result<(), Failure> {
        let mut listed = HashSet::new();
        for line in lines(list)? {
            let line = line?;
            let key = name_key(&line.site, &line.endpoint, &line.path);
            if share.has(key) {
                listed.insert(key);
            }
        }
        for endpoint in &self.endpoints {
            let Ok(mut walk) = endpoint.walk().await else { continue };
            while let Some(step) = walk.next().await {
                let Walked::File { path, .. } = step else { continue };
                let key = name_key(&endpoint.site, &endpoint.name, &path);
                if share.has(key) && !listed.contains(&key) {
                    tell(Found {
                        difference: Difference::Surplus,
                        site: &endpoint.site,
                        endpoint: &endpoint.name,
                        path: path.as_str(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Opens the store of a folder that is there. What opening makes for later uploads is the server's.
async fn open_folder(
    config: &Config,
    target: &EndpointTarget,
    folder: &Path,
    env: &Env,
) -> Result<Result<AnyStore, String>, Failure> {
    let staging = folder.join(STAGING_NAME);
    let was_there = staging.exists();
    let opened = entrepot_storage::open(target, &ResolvedSecrets::default(), env).await;
    if !was_there && staging.exists() {
        owner::give_to_owner_of(&config.data, &staging)?;
    }
    Ok(opened.map_err(|error| error.to_string()))
}

/// A part of all names: those whose key has this remainder.
struct Share {
    round: u64,
    rounds: u64,
}

impl Share {
    fn has(&self, key: u128) -> bool {
        key % u128::from(self.rounds) == u128::from(self.round)
    }
}

/// Stands for a name; two names with one key would have to be searched for 2^64 times.
fn name_key(site: &Name, endpoint: &Name, path: &StorePath) -> u128 {
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    // No name holds a slash.
    digest.update(format!("{site}/{endpoint}/{}", path.as_str()).as_bytes());
    let whole = digest.finish().blake3.unwrap_or_default();
    whole.first_chunk().map_or(0, |half| u128::from_le_bytes(*half))
}

async fn differs(store: &AnyStore, line: &PublishedFile, contents: Contents) -> Option<Difference> {
    match store.stat(&line.path).await {
        Ok(meta) if meta.kind == EntryKind::File && meta.size == line.size => {}
        Ok(meta) if meta.kind == EntryKind::File => return Some(Difference::Changed),
        _ => return Some(Difference::Missing),
    }
    let wanted = line.blake3.as_ref().filter(|_| contents == Contents::Digested)?;
    match digest(store, &line.path).await {
        Ok((_, found)) if found == *wanted => None,
        Err(StoreError::NotFound) => Some(Difference::Missing),
        // What cannot be read is not known to be as it was.
        _ => Some(Difference::Changed),
    }
}

impl DirectoryEndpoint {
    async fn walk(&self) -> Result<Walk, String> {
        let store = self.store.clone()?;
        let root = StorePath::root();
        let listing = store.list(&root).await.map_err(|error| error.to_string())?;
        let folder = Folder { path: root, listing, pending: VecDeque::new() };
        Ok(Walk { store, folders: vec![folder] })
    }

    fn complain(&self, path: &str, problem: &str) {
        let path = crate::table::printable(path);
        eprintln!("cannot read '{path}' of the endpoint '{}': {problem}", self.name);
    }
}

/// A walk through all folders of a store, depth first.
struct Walk {
    store: AnyStore,
    /// Those it is in, the outermost first: at most as many as a path has components.
    folders: Vec<Folder>,
}

struct Folder {
    path: StorePath,
    listing: Box<dyn Listing>,
    pending: VecDeque<Entry>,
}

/// What a walk came by.
enum Walked {
    File { path: StorePath, size: u64 },
    Unreadable { path: StorePath, problem: String },
}

impl Walk {
    async fn next(&mut self) -> Option<Walked> {
        loop {
            let folder = self.folders.last_mut()?;
            let Some(entry) = folder.pending.pop_front() else {
                match folder.listing.next_page(PAGE).await {
                    Ok(page) if page.is_empty() => _ = self.folders.pop(),
                    Ok(page) => folder.pending = page.into(),
                    Err(error) => {
                        let path = folder.path.clone();
                        self.folders.pop();
                        return Some(Walked::Unreadable { path, problem: error.to_string() });
                    }
                }
                continue;
            };
            let path = match folder.path.join(&entry.name) {
                Ok(path) => path,
                Err(error) => {
                    let path = folder.path.clone();
                    return Some(Walked::Unreadable { path, problem: error.to_string() });
                }
            };
            match entry.meta.kind {
                EntryKind::File => return Some(Walked::File { path, size: entry.meta.size }),
                EntryKind::Link => {}
                EntryKind::Directory => match self.store.list(&path).await {
                    Ok(listing) => {
                        self.folders.push(Folder { path, listing, pending: VecDeque::new() });
                    }
                    Err(StoreError::NotFound) => {}
                    Err(error) => {
                        return Some(Walked::Unreadable { path, problem: error.to_string() });
                    }
                },
            }
        }
    }
}

/// Size and BLAKE3 of a file as it is read.
async fn digest(store: &AnyStore, path: &StorePath) -> entrepot_storage::Result<(u64, String)> {
    let file = store.open(path).await?;
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    loop {
        buffer.clear();
        buffer = file.read_at(digest.length(), buffer, READ_BYTES).await?;
        if buffer.is_empty() {
            return Ok((digest.length(), blake3_of(&digest)));
        }
        digest.update(&buffer);
    }
}

fn write_line(into: &mut dyn Write, line: &PublishedFile) -> Result<(), Failure> {
    let written = serde_json::to_vec(line).map_err(std::io::Error::from).and_then(|mut text| {
        text.push(b'\n');
        into.write_all(&text)
    });
    written.map_err(|error| Failure::file(format!("cannot write the list of files: {error}")))
}

/// The lines of a list.
fn lines(
    list: &Path,
) -> Result<impl Iterator<Item = Result<PublishedFile, Failure>> + use<>, Failure> {
    let cannot = |error: &dyn std::fmt::Display| damaged(format!("the list of files: {error}"));
    let file = File::open(list).map_err(|error| cannot(&error))?;
    Ok(BufReader::new(file).lines().map(move |line| {
        let line = line.map_err(|error| cannot(&error))?;
        serde_json::from_str(&line).map_err(|error| cannot(&error))
    }))
}
