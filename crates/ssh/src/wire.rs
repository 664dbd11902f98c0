//! Pieces that messages of SSH are made of.

/// The software of an identification line (RFC 4253 §4.2) and the comment behind it, such as
/// `OpenSSH_9.2p1 Debian-2` of `SSH-2.0-OpenSSH_9.2p1 Debian-2`; empty if it is no such line.
pub fn software(identification: &str) -> &str {
    identification.splitn(3, '-').nth(2).unwrap_or_default()
}

/// Takes a string (RFC 4251 §5) off the front; `None` if it is not whole.
pub fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (string, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(string)
}

/// Puts a string behind the others.
pub(crate) fn put(strings: &mut Vec<u8>, string: &[u8]) {
    // No key or signature is anywhere near as long.
    let length = u32::try_from(string.len()).unwrap_or(u32::MAX);
    strings.extend_from_slice(&length.to_be_bytes());
    strings.extend_from_slice(string);
}
