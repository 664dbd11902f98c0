//! The bytes of an endpoint behind one trait, [`Store`]: a directory of this machine ([`fs`]),
//! memory ([`memory`]), an object store ([`object`]), an SFTP server ([`sftp`]), an FTP server
//! ([`ftp`]) or the rows of a database ([`sql`]). One conformance suite runs on every kind
//! (`tests/conformance`); [`fault`] wraps any of them and simulates power cuts.

pub mod budget;
pub mod error;
pub mod fault;
pub mod fs;
pub mod ftp;
pub mod limits;
pub mod memory;
pub mod object;
mod own;
mod parts;
mod places;
mod ram;
mod reserved;
mod secrets;
pub mod sftp;
pub mod sql;
pub mod store;
pub mod thread;

pub use error::{Result, StoreError};
pub use own::OwnFiles;
pub use secrets::ResolvedSecrets;
pub use store::*;

use entrepot_nouns::{EndpointTarget, Env};

/// Opens the store of an endpoint. For a directory it is made if its parent exists; for memory
/// it is new and empty; for an object store and a server nothing is dialled yet.
pub async fn open(
    target: &EndpointTarget,
    secrets: &ResolvedSecrets,
    env: &Env,
) -> Result<AnyStore> {
    match target {
        EndpointTarget::Directory(target) => fs::open(target.path.as_ref(), env).await,
        EndpointTarget::Memory(target) => memory::open(target, env),
        EndpointTarget::Object(target) => object::open(target, secrets, env),
        EndpointTarget::Sftp(target) => sftp::open(target, secrets, env),
        EndpointTarget::Ftp(target) => ftp::open(target, secrets, env),
        EndpointTarget::Sql(target) => sql::open(target, secrets, env),
        EndpointTarget::Web(_)
        | EndpointTarget::Webhook(_)
        | EndpointTarget::Mail(_)
        | EndpointTarget::Scanner(_)
        | EndpointTarget::As2(_)
        | EndpointTarget::Tn3270(_) => {
            Err(StoreError::Unsupported("no files lie there, only steps of rules talk to it"))
        }
    }
}
