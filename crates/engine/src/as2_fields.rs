//! Fields of the requests that carry messages and receipts (RFC 4130 §6).

use entrepot_as2_proto::As2Name;
use entrepot_nouns::Timestamp;

/// The version that is spoken: that of compression (RFC 5402) and of `EDIINT-Features`.
pub(crate) const VERSION: &str = "1.2";

/// An AS2 name as a field has it; `None`: it is none that can be sent.
pub(crate) fn name(name: &str) -> Option<String> {
    As2Name::new(name).map(|name| name.field())
}

/// As HTTP has it (RFC 9110 §5.6.7).
pub(crate) fn date(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_second(at.seconds()).unwrap_or_default();
    let text = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at);
    text.unwrap_or_default()
}
