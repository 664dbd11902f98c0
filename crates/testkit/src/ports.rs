//! Ports for servers that cannot be told to take any that is free.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

/// What holds this process's ports until it ends.
static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
/// Ports below those that the system gives away, of which we take ours.
const PORTS: u16 = 4_000;
/// Ports below are root's.
const LEAST_PORT: u16 = 1_024;

/// A TCP port of loopback where nothing listens, and which is given to nobody else.
///
/// One that was bound to port 0 and let go is the system's to give to another test at once, or to
/// a connection: even to the one that looks whether the server listens, which then talks to itself.
/// So ours lie below the range that the system takes from, and a name among the abstract sockets of
/// the machine tells other tests which are taken (unix(7)).
///
/// # Errors
/// All are taken.
pub fn free_port() -> Result<u16> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let lowest = range.split_whitespace().next().context("no range of ports")?;
    let lowest: u16 = lowest.parse().context("the range of ports")?;
    // Where the system gives away nearly all, ours are among them: better than none.
    let end = lowest.max(LEAST_PORT + PORTS);
    // Processes begin at different places: then few names are asked for in vain.
    let begin = (std::process::id() % u32::from(PORTS)) as u16;
    let mut ports = (0..PORTS).map(|step| end - 1 - (begin + step) % PORTS);
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let found = ports.find_map(|port| {
        let name = SocketAddr::from_abstract_name(format!("entrepot-test-port-{port}")).ok()?;
        let hold = UnixListener::bind_addr(&name).ok()?;
        // Others than tests may listen there.
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some((port, hold))
    });
    let (port, hold) = found.context("no port is free")?;
    held.push(hold);
    Ok(port)
}
