//! Skeleton (lead, 05:33): signatures of the contract, to compile against.
#![allow(missing_docs, unused)]
use std::net::SocketAddr;
use std::sync::Arc;

use entrepot_crypto::MasterKey;
use entrepot_db::Db;
use entrepot_journal::Recorder;
use entrepot_model::*;
use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("unavailable")]
    Unavailable,
    #[error("refused: {0}")]
    Refused(String),
}
impl AuthError {
    pub fn code(&self) -> &'static str {
        "EP0301"
    }
}
pub type Result<T> = std::result::Result<T, AuthError>;

#[derive(Clone)]
pub struct Directory(Arc<()>);
impl Directory {
    pub fn new(_db: Db, _env: Env, _master: MasterKey) -> Self {
        todo!()
    }
    pub async fn resolve(&self, _site: SiteId, _name: &Name) -> Result<Option<Arc<Principal>>> {
        todo!()
    }
    pub async fn refresh(&self) -> Result<bool> {
        todo!()
    }
    pub async fn run(self, _until: CancellationToken) {
        todo!()
    }
    pub fn watch(&self) -> tokio::sync::watch::Receiver<i64> {
        todo!()
    }
    pub fn enlist(&self, _principal: &Arc<Principal>, _session: SessionId) -> LiveSession {
        todo!()
    }
}
pub struct LiveSession;
impl LiveSession {
    pub fn principal(&self) -> Arc<Principal> {
        todo!()
    }
    pub fn generation(&self) -> u64 {
        todo!()
    }
    /// Resolves when the account may not go on; gives the reason.
    pub async fn ended(&self) -> String {
        todo!()
    }
    pub fn end_reason(&self) -> Option<String> {
        todo!()
    }
}
#[derive(Clone, Debug)]
pub struct Principal {
    pub site: SiteId,
    pub id: AccountId,
    pub account: Account,
    pub lineage: Vec<Name>,
    pub mounts: Vec<EffectiveMount>,
    pub policy: EffectivePolicy,
    pub user_keys: Vec<UserKey>,
}
#[derive(Clone, Debug)]
pub struct EffectiveMount {
    pub mount: Mount,
    pub path: VPath,
    pub prefix: StorePath,
    pub rights: Rights,
    pub endpoint: Arc<Stored<Endpoint>>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct EffectivePolicy {
    pub allow: Vec<ipnet::IpNet>,
    pub deny: Vec<ipnet::IpNet>,
    pub sessions: u32,
    pub idle_seconds: u32,
    pub upload_bytes_per_second: Option<u64>,
    pub download_bytes_per_second: Option<u64>,
    pub address_failures: u32,
    pub account_failures: u32,
    pub partial_days: u32,
    pub temporary_names: Vec<String>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct UserKey {
    pub name: Name,
    pub algorithm: String,
    pub blob: Vec<u8>,
    pub fingerprint: String,
}
#[derive(Clone)]
pub struct Gate(Arc<()>);
#[derive(Clone, Debug, Default)]
pub struct GateOptions;
impl Gate {
    pub fn new(_directory: Directory, _recorder: Recorder, _options: GateOptions) -> Gate {
        todo!()
    }
    pub fn attempt(&self, _peer: Peer) -> Attempt {
        todo!()
    }
    pub async fn internal(&self, _site: SiteId, _name: &Name, _why: &str) -> Result<Grant> {
        todo!()
    }
}
#[derive(Clone, Debug)]
pub struct Peer {
    pub site: SiteId,
    pub protocol: Protocol,
    pub listener: Name,
    pub address: SocketAddr,
    pub client: String,
}
pub struct Attempt;
impl Attempt {
    pub fn methods(&self) -> Vec<AuthMethod> {
        todo!()
    }
    pub async fn offered(&mut self, _user: &str, _key: &str) -> bool {
        todo!()
    }
    pub async fn password(&mut self, _user: &str, _password: &Secret) -> Verdict {
        todo!()
    }
    pub async fn public_key(&mut self, _user: &str, _key: &str, _algorithm: &str) -> Verdict {
        todo!()
    }
}
pub enum Verdict {
    Granted(Grant),
    Partial { next: Vec<AuthMethod> },
    Refused { next: Vec<AuthMethod>, end: bool },
}
pub struct Grant(());
impl Grant {
    pub fn principal(&self) -> &Arc<Principal> {
        todo!()
    }
    pub fn proof(&self) -> &str {
        todo!()
    }
    pub fn peer(&self) -> &Peer {
        todo!()
    }
}
