//! Outgoing connections: the name is resolved once, the addresses are checked, and exactly those
//! are dialled, so that nobody can lead us into our own network by a name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream, lookup_host};

use crate::NetError;
use crate::limits::DIAL_ADDRESSES;

/// What may be dialled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DialPolicy {
    /// Also private, loopback, link-local and other addresses that are not public.
    pub allow_private: bool,
}

/// Connects within `timeout`, which covers resolving and every address tried. No Nagle delay.
///
/// # Errors
/// Unknown name, private address, no answer, refused.
pub async fn tcp(
    host: &str,
    port: u16,
    policy: &DialPolicy,
    timeout: Duration,
) -> Result<TcpStream, NetError> {
    let peer = format!("{host}:{port}");
    match tokio::time::timeout(timeout, connect(host, port, policy)).await {
        Ok(result) => result,
        Err(_) => Err(NetError::DialTimeout(peer)),
    }
}

/// Connects to the server behind a Unix socket.
///
/// # Errors
/// Nobody answers there.
pub async fn unix(path: &Path) -> Result<UnixStream, NetError> {
    let connected = UnixStream::connect(path).await;
    connected.map_err(|error| NetError::Dial {
        peer: path.display().to_string(),
        reason: error.to_string(),
    })
}

async fn connect(host: &str, port: u16, policy: &DialPolicy) -> Result<TcpStream, NetError> {
    let addresses = resolve(host, port).await?;
    let allowed = permitted(host, &addresses, policy)?;
    let mut reason = String::new();
    for address in allowed.iter().take(DIAL_ADDRESSES) {
        match TcpStream::connect(address).await {
            Ok(stream) => match stream.set_nodelay(true) {
                Ok(()) => return Ok(stream),
                Err(error) => reason = error.to_string(),
            },
            Err(error) => reason = error.to_string(),
        }
    }
    Err(NetError::Dial { peer: format!("{host}:{port}"), reason })
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let failed = |reason: String| NetError::Resolve { host: host.to_owned(), reason };
    let found: Vec<SocketAddr> =
        lookup_host((bare, port)).await.map_err(|error| failed(error.to_string()))?.collect();
    if found.is_empty() {
        return Err(failed("no address".to_owned()));
    }
    Ok(found)
}

/// The addresses that may be dialled; an error if there are none.
fn permitted(
    host: &str,
    addresses: &[SocketAddr],
    policy: &DialPolicy,
) -> Result<Vec<SocketAddr>, NetError> {
    let allowed: Vec<SocketAddr> = addresses
        .iter()
        .copied()
        .filter(|address| policy.allow_private || is_public(address.ip()))
        .collect();
    match (allowed.is_empty(), addresses.first()) {
        (true, Some(first)) => {
            Err(NetError::PrivateAddress { host: host.to_owned(), address: first.ip() })
        }
        _ => Ok(allowed),
    }
}

/// True for an address of the public Internet (IANA special-purpose registries, RFC 6890), seen
/// through the forms of IPv6 that carry an IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => embedded_v4(v6).map_or_else(|| is_public_v6(v6), is_public_v4),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224..=255, _, _)
    );
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Only 2000::/3 is given out (RFC 4291 §2.4); within it documentation and protocol blocks
    // (2001::/23 holds Teredo, ORCHID and benchmarking) are not public.
    (first & 0xe000) == 0x2000
        && !(first == 0x2001 && (second < 0x0200 || second == 0x0db8))
        && !(first == 0x3fff && second < 0x1000)
}

/// The IPv4 address inside: mapped (`::ffff:0:0/96`), compatible (`::/96`), NAT64
/// (`64:ff9b::/96`, RFC 6052), 6to4 (`2002::/16`, RFC 3056).
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (s0, s1, s2, s3, s4, s5) {
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0x0064, 0xff9b, 0, 0, 0, 0) => Some(join(s6, s7)),
        (0x2002, _, _, _, _, _) => Some(join(s1, s2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        let public = ["8.8.8.8", "193.0.6.139", "2a00:1450:4001::1", "2001:4860:4860::8888"];
        for text in public {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "ff02::1",
        ];
        for text in private {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[tokio::test]
    async fn loopback_is_refused_unless_allowed() {
        let acceptor = crate::listen::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let port = acceptor.local_address().port();
        let timeout = Duration::from_secs(5);
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
            let refused = tcp(host, port, &DialPolicy::default(), timeout).await.unwrap_err();
            assert_eq!(refused.code(), "EP0221", "{host}");
        }
        let policy = DialPolicy { allow_private: true };
        let stream = tcp("127.0.0.1", port, &policy, timeout).await.unwrap();
        assert!(stream.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_mixed_answer_leaves_only_the_public_addresses() {
        let both = ["10.0.0.1:22".parse().unwrap(), "8.8.8.8:22".parse().unwrap()];
        let left = permitted("x", &both, &DialPolicy::default()).unwrap();
        assert_eq!(left, both[1..]);
    }

    #[tokio::test]
    async fn a_closed_port_is_told() {
        let policy = DialPolicy { allow_private: true };
        let gone = crate::listen::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let port = gone.local_address().port();
        drop(gone);
        let error = tcp("127.0.0.1", port, &policy, Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(error.code(), "EP0223");
    }
}
