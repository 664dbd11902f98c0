//! Passive data connections. Ports are bound once and kept, for binding one per transfer walks the
//! ports in TIME_WAIT and ends when they are used up.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::Env;
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::acceptor::DataAcceptor;
use super::error::DataError;
use super::peer::DataPeer;
use super::port::{Door, Port, Refused};
use super::range::PortRange;
use super::secure::{self, DataTls};
use super::slot::{Arrived, Slot};
use super::stream::DataStream;
use crate::NetError;
use crate::limits::{DATA_PORT_IDLE_TIME, DATA_PORT_TRIES, DATA_REFUSALS, DATA_SWEEP_INTERVAL};
use crate::meter::SessionMeter;

/// What [`DataPorts`] are given.
#[derive(Clone, Debug)]
pub struct DataPortsOptions {
    /// Clock and randomness.
    pub env: Env,
    /// Where ports are taken from.
    pub range: PortRange,
    /// Balancers that send a PROXY header on data connections too.
    pub proxies: Vec<IpNet>,
}

/// The kept ports of all sessions. Listeners that share a range share this. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DataPorts(Arc<PortPool>);

#[derive(Debug)]
struct PortPool {
    env: Env,
    door: Arc<Door>,
    table: Mutex<PortTable>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct PortTable {
    range: PortRange,
    /// By local address, port 0.
    by_address: HashMap<SocketAddr, AddressPorts>,
    uses: Uses,
}

/// Numbers the uses of ports, so that ports can be ordered by their last one.
#[derive(Debug, Default)]
struct Uses(u64);

/// A use of a port.
#[derive(Clone, Copy, Debug)]
struct Use {
    number: u64,
    /// Time since the start of the node.
    at: Duration,
}

impl Uses {
    fn next(&mut self, at: Duration) -> Use {
        self.0 += 1;
        Use { number: self.0, at }
    }
}

/// The ports on one local address.
#[derive(Debug, Default)]
struct AddressPorts {
    kept: HashMap<u16, KeptPort>,
    /// Least recently used first.
    by_use: BTreeMap<u64, u16>,
    /// How many each client leases; as many as there are ports: none is free for it.
    leased: HashMap<IpAddr, usize>,
    /// The range, shuffled, and how far it has been used.
    order: Vec<u16>,
    next: usize,
}

#[derive(Debug)]
struct KeptPort {
    port: Arc<Port>,
    stop: CancellationToken,
    last_use: Use,
}

impl DataPorts {
    /// Without any port yet. The receiver hears of those who were refused.
    pub fn new(options: DataPortsOptions) -> (Self, mpsc::Receiver<Refused>) {
        let (tell, refusals) = mpsc::channel(DATA_REFUSALS);
        let table =
            PortTable { range: options.range, by_address: HashMap::new(), uses: Uses::default() };
        let pool = PortPool {
            env: options.env.clone(),
            door: Arc::new(Door::new(options.env, options.proxies, tell)),
            table: Mutex::new(table),
            stop: CancellationToken::new(),
        };
        (DataPorts(Arc::new(pool)), refusals)
    }

    /// Looks after leases and ports until `stop`, then gives every port back.
    pub async fn run(&self, stop: CancellationToken) {
        let mut ticks = interval(DATA_SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = ticks.tick() => self.sweep(),
            }
        }
        self.0.stop.cancel();
        self.0.door.tasks.close();
        self.0.door.tasks.wait().await;
    }

    /// For a session. Binds nothing yet.
    pub fn seat(&self, options: SeatOptions) -> PassiveSeat {
        PassiveSeat { ports: self.clone(), options, held: None }
    }

    /// New leases take ports of this range; ports outside are given back when they are idle.
    pub fn set_range(&self, range: PortRange) {
        let mut table = self.0.table.lock();
        table.range = range;
        for ports in table.by_address.values_mut() {
            (ports.order, ports.next) = (Vec::new(), 0);
        }
    }

    /// From now on these balancers send a PROXY header.
    pub fn set_proxies(&self, proxies: Vec<IpNet>) {
        self.0.door.proxies.store(Arc::new(proxies));
    }

    /// How many connections were refused since start.
    pub fn refused(&self) -> u64 {
        self.0.door.refused()
    }

    /// How many ports are bound now.
    pub fn bound(&self) -> usize {
        self.0.table.lock().by_address.values().map(|ports| ports.kept.len()).sum()
    }

    /// Ends leases whose client has not come, and gives idle ports back.
    pub(super) fn sweep(&self) {
        let now = self.0.env.elapsed();
        let mut table = self.0.table.lock();
        let PortTable { range, by_address, uses } = &mut *table;
        for ports in by_address.values_mut() {
            let numbers: Vec<u16> = ports.kept.keys().copied().collect();
            for number in numbers {
                let Some(kept) = ports.kept.get(&number) else { continue };
                let overdue = kept.port.leases(|slot| slot.is_overdue(now));
                for slot in overdue {
                    ports.release(number, &slot, uses.next(now));
                }
                ports.give_back(number, now, *range);
            }
        }
        by_address.retain(|_, ports| !ports.kept.is_empty());
    }

    fn lease(&self, options: &SeatOptions) -> Result<PortLease, DataError> {
        let control = options.peer.to_canonical();
        let slot = Arc::new(Slot::new(control, options.policy.clone()));
        let key = address_key(options.local);
        let mut table = self.0.table.lock();
        let PortTable { range, by_address, uses } = &mut *table;
        let ports = by_address.entry(key).or_default();
        let number = match ports.leasable(&slot, *range) {
            Some(number) => number,
            None => self.bind(ports, key, *range)?,
        };
        let kept = ports.kept.get(&number).filter(|kept| kept.port.lease(&slot));
        let kept = kept.map(|kept| Arc::clone(&kept.port));
        let port = kept.ok_or(DataError::NoPort { local: key.ip(), range: *range })?;
        ports.touch(number, uses.next(self.0.env.elapsed()));
        *ports.leased.entry(control).or_default() += 1;
        Ok(PortLease { key, port, slot })
    }

    /// Expects a connection from now on, and none that came before. `false`: the lease is over.
    fn begin_expecting(&self, held: &PortLease) -> bool {
        self.0.door.deliver_until(&held.port, || false);
        held.slot.open(self.0.env.elapsed())
    }

    /// Binds one more.
    fn bind(
        &self,
        ports: &mut AddressPorts,
        key: SocketAddr,
        range: PortRange,
    ) -> Result<u16, DataError> {
        let local = key.ip();
        if ports.order.is_empty() {
            ports.order = range.shuffled(&self.0.env);
        }
        for _ in 0..ports.order.len().min(DATA_PORT_TRIES) {
            let number = ports.order.get(ports.next).copied().unwrap_or_default();
            ports.next = (ports.next + 1) % ports.order.len();
            if ports.kept.contains_key(&number) {
                continue;
            }
            let mut address = key;
            address.set_port(number);
            match DataAcceptor::bind(address) {
                Ok(acceptor) => {
                    self.open(ports, acceptor);
                    return Ok(number);
                }
                Err(NetError::PortBusy(_) | NetError::PortForbidden(_)) => {}
                Err(NetError::Listen { error, .. }) => {
                    return Err(DataError::Listen { local, error });
                }
                Err(_) => {
                    let error = ErrorKind::AddrNotAvailable.into();
                    return Err(DataError::Listen { local, error });
                }
            }
        }
        Err(DataError::NoPort { local, range })
    }

    fn open(&self, ports: &mut AddressPorts, acceptor: DataAcceptor) {
        let address = acceptor.local_address();
        let acceptor = Arc::new(acceptor);
        let port = Arc::new(Port::new(&acceptor));
        let stop = self.0.stop.child_token();
        let door = Arc::clone(&self.0.door);
        let keeping = Arc::clone(&door).keep(Arc::clone(&port), acceptor, stop.clone());
        door.tasks.spawn(keeping);
        // Number 0 is in no order: the lease that the port is bound for will be its first use.
        let last_use = Use { number: 0, at: self.0.env.elapsed() };
        ports.kept.insert(address.port(), KeptPort { port, stop, last_use });
    }

    fn release(&self, held: &PortLease) {
        let now = self.0.env.elapsed();
        let mut table = self.0.table.lock();
        let PortTable { by_address, uses, .. } = &mut *table;
        if let Some(ports) = by_address.get_mut(&held.key) {
            ports.release(held.port.address.port(), &held.slot, uses.next(now));
        }
    }
}

impl AddressPorts {
    /// The least recently used port that `slot` may lease.
    fn leasable(&self, slot: &Arc<Slot>, range: PortRange) -> Option<u16> {
        let own = self.leased.get(&slot.control).copied().unwrap_or(0);
        if own >= self.kept.len() {
            return None;
        }
        let fits = |number: &&u16| {
            range.contains(**number)
                && self.kept.get(*number).is_some_and(|kept| kept.port.lease(slot))
        };
        let number = self.by_use.values().find(fits).copied()?;
        // It is leased in one step by the caller, as a port that was just bound is.
        self.kept.get(&number)?.port.release(slot);
        Some(number)
    }

    /// Notes the newest use of a port.
    fn touch(&mut self, number: u16, newest: Use) {
        if let Some(kept) = self.kept.get_mut(&number) {
            self.by_use.remove(&kept.last_use.number);
            kept.last_use = newest;
            self.by_use.insert(newest.number, number);
        }
    }

    /// Ends a lease, if it has not ended yet.
    fn release(&mut self, number: u16, slot: &Arc<Slot>, newest: Use) {
        if slot.end()
            && let Some(kept) = self.kept.get(&number)
        {
            kept.port.release(slot);
            if let Some(own) = self.leased.get_mut(&slot.control) {
                *own -= 1;
                if *own == 0 {
                    self.leased.remove(&slot.control);
                }
            }
            self.touch(number, newest);
        }
    }

    /// Gives a port back that nobody has leased for long, or that is not of the range any more.
    fn give_back(&mut self, number: u16, now: Duration, range: PortRange) {
        let is_over = |kept: &KeptPort| {
            let long = now.saturating_sub(kept.last_use.at) >= DATA_PORT_IDLE_TIME;
            kept.port.is_idle() && (long || !range.contains(number))
        };
        if self.kept.get(&number).is_some_and(is_over)
            && let Some(kept) = self.kept.remove(&number)
        {
            self.by_use.remove(&kept.last_use.number);
            kept.stop.cancel();
        }
    }
}

/// The local address as a key: no port, IPv4 as IPv4, with the scope of a link-local address.
fn address_key(local: SocketAddr) -> SocketAddr {
    match (local.ip().to_canonical(), local) {
        (IpAddr::V6(ip), SocketAddr::V6(v6)) => {
            std::net::SocketAddrV6::new(ip, 0, 0, v6.scope_id()).into()
        }
        (ip, _) => SocketAddr::new(ip, 0),
    }
}

/// What a seat is given.
#[derive(Clone, Debug)]
pub struct SeatOptions {
    /// The control connection's local address; data ports are bound on it, never on the wildcard.
    pub local: SocketAddr,
    /// The client's address.
    pub peer: IpAddr,
    /// Whose connections it takes.
    pub policy: DataPeer,
    /// The meter of the session.
    pub meter: Arc<SessionMeter>,
}

/// The passive mode of one session. Dropping it ends the lease.
#[derive(Debug)]
pub struct PassiveSeat {
    ports: DataPorts,
    options: SeatOptions,
    held: Option<PortLease>,
}

#[derive(Debug)]
struct PortLease {
    key: SocketAddr,
    port: Arc<Port>,
    slot: Arc<Slot>,
}

impl PassiveSeat {
    /// PASV and EPSV: expects a connection from now on, and answers where. Whoever waited for an
    /// older expectation is reset.
    ///
    /// # Errors
    /// No port is free, or the local address cannot be listened on.
    pub fn listen(&mut self) -> Result<SocketAddr, DataError> {
        if let Some(held) = &self.held
            && self.ports.begin_expecting(held)
        {
            return Ok(held.port.address);
        }
        let held = self.ports.lease(&self.options)?;
        self.ports.begin_expecting(&held);
        Ok(self.held.insert(held).port.address)
    }

    /// True between [`PassiveSeat::listen`] and the end of what it expects.
    pub fn is_expecting(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.slot.is_expecting())
    }

    /// True if somebody has come and waits to be taken.
    pub fn has_waiting(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.slot.has_waiting())
    }

    /// The expectation ends without a transfer (ABOR, PORT, REIN).
    pub fn forget(&mut self) {
        if let Some(held) = &self.held {
            held.slot.forget();
        }
    }

    /// From now on connections of these are taken; the next PASV may answer another port.
    pub fn set_policy(&mut self, policy: DataPeer) {
        if policy != self.options.policy {
            self.options.policy = policy;
            self.leave();
        }
    }

    /// The data connection of a transfer, whether it came before this call or comes within `wait`;
    /// `tls` for PROT P. With it the expectation ends: whoever else came is reset.
    ///
    /// # Errors
    /// Nothing is expected, nobody came, or nobody who came is this client (PROT P).
    pub async fn take(
        &mut self,
        tls: Option<&DataTls>,
        wait: Duration,
    ) -> Result<DataStream, DataError> {
        let Some(PortLease { port, slot, .. }) = &self.held else {
            return Err(DataError::NotExpected);
        };
        let slot = Arc::clone(slot);
        // Most clients connect before they say what for: then nobody need be waited for.
        self.ports.0.door.deliver_to(port, &slot);
        let meter = &self.options.meter;
        let taken = match tls {
            Some(tls) => secure::first_resumed(&slot, tls, meter, wait).await,
            None => timeout(wait, first(&slot))
                .await
                .unwrap_or(Err(DataError::Timeout))
                .map(|arrived| DataStream::over(arrived.stream, arrived.peer, meter)),
        };
        slot.forget();
        taken
    }

    fn leave(&mut self) {
        if let Some(held) = self.held.take() {
            self.ports.release(&held);
        }
    }
}

impl Drop for PassiveSeat {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The first who came and is taken in clear text.
async fn first(slot: &Slot) -> Result<Arrived, DataError> {
    loop {
        let arrived = slot.next().await?.ok_or(DataError::Timeout)?;
        if slot.policy.takes(arrived.peer.ip(), slot.control) {
            return Ok(arrived);
        }
        arrived.reset();
    }
}
