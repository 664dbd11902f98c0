//! `scan`: has a scanner look at the file.
//!
//! It changes nothing, so an attempt that was cut off is made again. Only a scanner that says so of
//! the whole file makes it clean; whatever else happens, a scanner that is away among it, leaves it
//! unsure.

use async_trait::async_trait;
use bytes::{Buf as _, BytesMut};
use entrepot_icap_proto::{
    ClamdScan, IcapError, Scan, ScanMethod, ScanParts, ServiceOptions, Verdict, options_request,
};
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::dialled::Dialled;
use entrepot_net::limits::DIAL_TIME;
use entrepot_net::tls::{ServerTrust, TlsClient};
use entrepot_nouns::endpoint::{ScannerAddress, ScannerMethod, ScannerTarget, ScannerTls};
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::{OnError, ScanSpec};
use entrepot_nouns::{Endpoint, EndpointTarget};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::source::{Expected, Input};
use super::{Step, StepError, http};
use crate::ids::StepKey;
use crate::limits::{BLOCK_BYTES, SCAN_TIME};
use crate::pause::Pause;
use crate::run::Run;
use crate::shared::Shared;

/// The code of a file in which something was found.
pub(crate) const FOUND: &str = "EP0897";

/// The code of a file of which nobody says whether it is clean.
pub(crate) const UNSURE: &str = "EP0898";

#[async_trait]
impl Step for ScanSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let scanner = run.endpoint(&self.endpoint).await?;
        let file = Input::open(run).await?;
        run.reached(Pause::SourceOpen)?;
        let showing = show(run.shared, &scanner, &file);
        let verdict = run.hold.waiting(showing).await??;
        run.reached(Pause::Published)?;
        let judged = judge(self, file.name(), verdict);
        run.result = Some(judged.result);
        judged.ended
    }
}

/// What a verdict means for a step.
pub(crate) struct Judged {
    /// What the step leaves.
    pub(crate) result: Json,
    pub(crate) ended: Result<(), StepError>,
}

/// What the verdict about the file of this name means.
pub(crate) fn judge(spec: &ScanSpec, name: &str, verdict: Verdict) -> Judged {
    let endpoint = &spec.endpoint;
    match verdict {
        Verdict::Clean => Judged { result: json!({ "verdict": "clean" }), ended: Ok(()) },
        Verdict::Found { threat } => {
            let text = format!("scanner '{endpoint}' found '{threat}' in '{name}'");
            let result = json!({ "verdict": "found", "threat": threat });
            let ended = or_go_on(spec.found, StepError::permanent(FOUND, text));
            Judged { result, ended }
        }
        Verdict::Unsure { why } => {
            let text =
                format!("scanner '{endpoint}' does not say whether '{name}' is clean: {why}");
            let result = json!({ "verdict": "unsure", "why": why });
            let ended = or_go_on(spec.unsure, StepError::transient(UNSURE, text));
            Judged { result, ended }
        }
    }
}

/// Shows the file to the scanner, and hears what it says.
///
/// # Errors
/// The endpoint is no scanner, or the file cannot be read; a scanner that is away is unsure.
pub(crate) async fn show(
    shared: &Shared,
    scanner: &Stored<Endpoint>,
    file: &Input,
) -> Result<Verdict, StepError> {
    let EndpointTarget::Scanner(target) = &scanner.noun.target else {
        let kind = scanner.noun.target.as_str();
        return Err(http::other_kind(&scanner.noun.name, kind, "scanner"));
    };
    match scan(shared, scanner, target, file).await {
        Ok(verdict) => Ok(verdict),
        Err(ScanError::File(error)) => Err(error),
        Err(ScanError::Scanner(why)) => Ok(Verdict::Unsure { why }),
    }
}

fn or_go_on(choice: OnError, error: StepError) -> Result<(), StepError> {
    match choice {
        OnError::Fail => Err(error),
        OnError::Continue => Ok(()),
    }
}

/// Why there is no verdict.
enum ScanError {
    /// The file cannot be read, or is not the one of the event.
    File(StepError),
    /// The scanner: why, in a sentence.
    Scanner(String),
}

impl From<StepError> for ScanError {
    fn from(error: StepError) -> Self {
        ScanError::File(error)
    }
}

fn of_scanner(error: impl std::fmt::Display) -> ScanError {
    ScanError::Scanner(error.to_string())
}

/// One file in the protocol of the scanner.
enum Exchange {
    Icap(Scan),
    Clamd(ClamdScan),
}

impl Exchange {
    fn output(&mut self) -> Vec<u8> {
        match self {
            Exchange::Icap(scan) => scan.output(),
            Exchange::Clamd(scan) => scan.output(),
        }
    }

    fn room(&self) -> Option<usize> {
        match self {
            Exchange::Icap(scan) => scan.room(),
            Exchange::Clamd(scan) => scan.room(),
        }
    }

    fn content(&mut self, bytes: &[u8]) {
        match self {
            Exchange::Icap(scan) => scan.content(bytes),
            Exchange::Clamd(scan) => scan.content(bytes),
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), IcapError> {
        match self {
            Exchange::Icap(scan) => scan.receive(bytes),
            Exchange::Clamd(scan) => scan.receive(bytes),
        }
    }

    fn closed(&self) -> Result<(), IcapError> {
        match self {
            Exchange::Icap(scan) => scan.closed(),
            Exchange::Clamd(scan) => scan.closed(),
        }
    }

    fn verdict(&self) -> Option<&Verdict> {
        match self {
            Exchange::Icap(scan) => scan.verdict(),
            Exchange::Clamd(scan) => scan.verdict(),
        }
    }
}

async fn scan(
    shared: &Shared,
    endpoint: &Stored<Endpoint>,
    target: &ScannerTarget,
    file: &Input,
) -> Result<Verdict, ScanError> {
    let size = file.source.size();
    let Some(address) = target.address() else {
        return Err(of_scanner("its URL is none of a scanner"));
    };
    match address {
        ScannerAddress::ClamdSocket(path) => {
            let stream = dial::unix(&path).await.map_err(of_scanner)?;
            judged(stream, Exchange::Clamd(ClamdScan::new(size)), file).await
        }
        ScannerAddress::Clamd { .. } => {
            let stream = connect(target, &address).await?;
            judged(stream, Exchange::Clamd(ClamdScan::new(size)), file).await
        }
        ScannerAddress::Icap { ref authority, ref service, .. } => {
            let options = options(shared, endpoint, target, &address).await?;
            let parts = ScanParts {
                host: authority,
                service,
                method: match target.method {
                    ScannerMethod::Respmod => ScanMethod::Respmod,
                    ScannerMethod::Reqmod => ScanMethod::Reqmod,
                },
                name: file.name(),
                size,
            };
            let stream = connect(target, &address).await?;
            judged(stream, Exchange::Icap(Scan::new(&parts, &options)), file).await
        }
    }
}

/// A connection of its own for each file: a server that answers before it has read everything is
/// not asked anything else on it.
async fn connect(target: &ScannerTarget, address: &ScannerAddress) -> Result<Dialled, ScanError> {
    let (host, port, tls) = match address {
        ScannerAddress::Icap { host, port, tls, .. } => (host, *port, *tls),
        ScannerAddress::Clamd { host, port } => (host, *port, ScannerTls::Off),
        ScannerAddress::ClamdSocket(_) => return Err(of_scanner("it is no server of a network")),
    };
    let policy = DialPolicy { allow_private: target.allow_private };
    let stream = dial::tcp(host, port, &policy, DIAL_TIME).await.map_err(of_scanner)?;
    let stream = Dialled::Clear(stream);
    if tls == ScannerTls::Off {
        return Ok(stream);
    }
    let trust = match &target.authorities {
        Some(pem) => ServerTrust::Authorities(pem.as_bytes().to_vec()),
        None => ServerTrust::System,
    };
    let client = TlsClient::new(host, &trust).map_err(of_scanner)?;
    Ok(stream.start_tls(&client).await.map_err(of_scanner)?.0)
}

/// What the service can, as it said not too long ago.
async fn options(
    shared: &Shared,
    endpoint: &Stored<Endpoint>,
    target: &ScannerTarget,
    address: &ScannerAddress,
) -> Result<ServiceOptions, ScanError> {
    let ScannerAddress::Icap { authority, service, .. } = address else {
        return Ok(ServiceOptions::default());
    };
    let now = shared.recorder.env().elapsed();
    if let Some(known) = shared.scanners.get(endpoint, now) {
        return Ok(known);
    }
    let mut stream = connect(target, address).await?;
    let asking = async {
        stream.write_all(&options_request(authority, service)).await.map_err(of_scanner)?;
        stream.flush().await.map_err(of_scanner)?;
        let mut answer = Vec::new();
        loop {
            if let Some(options) = ServiceOptions::parse(&answer).map_err(of_scanner)? {
                return Ok(options);
            }
            let read = stream.read_buf(&mut answer).await.map_err(of_scanner)?;
            if read == 0 {
                return Err(of_scanner(IcapError::Cut));
            }
        }
    };
    let options = tokio::time::timeout(SCAN_TIME, asking).await.map_err(|_| late())??;
    shared.scanners.keep(endpoint, &options, now);
    Ok(options)
}

fn late() -> ScanError {
    ScanError::Scanner(format!("it did not answer within {SCAN_TIME:?}"))
}

/// Shows the file to the scanner; the verdict counts if the file is the one of the event.
async fn judged<S: AsyncRead + AsyncWrite>(
    stream: S,
    mut exchange: Exchange,
    file: &Input,
) -> Result<Verdict, ScanError> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut digest = Expected::digest(file.expected);
    let mut leaving = BytesMut::new();
    let mut coming = BytesMut::with_capacity(8 * 1024);
    while exchange.verdict().is_none() {
        if leaving.is_empty()
            && let Some(room) = exchange.room()
        {
            let room = room.min(BLOCK_BYTES);
            let block = BytesMut::with_capacity(room);
            let block = file.source.read_at(digest.length(), block, room).await?;
            if block.is_empty() {
                return Err(file.changed().into());
            }
            digest.update(&block);
            exchange.content(&block);
        }
        leaving.extend_from_slice(&exchange.output());
        // An answer may come while the file is on its way: who does not read it waits for ever.
        let moving = async {
            tokio::select! {
                read = reader.read_buf(&mut coming) => Moved::Read(read),
                written = writer.write(&leaving), if !leaving.is_empty() => Moved::Written(written),
            }
        };
        match tokio::time::timeout(SCAN_TIME, moving).await.map_err(|_| late())? {
            Moved::Read(read) => {
                if read.map_err(of_scanner)? == 0 {
                    exchange.closed().map_err(of_scanner)?;
                }
                exchange.receive(&coming).map_err(of_scanner)?;
                coming.clear();
            }
            // It may have said why before it closed.
            Moved::Written(Err(_)) => leaving.clear(),
            Moved::Written(Ok(length)) => leaving.advance(length),
        }
    }
    let verdict = exchange.verdict().cloned();
    let verdict = verdict.ok_or_else(|| of_scanner(IcapError::Cut))?;
    let size = digest.length();
    if verdict == Verdict::Clean {
        file.check(size, &digest.finish())?;
    }
    Ok(verdict)
}

/// What happened on a connection.
enum Moved {
    Read(std::io::Result<usize>),
    Written(std::io::Result<usize>),
}
