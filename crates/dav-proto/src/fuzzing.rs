//! For fuzzers: bytes of strangers through every reader.

use crate::bad_body::BadBody;
use crate::condition::If;
use crate::element::Element;
use crate::headers::{Depth, Overwrite, destination, lock_token, timeout};
use crate::request::{LockInfo, PropFind, PropertyChange};

/// Reads `data` as every body and header. What was read as an element is written, and must be read
/// as the same.
pub fn fuzz(data: &[u8]) {
    let _ = (PropFind::parse(data), PropertyChange::parse(data), LockInfo::parse(data));
    if let Ok(element) = Element::parse(data) {
        let mut text = String::new();
        element.write(&mut text);
        match Element::parse(text.as_bytes()) {
            Ok(again) => assert_eq!(again, element),
            // The namespaces stand at each element.
            Err(error) => assert_eq!(error, BadBody::TooLarge),
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = (Depth::parse(Some(text), Depth::Zero), Overwrite::parse(Some(text)));
    let _ = (timeout(Some(text)), lock_token(text), destination(text, Some("host")));
    if let Ok(condition) = If::parse(text) {
        let _ = (condition.tokens().count(), condition.holds(|_, _| true));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_breaks_a_reader(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            text in "[<>/a:=\"'&;#x1 \\[\\]()!\\-DNot]{0,60}",
        ) {
            super::fuzz(&bytes);
            super::fuzz(text.as_bytes());
            super::fuzz(format!("<a xmlns:b='u'>{text}</a>").as_bytes());
        }
    }
}
