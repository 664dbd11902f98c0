//! File attributes (draft-ietf-secsh-filexfer-02 §5).

use bytes::BufMut;

use crate::wire::{Fields, Malformed};

const SIZE: u32 = 0x1;
const UID_GID: u32 = 0x2;
const PERMISSIONS: u32 = 0x4;
const TIMES: u32 = 0x8;
const EXTENDED: u32 = 0x8000_0000;

/// File type bits of `permissions` (POSIX `S_IFMT`).
pub const TYPE_MASK: u32 = 0o170_000;
/// A regular file.
pub const TYPE_FILE: u32 = 0o100_000;
/// A directory, in the bits of [`TYPE_MASK`].
pub const TYPE_DIRECTORY: u32 = 0o040_000;
/// A symbolic link.
pub const TYPE_SYMLINK: u32 = 0o120_000;
/// The bits a client may set: the rest of what psftp, curl and sshfs send is the type.
pub const MODE_MASK: u32 = 0o7777;

/// Numeric owner and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

/// Times in whole seconds since 1970, unsigned (until 2106).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When the content was last read.
    pub accessed: u32,
    /// Last change of the content.
    pub modified: u32,
}

/// ATTRS: whatever of it was sent. Extended pairs are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attrs {
    /// Length of the content in bytes.
    pub size: Option<u64>,
    /// Owner and group.
    pub owner: Option<Owner>,
    /// POSIX mode including the file type: version 3 has no other place for the type.
    pub permissions: Option<u32>,
    /// Access and modification time.
    pub times: Option<Times>,
}

impl Attrs {
    /// True if a directory is described; `None` if no type was sent.
    pub fn is_directory(&self) -> Option<bool> {
        match self.permissions? & TYPE_MASK {
            0 => None,
            kind => Some(kind == TYPE_DIRECTORY),
        }
    }

    /// The mode without the type bits.
    pub fn mode(&self) -> Option<u32> {
        self.permissions.map(|bits| bits & MODE_MASK)
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Attrs, Malformed> {
        let flags = fields.u32()?;
        if flags & !(SIZE | UID_GID | PERMISSIONS | TIMES | EXTENDED) != 0 {
            return Err(Malformed);
        }
        let mut attrs = Attrs::default();
        if flags & SIZE != 0 {
            attrs.size = Some(fields.u64()?);
        }
        if flags & UID_GID != 0 {
            attrs.owner = Some(Owner { uid: fields.u32()?, gid: fields.u32()? });
        }
        if flags & PERMISSIONS != 0 {
            attrs.permissions = Some(fields.u32()?);
        }
        if flags & TIMES != 0 {
            attrs.times = Some(Times { accessed: fields.u32()?, modified: fields.u32()? });
        }
        if flags & EXTENDED != 0 {
            // Each turn takes eight bytes or fails, so a false count ends with the frame.
            for _ in 0..fields.u32()? {
                fields.string()?;
                fields.string()?;
            }
        }
        Ok(attrs)
    }

    pub(crate) fn put(&self, out: &mut impl BufMut) {
        let flag = |present: bool, bit: u32| if present { bit } else { 0 };
        out.put_u32(
            flag(self.size.is_some(), SIZE)
                | flag(self.owner.is_some(), UID_GID)
                | flag(self.permissions.is_some(), PERMISSIONS)
                | flag(self.times.is_some(), TIMES),
        );
        if let Some(size) = self.size {
            out.put_u64(size);
        }
        if let Some(owner) = self.owner {
            out.put_u32(owner.uid);
            out.put_u32(owner.gid);
        }
        if let Some(permissions) = self.permissions {
            out.put_u32(permissions);
        }
        if let Some(times) = self.times {
            out.put_u32(times.accessed);
            out.put_u32(times.modified);
        }
    }

    /// Bytes on the wire.
    pub(crate) fn encoded_len(&self) -> usize {
        4 + self.size.map_or(0, |_| 8)
            + self.owner.map_or(0, |_| 8)
            + self.permissions.map_or(0, |_| 4)
            + self.times.map_or(0, |_| 8)
    }
}

/// Who owns an entry, as the long name shows it.
#[derive(Debug, Clone, Copy)]
pub struct OwnerNames<'a> {
    /// Name of the account.
    pub account: &'a str,
    /// Name of the group.
    pub group: &'a str,
}

/// The line of a directory listing (draft-ietf-secsh-filexfer-02 §7): what `ls -l` prints,
/// column widths 10 3 8 8 8 12. `now` in seconds since 1970 decides between time of day and year:
/// a date more than half a year old, or ahead, shows its year.
pub fn long_name(name: &str, attrs: &Attrs, owner: OwnerNames<'_>, now: u32) -> String {
    let modified = attrs.times.map_or(0, |times| times.modified);
    format!(
        "{} {:>3} {:<8} {:<8} {:>8} {} {name}",
        mode_text(attrs.permissions.unwrap_or(0)),
        1,
        owner.account,
        owner.group,
        attrs.size.unwrap_or(0),
        date_text(modified, now),
    )
}

fn mode_text(permissions: u32) -> String {
    let kind = match permissions & TYPE_MASK {
        TYPE_DIRECTORY => 'd',
        TYPE_SYMLINK => 'l',
        _ => '-',
    };
    let bits = "rwxrwxrwx".chars().enumerate().map(|(place, letter)| {
        let is_set = permissions & (0o400 >> place) != 0;
        // As `ls` shows set-uid, set-gid and sticky: in the place of `x`.
        let special = match place {
            2 => (permissions & 0o4000 != 0).then_some('s'),
            5 => (permissions & 0o2000 != 0).then_some('s'),
            8 => (permissions & 0o1000 != 0).then_some('t'),
            _ => None,
        };
        match special {
            Some(special) if is_set => special,
            Some(special) => special.to_ascii_uppercase(),
            None if is_set => letter,
            None => '-',
        }
    });
    std::iter::once(kind).chain(bits).collect()
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECONDS: u32 = 86_400;
const HALF_YEAR_SECONDS: u32 = 182 * DAY_SECONDS;

fn date_text(at: u32, now: u32) -> String {
    let (year, month, day) = civil(at / DAY_SECONDS);
    let word = usize::try_from(month).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"Jan");
    if at <= now && now - at < HALF_YEAR_SECONDS {
        let second = at % DAY_SECONDS;
        format!("{word} {day:>2} {:02}:{:02}", second / 3600, second % 3600 / 60)
    } else {
        format!("{word} {day:>2}  {year}")
    }
}

/// Year, month from 0 and day from 1 of a day counted from 1970-01-01, in the Gregorian
/// calendar. Years are counted from March here, so that the leap day is a year's last.
fn civil(days: u32) -> (u32, u32, u32) {
    let since_march_0000 = days + 719_468;
    let era = since_march_0000 / 146_097;
    let day_of_era = since_march_0000 % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year_of_era + u32::from(from_march >= 10);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_names_have_the_columns_of_ls() {
        let attrs = Attrs {
            size: Some(348_911),
            owner: None,
            permissions: Some(0o100_644),
            times: Some(Times { accessed: 0, modified: 1_774_448_940 }), // 2026-03-25T14:29Z
        };
        let owner = OwnerNames { account: "acct", group: "group" };
        let soon = 1_774_448_940 + 3600;
        assert_eq!(
            long_name("name", &attrs, owner, soon),
            "-rw-r--r--   1 acct     group      348911 Mar 25 14:29 name"
        );
        let later = 1_774_448_940 + 183 * DAY_SECONDS;
        assert!(long_name("n", &attrs, owner, later).ends_with(" Mar 25  2026 n"));
        assert!(long_name("n", &attrs, owner, 1_774_448_939).ends_with(" Mar 25  2026 n"));
        let directory = Attrs { permissions: Some(0o040_555), ..Attrs::default() };
        let line = long_name("d", &directory, owner, later);
        assert!(line.starts_with("dr-xr-xr-x   1 "), "{line}");
        assert!(line.ends_with(" Jan  1  1970 d"), "{line}");
    }

    #[test]
    fn modes_are_shown_as_ls_does() {
        for (permissions, shown) in [
            (0o100_640, "-rw-r-----"),
            (0o104_755, "-rwsr-xr-x"),
            (0o042_775, "drwxrwsr-x"),
            (0o041_777, "drwxrwxrwt"),
            (0o107_000, "---S--S--T"),
            (0o120_777, "lrwxrwxrwx"),
        ] {
            assert_eq!(mode_text(permissions), shown);
        }
    }

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        for (days, want) in [
            (0, (1970, 0, 1)),
            (59, (1970, 2, 1)),
            (11_016, (2000, 1, 29)),
            (11_017, (2000, 2, 1)),
            (20_819, (2027, 0, 1)),
            (49_710, (2106, 1, 7)),
        ] {
            assert_eq!(civil(days), want, "{days}");
        }
    }

    pub(crate) fn any_attrs() -> impl Strategy<Value = Attrs> {
        let owner = any::<(u32, u32)>().prop_map(|(uid, gid)| Owner { uid, gid });
        let times =
            any::<(u32, u32)>().prop_map(|(accessed, modified)| Times { accessed, modified });
        (any::<Option<u64>>(), proptest::option::of(owner), any::<Option<u32>>())
            .prop_flat_map(move |first| (Just(first), proptest::option::of(times.clone())))
            .prop_map(|((size, owner, permissions), times)| Attrs {
                size,
                owner,
                permissions,
                times,
            })
    }

    proptest! {
        #[test]
        fn what_is_put_is_parsed(attrs in any_attrs()) {
            let mut wire = Vec::new();
            attrs.put(&mut wire);
            prop_assert_eq!(wire.len(), attrs.encoded_len());
            let mut fields = Fields::new(&wire);
            prop_assert_eq!(Attrs::parse(&mut fields), Ok(attrs));
            prop_assert!(fields.is_empty());
            for cut in 0..wire.len() {
                prop_assert_eq!(Attrs::parse(&mut Fields::new(&wire[..cut])), Err(Malformed));
            }
        }
    }

    #[test]
    fn extended_pairs_are_skipped_and_unknown_bits_refused() {
        let wire = [0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1, b'a'];
        let mut fields = Fields::new(&wire);
        assert_eq!(Attrs::parse(&mut fields), Err(Malformed), "the value of the pair is missing");
        let wire = [&wire[..], &[0, 0, 0, 2, b'b', b'c', 9]].concat();
        let mut fields = Fields::new(&wire);
        let attrs = Attrs::parse(&mut fields).unwrap();
        assert_eq!(attrs, Attrs { size: Some(5), ..Attrs::default() });
        assert_eq!(fields.rest(), [9]);
        assert_eq!(Attrs::parse(&mut Fields::new(&[0, 0, 0, 0x10])), Err(Malformed));
    }
}
