//! From where data connections come, and where they go.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::error::DataError;
use crate::limits::LEAST_ACTIVE_PORT;

/// Whose data connections a session takes (policy `data_peer`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DataPeer {
    /// Those of the address that the control connection comes from.
    #[default]
    Same,
    /// Also those of these networks (server to server transfers, clients with several addresses).
    Networks(Vec<IpNet>),
    /// Under TLS, anybody's that resumes the session; in clear text as [`DataPeer::Same`].
    AnyResumed,
}

impl DataPeer {
    /// True if a data connection of a session of `control` may come from `from`. The answer for
    /// [`DataPeer::AnyResumed`] is of clear text.
    pub fn takes(&self, from: IpAddr, control: IpAddr) -> bool {
        let (from, control) = (from.to_canonical(), control.to_canonical());
        from == control || self.lists(from)
    }

    fn lists(&self, address: IpAddr) -> bool {
        let DataPeer::Networks(networks) = self else { return false };
        networks.iter().any(|network| network.contains(&address))
    }

    /// Whether a session of `control` may have us dial `target` (RFC 2577 §3). To be asked when
    /// PORT or EPRT come, so that not even a SYN goes anywhere else.
    ///
    /// # Errors
    /// It may not, and why.
    pub fn may_dial(&self, target: SocketAddr, control: IpAddr) -> Result<(), DataError> {
        let refused = |why| Err(DataError::Forbidden(target, why));
        let (ip, control) = (target.ip().to_canonical(), control.to_canonical());
        let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        if ip.is_unspecified() || ip.is_multicast() || is_broadcast {
            return refused("it is nobody's own");
        }
        if ip != control && !self.lists(ip) {
            return refused("it is not the client's own");
        }
        if target.port() < LEAST_ACTIVE_PORT {
            return refused("its port is below 1024");
        }
        Ok(())
    }

    /// True if others than the session's own address are taken: such a session shares no port.
    pub(super) fn is_open(&self) -> bool {
        *self != DataPeer::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn nothing_but_the_client_itself_is_dialled() {
        let client = ip("198.51.100.7");
        let ok = |target: &str, policy: &DataPeer| {
            policy.may_dial(target.parse().unwrap(), client).is_ok()
        };
        let same = DataPeer::Same;
        assert!(ok("198.51.100.7:1024", &same));
        assert!(ok("[::ffff:198.51.100.7]:50000", &same));
        for bad in [
            "198.51.100.8:50000",
            "198.51.100.7:1023",
            "198.51.100.7:25",
            "198.51.100.7:0",
            "127.0.0.1:50000",
            "0.0.0.0:50000",
            "255.255.255.255:50000",
            "224.0.0.1:50000",
            "[::1]:50000",
            "[::]:50000",
            "[ff02::1]:50000",
        ] {
            assert!(!ok(bad, &same), "{bad}");
            assert!(!ok(bad, &DataPeer::AnyResumed), "{bad}");
        }
    }

    #[test]
    fn listed_networks_are_dialled_and_taken_but_no_low_port_and_no_group() {
        let client = ip("198.51.100.7");
        let policy = DataPeer::Networks(vec!["0.0.0.0/0".parse().unwrap()]);
        let ok = |target: &str| policy.may_dial(target.parse().unwrap(), client).is_ok();
        assert!(ok("203.0.113.9:2000"));
        for bad in ["203.0.113.9:80", "0.0.0.0:2000", "255.255.255.255:2000", "[2001:db8::1]:2000"]
        {
            assert!(!ok(bad), "{bad}");
        }
        assert!(policy.takes(ip("203.0.113.9"), client));
        assert!(!DataPeer::Same.takes(ip("203.0.113.9"), client));
        assert!(!DataPeer::AnyResumed.takes(ip("203.0.113.9"), client));
        assert!(DataPeer::Same.takes(ip("::ffff:198.51.100.7"), client));
    }
}
