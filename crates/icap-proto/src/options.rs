//! What a service can (RFC 3507 §4.10).

use crate::head::{Head, IcapError};

/// What a service says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Bytes of content it wants to see before it says whether it needs the rest; `None`: it takes
    /// no preview.
    pub preview: Option<u64>,
    /// For how many seconds this counts.
    pub ttl_seconds: Option<u64>,
    /// Changes with the signatures of the scanner.
    pub tag: Option<String>,
}

/// The request for the options of a service.
pub fn options_request(host: &str, service: &str) -> Vec<u8> {
    format!("OPTIONS icap://{host}/{service} ICAP/1.0\r\nHost: {host}\r\n\r\n").into_bytes()
}

impl ServiceOptions {
    /// Reads an answer; `Ok(None)`: it is not all there.
    ///
    /// # Errors
    /// It is no answer of ICAP. [`IcapError::NoStatus`] also where there is no such service.
    pub fn parse(bytes: &[u8]) -> Result<Option<ServiceOptions>, IcapError> {
        let Some(head) = Head::take(&mut bytes.to_vec(), "ICAP")? else { return Ok(None) };
        if head.status != 200 {
            return Err(IcapError::NoStatus(format!("ICAP {}", head.status)));
        }
        let number = |name: &str| head.field(name).and_then(|text| text.parse().ok());
        Ok(Some(ServiceOptions {
            preview: number("preview"),
            ttl_seconds: number("options-ttl"),
            tag: head.field("istag").map(|tag| tag.trim_matches('"').to_owned()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As c-icap 0.5.10 answers.
    #[test]
    fn options_are_read() {
        let text = "ICAP/1.0 200 OK\r\nMethods: RESPMOD, REQMOD\r\nService: C-ICAP/0.5.10 server - \
                    Antivirus service\r\nISTag: \"CI0001-2-0B\"\r\nTransfer-Preview: *\r\n\
                    Options-TTL: 3600\r\nPreview: 1024\r\nAllow: 204\r\n\r\n";
        let options = ServiceOptions::parse(text.as_bytes()).unwrap().unwrap();
        let wanted = ServiceOptions {
            preview: Some(1024),
            ttl_seconds: Some(3600),
            tag: Some("CI0001-2-0B".to_owned()),
        };
        assert_eq!(options, wanted);
        assert_eq!(ServiceOptions::parse(&text.as_bytes()[..40]), Ok(None));
        let gone = ServiceOptions::parse(b"ICAP/1.0 404 Service not found\r\n\r\n");
        assert_eq!(gone, Err(IcapError::NoStatus("ICAP 404".to_owned())));
    }
}
