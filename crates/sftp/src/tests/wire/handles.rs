//! Handles as clients keep them: russh-sftp as text, which takes none that is not UTF-8.

use super::*;

#[tokio::test]
async fn handles_are_text_however_many_files_were_opened() {
    let fixture = Fixture::start().await;
    fixture.write("/f", b"content");
    let client = login(&fixture).await;
    let mut wire = Wire::open(&client).await;
    let mut open = Vec::new();
    for _ in 0..1000 {
        let handle = wire.open_file("/f", R).await.handle();
        assert!(handle.iter().all(u8::is_ascii_alphanumeric), "{handle:?}");
        open.push(handle);
    }
    let read = wire.ask(READ, fields().text(&open[999]).u64(0).u32(100)).await;
    assert_eq!(read.string(), b"content");
    for handle in &open {
        assert_eq!(wire.close(handle).await, 0);
    }
    // One place for a thousand files, one after the other.
    for _ in 0..1000 {
        let handle = wire.open_file("/f", R).await.handle();
        assert!(handle.iter().all(u8::is_ascii_alphanumeric), "{handle:?}");
        assert!(!open.contains(&handle), "a handle is given twice");
        assert_eq!(wire.close(&handle).await, 0);
    }
    fixture.stop().await;
}
