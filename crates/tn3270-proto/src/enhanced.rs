//! TN3270E (RFC 2355): the header of each record, the functions, and the subnegotiations.

use crate::telnet;

pub(crate) const ASSOCIATE: u8 = 0;
pub(crate) const CONNECT: u8 = 1;
pub(crate) const DEVICE_TYPE: u8 = 2;
pub(crate) const FUNCTIONS: u8 = 3;
pub(crate) const IS: u8 = 4;
pub(crate) const REASON: u8 = 5;
pub(crate) const REJECT: u8 = 6;
pub(crate) const REQUEST: u8 = 7;
pub(crate) const SEND: u8 = 8;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 5;

/// What a record carries (RFC 2355 §8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DataType {
    /// A 3270 data stream, as every record without TN3270E.
    #[default]
    Data3270,
    /// Characters for a printer.
    Scs,
    /// Whether a record could be processed.
    Response,
    /// The BIND of the session, with names and sizes.
    BindImage,
    /// The session ends or is about to begin anew.
    Unbind,
    /// Bytes for a network virtual terminal.
    Nvt,
    /// A request without data.
    Request,
    /// Text of the system services, before or beside the session with an application.
    SscpLu,
    /// A print job has ended.
    PrintEoj,
    /// The host asks for the right to send (draft on contention resolution).
    Bid,
    /// A number that no text defines.
    Other(u8),
}

impl DataType {
    /// The number in the header.
    pub fn code(self) -> u8 {
        match self {
            DataType::Data3270 => 0,
            DataType::Scs => 1,
            DataType::Response => 2,
            DataType::BindImage => 3,
            DataType::Unbind => 4,
            DataType::Nvt => 5,
            DataType::Request => 6,
            DataType::SscpLu => 7,
            DataType::PrintEoj => 8,
            DataType::Bid => 9,
            DataType::Other(code) => code,
        }
    }

    fn of(code: u8) -> Self {
        match code {
            0 => DataType::Data3270,
            1 => DataType::Scs,
            2 => DataType::Response,
            3 => DataType::BindImage,
            4 => DataType::Unbind,
            5 => DataType::Nvt,
            6 => DataType::Request,
            7 => DataType::SscpLu,
            8 => DataType::PrintEoj,
            9 => DataType::Bid,
            code => DataType::Other(code),
        }
    }
}

/// Response flag of a record from the host: none is wanted.
pub const NO_RESPONSE: u8 = 0;
/// Response flag: only a record that cannot be processed is answered.
pub const ERROR_RESPONSE: u8 = 1;
/// Response flag: every record is answered.
pub const ALWAYS_RESPONSE: u8 = 2;
/// Response flag of a RESPONSE record: the record was processed.
pub const POSITIVE_RESPONSE: u8 = 0;
/// Response flag of a RESPONSE record: it was not.
pub const NEGATIVE_RESPONSE: u8 = 1;

/// The five bytes before the data of each record (RFC 2355 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// What the record carries.
    pub data_type: DataType,
    /// Depends on the type; 0 in all common cases.
    pub request: u8,
    /// Whether an answer is wanted, or what it says.
    pub response: u8,
    /// The number of the record, which its answer repeats.
    pub sequence: u16,
}

impl Header {
    /// Splits a record into its header and its data. `None`: it is shorter than a header.
    pub fn split(record: &[u8]) -> Option<Framed<'_>> {
        let (head, data) = record.split_first_chunk::<HEADER_BYTES>()?;
        let [data_type, request, response, high, low] = *head;
        let header = Header {
            data_type: DataType::of(data_type),
            request,
            response,
            sequence: u16::from_be_bytes([high, low]),
        };
        Some(Framed { header, data })
    }

    /// The header as it stands before the data.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let [high, low] = self.sequence.to_be_bytes();
        [self.data_type.code(), self.request, self.response, high, low]
    }
}

/// A record in its two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// The first five bytes.
    pub header: Header,
    /// All that follows them.
    pub data: &'a [u8],
}

/// Why a record could not be processed (RFC 2355 §10.4.1), as the byte in a negative response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The command is not known.
    CommandReject,
    /// The terminal cannot work now.
    InterventionRequired,
    /// The command is known, but an order or address in it is not valid.
    OperationCheck,
    /// A component is not there.
    ComponentDisconnected,
}

impl Trouble {
    pub(crate) fn code(self) -> u8 {
        match self {
            Trouble::CommandReject => 0,
            Trouble::InterventionRequired => 1,
            Trouble::OperationCheck => 2,
            Trouble::ComponentDisconnected => 3,
        }
    }
}

/// A set of the functions that both sides agree on (RFC 2355 §7.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Functions(u8);

impl Functions {
    /// No function at all: basic TN3270E.
    pub const NONE: Functions = Functions(0);
    /// The host says when a session with an application begins and ends.
    pub const BIND_IMAGE: Functions = Functions(1);
    /// Of printers only.
    pub const DATA_STREAM_CTL: Functions = Functions(1 << 1);
    /// Records can ask for an answer.
    pub const RESPONSES: Functions = Functions(1 << 2);
    /// Of printers only.
    pub const SCS_CTL_CODES: Functions = Functions(1 << 3);
    /// The terminal can ask for the system services.
    pub const SYSREQ: Functions = Functions(1 << 4);

    /// Those that this crate has for a display, which it asks for and grants.
    pub const DISPLAY: Functions =
        Functions(Self::BIND_IMAGE.0 | Self::RESPONSES.0 | Self::SYSREQ.0);

    /// True if all of `other` are in this set.
    pub fn has(self, other: Functions) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those of either set.
    #[must_use]
    pub fn with(self, other: Functions) -> Functions {
        Functions(self.0 | other.0)
    }

    /// Those of both sets.
    #[must_use]
    pub fn common(self, other: Functions) -> Functions {
        Functions(self.0 & other.0)
    }

    /// Of their numbers in a subnegotiation; a number above 7 is in no set.
    pub(crate) fn parse(list: &[u8]) -> Parsed {
        let known = list.iter().filter(|number| **number < 8);
        let set = known.fold(0, |set, number| set | 1 << number);
        let all_known = list.iter().all(|number| *number < 8);
        Parsed { functions: Functions(set), all_known }
    }

    pub(crate) fn numbers(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |number| self.0 & (1 << number) != 0)
    }
}

/// What [`Functions::parse`] read.
pub(crate) struct Parsed {
    pub(crate) functions: Functions,
    pub(crate) all_known: bool,
}

/// Appends a subnegotiation of FUNCTIONS, a request or the end of it.
pub(crate) fn put_functions(out: &mut Vec<u8>, verb: u8, functions: Functions) {
    let mut body = vec![FUNCTIONS, verb];
    body.extend(functions.numbers());
    telnet::put_subnegotiation(out, telnet::option::TN3270E, &body);
}

/// Appends a record with its header and the end of it.
pub(crate) fn put_record(out: &mut Vec<u8>, header: &Header, data: &[u8]) {
    telnet::put_data(out, &header.bytes());
    telnet::put_data(out, data);
    telnet::put_end_of_record(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_the_same_after_writing_and_reading() {
        for code in 0..=12 {
            let bytes = [code, 1, 2, 0x12, 0xff, b'x'];
            let framed = Header::split(&bytes).unwrap();
            assert_eq!(framed.header.bytes(), bytes[..5]);
            assert_eq!(framed.data, b"x");
        }
        assert!(Header::split(b"\0\0\0\0").is_none());
    }

    #[test]
    fn functions_are_sets_of_numbers() {
        let parsed = Functions::parse(&[0, 2, 4]);
        assert_eq!(parsed.functions, Functions::DISPLAY);
        assert!(parsed.all_known);
        assert!(!Functions::parse(&[0, 99]).all_known);
        let mut out = Vec::new();
        put_functions(&mut out, REQUEST, Functions::DISPLAY);
        assert_eq!(out, [255, 250, 40, 3, 7, 0, 2, 4, 255, 240]);
    }
}
