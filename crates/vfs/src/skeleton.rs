#![allow(missing_docs)]
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use entrepot_auth::{Directory, Grant, Principal};
use entrepot_crypto::MasterKey;
use entrepot_db::Db;
use entrepot_journal::Recorder;
use entrepot_model::*;
use entrepot_storage::{AnyStore, EntryKind, Existing, Space};

use crate::error::*;
use crate::meters::Meters;
use crate::recovery::RecoveryReport;

pub struct ServiceParts {
    pub recorder: Recorder,
    pub directory: Directory,
    pub db: Db,
    pub env: Env,
    pub master: MasterKey,
    pub options: ServiceOptions,
}
#[derive(Clone, Default)]
pub struct ServiceOptions {
    pub spool: PathBuf,
    pub stores: HashMap<Name, AnyStore>,
    pub boot: Option<String>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    pub id: SessionId,
    pub account: Name,
    pub protocol: Protocol,
    pub address: String,
    pub client: String,
    pub opened_at: Timestamp,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub transfers: u64,
}
#[derive(Clone)]
pub struct Service(Arc<()>);
impl Service {
    pub async fn start(_: ServiceParts) -> std::result::Result<(Service, RecoveryReport), StartError> {
        todo!()
    }
    pub async fn store(&self, _: &Stored<Endpoint>) -> Result<AnyStore> {
        todo!()
    }
    pub fn sessions(&self) -> Vec<SessionInfo> {
        todo!()
    }
    pub fn active_transfers(&self) -> Vec<Transfer> {
        todo!()
    }
    pub fn end_session(&self, _: SessionId, _: &str) -> bool {
        todo!()
    }
    pub fn meters(&self) -> &Meters {
        todo!()
    }
    pub fn drain(&self) {
        todo!()
    }
    pub async fn stop(&self) {
        todo!()
    }
}
pub struct Session(Vfs);
impl Session {
    pub async fn open(_: &Service, _: Grant) -> Result<Session> {
        todo!()
    }
    pub async fn open_for_job(_: &Service, _: Grant, _: JobId, _: EventId, _: u8) -> Result<Session> {
        todo!()
    }
    pub fn id(&self) -> SessionId {
        todo!()
    }
    pub fn vfs(&self) -> &Vfs {
        todo!()
    }
    pub fn principal(&self) -> Arc<Principal> {
        todo!()
    }
    pub fn generation(&self) -> u64 {
        todo!()
    }
    pub fn ended(&self) -> impl Future<Output = String> + Send + 'static {
        async { todo!() }
    }
    pub async fn close(self, _: &str, _: u64, _: u64) {
        todo!()
    }
}
#[derive(Clone)]
pub struct Vfs(Arc<()>);
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateIntent {
    New,
    Exclusive,
    Continue,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Create {
    pub intent: CreateIntent,
    pub expected_size: Option<u64>,
    pub append: bool,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    pub kind: EntryKind,
    pub size: u64,
    pub modified: Timestamp,
    pub accessed: Timestamp,
    pub rights: Rights,
    pub partial: bool,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    pub attributes: Attributes,
}
pub struct Listing(());
impl Listing {
    pub async fn next_page(&mut self, _: usize) -> Result<Vec<Entry>> {
        todo!()
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    pub replaced: bool,
    pub arrival: bool,
}
impl Vfs {
    pub fn home(&self) -> VPath {
        todo!()
    }
    pub fn is_local(&self, _: &VPath) -> bool {
        todo!()
    }
    pub async fn stat(&self, _: &VPath) -> Result<Attributes> {
        todo!()
    }
    pub async fn list(&self, _: &VPath) -> Result<Listing> {
        todo!()
    }
    pub async fn open(&self, _: &VPath) -> Result<Download> {
        todo!()
    }
    pub async fn create(&self, _: &VPath, _: Create) -> Result<Upload> {
        todo!()
    }
    pub async fn remove(&self, _: &VPath) -> Result<()> {
        todo!()
    }
    pub async fn make_directory(&self, _: &VPath) -> Result<()> {
        todo!()
    }
    pub async fn remove_directory(&self, _: &VPath) -> Result<()> {
        todo!()
    }
    pub async fn rename(&self, _: &VPath, _: &VPath, _: Existing) -> Result<Renamed> {
        todo!()
    }
    pub async fn set_times(&self, _: &VPath, _: Option<Timestamp>, _: Option<Timestamp>) -> Result<()> {
        todo!()
    }
    pub async fn space(&self, _: &VPath) -> Result<Space> {
        todo!()
    }
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uploaded {
    pub transfer: TransferId,
    pub size: u64,
    pub digests: Digests,
    pub replaced: bool,
    pub published: bool,
}
pub struct Upload(());
impl Upload {
    pub fn transfer(&self) -> TransferId {
        todo!()
    }
    pub fn path(&self) -> &VPath {
        todo!()
    }
    pub fn try_write_at(&mut self, _: u64, _: &[u8]) -> Result<bool> {
        todo!()
    }
    pub async fn write_at(&mut self, _: u64, _: Bytes) -> Result<()> {
        todo!()
    }
    pub async fn read_at(&mut self, _: u64, _: BytesMut, _: usize) -> Result<BytesMut> {
        todo!()
    }
    pub async fn set_len(&mut self, _: u64) -> Result<()> {
        todo!()
    }
    pub fn set_times(&mut self, _: Option<Timestamp>, _: Option<Timestamp>) {
        todo!()
    }
    pub async fn sync(&mut self) -> Result<()> {
        todo!()
    }
    pub fn size(&self) -> u64 {
        todo!()
    }
    pub async fn finish(self) -> Result<Uploaded> {
        todo!()
    }
    pub async fn interrupt(self, _: &str) {
        todo!()
    }
    pub async fn abort(self) {
        todo!()
    }
}
pub struct Download(());
impl Download {
    pub fn path(&self) -> &VPath {
        todo!()
    }
    pub fn attributes(&self) -> &Attributes {
        todo!()
    }
    pub fn try_read_at(&self, _: u64, _: &mut [u8]) -> Result<Option<usize>> {
        todo!()
    }
    pub async fn read_at(&self, _: u64, _: BytesMut, _: usize) -> Result<BytesMut> {
        todo!()
    }
    pub async fn finish(self) {
        todo!()
    }
}
