//! Permission bits, packet by packet.

use super::*;

const LSTAT: u8 = 7;
const SETSTAT: u8 = 9;
const PERMISSIONS: u32 = 4;

impl Answer {
    /// Permission bits with the type, of ATTRS that have size, owner, mode and times.
    fn mode(&self) -> u32 {
        assert_eq!(self.kind, ATTRS, "{:?}", self.body);
        assert_eq!(self.number(), 15);
        u32::from_be_bytes(self.body[20..24].try_into().unwrap())
    }
}

impl Wire {
    async fn chmod(&mut self, path: &str, mode: u32) -> u32 {
        self.ask(SETSTAT, fields().text(path).u32(PERMISSIONS).u32(mode)).await.code()
    }

    async fn open_with(&mut self, path: &str, flags: u32, mode: u32) -> Vec<u8> {
        let asked = fields().text(path).u32(flags).u32(PERMISSIONS).u32(mode);
        self.ask(OPEN, asked).await.handle()
    }
}

#[tokio::test]
async fn modes_are_set_and_shown_where_files_lie_in_a_directory() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"content");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let before = fixture.mode("/f");
    assert_eq!(wire.stat("/f").await.mode(), 0o100_000 | before);
    // With the type, as psftp, curl and sshfs send it; set-uid is never set.
    assert_eq!(wire.chmod("/f", 0o104_751).await, 0);
    assert_eq!(fixture.mode("/f"), 0o751);
    for kind in [STAT, LSTAT] {
        assert_eq!(wire.ask(kind, fields().text("/f")).await.mode(), 0o100_751);
    }
    let handle = wire.open_file("/f", R).await.handle();
    assert_eq!(wire.ask(FSTAT, fields().text(&handle)).await.mode(), 0o100_751);
    let by_handle = fields().text(&handle).u32(PERMISSIONS).u32(0o640);
    assert_eq!(wire.ask(FSETSTAT, by_handle).await.code(), 0);
    assert_eq!(fixture.mode("/f"), 0o640);
    let of_mount = fixture.mode("/small");
    assert_eq!(wire.chmod("/small", 0o700).await, 0);
    assert_eq!(fixture.mode("/small"), of_mount, "a mount is the operator's");
    assert_eq!(wire.ask(MKDIR, fields().text("/d").u32(PERMISSIONS).u32(0o700)).await.code(), 0);
    assert_eq!(fixture.mode("/d"), 0o700);
    assert_eq!(wire.chmod("/d", 0o750).await, 0);
    assert_eq!(fixture.mode("/d"), 0o750);
    let listing = wire.ask(OPENDIR, fields().text("/")).await.handle();
    let mut shown = Vec::new();
    loop {
        let page = wire.ask(READDIR, fields().text(&listing)).await;
        if page.kind != NAME {
            break;
        }
        shown.extend(page.body);
    }
    for line in ["-rw-r-----   1 ", "drwxr-x---   1 "] {
        assert!(shown.windows(line.len()).any(|part| part == line.as_bytes()), "{line}");
    }
    assert_eq!(wire.chmod("/none", 0o600).await, 2);
    assert_eq!(wire.chmod("/f", 0).await, 0);
    assert_eq!(fixture.mode("/f"), 0o400, "the server may always read it");
    let handle = wire.open_file("/f", R).await.handle();
    assert_eq!(wire.ask(READ, fields().text(&handle).u64(0).u32(9)).await.string(), b"content");
    fixture.stop().await;
}

#[tokio::test]
async fn an_upload_is_published_with_the_mode_its_client_names() {
    let fixture = Fixture::start().await;
    fixture.write("/umask", b"");
    let most = fixture.mode("/umask");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    // At OPEN the umask counts, as with OpenSSH's server.
    for (mode, published) in [(0o100_600, 0o600), (0o666, most), (0o4755, 0o755 & (most | 0o111))] {
        let handle = wire.open_with("/f", W | CREAT | TRUNC, mode).await;
        assert_eq!(wire.write(&handle, 0, b"x").await, 0);
        assert_eq!(wire.ask(FSTAT, fields().text(&handle)).await.mode(), 0o100_000 | mode & 0o777);
        assert!(!fixture.path("/f").exists(), "nothing is seen before CLOSE");
        assert_eq!(wire.close(&handle).await, 0);
        assert_eq!(fixture.mode("/f"), published, "{mode:o}");
        assert_eq!(wire.ask(REMOVE, fields().text("/f")).await.code(), 0);
    }
    // FSETSTAT, as `put -p` of OpenSSH sends it, and SETSTAT of the open upload come before that.
    let handle = wire.open_with("/f", W | CREAT | TRUNC, 0o600).await;
    let exact = fields().text(&handle).u32(PERMISSIONS).u32(0o100_666);
    assert_eq!(wire.ask(FSETSTAT, exact).await.code(), 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.mode("/f"), 0o666);
    // What replaces a file takes over its mode, whatever OPEN said.
    let handle = wire.open_with("/f", W | CREAT | TRUNC, 0o600).await;
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.mode("/f"), 0o666);
    let handle = wire.open_with("/f", W | CREAT | TRUNC, 0o600).await;
    assert_eq!(wire.chmod("/f", 0o620).await, 0);
    assert_eq!(fixture.mode("/f"), 0o666, "not before CLOSE");
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.mode("/f"), 0o620);
    // Opened, not written to: the mode of the file that is there.
    let handle = wire.open_file("/f", W).await.handle();
    let only = fields().text(&handle).u32(PERMISSIONS).u32(0o644);
    assert_eq!(wire.ask(FSETSTAT, only).await.code(), 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(fixture.mode("/f"), 0o644);
    fixture.stop().await;
}

#[tokio::test]
async fn clients_change_the_bits_of_the_mask_and_no_others() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"");
    let before = fixture.mode("/f");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    fixture.mask_modes("0070").await;
    assert_eq!(wire.chmod("/f", 0o070).await, 0);
    assert_eq!(fixture.mode("/f"), before & 0o707 | 0o070);
    assert_eq!(wire.chmod("/f", 0o707).await, 0);
    assert_eq!(fixture.mode("/f"), before & 0o707);
    fixture.mask_modes("0000").await;
    assert_eq!(wire.chmod("/f", 0o777).await, 0, "clients fail their copy otherwise");
    assert_eq!(fixture.mode("/f"), before & 0o707);
    assert_eq!(wire.stat("/f").await.mode(), 0o100_644, "as the rights say");
    fixture.stop().await;
}

#[tokio::test]
async fn a_store_without_modes_takes_them_and_shows_those_of_the_rights() {
    let fixture = Fixture::start_on_objects().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_with("/f", W | CREAT | TRUNC, 0o600).await;
    let exact = fields().text(&handle).u32(PERMISSIONS).u32(0o600);
    assert_eq!(wire.ask(FSETSTAT, exact).await.code(), 0);
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!(wire.chmod("/f", 0o600).await, 0, "behind the upload, as paramiko and psftp do");
    assert_eq!(wire.stat("/f").await.mode(), 0o100_644);
    assert_eq!(wire.chmod("/none", 0o600).await, 2);
    assert_eq!(wire.ask(MKDIR, fields().text("/d").u32(PERMISSIONS).u32(0o700)).await.code(), 0);
    fixture.stop().await;
}

#[tokio::test]
async fn modes_are_passed_on_to_a_server_behind() {
    let fixture = Fixture::start_waiting().await;
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let handle = wire.open_with("/f", W | CREAT | TRUNC, 0o600).await;
    assert_eq!(wire.close(&handle).await, 0);
    assert_eq!((fixture.mode("/f"), wire.stat("/f").await.mode()), (0o600, 0o100_600));
    assert_eq!(wire.chmod("/f", 0o640).await, 0);
    assert_eq!((fixture.mode("/f"), wire.stat("/f").await.mode()), (0o640, 0o100_640));
    fixture.stop().await;
}
