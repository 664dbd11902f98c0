//! Connections that are refused before anything is served: the client is told why, and the
//! connection closed in a way that lets it read that.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::limits::{REFUSAL_BYTES, REFUSAL_TIME};

/// A connection for which there is no room.
#[derive(Debug)]
pub struct Refused {
    /// `None`: many are being told at this moment, so this one is not waited for.
    permit: Option<OwnedSemaphorePermit>,
}

impl Refused {
    pub(crate) fn new(told: &Arc<Semaphore>) -> Self {
        Refused { permit: Arc::clone(told).try_acquire_owned().ok() }
    }

    /// Says `words` and closes the connection. A socket that is closed over bytes which were not
    /// read is reset, and clients then show the reset and not the words: so what the client sends
    /// is read until it closes its side too.
    pub(crate) async fn tell(self, mut stream: TcpStream, words: &[u8]) {
        if self.permit.is_none() {
            let _ = stream.try_write(words);
            return;
        }
        let telling = async {
            stream.write_all(words).await?;
            stream.shutdown().await?;
            let (mut unread, mut left) = ([0; 1024], REFUSAL_BYTES);
            while left > 0 {
                let count = stream.read(&mut unread).await?;
                if count == 0 {
                    break;
                }
                left = left.saturating_sub(count);
            }
            Ok::<(), std::io::Error>(())
        };
        // Whether it was heard changes nothing.
        let _ = timeout(REFUSAL_TIME, telling).await;
    }
}
