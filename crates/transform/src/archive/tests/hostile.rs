//! Archives of people who mean harm: for the readers here, and for the step `extract` of `engine`,
//! whose tests include this file.

use std::process::Command;

/// An archive, its kind by the end of its name.
pub(crate) struct Archive {
    pub(crate) what: &'static str,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

fn archive(end: &str, number: usize, what: &'static str, bytes: Vec<u8>) -> Archive {
    Archive { what, name: format!("{number}.{end}"), bytes }
}

/// All those of which nothing may be taken.
pub(crate) fn archives() -> Vec<Archive> {
    let tar = tar_archives().into_iter().enumerate();
    let mut all: Vec<_> = tar.map(|(at, (what, bytes))| archive("tar", at, what, bytes)).collect();
    for (at, (what, program)) in zip_programs().into_iter().enumerate() {
        all.push(archive("zip", at, what, python(&program)));
    }
    for (at, (end, what, program)) in PACKED.into_iter().enumerate() {
        all.push(archive(end, at, what, python(program)));
    }
    all
}

/// Those of which a reader that trusts the wrong header takes something else than the file `a`.
pub(crate) fn of_one_file() -> Vec<Archive> {
    let inner = tarred(&[member(b'0', "hidden", b"x")]);
    // Whoever takes the size of the header sees the inner archive.
    let desync = tarred(&[
        pax(b"13 size=1536\n"),
        Member { size: 0, content: inner[..1536].to_vec(), ..member(b'0', "a", b"") },
    ]);
    let comment = python("z.writestr('a', b'x'); z.comment = b'comment'");
    vec![archive("tar", 100, "desync", desync), archive("zip", 100, "comment", comment)]
}

/// A tar archive by its headers: kind, name, size in the header, content.
#[derive(Clone)]
struct Member {
    kind: u8,
    name: &'static str,
    size: u64,
    content: Vec<u8>,
    link: &'static str,
}

fn member(kind: u8, name: &'static str, content: &[u8]) -> Member {
    Member { kind, name, size: content.len() as u64, content: content.to_vec(), link: "" }
}

/// A header of 512 bytes (POSIX.1-1988, ustar), for a file that everybody may read.
fn header(member: &Member, magic: &[u8; 8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, member.name.as_bytes());
    put(100, b"0000644\0");
    match member.size >> 33 {
        0 => put(124, format!("{:011o}\0", member.size).as_bytes()),
        // As GNU tar writes what has too many digits.
        _ => put(124, &[&[0x80, 0, 0, 0][..], &member.size.to_be_bytes()].concat()),
    }
    put(148, b"        ");
    put(156, &[member.kind]);
    put(157, member.link.as_bytes());
    put(257, magic);
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn tarred(members: &[Member]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for member in members {
        bytes.extend(header(member, b"ustar\x0000"));
        bytes.extend_from_slice(&member.content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1_024, 0);
    bytes
}

fn link(kind: u8, name: &'static str, link: &'static str) -> Member {
    Member { link, ..member(kind, name, b"") }
}

fn pax(text: &[u8]) -> Member {
    member(b'x', "ext", text)
}

fn tar_archives() -> Vec<(&'static str, Vec<u8>)> {
    let sparse = header(&member(b'S', "s", b""), b"ustar  \0");
    let mut behind = tarred(&[member(b'0', "a", b"x")]);
    behind.extend(tarred(&[member(b'0', "b", b"x")]));
    let huge = Member { size: 1 << 40, ..member(b'L', "././@LongLink", &[b'a'; 300_000]) };
    let mut cut = tarred(&[member(b'0', "good", b"x"), member(b'0', "a", &[7; 700])]);
    cut.truncate(2_000);
    vec![
        ("up", tarred(&[member(b'0', "../a", b"x")])),
        ("absolute", tarred(&[member(b'0', "/a", b"x")])),
        ("backslash", tarred(&[member(b'0', "a\\..\\b", b"x")])),
        ("inside up", tarred(&[member(b'0', "a/../../b", b"x")])),
        ("symlink", tarred(&[link(b'2', "a", "/etc/passwd")])),
        ("symlink as folder", tarred(&[link(b'2', "a", "/etc"), member(b'0', "a/b", b"x")])),
        ("hard link", tarred(&[member(b'0', "b", b"x"), link(b'1', "a", "b")])),
        ("character device", tarred(&[member(b'3', "a", b"")])),
        ("block device", tarred(&[member(b'4', "a", b"")])),
        ("pipe", tarred(&[member(b'6', "a", b"")])),
        ("folder up", tarred(&[member(b'5', "../a/", b"")])),
        ("twice", tarred(&[member(b'0', "a", b"1"), member(b'0', "A", b"2")])),
        ("file and folder", tarred(&[member(b'0', "a", b"1"), member(b'0', "a/b", b"2")])),
        ("sparse", [sparse, vec![0; 1_024]].concat()),
        ("pax sparse", tarred(&[pax(b"22 GNU.sparse.major=1\n"), member(b'0', "a", b"x")])),
        ("pax path", tarred(&[pax(b"13 path=../b\n"), member(b'0', "a", b"x")])),
        ("two sizes", tarred(&[pax(b"10 size=1\n10 size=0\n"), member(b'0', "a", b"x")])),
        ("signed size", tarred(&[pax(b"11 size=+1\n"), member(b'0', "a", b"x")])),
        ("huge long name", tarred(&[huge])),
        ("two archives", behind),
        ("folder with content", tarred(&[member(b'5', "a/", b"x")])),
        ("name in Latin-1", tarred(&[pax(b"11 path=\xe4a\n"), member(b'0', "a", b"x")])),
        ("cut in its second file", cut),
        ("good, then up", tarred(&[member(b'0', "good", b"x"), member(b'0', "../a", b"x")])),
    ]
}

/// Compressed ones: an end, and a program as [`python`] runs it.
const PACKED: [(&str, &str, &str); 5] = [
    (
        "zip",
        "bomb",
        "z.writestr('good', 'x'); z.writestr('b', bytes(8 << 20), zipfile.ZIP_DEFLATED)",
    ),
    (
        "zip",
        "bomb of many",
        "[z.writestr(str(n), bytes(2 << 20), zipfile.ZIP_DEFLATED) for n in range(9)]",
    ),
    ("tgz", "bomb", "late = tarred + 'add(bytes(8 << 20)); end()'"),
    ("tgz", "cut", "late = tarred + 'add(b\"x\" * 5000); end(); del data[-9:]'"),
    ("tgz", "damaged", "late = tarred + 'add(b\"x\" * 5000); end(); data[-6] ^= 1'"),
];

/// Writes an archive of two files, `good` and `b`, as `.tar.gz`.
const TARRED: &str = "
import tarfile
packed = io.BytesIO()
t = tarfile.open(fileobj=packed, mode='w:gz')
def one(name, content):
    i = tarfile.TarInfo(name)
    i.size = len(content)
    t.addfile(i, io.BytesIO(content))
def add(content):
    one('good', b'x')
    one('b', content)
def end():
    t.close()
    data[:] = packed.getvalue()
";

/// Runs a program of Python that writes a zip archive called `z` into `data`; what it calls `late`
/// is run when the archive is whole.
pub(crate) fn python(program: &str) -> Vec<u8> {
    let start = "import io, sys, zipfile\nout = io.BytesIO()\nz = zipfile.ZipFile(out, 'w')\n";
    let end =
        "z.close()\ndata = bytearray(out.getvalue())\nexec(late)\nsys.stdout.buffer.write(data)";
    let program = format!("late = ''\ntarred = r\"\"\"{TARRED}\"\"\"\n{start}{program}\n{end}\n");
    let ended = Command::new("python3").args(["-c", &program]).output().unwrap();
    assert!(ended.status.success(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
    ended.stdout
}

fn zip_programs() -> Vec<(&'static str, String)> {
    let info = "i = zipfile.ZipInfo('a')\n";
    let unix = "i.create_system = 3\n";
    let two = "z.writestr('a', b'x' * 50); z.writestr('b', b'y' * 50)\n";
    let late = |first: &str, last: &str| format!("{first}\nlate = r\"\"\"\n{last}\n\"\"\"");
    let plain = "z.writestr('a', b'x')";
    let directory = r"at = data.rindex(b'PK\x01\x02'); ";
    vec![
        ("up", "z.writestr('../a', b'x')".into()),
        ("absolute", "z.writestr('/a', b'x')".into()),
        ("backslash", late("z.writestr('a/b', b'x')", r"data = data.replace(b'a/b', b'a\x5cb')")),
        ("drive", "z.writestr('C:a', b'x')".into()),
        ("nul", late("z.writestr('a_b', b'x')", r"data = data.replace(b'a_b', b'a\x00b')")),
        ("symlink", format!("{info}{unix}i.external_attr = 0o120777 << 16\nz.writestr(i, '/etc')")),
        ("device", format!("{info}{unix}i.external_attr = 0o020666 << 16\nz.writestr(i, '')")),
        ("twice", "z.writestr('a', b'1'); z.writestr('A', b'2')".into()),
        ("same twice", "z.writestr('a', b'1'); z.writestr('a', b'2')".into()),
        ("file and folder", "z.writestr('a', b'1'); z.writestr('a/b', b'2')".into()),
        // The directory says 'b', the header before the file 'a'.
        ("two names", late(plain, &format!("{directory}data[at + 46] = ord('b')"))),
        ("hidden", format!("{two}z.filelist.pop()")),
        // Both entries of the directory lead to the same bytes.
        ("overlap", format!("{two}z.filelist[1].header_offset = 0")),
        ("bad checksum", late("z.writestr('a', b'xxxxxx')", "data[data.index(b'xxx')] ^= 1")),
        ("encrypted", late(plain, &format!("{directory}data[6] |= 1; data[at + 8] |= 1"))),
        ("tail", late(plain, "data += b'tail'")),
        ("before", late(plain, "data = b'start' + data")),
        ("two ends", r"z.writestr('a', b'x'); z.comment = b'PK\x05\x06' + bytes(18)".into()),
        ("claims", late(plain, r"data[-14:-10] = b'\xff\xff\xff\xff'")),
        ("many", "[z.writestr(str(n), b'') for n in range(10001)]".into()),
        ("folder with content", "z.writestr('a/', b'x')".into()),
    ]
}
