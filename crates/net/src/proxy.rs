//! The PROXY protocol, version 2 (haproxy.org, doc/proxy-protocol.txt): a load balancer says in a
//! header before the first byte for whom it connects. Only listed balancers are asked.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::limits::{PROXY_HEADER_BYTES, PROXY_TIME};

/// What every header begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
const FIXED_BYTES: usize = 16;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// It connects for this client.
    For(SocketAddr),
    /// It connects for itself, such as to see whether we live; or says nothing of the client.
    Itself,
}

/// Reads the header, no byte more. Answers with the client's address, `peer` if the balancer
/// connects for itself.
///
/// # Errors
/// No header, a broken or too long one, or none in time.
pub(crate) async fn client_behind(
    stream: &mut (impl AsyncRead + Unpin),
    peer: SocketAddr,
) -> io::Result<SocketAddr> {
    let header = async {
        let mut fixed = [0; FIXED_BYTES];
        stream.read_exact(&mut fixed).await?;
        let mut addresses = vec![0; rest_of(&fixed).map_err(broken)?];
        stream.read_exact(&mut addresses).await?;
        said(&fixed, &addresses).map_err(broken)
    };
    let said = tokio::time::timeout(PROXY_TIME, header).await;
    match said.map_err(|_| broken("no PROXY header came in time"))?? {
        Said::For(client) => Ok(client),
        Said::Itself => Ok(peer),
    }
}

fn broken(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Bytes behind the fixed part.
fn rest_of(fixed: &[u8; FIXED_BYTES]) -> Result<usize, &'static str> {
    let [.., command, _family, high, low] = fixed;
    if !fixed.starts_with(&SIGNATURE) {
        return Err("a listed proxy did not begin with a PROXY header of version 2");
    }
    if !matches!(command, 0x20 | 0x21) {
        return Err("the PROXY header is of another version or command");
    }
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length > PROXY_HEADER_BYTES { Err("the PROXY header is too long") } else { Ok(length) }
}

fn said(fixed: &[u8; FIXED_BYTES], addresses: &[u8]) -> Result<Said, &'static str> {
    let [.., command, family, _, _] = fixed;
    if *command == 0x20 {
        return Ok(Said::Itself);
    }
    let short = "the PROXY header is shorter than its addresses";
    match family {
        0x11 => {
            let (ips, rest) = addresses.split_first_chunk::<8>().ok_or(short)?;
            let [a, b, c, d, ..] = *ips;
            Ok(Said::For(
                (IpAddr::from(Ipv4Addr::new(a, b, c, d)), port(rest).ok_or(short)?).into(),
            ))
        }
        0x21 => {
            let (source, rest) = addresses.split_first_chunk::<16>().ok_or(short)?;
            let (_target, rest) = rest.split_first_chunk::<16>().ok_or(short)?;
            let ip = IpAddr::from(Ipv6Addr::from(*source)).to_canonical();
            Ok(Said::For((ip, port(rest).ok_or(short)?).into()))
        }
        0x00 => Ok(Said::Itself),
        _ => Err("the PROXY header is of another family than TCP over IPv4 or IPv6"),
    }
}

/// The source's port, in front of the target's.
fn port(ports: &[u8]) -> Option<u16> {
    let (ports, _) = ports.split_first_chunk::<4>()?;
    let [high, low, ..] = *ports;
    Some(u16::from_be_bytes([high, low]))
}

/// For fuzzing: whatever comes is read or refused.
pub fn fuzz(data: &[u8]) {
    if let Some((fixed, rest)) = data.split_first_chunk::<FIXED_BYTES>()
        && let Ok(length) = rest_of(fixed)
        && let Some(addresses) = rest.get(..length)
    {
        let _ = said(fixed, addresses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "192.0.2.9:7";

    fn header(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, addresses].concat()
    }

    async fn read(bytes: &[u8]) -> io::Result<(SocketAddr, usize)> {
        let mut stream = bytes;
        let client = client_behind(&mut stream, PEER.parse().unwrap()).await?;
        Ok((client, stream.len()))
    }

    const V4: [u8; 12] = [198, 51, 100, 7, 10, 0, 0, 1, 0x30, 0x39, 0, 22];

    #[tokio::test]
    async fn the_client_is_told_and_nothing_behind_the_header_is_read() {
        let mut bytes = header(0x21, 0x11, &[&V4[..], &[4, 0, 1, 0]].concat());
        bytes.extend(b"SSH-2.0-x");
        assert_eq!(read(&bytes).await.unwrap(), ("198.51.100.7:12345".parse().unwrap(), 9));
        let mut v6 = [0; 36];
        v6[..2].copy_from_slice(&[0x20, 0x01]);
        v6[32..].copy_from_slice(&[0, 80, 0, 22]);
        let (client, _) = read(&header(0x21, 0x21, &v6)).await.unwrap();
        assert_eq!(client, "[2001::]:80".parse().unwrap());
    }

    #[tokio::test]
    async fn a_balancer_may_come_for_itself() {
        for own in [header(0x20, 0x00, &[]), header(0x20, 0x11, &V4), header(0x21, 0x00, &[])] {
            assert_eq!(read(&own).await.unwrap().0, PEER.parse().unwrap());
        }
    }

    #[tokio::test]
    async fn what_is_no_whole_header_is_refused() {
        let whole = header(0x21, 0x11, &V4);
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).await.is_err(), "cut at {cut}");
        }
        for bad in [
            header(0x11, 0x11, &V4),
            header(0x22, 0x11, &V4),
            header(0x21, 0x12, &V4),
            header(0x21, 0x11, &V4[..11]),
            header(0x21, 0x21, &V4),
            header(0x20, 0, &vec![0; PROXY_HEADER_BYTES + 1]),
            b"PROXY TCP4 198.51.100.7 10.0.0.1 12345 22\r\n".to_vec(),
            b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n".to_vec(),
        ] {
            assert!(read(&bad).await.is_err(), "{bad:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_balancer_is_not_waited_for() {
        let (_silent, mut stream) = tokio::io::duplex(64);
        let error = client_behind(&mut stream, PEER.parse().unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), "no PROXY header came in time");
    }
}
