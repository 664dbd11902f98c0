//! Structured fields of Write Structured Field (GA23-0059, chapter 5).

use crate::enhanced::Trouble;

/// One structured field from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StructuredField<'a> {
    /// Asks what the terminal can.
    Query,
    /// Asks for the replies with these codes.
    QueryList(&'a [u8]),
    /// Asks for what is on the screen; the code is that of the read command.
    ReadPartition(u8),
    /// Clears the screen and takes the default size.
    EraseDefault,
    /// Clears the screen and takes the alternate size.
    EraseAlternate,
    /// Says what reads of the screen contain.
    SetReplyMode { mode: u8, kinds: &'a [u8] },
    /// A command of the data stream and what follows it.
    Outbound { command: u8, body: &'a [u8] },
}

const READ_PARTITION: u8 = 0x01;
const ERASE_RESET: u8 = 0x03;
const SET_REPLY_MODE: u8 = 0x09;
const OUTBOUND_3270: u8 = 0x40;
/// The partition of a terminal that has no other.
const PARTITION: u8 = 0x00;
/// Stands for no partition, in queries.
const ANY_PARTITION: u8 = 0xff;

/// Takes the next field off what follows the command. `None`: there is no more.
pub(crate) fn next<'a>(body: &mut &'a [u8]) -> Option<Result<StructuredField<'a>, Trouble>> {
    if body.is_empty() {
        return None;
    }
    Some(take(body).and_then(parse))
}

/// The identifier and the body of a field; a length of 0 means "up to the end of the record".
fn take<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], Trouble> {
    const LENGTH_BYTES: usize = 2;
    let all: &'a [u8] = body;
    *body = &[];
    let (length, rest) = all.split_first_chunk().ok_or(Trouble::CommandReject)?;
    let length = usize::from(u16::from_be_bytes(*length));
    if length == 0 {
        return Ok(rest);
    }
    let here = length.checked_sub(LENGTH_BYTES).ok_or(Trouble::CommandReject)?;
    let (field, after) = rest.split_at_checked(here).ok_or(Trouble::CommandReject)?;
    *body = after;
    Ok(field)
}

fn parse(field: &[u8]) -> Result<StructuredField<'_>, Trouble> {
    match *field {
        [READ_PARTITION, ANY_PARTITION, 0x02, ..] => Ok(StructuredField::Query),
        [READ_PARTITION, ANY_PARTITION, 0x03, kind, ref codes @ ..] => match kind {
            0x00 => Ok(StructuredField::QueryList(codes)),
            0x40 | 0x80 => Ok(StructuredField::Query),
            _ => Err(Trouble::CommandReject),
        },
        [READ_PARTITION, PARTITION, command @ (0xf2 | 0xf6 | 0x6e), ..] => {
            Ok(StructuredField::ReadPartition(command))
        }
        [ERASE_RESET, 0x00, ..] => Ok(StructuredField::EraseDefault),
        [ERASE_RESET, 0x80, ..] => Ok(StructuredField::EraseAlternate),
        [SET_REPLY_MODE, PARTITION, mode @ 0..=2, ref kinds @ ..] => {
            Ok(StructuredField::SetReplyMode { mode, kinds })
        }
        [OUTBOUND_3270, PARTITION, command, ref body @ ..] => {
            Ok(StructuredField::Outbound { command, body })
        }
        _ => Err(Trouble::CommandReject),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_by_their_lengths() {
        let mut body: &[u8] = &[0, 5, 1, 255, 2, 0, 5, 9, 0, 1, 0, 0, 0x40, 0, 0xf1, 0xc3];
        assert_eq!(next(&mut body), Some(Ok(StructuredField::Query)));
        let mode = StructuredField::SetReplyMode { mode: 1, kinds: &[] };
        assert_eq!(next(&mut body), Some(Ok(mode)));
        let outbound = StructuredField::Outbound { command: 0xf1, body: &[0xc3] };
        assert_eq!(next(&mut body), Some(Ok(outbound)));
        assert_eq!(next(&mut body), None);
    }

    #[test]
    fn what_is_too_short_or_unknown_is_refused() {
        for bad in [&[0][..], &[0, 1], &[0, 9, 1], &[0, 3, 0x99], &[0, 5, 9, 0, 3]] {
            let mut body = bad;
            assert_eq!(next(&mut body), Some(Err(Trouble::CommandReject)), "{bad:?}");
        }
    }
}
