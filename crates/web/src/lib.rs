//! HTTP and HTTPS: the adapter between connections of `net` and what is served on them, the files
//! of accounts (`vfs`) and the administration (`admin`).
//!
//! What it guarantees:
//! 1. Every request is from an account that the gate has let in, or is told to sign in; who it is
//!    from never follows from a field that a proxy or client could make up.
//! 2. An upload is answered with success when its publish is durable; a body that ends early
//!    publishes nothing.
//! 3. A request holds two batches of an upload, or one piece of a download, in memory; a client
//!    that sends or takes slowly is waited for, and one that stops is ended.
//! 4. What a page of another site makes a browser send changes nothing: requests with a cookie
//!    carry what only a page of ours knows. What a browser shows of
//!    files of accounts can run no script.
//! 5. Every refusal is one object of problem+json with the code of its page in `docs/errors`.

mod accept;
mod activity;
mod answers;
mod api;
mod as2;
mod body;
mod browser;
mod challenges;
mod config;
mod connection;
mod context;
mod credentials;
mod dav;
mod files;
mod heads;
mod hooks;
mod html;
pub mod limits;
mod links;
mod login;
mod origin;
mod page;
mod pages;
mod pending;
mod problem;
mod rate_fields;
mod request;
mod request_id;
mod route_table;
mod router;
mod server;
mod sessions;
mod shared;
mod site;
mod status;
mod stream;
mod tasks;
mod upload_body;
mod uploads;
mod web_hooks;

use std::sync::Arc;

use entrepot_net::server::{Listening, Server};
use entrepot_vfs::ListenerContext;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use limits::SESSION_SWEEP;
use server::WebProtocol;
use shared::{ListenerShared, SharedParts};

pub use api::{ApiNode, LiveSource, WebApi, remote};
pub use config::WebConfig;
pub use dav::dav_locks::DavLocks;

/// What a listener serves.
pub struct WebParts {
    /// Its place, and the gate and files of the node.
    pub context: ListenerContext,
    /// The API of the node.
    pub api: WebApi,
    /// Locks of WebDAV, which all listeners of the node share.
    pub dav_locks: DavLocks,
}

/// Serves HTTP until `stop`; then accepts no more, ends idle connections at once, lets running
/// requests end within the drain limit, and returns when every connection and session is over.
pub async fn serve(listening: Listening<WebConfig>, parts: WebParts, stop: CancellationToken) {
    let WebParts { context, api, dav_locks } = parts;
    let admin = Arc::clone(&api.0.admin);
    let parts = SharedParts { context, config: listening.config.clone(), dav_locks, admin };
    let shared = Arc::new(ListenerShared::new(parts, router::make(&api)));
    let protocol = WebProtocol(Arc::clone(&shared));
    let server = Server { listening, protocol };
    let sweeping = async {
        loop {
            sleep(SESSION_SWEEP).await;
            shared.sessions.sweep();
        }
    };
    tokio::select! {
        () = server.run(stop) => {}
        () = sweeping => {}
    }
    shared.sessions.close();
}

/// For fuzzing: what is decoded from addresses and fields of requests.
pub fn fuzz(data: &[u8]) {
    files::fuzz(data);
    uploads::fuzz(data);
}

#[cfg(test)]
mod tests;
