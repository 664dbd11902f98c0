//! Messages of OpenPGP of any length in a bounded memory, both ways with GnuPG. A process of its
//! own, because it looks at what the process takes. `OPENPGP_MIB=5120 cargo test --release -p
//! entrepot-transform --test openpgp_memory -- --nocapture` is the full length.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use entrepot_nouns::Env;
use entrepot_transform::Bounds;
use entrepot_transform::openpgp::{self, Armor, Opened, PublicKey, Sealing, SecretKey};

/// What the process may take more than before, in KiB.
const MOST_KIB: u64 = 32 * 1024;

/// What packs no byte into fewer.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A file of so many bytes that lies nowhere.
struct Content {
    at: u64,
    size: u64,
}

impl Read for Content {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let length = into.len().min(left);
        for (place, to) in (self.at..).zip(&mut into[..length]) {
            *to = byte(place);
        }
        self.at += length as u64;
        Ok(length)
    }
}

/// Takes that file and no other.
struct Same(u64);

impl Write for Same {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let is_same = (self.0..).zip(bytes).all(|(at, it)| byte(at) == *it);
        assert!(is_same, "another byte behind {}", self.0);
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A line of what the kernel says of this process, in KiB.
fn memory_kib(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = status.lines().find_map(|it| it.strip_prefix(line)).unwrap();
    found.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The most that the process took meanwhile beyond what it had before, in KiB.
fn taken_by(work: impl FnOnce()) -> u64 {
    // From here on the peak is counted anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory_kib("VmRSS:");
    work();
    memory_kib("VmHWM:").saturating_sub(before)
}

fn gpg(home: &Path) -> Command {
    let mut gpg = Command::new("gpg");
    gpg.env("GNUPGHOME", home).args(["--batch", "--no-tty", "--quiet", "--yes"]);
    gpg.args(["--trust-model", "always", "--pinentry-mode", "loopback"]);
    gpg
}

fn printed(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn piped(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Writes to a program and reads from it at the same time.
fn through(
    command: &mut Command,
    write: impl FnOnce(std::process::ChildStdin) + Send,
    read: impl FnOnce(std::process::ChildStdout),
) {
    let mut child = piped(command);
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || write(stdin));
        read(stdout);
    });
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_long_message_takes_no_more_memory_than_a_short_one() {
    let mib = std::env::var("OPENPGP_MIB").map_or(96, |mib| mib.parse::<u64>().unwrap());
    let size = mib << 20;
    let private = std::fs::Permissions::from_mode(0o700);
    let home = tempfile::Builder::new().permissions(private).tempdir_in("/tmp").unwrap();
    for name in ["ours", "theirs"] {
        let make = ["--passphrase", "", "--quick-gen-key", name, "rsa2048", "sign", "0"];
        printed(gpg(home.path()).args(make));
        let listed = printed(gpg(home.path()).args(["--with-colons", "--list-keys", name]));
        let listed = String::from_utf8(listed).unwrap();
        let print = listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
        let print = print.trim_end_matches(':');
        let add = ["--passphrase", "", "--quick-add-key", print, "rsa2048", "encr"];
        printed(gpg(home.path()).args(add));
    }
    let public = |name: &str| {
        let armored = printed(gpg(home.path()).args(["--armor", "--export", name]));
        PublicKey::parse(&armored).unwrap()
    };
    let theirs = public("theirs");
    let secret = printed(gpg(home.path()).args(["--export-secret-keys", "ours"]));
    let secret = SecretKey::parse(&secret).unwrap();
    let env = Env::real();

    let taken = taken_by(|| {
        let seal = |stdin| {
            let sealing = Sealing {
                to: &[&theirs],
                signers: &[&secret],
                armor: Armor::Binary,
                at: env.now(),
            };
            openpgp::encrypt(&sealing, &env, Content { at: 0, size }, stdin).unwrap();
        };
        through(gpg(home.path()).arg("--decrypt"), seal, |mut stdout| {
            let mut same = Same(0);
            std::io::copy(&mut stdout, &mut same).unwrap();
            assert_eq!(same.0, size, "gpg has the whole file");
        });
    });
    println!("{mib} MiB signed and encrypted: {taken} KiB");
    assert!(taken <= MOST_KIB, "{taken} KiB to encrypt {mib} MiB");

    let taken = taken_by(|| {
        let give = |mut stdin| {
            std::io::copy(&mut Content { at: 0, size }, &mut stdin).unwrap();
        };
        let sealing = ["--recipient", "ours", "--local-user", "theirs", "--sign", "--encrypt"];
        through(gpg(home.path()).args(sealing), give, |stdout| {
            let bounds = Bounds { output_bytes: size, ..Bounds::default() };
            let wanted = Opened { signed_by: &[&theirs], at: env.now(), bounds };
            let mut same = Same(0);
            openpgp::decrypt(&wanted, &[&secret], stdout, &mut same).unwrap();
            assert_eq!(same.0, size, "the whole file came of it");
        });
    });
    println!("{mib} MiB decrypted and verified: {taken} KiB");
    assert!(taken <= MOST_KIB, "{taken} KiB to decrypt {mib} MiB");
    // Its agent holds the folder.
    let mut kill = Command::new("gpgconf");
    let _ = kill.env("GNUPGHOME", home.path()).args(["--kill", "all"]).status();
}
