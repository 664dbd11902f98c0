//! Addresses of data connections as text: PORT and 227 (RFC 959 §4.1.2), EPRT and 229 (RFC 2428).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

/// The address of PORT: six decimal numbers.
pub fn parse_port(text: &str) -> Option<SocketAddr> {
    let mut numbers = text.split(',').map(byte);
    let mut next = || numbers.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    let port = u16::from_be_bytes([next()?, next()?]);
    if numbers.next().is_some() || port == 0 {
        return None;
    }
    Some(SocketAddr::V4(SocketAddrV4::new(address, port)))
}

fn byte(text: &str) -> Option<u8> {
    decimal(text, 3)?.try_into().ok()
}

/// A number of at most `digits` digits and nothing else.
fn decimal(text: &str, digits: usize) -> Option<u32> {
    let fits = (1..=digits).contains(&text.len());
    if fits && text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The argument of PORT.
pub fn port_argument(address: SocketAddrV4) -> String {
    let [a, b, c, d] = address.ip().octets();
    let [high, low] = address.port().to_be_bytes();
    format!("{a},{b},{c},{d},{high},{low}")
}

/// What is wrong with an EPRT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EprtFlaw {
    /// Not of the form.
    Syntax,
    /// A family that is neither 1 nor 2.
    Family,
}

/// The address of EPRT: `|1|132.235.1.2|6275|` with any delimiter.
///
/// # Errors
/// What is wrong with it.
pub fn parse_eprt(text: &str) -> Result<SocketAddr, EprtFlaw> {
    let delimiter = text.chars().next().filter(char::is_ascii_graphic).ok_or(EprtFlaw::Syntax)?;
    let mut fields = text.split(delimiter).skip(1);
    let mut next = || fields.next().ok_or(EprtFlaw::Syntax);
    let (family, address, port, end) = (next()?, next()?, next()?, next()?);
    if !end.is_empty() || fields.next().is_some() {
        return Err(EprtFlaw::Syntax);
    }
    let address = match decimal(family, 5).ok_or(EprtFlaw::Syntax)? {
        1 => address.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| EprtFlaw::Syntax)?,
        2 => address.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| EprtFlaw::Syntax)?,
        _ => return Err(EprtFlaw::Family),
    };
    let port = decimal(port, 5).and_then(|port| u16::try_from(port).ok());
    match port {
        Some(port) if port > 0 => Ok(SocketAddr::new(address, port)),
        _ => Err(EprtFlaw::Syntax),
    }
}

/// The argument of EPRT.
pub fn eprt_argument(address: SocketAddr) -> String {
    let family = if address.is_ipv4() { 1 } else { 2 };
    format!("|{family}|{}|{}|", address.ip(), address.port())
}

/// The port of a 229, between four equal delimiters in brackets.
pub fn parse_229(text: &str) -> Option<u16> {
    let (_, inside) = text.split_once('(')?;
    let (inside, _) = inside.split_once(')')?;
    let delimiter = inside.chars().next()?;
    let mut fields = inside.split(delimiter).skip(1);
    let empty = fields.next()?.is_empty() && fields.next()?.is_empty();
    let port = decimal(fields.next()?, 5).and_then(|port| u16::try_from(port).ok())?;
    (empty && fields.next() == Some("") && fields.next().is_none() && port > 0).then_some(port)
}

/// The address of a 227. The brackets may be missing (RFC 1123 §4.1.2.6): the first digit begins.
pub fn parse_227(text: &str) -> Option<SocketAddr> {
    let from = text.find(|letter: char| letter.is_ascii_digit())?;
    let numbers = text.get(from..)?;
    let end = numbers.find(|letter: char| !letter.is_ascii_digit() && letter != ',');
    parse_port(numbers.get(..end.unwrap_or(numbers.len()))?)
}

/// An IPv4 address that came in IPv6 clothes is an IPv4 address.
pub fn unmapped(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports() {
        assert_eq!(parse_port("127,0,0,1,4,1").unwrap().to_string(), "127.0.0.1:1025");
        for bad in [
            "",
            "1,2,3,4,5",
            "1,2,3,4,5,6,7",
            "256,0,0,1,4,1",
            "1,2,3,4,0,0",
            "1,2,3,4,+4,1",
            " 1,2,3,4,5,6",
            "1,2,3,4,5,",
            "1,2,3,4,5,0006",
        ] {
            assert_eq!(parse_port(bad), None, "{bad}");
        }
    }

    #[test]
    fn extended_ports() {
        assert_eq!(parse_eprt("|1|10.0.0.1|2000|").unwrap().to_string(), "10.0.0.1:2000");
        assert_eq!(parse_eprt("!2!::1!2000!").unwrap().to_string(), "[::1]:2000");
        for bad in ["", "|", "|1|10.0.0.1|2000", "|1|::1|20|", "|2|10.0.0.1|20|", "|1|1.1.1.1|0|"] {
            assert_eq!(parse_eprt(bad), Err(EprtFlaw::Syntax), "{bad}");
        }
        for bad in ["|1|1.1.1.1|65536|", "|1|1.1.1.1|20|x", "|x|1.1.1.1|20|", "é1é"] {
            assert_eq!(parse_eprt(bad), Err(EprtFlaw::Syntax), "{bad}");
        }
        assert_eq!(parse_eprt("|3|x|20|"), Err(EprtFlaw::Family));
        let address = "[fe80::1]:1026".parse().unwrap();
        assert_eq!(parse_eprt(&eprt_argument(address)), Ok(address));
    }

    #[test]
    fn answers_to_passive() {
        assert_eq!(parse_229("Entering Extended Passive Mode (|||6446|)"), Some(6446));
        for bad in ["(|||x|)", "(|||0|)", "(|||1)", "|||1|", "(|1||1|)", "(|||1||)"] {
            assert_eq!(parse_229(bad), None, "{bad}");
        }
        for text in ["Entering Passive Mode (1,2,3,4,5,6).", "ok 1,2,3,4,5,6", "=1,2,3,4,5,6)"] {
            assert_eq!(parse_227(text).unwrap().to_string(), "1.2.3.4:1286", "{text}");
        }
        assert_eq!(parse_227("no numbers"), None);
        let SocketAddr::V4(address) = "1.2.3.4:1286".parse().unwrap() else { panic!() };
        assert_eq!(parse_port(&port_argument(address)), Some(SocketAddr::V4(address)));
    }
}
