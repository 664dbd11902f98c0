use super::*;
use crate::limits::LINE_BYTES;
use crate::tools::tool;

fn charset(name: &str) -> Charset {
    Charset::named(name).unwrap_or_else(|| panic!("{name}"))
}

fn transcoding(from: &str, to: &str) -> Transcoding {
    let (line_end, bad) = (LineEnd::Kept, BadText::Fails);
    let (from_records, blanks, to_records) = (None, Blanks::Stripped, None);
    let (from, to) = (charset(from), charset(to));
    Transcoding { from, to, line_end, from_records, blanks, to_records, bad }
}

/// Gives a few bytes at a time, so that characters are cut at every place.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

fn changed(change: &Transcoding, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let of = |most| {
        let mut out = Vec::new();
        transcode(change, Drops(bytes, most), &mut out).map(|()| out).map_err(|e| e.to_string())
    };
    let whole = of(usize::MAX);
    for most in 1..4 {
        assert_eq!(of(most), whole, "{most} bytes at a time");
    }
    whole
}

fn iconv(from: &str, to: &str, bytes: &[u8]) -> Vec<u8> {
    tool(&["iconv", "-f", from, "-t", to], bytes)
}

/// There and back again, and the same as the usual tool.
#[test]
fn the_usual_tool_agrees_in_every_character_set() {
    let latin = "Gr\u{fc}\u{df}e, 100 % [ok] {a|b} ^ \\ ~ \u{ac} \u{a3}\n";
    for (name, theirs, text) in [
        ("utf-8", "UTF-8", "\u{20ac} \u{1f600} \u{65e5}\u{672c}\n"),
        ("utf-16le", "UTF-16LE", "\u{20ac} \u{1f600} x\n"),
        ("utf-16be", "UTF-16BE", "\u{20ac} \u{1f600} x\n"),
        ("iso-8859-1", "ISO-8859-1", latin),
        ("iso-8859-2", "ISO-8859-2", "\u{17d}lu\u{165}ou\u{10d}k\u{fd}\n"),
        ("iso-8859-15", "ISO-8859-15", "\u{20ac} 5\n"),
        ("windows-1252", "CP1252", "\u{20ac} \u{201e}Z\u{201c}\n"),
        ("windows-1251", "CP1251", "\u{41f}\u{440}\u{438}\n"),
        ("koi8-r", "KOI8-R", "\u{41f}\u{440}\u{438}\n"),
        ("ibm866", "IBM866", "\u{41f}\u{440}\u{438}\n"),
        ("shift_jis", "SHIFT_JIS", "\u{65e5}\u{672c} a\n"),
        ("euc-jp", "EUC-JP", "\u{65e5}\u{672c} a\n"),
        ("iso-2022-jp", "ISO-2022-JP", "\u{65e5}\u{672c} a\n"),
        ("euc-kr", "EUC-KR", "\u{d55c}\u{ae00}\n"),
        ("gb18030", "GB18030", "\u{4e2d}\u{6587} \u{1f600}\n"),
        ("big5", "BIG5", "\u{4e2d}\u{6587}\n"),
        ("ibm037", "IBM037", latin),
        ("ibm1047", "IBM1047", latin),
    ] {
        let encoded = changed(&transcoding("utf-8", name), text.as_bytes()).unwrap();
        assert_eq!(encoded, iconv("UTF-8", theirs, text.as_bytes()), "{name}");
        let back = changed(&transcoding(name, "utf-8"), &encoded).unwrap();
        assert_eq!(String::from_utf8(back).unwrap(), text, "{name}");
    }
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for (name, theirs) in [("ibm037", "IBM037"), ("ibm1047", "IBM1047"), ("iso-8859-1", "LATIN1")] {
        let decoded = changed(&transcoding(name, "utf-8"), &all).unwrap();
        assert_eq!(decoded, iconv(theirs, "UTF-8", &all), "{name}");
        assert_eq!(changed(&transcoding("utf-8", name), &decoded).unwrap(), all, "{name}");
    }
    for name in ["utf-16", "unicode", "replacement", "latin1", "ascii", "x", "", "ibm870"] {
        assert!(Charset::named(name).is_none(), "{name}");
    }
}

#[test]
fn line_ends_become_those_of_the_target_wherever_blocks_are_cut() {
    let text = "a\r\nb\nc\u{85}d\r\r\ne\rf\r";
    for (line_end, wanted) in [
        (LineEnd::Kept, text),
        (LineEnd::Lf, "a\nb\nc\nd\r\ne\rf\r"),
        (LineEnd::CrLf, "a\r\nb\r\nc\r\nd\r\r\ne\rf\r"),
        (LineEnd::Nl, "a\u{85}b\u{85}c\u{85}d\r\u{85}e\rf\r"),
    ] {
        let change = Transcoding { line_end, ..transcoding("utf-8", "utf-8") };
        let found = changed(&change, text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), wanted, "{line_end:?}");
    }
    let host = Transcoding { line_end: LineEnd::Nl, ..transcoding("utf-8", "ibm1047") };
    assert_eq!(changed(&host, b"HI\r\n").unwrap(), [0xc8, 0xc9, 0x15]);
    let back = Transcoding { line_end: LineEnd::CrLf, ..transcoding("ibm1047", "utf-8") };
    assert_eq!(changed(&back, &[0xc8, 0xc9, 0x15]).unwrap(), b"HI\r\n");
}

#[test]
fn what_is_no_text_fails_with_its_place_or_is_replaced() {
    let mut change = transcoding("utf-8", "iso-8859-1");
    let failed = |change: &Transcoding, bytes: &[u8]| changed(change, bytes).unwrap_err();
    assert_eq!(failed(&change, b"abc\xff"), "what stands at byte 3 is not utf-8");
    assert_eq!(failed(&change, b"ab\xe2\x82"), "what stands at byte 2 is not utf-8");
    let euro = "a\nb\n\u{20ac}".as_bytes();
    let text = "line 3 has the character U+20AC, which the target does not have";
    assert_eq!(failed(&change, euro), text);
    let sjis = transcoding("utf-8", "shift_jis");
    assert_eq!(failed(&sjis, euro), text);
    change.bad = BadText::Replaced;
    assert_eq!(changed(&change, b"a\xffb\xe2").unwrap(), b"a?b?");
    assert_eq!(changed(&change, euro).unwrap(), b"a\nb\n?");
    let host = Transcoding { bad: BadText::Replaced, ..transcoding("utf-8", "ibm037") };
    assert_eq!(changed(&host, "\u{20ac}".as_bytes()).unwrap(), [0x6f]);
    let odd = transcoding("utf-16le", "utf-8");
    assert_eq!(failed(&odd, b"a\0b"), "what stands at byte 2 is not utf-16le");
    let jis = Transcoding { bad: BadText::Replaced, ..transcoding("utf-8", "iso-2022-jp") };
    let found = changed(&jis, "\u{65e5}\u{1f600}\u{672c}".as_bytes()).unwrap();
    let back = changed(&transcoding("iso-2022-jp", "utf-8"), &found).unwrap();
    assert_eq!(String::from_utf8(back).unwrap(), "\u{65e5}?\u{672c}");
}

#[test]
fn a_byte_order_mark_is_left_out_and_blocks_are_no_limit() {
    let marked = changed(&transcoding("utf-8", "utf-8"), "\u{feff}x\u{feff}".as_bytes()).unwrap();
    assert_eq!(String::from_utf8(marked).unwrap(), "x\u{feff}");
    assert_eq!(changed(&transcoding("utf-16le", "utf-8"), b"\xff\xfex\0").unwrap(), b"x");
    assert!(changed(&transcoding("utf-8", "ibm037"), b"").unwrap().is_empty());
    let long = "\u{20ac}\u{1f600}z".repeat(100_000);
    let mut there = Vec::new();
    transcode(&transcoding("utf-8", "gb18030"), long.as_bytes(), &mut there).unwrap();
    let mut back = Vec::new();
    transcode(&transcoding("gb18030", "utf-8"), there.as_slice(), &mut back).unwrap();
    assert!(back == long.as_bytes());
}

/// As dd of the GNU core utilities makes records of lines and lines of records.
#[test]
fn the_usual_tool_makes_the_same_records_of_a_fixed_length() {
    let text = "HDR 20261127\nGr\u{e4}fe  100\n\n12345678901234567890\n";
    let latin: Vec<u8> = text.chars().map(|it| u8::try_from(u32::from(it)).unwrap()).collect();
    let mut change = transcoding("utf-8", "iso-8859-1");
    change.to_records = Some(Records::Fixed(20));
    let records = changed(&change, text.as_bytes()).unwrap();
    assert_eq!(records, tool(&["dd", "cbs=20", "conv=block", "status=none"], &latin));
    let mut change = transcoding("iso-8859-1", "iso-8859-1");
    change.from_records = Some(Records::Fixed(20));
    let lines = changed(&change, &records).unwrap();
    assert_eq!(lines, tool(&["dd", "cbs=20", "conv=unblock", "status=none"], &records));
    assert_eq!(lines, latin);
    change.blanks = Blanks::Kept;
    assert_eq!(
        changed(&change, &records).unwrap(),
        [
            &records[..20],
            b"\n",
            &records[20..40],
            b"\n",
            &records[40..60],
            b"\n",
            &records[60..],
            b"\n"
        ]
        .concat()
    );
}

#[test]
fn lines_become_records_of_a_mainframe_and_lines_again() {
    let text = "AB\r\n\nGr\u{fc}\u{df}e";
    let mut to_host = transcoding("utf-8", "ibm1047");
    to_host.to_records = Some(Records::Rdw);
    let records = changed(&to_host, text.as_bytes()).unwrap();
    let wanted = b"\0\x06\0\0\xc1\xc2\0\x04\0\0\0\x09\0\0\xc7\x99\xdc\x59\x85";
    assert_eq!(records, wanted);
    let mut from_host = transcoding("ibm1047", "utf-8");
    from_host.from_records = Some(Records::Rdw);
    from_host.line_end = LineEnd::CrLf;
    let back = changed(&from_host, &records).unwrap();
    assert_eq!(String::from_utf8(back).unwrap(), "AB\r\n\r\nGr\u{fc}\u{df}e\r\n");
    // From one form into the other, each record by itself: a shift ends with it.
    let mut change = transcoding("iso-2022-jp", "iso-2022-jp");
    change.from_records = Some(Records::Rdw);
    change.to_records = Some(Records::Fixed(12));
    let record = b"\x1b$BF|K\\\x1b(B";
    let word = [0, record.len() as u8 + 4, 0, 0];
    let file = [&word[..], record, &word, record].concat();
    let made = changed(&change, &file).unwrap();
    assert_eq!(made, [&record[..], b"  ", record, b"  "].concat());
}

#[test]
fn records_that_are_none_are_named() {
    let with = |from: Option<Records>, to: Option<Records>, bytes: &[u8]| {
        let mut change = transcoding("iso-8859-1", "utf-16le");
        (change.from_records, change.to_records) = (from, to);
        changed(&change, bytes).unwrap_err()
    };
    let fixed = |bytes| Some(Records::Fixed(bytes));
    for (from, to, bytes, said) in [
        (fixed(4), None, &b"aaaabb"[..], "the file ends within record 2"),
        (fixed(4), None, b"aaaab\nbb", "record 2 has the end of a line in it"),
        (Some(Records::Rdw), None, b"\0\x02\0\0", "record 1 says that it has 2 bytes"),
        (None, fixed(4), b"ab\nabc\n", "line 2 has 6 bytes, and a record has 4 at most"),
        (None, fixed(5), b"a", "no blanks fill a record of 5 bytes behind 2"),
        (None, Some(Records::Rdw), &[b'a'; 16_379], "line 1 has 32758 bytes"),
        (None, Some(Records::Rdw), &[b'a'; LINE_BYTES + 1], "line 1 has more than 1048576 bytes"),
    ] {
        let error = with(from, to, bytes);
        assert!(error.contains(said), "{error}");
    }
    let mut change = transcoding("utf-8", "utf-8");
    change.from_records = fixed(2);
    let error = changed(&change, b"ab\xffb").unwrap_err();
    assert_eq!(error, "in record 2 what stands at byte 0 is not utf-8");
    change.bad = BadText::Replaced;
    assert_eq!(changed(&change, b"\xffba\n").unwrap(), "\u{fffd}b\na?\n".as_bytes());
}
