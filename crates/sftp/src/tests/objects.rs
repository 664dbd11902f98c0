//! Real clients on an object store: directories as prefixes, rename by copy, writes in order.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::clients::{good, lftp, rclone, run, text};
use super::fixture::Fixture;
use super::pattern;

#[tokio::test]
async fn openssh_does_its_work_on_an_object_store() {
    let fixture = Fixture::start_on_objects().await;
    // More than one part of a multipart upload.
    let bytes = pattern(12_000_000);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    std::fs::write(fixture.local().join("g"), b"little").unwrap();
    let batch = "mkdir d\nmkdir d/e\nput f d/f\nput -p g d/e/g\nls -la d\nget d/f back\n\
                 rename d/f d/moved\ncp d/moved d/copy\nls -1 d\nls -1 d/e\nrm d/copy\n\
                 rename d/e d/h\nls -1 d/h\nrm d/h/g\nrmdir d/h\n";
    let told = good(&fixture.sftp(&[], batch).await);
    assert!(told.contains("12000000") && told.contains("d/moved"), "{told}");
    assert!(told.contains("d/copy") && told.contains("d/e/g"), "{told}");
    assert_eq!(std::fs::read(fixture.local().join("back")).unwrap(), bytes);
    assert_eq!(fixture.read("/d/moved").unwrap(), bytes);
    assert_eq!((fixture.read("/d/f"), fixture.read("/d/copy")), (None, None));
    // A directory is a prefix of many names: they change one after the other.
    assert!(told.contains("d/h/g"), "{told}");
    let output = fixture.sftp(&[], "ls d/e\n").await;
    assert!(!output.status.success(), "{}", text(&output));
    let output = fixture.sftp(&[], "rmdir d\n").await;
    assert!(!output.status.success(), "d is not empty: {}", text(&output));
    fixture.stop().await;
}

/// Whole parts stay; a writer in random order is tried in vfs.
#[tokio::test]
async fn openssh_goes_on_with_what_was_cut_on_an_object_store() {
    let fixture = Fixture::start_on_objects().await;
    let bytes = pattern(17_000_000);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    let batch = fixture.home.path().join("slow");
    std::fs::write(&batch, "put f f\n").unwrap();
    let mut slow = Command::new("sftp");
    // 80 Mbit/s: time to see the first part arrive and to cut it before the last.
    slow.args(["-F", "none", "-l", "80000", "-b"]).arg(&batch).args(fixture.ssh_options());
    slow.arg("anna@127.0.0.1").current_dir(fixture.local()).kill_on_drop(true);
    let mut slow = slow.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while fixture.parts() < 2 {
        tokio::time::timeout(Duration::from_millis(5), slow.wait()).await.unwrap_err();
    }
    slow.kill().await.unwrap();
    let part = 5 * 1024 * 1024;
    let size = async || {
        let told = text(&fixture.sftp(&[], "ls -l f\n").await);
        told.split_whitespace().find_map(|word| word.parse::<u64>().ok().filter(|n| *n >= part))
    };
    let kept = loop {
        if let Some(size) = size().await
            && size % part == 0
        {
            break size;
        }
    };
    assert!(kept < bytes.len() as u64, "{kept}");
    good(&fixture.sftp(&[], "reput f f\n").await);
    assert!(fixture.read("/f").unwrap() == bytes);
    assert_eq!(fixture.parts(), 0);
    let mut scp = Command::new("scp");
    scp.args(["-F", "none", "-O"]).args(fixture.ssh_options()).args(["f", "anna@127.0.0.1:g"]);
    scp.current_dir(fixture.local());
    good(&run(scp).await);
    assert!(fixture.read("/g").unwrap() == bytes);
    fixture.stop().await;
}

#[tokio::test]
async fn files_on_an_object_store_are_continued_and_replaced() {
    let fixture = Fixture::start_on_objects().await;
    let bytes = pattern(7_000_000);
    std::fs::write(fixture.local().join("f"), &bytes[..3_000_000]).unwrap();
    good(&fixture.sftp(&[], "put f f\n").await);
    std::fs::write(fixture.local().join("f"), &bytes).unwrap();
    good(&fixture.sftp(&[], "reput f f\n").await);
    assert_eq!(fixture.read("/f").unwrap(), bytes, "what is there is copied, the rest is sent");
    std::fs::write(fixture.local().join("half"), &bytes[..5_000_000]).unwrap();
    good(&fixture.sftp(&[], "reget f half\n").await);
    assert_eq!(std::fs::read(fixture.local().join("half")).unwrap(), bytes);
    // scp 9 opens what is there without truncating it, writes all, then sets the size.
    std::fs::write(fixture.local().join("short"), &bytes[..1_000_000]).unwrap();
    let mut scp = Command::new("scp");
    scp.args(["-F", "none"]).args(fixture.ssh_options()).args(["short", "anna@127.0.0.1:f"]);
    scp.current_dir(fixture.local());
    good(&run(scp).await);
    assert_eq!(fixture.read("/f").unwrap(), &bytes[..1_000_000]);
    good(&lftp(&fixture, "put short -o x; mv x y; get y -o again; rm y").await);
    assert_eq!(std::fs::read(fixture.local().join("again")).unwrap(), &bytes[..1_000_000]);
    good(&rclone(&fixture, &["copyto", "short", ":sftp:in/here"]).await);
    assert_eq!(fixture.read("/in/here").unwrap(), &bytes[..1_000_000]);
    fixture.stop().await;
}
