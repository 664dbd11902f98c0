//! A partner of AS2, which makes messages of its own.

use std::sync::{Arc, LazyLock};

use entrepot_as2_proto::{
    Compression, ContentCipher, DigestAlgorithm, Envelope, Field, Headers, KeyTransport, Mic,
    MicalgStyle, OwnKey, RsaPadding, SendPlan, SendRandom, Signer, Signing,
};
use entrepot_auth::as2;
use entrepot_nouns::endpoint::{As2Target, EndpointTarget};
use entrepot_nouns::{Endpoint, Key, KeyType, Secret, SiteId};
use entrepot_world::name;
use zeroize::Zeroizing;

use super::super::client::{Answer, basic};
use super::super::fixture::Node;

/// A certificate and its key, as PEM and as they are used.
#[derive(Clone)]
pub(super) struct Pair {
    certificate: String,
    private: String,
    own: OwnKey,
}

fn pair() -> Pair {
    let keys = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["as2.example".to_owned()]).unwrap();
    let pem = parameters.self_signed(&keys).unwrap().pem();
    let certificate = as2::certificate(&pem).unwrap();
    let key = as2::private_key(keys.serialize_pem().as_bytes(), &certificate).unwrap();
    let own = OwnKey { certificate: Arc::new(certificate), key: Arc::new(key) };
    Pair { certificate: pem, private: keys.serialize_pem(), own }
}

/// To make keys of RSA takes long.
static PAIRS: LazyLock<[Pair; 3]> = LazyLock::new(|| [pair(), pair(), pair()]);

pub(super) struct Partner {
    /// Its own key.
    pub(super) globex: OwnKey,
    /// The key of the station, of which it has the certificate.
    pub(super) station: OwnKey,
}

impl Partner {
    /// A partner whose messages become files of `anna` in `/in`.
    pub(super) async fn agree(node: &Node, change: impl FnOnce(&mut As2Target)) -> Partner {
        let [station, globex, _] = &*PAIRS;
        let mut ours = Key::new(name("ours"), KeyType::As2, station.certificate.clone());
        ours.private = Some(Secret::new(station.private.as_bytes()));
        let theirs = Key::new(name("theirs"), KeyType::As2, globex.certificate.clone());
        let mut target = As2Target::new("GLOBEX", "Acme Ltd");
        target.keys = vec![name("ours")];
        target.certificates = vec![name("theirs")];
        target.account = Some(name("anna"));
        target.folder = "/in".parse().unwrap();
        change(&mut target);
        let endpoint = Endpoint {
            name: name("globex"),
            target: EndpointTarget::As2(Box::new(target)),
            paused: false,
            at_once: None,
            users: Vec::new(),
            note: String::new(),
        };
        for noun in [ours.into(), theirs.into(), endpoint.into()] {
            let noun = Box::new(noun);
            node.ask(SiteId::MAIN, entrepot_admin::Request::Create { noun }).await;
        }
        node.connect().await.request("MKCOL /dav/in", &basic("anna")).await;
        Partner { globex: globex.own.clone(), station: station.own.clone() }
    }

    /// Who has a key that nobody has agreed on.
    pub(super) fn stranger() -> Partner {
        Partner { globex: PAIRS[2].own.clone(), station: PAIRS[0].own.clone() }
    }

    /// A message as it was agreed.
    pub(super) fn message(&self, id: &str, payload: &[u8]) -> Message {
        let mut message = Message {
            id: id.to_owned(),
            from: "GLOBEX".to_owned(),
            options: "signed-receipt-protocol=optional, pkcs7-signature; \
                      signed-receipt-micalg=optional, sha-256"
                .to_owned(),
            wants_receipt: true,
            delivery: None,
            more: String::new(),
            flip: None,
            cut: None,
            payload: payload.to_vec(),
            sender: self.globex.clone(),
            mic: Mic { algorithm: DigestAlgorithm::Sha256, digest: Vec::new() },
            plan: SendPlan {
                content_type: "application/edi-x12".to_owned(),
                file_name: Some("order.edi".to_owned()),
                payload_bytes: payload.len() as u64,
                compression: Compression::None,
                signing: None,
                envelope: Some(Envelope {
                    recipient: self.station.certificate.clone(),
                    cipher: ContentCipher::Aes128Cbc,
                    transport: KeyTransport::Pkcs1,
                }),
                mic_algorithm: DigestAlgorithm::Sha256,
            },
        };
        message.digest(DigestAlgorithm::Sha256);
        message.mic = message.made().2;
        message
    }

    /// A file as its account sees it.
    pub(super) async fn file(&self, node: &Node, path: &str) -> Vec<u8> {
        let path = path.replace(' ', "%20");
        let line = format!("GET /files{path}");
        let answer = node.connect().await.request(&line, &basic("anna")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    /// What lies in `/in`.
    pub(super) async fn names(&self, node: &Node) -> Vec<String> {
        let fields = format!("{}Accept: application/json\r\n", basic("anna"));
        let answer = node.connect().await.request("GET /files/in/", &fields).await;
        let listed = answer.json();
        let entries = listed["entries"].as_array().unwrap().iter();
        let mut names: Vec<String> =
            entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

/// A message, to be changed before it is sent.
pub(super) struct Message {
    pub(super) id: String,
    pub(super) from: String,
    pub(super) options: String,
    pub(super) wants_receipt: bool,
    pub(super) delivery: Option<String>,
    /// Further lines of its header.
    pub(super) more: String,
    /// Where in its body a bit is flipped, from 0 to 1.
    pub(super) flip: Option<f64>,
    /// Where its body ends.
    pub(super) cut: Option<f64>,
    pub(super) plan: SendPlan,
    /// The digest as its sender made it.
    pub(super) mic: Mic,
    payload: Vec<u8>,
    sender: OwnKey,
}

impl Message {
    pub(super) fn digest(&mut self, digest: DigestAlgorithm) {
        let OwnKey { certificate, key } = self.sender.clone();
        let (padding, time) = (RsaPadding::Pkcs1, 1_769_903_999);
        let signer = Signer { certificate, key, digest, padding, time };
        self.plan.signing = Some(Signing { signer, style: MicalgStyle::Dashed });
    }

    pub(super) fn cipher(&mut self, cipher: ContentCipher) {
        self.plan.envelope.as_mut().unwrap().cipher = cipher;
    }

    pub(super) fn signed_by(&mut self, sender: &OwnKey) {
        self.sender = sender.clone();
        self.digest(DigestAlgorithm::Sha256);
    }

    pub(super) fn encrypt_to_its_sender(&mut self) {
        self.plan.envelope.as_mut().unwrap().recipient = self.sender.certificate.clone();
    }

    /// The fields about its content, its body, and its digest.
    fn made(&self) -> (String, Vec<u8>, Mic) {
        let mut key = Zeroizing::new([0; 32]);
        key.copy_from_slice(&[0x5a; 32]);
        // Triple-DES takes no key whose parts are the same.
        key.iter_mut().zip(0..).for_each(|(byte, at)| *byte ^= at);
        let random = SendRandom {
            boundary: "boundary-0123456789abcdefghijklmn".to_owned(),
            secrets: entrepot_as2_proto::ContentSecrets { key, iv: [0xa5; 16] },
        };
        let measured = self.plan.measure(&random).unwrap().map(|mut measure| {
            measure.push(&self.payload).unwrap();
            measure.finish().unwrap()
        });
        let mut outgoing = self.plan.start(&random, measured).unwrap();
        let mut fields = format!("Content-Type: {}\r\n", outgoing.content_type());
        if let Some(disposition) = outgoing.content_disposition() {
            fields.push_str(&format!("Content-Disposition: {disposition}\r\n"));
        }
        let mut body = outgoing.head().unwrap();
        body.extend(outgoing.push(&self.payload).unwrap());
        let finish = outgoing.finish().unwrap();
        body.extend(finish.last);
        (fields, body, finish.sent.mic)
    }

    pub(super) async fn post(&self, node: &Node) -> Answer {
        let (content, mut body, _) = self.made();
        let at = |share: f64, length: usize| (length as f64 * share) as usize;
        if let Some(share) = self.flip {
            let place = at(share, body.len());
            body[place] ^= 1;
        }
        if let Some(share) = self.cut {
            body.truncate(at(share, body.len()));
        }
        let from = entrepot_as2_proto::As2Name::new(&self.from).unwrap().field();
        let mut fields = format!(
            "AS2-Version: 1.2\r\nAS2-From: {from}\r\nAS2-To: \"Acme Ltd\"\r\n\
             Message-ID: {}\r\nSubject: orders\r\n{content}",
            self.id
        );
        if self.wants_receipt {
            fields.push_str("Disposition-Notification-To: edi@globex.example\r\n");
            if !self.options.is_empty() {
                let options = &self.options;
                fields.push_str(&format!("Disposition-Notification-Options: {options}\r\n"));
            }
        }
        if let Some(url) = &self.delivery {
            fields.push_str(&format!("Receipt-Delivery-Option: {url}\r\n"));
        }
        fields.push_str(&self.more);
        node.connect().await.upload("POST /as2", &fields, &body).await
    }
}

/// The header of an answer.
pub(super) fn fields_of(answer: &Answer) -> Headers {
    let names = ["content-type", "content-transfer-encoding"];
    let named = names.into_iter().filter(|name| !answer.field(name).is_empty());
    let field = |name: &str| Field { name: name.to_owned(), value: answer.field(name).to_owned() };
    Headers::new(named.map(field).collect())
}
