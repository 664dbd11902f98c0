//! The stores of a node: those of its endpoints, opened when they are first used, with the secrets
//! they need, and that of its spool.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use entrepot_auth::Directory;
use entrepot_crypto::{MasterKey, SealingContext};
use entrepot_db::Db;
use entrepot_nouns::{
    Endpoint, Env, Key, Kind, Name, Noun as _, Sealed, Secret, SiteId, StorePath, Stored,
};
use entrepot_storage::{AnyStore, EntryKind, OwnFiles, ResolvedSecrets, StoreError};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::error::{Result, VfsError};
use crate::limits;

/// How the store of an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreState {
    /// The site of the endpoint.
    pub site: SiteId,
    /// Its name in the site.
    pub endpoint: Name,
    /// A failed change could not be undone: it takes no changes until a probe has succeeded.
    pub is_sick: bool,
}

/// What stores are opened with.
pub(crate) struct StoresParts {
    pub(crate) db: Db,
    /// Names the sites of endpoints.
    pub(crate) directory: Directory,
    /// Opens the secrets of endpoints and keys.
    pub(crate) master: MasterKey,
    pub(crate) env: Env,
    /// Stores that tests give in place of those of their endpoints.
    pub(crate) given: HashMap<Name, AnyStore>,
    pub(crate) spool: Option<AnyStore>,
    pub(crate) own_files: OwnFiles,
}

/// A store, and the revision of the endpoint that it was opened for.
pub(crate) struct OpenStore {
    site: SiteId,
    endpoint: Name,
    revision: i64,
    pub(crate) store: AnyStore,
    /// Directories of mounts that were made in it. An endpoint that changes gets another store,
    /// which knows of none.
    prefixes: Mutex<HashSet<StorePath>>,
}

impl OpenStore {
    /// Makes the directory that a mount shows, once; `store` is this one at work for somebody.
    pub(crate) async fn ensure_prefix(&self, store: &AnyStore, prefix: &StorePath) -> Result<()> {
        if prefix.is_root() || self.prefixes.lock().contains(prefix) {
            return Ok(());
        }
        make_prefix(store, prefix).await?;
        self.prefixes.lock().insert(prefix.clone());
        Ok(())
    }
}

/// All stores that are open, one for each endpoint.
pub(crate) struct Stores {
    parts: StoresParts,
    open: Mutex<HashMap<Uuid, Arc<OpenStore>>>,
}

impl Stores {
    pub(crate) fn new(parts: StoresParts) -> Stores {
        Stores { parts, open: Mutex::default() }
    }

    /// Whether a test gave the store of this endpoint.
    pub(crate) fn is_given(&self, endpoint: &Name) -> bool {
        self.parts.given.contains_key(endpoint)
    }

    /// The store of an endpoint, opened once for each revision of it.
    ///
    /// # Errors
    /// Its secrets cannot be opened, or the store itself.
    pub(crate) async fn open(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore> {
        Ok(self.open_store(endpoint).await?.store.clone())
    }

    /// As [`Stores::open`], with what is known of the store.
    ///
    /// # Errors
    /// As [`Stores::open`].
    pub(crate) async fn open_store(&self, endpoint: &Stored<Endpoint>) -> Result<Arc<OpenStore>> {
        if let Some(open) = self.open.lock().get(&endpoint.id)
            && open.revision == endpoint.revision
        {
            return Ok(Arc::clone(open));
        }
        let store = match self.parts.given.get(&endpoint.noun.name) {
            Some(store) => store.clone(),
            None => {
                if let Some(problem) = self.parts.own_files.why_not(&endpoint.noun.target) {
                    return Err(StoreError::Denied(problem).into());
                }
                let secrets = self.secrets(endpoint).await?;
                entrepot_storage::open(&endpoint.noun.target, &secrets, &self.parts.env).await?
            }
        };
        let mut stores = self.open.lock();
        // Another session may have opened it meanwhile: all must share one.
        match stores.get(&endpoint.id) {
            Some(open) if open.revision == endpoint.revision => Ok(Arc::clone(open)),
            _ => {
                let (id, revision, prefixes) = (endpoint.id, endpoint.revision, Mutex::default());
                let (site, endpoint) = (endpoint.site, endpoint.noun.name.clone());
                let open = Arc::new(OpenStore { site, endpoint, revision, store, prefixes });
                stores.insert(id, Arc::clone(&open));
                Ok(open)
            }
        }
    }

    /// The store of an endpoint, if it is open.
    pub(crate) fn opened(&self, endpoint: Uuid) -> Option<AnyStore> {
        self.open.lock().get(&endpoint).map(|open| open.store.clone())
    }

    /// How the stores are that are open.
    pub(crate) fn states(&self) -> Vec<StoreState> {
        let open = self.open.lock();
        let state = |open: &Arc<OpenStore>| StoreState {
            site: open.site,
            endpoint: open.endpoint.clone(),
            is_sick: open.store.is_sick(),
        };
        open.values().map(state).collect()
    }

    /// Tries whether sick stores work again; true if one does.
    pub(crate) async fn probe_sick(&self) -> bool {
        let sick: Vec<_> = {
            let open = self.open.lock();
            open.values().filter(|open| open.store.is_sick()).cloned().collect()
        };
        let mut healed = false;
        for open in sick {
            let endpoint = &open.endpoint;
            match tokio::time::timeout(limits::PROBE_TIME, open.store.probe()).await {
                Ok(Ok(())) => {
                    tracing::info!(%endpoint, "the endpoint takes changes again");
                    healed = true;
                }
                Ok(Err(error)) => {
                    let code = "EP0533";
                    tracing::warn!(code, %endpoint, %error, "the endpoint takes no changes still");
                }
                Err(_) => {
                    tracing::warn!(code = "EP0533", %endpoint, "the endpoint does not answer")
                }
            }
        }
        healed
    }

    /// Where uploads lie that were not written in an order that their own store can take. `None`:
    /// such writes are refused.
    pub(crate) fn spool(&self) -> Option<&AnyStore> {
        self.parts.spool.as_ref()
    }

    /// The secrets that a store needs to be opened: its own, and the private key that it names.
    pub(crate) async fn secrets(&self, endpoint: &Stored<Endpoint>) -> Result<ResolvedSecrets> {
        let site = self.parts.directory.site_name(endpoint.site).await;
        let site = site.map_err(|_| VfsError::busy("secrets cannot be looked up now"))?;
        let site = site.ok_or_else(|| VfsError::busy("its site is being deleted"))?;
        let open = |context: SealingContext, sealed: Option<&Sealed>| {
            let opened = sealed.map(|sealed| self.parts.master.open(&context, sealed)).transpose();
            opened.map_err(|error| VfsError::Io { problem: error.to_string() })
        };
        let mut target = endpoint.noun.target.clone();
        let secret = match target.secret() {
            Some(secret) => {
                let context = SealingContext::endpoint(&site, &endpoint.noun.name, &secret);
                open(context, secret.sealed.as_ref())?
            }
            None => None,
        };
        let references = endpoint.noun.references();
        let Some(reference) = references.iter().find(|it| it.kind == Kind::Key) else {
            return Ok(ResolvedSecrets { secret, private_key: None });
        };
        let key = &reference.name;
        let found = self.parts.db.find::<Key>(endpoint.site, key).await;
        let found = found.map_err(|_| VfsError::busy("keys cannot be looked up now"))?;
        let sealed = found.and_then(|found| found.noun.private_sealed);
        let private_key = open(SealingContext::private_key(&site, key), sealed.as_ref())?;
        Ok(ResolvedSecrets { secret, private_key })
    }

    /// The private half of a key; `None`: it has none here.
    pub(crate) async fn private_key(&self, site: SiteId, key: &Key) -> Result<Option<Secret>> {
        let name = self.parts.directory.site_name(site).await;
        let name = name.map_err(|_| VfsError::busy("secrets cannot be looked up now"))?;
        let name = name.ok_or_else(|| VfsError::busy("its site is being deleted"))?;
        let Some(sealed) = &key.private_sealed else { return Ok(None) };
        let context = SealingContext::private_key(&name, &key.name);
        let opened = self.parts.master.open(&context, sealed);
        opened.map(Some).map_err(|error| VfsError::Io { problem: error.to_string() })
    }
}

/// Makes the directory that a mount shows, and those above it.
async fn make_prefix(store: &AnyStore, prefix: &StorePath) -> Result<()> {
    let mut path = StorePath::root();
    for component in prefix.components() {
        path = path.join(component)?;
        match store.stat(&path).await {
            Ok(meta) if meta.kind == EntryKind::Directory => continue,
            Ok(_) => return Err(VfsError::NotDirectory),
            Err(StoreError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        match store.make_directory(&path).await {
            Ok(()) | Err(StoreError::Exists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes the directory that a mount shows again if somebody has removed it. False: it is there, and
/// what was not found is missing below it.
pub(crate) async fn remake_prefix(store: &AnyStore, prefix: &StorePath) -> Result<bool> {
    if prefix.is_root() {
        return Ok(false);
    }
    match store.stat(prefix).await {
        Ok(_) => Ok(false),
        Err(StoreError::NotFound | StoreError::NotDirectory) => {
            make_prefix(store, prefix).await.map(|()| true)
        }
        Err(error) => Err(error.into()),
    }
}

/// The store of the spool, with what an earlier process left; recovery drops what cannot be
/// continued. `None`: it cannot be opened, which is logged.
pub(crate) async fn open_spool(path: &Path, env: &Env) -> Option<AnyStore> {
    let spool = entrepot_storage::fs::open(path, env).await;
    spool.inspect_err(|error| tracing::error!(%error, "nothing can be spooled")).ok()
}
