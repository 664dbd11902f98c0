//! AS2 (RFC 4130) without IO: messages and receipts as bytes that come and bytes that go.
//!
//! [`Receiver`] takes the body of a message piece by piece, unwraps encryption, compression and
//! signature (S/MIME, RFC 8551; CMS, RFC 5652), and gives the payload out; [`Receiver::outcome`]
//! says at the end whether it counts. [`SendPlan`] makes a message with a length that is known
//! beforehand. [`Receipt`] and [`read_receipt`] are the receipts of both. Messages may be of any
//! size: what is kept in memory is bounded by [`limits`].

mod agreement;
mod ber;
mod cms;
mod disposition;
mod entity;
mod envelope;
mod fuzzing;
mod headers;
pub mod limits;
mod mdn;
mod mic;
mod mime;
mod multipart;
mod oid;
mod options;
mod own_key;
mod payload;
mod policy;
mod receive;
mod received;
mod send;
mod signed_data;
mod stage;
mod stage_cms;
mod stage_signed;
#[cfg(test)]
mod tests;

pub use disposition::{Disposition, Outcome};
pub use entrepot_crypto::cipher::ContentSecrets;
pub use entrepot_crypto::{ContentCipher, DigestAlgorithm, KeyTransport};
pub use envelope::Envelope;
pub use fuzzing::fuzz;
pub use headers::{
    As2Headers, As2Name, HeaderError, ReceiptOptions, ReceiptRequest, bare_message_id,
    is_message_id,
};
pub use mdn::{
    Document, ReadReceipt, Receipt, ReceiptError, brought_certificates, is_receipt, may_be_receipt,
    read_receipt, signed,
};
pub use mic::{LineEnds, Mic, MicalgStyle, micalg, micalg_name};
pub use mime::{
    Field, Headers, MimeError, Parameter, Parameterized, TransferEncoding, head_evidence,
    safe_file_name,
};
pub use options::{ReceiveError, ReceiveOptions};
pub use own_key::OwnKey;
pub use policy::{LeastSecurity, Legacy, Protection};
pub use receive::Receiver;
pub use received::{Received, SignatureEvidence};
pub use send::{
    Compression, Finish, Measure, Outgoing, SendError, SendPlan, SendRandom, SentMic, Signing,
};
pub use signed_data::{RsaPadding, SignatureError, Signer, VerifiedSignature};
