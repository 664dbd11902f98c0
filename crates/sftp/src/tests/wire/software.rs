//! What clients do in their own way, by the identification each sends, with its bytes.

use super::*;

/// Logs in under another software's name.
async fn login_as(fixture: &Fixture, software: &str) -> SshClient {
    let stream = TcpStream::connect(fixture.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let pins = HostKeyPins::Pinned(vec![fixture.host_key.clone()]);
    let options = ClientOptions { software: Some(software.to_owned()), ..anna(pins) };
    SshClient::connect(stream, &options).await.unwrap()
}

/// The SYMLINK of clients that send the link first to a server named Entrepot, each as it asks
/// for `/l` that leads to `d/f`: some make paths absolute, ids begin where theirs do.
const LINK_FIRST: &[(&str, &[u8])] = &[
    ("ssh2js1.17.0", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x02/l\0\0\0\x03d/f"),
    ("ssh2js0.4.10", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x02/l\0\0\0\x03d/f"),
    ("phpseclib_3.0 (openssl, gmp)", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x02/l\0\0\0\x03d/f"),
    ("phpseclib_2.0 (libsodium)", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x02/l\0\0\0\x03d/f"),
    ("SSHJ_0.40.0", b"\0\0\0\x11\x14\0\0\0\x01\0\0\0\x01l\0\0\0\x03d/f"),
    ("russh_0.54.1", b"\0\0\0\x12\x14\0\0\0\x02\0\0\0\x02/l\0\0\0\x03d/f"),
    ("libssh_0.10.6", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x02/l\0\0\0\x03d/f"),
    ("libssh-0.5.2", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x02/l\0\0\0\x03d/f"),
    ("AsyncSSH_2.24.0", b"\0\0\0\x12\x14\0\0\0\0\0\0\0\x02/l\0\0\0\x03d/f"),
    ("WinSCP_release_6.3.3", b"\0\0\0\x12\x14\0\0\x02\x14\0\0\0\x02/l\0\0\0\x03d/f"),
    ("Twisted_24.3.0", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x02/l\0\0\0\x03d/f"),
    ("Erlang/4.15.3", b"\0\0\0\x11\x14\0\0\0\x01\0\0\0\x01l\0\0\0\x03d/f"),
];

/// The same of clients that send the target first, as OpenSSH's.
const TARGET_FIRST: &[(&str, &[u8])] = &[
    ("OpenSSH_9.2p1 Debian-2+deb12u3", b"\0\0\0\x12\x14\0\0\0\x05\0\0\0\x03d/f\0\0\0\x02/l"),
    ("paramiko_5.1.0", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x03d/f\0\0\0\x02/l"),
    ("libssh2_1.10.0", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x03d/f\0\0\0\x02/l"),
    ("Go", b"\0\0\0\x11\x14\0\0\0\x01\0\0\0\x03d/f\0\0\0\x01l"),
    ("JSCH_0.2.20", b"\0\0\0\x12\x14\0\0\0\x02\0\0\0\x03d/f\0\0\0\x02/l"),
    ("APACHE-SSHD-2.15.0", b"\0\0\0\x12\x14\0\0\0\x64\0\0\0\x03d/f\0\0\0\x02/l"),
    ("Renci.SshNet.SshClient.2024.2.0", b"\0\0\0\x13\x14\0\0\0\x02\0\0\0\x04/d/f\0\0\0\x02/l"),
    ("Ruby/Net::SSH_7.0.1 x86_64-linux", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x03d/f\0\0\0\x02/l"),
    // Made of sshj, whose paths it turns round.
    ("Cyberduck/9.1.3.42945 (Linux/6.1)", b"\0\0\0\x12\x14\0\0\0\x01\0\0\0\x03d/f\0\0\0\x02/l"),
];

#[tokio::test]
async fn every_client_gets_its_link_the_right_way_round() {
    let fixture = Fixture::start().await;
    fixture.allow_links().await;
    std::fs::create_dir(fixture.path("/d")).unwrap();
    fixture.write("/d/f", b"content");
    for (software, packet) in LINK_FIRST.iter().chain(TARGET_FIRST) {
        let client = login_as(&fixture, software).await;
        let mut wire = Wire::open(&client).await;
        wire.send_bytes(packet.to_vec()).await;
        let answer = wire.answer().await.unwrap();
        assert_eq!(answer.code(), 0, "{software}: {:?}", String::from_utf8_lossy(&answer.body));
        let link = std::fs::read_link(fixture.path("/l")).unwrap();
        assert_eq!(link.to_str(), Some("d/f"), "{software}");
        std::fs::remove_file(fixture.path("/l")).unwrap();
    }
    fixture.stop().await;
}

#[tokio::test]
async fn the_links_of_all_that_are_named_are_tested() {
    let named = entrepot_sftp_proto::software::SOFTWARE.iter();
    for row in named.filter(|row| row.symlinks == entrepot_sftp_proto::SymlinkOrder::LinkFirst) {
        let tested = LINK_FIRST.iter().any(|(software, _)| software.starts_with(row.prefix));
        assert!(tested, "{}", row.prefix);
    }
}

#[tokio::test]
async fn hashes_are_announced_by_all_their_names_and_told_as_the_client_reads_them() {
    let fixture = Fixture::start().await;
    fixture.write("/f", &pattern(600));
    let client = login_as(&fixture, "APACHE-SSHD-2.15.0").await;
    let mut wire = Wire::raw(&client).await;
    wire.send_frame(INIT, &fields().u32(6)).await;
    let version = wire.frame().await.unwrap();
    for name in ["check-file-name", "check-file-handle", "check-file"] {
        let pair = fields().text(name).text("1").0;
        assert!(version.windows(pair.len()).any(|part| part == pair), "{name}");
    }
    // Apache SSHD wants the word first, and each hash as a string.
    let handle = wire.open_file("/f", R).await.handle();
    let hash = entrepot_vfs::HashAlgorithm::named("md5").unwrap();
    let bytes = pattern(600);
    let (one, other) = bytes.split_at(512);
    for (name, target) in [("check-file-name", &b"/f"[..]), ("check-file-handle", &handle)] {
        let asked = fields().text(name).text(target).text("md5").u64(0).u64(0).u32(512);
        let answer = wire.ask(EXTENDED, asked).await;
        let hashes = fields().text(hash.hash(one)).text(hash.hash(other));
        let expected = [fields().text("check-file").text("md5").0, hashes.0].concat();
        assert_eq!((answer.kind, answer.body), (EXTENDED_REPLY, expected), "{name}");
    }
    // Others get the draft's answer by the same names.
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let asked = fields().text("check-file-name").text("/f").text("md5").u64(0).u64(0).u32(0);
    let answer = wire.ask(EXTENDED, asked).await;
    let expected = [fields().text("md5").0, hash.hash(&pattern(600))].concat();
    assert_eq!(answer.body, expected);
    fixture.stop().await;
}
