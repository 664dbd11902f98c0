//! Packets as lines of text: what transcripts are written in.
//!
//! Requests: a name and fields. `7` is a u32, `7L` a u64, `"…"` a string (`\n \" \\ \xNN`),
//! `h1` a string with the handle of place 0 and generation 1 (`h2.5`: place 1, generation 5),
//! `x"…"` raw bytes without a length, `'…'` a string made of a number of `a`s.
//! `INIT 6` · `OPEN 5 "f" 26 0` · `TYPE 77 …` for any type.

pub(crate) const NAMES: &[(&str, u8)] = &[
    ("INIT", 1),
    ("VERSION", 2),
    ("OPEN", 3),
    ("CLOSE", 4),
    ("READ", 5),
    ("WRITE", 6),
    ("LSTAT", 7),
    ("FSTAT", 8),
    ("SETSTAT", 9),
    ("FSETSTAT", 10),
    ("OPENDIR", 11),
    ("READDIR", 12),
    ("REMOVE", 13),
    ("MKDIR", 14),
    ("RMDIR", 15),
    ("REALPATH", 16),
    ("STAT", 17),
    ("RENAME", 18),
    ("READLINK", 19),
    ("SYMLINK", 20),
    ("STATUS", 101),
    ("HANDLE", 102),
    ("DATA", 103),
    ("NAME", 104),
    ("ATTRS", 105),
    ("EXTENDED", 200),
    ("EXTENDED_REPLY", 201),
];

/// A request line as a frame. `BYTES x"…"` is sent as it stands, without a length.
pub(crate) fn encode(line: &str) -> Vec<u8> {
    let mut tokens = tokens(line).into_iter();
    let name = tokens.next().expect("a packet name");
    if name == "BYTES" {
        return tokens.flat_map(|token| field(&token)).collect();
    }
    let kind = match NAMES.iter().find(|(known, _)| *known == name) {
        Some((_, kind)) => *kind,
        None if name == "TYPE" => tokens.next().unwrap().parse().unwrap(),
        None => panic!("no packet is named '{name}'"),
    };
    let mut body = vec![kind];
    tokens.for_each(|token| body.extend(field(&token)));
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
}

fn tokens(line: &str) -> Vec<String> {
    let (mut tokens, mut current, mut quoted, mut escaped) =
        (Vec::new(), String::new(), false, false);
    for letter in line.trim().chars() {
        if letter == ' ' && !quoted {
            tokens.push(std::mem::take(&mut current));
            continue;
        }
        if letter == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = letter == '\\' && !escaped;
        current.push(letter);
    }
    tokens.push(current);
    tokens.retain(|token| !token.is_empty());
    tokens
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

fn field(token: &str) -> Vec<u8> {
    if let Some(raw) = token.strip_prefix('x') {
        return unquote(raw);
    }
    if let Some(count) = token.strip_prefix('\'') {
        return string(&vec![b'a'; count.trim_end_matches('\'').parse().unwrap()]);
    }
    if let Some(handle) = token.strip_prefix('h') {
        let (place, generation) = handle.split_once('.').unwrap_or((handle, "1"));
        let place: u16 = place.parse().unwrap();
        let generation: u32 = generation.parse().unwrap();
        return string(format!("{:04x}{generation:08x}", place - 1).as_bytes());
    }
    if token.starts_with('"') {
        return string(&unquote(token));
    }
    match token.strip_suffix('L') {
        Some(long) => long.parse::<u64>().unwrap().to_be_bytes().to_vec(),
        None => token.parse::<u32>().unwrap_or_else(|_| panic!("'{token}'")).to_be_bytes().to_vec(),
    }
}

fn unquote(token: &str) -> Vec<u8> {
    let inner = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).expect("quotes");
    super::transcript::unescape(inner)
}

/// A reader that fails loudly: answers are ours and must be whole.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }
    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }
    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().unwrap())
    }
    fn string(&mut self) -> &'a [u8] {
        let len = self.u32() as usize;
        self.take(len)
    }
    fn text(&mut self) -> String {
        quote(self.string())
    }
    fn attrs(&mut self) -> String {
        let flags = self.u32();
        let mut parts = Vec::new();
        if flags & 1 != 0 {
            parts.push(format!("size={}", self.u64()));
        }
        if flags & 2 != 0 {
            parts.push(format!("owner={}:{}", self.u32(), self.u32()));
        }
        if flags & 4 != 0 {
            parts.push(format!("mode={:o}", self.u32()));
        }
        if flags & 8 != 0 {
            parts.push(format!("times={}:{}", self.u32(), self.u32()));
        }
        format!("{{{}}}", parts.join(" "))
    }
}

fn quote(bytes: &[u8]) -> String {
    if bytes.len() > 2000 {
        return format!("<{} bytes>", bytes.len());
    }
    let text: String = bytes
        .iter()
        .map(|byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(*byte)),
            b'\n' => "\\n".into(),
            32..=126 => char::from(*byte).to_string(),
            other => format!("\\x{other:02x}"),
        })
        .collect();
    format!("\"{text}\"")
}

/// A whole answer frame as a line.
pub(crate) fn decode(frame: &[u8]) -> String {
    let mut reader = Reader(frame);
    let length = reader.u32() as usize;
    assert_eq!(reader.0.len(), length, "the length of an answer");
    assert!(length <= 262_144, "an answer is too long");
    let kind = reader.take(1)[0];
    let name = NAMES.iter().find(|(_, known)| *known == kind).expect("a known type").0;
    let number = reader.u32();
    let fields = match kind {
        2 => {
            let mut pairs = String::new();
            while !reader.0.is_empty() {
                pairs += &format!(" {}={}", reader.text(), reader.text());
            }
            pairs
        }
        101 => {
            let text = format!(" {} {}", reader.u32(), reader.text());
            assert_eq!(reader.string(), b"", "the language tag");
            text
        }
        102 => {
            let handle = std::str::from_utf8(reader.string()).unwrap();
            assert_eq!(handle.len(), 12);
            let (place, generation) = handle.split_at(4);
            let number = |digits: &str| u32::from_str_radix(digits, 16).unwrap();
            format!(" h{}.{}", number(place) + 1, number(generation))
        }
        103 => format!(" {}", reader.text()),
        104 => {
            let count = reader.u32();
            let mut names = format!(" {count}");
            for _ in 0..count {
                names += &format!(" {} {} {}", reader.text(), reader.text(), reader.attrs());
            }
            names
        }
        105 => format!(" {}", reader.attrs()),
        _ => format!(" {}", quote(std::mem::take(&mut reader.0))),
    };
    assert!(reader.0.is_empty(), "bytes behind the answer");
    format!("{name} {number}{fields}")
}
