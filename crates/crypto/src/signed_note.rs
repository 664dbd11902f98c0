//! Signed notes (C2SP `signed-note`) and the checkpoints of a log as such notes (C2SP
//! `tlog-checkpoint`): short texts with an Ed25519 signature (RFC 8032) that people can read and
//! the common tools of transparency logs can verify.
//!
//! ```text
//! entrepot/9f0d…            the log: its origin
//! 20852163                  the size of its tree
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=      the root (RFC 9162 §2.1.1)
//! time 2026-11-23T08:00:00Z any further lines
//!
//! — entrepot/9f0d… Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9…
//! ```
//!
//! The signature covers every byte up to and with the last line break before the empty line. What
//! follows the name is base64 of the key id (4 bytes) and the signature (64 bytes).

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use entrepot_nouns::{Env, Secret};

use crate::limits::{NOTE_BYTES, NOTE_SIGNATURES};
use crate::merkle::Hash;

/// The algorithm byte of Ed25519 in keys and key ids.
const ED25519_NOTE: u8 = 0x01;
const PUBLIC_KEY: usize = 32;
const SEED: usize = 32;
const SIGNATURE: usize = 64;
const KEY_ID: usize = 4;
/// Leads a signature line: an em dash and a space.
const SIGNATURE_MARK: &str = "\u{2014} ";

/// Why a note, a key or a checkpoint is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// The text has not the form of a note.
    #[error("this is no signed note: {0}")]
    Form(&'static str),
    /// No signature is of this key.
    #[error("the note is not signed by the key '{0}'")]
    NotSignedBy(String),
    /// A signature by the key's name and id is there, and wrong.
    #[error(
        "the signature by '{0}' does not fit the note: it was changed, or signed by another key"
    )]
    WrongSignature(String),
    /// The text is no key that verifies notes.
    #[error("this is no key that verifies notes; one looks like 'name+1a2b3c4d+base64'")]
    Key,
    /// The text is no private key.
    #[error("this is no private key of a node")]
    PrivateKey,
}

type Result<T, E = NoteError> = std::result::Result<T, E>;

/// A key that signs notes under a name.
pub struct NoteSigner {
    pair: Ed25519KeyPair,
    verifier: NoteVerifier,
}

impl NoteSigner {
    /// A new private half: the 32 bytes that RFC 8032 calls the private key.
    pub fn generate(env: &Env) -> Secret {
        let mut seed = zeroize::Zeroizing::new([0; SEED]);
        env.fill_random(seed.as_mut());
        Secret::new(seed.to_vec())
    }

    /// The signer of this private half, named `name`.
    ///
    /// # Errors
    /// [`NoteError::PrivateKey`], and [`NoteError::Key`] if no note could carry the name.
    pub fn new(name: &str, private: &Secret) -> Result<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(private.expose())
            .map_err(|_| NoteError::PrivateKey)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| NoteError::PrivateKey)?;
        let verifier = NoteVerifier::new(name, public)?;
        Ok(NoteSigner { pair, verifier })
    }

    /// The public half.
    pub fn verifier(&self) -> &NoteVerifier {
        &self.verifier
    }

    /// The note of this text, which ends with a line break and holds no empty line at its end.
    pub fn sign(&self, text: &str) -> String {
        let signature = self.pair.sign(text.as_bytes());
        let mut value = self.verifier.key_id().to_vec();
        value.extend_from_slice(signature.as_ref());
        let name = &self.verifier.name;
        format!("{text}\n{SIGNATURE_MARK}{name} {}\n", STANDARD.encode(value))
    }
}

/// A key that verifies notes: `name+id+base64`, as C2SP `signed-note` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteVerifier {
    name: String,
    public: [u8; PUBLIC_KEY],
}

impl NoteVerifier {
    fn new(name: &str, public: [u8; PUBLIC_KEY]) -> Result<Self> {
        let fits = |letter: char| !letter.is_whitespace() && letter != '+';
        if name.is_empty() || !name.chars().all(fits) {
            return Err(NoteError::Key);
        }
        Ok(NoteVerifier { name: name.to_owned(), public })
    }

    /// The name that stands before its signatures.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first bytes of SHA-256(name ‖ line break ‖ algorithm ‖ public key).
    fn key_id(&self) -> [u8; KEY_ID] {
        use aws_lc_rs::digest::{SHA256, digest};
        let mut named = format!("{}\n", self.name).into_bytes();
        named.push(ED25519_NOTE);
        named.extend_from_slice(&self.public);
        let mut id = [0; KEY_ID];
        for (to, from) in id.iter_mut().zip(digest(&SHA256, &named).as_ref()) {
            *to = *from;
        }
        id
    }

    /// The text of a note that this key signed.
    ///
    /// # Errors
    /// [`NoteError`], but for [`NoteError::Key`].
    pub fn open<'a>(&self, note: &'a str) -> Result<&'a str> {
        if note.len() > NOTE_BYTES {
            return Err(NoteError::Form("it is too long"));
        }
        let (text, signatures) = split(note)?;
        for (number, line) in signatures.lines().enumerate() {
            let line = line
                .strip_prefix(SIGNATURE_MARK)
                .filter(|_| number < NOTE_SIGNATURES)
                .ok_or(NoteError::Form("its last lines are not signatures"))?;
            let (name, value) =
                line.split_once(' ').ok_or(NoteError::Form("a signature line has no signature"))?;
            let value =
                STANDARD.decode(value).map_err(|_| NoteError::Form("a signature is not base64"))?;
            let Some((id, signature)) = value.split_first_chunk::<KEY_ID>() else {
                return Err(NoteError::Form("a signature is too short"));
            };
            // Signatures of others are passed over, whatever they are.
            if name != self.name || *id != self.key_id() {
                continue;
            }
            let right = signature.len() == SIGNATURE
                && UnparsedPublicKey::new(&ED25519, &self.public)
                    .verify(text.as_bytes(), signature)
                    .is_ok();
            let wrong = || NoteError::WrongSignature(self.name.clone());
            return if right { Ok(text) } else { Err(wrong()) };
        }
        Err(NoteError::NotSignedBy(self.to_string()))
    }
}

impl fmt::Display for NoteVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = vec![ED25519_NOTE];
        value.extend_from_slice(&self.public);
        let [a, b, c, d] = self.key_id();
        write!(f, "{}+{a:02x}{b:02x}{c:02x}{d:02x}+{}", self.name, STANDARD.encode(value))
    }
}

impl FromStr for NoteVerifier {
    type Err = NoteError;

    fn from_str(text: &str) -> Result<Self> {
        // The base64 may hold '+', the name and the id may not.
        let (name, rest) = text.trim().split_once('+').ok_or(NoteError::Key)?;
        let (_, value) = rest.split_once('+').ok_or(NoteError::Key)?;
        let value = STANDARD.decode(value).map_err(|_| NoteError::Key)?;
        let public = match value.split_first() {
            Some((&ED25519_NOTE, public)) => public.try_into().map_err(|_| NoteError::Key)?,
            _ => return Err(NoteError::Key),
        };
        let verifier = NoteVerifier::new(name, public)?;
        // The id is derived: another one is a mistake of copying.
        if verifier.to_string() == text.trim() { Ok(verifier) } else { Err(NoteError::Key) }
    }
}

/// The signed text and the signature lines.
fn split(note: &str) -> Result<(&str, &str)> {
    let at = note.rfind("\n\n").ok_or(NoteError::Form("it has no empty line"))?;
    let (text, signatures) = note.split_at(at + 1);
    let signatures = signatures.strip_prefix('\n').unwrap_or_default();
    if signatures.is_empty() || !signatures.ends_with('\n') {
        return Err(NoteError::Form("its last line is not a signature"));
    }
    Ok((text, signatures))
}

/// What the signer of a log says of it: C2SP `tlog-checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log it is.
    pub origin: String,
    /// How many leaves its tree has.
    pub size: u64,
    /// The root over them.
    pub root: Hash,
    /// Further lines, none of them empty.
    pub extensions: Vec<String>,
}

impl Checkpoint {
    /// The text that is signed.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n{}\n", self.origin, self.size, STANDARD.encode(self.root));
        for line in &self.extensions {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// The checkpoint of a note that `verifier` signed.
    ///
    /// # Errors
    /// As [`NoteVerifier::open`], and [`NoteError::Form`] if it is a note of something else.
    pub fn open(note: &str, verifier: &NoteVerifier) -> Result<Self> {
        Checkpoint::parse(verifier.open(note)?)
    }

    /// The checkpoint of a note, without a look at its signatures.
    ///
    /// # Errors
    /// [`NoteError::Form`].
    pub fn open_unverified(note: &str) -> Result<Self> {
        Checkpoint::parse(split(note)?.0)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let origin = lines.next().filter(|origin| !origin.is_empty());
        let origin = origin.ok_or(NoteError::Form("it names no log"))?.to_owned();
        let size = lines.next().ok_or(NoteError::Form("it has no size"))?;
        let plain = size == "0" || !size.starts_with(['0', '+']);
        let size = size.parse().ok().filter(|_| plain);
        let size = size.ok_or(NoteError::Form("its size is no number"))?;
        let root = lines.next().and_then(|root| STANDARD.decode(root).ok());
        let root = root.and_then(|root| root.try_into().ok());
        let root = root.ok_or(NoteError::Form("its root is no hash"))?;
        let extensions: Vec<String> = lines.map(str::to_owned).collect();
        if extensions.iter().any(String::is_empty) {
            return Err(NoteError::Form("it has an empty line"));
        }
        Ok(Checkpoint { origin, size, root, extensions })
    }

    /// The rest of the extension line that begins with this word.
    pub fn extension(&self, word: &str) -> Option<&str> {
        let mut pairs = self.extensions.iter().filter_map(|line| line.split_once(' '));
        pairs.find(|(first, _)| *first == word).map(|(_, rest)| rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and note of the specification of signed notes, and of Go's package `note`, which has
    /// the same ones.
    const GO_KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    const GO_NOTE: &str = "If you think cryptography is the answer to your problem,\n\
        then you don't know what your problem is.\n\
        \n\
        \u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqf\
        qdngotpRZb6KE6RyyBwJnAM=\n";

    fn signer(name: &str) -> NoteSigner {
        let env = Env::simulated(7);
        NoteSigner::new(name, &NoteSigner::generate(&env)).expect("a signer")
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            origin: "entrepot/n1".to_owned(),
            size: 12,
            root: [7; 32],
            extensions: vec!["time 2026-11-23T08:00:00Z".to_owned()],
        }
    }

    #[test]
    fn a_note_of_another_implementation_is_verified() {
        let verifier: NoteVerifier = GO_KEY.parse().expect("a key");
        assert_eq!(verifier.to_string(), GO_KEY);
        let text = verifier.open(GO_NOTE).expect("a good note");
        assert!(text.starts_with("If you think") && text.ends_with("problem is.\n"));
        let changed = GO_NOTE.replace("answer", "Answer");
        let wrong = NoteError::WrongSignature("PeterNeumann".to_owned());
        assert_eq!(verifier.open(&changed), Err(wrong));
    }

    #[test]
    fn what_is_signed_is_read_back_and_nothing_else_is() {
        let signer = signer("entrepot/n1");
        let note = signer.sign(&checkpoint().text());
        let verifier: NoteVerifier = signer.verifier().to_string().parse().expect("its own form");
        assert_eq!(&verifier, signer.verifier());
        let opened = Checkpoint::open(&note, &verifier).expect("a good checkpoint");
        assert_eq!(opened, checkpoint());
        assert_eq!(opened.extension("time"), Some("2026-11-23T08:00:00Z"));
        assert_eq!(opened.extension("chain"), None);
        let text_end = note.find("\n\n").expect("an empty line");
        for at in 0..text_end {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 0x01;
            let changed = String::from_utf8(bytes).expect("still text");
            assert!(Checkpoint::open(&changed, &verifier).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_key_of_the_same_name_is_another_key() {
        let note = signer("entrepot/n1").sign(&checkpoint().text());
        let env = Env::simulated(8);
        let other = NoteSigner::new("entrepot/n1", &NoteSigner::generate(&env)).expect("a signer");
        let refused = Checkpoint::open(&note, other.verifier());
        assert!(matches!(refused, Err(NoteError::NotSignedBy(_))), "{refused:?}");
    }

    #[test]
    fn further_signatures_are_passed_over() {
        let (first, second) = (signer("entrepot/n1"), signer("witness"));
        let note = first.sign(&checkpoint().text());
        let (_, line) = {
            let other = second.sign(&checkpoint().text());
            let at = other.rfind("\n\n").expect("an empty line");
            (at, other[at + 2..].to_owned())
        };
        let both = format!("{note}{line}");
        assert!(Checkpoint::open(&both, first.verifier()).is_ok());
        assert!(Checkpoint::open(&both, second.verifier()).is_ok());
    }

    #[test]
    fn texts_that_are_no_checkpoints_are_refused() {
        let signer = signer("entrepot/n1");
        let good = checkpoint().text();
        let cases = [
            ("\n", "it names no log"),
            ("log\n", "it has no size"),
            ("log\n+1\nAAAA\n", "its size is no number"),
            ("log\n01\nAAAA\n", "its size is no number"),
            ("log\n-1\nAAAA\n", "its size is no number"),
            ("log\n1\nAAAA\n", "its root is no hash"),
        ];
        for (text, problem) in cases {
            let note = signer.sign(text);
            let refused = Checkpoint::open(&note, signer.verifier());
            assert_eq!(refused, Err(NoteError::Form(problem)), "{text:?}");
        }
        for note in ["", "\n\n", &good, &format!("{good}\n"), &format!("{good}\n— x"), "a\n\n— x\n"]
        {
            assert!(signer.verifier().open(note).is_err(), "{note:?}");
        }
    }

    #[test]
    fn keys_with_mistakes_are_refused() {
        for text in [
            "",
            "a",
            "a+b",
            "a+00000000+AAAA",
            "+c74f20a3+ARpc2QcU",
            "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        ] {
            assert_eq!(text.parse::<NoteVerifier>(), Err(NoteError::Key), "{text:?}");
        }
        assert!(NoteSigner::new("a b", &NoteSigner::generate(&Env::simulated(1))).is_err());
        assert!(NoteSigner::new("a", &Secret::new("AAAA".to_owned())).is_err());
    }
}
