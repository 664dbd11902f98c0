//! One kept port: its leases, and the task that accepts for all of them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use entrepot_nouns::Env;
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acceptor::DataAcceptor;
use super::lazy::LazySocket;
use super::peer::DataPeer;
use super::slot::{Arrived, Slot};
use crate::limits::{DATA_ACCEPT_REST, DATA_PROXY_TIME, LISTEN_BACKLOG, PROXIES_WAITING};
use crate::proxy;

/// Somebody who connected to a data port and was not expected there: he was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where he came from.
    pub peer: SocketAddr,
    /// Where he went.
    pub port: SocketAddr,
}

/// A bound port. Leases are found by the client's address.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) address: SocketAddr,
    /// The task that accepts keeps it: when that ends, the port is given back.
    acceptor: Weak<DataAcceptor>,
    /// A session waits for a connection that has not come yet.
    wanted: Notify,
    leases: Mutex<Leases>,
}

#[derive(Debug, Default)]
struct Leases {
    shared: HashMap<IpAddr, Arc<Slot>>,
    /// Of a session that takes connections of more than one address; then there are no others.
    alone: Option<Arc<Slot>>,
}

impl Port {
    pub(super) fn new(acceptor: &Arc<DataAcceptor>) -> Self {
        let address = acceptor.local_address();
        Port {
            address,
            acceptor: Arc::downgrade(acceptor),
            wanted: Notify::new(),
            leases: Mutex::default(),
        }
    }

    /// Leases the port if its other leases allow it.
    pub(super) fn lease(&self, slot: &Arc<Slot>) -> bool {
        let mut leases = self.leases.lock();
        if leases.alone.is_some() {
            return false;
        }
        if slot.policy.is_open() {
            let free = leases.shared.is_empty();
            leases.alone = free.then(|| Arc::clone(slot));
            return free;
        }
        match leases.shared.entry(slot.control) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Arc::clone(slot));
                true
            }
        }
    }

    pub(super) fn release(&self, slot: &Arc<Slot>) {
        let mut leases = self.leases.lock();
        leases.alone.take_if(|alone| Arc::ptr_eq(alone, slot));
        if leases.shared.get(&slot.control).is_some_and(|shared| Arc::ptr_eq(shared, slot)) {
            leases.shared.remove(&slot.control);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let leases = self.leases.lock();
        leases.alone.is_none() && leases.shared.is_empty()
    }

    /// The leases for which `is` holds.
    pub(super) fn leases(&self, is: impl Fn(&Slot) -> bool) -> Vec<Arc<Slot>> {
        let leases = self.leases.lock();
        let all = leases.shared.values().chain(&leases.alone);
        all.filter(|slot| is(slot)).cloned().collect()
    }

    fn find(&self, from: IpAddr) -> Option<Arc<Slot>> {
        let leases = self.leases.lock();
        let alone = leases.alone.as_ref().filter(|slot| {
            slot.policy == DataPeer::AnyResumed || slot.policy.takes(from, slot.control)
        });
        leases.shared.get(&from).or(alone).cloned()
    }
}

/// What all ports share.
#[derive(Debug)]
pub(super) struct Door {
    env: Env,
    /// Balancers that say in a PROXY header for whom they connect.
    pub(super) proxies: ArcSwap<Vec<IpNet>>,
    pub(super) tasks: TaskTracker,
    waiting: Arc<Semaphore>,
    refused: AtomicU64,
    tell: mpsc::Sender<Refused>,
}

impl Door {
    pub(super) fn new(env: Env, proxies: Vec<IpNet>, tell: mpsc::Sender<Refused>) -> Self {
        Door {
            env,
            proxies: ArcSwap::from_pointee(proxies),
            tasks: TaskTracker::new(),
            waiting: Arc::new(Semaphore::new(PROXIES_WAITING)),
            refused: AtomicU64::new(0),
            tell,
        }
    }

    /// How many were refused since start.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Accepts for all leases of a port until `stop`. Sessions whose client has connected already
    /// accept for themselves: so after each connection others may wait for a moment, unless a
    /// session waits for them. To be woken for each would be a second task to run for it.
    pub(super) async fn keep(
        self: Arc<Self>,
        port: Arc<Port>,
        acceptor: Arc<DataAcceptor>,
        stop: CancellationToken,
    ) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                (stream, peer) = acceptor.accept() => self.welcome(&port, stream, peer),
            }
            for _ in 0..LISTEN_BACKLOG {
                let Some((stream, peer)) = acceptor.accept_next() else { break };
                self.welcome(&port, stream, peer);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = port.wanted.notified() => {}
                () = sleep(DATA_ACCEPT_REST) => {}
            }
        }
    }

    /// Delivers what has connected to a port by now to a session that waits for its client; if it
    /// was not among that, it comes later.
    pub(super) fn deliver_to(self: &Arc<Self>, port: &Arc<Port>, slot: &Slot) {
        self.deliver_until(port, || slot.has_waiting());
        if !slot.has_waiting() {
            port.wanted.notify_one();
        }
    }

    /// Delivers what has connected by now, ahead of the task of the port, or as much as is enough.
    /// All is to be delivered before a new expectation: the kernel may hold a connection that was
    /// made for an older one, and who is expected next has not heard of it yet.
    pub(super) fn deliver_until(self: &Arc<Self>, port: &Arc<Port>, is_enough: impl Fn() -> bool) {
        let Some(acceptor) = port.acceptor.upgrade() else { return };
        for _ in 0..LISTEN_BACKLOG {
            if is_enough() {
                return;
            }
            let Some((stream, peer)) = acceptor.accept_now() else { return };
            self.welcome(port, stream, peer);
        }
    }

    fn welcome(self: &Arc<Self>, port: &Arc<Port>, stream: LazySocket, peer: SocketAddr) {
        let arrived = Arrived { stream, peer, accepted: self.env.elapsed() };
        let from = peer.ip().to_canonical();
        let proxies = self.proxies.load();
        if !proxies.iter().any(|network| network.contains(&from)) {
            return self.hand_over(port, arrived);
        }
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            return self.refuse(port, arrived);
        };
        let (door, port) = (Arc::clone(self), Arc::clone(port));
        self.tasks.spawn(async move {
            door.welcome_behind_proxy(&port, arrived).await;
            drop(place);
        });
    }

    async fn welcome_behind_proxy(&self, port: &Port, mut arrived: Arrived) {
        let proxy = arrived.peer;
        let header = proxy::client_behind(&mut arrived.stream, proxy);
        match timeout(DATA_PROXY_TIME, header).await {
            Ok(Ok(peer)) => return self.hand_over(port, Arrived { peer, ..arrived }),
            Ok(Err(error)) => {
                tracing::info!(%proxy, %error, "a proxy was not understood at a data port");
            }
            Err(_) => tracing::info!(%proxy, "a proxy sent no header to a data port in time"),
        }
        arrived.reset();
    }

    fn hand_over(&self, port: &Port, arrived: Arrived) {
        let slot = port.find(arrived.peer.ip().to_canonical());
        let refused = match slot {
            Some(slot) => slot.offer(arrived).err(),
            None => Some(arrived),
        };
        if let Some(unexpected) = refused {
            self.refuse(port, unexpected);
        }
    }

    fn refuse(&self, port: &Port, unexpected: Arrived) {
        let refused = Refused { peer: unexpected.peer, port: port.address };
        tracing::debug!(peer = %refused.peer, port = %refused.port, "nobody expects it there");
        unexpected.reset();
        self.refused.fetch_add(1, Ordering::Relaxed);
        // Nobody listens, or a flood fills the queue: the count still tells.
        let _ = self.tell.try_send(refused);
    }
}
