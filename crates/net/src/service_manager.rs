//! What systemd, or another service manager with its protocol, is told: sd_notify(3).

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// States of a service, in the words of sd_notify(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// It has started and serves now.
    Ready,
    /// It lets running work end and then ends itself.
    Stopping,
    /// It works as it should; expected within each [`watchdog_time`].
    Alive,
}

/// Tells the service manager that started this process, if it wants to know (`NOTIFY_SOCKET`).
///
/// # Errors
/// The service manager cannot be told.
pub fn notify(state: ServiceState) -> std::io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    let text = match state {
        ServiceState::Ready => "READY=1",
        ServiceState::Stopping => "STOPPING=1",
        ServiceState::Alive => "WATCHDOG=1",
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}

/// The longest time between two [`ServiceState::Alive`] before the service manager kills this
/// process; `None` if it does not watch it (sd_watchdog_enabled(3)).
pub fn watchdog_time() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    if number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id())) {
        return None;
    }
    number("WATCHDOG_USEC").filter(|time| *time > 0).map(Duration::from_micros)
}
