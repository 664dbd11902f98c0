//! What a receipt says of a message (RFC 4130 §7.5, RFC 8098 §3.2.6, draft-ietf-ediint-rfc4130bis).

/// What became of a message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It is durable where it belongs.
    Processed,
    /// It does not decrypt; one case for every cause.
    DecryptionFailed,
    /// The signer is not the partner.
    AuthenticationFailed,
    /// The content is not what was signed.
    IntegrityCheckFailed,
    /// It does not inflate, or to too much.
    DecompressionFailed,
    /// It is not signed, not encrypted, or too weakly for what was agreed.
    InsufficientMessageSecurity,
    /// The pair of names is not known.
    UnknownTradingRelationship,
    /// Both names are the same.
    SenderEqualsReceiver,
    /// A message of this id was processed before.
    DuplicateDocument,
    /// None of the digests that the receipt was asked to have is known.
    UnsupportedMicAlgorithms,
    /// A form that is not supported.
    UnsupportedFormat,
    /// The Message-ID is malformed.
    InvalidMessageId,
    /// The name of the file cannot be used.
    IllegalFilename,
    /// A file of that name is there.
    DuplicateFilename,
    /// What none of the others says.
    UnexpectedProcessingError,
}

/// How a disposition is written, and its explanation.
struct Row {
    disposition: Disposition,
    text: &'static str,
    explanation: &'static str,
}

const fn row(disposition: Disposition, text: &'static str, explanation: &'static str) -> Row {
    Row { disposition, text, explanation }
}

const ROWS: [Row; 15] = [
    row(Disposition::Processed, "processed", "The message was received and stored."),
    row(
        Disposition::DecryptionFailed,
        "processed/error: decryption-failed",
        "The message could not be decrypted.",
    ),
    row(
        Disposition::AuthenticationFailed,
        "processed/error: authentication-failed",
        "The signature was not made by a certificate that is agreed for this sender.",
    ),
    row(
        Disposition::IntegrityCheckFailed,
        "processed/error: integrity-check-failed",
        "The content differs from what was signed.",
    ),
    row(
        Disposition::DecompressionFailed,
        "processed/error: decompression-failed",
        "The message could not be decompressed.",
    ),
    row(
        Disposition::InsufficientMessageSecurity,
        "processed/error: insufficient-message-security",
        "The message is not signed and encrypted in the way that is agreed.",
    ),
    row(
        Disposition::UnknownTradingRelationship,
        "processed/error: unknown-trading-relationship",
        "There is no agreement between these two AS2 names.",
    ),
    row(
        Disposition::SenderEqualsReceiver,
        "failed/failure: sender-equals-receiver",
        "AS2-From and AS2-To are the same.",
    ),
    row(
        Disposition::DuplicateDocument,
        "processed/warning: duplicate-document",
        "A message with this Message-ID was received before; this copy was not stored.",
    ),
    row(
        Disposition::UnsupportedMicAlgorithms,
        "failed/failure: unsupported MIC-algorithms",
        "None of the digests that were asked for is supported.",
    ),
    row(
        Disposition::UnsupportedFormat,
        "failed/failure: unsupported format",
        "The message has a form that is not supported.",
    ),
    row(
        Disposition::InvalidMessageId,
        "processed/error: invalid-message-id",
        "The Message-ID is malformed.",
    ),
    row(
        Disposition::IllegalFilename,
        "processed/error: illegal-filename",
        "The name of the file cannot be used here.",
    ),
    row(
        Disposition::DuplicateFilename,
        "processed/error: duplicate-filename",
        "A file of this name is there.",
    ),
    row(
        Disposition::UnexpectedProcessingError,
        "processed/error: unexpected-processing-error",
        "The message could not be processed.",
    ),
];

impl Disposition {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Disposition> {
        ROWS.iter().map(|row| row.disposition)
    }

    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.disposition == self)
    }

    /// The type and modifier, such as `processed/error: decryption-failed`.
    pub fn text(self) -> &'static str {
        self.row().map_or("", |row| row.text)
    }

    /// One sentence for people.
    pub fn explanation(self) -> &'static str {
        self.row().map_or("", |row| row.explanation)
    }
}

/// How it went for a message that was sent, by the receipt for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The partner has it.
    Processed,
    /// The partner has it and remarks this.
    Warning(String),
    /// The partner could not use it, for this reason.
    Error(String),
    /// The partner could not give the receipt that was asked for, for this reason.
    Failure(String),
}

impl Outcome {
    /// Whether the partner has the message. A warning says so too.
    pub fn is_success(&self) -> bool {
        matches!(self, Outcome::Processed | Outcome::Warning(_))
    }

    /// Reads the value of `Disposition`, in any case and spacing. A modifier that is not known is a
    /// failure whose text it is. `details` are the fields `Error`, `Failure` and `Warning` of
    /// RFC 8098, of which one explains a modifier that stands alone.
    pub fn parse(value: &str, details: &[String]) -> Option<Outcome> {
        let (_, kind) = value.split_once(';')?;
        let (kind, text) = kind.split_once(':').unwrap_or((kind, ""));
        let squeezed: String = kind.chars().filter(|c| !c.is_whitespace()).collect();
        let squeezed = squeezed.to_ascii_lowercase();
        let (kind, modifier) = match squeezed.split_once('/') {
            Some((kind, modifier)) => (kind.to_owned(), modifier.to_owned()),
            None => (squeezed, String::new()),
        };
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            text = details.join("; ");
        }
        match (kind.as_str(), modifier.as_str()) {
            ("processed", "") => Some(Outcome::Processed),
            ("processed", "warning") => Some(Outcome::Warning(text)),
            ("processed", "error") => Some(Outcome::Error(text)),
            (_, "failure" | "") => Some(Outcome::Failure(text)),
            (_, other) if text.is_empty() => Some(Outcome::Failure(other.to_owned())),
            (_, other) => Some(Outcome::Failure(format!("{other}: {text}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disposition_is_read_as_it_is_written() {
        assert_eq!(Disposition::all().count(), ROWS.len());
        for row in &ROWS {
            let written = format!("automatic-action/MDN-sent-automatically; {}", row.text);
            let outcome = Outcome::parse(&written, &[]).unwrap();
            let expected = match row.text.split_once(": ") {
                None => Outcome::Processed,
                Some(("processed/error", text)) => Outcome::Error(text.to_owned()),
                Some(("processed/warning", text)) => Outcome::Warning(text.to_owned()),
                Some((_, text)) => Outcome::Failure(text.to_owned()),
            };
            assert_eq!(outcome, expected);
            assert!(row.explanation.ends_with('.'));
        }
    }

    #[test]
    fn forms_of_partners() {
        let text = |text: &str| text.to_owned();
        let table = [
            ("x; PROCESSED", Outcome::Processed),
            (
                "a/b ; Processed / Error : Decryption-Failed",
                Outcome::Error(text("Decryption-Failed")),
            ),
            (
                "a/b;processed/Warning:duplicate-document",
                Outcome::Warning(text("duplicate-document")),
            ),
            ("a/b; failed", Outcome::Failure(text("why"))),
            ("a/b; processed/error", Outcome::Error(text("why"))),
            (
                "a/b; failed/Failure: unsupported  format",
                Outcome::Failure(text("unsupported format")),
            ),
            ("a/b; processed/strange: thing", Outcome::Failure(text("strange: thing"))),
            ("a/b; displayed", Outcome::Failure(text("why"))),
        ];
        for (value, expected) in table {
            assert_eq!(Outcome::parse(value, &[text("why")]), Some(expected), "{value}");
        }
        assert_eq!(Outcome::parse("processed", &[]), None);
        assert!(Outcome::Warning(String::new()).is_success());
        assert!(!Outcome::Error(String::new()).is_success());
    }
}
