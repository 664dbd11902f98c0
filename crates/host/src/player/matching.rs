//! Whether what a client sends is what the recording awaits.

use entrepot_tn3270_proto::address::Addressing;
use entrepot_tn3270_proto::enhanced::DataType;
use entrepot_tn3270_proto::typed::Typed;

use super::recording::{Expected, ExpectedKey};

/// How much of what a client sends must be as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// Every byte: the place of the cursor, too, and what is in hidden fields.
    Strict,
    /// The key, which fields were typed into, and what is in them unless they are hidden.
    #[default]
    Fields,
    /// The key alone.
    Aid,
    /// Every key will do.
    Any,
}

/// What follows when a client sends something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoMatch {
    /// The screen is sent again.
    #[default]
    Repeat,
    /// The recording is searched from here on; where nothing matches, the screen is sent again.
    Forward,
    /// The same, and after its end from its begin on.
    Search,
    /// The connection is closed.
    Drop,
}

/// What a client has sent, as far as a person did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received<'a> {
    Key(&'a [u8]),
    Line { data_type: DataType, text: &'a [u8] },
    Attention,
    SystemRequest,
}

impl Match {
    pub(crate) fn holds(self, expected: &Expected, received: Received<'_>) -> bool {
        match (expected, received) {
            (Expected::Automatic, _) => false,
            (_, _) if self == Match::Any => true,
            (Expected::Key(key), Received::Key(data)) => self.holds_for_key(key, data),
            (Expected::Line(line), Received::Line { data_type, text }) => {
                line.data_type == data_type && (self == Match::Aid || line.text == text)
            }
            (Expected::Attention, Received::Attention)
            | (Expected::SystemRequest, Received::SystemRequest) => true,
            _ => false,
        }
    }

    fn holds_for_key(self, expected: &ExpectedKey, data: &[u8]) -> bool {
        if self == Match::Strict {
            return expected.data == data;
        }
        let is_same_key = expected.data.first() == data.first();
        is_same_key && (self == Match::Aid || has_fields(expected, data))
    }
}

/// Places are compared, not the bytes for them: terminals write them in two ways.
fn has_fields(expected: &ExpectedKey, data: &[u8]) -> bool {
    let typed = Typed::parse(data, Addressing::default());
    let fields = typed.map(|typed| typed.fields).unwrap_or_default();
    fields.len() == expected.fields.len()
        && fields.iter().zip(&expected.fields).all(|(field, expected)| {
            let is_same = |codes: &Vec<u8>| codes == field.codes;
            field.at == expected.at && expected.codes.as_ref().is_none_or(is_same)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::player::recording::ExpectedField;

    #[test]
    fn each_way_asks_for_less() {
        // ENTER at 1,2 with AB in 1,2; the field at 1,12 is hidden.
        let data = vec![0x7d, 0x40, 0xc1, 0x11, 0x40, 0xc1, 0xc1, 0xc2, 0x11, 0x40, 0x4b, 0x5c];
        let fields = vec![
            ExpectedField { at: Some(1), codes: Some(vec![0xc1, 0xc2]) },
            ExpectedField { at: Some(11), codes: None },
        ];
        let expected = Expected::Key(ExpectedKey { data: data.clone(), fields });
        let holds = |received: &[u8]| {
            let all = [Match::Strict, Match::Fields, Match::Aid, Match::Any];
            all.map(|way| way.holds(&expected, Received::Key(received)))
        };
        assert_eq!(holds(&data), [true; 4]);
        // Another cursor, addresses of 14 bits, another password.
        let other = [0x7d, 0x40, 0x40, 0x11, 0, 1, 0xc1, 0xc2, 0x11, 0, 11, 0xe7, 0xe7];
        assert_eq!(holds(&other), [false, true, true, true]);
        let typed = [0x7d, 0x40, 0xc1, 0x11, 0x40, 0xc1, 0xc3, 0xc2, 0x11, 0x40, 0x4b, 0x5c];
        assert_eq!(holds(&typed), [false, false, true, true]);
        assert_eq!(holds(&data[..8]), [false, false, true, true]);
        assert_eq!(holds(&[0x6d]), [false, false, false, true]);
    }

    #[test]
    fn lines_go_to_whom_they_are_for() {
        let line = Expected::Line(super::super::recording::ExpectedLine {
            data_type: DataType::SscpLu,
            text: vec![0xc1],
        });
        let received = |data_type, text| Received::Line { data_type, text };
        assert!(Match::Fields.holds(&line, received(DataType::SscpLu, &[0xc1])));
        assert!(!Match::Fields.holds(&line, received(DataType::SscpLu, &[0xc2])));
        assert!(!Match::Aid.holds(&line, received(DataType::Nvt, &[0xc1])));
        assert!(Match::Aid.holds(&line, received(DataType::SscpLu, &[0xc2])));
        assert!(!Match::Fields.holds(&line, Received::Attention));
        assert!(!Match::Any.holds(&Expected::Automatic, Received::Attention));
    }
}
