//! One file before a scanner (RFC 3507 §4.5, §4.8, §4.9).

use std::fmt::Write as _;

use crate::head::{Head, IcapError};
use crate::limits::{CHUNK_BYTES, PREVIEW_BYTES, THREAT_CHARACTERS};
use crate::options::ServiceOptions;

/// What the scanner says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was found in the whole file.
    Clean,
    /// Something was found.
    Found {
        /// What the scanner calls it.
        threat: String,
    },
    /// It was not scanned, or nobody can say.
    Unsure {
        /// Why, in a sentence.
        why: String,
    },
}

/// As what a file is shown to the scanner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanMethod {
    /// As what a web server answered.
    #[default]
    Respmod,
    /// As what a client posted.
    Reqmod,
}

/// What a scan is about.
#[derive(Clone, Copy, Debug)]
pub struct ScanParts<'a> {
    /// The server: a name or address, with the port unless it is the usual one.
    pub host: &'a str,
    /// The path of the service there, such as `avscan`.
    pub service: &'a str,
    /// As what the file is shown.
    pub method: ScanMethod,
    /// The name of the file; the scanner may judge by its ending.
    pub name: &'a str,
    /// Bytes of the file.
    pub size: u64,
}

/// One file on one connection. Send what [`Scan::output`] gives, give as much content as
/// [`Scan::room`] says, and hand over what comes, all at the same time: a server may answer before
/// it has read everything.
#[derive(Debug)]
pub struct Scan {
    output: Vec<u8>,
    input: Vec<u8>,
    /// Bytes of content that are still to be sent.
    left: u64,
    /// How many of them may be sent now.
    open: u64,
    sending: Sending,
    reading: Reading,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// The preview is sent; then the server decides.
    Preview,
    /// The preview is there, the server has not answered.
    Waiting,
    /// All the rest.
    Rest,
    /// Nothing more: the server has all of it.
    Ended,
}

#[derive(Debug)]
enum Reading {
    /// The head of the answer.
    Answer,
    /// The heads of the message inside; the answer said `ok` and named nothing.
    Inside { heads: u8 },
}

impl Scan {
    /// Begins with the head of the request.
    pub fn new(parts: &ScanParts<'_>, options: &ServiceOptions) -> Scan {
        let preview = options.preview.map(|preview| preview.min(PREVIEW_BYTES).min(parts.size));
        let mut scan = Scan {
            output: request(parts, preview).into_bytes(),
            input: Vec::new(),
            left: parts.size,
            open: preview.unwrap_or(parts.size),
            sending: if preview.is_some() { Sending::Preview } else { Sending::Rest },
            reading: Reading::Answer,
            verdict: None,
        };
        scan.end_if_sent();
        scan
    }

    /// What is to be sent; empty if nothing is.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// How many bytes of content it takes now; `None`: none, for the time being or for good.
    pub fn room(&self) -> Option<usize> {
        let open = usize::try_from(self.open).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        (open > 0 && self.verdict.is_none()).then_some(open)
    }

    /// The next bytes of the file, at most as many as [`Scan::room`] says; others are left out, and
    /// then the file never ends.
    pub fn content(&mut self, bytes: &[u8]) {
        let taken = bytes.get(..self.room().unwrap_or_default()).unwrap_or(bytes);
        if taken.is_empty() {
            return;
        }
        self.output.extend_from_slice(format!("{:x}\r\n", taken.len()).as_bytes());
        self.output.extend_from_slice(taken);
        self.output.extend_from_slice(b"\r\n");
        let length = taken.len() as u64;
        self.left = self.left.saturating_sub(length);
        self.open = self.open.saturating_sub(length);
        self.end_if_sent();
    }

    fn end_if_sent(&mut self) {
        if self.open > 0 {
            return;
        }
        match self.sending {
            Sending::Preview if self.left == 0 => {
                self.output.extend_from_slice(b"0; ieof\r\n\r\n");
                self.sending = Sending::Ended;
            }
            Sending::Preview => {
                self.output.extend_from_slice(b"0\r\n\r\n");
                self.sending = Sending::Waiting;
            }
            Sending::Rest => {
                self.output.extend_from_slice(b"0\r\n\r\n");
                self.sending = Sending::Ended;
            }
            Sending::Waiting | Sending::Ended => {}
        }
    }

    /// Takes what the server sent.
    ///
    /// # Errors
    /// It is no answer of ICAP: nobody can say what is in the file.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), IcapError> {
        self.input.extend_from_slice(bytes);
        while self.verdict.is_none() {
            let went_on = match self.reading {
                Reading::Answer => self.answer()?,
                Reading::Inside { heads } => self.inside(heads)?,
            };
            if !went_on {
                break;
            }
        }
        Ok(())
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// It ended before the answer did.
    pub fn closed(&self) -> Result<(), IcapError> {
        if self.verdict.is_some() { Ok(()) } else { Err(IcapError::Cut) }
    }

    /// What the server says, once it has said it; the connection is of no use any more.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The head of an answer; false if it is not all there.
    fn answer(&mut self) -> Result<bool, IcapError> {
        let Some(head) = Head::take(&mut self.input, "ICAP")? else { return Ok(false) };
        match head.status {
            100 if self.sending == Sending::Waiting => {
                (self.sending, self.open) = (Sending::Rest, self.left);
                self.end_if_sent();
            }
            100 => return Err(IcapError::NoStatus("ICAP 100 at the wrong time".to_owned())),
            204 if self.sending == Sending::Ended => self.verdict = Some(Verdict::Clean),
            204 => {
                let why = format!("it answered with {} bytes of the file still to come", self.left);
                self.verdict = Some(Verdict::Unsure { why });
            }
            200 | 201 => match threat(&head) {
                Some(threat) => self.verdict = Some(Verdict::Found { threat }),
                None => {
                    let inside = head.field("encapsulated").unwrap_or_default();
                    let heads = u8::from(inside.contains("req-hdr"))
                        .saturating_add(u8::from(inside.contains("res-hdr")));
                    self.reading = Reading::Inside { heads };
                }
            },
            status => {
                let why = format!("it answered {status}");
                self.verdict = Some(Verdict::Unsure { why });
            }
        }
        Ok(true)
    }

    /// The head of a message inside an answer: a page that says that the file is blocked has a
    /// status that says so. What comes back with any other was not said to be clean.
    fn inside(&mut self, heads: u8) -> Result<bool, IcapError> {
        if heads == 0 {
            let why = "it sent the file back and did not say whether it is clean, as where the \
                       file is larger than it scans";
            self.verdict = Some(Verdict::Unsure { why: why.to_owned() });
            return Ok(true);
        }
        self.reading = Reading::Inside { heads: heads - 1 };
        if !self.input.starts_with(b"HTTP/") {
            // The head of a request; what it begins with may be cut here.
            if b"HTTP/".starts_with(&self.input) {
                self.reading = Reading::Inside { heads };
                return Ok(false);
            }
            return Ok(true);
        }
        let Some(head) = Head::take(&mut self.input, "HTTP")? else {
            self.reading = Reading::Inside { heads };
            return Ok(false);
        };
        if let Some(threat) = threat(&head) {
            self.verdict = Some(Verdict::Found { threat });
        } else if head.status >= 400 {
            let threat = format!("blocked with status {}", head.status);
            self.verdict = Some(Verdict::Found { threat });
        }
        Ok(true)
    }
}

/// What was found, if the head says so.
fn threat(head: &Head) -> Option<String> {
    let infection = head.field("x-infection-found");
    // `Type=0; Resolution=2; Threat=Eicar-Test;`
    let named = infection.and_then(|text| text.split_once("Threat="));
    let named = named.map(|(_, rest)| rest.trim_end_matches(';').trim());
    let id = head.field("x-virus-id");
    // A number of violations, then for each of them file, threat and two numbers.
    let violations = head.field("x-violations-found").filter(|text| *text != "0");
    let blocked = head.field("x-blocked").filter(|text| !text.eq_ignore_ascii_case("false"));
    let found = named.or(id).or(infection).or(violations).or(blocked)?;
    let plain = found.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some(plain.take(THREAT_CHARACTERS).collect())
}

/// The head of the request and those inside it, with the offsets of `Encapsulated`.
fn request(parts: &ScanParts<'_>, preview: Option<u64>) -> String {
    let ScanParts { host, service, method, name, size } = parts;
    let name = percent(name);
    let about = "Content-Type: application/octet-stream";
    let inside = match method {
        ScanMethod::Respmod => [
            format!(
                "GET http://entrepot.invalid/{name} HTTP/1.1\r\nHost: entrepot.invalid\r\n\r\n"
            ),
            format!("HTTP/1.1 200 OK\r\n{about}\r\nContent-Length: {size}\r\n\r\n"),
        ],
        ScanMethod::Reqmod => [
            format!(
                "POST http://entrepot.invalid/{name} HTTP/1.1\r\nHost: entrepot.invalid\r\n\
                 {about}\r\nContent-Length: {size}\r\n\r\n"
            ),
            String::new(),
        ],
    };
    let [first, second] = &inside;
    let body = first.len().saturating_add(second.len());
    let (word, encapsulated) = match method {
        ScanMethod::Respmod => {
            ("RESPMOD", format!("req-hdr=0, res-hdr={}, res-body={body}", first.len()))
        }
        ScanMethod::Reqmod => ("REQMOD", format!("req-hdr=0, req-body={body}")),
    };
    let mut head = format!(
        "{word} icap://{host}/{service} ICAP/1.0\r\nHost: {host}\r\nAllow: 204\r\n\
         Encapsulated: {encapsulated}\r\n"
    );
    if let Some(preview) = preview {
        // Writing to a string does not fail.
        let _ = write!(head, "Preview: {preview}\r\n");
    }
    format!("{head}\r\n{first}{second}")
}

/// With everything escaped but what RFC 3986 §2.3 calls unreserved.
fn percent(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: ScanParts<'static> = ScanParts {
        host: "scanner.example",
        service: "avscan?allow204=on",
        method: ScanMethod::Respmod,
        name: "a\r\nb.bin",
        size: 10,
    };

    fn with_preview(preview: Option<u64>) -> Scan {
        Scan::new(&PARTS, &ServiceOptions { preview, ..Default::default() })
    }

    fn sent(scan: &mut Scan) -> String {
        String::from_utf8(scan.output()).unwrap()
    }

    /// A scan of the whole file, without a preview, and what an answer makes of it.
    fn judged(answer: &str) -> Result<Option<Verdict>, IcapError> {
        let mut scan = with_preview(None);
        scan.content(b"0123456789");
        for byte in answer.bytes() {
            scan.receive(&[byte])?;
        }
        Ok(scan.verdict().cloned())
    }

    #[test]
    fn the_offsets_of_the_parts_are_exact() {
        for method in [ScanMethod::Respmod, ScanMethod::Reqmod] {
            let parts = ScanParts { method, ..PARTS };
            let mut scan = Scan::new(&parts, &ServiceOptions::default());
            scan.content(b"0123456789");
            let whole = sent(&mut scan);
            let (head, rest) = whole.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("\r\nAllow: 204\r\n") && !head.contains("Preview"), "{head}");
            let offset = |name: &str| -> Option<usize> {
                let (_, behind) = head.split_once(&format!("{name}="))?;
                behind.split([',', '\r', '\n']).next()?.parse().ok()
            };
            let body = offset("res-body").or(offset("req-body")).unwrap();
            assert_eq!(&rest[body..], "a\r\n0123456789\r\n0\r\n\r\n");
            assert!(rest[..body].ends_with("\r\n\r\n"));
            assert!(!rest[..body].contains("b.bin HTTP/1.1\r\nb"), "{rest}");
            match method {
                ScanMethod::Respmod => {
                    assert!(rest[offset("res-hdr").unwrap()..].starts_with("HTTP/1.1 200 OK\r\n"));
                    assert!(rest.starts_with("GET http://entrepot.invalid/a%0D%0Ab.bin HTTP/1.1"));
                }
                ScanMethod::Reqmod => assert!(rest.starts_with("POST http://")),
            }
        }
    }

    #[test]
    fn after_a_preview_the_rest_waits_for_the_server() {
        let mut scan = with_preview(Some(4));
        assert!(sent(&mut scan).contains("\r\nPreview: 4\r\n"));
        assert_eq!(scan.room(), Some(4));
        scan.content(b"01");
        scan.content(b"23");
        assert_eq!(sent(&mut scan), "2\r\n01\r\n2\r\n23\r\n0\r\n\r\n");
        assert_eq!(scan.room(), None);
        scan.receive(b"ICAP/1.0 100 Continue\r\n\r\n").unwrap();
        assert_eq!(scan.room(), Some(6));
        scan.content(b"456789");
        assert_eq!(sent(&mut scan), "6\r\n456789\r\n0\r\n\r\n");
        assert_eq!(scan.closed(), Err(IcapError::Cut));
        scan.receive(b"ICAP/1.0 204 Unmodified\r\n\r\n").unwrap();
        assert_eq!((scan.verdict(), scan.closed()), (Some(&Verdict::Clean), Ok(())));
    }

    #[test]
    fn a_file_that_ends_in_its_preview_says_so_and_is_judged_whole() {
        let mut scan = with_preview(Some(1024));
        assert!(sent(&mut scan).contains("\r\nPreview: 10\r\n"));
        scan.content(b"0123456789");
        assert_eq!(sent(&mut scan), "a\r\n0123456789\r\n0; ieof\r\n\r\n");
        scan.receive(b"ICAP/1.0 204 Unmodified\r\n\r\n").unwrap();
        assert_eq!(scan.verdict(), Some(&Verdict::Clean));
        let empty = ScanParts { size: 0, ..PARTS };
        let mut scan = Scan::new(&empty, &ServiceOptions::default());
        assert!(sent(&mut scan).ends_with("\r\n\r\n0\r\n\r\n"));
    }

    /// Of such a file the scanner has seen a part, whatever it says.
    #[test]
    fn clean_by_a_preview_alone_is_not_clean() {
        let mut scan = with_preview(Some(4));
        scan.content(b"0123");
        scan.receive(b"ICAP/1.0 204 Unmodified\r\n\r\n").unwrap();
        let Some(Verdict::Unsure { why }) = scan.verdict() else { panic!("{scan:?}") };
        assert!(why.contains("6 bytes"), "{why}");
    }

    #[test]
    fn a_table_of_answers() {
        let found = |threat: &str| Ok(Some(Verdict::Found { threat: threat.to_owned() }));
        let ok = "ICAP/1.0 200 OK\r\n";
        let page = "Encapsulated: res-hdr=0, res-body=30\r\n\r\n";
        let infected = format!(
            "{ok}X-Infection-Found: Type=0; Resolution=2; Threat=Eicar-Test.UNOFFICIAL;\r\n{page}"
        );
        assert_eq!(judged(&infected), found("Eicar-Test.UNOFFICIAL"));
        assert_eq!(judged(&format!("{ok}X-Virus-ID: Eicar\r\n{page}")), found("Eicar"));
        assert_eq!(
            judged(&format!("{ok}X-Violations-Found: 1\r\n -\r\n Eicar\r\n 0\r\n 0\r\n{page}")),
            found("1 - Eicar 0 0")
        );
        assert_eq!(
            judged(&format!("{ok}{page}HTTP/1.0 403 Forbidden\r\nA: b\r\n\r\n")),
            found("blocked with status 403")
        );
        let inside = "HTTP/1.1 200 OK\r\nX-Infection-Found: Threat=Eicar;\r\n\r\n";
        assert_eq!(judged(&format!("{ok}{page}{inside}")), found("Eicar"));
        for unsure in [
            // The file as it was, not scanned: larger than the scanner's limit.
            format!("{ok}{page}HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\na\r\n0123456789\r\n"),
            format!("{ok}Encapsulated: req-hdr=0, req-body=9\r\n\r\nPOST / HTTP/1.1\r\n\r\n"),
            format!("{ok}Encapsulated: null-body=0\r\n\r\n"),
            format!("{ok}\r\n"),
            "ICAP/1.0 404 Service not found\r\n\r\n".to_owned(),
            "ICAP/1.0 500 Server error\r\n\r\n".to_owned(),
            "ICAP/1.0 400 Bad request\r\n\r\n".to_owned(),
        ] {
            let said = judged(&unsure);
            assert!(matches!(said, Ok(Some(Verdict::Unsure { .. }))), "{unsure}: {said:?}");
        }
        for bad in ["HTTP/1.1 204 No Content\r\n\r\n", "ICAP/1.0 100 Continue\r\n\r\n", "\r\n\r\n"]
        {
            assert!(judged(bad).is_err(), "{bad}");
        }
        assert_eq!(judged("ICAP/1.0 204 No"), Ok(None));
    }
}
