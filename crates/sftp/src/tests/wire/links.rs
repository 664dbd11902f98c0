//! Symbolic links where the mount offers them, packet by packet.

use super::*;

const LSTAT: u8 = 7;
const SETSTAT: u8 = 9;
const REMOVE: u8 = 13;
const SYMLINK: u8 = 20;

impl Answer {
    /// The type bits of ATTRS.
    fn file_type(&self) -> u32 {
        assert_eq!(self.kind, ATTRS, "{:?}", self.body);
        u32::from_be_bytes(self.body[20..24].try_into().unwrap()) & 0o170_000
    }

    /// The name of a NAME with one.
    fn one_name(&self) -> String {
        assert_eq!((self.kind, self.number()), (NAME, 1));
        let len = u32::from_be_bytes(self.body[4..8].try_into().unwrap()) as usize;
        String::from_utf8(self.body[8..8 + len].to_vec()).unwrap()
    }
}

impl Wire {
    async fn symlink(&mut self, target: &str, link: &str) -> u32 {
        self.ask(SYMLINK, fields().text(target).text(link)).await.code()
    }

    async fn lstat(&mut self, path: &str) -> Answer {
        self.ask(LSTAT, fields().text(path)).await
    }

    async fn read_link(&mut self, path: &str) -> Answer {
        self.ask(READLINK, fields().text(path)).await
    }
}

#[tokio::test]
async fn links_are_made_read_and_told_from_what_they_lead_to() {
    let fixture = Fixture::start().await;
    fixture.allow_links().await;
    std::fs::create_dir(fixture.path("/d")).unwrap();
    fixture.write("/d/f", b"content");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    assert_eq!(wire.symlink("d/f", "/l").await, 0);
    assert_eq!(wire.symlink("/d", "/d/up").await, 0);
    assert_eq!(std::fs::read_link(fixture.path("/l")).unwrap().to_str(), Some("d/f"));
    assert_eq!(wire.read_link("/l").await.one_name(), "d/f");
    assert_eq!(wire.read_link("/d/up").await.one_name(), ".");
    let (stat, lstat) = (wire.stat("/l").await, wire.lstat("/l").await);
    assert_eq!((stat.file_type(), stat.size()), (0o100_000, 7));
    assert_eq!((lstat.file_type(), lstat.size()), (0o120_000, 3));
    assert_eq!(wire.stat("/d/up").await.file_type(), 0o040_000);
    let listing = wire.ask(OPENDIR, fields().text("/d/up")).await.handle();
    let found = wire.ask(READDIR, fields().text(&listing)).await;
    let text = String::from_utf8_lossy(&found.body).into_owned();
    assert!(text.contains("lrwxrwxrwx"), "{text:?}");
    let handle = wire.open_file("/l", R).await.handle();
    assert_eq!(wire.ask(FSTAT, fields().text(&handle)).await.file_type(), 0o100_000);
    let read = wire.ask(READ, fields().text(&handle).u64(0).u32(100)).await;
    assert_eq!(read.string(), b"content");
    for (path, code) in [("/l", 4), ("/d", 4), ("/d/none/x", 2)] {
        assert_eq!(wire.symlink("x", path).await, code, "{path}");
    }
    assert_eq!(wire.read_link("/d/f").await.code(), 4, "it is no link");
    for target in ["../f", "/small/f", "../../etc/passwd", "/small"] {
        assert_eq!(wire.symlink(target, "/m").await, 3, "{target}");
    }
    // One outside of the mount, by somebody else's hand.
    std::os::unix::fs::symlink("/etc/passwd", fixture.path("/planted")).unwrap();
    assert_eq!(wire.lstat("/planted").await.file_type(), 0o120_000);
    assert_eq!(wire.read_link("/planted").await.code(), 3);
    assert_eq!(wire.stat("/planted").await.code(), 3);
    assert_eq!(wire.open_file("/planted", R).await.code(), 3);
    assert_eq!(wire.open_file("/planted", W | CREAT | TRUNC).await.code(), 3);
    assert_eq!(wire.ask(REMOVE, fields().text("/planted")).await.code(), 0);
    assert!(fixture.path("/planted").symlink_metadata().is_err());
    fixture.stop().await;
}

#[tokio::test]
async fn uploads_and_attributes_go_through_links_to_their_file() {
    let fixture = Fixture::start().await;
    fixture.allow_links().await;
    fixture.write("/f", b"old");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    assert_eq!(wire.symlink("f", "/l").await, 0);
    let handle = wire.open_file("/l", W | CREAT | TRUNC).await.handle();
    assert_eq!(wire.write(&handle, 0, b"newer").await, 0);
    // The open upload is seen under both names; the link is still one.
    assert_eq!((wire.stat("/l").await.size(), wire.stat("/f").await.size()), (5, 5));
    assert_eq!(wire.lstat("/l").await.file_type(), 0o120_000);
    let size = |path: &str, size: u64| fields().text(path).u32(1).u64(size);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/f").unwrap(), b"newer");
    assert!(fixture.path("/l").is_symlink());
    assert_eq!(wire.open_file("/l", W | CREAT | EXCL).await.code(), 4);
    // Attributes of a file that is only being uploaded, set under its other name.
    assert_eq!(wire.symlink("g", "/to-g").await, 0);
    let handle = wire.open_file("/g", W | CREAT).await.handle();
    assert_eq!(wire.write(&handle, 0, b"123456").await, 0);
    assert_eq!(wire.ask(SETSTAT, size("/to-g", 3)).await.code(), 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.read("/g").unwrap(), b"123");
    let times = |path: &str| fields().text(path).u32(8).u32(7).u32(9);
    assert_eq!(wire.ask(SETSTAT, times("/l")).await.code(), 0);
    let itself =
        |fields: Fields| Fields([&frame_text("lsetstat@openssh.com"), &fields.0[..]].concat());
    assert_eq!(wire.ask(EXTENDED, itself(times("/l"))).await.code(), 8, "a link has no times");
    let mode = fields().text("/l").u32(4).u32(0o600);
    assert_eq!(wire.ask(EXTENDED, itself(mode)).await.code(), 8, "a link has no mode");
    let mode = fields().text("/l").u32(4).u32(0o640);
    assert_eq!(wire.ask(SETSTAT, mode).await.code(), 0, "that of its target");
    use std::os::unix::fs::PermissionsExt as _;
    let target = std::fs::metadata(fixture.path("/f")).unwrap();
    assert_eq!(target.permissions().mode() & 0o7777, 0o640);
    let planted = fields().text("/planted").u32(4).u32(0o641);
    std::os::unix::fs::symlink(fixture.home.path(), fixture.path("/planted")).unwrap();
    assert_eq!(wire.ask(SETSTAT, planted).await.code(), 3);
    let outside = std::fs::metadata(fixture.home.path()).unwrap();
    assert_ne!(outside.permissions().mode() & 0o777, 0o641, "a mode outside of the mount");
    assert_eq!(wire.ask(EXTENDED, itself(times("/f"))).await.code(), 0);
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(std::fs::metadata(fixture.path("/f")).unwrap().mtime(), 9);
    let renamed = wire.ask(RENAME, fields().text("/l").text("/m")).await;
    assert_eq!(renamed.code(), 0);
    assert_eq!(wire.read_link("/m").await.one_name(), "f");
    assert_eq!(wire.ask(REMOVE, fields().text("/m")).await.code(), 0);
    assert_eq!(fixture.read("/f").unwrap(), b"newer");
    fixture.stop().await;
}

/// A string as it lies on the wire.
fn frame_text(text: &str) -> Vec<u8> {
    fields().text(text).0
}

#[tokio::test]
async fn without_the_option_a_link_is_not_there() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"content");
    std::os::unix::fs::symlink("f", fixture.path("/l")).unwrap();
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    assert_eq!(wire.symlink("f", "/m").await, 8);
    for path in ["/l", "/f", "/none", "/"] {
        assert_eq!(wire.read_link(path).await.code(), 8, "{path}");
    }
    for kind in [STAT, LSTAT, REMOVE, OPENDIR] {
        assert_eq!(wire.ask(kind, fields().text("/l")).await.code(), 2, "{kind}");
    }
    assert_eq!(wire.open_file("/l", R).await.code(), 2);
    fixture.stop().await;
}
