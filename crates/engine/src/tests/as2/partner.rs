//! A partner of AS2 in small: unwraps what comes, and answers as a test wants.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use entrepot_as2_proto::{
    As2Headers, As2Name, DigestAlgorithm, Disposition, Document, Field, Headers, Mic, MicalgStyle,
    OwnKey, Receipt, ReceiveOptions, Received, Receiver, RsaPadding, Signer, signed,
};
use entrepot_crypto::{Certificate, PrivateKey};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::tests::talk::{Got, read};

/// A certificate and its key, as PEM and as they are used.
pub(in crate::tests) struct Party {
    pub(in crate::tests) certificate_pem: String,
    pub(in crate::tests) key_pem: String,
    pub(in crate::tests) own: OwnKey,
}

impl Party {
    pub(in crate::tests) fn new() -> Party {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["as2.example".to_owned()]).unwrap();
        let made = parameters.self_signed(&pair).unwrap();
        let certificate = Arc::new(Certificate::from_der(made.der()).unwrap());
        let key = Arc::new(PrivateKey::from_pkcs8(&pair.serialize_der()).unwrap());
        Party {
            certificate_pem: made.pem(),
            key_pem: pair.serialize_pem(),
            own: OwnKey { certificate, key },
        }
    }
}

pub(in crate::tests) static ACME: LazyLock<Party> = LazyLock::new(Party::new);
pub(in crate::tests) static GLOBEX: LazyLock<Party> = LazyLock::new(Party::new);
static STRANGER: LazyLock<Party> = LazyLock::new(Party::new);

/// What the partner does with a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::tests) enum Does {
    /// Receives it, and says what became of it as it was asked to.
    Receives,
    /// Says this, in a signed receipt.
    Says(Disposition),
    /// Knows nobody of these names, and says so before it has read the message.
    KnowsNobody,
    /// Says this, as HTTP.
    Answers(&'static str),
    /// Closes the connection when it has the message.
    HangsUp,
    /// Gives a receipt without the signature that was asked for.
    LeavesItUnsigned,
    /// Gives a receipt that somebody else has signed.
    LetsAStrangerSign,
    /// Gives the receipt of another message.
    MixesUp,
    /// Has received other bytes.
    ReceivesOtherBytes,
    /// Gives a receipt without a MIC.
    GivesNoMic,
}

/// A message that came.
#[derive(Clone)]
pub(in crate::tests) struct Message {
    pub(in crate::tests) got: Got,
    pub(in crate::tests) payload: Vec<u8>,
    /// Of what was received.
    pub(in crate::tests) received: Option<Arc<Received>>,
}

impl Message {
    /// The signed receipt for it, as its digest was asked for.
    pub(in crate::tests) fn receipt(&self, says: Disposition) -> Document {
        let mic = self.received.as_ref().and_then(|it| it.mic(DigestAlgorithm::Sha256));
        signed_by(report(&self.got, says, mic).document("report-0123456789abcdef"), &GLOBEX)
    }
}

pub(in crate::tests) struct Partner {
    pub(in crate::tests) port: u16,
    messages: Arc<Mutex<Vec<Message>>>,
}

impl Partner {
    /// Does each of these once, and the last one ever after.
    pub(in crate::tests) async fn start(does: &'static [Does]) -> Partner {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let messages: Arc<Mutex<Vec<Message>>> = Arc::default();
        let seen = messages.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = seen.lock().len();
                serve(stream, does[number.min(does.len() - 1)], &seen).await;
            }
        });
        Partner { port, messages }
    }

    pub(in crate::tests) fn messages(&self) -> Vec<Message> {
        self.messages.lock().clone()
    }
}

/// Keeps the message before it is answered, as tests look when the job has ended.
async fn serve(mut stream: TcpStream, does: Does, seen: &Mutex<Vec<Message>>) {
    if does == Does::KnowsNobody {
        let head = read_head(&mut stream).await;
        let unknown = Disposition::UnknownTradingRelationship;
        let document = report(&head, unknown, None).document("report-0123456789abcdef");
        seen.lock().push(Message { got: head, payload: Vec::new(), received: None });
        let _ = stream.write_all(&as_http(&document)).await;
        // What it closes on unread bytes would be lost with them.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        return;
    }
    let got = read(&mut stream).await;
    let (payload, received) = receive(&got);
    let answer = answer(does, &got, received.as_ref());
    seen.lock().push(Message { got, payload, received: received.map(Arc::new) });
    if let Some(answer) = answer {
        let _ = stream.write_all(&answer).await;
    }
}

/// The head alone.
async fn read_head(stream: &mut TcpStream) -> Got {
    use tokio::io::AsyncReadExt as _;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    Got { head: String::from_utf8(head).unwrap(), body: Vec::new(), cut: false }
}

fn headers(got: &Got) -> Headers {
    let lines = got.head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let field = |(name, value): (&str, &str)| Field { name: name.into(), value: value.into() };
    Headers::new(lines.map(field).collect())
}

fn receive(got: &Got) -> (Vec<u8>, Option<Received>) {
    let options = ReceiveOptions {
        keys: vec![GLOBEX.own.clone()],
        trusted: vec![ACME.own.certificate.clone()],
        substitute_key: zeroize::Zeroizing::new([7; 32]),
        mic_algorithms: DigestAlgorithm::ALL.to_vec(),
        other_digests: Vec::new(),
        max_payload_bytes: 1 << 30,
        max_inflate_ratio: 2000,
    };
    let mut receiver = Receiver::new(&headers(got), options);
    let mut payload = Vec::new();
    for piece in got.body.chunks(10_000) {
        receiver.receive(piece);
        while let Some(output) = receiver.output() {
            payload.extend(output);
        }
    }
    receiver.end();
    while let Some(output) = receiver.output() {
        payload.extend(output);
    }
    (payload, receiver.outcome().ok())
}

/// What a partner answers that has received what came.
pub(in crate::tests) fn answered(got: &Got) -> Vec<u8> {
    let (_, received) = receive(got);
    answer(Does::Receives, got, received.as_ref()).unwrap()
}

struct Report {
    name: As2Name,
    message_id: String,
    disposition: Disposition,
    mic: Option<Mic>,
}

impl Report {
    fn document(&self, boundary: &str) -> Document {
        let receipt = Receipt {
            recipient: &self.name,
            original_message_id: &self.message_id,
            disposition: self.disposition,
            mic: self.mic.as_ref(),
            style: MicalgStyle::Plain,
            reporting_ua: "a test",
        };
        receipt.document(boundary)
    }
}

fn report(got: &Got, disposition: Disposition, mic: Option<Mic>) -> Report {
    let message_id = got.field("message-id").unwrap();
    Report { name: As2Name::new("GLOBEX").unwrap(), message_id, disposition, mic }
}

fn answer(does: Does, got: &Got, received: Option<&Received>) -> Option<Vec<u8>> {
    let asked = As2Headers::parse(&headers(got)).unwrap().receipt;
    let digest = asked.as_ref().and_then(|asked| asked.options.digests.first().copied());
    let mic = received.and_then(|it| it.mic(digest.unwrap_or(DigestAlgorithm::Sha256)));
    let mut made = report(got, Disposition::Processed, mic);
    let mut party = asked.as_ref().filter(|asked| asked.options.signed).map(|_| &*GLOBEX);
    match does {
        Does::HangsUp => return None,
        Does::Answers(text) => return Some(text.as_bytes().to_vec()),
        Does::Receives if received.is_none() => made.disposition = Disposition::DecryptionFailed,
        Does::Receives | Does::KnowsNobody => {}
        Does::Says(disposition) => made.disposition = disposition,
        Does::LeavesItUnsigned => party = None,
        Does::LetsAStrangerSign => party = Some(&STRANGER),
        Does::MixesUp => made.message_id = "<another@x>".to_owned(),
        Does::ReceivesOtherBytes => made.mic.as_mut().unwrap().digest[0] ^= 1,
        Does::GivesNoMic => made.mic = None,
    }
    if asked.is_none() {
        return Some(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    }
    let mut document = made.document("report-0123456789abcdef");
    if let Some(party) = party {
        document = signed_by(document, party);
    }
    Some(as_http(&document))
}

fn signed_by(document: Document, party: &Party) -> Document {
    let OwnKey { certificate, key } = party.own.clone();
    let (digest, padding) = (DigestAlgorithm::Sha256, RsaPadding::Pkcs1);
    let signer = Signer { certificate, key, digest, padding, time: 1_769_903_999 };
    signed(&document, &signer, MicalgStyle::Dashed, "outer-9876543210").unwrap()
}

fn as_http(document: &Document) -> Vec<u8> {
    let Document { content_type, body } = document;
    let head = format!(
        "HTTP/1.1 200 OK\r\nAS2-Version: 1.2\r\nMessage-ID: <receipt@globex>\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
