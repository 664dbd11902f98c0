//! Writes events to a file before they are deleted: a line of JSON for each, byte for byte as it
//! was recorded, compressed by zstd. The file appears at the endpoint whole or not at all.

use std::io::Write as _;

use bytes::Bytes;
use entrepot_crypto::{HashAlgorithm, Hasher};
use entrepot_nouns::event::ExportedFile;
use entrepot_nouns::{Name, StorePath, TransferId};
use entrepot_storage::{
    AnyStore, Existing, Publish, StagedFile, StoreError, make_directories_above,
};

use super::error::{Result, RetentionError};
use crate::limits::RETENTION_ZSTD_LEVEL;

type Encoder = zstd::stream::write::Encoder<'static, Vec<u8>>;

/// A file that is being written.
pub(crate) struct Export {
    staged: Box<dyn StagedFile>,
    endpoint: Name,
    path: StorePath,
    encoder: Encoder,
    digest: Hasher,
    written: u64,
}

impl Export {
    /// Begins a file at `path`, and makes the folders above it.
    pub(crate) async fn begin(
        store: AnyStore,
        endpoint: Name,
        path: &str,
        id: TransferId,
    ) -> Result<Export> {
        let failed =
            |problem: String| RetentionError::Export { endpoint: endpoint.clone(), problem };
        let path: StorePath = path.parse().map_err(|_| failed(format!("'{path}' is no path")))?;
        let of_store = |error: StoreError| failed(format!("'{path}': {error}"));
        make_directories_above(&store, &path).await.map_err(of_store)?;
        let staged = store.stage(id, &path).await.map_err(of_store)?;
        let encoder = Encoder::new(Vec::new(), RETENTION_ZSTD_LEVEL);
        let encoder = encoder.map_err(|error| failed(error.to_string()))?;
        let digest = Hasher::new(HashAlgorithm::Sha256);
        Ok(Export { staged, endpoint, path, encoder, digest, written: 0 })
    }

    fn failed(&self, problem: &str) -> RetentionError {
        let problem = format!("'{}': {problem}", self.path);
        RetentionError::Export { endpoint: self.endpoint.clone(), problem }
    }

    /// Appends lines; how many bytes of them are at the endpoint already depends on zstd.
    pub(crate) async fn write(self, lines: Vec<String>) -> Result<Export> {
        let work = move |mut encoder: Encoder| {
            for line in &lines {
                encoder.write_all(line.as_bytes())?;
                encoder.write_all(b"\n")?;
            }
            let compressed = std::mem::take(encoder.get_mut());
            Ok((compressed, encoder))
        };
        let Export { staged, endpoint, path, encoder, digest, written } = self;
        let compressed = tokio::task::spawn_blocking(move || work(encoder)).await;
        let compressed: std::io::Result<(Vec<u8>, Encoder)> =
            compressed.unwrap_or_else(|_| Err(std::io::Error::other("the thread has ended")));
        let (bytes, encoder) = compressed.map_err(|error| {
            let problem = format!("'{path}': {error}");
            RetentionError::Export { endpoint: endpoint.clone(), problem }
        })?;
        let export = Export { staged, endpoint, path, encoder, digest, written };
        export.append(bytes).await
    }

    async fn append(mut self, bytes: Vec<u8>) -> Result<Export> {
        if bytes.is_empty() {
            return Ok(self);
        }
        self.digest.update(&bytes);
        let (at, size) = (self.written, bytes.len() as u64);
        let appended = self.staged.write_at(at, Bytes::from(bytes)).await;
        appended.map_err(|error| self.failed(&error.to_string()))?;
        self.written += size;
        Ok(self)
    }

    /// Ends the file, durably, under its name. One that is there already is from an attempt that
    /// did not get as far as deleting.
    pub(crate) async fn publish(mut self) -> Result<ExportedFile> {
        self.encoder.do_finish().map_err(|error| self.failed(&error.to_string()))?;
        let bytes = std::mem::take(self.encoder.get_mut());
        let export = self.append(bytes).await?;
        let size = export.written;
        let how = Publish {
            existing: Existing::Replace,
            accessed: None,
            modified: None,
            mode: None,
            size,
        };
        export.staged.sync().await.map_err(|error| export.failed(&error.to_string()))?;
        export.staged.publish(&how).await.map_err(|error| export.failed(&error.to_string()))?;
        let Export { endpoint, path, digest, .. } = export;
        let sha256 = entrepot_nouns::transfer::hex(&digest.finish());
        Ok(ExportedFile { endpoint, path: path.to_string(), size, sha256 })
    }
}
