//! ICAP (RFC 3507) and the protocol of clamd, as a client that has files scanned; no IO.
//!
//! [`options_request`] and [`ServiceOptions`] are about a service of ICAP, [`Scan`] is one file on
//! one connection there, [`ClamdScan`] one at clamd. Nothing counts as clean unless the server says
//! so of the whole file: an answer that says neither clean nor infected is [`Verdict::Unsure`].

mod clamd;
mod head;
pub mod limits;
mod options;
mod scan;

pub use clamd::ClamdScan;
pub use head::IcapError;
pub use options::{ServiceOptions, options_request};
pub use scan::{Scan, ScanMethod, ScanParts, Verdict};

/// Feeds bytes of a fuzzer as the answers of a server, in pieces.
pub fn fuzz(bytes: &[u8]) {
    let (size, answers) = bytes.split_first().map_or((0, bytes), |(size, rest)| (*size, rest));
    let _ = ServiceOptions::parse(answers);
    let options = ServiceOptions { preview: Some(u64::from(size / 2)), ..Default::default() };
    let parts = ScanParts {
        host: "scanner.example",
        service: "avscan",
        method: if size % 2 == 0 { ScanMethod::Respmod } else { ScanMethod::Reqmod },
        name: "a b",
        size: u64::from(size),
    };
    let mut clamd = ClamdScan::new(0);
    let _ = clamd.receive(answers);
    let mut scan = Scan::new(&parts, &options);
    for piece in answers.chunks(7) {
        let _ = scan.output();
        while let Some(room) = scan.room() {
            scan.content(&vec![0; room.min(16)]);
        }
        let failed = scan.receive(piece).is_err();
        if failed || scan.verdict().is_some() {
            return;
        }
    }
    let _ = scan.closed();
}
