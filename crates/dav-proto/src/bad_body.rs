//! What is wrong with the body of a request.

/// Why a body is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// It is no XML.
    #[error("the body is no XML in UTF-8")]
    Syntax,
    /// It is larger or deeper than any client needs.
    #[error("the body is larger than this server reads")]
    TooLarge,
    /// It has a document type.
    #[error("the body has a document type, which this server does not read")]
    DocumentType,
    /// It is XML that the method knows no meaning for.
    #[error("the body is not what RFC 4918 says for this method")]
    Meaning,
}
