//! Where a host is, as people write it.

use std::fmt;
use std::str::FromStr;

/// The port of telnet.
const PORT: u16 = 23;
/// The port of telnet under TLS from the first byte.
const TLS_PORT: u16 = 992;

/// When TLS begins on a connection to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTls {
    /// When the host asks for it (option STARTTLS); never, if it does not.
    WhenAsked,
    /// With the first byte.
    FromTheStart,
}

/// A host: `mainframe.example`, `mainframe.example:2323`, `tls://mainframe.example:992`. Without a
/// port it is 23, with `tls://` 992.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// A name or an address, an IPv6 address without its brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// When TLS begins.
    pub tls: HostTls,
}

impl FromStr for HostAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<HostAddress, String> {
        let wrong = || {
            let forms = "host.example, host.example:23 or tls://host.example";
            format!("'{text}' is no host: write it as in {forms}")
        };
        let (rest, tls, usual) = match text.strip_prefix("tls://") {
            Some(rest) => (rest, HostTls::FromTheStart, TLS_PORT),
            None => (text, HostTls::WhenAsked, PORT),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(inside) => {
                let (host, behind) = inside.split_once(']').ok_or_else(wrong)?;
                match behind {
                    "" => (host, None),
                    behind => (host, Some(behind.strip_prefix(':').ok_or_else(wrong)?)),
                }
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let is_name = |host: &str| {
            let known = |letter: char| letter.is_alphanumeric() || "-._:".contains(letter);
            !host.is_empty() && host.chars().all(known)
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
            None => usual,
        };
        if !is_name(host) {
            return Err(wrong());
        }
        Ok(HostAddress { host: host.to_owned(), port, tls })
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostAddress { host, port, tls } = self;
        if *tls == HostTls::FromTheStart {
            f.write_str("tls://")?;
        }
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_usual_port_and_may_have_another() {
        for (text, shown) in [
            ("host.example", "host.example:23"),
            ("host.example:2323", "host.example:2323"),
            ("tls://host.example", "tls://host.example:992"),
            ("tls://10.0.0.1:23", "tls://10.0.0.1:23"),
            ("[2001:db8::1]:992", "[2001:db8::1]:992"),
            ("[::1]", "[::1]:23"),
        ] {
            let address: HostAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
            assert_eq!(shown.parse::<HostAddress>().unwrap(), address);
        }
        for bad in ["", ":23", "host:", "host:0", "host:70000", "[::1", "[::1]x", "a b", "tls://"] {
            assert!(bad.parse::<HostAddress>().is_err(), "{bad}");
        }
    }
}
