//! The format of a zip archive of stored files, without any IO: APPNOTE.TXT 6.3.10.
//!
//! Every length follows from names and sizes alone, so that the length of the whole archive is
//! known before its first byte. The checksum of a file stands behind its bytes, in a data
//! descriptor (§4.3.9), and in the central directory. Zip64 (§4.5.3) only where a number needs it.

/// Flag bit 3: checksum and sizes follow the bytes.
const DESCRIPTOR: u16 = 1 << 3;
/// Flag bit 11: the name is UTF-8.
const UTF8: u16 = 1 << 11;
/// The first version of the format that has directories.
const VERSION: u16 = 20;
/// The first version of the format that has zip64.
const VERSION_ZIP64: u16 = 45;
/// Made on Unix: the high half of the external attributes is a mode.
const MADE_BY: u16 = 3 << 8 | VERSION_ZIP64;
/// What stands for a number that zip64 has.
const ELSEWHERE: u32 = u32::MAX;
/// Extra field of the times of Info-ZIP, `UT`, with the time of the last change.
const TIME_EXTRA: u64 = 9;
const LOCAL_HEADER: u64 = 30;
const CENTRAL_HEADER: u64 = 46;
const END: u64 = 22;
const ZIP64_END: u64 = 56;
const ZIP64_LOCATOR: u64 = 20;

/// A file or directory of an archive.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its path in the archive, with `/` between names and at the end of a directory's.
    pub(super) name: String,
    pub(super) size: u64,
    /// Last change, seconds since 1970.
    pub(super) modified: i64,
}

/// The directory at the end of an archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    pub(super) entries: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// True if the number has no room in 32 bits.
fn is_large(number: u64) -> bool {
    number >= u64::from(ELSEWHERE)
}

fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(ELSEWHERE)
}

impl Item {
    fn is_directory(&self) -> bool {
        self.name.ends_with('/')
    }

    /// Of what has no bytes the checksum is known.
    fn flags(&self) -> u16 {
        if self.size == 0 { UTF8 } else { UTF8 | DESCRIPTOR }
    }

    fn time_extra(&self, into: &mut Vec<u8>) {
        let seconds = i32::try_from(self.modified).unwrap_or(i32::MAX);
        put(into, 0x5455);
        put(into, 5);
        into.push(1);
        into.extend(seconds.to_le_bytes());
    }

    /// Length of [`Item::local_header`].
    pub(super) fn local_length(&self) -> u64 {
        let zip64 = if is_large(self.size) { 20 } else { 0 };
        LOCAL_HEADER + self.name.len() as u64 + TIME_EXTRA + zip64
    }

    /// What stands before the bytes (§4.3.7).
    pub(super) fn local_header(&self) -> Vec<u8> {
        let is_zip64 = is_large(self.size);
        let size = if is_zip64 { ELSEWHERE } else { 0 };
        let mut bytes = b"PK\x03\x04".to_vec();
        put(&mut bytes, if is_zip64 { VERSION_ZIP64 } else { VERSION });
        self.common(&mut bytes, 0, Sizes { stored: size, plain: size });
        put(&mut bytes, if is_zip64 { 29 } else { 9 });
        bytes.extend(self.name.as_bytes());
        if is_zip64 {
            // The sizes themselves follow in the descriptor.
            put(&mut bytes, 1);
            put(&mut bytes, 16);
            bytes.extend([0; 16]);
        }
        self.time_extra(&mut bytes);
        bytes
    }

    /// Flags to length of the name, which both headers have alike.
    fn common(&self, bytes: &mut Vec<u8>, crc: u32, sizes: Sizes) {
        let (date, time) = dos_time(self.modified);
        put(bytes, self.flags());
        put(bytes, 0);
        put(bytes, time);
        put(bytes, date);
        bytes.extend(crc.to_le_bytes());
        bytes.extend(sizes.stored.to_le_bytes());
        bytes.extend(sizes.plain.to_le_bytes());
        put(bytes, u16::try_from(self.name.len()).unwrap_or(u16::MAX));
    }

    /// Length of [`Item::descriptor`].
    pub(super) fn descriptor_length(&self) -> u64 {
        match self.size {
            0 => 0,
            size if is_large(size) => 24,
            _ => 16,
        }
    }

    /// What stands behind the bytes (§4.3.9).
    pub(super) fn descriptor(&self, crc: u32) -> Vec<u8> {
        if self.size == 0 {
            return Vec::new();
        }
        let mut bytes = b"PK\x07\x08".to_vec();
        bytes.extend(crc.to_le_bytes());
        for _ in 0..2 {
            if is_large(self.size) {
                bytes.extend(self.size.to_le_bytes());
            } else {
                bytes.extend(short(self.size).to_le_bytes());
            }
        }
        bytes
    }

    /// Length of header, bytes and descriptor.
    pub(super) fn length(&self) -> u64 {
        self.local_length() + self.size + self.descriptor_length()
    }

    /// The numbers that need zip64 in the central directory.
    fn central_zip64(&self, offset: u64) -> Vec<u64> {
        let sizes = [self.size, self.size].into_iter();
        sizes.chain([offset]).filter(|number| is_large(*number)).collect()
    }

    /// Length of [`Item::central_header`].
    pub(super) fn central_length(&self, offset: u64) -> u64 {
        let zip64 = match self.central_zip64(offset).len() as u64 {
            0 => 0,
            numbers => 4 + 8 * numbers,
        };
        CENTRAL_HEADER + self.name.len() as u64 + TIME_EXTRA + zip64
    }

    /// The line of the central directory (§4.3.12); the local header stands at `offset`.
    pub(super) fn central_header(&self, offset: u64, crc: u32) -> Vec<u8> {
        let zip64 = self.central_zip64(offset);
        let mut bytes = b"PK\x01\x02".to_vec();
        put(&mut bytes, MADE_BY);
        put(&mut bytes, if zip64.is_empty() { VERSION } else { VERSION_ZIP64 });
        let size = short(self.size);
        self.common(&mut bytes, crc, Sizes { stored: size, plain: size });
        let extra = if zip64.is_empty() { 0 } else { 4 + 8 * zip64.len() };
        put(&mut bytes, u16::try_from(9 + extra).unwrap_or(u16::MAX));
        // Comment, disk, internal attributes.
        bytes.extend([0; 6]);
        let mode: u32 = if self.is_directory() { 0o40755 } else { 0o100644 };
        let attributes = mode << 16 | u32::from(self.is_directory()) << 4;
        bytes.extend(attributes.to_le_bytes());
        bytes.extend(short(offset).to_le_bytes());
        bytes.extend(self.name.as_bytes());
        if !zip64.is_empty() {
            put(&mut bytes, 1);
            put(&mut bytes, u16::try_from(8 * zip64.len()).unwrap_or(u16::MAX));
            bytes.extend(zip64.iter().flat_map(|number| number.to_le_bytes()));
        }
        self.time_extra(&mut bytes);
        bytes
    }
}

/// Sizes as a header has them.
struct Sizes {
    stored: u32,
    plain: u32,
}

impl Directory {
    fn is_zip64(self) -> bool {
        self.entries >= u64::from(u16::MAX) || is_large(self.size) || is_large(self.offset)
    }

    /// Length of [`Directory::end`].
    pub(super) fn end_length(self) -> u64 {
        if self.is_zip64() { ZIP64_END + ZIP64_LOCATOR + END } else { END }
    }

    /// The end of the archive (§4.3.14 to §4.3.16).
    pub(super) fn end(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.is_zip64() {
            bytes.extend(b"PK\x06\x06");
            bytes.extend((ZIP64_END - 12).to_le_bytes());
            put(&mut bytes, MADE_BY);
            put(&mut bytes, VERSION_ZIP64);
            bytes.extend([0; 8]);
            for number in [self.entries, self.entries, self.size, self.offset] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(b"PK\x06\x07");
            bytes.extend([0; 4]);
            bytes.extend((self.offset + self.size).to_le_bytes());
            bytes.extend(1u32.to_le_bytes());
        }
        bytes.extend(b"PK\x05\x06");
        bytes.extend([0; 4]);
        let entries = u16::try_from(self.entries).unwrap_or(u16::MAX);
        put(&mut bytes, entries);
        put(&mut bytes, entries);
        bytes.extend(short(self.size).to_le_bytes());
        bytes.extend(short(self.offset).to_le_bytes());
        put(&mut bytes, 0);
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, number: u16) {
    bytes.extend(number.to_le_bytes());
}

/// Date and time as MS-DOS has them (§4.4.6), in UTC; what is before 1980 is 1980.
fn dos_time(seconds: i64) -> (u16, u16) {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let Some(years) = u16::try_from(year - 1980).ok().filter(|years| *years < 128) else {
        return if year < 1980 { (1 << 5 | 1, 0) } else { (127 << 9 | 12 << 5 | 31, 0) };
    };
    let date = i64::from(years) << 9 | month << 5 | day;
    let time = (second / 3600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2);
    (u16::try_from(date).unwrap_or(0), u16::try_from(time).unwrap_or(0))
}

/// Year, month and day of a number of days since 1970 (Hinnant, `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, size: u64) -> Item {
        Item { name: name.to_owned(), size, modified: 1_700_000_000 }
    }

    /// Every length is that of the bytes, at each limit of 32 and 16 bits.
    #[test]
    fn lengths_are_those_of_the_bytes() {
        let large = u64::from(u32::MAX);
        for size in [0, 1, large - 1, large, large + 1, 1 << 40] {
            for name in ["a", "directory/", "ordner/größe.txt"] {
                let item = item(name, size);
                assert_eq!(item.local_header().len() as u64, item.local_length(), "{item:?}");
                assert_eq!(item.descriptor(7).len() as u64, item.descriptor_length(), "{item:?}");
                for offset in [0, large - 1, large, 1 << 41] {
                    let central = item.central_header(offset, 7).len() as u64;
                    assert_eq!(central, item.central_length(offset), "{item:?} at {offset}");
                }
            }
        }
        for entries in [0, 65_534, 65_535, 100_000] {
            for offset in [0, large - 1, large] {
                let directory = Directory { entries, offset, size: 99 };
                assert_eq!(directory.end().len() as u64, directory.end_length(), "{directory:?}");
            }
        }
    }

    #[test]
    fn times_are_those_of_ms_dos() {
        // 2023-11-14 22:13:20 UTC; 1980-01-01; before it; 2000-02-29 23:59:58.
        assert_eq!(dos_time(1_700_000_000), (43 << 9 | 11 << 5 | 14, 22 << 11 | 13 << 5 | 10));
        assert_eq!(dos_time(315_532_800), (33, 0));
        assert_eq!(dos_time(-5), (33, 0));
        assert_eq!(dos_time(951_868_798), (20 << 9 | 2 << 5 | 29, 23 << 11 | 59 << 5 | 29));
    }
}
