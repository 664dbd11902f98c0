//! What a message may have at most. A message may be of any size; what is kept in memory of it is
//! bounded by these.

/// Values of BER inside each other.
pub const BER_DEPTH: usize = 24;

/// Bytes of a CMS structure around its content: recipients, algorithms, what follows.
pub const CMS_HEADER_BYTES: usize = 128 * 1024;

/// Recipients of one message.
pub const RECIPIENTS: usize = 64;

/// Signers of one message.
pub const SIGNERS: usize = 8;

/// Bytes of the part that holds the signature, as it travels.
pub const SIGNATURE_BYTES: usize = 256 * 1024;

/// Bytes of the header of one part, and of all headers of HTTP that are looked at.
pub const HEAD_BYTES: usize = 64 * 1024;

/// Fields of one header.
pub const HEADER_FIELDS: usize = 256;

/// Layers inside each other: encryption, compression before and after signing, and the signature.
pub const LAYERS: usize = 6;

/// Compressed layers inside each other.
pub const COMPRESSIONS: usize = 2;

/// Characters of a boundary (RFC 2046 §5.1.1).
pub const BOUNDARY_CHARACTERS: usize = 70;

/// White space behind a boundary on its line.
pub const BOUNDARY_PADDING: usize = 256;

/// Bytes of output that wait for the caller before no more input is worked on.
pub const OUTPUT_BYTES: usize = 256 * 1024;

/// Compressed bytes that are inflated at a time: zlib makes at most 1032 of each.
pub const INFLATE_STEP: usize = 1024;

/// Bytes of encrypted or multipart content that are worked on at a time.
pub const STEP: usize = 64 * 1024;

/// Bytes of a receipt that is read.
pub const MDN_BYTES: usize = 256 * 1024;

/// Characters of an AS2 name (RFC 4130 §6.2).
pub const AS2_NAME_CHARACTERS: usize = 128;

/// Characters of a Message-ID (RFC 2822 §2.1.1).
pub const MESSAGE_ID_CHARACTERS: usize = 998;

/// Bytes of a file name that a sender proposes.
pub const FILE_NAME_BYTES: usize = 200;

/// By so much of a signed message it is known whether it is a receipt, in bytes.
pub const RECOGNISED_BYTES: usize = 32 * 1024;

/// Bytes of the header of a request that are kept as evidence.
pub const EVIDENCE_HEAD_BYTES: usize = 16 * 1024;

/// Bytes of a signature, with its certificate, that is kept as evidence.
pub const EVIDENCE_SIGNATURE_BYTES: usize = 16 * 1024;

/// Bytes of the header of signed content that are kept as evidence.
pub const EVIDENCE_ENTITY_HEAD_BYTES: usize = 2 * 1024;

/// Certificates that a receipt brings along which are looked at.
pub const CERTIFICATES: usize = 16;
